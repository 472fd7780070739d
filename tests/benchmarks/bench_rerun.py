"""What it costs to look for changes, and to follow one, in a folder of 10,000 small images.

    python -m tests.benchmarks.bench_rerun [--images 10000] [--rounds 7]

Two bars. A `status` that finds nothing changed takes at most twice the time of `os.scandir` and `stat` over
the files, plus interpreter start. By interpreter start is meant a Python that has imported the modules which
`status` uses (their names are taken from a first `status`) and done nothing yet: what the command does from
there on, its own options, configuration, fingerprints and manifests included, is held against twice the bare
loop, both in the same process. After one image got other content, the features take at most 5 % of the time
they took at first.

Times are of the processor, since those by the clock depend on what else a machine does; both are printed.
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
# The modules that a `status` has imported by its end.
_MODULES = """
from flows.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["status", *sys.argv[1:]])
print(json.dumps([name for name in sys.modules if not name.startswith("__")]))
"""
_STATUS = """
folder, modules = sys.argv[1], json.loads(sys.argv.pop())
for name in modules:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
from flows.cli import main
said = io.StringIO()
with contextlib.redirect_stdout(said), Watch() as status:
    main(["status", *sys.argv[1:]])
assert said.getvalue().endswith("Nothing would run.\\n"), said.getvalue()
with Watch() as scan, os.scandir(folder) as entries:
    for entry in entries:
        entry.stat()
print(json.dumps([status.took, scan.took]))
"""
_FEATURES = """
from flows.config import load_config
from flows.stages import Span
from flows.training import run_training
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


def status_timings(folder: Path, home: Path, rounds: int) -> tuple[Timing, Timing]:
    """Medians of `status` beyond its imports, and of the bare loop, over processes that do both."""
    given = (folder, "--home", home, "--set", "tracking.enabled=false")
    modules = json.dumps(driven(_MODULES, *given))
    rows = [driven(_STATUS, *given, modules) for _ in range(rounds)]
    status, scan = (
        Timing(*(statistics.median(column) for column in zip(*timings, strict=True)))
        for timings in zip(*rows, strict=True)
    )
    return status, scan


def measure(quick: bool = False, images: int = 10_000, rounds: int = 7) -> list[Row]:
    """Rows of the benchmark table."""
    if quick:
        images, rounds = 200, 1
    with tempfile.TemporaryDirectory() as place:
        folder, home = write_images(Path(place) / "many", images), Path(place) / "home"
        time.sleep(2)  # a file's time must be older than its digest to be trusted
        cold = feature_timing(folder, home, "report")
        status, scan = status_timings(folder, home, rounds)
        reruns = []
        for number in range(1, rounds + 1):
            write_image(folder / f"{images // 2:05d}.jpg", np.random.default_rng(number))
            reruns.append(feature_timing(folder, home, "features"))
    rerun = Timing(*(statistics.median(column) for column in zip(*reruns, strict=True)))
    return [
        (
            f"`status`, {images:,} images, nothing changed, beyond a Python with its imports",
            "at most 2x scandir + stat",
            f"{status.processor / scan.processor:.2f}x ({1000 * status.processor:.0f} ms; by the clock "
            f"{status.clock / scan.clock:.2f}x)",
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
