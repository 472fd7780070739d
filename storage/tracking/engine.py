"""Access to MLflow: import it without side effects, detect an unreachable server early, translate errors."""

import contextlib
import json
import logging
import os
import socket
import tempfile
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from storage.credentials import hide_secrets
from storage.errors import TrackingError
from storage.sqlite.migrated import Warn
from storage.tracking.addresses import dialect, is_http, sqlite_file
from storage.tracking.database import ensure_database, has_run
from storage.tracking.explain import tracking_errors
from storage.tracking.logins import REFUSALS, log_in, login_headers, login_needed
from storage.urls import redact

CONNECT_SECONDS = 5.0
# Any number that other programs do not use for a lock in the same database.
_LOCK_KEY = 7_265_417_003_119
_LOCK_SECONDS = 120
# No telemetry, no unpickling; an unreachable server is reported after seconds, not minutes.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


def load_mlflow() -> Any:
    """Import MLflow on first use, without telemetry and setup messages."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # MLflow would print the addresses of runs with the password of their server.
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    import mlflow

    for name in ("alembic", "mlflow.sklearn", "mlflow.models.model"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # It logs the traceback of every database error, which is also raised.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    return mlflow


def load_model_flavor() -> Any:
    """Import the part of MLflow that logs estimators; its first import warns about MLflow's type hints."""
    load_mlflow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow.pyfunc
        import mlflow.sklearn
    return mlflow.sklearn


def download_file(artifact_uri: str, uri: str) -> bytes:
    """Return the content of a file that is logged at the tracking address `uri`."""
    mlflow = load_mlflow()
    with tempfile.TemporaryDirectory() as folder:
        file = mlflow.artifacts.download_artifacts(
            artifact_uri=artifact_uri, dst_path=folder, tracking_uri=uri
        )
        return Path(file).read_bytes()


def engine_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of MLflow if a database or server fails; those of requests are OSErrors."""
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return (MlflowException, SQLAlchemyError, CommandError, OSError)


def open_client(uri: str, warn: Warn | None = None) -> Any:
    """Return MLflow's client for an address; the database is created if it is missing.

    `warn` permits to set a damaged database file aside, see `storage.sqlite.migrated`.

    Raises
    ------
    TrackingError
        No server answers, or the database cannot be used.
    """
    mlflow = load_mlflow()
    probe(uri)
    log_in(uri)
    file = sqlite_file(uri)
    with tracking_errors(uri), creation_lock(uri):
        if file is not None:
            ensure_database(file, warn)
        return mlflow.MlflowClient(tracking_uri=uri)


def create_database(uri: str, warn: Warn | None = None) -> None:
    """Create the database file of an address if it is missing; MLflow's server would create it in place.

    `warn` permits to set a damaged one aside.
    """
    file = sqlite_file(uri)
    if file is not None:
        load_mlflow()
        with tracking_errors(uri):
            ensure_database(file, warn)


@contextlib.contextmanager
def creation_lock(uri: str) -> Iterator[None]:
    """Let one process at a time create the tables of a PostgreSQL database; at once the others would fail.

    The lock belongs to a connection, so it ends with the process. An unreachable database is reported here,
    before MLflow, which would retry for minutes.
    """
    if dialect(urlsplit(uri).scheme) != "postgresql":
        yield
        return
    import sqlalchemy

    url = sqlalchemy.make_url(uri)
    if url.get_driver_name().startswith("psycopg") and "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(int(CONNECT_SECONDS))})
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"SET lock_timeout = '{_LOCK_SECONDS}s'"))
        connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK_KEY})
        yield


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
            f"no tracking server answers at {redact(uri)} ({hide_secrets(str(error))}). "
            "Start it, for instance with `labelscape up`, or correct tracking.uri."
        ) from None


def run_exists(uri: str, run_id: str) -> bool:
    """Return whether a run exists and is not deleted; does not import MLflow for SQLite and HTTP."""
    file = sqlite_file(uri)
    if file is not None:
        return has_run(file, run_id)
    if is_http(uri):
        return _exists_on_server(uri, run_id)
    return _exists_by_client(uri, run_id)


def _exists_on_server(uri: str, run_id: str) -> bool:
    url = f"{redact(uri).rstrip('/')}/api/2.0/mlflow/runs/get?run_id={quote(run_id)}"
    request = urllib.request.Request(url, headers=login_headers(uri))  # noqa: S310 (http or https: is_http)
    try:
        with urllib.request.urlopen(request, timeout=CONNECT_SECONDS) as answer:  # noqa: S310
            info = json.load(answer)["run"]["info"]
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return False
            if error.code in REFUSALS:
                raise login_needed(uri, error.code) from None
        raise TrackingError(f"tracking server {redact(uri)} answers {error.code} {error.reason}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrackingError(
            f"tracking server {redact(uri)} does not answer like MLflow ({hide_secrets(str(error))}). "
            "Start it, for instance with `labelscape up`, or correct tracking.uri."
        ) from None
    return bool(info.get("lifecycle_stage", "active") == "active")


def _exists_by_client(uri: str, run_id: str) -> bool:
    mlflow, client = load_mlflow(), open_client(uri)
    with tracking_errors(uri):
        try:
            return bool(client.get_run(run_id).info.lifecycle_stage == "active")
        except mlflow.exceptions.MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise
