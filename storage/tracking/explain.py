"""Explain errors of a tracking database or server: what happened, where, and what to do."""

import contextlib
import re
from collections.abc import Iterator

from storage.errors import LabelscapeError, TrackerDamaged, TrackingError
from storage.sqlite.causes import DAMAGED, advice, error_kind, first_line, root_cause, sentence
from storage.tracking.addresses import is_http, sqlite_file
from storage.tracking.logins import REFUSALS, login_needed
from storage.urls import redact

ELSEWHERE = "set tracking.uri to another place"
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
        return TrackerDamaged(str(file), first_line(root_cause(error)))
    usual = _LOGIN_ADVICE if _REFUSED.search(str(error)) else _DEFAULT_ADVICE
    help_text = advice(kind, ELSEWHERE) or usual
    return TrackingError(f"tracking at {redact(uri)}: {sentence(first_line(error))} {help_text}")


def _http_status(error: Exception) -> int:
    """The status of an answer that MLflow's client did not accept; 0 for another error."""
    ask = getattr(error, "get_http_status_code", None)
    return int(ask()) if ask is not None else 0
