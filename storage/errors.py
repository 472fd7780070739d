"""The error family of labelscape: a message says what was found, where, what was expected and what to do."""


class LabelscapeError(Exception):
    """Base of every error that a user can act on; only its text is shown, without a traceback.

    Attributes
    ----------
    resumable : bool
        Whether the same command can succeed later, without a change to its words or its input.
    """

    resumable = False


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

    resumable = True

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


class DiskFull(StoreError):
    """There is no room to write; finished stages are kept."""

    resumable = True


class ArtifactDamaged(StoreError, TransientError):
    """The bytes of an artifact do not match its digest; it has been moved to quarantine."""


class ArtifactGone(ArtifactDamaged):
    """An artifact is not stored as its reference says, because another process removed or replaced it.

    As with a damaged artifact, running the stages again finds the new one or computes it.
    """


class StoreUnreachable(LabelscapeError):
    """A shared store does not answer or denies access, so it is unknown whether an artifact is stored."""

    resumable = True


class TrackingError(LabelscapeError):
    """The tracking server or database cannot be reached or rejects a request."""


class DatabaseDamaged(LabelscapeError):
    """A database file is damaged or incomplete; a run or `up` sets it aside and creates a new one.

    Parameters
    ----------
    place : str
        The file.
    reason : str
        What is wrong with it, without a full stop.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.place} is damaged ({self.reason}). Restore a copy of it, or start `labelscape run`, "
            "which sets it aside and creates a new one."
        )


class TrackerDamaged(DatabaseDamaged, TrackingError):
    """The database file of a tracker is damaged or incomplete."""


class ServiceError(LabelscapeError):
    """A local server did not start, stop or answer."""


class ServiceDown(ServiceError):
    """A server that is not essential does not answer."""

    resumable = True


class LoginNeeded(ServiceDown):
    """A server answers but does not accept the login of this program."""

    resumable = False
