"""Read an SQLite database of MLflow without MLflow: its tables, its version, whether it is damaged."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from storage.errors import TrackerDamaged, TrackingError
from storage.tracking.addresses import DATABASE
from storage.tracking.explain import explain_error

# As long as MLflow waits for a locked database.
BUSY_SECONDS = 20.0
_HEADER = b"SQLite format 3\x00"
_BATCH = 1000


@dataclass(frozen=True)
class Schema:
    """The tables of a database, and the version that MLflow's migrations recorded in it."""

    tables: frozenset[str]
    revision: str | None


@contextlib.contextmanager
def open_sqlite(file: Path) -> Iterator[sqlite3.Connection]:
    """Open an existing database and close it.

    It is opened for writing if that is permitted: SQLite must undo what a killed process left unfinished.

    Raises
    ------
    TrackerDamaged
        It cannot be read as a database.
    TrackingError
        It is locked, or cannot be opened.
    """
    place = f"file:{quote(str(file))}?mode=rw"
    try:
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS)) as database:
            yield database
    except sqlite3.Error as error:
        raise explain_error(f"sqlite:///{file}", error) from error
    except UnicodeDecodeError as error:  # SQLite's message contains bytes of a damaged file
        raise TrackerDamaged(str(file), "its tables cannot be read") from error


def is_missing(file: Path) -> bool:
    """Return whether there is no database yet; an empty file counts as none.

    Raises
    ------
    TrackingError
        Something that is not a file is in its place, or its folder cannot be read.
    """
    try:
        if file.exists() and not file.is_file():
            raise TrackingError(
                f"{file} is not a file, so MLflow cannot use it as a database. Move it away, "
                "or set tracking.uri to another place."
            )
        return not file.exists() or file.stat().st_size == 0
    except OSError as error:
        raise explain_error(f"sqlite:///{file}", error) from error


def read_schema(file: Path) -> Schema:
    """Return tables and version of a database; TrackerDamaged if it is no database, or was cut short."""
    _check_header(file)
    with open_sqlite(file) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = frozenset(str(name) for (name,) in rows)
        revision = None
        if "alembic_version" in tables:
            found = database.execute("SELECT version_num FROM alembic_version").fetchone()
            revision = str(found[0]) if found else None
        (pages,), (size,) = (
            database.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
        )
    if pages * size > file.stat().st_size:
        raise TrackerDamaged(str(file), f"it has {file.stat().st_size} of {pages * size} bytes")
    return Schema(tables, revision)


def _check_header(file: Path) -> None:
    try:
        with file.open("rb") as opened:
            is_database = opened.read(len(_HEADER)) == _HEADER
    except OSError as error:
        raise explain_error(f"sqlite:///{file}", error) from error
    if not is_database and file.name == DATABASE:
        raise TrackerDamaged(str(file), "it is not an SQLite database")
    if not is_database:  # perhaps a file of the user that tracking.uri names by mistake
        raise TrackingError(f"{file} is not an SQLite database. Move it away, or correct tracking.uri.")


def find_damage(file: Path) -> TrackerDamaged | None:
    """Read every page and every value of a database; return what is damaged, or None."""
    try:
        if is_missing(file):
            return None
        schema = read_schema(file)
        with open_sqlite(file) as database:
            (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                return TrackerDamaged(str(file), " ".join(str(found).split())[:200])
            for table in sorted(schema.tables):
                if problem := _unreadable(database, table):
                    return TrackerDamaged(str(file), f"table {table}: {problem}")
    except TrackerDamaged as damage:
        return damage
    except TrackingError:  # locked or not accessible, which says nothing about its content
        return None
    return None


def _unreadable(database: sqlite3.Connection, table: str) -> str | None:
    """Return why a value of a table cannot be read, or None."""
    try:
        rows = database.execute(f'SELECT * FROM "{table}"')  # noqa: S608 (a name from the database itself)
        while rows.fetchmany(_BATCH):
            pass
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", None) is not None:
            raise
        return "a text is not valid UTF-8"
    return None


def count_runs(file: Path) -> int | None:
    """Return the number of runs in a database; None if that cannot be read."""
    try:
        with open_sqlite(file) as database:
            return int(database.execute("SELECT count(*) FROM runs").fetchone()[0])
    except TrackingError:
        return None


def all_runs(file: Path) -> set[str]:
    """Return the ids of all runs in a database, deleted ones included."""
    if "runs" not in read_schema(file).tables:
        return set()
    with open_sqlite(file) as database:
        return {str(run_id) for (run_id,) in database.execute("SELECT run_uuid FROM runs")}


def has_run(file: Path, run_id: str) -> bool:
    """Return whether a database contains a run that is not deleted."""
    if is_missing(file) or "runs" not in read_schema(file).tables:  # MLflow has not created its tables yet
        return False
    query = "SELECT 1 FROM runs WHERE run_uuid = ? AND lifecycle_stage = 'active'"
    with open_sqlite(file) as database:
        return database.execute(query, (run_id,)).fetchone() is not None
