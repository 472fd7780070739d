"""The SQLite database of a tracker: created and upgraded under another name, then renamed to its own.

A process that is killed at any moment leaves either no database or a complete one. A damaged or half-created
database (MLflow's own server creates it in place) is set aside and never deleted.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from glob import escape
from pathlib import Path

import psutil

from storage.artifacts.disk import remove_quietly, rename_durably, sync_file, temporary_path
from storage.artifacts.locks import hold_lock
from storage.errors import StoreError, TrackerDamaged, TrackingError
from storage.tracking.explain import error_kind, explain_error, first_line
from storage.tracking.migrations import (
    close_connections,
    known_revisions,
    known_tables,
    migrate,
    mlflow_version,
)
from storage.tracking.sqlite import (
    Schema,
    all_runs,
    count_runs,
    find_damage,
    is_missing,
    open_sqlite,
    read_schema,
)

Warn = Callable[[str], None]

# SQLite's files beside a database; they belong to it and move with it.
_COMPANIONS = ("", "-journal", "-wal", "-shm")
# How long another program may take to create the database in place.
WAIT_SECONDS = 60.0
BROKEN = "broken"


def ensure_database(file: Path, warn: Warn | None = None) -> None:
    """Create the database if it is missing, and upgrade one of an older MLflow, of which a copy is kept.

    Parameters
    ----------
    file : Path
    warn : callable, optional
        Permits to set a damaged database aside, and receives what was lost and what to do.

    Raises
    ------
    TrackerDamaged
        The database is damaged, and `warn` is not given.
    TrackingError
        It belongs to a newer MLflow or to another program, is in use, or cannot be written.
    """
    file = file.resolve()
    with contextlib.suppress(TrackerDamaged):
        if is_current(file):
            return
    with _locked(file):
        try:
            if not _is_made_by_another(file):
                _build(file)
        except TrackerDamaged as damage:
            if warn is None:
                raise
            warn(set_aside(file, damage.reason))
            _build(file)


def is_current(file: Path) -> bool:
    """Return whether a database has every table of this MLflow; False if it is missing, empty or older.

    Raises
    ------
    TrackerDamaged
        It cannot be read, or lacks tables.
    TrackingError
        It belongs to a newer MLflow or to another program, or cannot be opened.
    """
    if is_missing(file):
        return False
    schema, known = read_schema(file), known_revisions()
    if not schema.tables:
        return False
    _check_owner(file, schema)
    if schema.revision is None or (schema.revision in known and schema.revision != known[0]):
        return False
    if schema.revision != known[0]:
        raise TrackingError(
            f"{file} was written by a newer MLflow (schema {schema.revision}); MLflow {mlflow_version()} is "
            "installed. Install the newer one, or set tracking.uri to another place."
        )
    missing = sorted(known_tables() - schema.tables)
    if missing:
        raise TrackerDamaged(str(file), f"table {missing[0]} is missing")
    return True


def _check_owner(file: Path, schema: Schema) -> None:
    """Raise if the tables are those of another program."""
    ours = known_tables() | {"alembic_version"}
    foreign = sorted(
        name for name in schema.tables - ours if not name.startswith(("_alembic_tmp_", "sqlite_"))
    )
    is_mlflow = "experiments" in schema.tables if schema.revision else not foreign
    if not is_mlflow:
        raise TrackingError(
            f"{file} is a database of another program (table {(foreign or sorted(schema.tables))[0]}). "
            "Move it away, or set tracking.uri to another place."
        )


def set_aside(file: Path, reason: str) -> str:
    """Rename a damaged database, and return what was lost and what to do.

    Raises
    ------
    TrackingError
        A process uses the database, or it cannot be renamed.
    """
    close_connections(file)
    if user := _user_of(file):
        raise TrackingError(
            f"{file} is damaged ({reason}), and process {user} uses it. Stop that process "
            "(`labelscape down` stops the servers of a home), and run again."
        )
    runs = count_runs(file)
    kept = _free_name(file, BROKEN)
    try:
        for companion in _COMPANIONS:
            part = file.with_name(file.name + companion)
            if part.exists():
                rename_durably(part, kept.with_name(kept.name + companion))
    except OSError as error:
        raise explain_error(f"sqlite:///{file}", error) from error
    lost = (
        "It contained no runs."
        if runs == 0
        else f"The new one lacks its {_count(runs)} and registered models: `labelscape sync` records runs "
        "again, `labelscape auto` registers a model again."
    )
    return f"{file} was damaged ({reason}) and is kept as {kept.name}. {lost}"


def lost_runs(file: Path, run_ids: Collection[str]) -> set[str]:
    """Return the runs that are not in a database, if an earlier one was set aside or it is damaged itself."""
    file = file.resolve()
    try:
        known = set() if is_missing(file) else all_runs(file)
    except TrackerDamaged:
        return set(run_ids)
    earlier = any(file.parent.glob(f"{escape(file.name)}.{BROKEN}-*"))
    return set(run_ids) - known if earlier else set()


def set_aside_if_damaged(file: Path) -> str | None:
    """Read the whole database after an error; set it aside if it is damaged, and return the message."""
    file = file.resolve()
    with _locked(file):
        damage = find_damage(file)
        return set_aside(file, damage.reason) if damage else None


def _count(runs: int | None) -> str:
    return "runs" if runs is None else f"{runs} run{'s' if runs != 1 else ''}"


def _free_name(file: Path, mark: str) -> Path:
    """Return an unused name beside the database with a mark and the time."""
    base = f"{file.name}.{mark}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (base if number == 0 else f"{base}-{number}" for number in range(10_000))
    return next(path for name in names if not (path := file.with_name(name)).exists())


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Let one process at a time create or replace the database."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(file.with_name(f".{file.name}.lock")):
            yield
    except StoreError as error:
        raise explain_error(f"sqlite:///{file}", _cause(error)) from error
    except OSError as error:
        raise explain_error(f"sqlite:///{file}", error) from error


def _cause(error: StoreError) -> Exception:
    return error.__cause__ if isinstance(error.__cause__, OSError) else error


def _is_made_by_another(file: Path) -> bool:
    """Wait while another program, such as an MLflow server, creates the database in place.

    Returns whether it is complete.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        user = _user_of(file)
        try:
            if is_current(file):
                return True
        except TrackerDamaged:
            if user is None:
                raise
        if user is None:
            return False
        if time.monotonic() > deadline:
            raise TrackingError(
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


def _build(file: Path) -> None:
    """Create the database, or upgrade a copy of the present one, and rename it to its place."""
    made = temporary_path(file)
    parts = [made.with_name(made.name + companion) for companion in _COMPANIONS]
    remove_quietly(*parts)  # of a killed process
    older = not is_missing(file) and bool(read_schema(file).tables)
    try:
        if older:
            _copy(file, made)
        migrate(made, upgrade=older and read_schema(made).revision is not None)
        sync_file(made)
        close_connections(file)
        if older:
            os.link(file, _free_name(file, "before-upgrade"))
        rename_durably(made, file)
    except Exception as error:
        remove_quietly(*parts)
        if isinstance(error, TrackingError):
            raise
        if older and error_kind(error) is None and not isinstance(error, OSError):
            # The migrations do not fit its tables: another one was killed half way.
            raise TrackerDamaged(str(file), f"half-created: {first_line(error)}") from error
        raise explain_error(f"sqlite:///{file}", error) from error
    except BaseException:
        remove_quietly(*parts)
        raise


def _copy(file: Path, target: Path) -> None:
    with open_sqlite(file) as database, contextlib.closing(sqlite3.connect(target)) as copied:
        database.backup(copied)
    target.chmod(file.stat().st_mode & 0o777)
