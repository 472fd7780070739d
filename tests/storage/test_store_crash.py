"""The store under failures: killed processes, flipped bits, truncated files, full disks, concurrent runs."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.artifacts import disk
from storage.artifacts.locks import try_lock
from storage.artifacts.store import ArtifactStore
from storage.errors import ArtifactDamaged, StoreError
from tests.store_helpers import artifact, data_path, files, manifest_path, recipe, table

REPOSITORY = Path(__file__).parents[2]
# Later Pythons warn of any fork beside threads, and pyarrow keeps some; the children only write.
STRICT = ("-W", "error", "-W", "ignore::DeprecationWarning")


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, *STRICT, "-m", "tests.store_driver", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=REPOSITORY, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert not errors
    return json.loads(out.splitlines()[-1])


def run(*arguments: object) -> dict[str, Any]:
    return finish(start(*arguments))


def at_once(tmp_path: Path, jobs: list[tuple[int, list[int]]]) -> list[dict[str, Any]]:
    """Start (others, seeds) jobs in processes that begin together."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    running = [start("together", tmp_path / "store", meeting, others, seeds) for others, seeds in jobs]
    while len(list(meeting.glob("here-*"))) < len(running) and all(p.poll() is None for p in running):
        time.sleep(0.01)
    (meeting / "go").touch()
    return [finish(process) for process in running]


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_that_want_the_same_compute_it_once(tmp_path: Path, processes: int) -> None:
    # The computation ends only when all others wait for it, so that they do meet.
    results = at_once(tmp_path, [(processes - 1, [0])] * processes)
    assert sorted(result["cached"][0] for result in results) == [False] + [True] * (processes - 1)
    assert len(list((tmp_path / "meeting").glob("computed-0-*"))) == 1
    assert files(ArtifactStore.local(tmp_path / "store"), "*.lock") == []


@pytest.mark.slow
def test_runs_at_once_with_partly_the_same_stages_all_succeed(tmp_path: Path) -> None:
    at_once(tmp_path, [(0, [0, 1, 2, 3]), (0, [0, 2, 1, 4]), (0, [4, 3, 2, 1]), (0, [0, 1, 2, 3])])
    computed = [path.name.split("-")[1] for path in (tmp_path / "meeting").glob("computed-*")]
    assert sorted(computed) == ["0", "1", "2", "3", "4"]
    store = ArtifactStore.local(tmp_path / "store")
    for seed in range(5):
        ref = store.find(recipe(seed), verify=True)
        assert ref is not None
        assert store.read(ref).equals(table(seed))


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until it is killed, with a forked worker that outlives it."""
    process = start("hold", tmp_path)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    yield process
    process.kill()
    os.kill(worker, signal.SIGKILL)
    process.communicate()


def test_killing_the_holder_frees_the_lock(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    lock = tmp_path / "locks" / f"{recipe().key}.lock"
    with try_lock(lock) as mine:
        assert not mine
    holder.kill()
    holder.wait()
    assert lock.exists()
    with try_lock(lock) as mine:
        assert mine, "the worker keeps the lock of its killed parent"
    assert not lock.exists()


def test_a_waiting_process_computes_if_the_holder_is_killed(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    reported: list[str] = []

    def kill_holder(message: str) -> None:
        reported.append(message)
        holder.kill()

    assert not ArtifactStore.local(tmp_path).compute(recipe(), artifact, on_wait=kill_holder).cached
    assert reported == [f"features is being computed by process {holder.pid}; waiting for it."]
    assert files(ArtifactStore.local(tmp_path), "*.lock") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "seed"),
    [
        pytest.param("absent", 0, id="first"),
        pytest.param("there", 0, id="same again", marks=pytest.mark.slow),
        pytest.param("there", 1, id="other again", marks=pytest.mark.slow),
    ],
)
def test_killed_at_every_step_of_a_write(tmp_path: Path, before: str, seed: int) -> None:
    result = run("kill_steps", tmp_path, before, seed)
    assert result["steps"] > 10
    there = result["there"]
    if before == "absent":
        assert not there[0]
        assert there[-1]
        assert there == sorted(there)  # absent up to one instant, whole from then on
    else:
        assert all(there)  # the new result replaces the old one without a gap


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_at_random_times(tmp_path: Path, rounds: int) -> None:
    result = run("kill_times", tmp_path, rounds)
    assert result["files"] == 2


def offsets(size: int, count: int) -> list[int]:
    """Random places, and those where a file begins and ends."""
    edges = {0, 3, 4, size - 1, size - 4, size - 5, size - 8, size - 9}
    return sorted(edges | set(random.Random(size).sample(range(size), count)))


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    offset %= len(data)  # a repaired manifest may be a digit shorter, since it holds the time taken
    data[offset] ^= 1 << (offset % 8)
    path.write_bytes(data)


def assert_found_and_repaired(root: Path, path: Path, whole: bytes) -> None:
    store = ArtifactStore.local(root)
    damaged = path.read_bytes()
    assert not store.compute(recipe(), artifact).cached, "the damage went unnoticed"
    assert [entry.name for entry in store.quarantined] == [f"features/{recipe().key}"]
    assert (root / "quarantine" / "features" / path.name).read_bytes() == damaged
    assert data_path(store, recipe()).read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".json"])
def test_a_flipped_bit_is_found_quarantined_and_recomputed(tmp_path: Path, suffix: str) -> None:
    store = ArtifactStore.local(tmp_path)
    store.compute(recipe(), artifact)
    path = data_path(store, recipe())
    whole = path.read_bytes()
    target = path if suffix == ".parquet" else manifest_path(store, recipe())
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    places = offsets(target.stat().st_size, 15)
    if suffix == ".parquet":
        places += [offset + footer for offset in offsets(len(whole) - footer, 8)]
    for offset in places:
        flip(target, offset)
        assert_found_and_repaired(tmp_path, target, whole)


@pytest.mark.parametrize("suffix", [".parquet", ".json"])
def test_a_truncated_file_is_found_quarantined_and_recomputed(tmp_path: Path, suffix: str) -> None:
    store = ArtifactStore.local(tmp_path)
    store.compute(recipe(), artifact)
    path = data_path(store, recipe())
    whole = path.read_bytes()
    target = path if suffix == ".parquet" else manifest_path(store, recipe())
    for length in offsets(target.stat().st_size, 8):
        # A repaired manifest may be a digit shorter, since it holds the time taken.
        os.truncate(target, min(length, target.stat().st_size - 1))
        assert_found_and_repaired(tmp_path, target, whole)


def test_a_manifest_without_data_is_quarantined(tmp_path: Path) -> None:
    store = ArtifactStore.local(tmp_path)
    ref = store.compute(recipe(), artifact).ref
    data_path(store, recipe()).unlink()
    with pytest.raises(ArtifactDamaged, match="missing"):
        store.read(ref)
    assert files(store) == [f"quarantine/features/{recipe().key}.json"]


@pytest.mark.parametrize("where", ["data", "footer", "tail", "manifest", "cut"])
def test_reading_a_damaged_artifact_quarantines_it(tmp_path: Path, where: str) -> None:
    store = ArtifactStore.local(tmp_path)
    ref = store.compute(recipe(), artifact).ref
    path = data_path(store, recipe())
    size = path.stat().st_size
    if where == "cut":
        os.truncate(path, size // 2)
    elif where == "manifest":
        flip(manifest_path(store, recipe()), 40)
    else:
        flip(path, {"data": 100, "footer": size - 60, "tail": size - 6}[where])
    with pytest.raises(ArtifactDamaged, match="run again to recompute it"):
        store.read(ref)
    assert [name.split("/")[0] for name in files(store)] == ["quarantine", "quarantine"]
    with pytest.raises(StoreError, match="not in the store"):
        next(store.iter_batches(ref))


def test_a_change_of_any_bit_of_sealed_json_is_detected() -> None:
    sealed = disk.seal({"name": "naïve \n", "numbers": [1, 1e300, -0.5], "nothing": None})
    assert disk.unseal(sealed)["name"] == "naïve \n"
    for bit in range(8 * len(sealed)):
        data = bytearray(sealed)
        data[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(ValueError):
            disk.unseal(bytes(data))


@pytest.mark.slow
def test_no_room_for_a_file_of_any_length(tmp_path: Path) -> None:
    messages = run("small_files", tmp_path)["messages"]
    assert len(messages) > 40
    assert all("No room to write" in message and "--home" in message for message in messages)


def on_own_disk(script: str, *arguments: object) -> dict[str, Any]:
    """Run a shell script that mounts a small disk in its own namespace; skip if that is not allowed."""
    space = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    if not shutil.which("unshare"):
        pytest.skip("needs unshare(1) to mount a small disk")
    trial = subprocess.run(
        [*space, 'mount -t tmpfs none "$0"', arguments[0]], capture_output=True, check=False
    )
    if trial.returncode:
        pytest.skip("may not mount a small disk here")
    command = [*space, script, *map(str, arguments)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_leaves_the_store_whole(tmp_path: Path) -> None:
    script = (
        'mount -t tmpfs -o size=1m none "$0"; exec "$1" -W error -m tests.store_driver full_disk "$0/store"'
    )
    messages = on_own_disk(script, tmp_path, sys.executable)["messages"]
    assert len(messages) == 2
    assert all("No space left on device" in message and "free some space" in message for message in messages)


@pytest.mark.slow
def test_a_read_only_store_still_serves_what_it_has(tmp_path: Path) -> None:
    script = (
        'mount -t tmpfs none "$0"; "$1" -m tests.store_driver prepare "$0/store"; mount -o remount,ro "$0"; '
        'exec "$1" -W error -m tests.store_driver read_only "$0/store"'
    )
    messages = on_own_disk(script, tmp_path, sys.executable)["messages"]
    assert len(messages) == 4
    assert all("Read-only file system" in message and str(tmp_path) in message for message in messages)
    assert "is damaged" in messages[-1]
