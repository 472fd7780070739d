"""Many runs in a row, or a storm of runs and kills; memory, open files and databases stay flat.

python -m tests.hostile.soak --runs 50
python -m tests.hostile.soak --storm --minutes 10
"""

import argparse
import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.hostile.case import REPOSITORY
from tests.hostile.samples import write_table
from tests.hostile.templates import QUICK

# Allowed growth after the first runs, which import and cache.
MEMORY_MB_PER_RUN = 2.0
MORE_FILES = 8
# A database may grow with each run, but not faster and faster.
ACCELERATION = 2.0


@dataclass(frozen=True)
class Sample:
    """What a process and a home use after a run; sizes in bytes."""

    run: int
    kind: str
    memory: int
    files: int
    mlflow: int
    prefect: int
    store: int


def size_of(path: Path) -> int:
    """Bytes of a file, a database with its journal, or a folder."""
    if path.is_dir():
        return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*") if one.is_file())


def measure(run: int, kind: str, home: Path, process: psutil.Process) -> Sample:
    """Measure now."""
    return Sample(
        run,
        kind,
        process.memory_info().rss,
        process.num_fds(),
        size_of(home / "mlflow.db"),
        size_of(home / "prefect" / "prefect.db"),
        size_of(home / "store"),
    )


def arguments(home: Path, source: Path, seed: int) -> list[str]:
    """A whole tracked run; another seed makes new results."""
    chosen = ["--set", f"evaluation.seed={seed}", "--set", "executor=serial", "--methods", "mlda"]
    return ["run", str(source), "--home", str(home), *QUICK, *chosen]


def start(home: Path, *given: str) -> "subprocess.Popen[str]":
    """Start a command in its own process, with Prefect."""
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *given],
        cwd=home.parent,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def call(home: Path, *given: str) -> tuple[int, str]:
    """Run a command in its own process; its exit code and output."""
    process = start(home, *given, "--home", str(home))
    said = process.communicate(timeout=300)[0]
    return process.returncode, said


def run_here(home: Path, source: Path, seed: int) -> None:
    """One run in this process, as a served process executes one after the other."""
    from flows.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(arguments(home, source, seed))
    assert code == 0 and "NOT TRACKED" not in said.getvalue(), said.getvalue()


def run_apart(home: Path, source: Path, seed: int) -> psutil.Process:
    """One run in its own process; returns this process, which starts them."""
    process = start(home, *arguments(home, source, seed))
    said = process.communicate(timeout=300)[0]
    assert process.returncode == 0 and "NOT TRACKED" not in said, said
    return psutil.Process()


def soak(home: Path, source: Path, runs: int) -> list[Sample]:
    """Runs in a row: all in this process, then a few in processes of their own."""
    samples = []
    for number in range(1, runs + 1):
        # Every second run repeats the one before, and finds everything fresh.
        run_here(home, source, number // 2)
        samples.append(measure(number, "in one process", home, psutil.Process()))
        show(samples[-1])
    for number in range(1, max(2, runs // 10) + 1):
        run_apart(home, source, 10_000 + number)
        samples.append(measure(number, "a process each", home, psutil.Process()))
        show(samples[-1])
    return samples


def find_growth(samples: Sequence[Sample]) -> list[str]:
    """What grew more than it may; the first runs do not count."""
    own = [one for one in samples if one.kind == "in one process"]
    settled = own[max(1, len(own) // 4) :]
    first, last, problems = settled[0], settled[-1], []
    steps = max(1, last.run - first.run)
    if (grown := (last.memory - first.memory) / 2**20 / steps) > MEMORY_MB_PER_RUN and steps >= 5:
        problems.append(f"memory grows by {grown:.1f} MB per run")
    if last.files > first.files + MORE_FILES:
        problems.append(f"open files grew from {first.files} to {last.files}")
    middle = settled[len(settled) // 2]
    for name in ("mlflow", "prefect", "store"):
        early = getattr(middle, name) - getattr(first, name)
        late = getattr(last, name) - getattr(middle, name)
        if steps >= 10 and late > ACCELERATION * early + 2**20:
            problems.append(f"{name} grows faster and faster: {early} bytes, then {late}")
    return problems


def show(sample: Sample | str) -> None:
    """Print a row of the table, or a line."""
    if isinstance(sample, Sample):
        sizes = "".join(f"{value / 1e6:11.2f}" for value in (sample.mlflow, sample.prefect, sample.store))
        sample = f"{sample.run:4d}  {sample.kind:<15}{sample.memory / 2**20:8.0f}{sample.files:7d}{sizes}"
    sys.stdout.write(sample + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the soak or the storm; exit code 1 if something grew, broke or was lost."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile.soak", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--runs", type=int, default=50, help="runs in a row (default: %(default)s)")
    parser.add_argument("--storm", action="store_true", help="runs at once that are killed at random instead")
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="duration of the storm (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the kills (default: %(default)s)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    home, source = folder / "home", write_table(folder / "source")
    os.chdir(folder)
    try:
        if options.storm:
            from tests.hostile.storm import weather

            problems = weather(home, source, options.minutes * 60, options.seed)
        else:
            problems = _soak_with_servers(home, source, options.runs)
    finally:
        call(home, "down")
        shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        show(f"BAD {problem}")
    return 1 if problems else 0


def _soak_with_servers(home: Path, source: Path, runs: int) -> list[str]:
    code, said = call(home, "up", "--prefect-port", "0", "--mlflow-port", "0")
    if code:
        return [f"`up` failed: {said}"]
    show(
        f"{'run':>4}  {'kind':<15}{'RSS MB':>8}{'files':>7}"
        + "".join(f"{name:>11}" for name in ("mlflow.db", "prefect.db", "store MB"))
    )
    problems = find_growth(soak(home, source, runs))
    show(f"{runs} runs: {'flat' if not problems else 'not flat'}")
    return problems


if __name__ == "__main__":
    sys.exit(main())
