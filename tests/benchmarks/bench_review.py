"""`review` and `next` on 100,000 items, beside the graph stage: CPU time and peak memory.

    python -m tests.benchmarks.bench_review [--items 100000] [--features 72 384] [--folder DIR]

The collections are those of `bench_growth`, of which 5 % of the items are labeled. A model of `auto` is
trained first. Each command then runs whole in one process, with items and features already stored, as after
`run`: it loads them, computes what the command needs (for `next` the predictions for all unlabeled items, for
errors the review), and writes its tables and its page. One thread of linear algebra.
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from tests.benchmarks import bench_growth
from tests.benchmarks.bench_growth import reset_peak, used_seconds, write_collection
from tests.benchmarks.table import Row, peak_bytes

ITEMS, FEATURES, UNLABELED = 100_000, (72, 384), 0.95
CANDIDATE = "logistic_regression"
KINDS = ("random", "closest", "unlike", "errors")
Cost = tuple[float, float]
"""CPU seconds and peak GB."""


@contextlib.contextmanager
def _without_engine() -> Iterator[None]:
    """Let commands run their stages as plain functions; their own stages are computed even if fresh."""
    from flows.runner import Run
    from tasks.annotation import portions
    from tasks.stage import run_stage

    numbers = count()

    def compute(stage: Any, workspace: Any, force: bool) -> Any:
        portions.PORTION_STAGE = f"portion_{next(numbers)}"  # no command finds those of another
        return run_stage(stage, workspace, force or stage.name in ("review", "annotation"))

    execute = Run.execute
    Run.execute = lambda run, verbose=False: run.run_stages(compute)  # type: ignore[method-assign,misc,assignment]
    try:
        yield
    finally:
        Run.execute = execute  # type: ignore[method-assign]


def _measure(work: Callable[[], Any]) -> Cost:
    reset_peak()
    started = used_seconds()
    work()
    return used_seconds() - started, peak_bytes() / 1e9


def run_here(source: Path, home: Path) -> dict[str, Cost]:
    """Train a model, then measure the graph stage and each command in this process."""
    from flows.cli import main
    from flows.pipeline import TrainingPlan
    from flows.runner import Run
    from flows.stages import StageSelection
    from storage.artifacts.artifact import Outcome
    from tasks.stage import Stage, Workspace, run_stage
    from tests.conftest import local_config

    found: dict[str, Cost] = {}
    place = ("--home", str(home))

    def command(*words: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            code = main([*words, *place])
        if code:
            raise SystemExit(f"labelscape {' '.join(words)} ended with {code}")

    def compute(stage: Stage, workspace: Workspace, force: bool) -> Outcome:
        made: list[Outcome] = []
        cost = _measure(lambda: made.append(run_stage(stage, workspace, force)))
        if stage.name == "affinity":
            found["graph stage"] = cost
        return made[0]

    with _without_engine():
        selection = StageSelection(refresh=["affinity"], until="affinity")
        Run(TrainingPlan(local_config(source, home)), selection).run_stages(compute)
        command("auto", str(source), "--candidates", CANDIDATE, "--budget", "1h")
        for words in (("review",), *(("next", "--by", kind) for kind in KINDS)):
            out = home.parent / f"out-{words[-1]}"
            work = partial(command, *words, str(source), "--out", str(out))
            found[" ".join(words)] = cost = _measure(work)
            page = next(out.glob("*.html")).stat().st_size / 1e6
            print(
                f"  {' '.join(words):<20} {cost[0]:7.1f} s {cost[1]:6.2f} GB, page {page:.1f} MB",
                file=sys.stderr,
            )
    return found


def run_apart(n: int, features: int, folder: Path) -> dict[str, Cost]:
    """Write a collection and measure it in another process."""
    source = folder / f"items{n}x{features}.parquet"
    if not source.exists():
        bench_growth.FEATURES = features
        write_collection(source, n, UNLABELED)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        result = Path(place) / "costs.json"
        here = ["--here", str(source), str(Path(place) / "home"), str(result)]
        # More threads of linear algebra wait actively, which is not work.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.benchmarks.bench_review", *here]
        subprocess.run(command, check=True, env=environment)
        return {name: tuple(cost) for name, cost in json.loads(result.read_text()).items()}


def cost_table(found: dict[str, Cost]) -> str:
    """A Markdown table of CPU time, its ratio to the graph stage, and peak memory."""
    graph = found["graph stage"][0]
    lines = ["| work | CPU s | of the graph stage | peak GB |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {cpu:.1f} | {cpu / graph:.2f} | {peak:.2f} |" for name, (cpu, peak) in found.items()
    ]
    return "\n".join(lines)


def measure(quick: bool = False) -> list[Row]:
    """The most expensive command beside the graph stage."""
    n = 25_000 if quick else ITEMS
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for features in FEATURES[-1:] if quick else FEATURES:
            found = run_apart(n, features, Path(folder))
            print(cost_table(found))
            graph, peak = found.pop("graph stage")
            name, (cpu, most) = max(found.items(), key=lambda one: one[1][0])
            work = f"`review` and `next`, {n:,} x {features}: CPU time against the graph stage"
            measured = f"{cpu / graph:.2f}x (`{name}` {cpu:.0f} s, graph stage {graph:.0f} s)"
            rows.append((work, "at most 1x", measured, f"{most:.2f} GB (graph stage {peak:.2f})"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--features", nargs="+", type=int, default=list(FEATURES))
    parser.add_argument("--folder", type=Path, help="keeps the collections; default: a temporary folder")
    parser.add_argument("--here", nargs=3, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        source, home, result = given.here
        result.write_text(json.dumps(run_here(source, home)), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        for features in given.features:
            print(f"\n{given.items:,} items of {features} features", flush=True)
            print(cost_table(run_apart(given.items, features, given.folder or Path(folder))), flush=True)


if __name__ == "__main__":
    main()
