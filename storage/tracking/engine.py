"""Access to MLflow: import it without side effects, detect an unreachable server early, translate errors."""

import base64
import contextlib
import json
import logging
import os
import socket
import sqlite3
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from storage.errors import TrackingError
from storage.urls import redact, redact_text

DATABASE = "mlflow.db"
CONNECT_SECONDS = 5.0
# No telemetry, no unpickling; an unreachable server is reported after seconds, not minutes.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


def default_uri(home: Path) -> str:
    """Return the address of the SQLite database in the home folder."""
    return f"sqlite:///{home.resolve() / DATABASE}"


def default_artifact_root(home: Path) -> Path:
    """Return the folder for figures, tables and models of local runs."""
    return home.resolve() / "mlartifacts"


def sqlite_file(uri: str) -> Path | None:
    """Return the database file of a `sqlite:///` address, or None for any other address."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def is_http(uri: str) -> bool:
    """Return whether an address is that of a tracking server."""
    return uri.startswith(("http://", "https://"))


def check_uri(uri: str) -> str:
    """Return the address; TrackingError if runs cannot be recorded there."""
    scheme = urlsplit(uri).scheme
    if not scheme or scheme == "file":
        raise TrackingError(
            f"tracking address {uri!r} is a folder; MLflow records runs in a database or on a server. "
            "Give sqlite:////path/to/mlflow.db or http://host:port."
        )
    if scheme == "sqlite" and not uri.removeprefix("sqlite:").strip("/"):
        raise TrackingError(f"tracking address {uri!r} names no file; give sqlite:////path/to/mlflow.db.")
    return uri


def load_mlflow() -> Any:
    """Import MLflow on first use, without telemetry and set-up messages."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import mlflow

    for name in ("alembic", "mlflow.store.db.utils", "mlflow.sklearn", "mlflow.models.model"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return mlflow


def load_model_flavor() -> Any:
    """Import the part of MLflow that logs estimators; its first import warns about MLflow's type hints."""
    load_mlflow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow.pyfunc
        import mlflow.sklearn
    return mlflow.sklearn


def engine_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of MLflow if a database or server fails; those of requests are OSErrors."""
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return (MlflowException, SQLAlchemyError, CommandError, OSError)


@contextlib.contextmanager
def tracking_errors(uri: str) -> Iterator[None]:
    """Turn MLflow's errors into a TrackingError of one line that names the address."""
    try:
        yield
    except engine_errors() as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise TrackingError(
            f"tracking at {redact(uri)}: {redact_text(lines[0])[:400]} "
            "Check the address (tracking.uri) and that it is writable."
        ) from error


def probe(uri: str) -> None:
    """Raise at once if no server listens, instead of after MLflow's retries."""
    if not is_http(uri):
        return
    parts = urlsplit(uri)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise TrackingError(
            f"no tracking server answers at {redact(uri)} ({error}). "
            "Start it, for instance with `labelscape up`, or correct tracking.uri."
        ) from None


def run_exists(uri: str, run_id: str) -> bool:
    """Return whether a run exists and is not deleted; does not import MLflow for SQLite and HTTP."""
    file = sqlite_file(uri)
    if file is not None:
        return _exists_in_sqlite(file, run_id)
    if is_http(uri):
        return _exists_on_server(uri, run_id)
    return _exists_by_client(uri, run_id)


def _exists_in_sqlite(file: Path, run_id: str) -> bool:
    if not file.is_file():
        return False
    query = "SELECT 1 FROM runs WHERE run_uuid = ? AND lifecycle_stage = 'active'"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as database:
            return database.execute(query, (run_id,)).fetchone() is not None
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):  # MLflow has not created its tables yet
            return False
        raise TrackingError(f"{file}: cannot be read ({error}).") from None
    except sqlite3.DatabaseError as error:
        raise TrackingError(
            f"{file}: is not an MLflow database ({error}); move it away or set tracking.uri."
        ) from None


def _exists_on_server(uri: str, run_id: str) -> bool:
    url = f"{redact(uri).rstrip('/')}/api/2.0/mlflow/runs/get?run_id={quote(run_id)}"
    request = urllib.request.Request(url, headers=_credentials(uri))  # noqa: S310 (http or https: is_http)
    try:
        with urllib.request.urlopen(request, timeout=CONNECT_SECONDS) as answer:  # noqa: S310
            info = json.load(answer)["run"]["info"]
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return False
        raise TrackingError(f"tracking server {redact(uri)} answers {error.code} {error.reason}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrackingError(
            f"tracking server {redact(uri)} does not answer like MLflow ({error}). "
            "Start it, for instance with `labelscape up`, or correct tracking.uri."
        ) from None
    return bool(info.get("lifecycle_stage", "active") == "active")


def _credentials(uri: str) -> dict[str, str]:
    """Return the header that MLflow's own client would send."""
    parts = urlsplit(uri)
    user = unquote(parts.username or "") or os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    password = unquote(parts.password or "") or os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    token = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    if user and password:
        encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {encoded}"}
    return {"Authorization": f"Bearer {token}"} if token else {}


def _exists_by_client(uri: str, run_id: str) -> bool:
    mlflow = load_mlflow()
    with tracking_errors(uri):
        runs = mlflow.MlflowClient(tracking_uri=uri)
        try:
            return bool(runs.get_run(run_id).info.lifecycle_stage == "active")
        except mlflow.exceptions.MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise
