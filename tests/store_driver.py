"""Processes that the crash tests start: `python -m tests.store_driver COMMAND ROOT ...`; answers in JSON."""

import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage.artifacts import tables
from storage.artifacts.store import Artifact, ArtifactStore
from storage.errors import ArtifactDamaged, StoreError
from tests.store_helpers import artifact, data_path, files, recipe

SIGNS = ("fsync", "replace", "unlink", "open", "mkdir")


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.005)


def together(root: Path, meeting: Path, others: int, seeds: str) -> dict[str, Any]:
    """Compute recipes at the same time as other processes; a computation ends once `others` wait for it."""
    cached = []
    (meeting / f"here-{os.getpid()}").touch()
    wait_for((meeting / "go").exists)
    for seed in json.loads(seeds):

        def produce(seed: int = seed) -> Artifact:
            (meeting / f"computed-{seed}-{os.getpid()}").touch()
            wait_for(lambda: len(list(meeting.glob(f"waits-{seed}-*"))) >= others)
            return artifact(seed)

        def on_wait(message: str, seed: int = seed) -> None:
            (meeting / f"waits-{seed}-{os.getpid()}").touch()

        cached.append(ArtifactStore.local(root).compute(recipe(seed), produce, on_wait=on_wait).cached)
    return {"cached": cached}


def hold(root: Path) -> dict[str, Any]:
    """Hold the lock of a computation until killed, with a forked worker that outlives it."""

    def produce() -> Artifact:
        if os.fork() == 0:  # the worker reports itself, so that it is known to have started
            os.write(sys.stdout.fileno(), f"{os.getpid()}\n".encode())
            signal.pause()
            os._exit(0)
        signal.pause()
        raise AssertionError("not killed")

    ArtifactStore.local(root).compute(recipe(), produce)
    return {}


def _die_at(step: int) -> None:
    """Kill this process when the store has touched the disk `step` times."""
    count = 0

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in SIGNS:
        setattr(os, name, counting(getattr(os, name)))
    tables._HashingFile.write = counting(tables._HashingFile.write)  # type: ignore[method-assign]


def _forked(work: Callable[[], object], kill_after: float | None = None) -> bool:
    """Do work in a child; True when it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _check_after_kill(store: ArtifactStore, allowed: set[str]) -> bool:
    """Check that it is complete or absent, never damaged; return whether it exists."""
    found = store.find(recipe(), verify=True)
    assert not store.quarantined, store.quarantined
    assert found is None or found.digest in allowed, found
    if found:
        store.read(found)
    return found is not None


def kill_steps(root: Path, before: str, force_seed: int) -> dict[str, Any]:
    """Kill a computation at every step in turn; after each, the store is intact and usable."""
    reference = ArtifactStore.local(root / "reference")
    digests = {
        seed: reference.compute(recipe(seed + 1), lambda s=seed: artifact(s)).ref.digest for seed in (0, 1)
    }
    seen = []
    for step in range(1, 1000):
        store = ArtifactStore.local(root / str(step))
        if before == "there":
            store.compute(recipe(), artifact)

        def work(store: ArtifactStore = store, step: int = step) -> None:
            _die_at(step)
            store.compute(recipe(), lambda: artifact(force_seed), force=True)

        killed = _forked(work)
        if not killed:
            return {"steps": step, "there": seen}
        seen.append(_check_after_kill(store, set(digests.values())))
        done = store.compute(recipe(), lambda: artifact(force_seed), force=True)
        assert done.ref.digest == digests[force_seed]
        store.remove_orphans()
        assert len(files(store)) == 2, files(store)
    raise AssertionError("never finished")


def kill_times(root: Path, rounds: int) -> dict[str, Any]:
    """Kill a loop of forced computations at random times."""
    store = ArtifactStore.local(root)
    store.compute(recipe(), artifact)  # imports pyarrow, which is not to be timed
    begun = time.perf_counter()
    digests = {store.compute(recipe(), lambda s=s: artifact(s, 2000), force=True).ref.digest for s in (0, 1)}
    usual = time.perf_counter() - begun

    def work() -> None:
        while True:
            for seed in (0, 1):
                store.compute(recipe(), lambda s=seed: artifact(s, 2000), force=True)

    assert _check_after_kill(ArtifactStore.local(root), digests), "a whole write is not there"
    for number in range(rounds):
        assert _forked(work, kill_after=random.Random(number).uniform(0.2, 1) * usual)
        _check_after_kill(ArtifactStore.local(root), digests)
    store.compute(recipe(), lambda: artifact(0, 2000))
    store.remove_orphans()
    return {"files": len(files(store))}


def small_files(root: Path) -> dict[str, Any]:
    """Limit the size of files, as on a full disk, for many limits."""
    store = ArtifactStore.local(root)
    store.compute(recipe(0), artifact)
    whole = files(store)
    size = data_path(store, recipe(0)).stat().st_size
    messages = []
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    for limit in [*range(0, size, max(1, size // 25)), size - 1]:
        for target in (recipe(0), recipe(1)):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                store.compute(target, lambda: artifact(1), force=True)
            except StoreError as error:
                messages.append(str(error))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            assert files(store) == whole, files(store)
        assert store.find(recipe(0), verify=True)
    _check_own_error_comes_first(store, hard)
    return {"messages": messages}


def _check_own_error_comes_first(store: ArtifactStore, hard: int) -> None:
    """A computation that fails while the disk is full raises its own error."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from artifact().batches()
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        raise KeyError("mine")

    try:
        store.compute(recipe(2), lambda: Artifact("sample", batches(), {}, artifact().columns))
    except KeyError:
        return
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    raise AssertionError("no error")


def full_disk(root: Path) -> dict[str, Any]:
    """On a separate small disk: fill it, then free it."""
    store = ArtifactStore.local(root)
    store.compute(recipe(0), artifact)
    whole = files(store)
    messages = []
    for target in (recipe(0), recipe(1)):
        try:
            store.compute(target, lambda: artifact(2, 200_000), force=True)
        except StoreError as error:
            messages.append(str(error))
        assert files(store) == whole, files(store)
    assert store.compute(recipe(0), artifact).cached
    assert not store.compute(recipe(1), artifact).cached
    return {"messages": messages}


def read_only(root: Path) -> dict[str, Any]:
    """On a read-only disk: stored artifacts are used, anything else is an error."""
    store = ArtifactStore.local(root)
    assert store.compute(recipe(0), artifact).cached
    store.read(store.ref("features", recipe(0).key))
    messages = []
    for call in (
        lambda: store.compute(recipe(3), artifact),
        lambda: store.compute(recipe(0), artifact, force=True),
        lambda: store.write_pointer("run", {}),
    ):
        try:
            call()
        except StoreError as error:
            messages.append(str(error))
    try:
        store.read(store.ref("features", recipe(1).key))
    except ArtifactDamaged as error:
        messages.append(str(error))
    return {"messages": messages}


def prepare(root: Path) -> dict[str, Any]:
    """A good artifact and a damaged one."""
    store = ArtifactStore.local(root)
    for seed in (0, 1):
        store.compute(recipe(seed), artifact)
    path = data_path(store, recipe(1))
    data = bytearray(path.read_bytes())
    data[50] ^= 4
    path.write_bytes(data)
    return {}


COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "together": lambda root, meeting, others, seeds: together(root, Path(meeting), int(others), seeds),
    "hold": hold,
    "kill_steps": lambda root, before, seed: kill_steps(root, before, int(seed)),
    "kill_times": lambda root, rounds: kill_times(root, int(rounds)),
    "small_files": small_files,
    "full_disk": full_disk,
    "read_only": read_only,
    "prepare": prepare,
}

if __name__ == "__main__":
    command, where, *rest = sys.argv[1:]
    sys.stdout.write(json.dumps(COMMANDS[command](Path(where), *rest)) + "\n")
