"""Growth of every stage of `labelscape run` with the number of items: CPU time, exponent and peak memory.

    python -m tests.benchmarks.bench_growth [--sizes 2000 8000 32000 125000 1000000] [--folder DIR] [--parts]

Each size runs in its own process on a synthetic Parquet file: 384 features in float32, 20 labels, a fifth of
the items unlabeled, in 60 clusters around a curved surface of 24 dimensions. CPU time includes worker
processes. Memory is the peak of the process while a stage ran. An exponent of 1 means that the time is
proportional to the number of items.

With `--folder` the collections, the stores and the measurements are kept: an interrupted measurement
continues with the stage that it was in. `--parts` also measures what no run can avoid at the largest size,
each alone: reading the file, X^T X and X^T L X, and one kNN graph by the index.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from tests.benchmarks.table import Row, peak_bytes

FEATURES, LABELS = 384, 20
SIZES = (2_000, 8_000, 32_000, 125_000)
BLOCK = 8_192
SETTINGS = ("tracking.enabled=true", "evaluation.folds=5")


Result = TypeVar("Result")
Figures = dict[str, tuple[float, float, float]]
"""CPU seconds, elapsed seconds and peak GB by stage."""


class Surface:
    """Items in clusters around a curved surface; labels depend on the place of an item on the surface."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._axes = self._rng.normal(size=(24, FEATURES)) / np.sqrt(24)
        self._centers = self._rng.normal(size=(60, 24)) * 1.5
        self._labels = self._rng.normal(size=(24, LABELS)) / 9  # places have a length of about 9

    def draw(self, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Features (m, p) and labels (m, K); about an eighth of the labels are set, at least one per item."""
        rng = self._rng
        places = self._centers[rng.integers(0, 60, m)] + rng.normal(size=(m, 24))
        X = np.tanh(places @ self._axes) + 0.15 * rng.normal(size=(m, FEATURES))
        strength = places @ self._labels + 0.2 * rng.normal(size=(m, LABELS))
        Y = strength > 1.15
        Y[np.arange(m), strength.argmax(axis=1)] = True
        return X.astype(np.float32), Y


def write_collection(path: Path, n: int, unlabeled: float = 0.2) -> None:
    """Write n items, of which this share is unlabeled."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    surface, rng = Surface(), np.random.default_rng(1)
    names = [f"label{number:02d}" for number in range(LABELS)]
    texts = pa.list_(pa.string())
    types = [("id", pa.string()), ("features", pa.list_(pa.float32(), FEATURES)), ("labels", texts)]
    with pq.ParquetWriter(path, pa.schema(types), compression="zstd") as writer:
        for start in range(0, n, BLOCK):
            m = min(BLOCK, n - start)
            X, Y = surface.draw(m)
            found = [
                None if hidden else [names[k] for k in np.flatnonzero(row)]
                for hidden, row in zip(rng.random(m) < unlabeled, Y, strict=True)
            ]
            ids = pa.array([f"item{number:08d}" for number in range(start, start + m)])
            values = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), FEATURES)
            columns = [ids, values, pa.array(found, texts)]
            writer.write_table(pa.table(columns, schema=pa.schema(types)))


def used_seconds() -> float:
    """CPU seconds of this process and of its finished children."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def reset_peak() -> None:
    """Let the peak memory of this process start again from its present memory."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def run_here(source: Path, home: Path, methods: str, result: Path) -> None:
    """Run the pipeline in this process; write the figures of each stage as soon as it is computed."""
    from flows.pipeline import TrainingPlan
    from flows.runner import Run
    from storage.artifacts.artifact import Outcome
    from tasks.stage import Stage, Workspace, run_stage
    from tests.conftest import local_config

    found: Figures = json.loads(result.read_text()) if result.exists() else {}
    spent = 0.0

    def compute(stage: Stage, workspace: Workspace, force: bool) -> Outcome:
        nonlocal spent
        reset_peak()
        started, clock = used_seconds(), time.perf_counter()
        outcome = run_stage(stage, workspace, force)
        used, peak = used_seconds() - started, peak_bytes() / 1e9
        spent += used
        if not outcome.cached:
            found[stage.label] = (used, time.perf_counter() - clock, peak)
            result.write_text(json.dumps(found), encoding="utf-8")
            print(f"  {stage.label:<32} {used:9.1f} s {peak:6.2f} GB", flush=True)
        return outcome

    config = local_config(source, home, f"embedding.methods={methods}", *SETTINGS)
    begun = used_seconds()
    Run(TrainingPlan(config)).run_stages(compute)
    found["between stages"] = (used_seconds() - begun - spent, 0.0, peak_bytes() / 1e9)
    result.write_text(json.dumps(found), encoding="utf-8")


def run_apart(n: int, folder: Path, methods: str) -> Figures:
    """Write a collection of n items and run the pipeline in another process."""
    source, home, result = folder / f"items{n}.parquet", folder / f"home{n}", folder / f"growth{n}.json"
    if not source.exists():
        write_collection(folder / "writing.parquet", n)
        (folder / "writing.parquet").rename(source)
    options = ["--here", str(source), str(home), str(result), "--methods", methods]
    subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_growth", *options], check=True)
    return {name: tuple(row) for name, row in json.loads(result.read_text()).items()}


def unavoidable_parts(source: Path) -> dict[str, float]:
    """CPU seconds of what no run can avoid, each alone, in this process."""
    from embedding_core.graph.affinity import find_knn_edges
    from embedding_core.graph.laplacian import GraphLaplacian
    from embedding_core.linalg.row_blocks import row_blocks
    from embedding_core.scaling import Scaler
    from storage.artifacts.row_blocks import ParquetRows

    rows = ParquetRows(source)
    find_knn_edges(np.random.default_rng(0).normal(size=(25_000, 8)), 10)  # loads and compiles code

    def read() -> np.ndarray:
        X = np.empty(rows.shape, dtype=rows.dtype)
        for start, block in rows.iter_blocks():
            X[start : start + len(block)] = block
        return X

    read_seconds, X = timed(read)
    X = Scaler("zscore").fit(X).transform(X, copy=False)
    graph_seconds, edges = timed(lambda: find_knn_edges(X, 10))
    W = edges.graph("gaussian", edges.scale)

    def sums() -> None:
        gram = np.zeros((X.shape[1], X.shape[1]))
        for _, block in row_blocks(X):
            wide = block.astype(np.float64)
            gram += wide.T @ wide
        GraphLaplacian(W).quadratic(X)

    return {
        "reading the file": read_seconds,
        "X^T X and X^T L X": timed(sums)[0],
        f"kNN graph, recall {edges.recall:.4f}": graph_seconds,
    }


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """CPU seconds and the result."""
    started = used_seconds()
    result = work()
    return used_seconds() - started, result


def growth_table(found: dict[int, Figures]) -> str:
    """A Markdown table: CPU seconds by size, the exponent of the last step, and the peak of the largest."""
    sizes = sorted(found)
    lines = [["stage", *(f"{n:,}" for n in sizes), "exponent", "peak GB"], ["---"] * (len(sizes) + 3)]
    for stage in found[sizes[-1]]:
        seconds = [found[n].get(stage, (math.nan,))[0] for n in sizes]
        peak = found[sizes[-1]][stage][2]
        lines.append([stage, *(f"{one:.1f}" for one in seconds), exponent(sizes, seconds), f"{peak:.2f}"])
    totals = [sum(row[0] for row in found[n].values()) for n in sizes]
    peak = max(row[2] for row in found[sizes[-1]].values())
    lines.append(["total", *(f"{one:.1f}" for one in totals), exponent(sizes, totals), f"{peak:.2f}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def exponent(sizes: list[int], seconds: list[float]) -> str:
    """log(time ratio) / log(size ratio) of the two largest sizes; empty for less than a second."""
    if len(sizes) < 2 or not seconds[-1] >= 1 or not seconds[-2] > 0:
        return ""
    return f"{math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2]):.2f}"


def measure(quick: bool = False) -> list[Row]:
    """Growth of the whole run; the table of its stages goes to stderr."""
    small, large = (500, 2_000) if quick else (32_000, 125_000)
    with tempfile.TemporaryDirectory() as folder:
        found = {n: run_apart(n, Path(folder), "mlda,multilabel_dle") for n in (small, large)}
    print(growth_table(found))
    totals = [sum(row[0] for row in found[n].values()) for n in (small, large)]
    power = math.log(totals[1] / totals[0]) / math.log(large / small)
    peak = max(row[2] for row in found[large].values())
    work = (
        f"`labelscape run`, {small:,} to {large:,} x {FEATURES}, {LABELS} labels: CPU exponent of all stages"
    )
    measured = f"{power:.2f} ({totals[0]:.0f} s, {totals[1]:.0f} s)"
    return [(work, "at most 1.15; peak below 4 GB", measured, f"{peak:.2f} GB")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--folder", type=Path, help="keeps the collections; default: a temporary folder")
    parser.add_argument("--methods", default="mlda,multilabel_dle")
    parser.add_argument("--parts", action="store_true", help="measure what no run can avoid")
    parser.add_argument("--here", nargs=3, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        source, home, result = given.here
        run_here(source, home, given.methods, result)
        return
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        for n in given.sizes:
            print(f"{n:,} items", flush=True)
            found[n] = run_apart(n, folder, given.methods)
            print(growth_table(found), flush=True)
        if given.parts:
            n = max(given.sizes)
            parts = unavoidable_parts(folder / f"items{n}.parquet")
            whole = sum(row[0] for row in found[n].values())
            for name, seconds in parts.items():
                print(f"{name}: {seconds:.1f} s")
            print(f"all stages: {whole:.1f} s, {whole / sum(parts.values()):.1f}x")


if __name__ == "__main__":
    main()
