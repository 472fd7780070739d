"""What it costs to look for changes, and to follow one, in a folder of 10,000 small images.

    python -m tests.benchmarks.bench_rerun [--images 10000] [--rounds 7]

Two bars. A `status` that finds nothing changed takes at most twice the time of `os.scandir` and `stat` over
the files, plus interpreter start: the whole command, as a person gives it, less a Python that starts and does
nothing, against what a Python takes beyond its start to list and stat the files. All three are processes, in
turn. The first `status` after a change, which loads all that it needs, is told beside. After one image got
other content, the features take at most 5 % of the time they took at first (of the processor, since that by
the clock depends on what else a machine does; both are printed).
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from tests.benchmarks.table import Row, markdown

_COMMON = """
import contextlib, importlib, io, json, os, sys, time
class Watch:
    def __enter__(self):
        self.begun = (time.process_time(), time.perf_counter())
        return self
    def __exit__(self, *failure):
        self.took = (time.process_time() - self.begun[0], time.perf_counter() - self.begun[1])
"""
_NOTHING = ("-c", "pass")
_SCAN = ("-c", "import os, sys\nfor entry in os.scandir(sys.argv[1]): entry.stat()")
_STATUS = ("-m", "flows.entry", "status")
_FEATURES = """
from flows.config import load_config
from flows.stages import Span
from flows.runner import run_training
from tasks.stage import run_stage
folder, home, until = sys.argv[1:]
took = {}
def submit(stage, workspace, force):
    with Watch() as watch:
        outcome = run_stage(stage, workspace, force)
    assert stage.name != "features" or not outcome.cached
    took[stage.name] = watch.took
    return outcome
config = load_config(None, ["tracking.enabled=false"], home=home, source={"path": folder})
run_training(config, Span(until=until), submit)
print(json.dumps(took["features"]))
"""


class Timing(NamedTuple):
    """Seconds of the processor and by the clock."""

    processor: float
    clock: float


def write_images(folder: Path, count: int) -> Path:
    """Noise in miniature; a file beside it labels one in thirty, so that all stages can run."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = ["filename,labels"]
    for number in range(count):
        write_image(folder / f"{number:05d}.jpg", rng)
        labels = ("red", "blue|red")[number // 30 % 2] if number % 30 == 0 else ""
        lines.append(f"{number:05d}.jpg,{labels}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_image(path: Path, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((64, 64)).save(path)


def driven(code: str, *arguments: object) -> list:
    """What a process of its own, driven by `code`, answers."""
    command = [sys.executable, "-c", _COMMON + code, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def feature_timing(folder: Path, home: Path, until: str) -> Timing:
    """What the features of a run take."""
    return Timing(*driven(_FEATURES, folder, home, until))


class StatusTimings(NamedTuple):
    """Seconds by the clock of whole processes: the first `status`, then medians of those that follow."""

    first: float
    again: float
    scan: float
    start: float

    @property
    def ratio(self) -> float:
        """Of what `status` and the bare loop take beyond an empty process."""
        return (self.again - self.start) / (self.scan - self.start)


def status_timings(folder: Path, home: Path, rounds: int) -> StatusTimings:
    """What `status` takes beside a bare loop over the files and an empty process."""
    status = (*_STATUS, folder, "--home", home, "--set", "tracking.enabled=false")
    first = process_seconds(*status)
    rows = [
        (process_seconds(*status), process_seconds(*_SCAN, folder), process_seconds(*_NOTHING))
        for _ in range(rounds)
    ]
    return StatusTimings(first, *(statistics.median(column) for column in zip(*rows, strict=True)))


def process_seconds(*arguments: object) -> float:
    """Time by the clock of a Python with these arguments."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, *map(str, arguments)], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def measure(quick: bool = False, images: int = 10_000, rounds: int = 7) -> list[Row]:
    """Rows of the benchmark table."""
    if quick:
        images, rounds = 200, 1
    with tempfile.TemporaryDirectory() as place:
        folder, home = write_images(Path(place) / "many", images), Path(place) / "home"
        time.sleep(2)  # a file's time must be older than its digest to be trusted
        cold = feature_timing(folder, home, "report")
        time.sleep(2)
        status = status_timings(folder, home, 3 * rounds)
        reruns = []
        for number in range(1, rounds + 1):
            write_image(folder / f"{images // 2:05d}.jpg", np.random.default_rng(number))
            reruns.append(feature_timing(folder, home, "features"))
    rerun = Timing(*(statistics.median(column) for column in zip(*reruns, strict=True)))
    return [
        (
            f"`status`, {images:,} images, nothing changed: the whole command",
            "at most 2x scandir + stat, plus interpreter start",
            f"{status.ratio:.2f}x plus start ({1000 * status.again:.0f} ms; scandir + stat "
            f"{1000 * (status.scan - status.start):.0f}, start {1000 * status.start:.0f}; the first "
            f"{1000 * status.first:.0f})",
            "",
        ),
        (
            f"features after 1 of {images:,} images changed",
            "at most 5 % of the first time",
            f"{100 * rerun.processor / cold.processor:.1f} % ({rerun.processor:.2f} s after "
            f"{cold.processor:.2f} s; by the clock {100 * rerun.clock / cold.clock:.1f} %)",
            "",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(markdown(measure(images=options.images, rounds=options.rounds)))


if __name__ == "__main__":
    main()
