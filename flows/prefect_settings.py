"""Environment of Prefect and MLflow: which server, which login, which home, how verbose.

Prefect is imported inside functions, after its variables are set.
"""

import base64
import contextlib
import importlib
import io
import logging
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from flows.prefect_database import SERVER_VARIABLES, database_file, prepare_database
from flows.services import NO_SERVER, running
from flows.temporary_server import install
from storage.artifacts.disk import make_folder, store_errors
from storage.credentials import enter, hide_secrets
from storage.errors import ConfigError, LoginNeeded, ServiceDown, ServiceError
from storage.paths import check_address, expand_path
from storage.servers import TOKEN_FILE, find_login
from storage.sqlite.migrated import Warn
from storage.urls import redact, split_address

# Defaults only; variables set by the user are kept.
_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # A cold start under load can exceed Prefect's default limit of 20 s.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    # With a dead server, each request waits 2 + 4 + 8 s (default: 62 s) before the run continues without it.
    "PREFECT_CLIENT_MAX_RETRIES": "3",
    # Seconds between signs of life of a run; `flows.crash_detection` needs them. 30 is the shortest.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    # Served runs start with `python -m`; a tasks.py in the current folder would shadow our package.
    "PYTHONSAFEPATH": "1",
}

# Prefect's background senders have separate loggers, which its log level does not cover.
_WORKERS = ("EventsWorker", "APILogWorker")


def prepare_libraries(verbose: bool = False) -> None:
    """Set the variables that MLflow and Prefect read at import; call it before importing either."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    if not verbose:
        # Stages report their own progress; the command line shows errors once.
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
        os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
        # What stages log is kept by the server and does not appear in the terminal.
        os.environ.setdefault("PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL", "INFO")
        os.environ.setdefault("PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL", "INFO")
        # The temporary server of a run shares this terminal and may write after our last line.
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        for name in _WORKERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def prepare_engine(home: Path, verbose: bool = False) -> None:
    """Choose the Prefect server of a run, and call `prepare_libraries`.

    A Prefect setup of the user (PREFECT_HOME, PREFECT_API_URL or a profile) is not changed. Otherwise
    Prefect keeps its database in the home folder and uses the server of `labelscape up` if one is running.
    The login for that server is added in both cases.

    Raises
    ------
    ServiceDown
        No server answers at the configured address, or it demands a login.
    """
    prepare_libraries(verbose)
    _move_prefect_login()
    if "PREFECT_API_URL" in os.environ:
        check_address(os.environ["PREFECT_API_URL"], "PREFECT_API_URL")
        _log_in(home, os.environ["PREFECT_API_URL"])
        check_answers(os.environ["PREFECT_API_URL"])
    if own := os.environ.get("PREFECT_HOME"):
        with store_errors(Path(own), "PREFECT_HOME"):
            expand_path(own, "PREFECT_HOME").mkdir(parents=True, exist_ok=True)
    if has_own_prefect():
        return
    with store_errors(home / "prefect"):
        # Prefect creates the last folder of its home, but not its parents.
        make_folder(home / "prefect")
    os.environ["PREFECT_HOME"] = str(home / "prefect")
    services = running(home)
    if services is not None:
        os.environ["PREFECT_API_URL"] = services.prefect_url
        _log_in(home, services.prefect_url)


def _log_in(home: Path, api: str) -> None:
    if token := find_login(home, api):
        os.environ["PREFECT_API_AUTH_STRING"] = token


def prepare_temporary_server(home: Path, warn: Warn) -> None:
    """Prepare for the server that Prefect starts for this process if no other one is configured.

    It answers on a port of 127.0.0.1 while a run lasts, and demands a login that only this process knows. Its
    database is created first, unless it is the user's own. Only Prefect knows all places in which the address
    of another server may be configured, so this is called after Prefect is imported.

    Raises
    ------
    ServiceError
        The database cannot be used.
    """
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    settings = get_current_settings()
    known = settings.api.auth_string
    if settings.api.url is not None or (known is not None and known == settings.server.api.auth_string):
        return  # another server is configured, or a run of this process has started one already
    token = secrets.token_hex(16)
    os.environ["PREFECT_SERVER_API_AUTH_STRING"] = os.environ["PREFECT_API_AUTH_STRING"] = token
    os.environ["PREFECT_SERVER_CSRF_PROTECTION_ENABLED"] = "true"
    os.environ["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] = "none"  # the origin of no page
    file, url = database_file(home.resolve()), settings.server.database.connection_url
    is_ours = url is not None and url.get_secret_value() == f"sqlite+aiosqlite:///{file}"
    if is_ours and "?" not in str(file):  # there Prefect would use another file
        prepare_database(home, warn)
        os.environ.update(SERVER_VARIABLES)
    refresh_global_settings_context()
    install()


def load_prefect() -> None:
    """Import Prefect, which reads its settings; call `prepare_engine` first.

    Raises
    ------
    ConfigError
        A variable or a profile of the user has a value that Prefect refuses.
    """
    from pydantic import ValidationError

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):  # Prefect prints such an error as well
            importlib.import_module("prefect.context")
    except ValidationError as error:
        first = error.errors()[0]
        end = f"_{first['loc'][-1]}".upper()
        names = [
            name
            for name, value in os.environ.items()
            if name.startswith("PREFECT_") and name.endswith(end) and value == str(first["input"])
        ]
        raise ConfigError(
            f"Prefect does not accept its setting {' or '.join(names) or end[1:].lower()}: {first['msg']}. "
            "Correct or unset the variable, or the setting in Prefect's profile."
        ) from None


def _move_prefect_login() -> None:
    """Move a login in PREFECT_API_URL to PREFECT_API_AUTH_STRING: Prefect prints and records the address."""
    parts = split_address(os.environ.get("PREFECT_API_URL", ""))
    if parts.login:
        os.environ.setdefault("PREFECT_API_AUTH_STRING", unquote(parts.login))
    if parts.login or parts.tail:
        os.environ["PREFECT_API_URL"] = enter(parts.full)


def starts_server() -> bool:
    """Whether a flow of this process will probably start a temporary Prefect server."""
    return "PREFECT_API_URL" not in os.environ and not _profile().exists()


def has_own_prefect() -> bool:
    """Whether the user has configured Prefect."""
    named = any(name in os.environ for name in ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_PROFILE"))
    return named or _profile().exists()


def _profile() -> Path:
    try:
        return Path.home() / ".prefect" / "profiles.toml"
    except RuntimeError:  # HOME is not set, and the system does not know this user
        return Path(os.devnull) / "profiles.toml"


def check_answers(api: str) -> None:
    """Raise if no Prefect server answers at an address, or if it demands a login that Prefect does not have.

    Raises
    ------
    ServiceDown
        No server answers; LoginNeeded if it does not accept the configured login.
    """
    if not api.startswith(("http://", "https://")):
        raise ServiceError(f"PREFECT_API_URL={redact(api)!r} is not an http address. {NO_SERVER}")
    if _asks_for_login(api, {}) and _asks_for_login(api, _prefect_login()):
        raise LoginNeeded(
            f"the Prefect server at {redact(api)} demands a login. Set PREFECT_API_AUTH_STRING, or "
            "PREFECT_API_KEY for Prefect Cloud. If `labelscape up` started it for another home folder: "
            f'PREFECT_API_AUTH_STRING="$(cat THAT_FOLDER/{TOKEN_FILE})".'
        )


def _asks_for_login(api: str, headers: Mapping[str, str]) -> bool:
    request = urllib.request.Request(f"{api.rstrip('/')}/version", headers=dict(headers))  # noqa: S310
    try:
        urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 (checked by the caller)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code in (401, 403)
    except OSError as error:
        raise ServiceDown(
            f"no Prefect server answers at {redact(api)} ({hide_secrets(str(error))}). {NO_SERVER}"
        ) from None
    return False


def _prefect_login() -> dict[str, str]:
    """The headers that Prefect's client would send; the login may be in the environment or in a profile."""
    from prefect.settings import get_current_settings

    settings = get_current_settings()
    headers = dict(settings.client.custom_headers)
    if settings.api.auth_string:
        encoded = base64.b64encode(settings.api.auth_string.get_secret_value().encode()).decode()
        return headers | {"Authorization": f"Basic {encoded}"}
    if settings.api.key:
        return headers | {"Authorization": f"Bearer {settings.api.key.get_secret_value()}"}
    return headers
