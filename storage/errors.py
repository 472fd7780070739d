"""One family of errors: each message says what was found, where, what was expected and what to do."""


class LabelscapeError(Exception):
    """Base of every error that a user can act on; its text is shown alone, without a traceback."""


class ConfigError(LabelscapeError):
    """A configuration that does not fit its schema, or settings that contradict each other."""


class SourceError(LabelscapeError):
    """Data given by the user that cannot be read as it is."""


class Passing(LabelscapeError):
    """What going through the stages once more may mend.

    Parameters
    ----------
    found : str
        What was found, without a full stop.
    advice : str, optional
        What to do where nobody goes through them once more.
    """

    def __init__(self, found: str, advice: str = "") -> None:
        super().__init__(found, advice)
        self.found = found
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.found}; {self.advice}." if self.advice else f"{self.found}."


class SourceChanged(SourceError, Passing):
    """Data that changed between being listed and being read, as an upload does it."""


class StageError(LabelscapeError):
    """A stage that cannot do its work with these data and settings."""


class StoreError(LabelscapeError):
    """The artifact store cannot do what was asked (disk full, read-only, foreign files)."""


class ArtifactDamaged(StoreError, Passing):
    """An artifact whose bytes do not match its digest; it has been set aside."""


class ArtifactGone(ArtifactDamaged):
    """An artifact that is not there as its reference says, since another process set it aside or replaced it.

    As with a damaged one, who goes through the stages again finds the new one or computes it.
    """


class StoreUnreachable(LabelscapeError):
    """A shared store that does not answer or refuses; whether an artifact is there cannot be said."""


class TrackingError(LabelscapeError):
    """The tracking server or database cannot be reached or refuses."""


class ServiceError(LabelscapeError):
    """A local server did not start, stop or answer."""


class ServiceDown(ServiceError):
    """A server that work can go on without does not answer."""
