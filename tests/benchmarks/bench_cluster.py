"""Features of many pictures: two Dask workers against `processes:2`, both after start-up.

    python -m tests.benchmarks.bench_cluster [--pictures 20000] [--rounds 3]

Both executors first compute the features of a few pictures, which starts their workers and compiles the
kernels. Then they compute those of all pictures in turn, in rotating order. The bar is judged by wall-clock
time; the processor time of all processes that take part is printed beside it, because it hardly depends on
the load of the machine.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from PIL import Image

from flows.pipeline import walk_data
from flows.runner import open_workspace
from storage.artifacts.keys import ArtifactRef
from tasks.executor import make_executor
from tasks.reporter import Reporter
from tasks.stage import Stage, run_stage
from tests.benchmarks.table import Row, markdown
from tests.conftest import local_config
from tests.dask_cluster import dask_cluster

WIDTH, HEIGHT, WARM_UP = 320, 213, 400


class Timing(NamedTuple):
    """Wall-clock and processor seconds, and the digest of the features."""

    clock: float
    processor: float
    digest: str


class _Done(Exception):
    """The features are computed; later stages are not measured."""


def write_pictures(folder: Path, count: int) -> Path:
    """Smooth noise with some grain, shifted and dimmed, so that every file differs; about 20 kB each."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    bases = []
    for _ in range(32):
        picture = rng.normal(scale=6, size=(HEIGHT, WIDTH, 3))
        for scale in (4, 16, 64):
            coarse = rng.normal(size=(HEIGHT // scale + 2, WIDTH // scale + 2, 3)).astype(np.float32)
            planes = [Image.fromarray(coarse[:, :, band]).resize((WIDTH, HEIGHT), 3) for band in range(3)]
            picture += 25 * np.stack([np.asarray(plane) for plane in planes], axis=2)
        bases.append(np.clip(picture + 128, 0, 255).astype(np.uint8))
    for number in range(count):
        shifted = np.roll(bases[number % 32], number // 32, axis=1)
        Image.fromarray(shifted).save(folder / f"{number:05d}.jpg", quality=85)
    labels = [f"{number:05d}.jpg,{'one' if number % 2 else 'two'}" for number in range(count)]
    (folder / "labels.csv").write_text("\n".join(["filename,labels", *labels]) + "\n", encoding="utf-8")
    return folder


class Features:
    """Computes the features of sources again and again, with the workers of one executor.

    Parameters
    ----------
    home : Path
    executor : str
        The setting.
    """

    def __init__(self, home: Path, executor: str) -> None:
        self._home = home
        self._executor = make_executor(executor)

    def compute(self, source: Path) -> str:
        """Return the digest of the features."""
        config = local_config(source, self._home)
        workspace = replace(open_workspace(config, Reporter()), executor=self._executor)
        found: list[str] = []

        def execute(stage: Stage) -> ArtifactRef | None:
            outcome = run_stage(stage, workspace, force=stage.name == "features")
            if stage.name == "features":
                found.append(outcome.ref.digest)
                raise _Done
            return outcome.ref

        with suppress(_Done):
            walk_data(config, workspace, execute)
        return found[0]

    def __enter__(self) -> "Features":
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.close()


def processor_seconds() -> float:
    """Processor time of this process and of all that it has started."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def timed(compute: Callable[[], str]) -> Timing:
    clock, processor = time.perf_counter(), processor_seconds()
    digest = compute()
    return Timing(time.perf_counter() - clock, processor_seconds() - processor, digest)


def compare(folder: Path, pictures: int, rounds: int) -> dict[str, list[Timing]]:
    many, few = write_pictures(folder / "many", pictures), write_pictures(folder / "few", WARM_UP)
    with ExitStack() as stack:
        cluster = stack.enter_context(dask_cluster(folder / "cluster", workers=2))
        settings = {"processes": "processes:2", "dask": cluster.setting}
        runs = {name: stack.enter_context(Features(folder / name, settings[name])) for name in settings}
        for features in runs.values():
            features.compute(few)
        found: dict[str, list[Timing]] = {name: [] for name in runs}
        for turn in range(rounds):
            for name in sorted(runs, reverse=bool(turn % 2)):
                found[name].append(timed(partial(runs[name].compute, many)))
                print(name, found[name][-1], flush=True)
    return found


def measure(quick: bool = False, pictures: int = 20_000, rounds: int = 3) -> list[Row]:
    """Return the rows of the benchmark table."""
    if quick:
        pictures, rounds = 500, 1
    with tempfile.TemporaryDirectory() as place:
        found = compare(Path(place), pictures, rounds)
    assert len({one.digest for timings in found.values() for one in timings}) == 1, "the bytes differ"
    pairs = list(zip(found["processes"], found["dask"], strict=True))
    clock = statistics.median(one.clock / other.clock for one, other in pairs)
    processor = statistics.median(one.processor / other.processor for one, other in pairs)
    rate = pictures / statistics.median(one.clock for one in found["dask"])
    return [
        (
            f"Dask, 2 workers, against `processes:2`: features of {pictures:,} JPEG of {WIDTH}x{HEIGHT}, "
            "after start-up, equal bytes",
            "at least 0.9",
            f"{clock:.2f} of its speed ({processor:.2f} by processor time; {rate:.0f} pictures per second)",
            "",
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(markdown(measure(pictures=given.pictures, rounds=given.rounds)))


if __name__ == "__main__":
    main()
