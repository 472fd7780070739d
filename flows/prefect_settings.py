"""Environment of Prefect and MLflow: which server, which home, how verbose. Does not import either."""

import logging
import os
from pathlib import Path

from flows.services import check_answers, running
from storage.artifacts.disk import store_errors

# Defaults only; variables set by the user are kept.
_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # A cold start under load can exceed Prefect's default limit of 20 s.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    # With a dead server, each request waits 2 + 4 + 8 s (default: 62 s) before the run continues without it.
    "PREFECT_CLIENT_MAX_RETRIES": "3",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # MLflow would print run addresses between our results.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    # Served runs start with `python -m`; a tasks.py in the current folder would shadow our package.
    "PYTHONSAFEPATH": "1",
}

# Prefect's background senders have loggers of their own, which its log level does not cover.
_WORKERS = ("EventsWorker", "APILogWorker")


def prepare_libraries(verbose: bool = False) -> None:
    """Set the variables that MLflow and Prefect read at import; call it before importing either."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    if not verbose:
        # Stages report their own progress; the command line shows errors once.
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
        os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
        # The temporary server of a run shares this terminal and may write after our last line.
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        for name in _WORKERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def prepare_engine(home: Path, verbose: bool = False) -> None:
    """Choose the Prefect server of a run, and call `prepare_libraries`.

    A Prefect setup of the user (PREFECT_HOME, PREFECT_API_URL or a profile) is not changed. Otherwise
    Prefect keeps its database in the home folder and uses the server of `labelscape up` if one is running.

    Raises
    ------
    ServiceDown
        No server answers at the configured address.
    """
    prepare_libraries(verbose)
    if "PREFECT_API_URL" in os.environ:
        check_answers(os.environ["PREFECT_API_URL"])
    if has_own_prefect():
        return
    with store_errors(home / "prefect"):
        # Prefect creates the last folder of its home, but not its parents.
        (home / "prefect").mkdir(parents=True, exist_ok=True)
    os.environ["PREFECT_HOME"] = str(home / "prefect")
    services = running(home)
    if services is not None:
        os.environ["PREFECT_API_URL"] = services.prefect_url


def starts_server() -> bool:
    """Whether a flow of this process will probably start a temporary Prefect server."""
    return "PREFECT_API_URL" not in os.environ and not _profile().exists()


def has_own_prefect() -> bool:
    """Whether the user has configured Prefect."""
    named = any(name in os.environ for name in ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_PROFILE"))
    return named or _profile().exists()


def _profile() -> Path:
    return Path.home() / ".prefect" / "profiles.toml"
