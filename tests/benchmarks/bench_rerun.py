"""What it costs to look for changes, and to follow one, in a folder of 10,000 small images.

    python -m tests.benchmarks.bench_rerun [--images 10000] [--rounds 5]

Bars: a `status` that finds nothing changed takes at most twice as long as `os.scandir` and `stat` over the
files, beyond the start of the program (a `status` of a folder of ten images); after one image changed, the
features take at most 5 % of the time they took at first.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from tests.benchmarks.table import Row, markdown

_QUIET = ("--set", "tracking.enabled=false", "--until", "features", "--json")


def write_images(folder: Path, count: int) -> Path:
    """Noise in miniature, labelled by a file beside it."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = ["filename,labels"]
    for number in range(count):
        pixels = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((64, 64)).save(folder / f"{number:05d}.jpg")
        lines.append(f"{number:05d}.jpg,{'red' if number % 3 else 'blue|red'}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def give(home: Path, *arguments: object) -> tuple[float, str]:
    """Seconds of the processor that a command takes, and its output."""
    environment = {**os.environ, "LABELSCAPE_HOME": str(home)}
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    before = os.times()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return used, done.stdout


def scan_seconds(folder: Path, rounds: int) -> float:
    """Median seconds of the processor for `scandir` and `stat` over the files of a folder."""
    taken = []
    for _ in range(rounds):
        begun = time.process_time()
        with os.scandir(folder) as entries:
            for entry in entries:
                entry.stat()
        taken.append(time.process_time() - begun)
    return statistics.median(taken)


def status_seconds(folder: Path, home: Path, rounds: int) -> float:
    return statistics.median(give(home, "status", folder)[0] for _ in range(rounds))


def feature_seconds(folder: Path, home: Path) -> float:
    """How long the features of a run took, by its own account."""
    stages = json.loads(give(home, "run", folder, *_QUIET)[1])["stages"]
    return next(stage["seconds"] for stage in stages if stage["stage"] == "features")


def measure(quick: bool = False, images: int = 10_000, rounds: int = 5) -> list[Row]:
    """Rows of the benchmark table."""
    if quick:
        images, rounds = 200, 1
    with tempfile.TemporaryDirectory() as place:
        folder = write_images(Path(place) / "many", images)
        few = write_images(Path(place) / "few", 10)
        home = Path(place) / "home"
        time.sleep(2)  # a file's time must be older than its digest to be trusted
        give(home, "run", few, *_QUIET)
        cold = feature_seconds(folder, home)
        status_seconds(folder, home, 1)
        scan = scan_seconds(folder, rounds)
        beyond = status_seconds(folder, home, rounds) - status_seconds(few, home, rounds)
        changed = folder / f"{images // 2:05d}.jpg"
        changed.write_bytes((folder / "00000.jpg").read_bytes())
        rerun = feature_seconds(folder, home)
    return [
        (
            f"`status`, {images:,} images, nothing changed",
            "at most 2x scandir + stat, beyond program start",
            f"{beyond / scan:.2f}x ({beyond * 1000:.0f} ms)",
            "",
        ),
        (
            f"features after 1 of {images:,} images changed",
            "at most 5 % of the first time",
            f"{100 * rerun / cold:.1f} % ({rerun:.2f} s after {cold:.2f} s)",
            "",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(markdown(measure(images=options.images, rounds=options.rounds)))


if __name__ == "__main__":
    main()
