"""Explain errors of a tracking database or server: what happened, where, and what to do."""

import contextlib
import errno
import re
import sqlite3
from collections.abc import Iterator

from storage.credentials import hide_secrets
from storage.errors import LabelscapeError, TrackerDamaged, TrackingError
from storage.tracking.addresses import is_http, sqlite_file
from storage.tracking.logins import REFUSALS, login_needed
from storage.urls import redact

DAMAGED = "damaged"
_ELSEWHERE = "or set tracking.uri to another place."
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
    "full": f"There is no room to write it: free some space, {_ELSEWHERE}",
    "forbidden": f"Make it and its folder readable and writable, {_ELSEWHERE}",
    "locked": f"Another program has locked it: close that program, {_ELSEWHERE}",
    "disk": f"Check that its disk has space and is healthy, {_ELSEWHERE}",
}


_DEFAULT_ADVICE = "Check the address (tracking.uri) and that it is writable."
# Errors of a server or database that needs a login.
_REFUSED = re.compile(r"\b40[13]\b|authenticat|password|access denied|latin-1", re.IGNORECASE)
_LOGIN_ADVICE = (
    "Give the user and the password in tracking.uri of a configuration file, or as "
    "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (letters beyond Latin-1 only there)."
)


@contextlib.contextmanager
def tracking_errors(uri: str) -> Iterator[None]:
    """Turn every error of MLflow and its libraries into a TrackingError; a tracker must not end a run."""
    try:
        yield
    except LabelscapeError:
        raise
    except Exception as error:
        raise explain_error(uri, error) from error


def explain_error(uri: str, error: Exception) -> TrackingError:
    """Return the error of one line that names the address, the cause and what to do."""
    file = sqlite_file(uri)
    if is_http(uri) and (status := _http_status(error)) in REFUSALS:
        return login_needed(uri, status)
    kind = error_kind(error)
    if kind == DAMAGED and file is not None:
        return TrackerDamaged(str(file), first_line(_root_cause(error)))
    advice = _ADVICE.get(kind or "", _LOGIN_ADVICE if _REFUSED.search(str(error)) else _DEFAULT_ADVICE)
    return TrackingError(f"tracking at {redact(uri)}: {_sentence(first_line(error))} {advice}")


def error_kind(error: BaseException) -> str | None:
    """Return `full`, `forbidden`, `locked`, `disk` or `damaged`; None for any other error."""
    cause = _root_cause(error)
    if isinstance(cause, sqlite3.Error):
        return _SQLITE_CODES.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
    return _SYSTEM_CODES.get(cause.errno or 0) if isinstance(cause, OSError) else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without passwords; its type if it has no text or an unusual type."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    known = isinstance(error, (OSError, sqlite3.Error)) or type(error).__module__.startswith(
        ("mlflow", "sqlalchemy", "alembic", "requests")
    )
    text = hide_secrets(lines[0])[:400]
    return text if known else f"{type(error).__name__}: {text}"


def _http_status(error: Exception) -> int:
    """The status of an answer that MLflow's client did not accept; 0 for another error."""
    ask = getattr(error, "get_http_status_code", None)
    return int(ask()) if ask is not None else 0


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _root_cause(error: BaseException) -> BaseException:
    """Return the error of SQLite or of the system that other errors were raised from."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, (sqlite3.Error, OSError)):
            return seen
        seen = seen.__cause__ or seen.__context__
    return error
