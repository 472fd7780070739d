"""Kernel DLE: L1 distances, the fit against a grid of SVMs and a forest, landmarks at scale.

    python -m tests.benchmarks.bench_kernel_dle [--data FOLDER] [--quick]

FOLDER (default: LABELSCAPE_DATA) contains yeast and mediamill_reduced; if they are missing, random items of
the same sizes are used. The fits have 1,500 items with 14 and 29 labels and go from features to decisions:
Kernel DLE with its defaults, one RBF-SVC per label from a grid of 12 points and 3 folds, 500 trees. All may
use every core. L1 distances are computed between 1,500 and 1,500 rows with one thread per core and compared
with SciPy's, as medians of five rounds. Landmarks: 2,000 of 12,500 and of 50,000 items, p = 100, K = 10,
the whole fit of the classifier in its own process. The times with landmarks are CPU times, which other
programs disturb less.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.table import Row, markdown, peak_bytes

BAR_L1, BAR_FIT, BAR_GROWTH, BAR_PEAK_GB = 3.0, 2.0, 4.4, 8
SETS = {"yeast": 14, "mediamill_reduced": 29}
FULL, QUICK = (1500, (12_500, 50_000), 2000), (300, (1_000, 4_000), 200)
"""Items of the fits and the distances; items of the landmark fits; number of landmarks."""
DATA = Path(os.environ.get("LABELSCAPE_DATA", "../shared/data"))


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare_distances(n: int, p: int = 120, rounds: int = 5) -> float:
    """Return how many times faster than SciPy, all cores against one."""
    from scipy.spatial.distance import cdist

    from embedding_core.linalg.l1 import l1_distances
    from embedding_core.threads import for_row_blocks

    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(n, p)), rng.normal(size=(n, p))
    result = np.empty((n, n))

    def ours() -> None:
        def work(rows: slice) -> None:
            result[rows] = l1_distances(A[rows], B)

        for_row_blocks(n, n, work)

    ours()
    np.testing.assert_allclose(result, cdist(A, B, "cityblock"))
    pairs = [(timed(lambda: cdist(A, B, "cityblock")), timed(ours)) for _ in range(rounds)]
    print(f"L1, {n} x {n}, p = {p}: SciPy and ours {[(round(a, 3), round(b, 3)) for a, b in pairs]} s")
    return statistics.median(theirs / own for theirs, own in pairs)


def load_items(folder: Path, name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Load n items of a data set, or draw random ones of its size."""
    from tests.real_sets import mediamill, official
    from tests.synthetic import multi_label

    if not (folder / name).is_dir():
        return multi_label(n, 103 if name == "yeast" else 120, SETS[name])
    if name == "mediamill_reduced":
        X, Y = mediamill(folder)
        return X[:n], Y[:n]
    X, Y, train, _ = official(folder, name)
    return X[train[:n]], Y[train[:n]]


def compare_fits(folder: Path, name: str, n: int) -> tuple[float, float, float, float]:
    """Time Kernel DLE, scikit-learn's grid, our grid with shared kernels, and the forest, in seconds."""
    from embedding_core import KernelDLEClassifier
    from embedding_core.classifiers.baselines import TunedSVM
    from tests.real_sets import Forest, GridSVC

    X, Y = load_items(folder, name, n)
    KernelDLEClassifier().fit(X[:100], Y[:100])  # load compiled code before timing
    rivals = (KernelDLEClassifier(), GridSVC(n_jobs=-1), TunedSVM(), Forest(n_jobs=-1))
    own, grid, shared, forest = (timed(lambda model=model: model.fit(X, Y)) for model in rivals)
    print(
        f"{name}, n = {len(X)}, K = {Y.shape[1]}: {own:.2f} s, grid {grid:.1f} s, with shared kernels "
        f"{shared:.1f} s, forest {forest:.1f} s"
    )
    return own, grid, shared, forest


def fit_landmarks(n: int, m: int) -> None:
    """Fit one size; print wall-clock seconds, CPU seconds and peak memory."""
    from embedding_core import KernelDLEClassifier

    rng = np.random.default_rng(0)
    centers = rng.normal(size=(40, 100))
    labels = (rng.random((40, 10)) < 0.3).astype(np.int8)
    cluster = rng.integers(0, 40, n)
    X = (centers[cluster] + 2 * rng.normal(size=(n, 100))).astype(np.float32)
    Y = labels[cluster]
    before = time.process_time()
    seconds = timed(lambda: KernelDLEClassifier(landmarks=m).fit(X, Y))
    used = time.process_time() - before
    print(json.dumps({"seconds": seconds, "cpu": used, "peak": peak_bytes()}))


def run_landmarks(n: int, m: int) -> dict[str, float]:
    """Run `fit_landmarks` in its own process."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_kernel_dle", "--items", str(n), str(m)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    print(
        f"{n} items, {m} landmarks: {found['seconds']:.1f} s, CPU time {found['cpu']:.1f} s, "
        f"peak {found['peak'] / 1e9:.2f} GB"
    )
    return found


def measure(quick: bool = False, data: Path = DATA) -> list[Row]:
    """Return the rows of the benchmark table."""
    n, (small, large), m = QUICK if quick else FULL
    rows: list[Row] = [
        (
            f"L1 distances of Kernel DLE, {n:,} x {n:,} rows, against SciPy's cdist, all cores",
            f"at least {BAR_L1:.0f}x",
            f"{compare_distances(n):.1f}x",
            "",
        )
    ]
    for name, K in SETS.items():
        own, grid, shared, forest = compare_fits(data, name, n)
        rows.append(
            (
                f"Kernel DLE fit on {name}, n = {n:,}, K = {K}, against a 12-point RBF-SVC grid of 3 folds "
                "by scikit-learn; the same with shared kernels (`rbf_svc`, one core); 500 trees",
                "; ".join([f"at least {BAR_FIT:.0f}x"] * 3),
                "; ".join(f"{rival / own:.1f}x" for rival in (grid, shared, forest)),
                "",
            )
        )
    first, second = (run_landmarks(size, m) for size in (small, large))
    rows.append(
        (
            f"Kernel DLE, {m:,} landmarks, {small:,} to {large:,} items: CPU time for {large // small}x",
            f"at most {BAR_GROWTH}x; peak below {BAR_PEAK_GB} GB",
            f"{second['cpu'] / first['cpu']:.1f}x",
            f"{second['peak'] / 1e9:.2f} GB",
        )
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that everything works")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--items", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.items:
        fit_landmarks(*given.items)
    else:
        print(markdown(measure(given.quick, given.data), judged=not given.quick))


if __name__ == "__main__":
    main()
