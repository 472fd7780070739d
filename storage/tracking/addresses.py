"""Check a tracking address before any stage runs: its form, and the driver that its database needs."""

import importlib.metadata
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from storage.errors import TrackingError
from storage.urls import redact, split_address

DATABASE = "mlflow.db"
_SERVERS = ("http", "https")
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_PLUGINS = "mlflow.tracking_store"
# What to install for a driver, where its package has another name.
_PACKAGES = {"psycopg2": '"labelscape[postgres]"', "MySQLdb": "mysqlclient"}
_EXAMPLES = "sqlite:////path/to/mlflow.db, http://host:port or postgresql://user@host/database"


def default_uri(home: Path) -> str:
    """Return the address of the SQLite database in the home folder."""
    return f"sqlite:///{home.resolve() / DATABASE}"


def default_artifact_root(home: Path) -> Path:
    """Return the folder for figures, tables and models of local runs."""
    return home.resolve() / "mlartifacts"


def sqlite_file(uri: str) -> Path | None:
    """Return the database file of an SQLite address, or None for any other address.

    >>> sqlite_file("sqlite:////home/me/mlflow.db?timeout=5")
    PosixPath('/home/me/mlflow.db')
    """
    scheme, _, rest = uri.partition(":///")
    return Path(rest.partition("?")[0]) if dialect(scheme) == "sqlite" and rest else None


def is_http(uri: str) -> bool:
    """Return whether an address is that of a tracking server."""
    return uri.lower().startswith(tuple(f"{scheme}://" for scheme in _SERVERS))


def dialect(scheme: str) -> str:
    """Return the kind of database of a scheme, without its driver.

    >>> dialect("postgresql+psycopg")
    'postgresql'
    """
    return scheme.lower().partition("+")[0]


def check_uri(uri: str) -> str:
    """Return the address; TrackingError if runs cannot be recorded there."""
    parts = _split(uri)
    kind = dialect(parts.scheme)
    if not kind or kind == "file":
        raise TrackingError(
            f"tracking address {redact(uri)!r} is a folder; MLflow records runs in a database or on a "
            f"server. Give {_EXAMPLES}."
        )
    if kind == "sqlite":
        _check_file(uri)
        if "+" in parts.scheme:
            _check_driver(uri)
    elif kind in _SERVERS:
        _check_host(uri, parts)
    elif kind in _DATABASES:
        _check_driver(uri)
    elif kind != "databricks" and kind not in _plugin_schemes():
        hint = " Write postgresql:// instead of postgres://." if kind == "postgres" else ""
        raise TrackingError(
            f"tracking address {redact(uri)!r}: MLflow cannot record runs at {kind}://.{hint} "
            f"Give {_EXAMPLES}."
        )
    return uri


def _split(uri: str) -> SplitResult:
    try:
        parts = urlsplit(redact(uri))  # a password may look like a port
        _ = parts.port  # raises ValueError if it is not a port
    except ValueError as error:
        raise TrackingError(f"tracking address {redact(uri)!r}: {error}. Give {_EXAMPLES}.") from None
    return parts


def _check_file(uri: str) -> None:
    file = sqlite_file(uri)
    if file is None or file.name in ("", "..") or str(file).startswith((":memory:", "file:")):
        raise TrackingError(f"tracking address {uri!r} names no file; give sqlite:////path/to/mlflow.db.")


def _check_host(uri: str, parts: SplitResult) -> None:
    if not parts.hostname:
        raise TrackingError(f"tracking address {redact(uri)!r} names no host; give http://host:port.")
    if split_address(uri).tail:
        raise TrackingError(
            f"tracking address {redact(uri)!r} has a query or a fragment, which MLflow cannot use. "
            "Give a token as MLFLOW_TRACKING_TOKEN."
        )


def _check_driver(uri: str) -> None:
    """Raise if SQLAlchemy cannot parse the address, or if the driver of its database is not installed."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    try:
        make_url(redact(uri)).get_dialect().import_dbapi()
    except ImportError as error:
        package = _PACKAGES.get(error.name or "", error.name)
        raise TrackingError(
            f"tracking at {redact(uri)} needs the Python package {error.name}, which is not installed; "
            f"install it with `pip install {package}`."
        ) from None
    except (SQLAlchemyError, ValueError) as error:
        raise TrackingError(f"tracking address {redact(uri)!r}: {error} Give {_EXAMPLES}.") from None


def _plugin_schemes() -> set[str]:
    return {entry.name for entry in importlib.metadata.entry_points(group=_PLUGINS)}
