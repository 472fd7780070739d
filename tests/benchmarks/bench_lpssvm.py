"""LPSSVM with landmarks (Nyström) against its exact kernel form, side by side.

    python -m tests.benchmarks.bench_lpssvm [--quick] [--rounds 1]

Each form is fitted in a fresh process with the same items (ten overlapping clusters in 20 dimensions, every
second one positive, a tenth labeled), kernel and graph. It then predicts these items and as many new ones.
Bars at n = 5,000 with 500 landmarks: at least 15 times faster; the signs of the decisions agree for a share
of at least 0.97. Both forms use the same number of dimensions. The agreement falls with the accuracy: where
clusters overlap more, both forms err, on different items. The Notes of the class give numbers for USPS
digits.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.table import Row, markdown, peak_bytes

BAR_RATIO, BAR_AGREEMENT = 15.0, 0.97
DIMENSIONS = 10
FULL, QUICK = (5_000, 500), (1_500, 150)
"""Items and landmarks."""


def draw_items(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw items (n, 20) of ten clusters and their class, 0 or 1."""
    centers = np.random.default_rng(0).normal(size=(10, 20))
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 10, n)
    return centers[cluster] + rng.normal(size=(n, 20)), cluster % 2


def fit_form(n: int, landmarks: int | None, decisions_file: str) -> None:
    """Fit one form, write its decisions, print seconds and peak memory."""
    from embedding_core.graph.affinity import build_knn_graph
    from embedding_core.margin.lpssvm import LPSSVM

    X, y = draw_items(n, seed=1)
    X_new, _ = draw_items(n, seed=2)
    hidden = np.where(np.random.default_rng(3).random(n) < 0.1, y, -1)
    W = build_knn_graph(X, 10)
    before = peak_bytes()
    model = LPSSVM(kernel="rbf", n_components=DIMENSIONS, landmarks=landmarks)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The graph has")
        started = time.perf_counter()
        model.fit(X, hidden, affinity=W)
        seconds = time.perf_counter() - started
    peak = peak_bytes()
    np.save(decisions_file, [model.decision_function(X), model.decision_function(X_new)])
    print(json.dumps({"seconds": seconds, "peak_mb": peak / 1e6, "fit_mb": (peak - before) / 1e6}))


def run_form(n: int, landmarks: int | None, folder: str) -> tuple[dict[str, float], np.ndarray]:
    """Measure one form in its own process."""
    file = str(Path(folder) / f"{landmarks}.npy")
    command = [sys.executable, "-m", "tests.benchmarks.bench_lpssvm", "--child", file, "--items", str(n)]
    command += [] if landmarks is None else ["--landmarks", str(landmarks)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), np.load(file)


@dataclass(frozen=True)
class Comparison:
    """Results of both forms, exact first: median seconds, peak memory, accuracy, agreement of signs.

    `same` and each entry of `right` hold two numbers: for the items of the fit and for new items.
    """

    n: int
    m: int
    seconds: list[float]
    peak_mb: list[float]
    fit_mb: list[float]
    right: list[NDArray[np.float64]]
    same: NDArray[np.float64]

    @property
    def ratio(self) -> float:
        return self.seconds[0] / self.seconds[1]

    def row(self) -> Row:
        """Return the row of the benchmark table."""
        return (
            f"LPSSVM, n = {self.n:,}, {self.m} landmarks against the exact kernel form, {DIMENSIONS} "
            "dimensions in both: time; same signs on ten synthetic clusters",
            f"at least {BAR_RATIO:.0f}x; at least {BAR_AGREEMENT}",
            f"{self.ratio:.0f}x; {self.same.min():.3f} to {self.same.max():.3f} (fit and new items)",
            f"{self.peak_mb[1]:.0f} MB (exact: {self.peak_mb[0]:.0f} MB)",
        )

    def report(self) -> None:
        """Print both forms."""
        print(f"n = {self.n}, p = 20, landmarks = {self.m}, {DIMENSIONS} dimensions")
        for f, name in enumerate(("exact", "Nyström")):
            print(
                f"  {name:8} fit {self.seconds[f]:8.2f} s   peak {self.peak_mb[f]:7.0f} MB (fit alone "
                f"{self.fit_mb[f]:.0f} MB)   accuracy {self.right[f][0]:.3f} (fit), "
                f"{self.right[f][1]:.3f} (new)"
            )
        print(
            f"  ratio {self.ratio:.1f}x, same signs {self.same[0]:.4f} (fit), {self.same[1]:.4f} (new items)"
        )


def compare(n: int, m: int, rounds: int) -> Comparison:
    """Fit both forms in turn."""
    runs: list[list[dict[str, float]]] = [[], []]
    decisions: list[NDArray[np.float64]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            decisions = []
            for f, landmarks in enumerate((None, m)):
                result, found = run_form(n, landmarks, folder)
                runs[f].append(result)
                decisions.append(found)
    truth = np.array([draw_items(n, seed)[1] for seed in (1, 2)])
    return Comparison(
        n,
        m,
        [statistics.median(run["seconds"] for run in form) for form in runs],
        [max(run["peak_mb"] for run in form) for form in runs],
        [max(run["fit_mb"] for run in form) for form in runs],
        [((found > 0) == truth).mean(axis=1) for found in decisions],
        ((decisions[0] > 0) == (decisions[1] > 0)).mean(axis=1),
    )


def measure(quick: bool = False, rounds: int = 1) -> list[Row]:
    """Return the rows of the benchmark table."""
    found = compare(*(QUICK if quick else FULL), rounds)
    found.report()
    return [found.row()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 1,500 with 150 landmarks, a few seconds")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--items", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--landmarks", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        fit_form(given.items, given.landmarks, given.child)
    else:
        print(markdown(measure(given.quick, given.rounds), judged=not given.quick))


if __name__ == "__main__":
    main()
