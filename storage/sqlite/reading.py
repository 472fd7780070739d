"""Read an SQLite database without the program that it belongs to: tables, version, damage."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from storage.errors import DatabaseDamaged, LabelscapeError
from storage.sqlite.program import Program, Schema

# As long as MLflow waits for a locked database.
BUSY_SECONDS = 20.0
_HEADER = b"SQLite format 3\x00"
_BATCH = 1000


@contextlib.contextmanager
def open_sqlite(file: Path, program: Program) -> Iterator[sqlite3.Connection]:
    """Open an existing database and close it.

    It is opened for writing if that is permitted: SQLite must undo what a killed process left unfinished.

    Raises
    ------
    DatabaseDamaged
        It cannot be read as a database.
    LabelscapeError
        It is locked, or cannot be opened.
    """
    place = f"file:{quote(str(file))}?mode=rw"
    try:
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS)) as database:
            yield database
    except sqlite3.Error as error:
        raise program.explain(file, error) from error
    except UnicodeDecodeError as error:  # SQLite's message contains bytes of a damaged file
        raise program.damage(file, "its tables cannot be read") from error


def is_missing(file: Path, program: Program) -> bool:
    """Return whether there is no database yet; an empty file counts as none.

    Raises
    ------
    LabelscapeError
        Something that is not a file is in its place, or its folder cannot be read.
    """
    try:
        if file.exists() and not file.is_file():
            raise program.error(
                f"{file} is not a file, so {program.title} cannot use it as a database. Move it away, "
                f"or {program.elsewhere}."
            )
        return not file.exists() or file.stat().st_size == 0
    except OSError as error:
        raise program.explain(file, error) from error


def read_schema(file: Path, program: Program) -> Schema:
    """Return tables and version of a database; DatabaseDamaged if it is no database, or was cut short."""
    _check_header(file, program)
    with open_sqlite(file, program) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = frozenset(str(name) for (name,) in rows)
        revision = None
        if "alembic_version" in tables:
            found = database.execute("SELECT version_num FROM alembic_version").fetchone()
            revision = str(found[0]) if found else None
        (pages,), (size,) = (
            database.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
        )
    # Pages may still be in the write-ahead log of a process that uses the database.
    if pages * size > file.stat().st_size and not has_log(file):
        raise program.damage(file, f"it has {file.stat().st_size} of {pages * size} bytes")
    return Schema(tables, revision)


def has_log(file: Path) -> bool:
    """Return whether a write-ahead log contains changes of the database."""
    log = file.with_name(f"{file.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _check_header(file: Path, program: Program) -> None:
    try:
        with file.open("rb") as opened:
            is_database = opened.read(len(_HEADER)) == _HEADER
    except OSError as error:
        raise program.explain(file, error) from error
    if not is_database and program.is_named(file):
        raise program.damage(file, "it is not an SQLite database")
    if not is_database:  # perhaps a file of the user that a setting names by mistake
        raise program.error(f"{file} is not an SQLite database. Move it away, or {program.elsewhere}.")


def find_damage(file: Path, program: Program) -> DatabaseDamaged | None:
    """Read every page and every value of a database; return what is damaged, or None."""
    try:
        if is_missing(file, program):
            return None
        schema = read_schema(file, program)
        with open_sqlite(file, program) as database:
            (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                return program.damage(file, " ".join(str(found).split())[:200])
            for table in sorted(schema.tables):
                if problem := _unreadable(database, table):
                    return program.damage(file, f"table {table}: {problem}")
    except DatabaseDamaged as damage:
        return damage
    except LabelscapeError:  # locked or not accessible, which says nothing about its content
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


def count_rows(file: Path, table: str, program: Program) -> int | None:
    """Return the number of rows of a table; None if that cannot be read."""
    try:
        with open_sqlite(file, program) as database:
            return int(database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])  # noqa: S608
    except LabelscapeError:
        return None
