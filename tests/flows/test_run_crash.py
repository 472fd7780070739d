"""Whole runs that are killed, damaged, concurrent or out of disk space. Real processes, real disks."""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.config import load_config
from tests.conftest import Command, TrainingRun, run_training, write_pictures
from tests.run_driver import QUICK
from tests.storage.test_store_crash import on_own_disk

REPOSITORY = Path(__file__).parents[2]
DRIVER = [sys.executable, "-m", "tests.run_driver"]


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*DRIVER, *map(str, arguments)],
        cwd=REPOSITORY,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def await_ready(process: subprocess.Popen[str]) -> None:
    """Block until a run reports that it is ready; `release` lets it continue."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]


def release(process: subprocess.Popen[str]) -> None:
    """Let a run continue."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = process.communicate(timeout=1800)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


def artifacts(home: Path) -> dict[str, str]:
    """Digest of each data file of a store, by path."""
    store = home / "store"
    return {
        path.relative_to(store).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in store.rglob("*.parquet")
        if "quarantine" not in path.parts
    }


def litter(home: Path) -> list[Path]:
    """Files that no process leaves after an orderly end."""
    return [
        path
        for path in home.rglob("*")
        if path.suffix in (".tmp", ".lock") or path.name.startswith((".index-", ".demo-"))
    ]


def quick_run(source: Path | str, home: Path, *settings: str) -> TrainingRun:
    return run_training(load_config(None, [*QUICK, *settings], home=str(home), source={"path": str(source)}))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [100])
def test_a_run_killed_at_any_instant_resumes_to_the_same_bytes(
    kills: int, tmp_path: Path, command: Command
) -> None:
    found = finish(start("kill_often", tmp_path, kills, 20261117))
    whole = artifacts(tmp_path / "undisturbed")
    assert len(whole) > 15
    for number in range(found["chains"]):
        home = tmp_path / f"chain{number}"
        assert artifacts(home) == whole
        assert command("store", "verify", "--home", home).code == 0
        assert command("store", "gc", "--home", home).code == 0
        assert litter(home) == []
        assert artifacts(home) == whole, "gc removed what the run needs"


@pytest.mark.slow
def test_the_command_itself_is_killed_and_resumes(tmp_path: Path) -> None:
    pictures, home = write_pictures(tmp_path / "pictures", 20), tmp_path / "home"
    undisturbed = quick_run(pictures, tmp_path / "other", "embedding.method=multilabel_dle")
    given = [sys.executable, "-m", "flows.cli", "run", str(pictures), "--home", str(home)]
    settings = ("evaluation.folds=2", "report.thumbnails=2", "embedding.method=multilabel_dle")
    given += [part for setting in settings for part in ("--set", setting)]
    surroundings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    for stage in ("ingest", "features", "embedding", "evaluation", "report"):
        with subprocess.Popen(
            given,
            env=surroundings,
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert any(line.strip().startswith(stage) for line in process.stderr)
            process.kill()
    done = subprocess.run(
        [*given, "--json"], env=surroundings, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    summary = json.loads(done.stdout)
    states = {one["stage"]: one["state"] for one in summary["stages"]}
    assert {states[label] for label in ("ingest", "features", "affinity", "embedding[multilabel_dle]")} == {
        "fresh"
    }
    digests = {one["stage"]: one["digest"] for one in summary["stages"] if one["stage"] != "tracking"}
    assert digests == {one.label: one.ref.digest for one in undisturbed.stages}
    assert summary["tracking"]["run_id"]


def flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def cut(path: Path, dice: random.Random) -> None:
    os.truncate(path, dice.randrange(path.stat().st_size))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".json"])
@pytest.mark.parametrize("damage", [flip, cut])
def test_every_damaged_artifact_is_found_and_recomputed(tmp_path: Path, damage: Any, suffix: str) -> None:
    pictures, home = write_pictures(tmp_path / "pictures", 20), tmp_path / "home"
    first = quick_run(pictures, home, "embedding.method=multilabel_dle")
    assert first.report is not None
    whole, dice = artifacts(home), random.Random(5)
    assert {name.split("/")[0] for name in whole} >= {
        "ingest",
        "features",
        "features_part",
        "model",
        "report",
    }
    for name in sorted(whole):
        stage, folder, data = name.removesuffix(".parquet").split("/")
        key = data.partition("-")[0]
        harmed = name if suffix == ".parquet" else f"{stage}/{folder}/{key}.json"
        damage(home / "store" / harmed, dice)
        result = quick_run(pictures, home, "embedding.method=multilabel_dle")
        assert [one.name for one in result.damaged] == [f"{stage}/{key}"]
        assert artifacts(home) == whole
        assert (home / "store" / "quarantine" / stage / Path(harmed).name).exists()
        assert result.report is not None
        assert f"{stage}/{key}" in result.report.read_text(encoding="utf-8")
    assert quick_run(pictures, home, "embedding.method=multilabel_dle").damaged == ()


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 4])
@pytest.mark.parametrize("same", [True, False])
def test_concurrent_runs_compute_each_stage_once(tmp_path: Path, runs: int, same: bool) -> None:
    pictures, home = write_pictures(tmp_path / "pictures", 20), tmp_path / "home"
    settings = ["tracking.enabled=true", "embedding.method=multilabel_dle"]
    jobs = [
        [*settings, f"affinity.n_neighbors={3 if same else 3 + number}", f"name=run{0 if same else number}"]
        for number in range(runs)
    ]
    running = [start("at_once", home, pictures, *job) for job in jobs]
    for one in running:
        await_ready(one)
    for one in running:
        release(one)
    results = [finish(one) for one in running]
    assert [one["problem"] for one in results] == [None] * runs
    times = Counter(name for one in results for name in one["computed"])
    assert set(times.values()) == {1}, times
    stages = Counter(name.split("/")[0] for name in times)
    assert stages["features"] == stages["ingest"] == 1
    assert stages["affinity"] == stages["tracking"] == (1 if same else runs)
    assert len({one["run"] for one in results}) == (1 if same else runs)
    assert not [path for path in litter(home) if path.name != "in-use.lock"]


@pytest.fixture
def paused_run(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """The home and the process of a real run that has its data and is paused before its embeddings."""
    pictures, home = write_pictures(tmp_path / "pictures", 20), tmp_path / "home"
    process = start("pausing", home, pictures, "embedding.method=multilabel_dle")
    await_ready(process)
    yield home, process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_gc_removes_nothing_that_an_active_run_uses(
    paused_run: tuple[Path, subprocess.Popen[str]], command: Command
) -> None:
    home, process = paused_run
    before = artifacts(home)
    assert before, "the run has made its data"
    refused = command("store", "gc", "--keep", "0", "--home", home)
    assert refused.code == 2
    assert "a run is using" in refused.err
    assert command("store", "verify", "--home", home).code == 0
    assert artifacts(home) == before
    release(process)
    finish(process)
    assert command("store", "gc", "--keep", "0", "--home", home).code == 0
    assert before.items() <= artifacts(home).items(), "the last run of a source is kept"


DISK = """
mount -t tmpfs -o size=%s none "$0"
export LABELSCAPE_HOME="$0/home" PREFECT_API_URL=http://127.0.0.1:9/api PYTHONPATH="$PWD"
python="$1" pictures="$2"
run() {
  "$python" -m flows.cli run "$pictures" --set tracking.enabled=false --until embedding 2>"$0.err" >"$0.out"
}
"""


def disk_script(size: str, script: str) -> str:
    return DISK % size + script + '\ncat "$0.answer"'


@pytest.mark.slow
def test_a_run_on_a_full_disk_is_refused_and_resumes_when_there_is_space(tmp_path: Path) -> None:
    pictures, place = write_pictures(tmp_path / "pictures", 20), tmp_path / "disk"
    place.mkdir()
    script = disk_script(
        "20m",
        """
"$1" -m flows.cli run "$2" --set tracking.enabled=false --until features 2>/dev/null >/dev/null
find "$0/home/store" -name '*.parquet' | sort | xargs sha256sum > "$0.before"
dd if=/dev/zero of="$0/filler" bs=4k 2>/dev/null || true
run && code=0 || code=$?
sha256sum --quiet -c "$0.before"
find "$0/home" -name '*.tmp' > "$0.torn"
rm "$0/filler"
mount -o remount,size=200m "$0"
tail -n 1 "$0.err" > "$0.last"
run && again=0 || again=$?
echo "{\\"code\\": $code, \\"again\\": $again}" > "$0.answer"
""",
    )
    answer = on_own_disk(script, place, sys.executable, pictures)
    assert answer["code"] == 2
    assert answer["again"] == 0
    assert (tmp_path / "disk.torn").read_text() == ""
    assert (tmp_path / "disk.last").read_text().startswith("resume with: labelscape run ")


@pytest.mark.slow
def test_a_run_on_a_read_only_disk_is_refused_at_once(tmp_path: Path) -> None:
    pictures, place = write_pictures(tmp_path / "pictures", 20), tmp_path / "disk"
    place.mkdir()
    script = disk_script(
        "200m",
        """
run
find "$0/home/store" -name '*.parquet' | sort | xargs sha256sum > "$0.before"
mount -o remount,ro "$0"
run && code=0 || code=$?
sha256sum --quiet -c "$0.before"
echo "{\\"code\\": $code}" > "$0.answer"
""",
    )
    answer = on_own_disk(script, place, sys.executable, pictures)
    lines = (tmp_path / "disk.err").read_text().splitlines()
    assert answer["code"] == 2, lines
    assert any("Read-only file system" in line and "--home" in line for line in lines)
    assert not any("Traceback" in line for line in lines)
    assert not any(line.startswith("resume with") for line in lines), "the same command would fail again"
