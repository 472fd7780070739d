"""The surroundings in which Prefect runs a flow: which server, which home, how much it says."""

import logging
import os
import sys
from pathlib import Path

from flows.services import check_answers, running
from storage.artifacts.disk import store_errors

# Defaults only: whatever the user has set stands.
_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # A cold start under load has been seen to pass Prefect's own limit of 20 s.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    # A server that died costs 2 + 4 + 8 s a question (62 s by default), then a run goes on without it.
    "PREFECT_CLIENT_MAX_RETRIES": "3",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # It would print addresses of runs between our results.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    # Served runs start with `python -m`, where a tasks.py of the current folder would hide our package.
    "PYTHONSAFEPATH": "1",
}

# Prefect's senders log under names of their own, which its level does not reach.
_WORKERS = ("EventsWorker", "APILogWorker")


def prepare_libraries(verbose: bool = False) -> None:
    """Set what MLflow and Prefect read at import; call it before either is imported."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    if not verbose:
        # Stages report for themselves; errors are shown once, by the command line.
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
        os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
        # The server that a run starts for itself writes to the same screen, now and then after our last line.
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        for name in _WORKERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def prepare_engine(home: Path, verbose: bool = False) -> None:
    """Set which Prefect runs the flow, and all that `prepare_libraries` sets.

    A Prefect set-up of the user's (PREFECT_HOME, PREFECT_API_URL or a profile) is left alone.
    Without one, Prefect keeps its database in the home folder, and a server started by
    `labelscape up` is used where one is running.

    Raises
    ------
    ServiceDown
        No server answers at the address that was set.
    """
    prepare_libraries(verbose)
    if "PREFECT_API_URL" in os.environ:
        check_answers(os.environ["PREFECT_API_URL"])
    if has_own_prefect():
        return
    with store_errors(home / "prefect"):
        # Prefect makes the last folder of its home, but none above it.
        (home / "prefect").mkdir(parents=True, exist_ok=True)
    os.environ["PREFECT_HOME"] = str(home / "prefect")
    services = running(home)
    if services is not None:
        os.environ["PREFECT_API_URL"] = services.prefect_url


_abandoned = False


def abandon() -> None:
    """Give Prefect up: at its end this process will not wait until what it still wants to send is sent."""
    global _abandoned
    _abandoned = True


def leave(code: int) -> int:
    """The code to exit with; where Prefect was given up, exit at once: its threads would try for minutes."""
    if _abandoned:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def starts_server() -> bool:
    """Whether a flow of this process will start a Prefect server for itself, as far as that can be seen."""
    return "PREFECT_API_URL" not in os.environ and not _profile().exists()


def has_own_prefect() -> bool:
    """Whether the user has set Prefect up."""
    named = any(name in os.environ for name in ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_PROFILE"))
    return named or _profile().exists()


def _profile() -> Path:
    return Path.home() / ".prefect" / "profiles.toml"
