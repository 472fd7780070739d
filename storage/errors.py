"""The error family of labelscape: a message says what was found, where, what was expected and what to do."""


class LabelscapeError(Exception):
    """Base of every error that a user can act on; only its text is shown, without a traceback."""


class ConfigError(LabelscapeError):
    """A configuration does not match its schema, or settings contradict each other."""


class SourceError(LabelscapeError):
    """Data given by the user cannot be read."""


class TransientError(LabelscapeError):
    """An error that running the stages again may resolve.

    Parameters
    ----------
    found : str
        What was found, without a full stop.
    advice : str, optional
        What the user should do if the stages are not run again automatically.
    """

    def __init__(self, found: str, advice: str = "") -> None:
        super().__init__(found, advice)
        self.found = found
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.found}; {self.advice}." if self.advice else f"{self.found}."


class SourceChanged(SourceError, TransientError):
    """Data changed between listing and reading, for example during an upload."""


class StageError(LabelscapeError):
    """A stage cannot be computed with these data and settings."""


class StoreError(LabelscapeError):
    """The artifact store cannot do what was asked (disk full, read-only, foreign files)."""


class ArtifactDamaged(StoreError, TransientError):
    """The bytes of an artifact do not match its digest; it has been moved to quarantine."""


class ArtifactGone(ArtifactDamaged):
    """An artifact is not stored as its reference says, because another process removed or replaced it.

    As with a damaged artifact, running the stages again finds the new one or computes it.
    """


class StoreUnreachable(LabelscapeError):
    """A shared store does not answer or denies access, so it is unknown whether an artifact is stored."""


class TrackingError(LabelscapeError):
    """The tracking server or database cannot be reached or rejects a request."""


class ServiceError(LabelscapeError):
    """A local server did not start, stop or answer."""


class ServiceDown(ServiceError):
    """A server that is not essential does not answer."""
