"""What the configuration says about the servers of `labelscape up`; databases are tried before a start."""

import asyncio
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from flows.config import RunConfig, find_home
from flows.prefect_database import asynchronous
from flows.run_settings import check_tracker
from flows.services import ServerOptions
from storage.credentials import hide_secrets, keep, reveal
from storage.errors import ConfigError, ServiceError
from storage.tracking.addresses import is_http, sqlite_file

_MOST_WORKERS = 32
_SECONDS = 10.0


def choose_server_options(config: RunConfig, workers: int = 1) -> ServerOptions:
    """The databases, the retention and the number of processes of both servers.

    Raises
    ------
    ConfigError
        A value or an address cannot be used.
    ServiceError
        A database does not answer.
    """
    if not 1 <= workers <= _MOST_WORKERS:
        raise ConfigError(f"--server-workers {workers}: give 1 to {_MOST_WORKERS} processes.")
    home, database, tracking = find_home(config), config.schedule.database, config.tracking.uri
    for address in (database, tracking):
        keep(address, home)
    if database is not None:
        check_prefect_database(database, home)
    check_tracker(config)
    # A tracking server is another program's; the default file is the one that `up` creates.
    is_database = tracking is not None and not is_http(tracking) and sqlite_file(tracking) is None
    return ServerOptions(database, tracking if is_database else None, config.schedule.keep_days, workers)


def check_prefect_database(address: str, home: Path) -> None:
    """Connect to the database that Prefect's server is to use."""
    scheme = address.partition("://")[0].partition("+")[0]
    if scheme not in ("postgresql", "postgres"):
        raise ConfigError(
            f"schedule.database: {address!r} is not a PostgreSQL address, such as "
            "postgresql://user:password@host/prefect. Without the setting, Prefect uses SQLite in the home."
        )
    if importlib.util.find_spec("asyncpg") is None:
        raise ConfigError(
            "schedule.database: the driver asyncpg is missing; pip install 'labelscape[postgres]'."
        )
    url = asynchronous(reveal(address, home)).replace("postgresql+asyncpg", "postgresql", 1)
    try:
        asyncio.run(_connect(url))
    except Exception as error:  # asyncpg and the system have many
        why = hide_secrets(str(error)) or type(error).__name__
        raise ServiceError(
            f"schedule.database: {address} does not answer ({why}). "
            "Start the database server and create the database, or correct the address."
        ) from None


async def _connect(url: str) -> None:
    driver: Any = importlib.import_module("asyncpg")
    connection = await driver.connect(url, timeout=_SECONDS)
    await connection.close()
