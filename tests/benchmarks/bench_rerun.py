"""The cost of looking for changes and of following one, in a folder of 10,000 small images.

    python -m tests.benchmarks.bench_rerun [--images 10000] [--rounds 7]

Two bars. A `status` that finds nothing changed takes less than a second, as a whole command. After one image
changed, features take at most 5 % of their first time. The second is measured in processor time, because
wall time depends on the load of the machine; both are printed.
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
_STATUS = ("-m", "flows.cli", "status")
_FEATURES = """
from flows.config import load_config
from flows.pipeline import TrainingPlan
from flows.runner import Run
from flows.stages import StageSelection
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
Run(TrainingPlan(config), StageSelection(until=until)).run_stages(submit)
print(json.dumps(took["features"]))
"""


class Timing(NamedTuple):
    """Processor time and wall time in seconds."""

    processor: float
    clock: float


def write_images(folder: Path, count: int) -> Path:
    """Small noise images; a file beside them labels one in thirty, so that all stages can run."""
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
    """The answer of a new process that runs `code`."""
    command = [sys.executable, "-c", _COMMON + code, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def feature_timing(folder: Path, home: Path, until: str) -> Timing:
    """The time of the features stage of a run."""
    return Timing(*driven(_FEATURES, folder, home, until))


def status_seconds(folder: Path, home: Path, rounds: int) -> float:
    """Median wall time of `status`."""
    status = (*_STATUS, folder, "--home", home, "--set", "tracking.enabled=false")
    return statistics.median(process_seconds(*status) for _ in range(rounds))


def process_seconds(*arguments: object) -> float:
    """Wall time of a Python process with these arguments."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, *map(str, arguments)], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def measure(quick: bool = False, images: int = 10_000, rounds: int = 7) -> list[Row]:
    """Return the rows of the benchmark table."""
    if quick:
        images, rounds = 200, 1
    with tempfile.TemporaryDirectory() as place:
        folder, home = write_images(Path(place) / "many", images), Path(place) / "home"
        time.sleep(2)  # a file's digest is only trusted if its time is older
        cold = feature_timing(folder, home, "report")
        time.sleep(2)
        status = status_seconds(folder, home, rounds)
        reruns = []
        for number in range(1, rounds + 1):
            write_image(folder / f"{images // 2:05d}.jpg", np.random.default_rng(number))
            reruns.append(feature_timing(folder, home, "features"))
    rerun = Timing(*(statistics.median(column) for column in zip(*reruns, strict=True)))
    return [
        (
            f"`status`, {images:,} images, nothing changed: the whole command",
            "less than 1 s",
            f"{status:.2f} s",
            "",
        ),
        (
            f"features after 1 of {images:,} images changed",
            "at most 5 % of the first extraction",
            f"{100 * rerun.processor / cold.processor:.1f} % ({rerun.processor:.2f} s after "
            f"{cold.processor:.2f} s; wall time {100 * rerun.clock / cold.clock:.1f} %)",
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
