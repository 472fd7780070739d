"""An SQLite database that migrations create: built and upgraded under another name, then renamed to its own.

A process that is killed at any moment leaves either no database or a complete one. A damaged or half-created
database (a program's own server creates it in place) is set aside and never deleted.
"""

import contextlib
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from glob import escape
from pathlib import Path

import psutil

from storage.artifacts.disk import TEMPORARY, remove_quietly, rename_durably, sync_file
from storage.artifacts.locks import hold_lock
from storage.errors import DatabaseDamaged, LabelscapeError, StoreError
from storage.sqlite.causes import error_kind, first_line
from storage.sqlite.program import Program
from storage.sqlite.reading import find_damage, has_log, is_missing, open_sqlite, read_schema

Warn = Callable[[str], None]

# SQLite's files beside a database; they belong to it and move with it.
_COMPANIONS = ("", "-journal", "-wal", "-shm")
# How long another program may take to create the database in place.
WAIT_SECONDS = 60.0
BROKEN = "broken"


def ensure_database(file: Path, program: Program, warn: Warn | None = None) -> None:
    """Create the database if it is missing, and upgrade one of an older version, of which a copy is kept.

    Parameters
    ----------
    file : Path
    program : Program
        The program that the database belongs to.
    warn : callable, optional
        Permits to set a damaged database aside, and receives what was lost and what to do.

    Raises
    ------
    DatabaseDamaged
        The database is damaged, and `warn` is not given.
    LabelscapeError
        It belongs to a newer version or to another program, is in use, or cannot be written.
    """
    file = file.resolve()
    with contextlib.suppress(DatabaseDamaged):
        if is_current(file, program):
            return
    with _locked(file, program):
        try:
            if not _is_made_by_another(file, program):
                _build(file, program)
        except DatabaseDamaged as damage:
            if warn is None:
                raise
            warn(set_aside(file, program, damage.reason))
            _build(file, program)


def is_current(file: Path, program: Program) -> bool:
    """Return whether a database has every table of this version; False if it is missing, empty or older.

    Raises
    ------
    DatabaseDamaged
        It cannot be read, or lacks tables.
    LabelscapeError
        It belongs to a newer version or to another program, or cannot be opened.
    """
    if is_missing(file, program):
        return False
    schema, known = read_schema(file, program), program.revisions()
    if not schema.tables:
        return False
    program.check_owner(file, schema)
    if schema.revision is None or (schema.revision in known and schema.revision != known[0]):
        return False
    if schema.revision != known[0]:
        raise program.error(
            f"{file} was written by a newer {program.title} (schema {schema.revision}); {program.title} "
            f"{program.version()} is installed. Install the newer one, or {program.elsewhere}."
        )
    missing = sorted(program.tables() - schema.tables)
    if missing:
        raise program.damage(file, f"table {missing[0]} is missing")
    return True


def set_aside(file: Path, program: Program, reason: str) -> str:
    """Rename a damaged database, and return what was lost and what to do.

    Raises
    ------
    LabelscapeError
        A process uses the database, or it cannot be renamed.
    """
    program.close_connections(file)
    if user := _user_of(file):
        raise program.error(
            f"{file} is damaged ({reason}), and process {user} uses it. Stop that process "
            "(`labelscape down` stops the servers of a home), and run again."
        )
    lost = program.loss(file)
    try:
        kept = _rename(file, BROKEN)
    except OSError as error:
        raise program.explain(file, error) from error
    return f"{file} was damaged ({reason}) and is kept as {kept.name}. {lost}"


def set_aside_if_damaged(file: Path, program: Program) -> str | None:
    """Read the whole database after an error; set it aside if it is damaged, and return the message."""
    file = file.resolve()
    with _locked(file, program):
        damage = find_damage(file, program)
        return set_aside(file, program, damage.reason) if damage else None


def was_set_aside(file: Path) -> bool:
    """Return whether an earlier database of this name was damaged."""
    return any(file.parent.glob(f"{escape(file.name)}.{BROKEN}-*"))


def _rename(file: Path, mark: str) -> Path:
    """Give a database and SQLite's files beside it an unused name with a mark; return it."""
    kept = _free_name(file, mark)
    for part, target in zip(_parts(file), _parts(kept), strict=True):
        if part.exists():
            rename_durably(part, target)
    return kept


def _parts(file: Path) -> list[Path]:
    return [file.with_name(file.name + companion) for companion in _COMPANIONS]


def _free_name(file: Path, mark: str) -> Path:
    """Return an unused name beside the database with a mark and the time."""
    base = f"{file.name}.{mark}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (base if number == 0 else f"{base}-{number}" for number in range(10_000))
    places = (file.with_name(name) for name in names)
    return next(place for place in places if not any(part.exists() for part in _parts(place)))


@contextlib.contextmanager
def _locked(file: Path, program: Program) -> Iterator[None]:
    """Let one process at a time create or replace the database."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(file.with_name(f".{file.name}.lock")):
            yield
    except StoreError as error:
        raise program.explain(file, _cause(error)) from error
    except OSError as error:
        raise program.explain(file, error) from error


def _cause(error: StoreError) -> Exception:
    return error.__cause__ if isinstance(error.__cause__, OSError) else error


def _is_made_by_another(file: Path, program: Program) -> bool:
    """Wait while another process, such as a server, creates the database in place.

    Returns whether it is complete.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        user = _user_of(file)
        try:
            if is_current(file, program):
                return True
        except DatabaseDamaged:
            if user is None:
                raise
        if user is None:
            return False
        if time.monotonic() > deadline:
            raise program.error(
                f"{file} is not complete, and process {user} uses it. Stop that process, and run again."
            )
        time.sleep(0.2)


def _user_of(file: Path) -> int | None:
    """Return the id of another process that has the file open, or None."""
    if not file.exists():
        return None
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and any(one.path == str(file) for one in process.open_files()):
                return int(process.pid)
    return None


def _build(file: Path, program: Program) -> None:
    """Create the database, or upgrade a copy of the present one, and rename it to its place."""
    # A random name: a child of a killed process may still write to the last one.
    made = file.with_name(f"{file.name}.{secrets.token_hex(4)}{TEMPORARY}")
    older = not is_missing(file, program) and bool(read_schema(file, program).tables)
    try:
        remove_quietly(*file.parent.glob(f"{escape(file.name)}.*{TEMPORARY}*"))  # of a killed process
        if older:
            _copy(file, made, program)
        program.migrate(made, upgrade=older and read_schema(made, program).revision is not None)
        _empty_log(made, program)
        sync_file(made)
        _replace(file, made, older, program)
    except Exception as error:
        if isinstance(error, LabelscapeError):
            raise
        if older and error_kind(error) is None and not isinstance(error, OSError):
            # The migrations do not fit its tables: another one was killed half way.
            raise program.damage(file, f"half-created: {first_line(error)}") from error
        raise program.explain(file, error) from error
    finally:
        remove_quietly(*_parts(made))


def _copy(file: Path, target: Path, program: Program) -> None:
    with open_sqlite(file, program) as database, contextlib.closing(sqlite3.connect(target)) as copied:
        database.backup(copied)
    target.chmod(file.stat().st_mode & 0o777)


def _replace(file: Path, made: Path, older: bool, program: Program) -> None:
    """Rename the new database to its place; the older one is kept under another name.

    A journal or log beside the old one must not remain: SQLite would apply it to the new one.
    """
    program.close_connections(file)
    if older:
        _empty_log(file, program)
        os.link(file, _free_name(file, "before-upgrade"))
    elif any(part.exists() for part in _parts(file)[1:]):
        _rename(file, BROKEN)
    rename_durably(made, file)


def _empty_log(file: Path, program: Program) -> None:
    """Move the changes in a write-ahead log to the database; SQLite then removes the log."""
    if has_log(file):
        with open_sqlite(file, program) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if has_log(file):
        raise program.error(f"{file} is used by another process. Stop that process, and run again.")
