"""Prefect's database of a home: whole after a kill, set aside if a server was killed while it migrated."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.prefect_database import PREFECT, database_file, known_revisions, prepare_database
from flows.services import down, up
from storage.errors import ServiceError
from storage.sqlite.migrated import is_current
from tests.conftest import REPOSITORY, start_command

# A revision with the tables of flow runs, long before the latest.
OLDER = "9725c1cbee35"
PREPARE = (
    "import sys; from pathlib import Path; from flows.prefect_database import prepare_database as prepare\n"
)
CREATE = PREPARE + "prepare(Path(sys.argv[1]), print)"
IN_PLACE = (
    "import asyncio, sys; from prefect.server.database.alembic_commands import alembic_upgrade\n"
    "from prefect.utilities.asyncutils import run_sync_in_worker_thread\n"
    "asyncio.run(run_sync_in_worker_thread(alembic_upgrade, sys.argv[1]))"
)


def start(code: str, home: Path, argument: str) -> "subprocess.Popen[str]":
    """Start code in its own session, with Prefect's home in the home folder."""
    database_file(home).parent.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", code, argument],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "PREFECT_HOME": str(home / "prefect")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    said = process.communicate(timeout=300)[0]
    assert process.returncode == 0, said
    return said


def count_objects(file: Path) -> int:
    """Tables and indexes that other processes see now; 0 if there is no database yet."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
            return int(opened.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.Error:
        return 0


def kill_at(process: "subprocess.Popen[str]", folder: Path, pattern: str, objects: int) -> None:
    """Kill a process when a database that matches a pattern has some tables and indexes."""
    while process.poll() is None:
        if any(count_objects(file) >= objects for file in folder.glob(pattern)):
            break
        time.sleep(0.002)
    process.kill()  # not its children: they must end by themselves
    process.communicate()


def others(home: Path) -> list[str]:
    """Files in Prefect's folder that have to do with its database, and are not SQLite's."""
    names = {path.name for path in (home / "prefect").glob("prefect.db*")}
    return sorted(names - {"prefect.db", "prefect.db-wal", "prefect.db-shm"})


def test_the_latest_revision_is_found_without_importing_prefect(tmp_path: Path) -> None:
    code = (
        "import sys; from flows.prefect_database import known_revisions\n"
        "assert len(known_revisions()) > 100 and 'prefect' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)


def test_a_database_of_a_newer_prefect_is_not_touched(tmp_path: Path) -> None:
    file = database_file(tmp_path)
    file.parent.mkdir()
    with contextlib.closing(sqlite3.connect(file)) as opened:
        opened.execute("CREATE TABLE alembic_version (version_num)")
        opened.execute("INSERT INTO alembic_version VALUES ('ffffffffffff')")
        opened.commit()
    before = file.read_bytes()
    with pytest.raises(ServiceError, match=r"newer Prefect \(schema ffffffffffff\).*choose another folder"):
        prepare_database(tmp_path, pytest.fail)
    assert file.read_bytes() == before


@pytest.mark.slow
def test_the_latest_revision_is_that_of_alembic() -> None:
    import prefect.server.database
    from alembic.script import ScriptDirectory

    folder = Path(prefect.server.database.__file__).parent / "_migrations"
    scripts = ScriptDirectory(str(folder), version_locations=[str(folder / "versions" / "sqlite")])
    assert scripts.get_heads() == [known_revisions()[0]]
    assert {one.revision for one in scripts.walk_revisions()} == {*known_revisions()}
    assert OLDER in known_revisions()


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_no_incomplete_database(tmp_path: Path) -> None:
    rng = random.Random(6)
    for attempt in range(4):
        home = tmp_path / str(attempt)
        kill_at(start(CREATE, home, str(home)), home / "prefect", "prefect.db.*.tmp", rng.randrange(1, 150))
        assert not database_file(home).exists()
    assert finish(start(CREATE, home, str(home))) == "", "there was nothing to set aside"
    assert is_current(database_file(home), PREFECT)
    assert others(home) == []
    assert database_file(home).stat().st_mode & 0o777 == 0o600


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the database of an older Prefect and a flow run."""
    home = tmp_path_factory.mktemp("older")
    finish(start(IN_PLACE, home, OLDER))
    with contextlib.closing(sqlite3.connect(database_file(home))) as opened:
        opened.execute("INSERT INTO flow (id, name) VALUES ('f', 'labelscape-run')")
        opened.execute("INSERT INTO flow_run (id, flow_id, name) VALUES ('r', 'f', 'old-run')")
        opened.commit()
    return home


def flow_runs(home: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(database_file(home))) as opened:
        return [name for (name,) in opened.execute("SELECT name FROM flow_run")]


@pytest.mark.slow
def test_a_kill_during_an_upgrade_does_not_lose_the_old_database(older: Path, tmp_path: Path) -> None:
    home, begun = tmp_path / "home", count_objects(database_file(older))
    shutil.copytree(older, home)
    for more in (1, 20):
        kill_at(start(CREATE, home, str(home)), home / "prefect", "prefect.db.*.tmp", begun + more)
        assert flow_runs(home) == ["old-run"]
        assert not is_current(database_file(home), PREFECT)
    assert finish(start(CREATE, home, str(home))) == ""
    assert flow_runs(home) == ["old-run"]
    assert is_current(database_file(home), PREFECT)
    [kept] = others(home)
    assert kept.startswith("prefect.db.before-upgrade-")


@pytest.mark.slow
def test_up_goes_on_after_a_server_was_killed_while_it_migrated_in_place(tmp_path: Path) -> None:
    home = tmp_path / "home"
    kill_at(start(IN_PLACE, home, "head"), home / "prefect", "prefect.db", 60)
    with contextlib.closing(sqlite3.connect(database_file(home))) as opened:
        # What that kill left is complete up to a revision, or not; this is the second case in any event.
        opened.execute("ALTER TABLE flow_run ADD COLUMN deployment_version VARCHAR")
        opened.commit()
    warnings: list[str] = []
    found = up(home, 0, 0, warn=warnings.append)
    try:
        [kept] = others(home)
        assert kept.startswith("prefect.db.broken-")
        [warning] = warnings
        assert "half-created" in warning and "duplicate column name: deployment_version" in warning
        assert f"is kept as {kept}" in warning and "no flow runs" in warning
        assert is_current(database_file(home), PREFECT)
    finally:
        os.kill(found.prefect.pid, signal.SIGKILL)
        down(home)


@pytest.mark.slow
def test_a_run_without_up_repairs_the_database_and_is_recorded(tmp_path: Path) -> None:
    home = tmp_path / "home"
    database_file(home).parent.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(database_file(home))) as opened:
        opened.execute("CREATE TABLE flow (id)")
        opened.commit()
    options = ("--until", "ingest", "--set", "tracking.enabled=false")
    out, err = start_command(tmp_path, "run", "wine", *options).communicate(timeout=300)
    assert "warning: " in err and "prefect.db.broken-" in err
    assert "continuing without" not in err
    assert len(flow_runs(home)) == 1
    assert "kept as prefect.db.broken-" in out, "it is repeated after the results"
