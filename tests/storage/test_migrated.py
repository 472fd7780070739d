"""A database that migrations create, with a small program instead of MLflow or Prefect."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import DatabaseDamaged, LabelscapeError, ServiceError
from storage.sqlite.causes import advice, error_kind
from storage.sqlite.migrated import ensure_database, is_current
from storage.sqlite.program import Program

STEPS = [
    ("1", "CREATE TABLE books (id INTEGER)"),
    ("2", "ALTER TABLE books ADD COLUMN title TEXT"),
    ("3", "CREATE TABLE readers (id INTEGER)"),
]


class Killed(BaseException):
    """Ends a migration as a kill does: nothing of ours is cleaned up in the database."""


class Library(Program):
    """Three migrations, each of which commits before its version is recorded, as those of Prefect do."""

    title = "Library"
    elsewhere = "choose another folder"

    def __init__(self, killed_after: int = 99, latest: str = "3") -> None:
        self.statements, self.killed_after, self.latest = 0, killed_after, latest

    def version(self) -> str:
        return "0.1"

    def revisions(self) -> tuple[str, ...]:
        return tuple(str(number) for number in range(int(self.latest), 0, -1))

    def tables(self) -> frozenset[str]:
        return frozenset({"books", "readers"} if self.latest == "3" else {"books"})

    def migrate(self, file: Path, upgrade: bool) -> None:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE IF NOT EXISTS alembic_version (version_num)")
            [now] = database.execute("SELECT max(version_num) FROM alembic_version").fetchone()
            for version, statement in STEPS:
                if (now or "0") < version <= self.latest:
                    self._execute(database, statement)
                    self._execute(database, "DELETE FROM alembic_version")
                    self._execute(database, f"INSERT INTO alembic_version VALUES ('{version}')")

    def _execute(self, database: sqlite3.Connection, statement: str) -> None:
        if self.statements == self.killed_after:
            raise Killed
        self.statements += 1
        database.execute(statement)

    def error(self, message: str) -> LabelscapeError:
        return ServiceError(message)

    def damage(self, file: Path, reason: str) -> DatabaseDamaged:
        return DatabaseDamaged(str(file), reason)

    def explain(self, file: Path, error: Exception) -> LabelscapeError:
        kind = error_kind(error)
        if kind == "damaged":
            return self.damage(file, str(error))
        return ServiceError(f"{file}: {error}. {advice(kind, self.elsewhere)}")

    def loss(self, file: Path) -> str:
        return "Its books are lost."


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "library.db"


def execute(file: Path, *statements: str) -> list[tuple[object, ...]]:
    """Change a database as another process would; the result of the last statement."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        return [database.execute(statement).fetchall() for statement in statements][-1]


def others(file: Path) -> list[str]:
    """Names beside the database that are not SQLite's."""
    names = {path.name for path in file.parent.iterdir()}
    return sorted(names - {file.name, f".{file.name}.lock"})


def fail(message: str) -> None:
    raise AssertionError(message)


@pytest.mark.parametrize("statement", range(9))
def test_a_kill_before_any_statement_leaves_no_database(file: Path, statement: int) -> None:
    with pytest.raises(Killed):
        ensure_database(file, Library(statement), fail)
    assert not file.exists()
    ensure_database(file, Library(), fail)
    assert is_current(file, Library())
    assert others(file) == []


@pytest.mark.parametrize("statement", range(6))
def test_a_kill_during_an_upgrade_leaves_the_old_database(file: Path, statement: int) -> None:
    ensure_database(file, Library(latest="1"), fail)
    execute(file, "INSERT INTO books VALUES (7)")
    before = file.read_bytes()
    with pytest.raises(Killed):
        ensure_database(file, Library(statement), fail)
    assert file.read_bytes() == before
    ensure_database(file, Library(), fail)
    assert execute(file, "SELECT * FROM books") == [(7, None)]
    [kept] = others(file)
    assert kept.startswith("library.db.before-upgrade-")
    assert file.with_name(kept).read_bytes() == before


@pytest.mark.parametrize(("statement", "repaired"), [(1, False), (3, True), (4, False), (6, True)])
def test_a_database_that_was_migrated_in_place_and_killed(file: Path, statement: int, repaired: bool) -> None:
    with pytest.raises(Killed):
        Library(statement).migrate(file, upgrade=False)
    warnings: list[str] = []
    ensure_database(file, Library(), warnings.append)
    assert is_current(file, Library())
    if repaired:  # between two migrations: the rest is added
        assert warnings == []
    else:
        [kept] = others(file)
        assert kept.startswith("library.db.broken-")
        assert f"is kept as {kept}. Its books are lost." in warnings[0]
        assert "already exists" in warnings[0] or "duplicate column" in warnings[0]


def test_without_permission_a_half_created_database_is_only_reported(file: Path) -> None:
    with pytest.raises(Killed):
        Library(4).migrate(file, upgrade=False)
    with pytest.raises(DatabaseDamaged, match="half-created: duplicate column"):
        ensure_database(file, Library())
    assert others(file) == []


def leave_log(file: Path) -> None:
    """Leave a write-ahead log with changes, as a killed process does."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("INSERT INTO books VALUES (8)")
        log = file.with_name(f"{file.name}-wal").read_bytes()
        data = file.read_bytes()
    file.write_bytes(data)
    file.with_name(f"{file.name}-wal").write_bytes(log)


def test_an_upgrade_keeps_what_is_in_the_log_of_a_killed_process(file: Path) -> None:
    ensure_database(file, Library(latest="1"), fail)
    leave_log(file)
    ensure_database(file, Library(), fail)
    assert execute(file, "SELECT * FROM books") == [(8, None)]
    [kept] = others(file)
    assert execute(file.with_name(kept), "SELECT * FROM books") == [(8,)]


def test_the_log_of_a_lost_database_is_not_applied_to_a_new_one(file: Path) -> None:
    ensure_database(file, Library(latest="1"), fail)
    leave_log(file)
    file.unlink()
    ensure_database(file, Library(), fail)
    assert is_current(file, Library())
    assert execute(file, "SELECT * FROM books") == []
    assert [name for name in others(file) if name.endswith("-wal")] == others(file) != []


def test_a_database_in_use_is_not_taken_for_a_damaged_one(file: Path) -> None:
    ensure_database(file, Library(), fail)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as server:
        server.execute("PRAGMA wal_autocheckpoint = 0")
        server.execute("INSERT INTO readers VALUES (zeroblob(100000))")
        ensure_database(file, Library(), fail)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


def overwrite(file: Path) -> None:
    file.write_bytes(b"no database")


def lose_a_table(file: Path) -> None:
    execute(file, "DROP TABLE readers")


@pytest.mark.parametrize("damage", [cut, overwrite, lose_a_table])
def test_a_damaged_database_is_set_aside(file: Path, damage: Callable[[Path], None]) -> None:
    ensure_database(file, Library(), fail)
    damage(file)
    before, warnings = file.read_bytes(), []  # type: ignore[var-annotated]
    ensure_database(file, Library(), warnings.append)
    assert is_current(file, Library())
    [kept] = others(file)
    assert file.with_name(kept).read_bytes() == before
    assert len(warnings) == 1


def test_a_newer_database_is_not_touched(file: Path) -> None:
    ensure_database(file, Library(), fail)
    before = file.read_bytes()
    with pytest.raises(ServiceError, match=r"newer Library \(schema 3\); Library 0\.1 is installed"):
        ensure_database(file, Library(latest="2"), fail)
    assert file.read_bytes() == before
