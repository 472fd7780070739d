"""Find out why a database file could not be used, and what to do about it."""

import errno
import sqlite3

from storage.credentials import hide_secrets

DAMAGED = "damaged"
# Primary result codes of SQLite, and what they mean for the user.
_SQLITE_CODES = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "forbidden",
    sqlite3.SQLITE_PERM: "forbidden",
    sqlite3.SQLITE_CANTOPEN: "forbidden",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_IOERR: "disk",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
}
_SYSTEM_CODES = {
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EFBIG: "full",
    errno.EROFS: "forbidden",
    errno.EACCES: "forbidden",
    errno.EPERM: "forbidden",
    errno.EIO: "disk",
}
_ADVICE = {
    "full": "There is no room to write it: free some space",
    "forbidden": "Make it and its folder readable and writable",
    "locked": "Another program has locked it: close that program",
    "disk": "Check that its disk has space and is healthy",
}


class MigrationFailed(Exception):
    """Migrations that ran in another process failed.

    Parameters
    ----------
    text : str
        The first line of the error.
    kind : str or None
        The result of `error_kind` for it.
    """

    def __init__(self, text: str, kind: str | None = None) -> None:
        super().__init__(text)
        self.kind = kind


def error_kind(error: BaseException) -> str | None:
    """Return `full`, `forbidden`, `locked`, `disk` or `damaged`; None for any other error."""
    cause = root_cause(error)
    if isinstance(cause, MigrationFailed):
        return cause.kind
    if isinstance(cause, sqlite3.Error):
        return _SQLITE_CODES.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
    return _SYSTEM_CODES.get(cause.errno or 0) if isinstance(cause, OSError) else None


def advice(kind: str | None, elsewhere: str) -> str | None:
    """Return what to do about a kind of error; `elsewhere` says how to choose another place."""
    return f"{_ADVICE[kind]}, or {elsewhere}." if kind in _ADVICE else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without passwords; its type if it has no text or an unusual type."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    known = isinstance(error, (OSError, sqlite3.Error, MigrationFailed)) or type(error).__module__.startswith(
        ("mlflow", "sqlalchemy", "alembic", "requests")
    )
    text = hide_secrets(lines[0])[:400]
    return text if known else f"{type(error).__name__}: {text}"


def root_cause(error: BaseException) -> BaseException:
    """Return the error of SQLite or of the system that other errors were raised from."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, (sqlite3.Error, OSError, MigrationFailed)):
            return seen
        seen = seen.__cause__ or seen.__context__
    return error


def sentence(text: str) -> str:
    """Return a text that ends with a full stop."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
