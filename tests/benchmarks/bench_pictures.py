"""Many pictures: ingest and features against bare decoding, `status` of an unchanged folder, and `annotate`.

    python -m tests.benchmarks.bench_pictures [--pictures 20000]

The pictures have 320 x 213 pixels. Everything uses one thread and is compared by CPU time. Bare decoding
reads each file and decodes it; it is measured before and after the rest, and the mean counts. `annotate`
labels the same pictures by a model of 400 of them. Its speed is that of features alone over that of features
and prediction together.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import simplejpeg

from flows.annotate import AnnotationPlan, ChosenModel, annotation_config
from flows.runner import Run
from storage.artifacts.artifact import Outcome
from storage.tracking.client import ModelInfo
from tasks.annotation import FittedModel
from tasks.stage import Stage, Workspace, run_stage
from tests.benchmarks.bench_cluster import HEIGHT, WIDTH, write_pictures
from tests.benchmarks.bench_growth import used_seconds
from tests.benchmarks.table import Row, markdown
from tests.conftest import local_config, run_training
from tests.run_driver import train_model

SETTINGS = ("executor=serial", "features.extractors=color_moments")
LABELED = 400


def decode_files(paths: Sequence[Path]) -> float:
    """CPU seconds of reading and decoding files, and nothing else."""
    started = used_seconds()
    for path in paths:
        simplejpeg.decode_jpeg(path.read_bytes())
    return used_seconds() - started


class StageTimes:
    """Runs stages; CPU seconds by stage label."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, stage: Stage, workspace: Workspace, force: bool) -> Outcome:
        """Run one stage."""
        started = used_seconds()
        outcome = run_stage(stage, workspace, force)
        self.seconds[stage.label] = used_seconds() - started
        return outcome


def annotate(model: FittedModel, folder: Path, home: Path) -> dict[str, float]:
    """CPU seconds of the stages of `annotate`."""
    config = annotation_config(str(folder), local_config("demo", home, *SETTINGS))
    info = ModelInfo("c" * 32, model.run, "run", "pictures", model.method, "MLDA", {}, {})
    times = StageTimes()
    Run(AnnotationPlan(config, ChosenModel(model, info))).run_stages(times)
    return times.seconds


def status_seconds(folder: Path, home: Path) -> tuple[float, float]:
    """CPU and elapsed seconds of the whole command."""
    options = [str(folder), "--home", str(home), "--set", "tracking.enabled=false"]
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    started, clock = used_seconds(), time.perf_counter()
    command = [sys.executable, "-m", "flows.cli", "status", *options, *settings]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return used_seconds() - started, time.perf_counter() - clock


def measure(quick: bool = False, pictures: int = 20_000) -> list[Row]:
    """Return the rows of the benchmark table."""
    pictures = 1_000 if quick else pictures
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        model = train_model(
            write_pictures(place / "few", LABELED), place / "home_few", *SETTINGS
        )  # compiles kernels
        many, home = write_pictures(place / "many", pictures), place / "home"
        paths = sorted(many.glob("*.jpg"))
        time.sleep(2)  # a file's digest is only trusted if its time is older
        before, times = decode_files(paths), StageTimes()
        run_training(local_config(many, home, *SETTINGS), until="features", compute=times)
        bare = (before + decode_files(paths)) / 2
        ours = times.seconds["ingest"] + times.seconds["features"]
        processor, clock = status_seconds(many, home)
        found = annotate(model, many, place / "annotated")
    both = found["features"] + found["annotation"]
    what = f"{pictures:,} pictures of {WIDTH}x{HEIGHT}"
    stages = f"{times.seconds['ingest']:.1f} s and {times.seconds['features']:.1f} s"
    predicted = f"{found['annotation']:.1f} s of {both:.1f} s"
    return [
        (
            f"{what}: ingest and color moments, in speed of bare decoding",
            "at least 0.85",
            f"{bare / ours:.2f} ({stages}; decoding {bare:.1f} s)",
            "",
        ),
        (
            f"`status`, {what}, nothing changed: CPU time of the whole command",
            "at most 2 s",
            f"{processor:.2f} s (elapsed {clock:.1f} s)",
            "",
        ),
        (
            f"`annotate`, {what}: in speed of feature extraction",
            "at least 0.7",
            f"{found['features'] / both:.2f} (prediction {predicted})",
            "",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    print(markdown(measure(given.quick, given.pictures)))


if __name__ == "__main__":
    main()
