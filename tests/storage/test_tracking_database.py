"""The database of a tracker: whole after a kill, set aside if damaged, never lost, one creator at a time."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import TrackerDamaged, TrackingError
from storage.sqlite import migrated, reading
from storage.sqlite.reading import BUSY_SECONDS
from storage.tracking import migrations
from storage.tracking.client import MethodRecord, RunRecord, Tracker, default_uri
from tests.conftest import REPOSITORY
from tests.tracking_driver import LOG_ONE, finish, start_logging

RECORD = RunRecord("demo", "a run", methods=[MethodRecord("mlda", "MLDA", metrics={"f1": 0.5})])


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one run; creating one takes seconds, so tests copy it."""
    home = tmp_path_factory.mktemp("complete")
    Tracker(default_uri(home), home / "mlartifacts").log(RECORD)
    return home / "mlflow.db"


@pytest.fixture
def copied(complete: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(complete, tmp_path / "mlflow.db"))


def repairing(file: Path, warnings: list[str]) -> Tracker:
    return Tracker(f"sqlite:///{file}", file.parent / "mlartifacts", warn=warnings.append)


def set_aside_files(file: Path) -> list[Path]:
    found = file.parent.glob(f"{file.name}.broken-*")
    return sorted(one for one in found if not one.name.endswith(("-journal", "-wal", "-shm")))


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def overwrite(file: Path) -> None:
    file.write_bytes(random.Random(1).randbytes(200_000))


def fill_with_zeros(file: Path) -> None:
    file.write_bytes(bytes(100_000))


def write_text(file: Path) -> None:
    file.write_text("no database\n" * 500)


def spoil_pages(file: Path) -> None:
    """Damage everything but the first page, which SQLite reads first."""
    data = file.read_bytes()
    file.write_bytes(data[:4096] + random.Random(2).randbytes(len(data) - 4096))


def spoil_schema(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as opened:
        opened.execute("PRAGMA writable_schema = ON")
        opened.execute("UPDATE sqlite_master SET sql = CAST(x'C3FF28' AS TEXT) WHERE name = 'runs'")
        opened.commit()


def spoil_text(file: Path) -> None:
    """Text that is not UTF-8, which SQLite's own checks do not find."""
    with contextlib.closing(sqlite3.connect(file)) as opened:
        opened.execute("UPDATE experiments SET name = CAST(x'FFFEFF' AS TEXT) WHERE name = 'demo'")
        opened.execute("UPDATE experiments SET artifact_location = CAST(x'FFFE' AS TEXT)")
        opened.commit()


def drop_table(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as opened:
        opened.execute("DROP TABLE metrics")
        opened.commit()


def stop_half_way(file: Path) -> None:
    """As a kill during MLflow's migrations leaves it: a table exists before its migration is recorded."""
    with contextlib.closing(sqlite3.connect(file)) as opened:
        opened.execute("UPDATE alembic_version SET version_num = '97727af70f4d'")
        opened.commit()


DAMAGE = [
    truncate,
    overwrite,
    fill_with_zeros,
    write_text,
    spoil_pages,
    spoil_schema,
    drop_table,
    stop_half_way,
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_database_is_set_aside_and_runs_are_tracked(
    copied: Path, damage: Callable[[Path], None]
) -> None:
    damage(copied)
    before, warnings = copied.read_bytes(), []  # type: ignore[var-annotated]
    done = repairing(copied, warnings).log(RECORD)
    assert Tracker(f"sqlite:///{copied}").exists(done.parent_id)
    [kept] = set_aside_files(copied)
    assert kept.read_bytes() == before, "nothing of it is lost"
    [warning] = warnings
    assert kept.name in warning
    assert "`labelscape sync`" in warning
    assert not list(copied.parent.glob("*.tmp*"))


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_reading_reports_damage_and_leaves_the_database(copied: Path, damage: Callable[[Path], None]) -> None:
    damage(copied)
    before = copied.read_bytes()
    with pytest.raises(TrackerDamaged, match=r"mlflow\.db is damaged \(.*\)\. .*`labelscape run`"):
        Tracker(f"sqlite:///{copied}").experiments()
    assert copied.read_bytes() == before
    assert not set_aside_files(copied)


@pytest.mark.slow
def test_text_that_cannot_be_read_is_damage(copied: Path) -> None:
    spoil_text(copied)
    with pytest.raises(TrackerDamaged, match="experiments: a text is not valid UTF-8"):
        Tracker(f"sqlite:///{copied}").experiments()
    warnings: list[str] = []
    with pytest.raises(TrackingError, match=r"kept as mlflow\.db\.broken-.* lacks its 2 runs"):
        repairing(copied, warnings).experiments()
    assert repairing(copied, warnings).log(RECORD).parent_id


@pytest.mark.slow
def test_lost_runs_are_those_of_a_database_that_was_set_aside(copied: Path) -> None:
    tracker = Tracker(f"sqlite:///{copied}")
    known = tracker.runs("demo")[0].parent_id
    assert tracker.lost_runs([known, "gone"]) == set(), "deleted by the user"
    copied.with_name("mlflow.db.broken-20260101-000000").touch()
    assert tracker.lost_runs([known, "gone"]) == {"gone"}
    truncate(copied)
    assert tracker.lost_runs([known, "gone"]) == {known, "gone"}


def make_newer(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as opened:
        opened.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
        opened.commit()


def make_foreign(file: Path) -> None:
    file.unlink()
    with contextlib.closing(sqlite3.connect(file)) as opened:
        opened.execute("CREATE TABLE bookmarks (id)")
        opened.commit()


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (make_newer, r"newer MLflow \(schema ffffffffffff\).*Install"),
        (make_foreign, r"another program \(table bookmarks\).*Move it away"),
        (make_folder, "not a file.*Move it away"),
    ],
)
def test_what_is_not_damaged_is_never_touched(
    copied: Path, change: Callable[[Path], None], message: str
) -> None:
    change(copied)
    before = copied.read_bytes() if copied.is_file() else None
    warnings: list[str] = []
    with pytest.raises(TrackingError, match=message):
        repairing(copied, warnings).log(RECORD)
    assert (copied.read_bytes() if copied.is_file() else None) == before
    assert not warnings
    assert not set_aside_files(copied)


def test_a_file_that_tracking_uri_names_by_mistake_is_not_moved(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes")
    with pytest.raises(TrackingError, match=r"notes\.txt is not an SQLite database.*tracking\.uri"):
        repairing(notes, []).log(RECORD)
    assert notes.read_text() == "my notes"


@pytest.mark.slow
def test_an_older_database_is_upgraded_and_a_copy_is_kept(tmp_path: Path, complete: Path) -> None:
    file, older = tmp_path / "mlflow.db", "1b5f0d9ad7c1"
    subprocess.run([sys.executable, "-c", OLDER_DATABASE, str(file), older], check=True)
    before = file.read_bytes()
    warnings: list[str] = []
    done = repairing(file, warnings).log(RECORD)
    assert Tracker(f"sqlite:///{file}").exists("old")
    assert Tracker(f"sqlite:///{file}").exists(done.parent_id)
    [kept] = file.parent.glob("mlflow.db.before-upgrade-*")
    assert kept.read_bytes() == before
    assert not warnings


OLDER_DATABASE = """
import sys, sqlite3
from alembic import command
from mlflow.store.db import utils
uri = f"sqlite:///{sys.argv[1]}"
engine = utils.create_sqlalchemy_engine(uri)
utils.InitialBase.metadata.create_all(engine)
config = utils._get_alembic_config(uri)
command.upgrade(config, sys.argv[2])
with sqlite3.connect(sys.argv[1]) as opened:
    opened.execute("INSERT INTO experiments (experiment_id, name, lifecycle_stage) VALUES (7, 'x', 'active')")
    opened.execute("INSERT INTO runs (run_uuid, experiment_id, lifecycle_stage, status) "
                   "VALUES ('old', 7, 'active', 'FINISHED')")
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_no_incomplete_database(tmp_path: Path) -> None:
    rng = random.Random(4)
    for attempt in range(3):
        home = tmp_path / str(attempt)
        home.mkdir()
        file = home / "mlflow.db"
        if attempt == 0:
            file.touch()
        process = start_logging(f"sqlite:///{file}", home / "mlartifacts", start_new_session=True)
        while not (found := list(home.glob("mlflow.db.*.tmp"))):
            assert process.poll() is None, "it was not created under another name"
            time.sleep(0.002)
        [growing] = found
        size = rng.randrange(600_000)
        while growing.exists() and growing.stat().st_size < size:
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        lines = finish(start_logging(f"sqlite:///{file}", home / "mlartifacts"))
        assert Tracker(f"sqlite:///{file}").exists(lines[0]), lines
        assert len(lines) == 1, "there was nothing to set aside"
        assert not list(home.glob("mlflow.db.*"))


@pytest.mark.slow
def test_a_database_that_mlflow_created_half_is_completed_or_set_aside(tmp_path: Path) -> None:
    code = "import sys, mlflow; mlflow.MlflowClient(tracking_uri=sys.argv[1])"
    rng = random.Random(5)
    for attempt in range(3):
        file = tmp_path / str(attempt) / "mlflow.db"
        uri, tables = f"sqlite:///{file}", rng.randrange(1, 40)
        process = subprocess.Popen([sys.executable, "-c", code, uri], stderr=subprocess.DEVNULL)
        while process.poll() is None and count_tables(file) < tables:
            time.sleep(0.001)
        process.kill()
        process.wait()
        lines = finish(start_logging(uri, file.parent / "mlartifacts"))
        assert Tracker(uri).exists(lines[-1])
        assert len(set_aside_files(file)) == len(lines) - 1


def count_tables(file: Path) -> int:
    if not file.exists():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
            return int(opened.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.Error:
        return 0


def test_what_a_killed_writer_left_is_undone(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    code = (
        "import os, signal, sqlite3, sys; opened = sqlite3.connect(sys.argv[1])\n"
        "opened.execute('CREATE TABLE runs (run_uuid, lifecycle_stage)')\n"
        "opened.executemany('INSERT INTO runs VALUES (?, ?)', [(str(i), 'active') for i in range(5000)])\n"
        "opened.commit(); opened.execute('PRAGMA cache_size = 1')\n"
        "opened.execute('UPDATE runs SET lifecycle_stage = 0')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], check=False)
    assert file.with_name("mlflow.db-journal").exists()
    assert Tracker(f"sqlite:///{file}").exists("7")


@pytest.mark.slow
def test_four_first_runs_at_once_are_all_tracked(tmp_path: Path) -> None:
    uri = default_uri(tmp_path)
    started = [start_logging(uri, tmp_path / "mlartifacts") for _ in range(4)]
    runs = [finish(one) for one in started]
    assert all(len(lines) == 1 and Tracker(uri).exists(lines[0]) for lines in runs)


CREATING = """
import sqlite3, sys, time
from pathlib import Path
file, latest = Path(sys.argv[1]), sys.argv[2]
opened = sqlite3.connect(file)
opened.execute("SELECT * FROM alembic_version").fetchall()
print("open", flush=True)
while not file.with_name(".mlflow.db.lock").exists():
    time.sleep(0.01)
opened.execute("UPDATE alembic_version SET version_num = ?", [latest])
opened.commit()
input()
"""


@pytest.mark.slow
def test_a_database_that_an_mlflow_server_is_creating_is_left_to_it(copied: Path) -> None:
    stop_half_way(copied)
    inode, warnings = copied.stat().st_ino, []  # type: ignore[var-annotated]
    server = subprocess.Popen(
        [sys.executable, "-c", CREATING, str(copied), migrations.known_revisions()[0]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout and server.stdout.readline()
        done = repairing(copied, warnings).log(RECORD)
    finally:
        server.kill()
        server.communicate()
    assert Tracker(f"sqlite:///{copied}").exists(done.parent_id)
    assert copied.stat().st_ino == inode
    assert not warnings


@pytest.mark.slow
def test_a_damaged_database_in_use_is_not_moved(copied: Path) -> None:
    truncate(copied)
    code = f"opened = open({str(copied)!r}); print(1, flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout and other.stdout.readline()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(migrated, "WAIT_SECONDS", 0.0)
            with pytest.raises(TrackingError, match=rf"process {other.pid} uses it\. Stop that process"):
                repairing(copied, []).log(RECORD)
        assert not set_aside_files(copied)
    finally:
        other.kill()
        other.communicate()


@pytest.mark.slow
def test_a_locked_database_is_reported(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BUSY_SECONDS >= 20
    monkeypatch.setattr(reading, "BUSY_SECONDS", 0.2)
    with contextlib.closing(sqlite3.connect(copied)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TrackingError, match=r"locked.*close that program"):
            repairing(copied, []).log(RECORD)
    assert repairing(copied, []).log(RECORD)


def obey_permissions() -> None:
    """Take away root's right to ignore permissions, for a process that is about to start."""
    import ctypes

    if os.getuid() == 0:
        drop_capability, dac_override = 24, 1
        ctypes.CDLL(None).prctl(drop_capability, dac_override, 0, 0, 0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are a feature of Linux")
@pytest.mark.parametrize("exists", [True, False])
def test_without_permission_the_reason_and_a_remedy_are_reported(copied: Path, exists: bool) -> None:
    if exists:
        copied.chmod(0o444)
    else:
        copied.unlink()
    copied.parent.chmod(0o555)
    try:
        process = start_logging(f"sqlite:///{copied}", copied.parent, preexec_fn=obey_permissions)
        err = process.communicate(timeout=300)[1]
    finally:
        copied.parent.chmod(0o755)
    assert "Make it and its folder readable and writable" in err.splitlines()[-1]
    assert "sqlalchemy.exc" not in err.splitlines()[-1]


FULL_DISK = (
    """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
"""
    + LOG_ONE
)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20_000, 300_000])
def test_no_room_is_reported_and_leaves_nothing_behind(tmp_path: Path, limit: int) -> None:
    uri = default_uri(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, uri, str(tmp_path / "mlartifacts"), str(limit)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert "has space" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.glob("mlflow*"))
    lines = finish(start_logging(uri, tmp_path / "mlartifacts"))
    assert Tracker(uri).exists(lines[0])
