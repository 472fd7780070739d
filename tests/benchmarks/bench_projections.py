"""Discriminative projections on USPS: closed forms against the matrices as printed in the paper.

    python -m tests.benchmarks.bench_projections [--data FOLDER] [--rounds 2] [--quick]

FOLDER (default: LABELSCAPE_DATA) contains usps/usps.parquet; if it is missing, random items of the same
size are used. 2,000 of the 9,298 items are labeled, as in the paper. The kNN graph is built once for both
sides and is not timed. "Forming" means A + C and B + C without the solution. The literal side multiplies U1
(m x m), U2 (m x l), U4 (l x l) and a dense L (m x m) as in step 1 of the paper, B class by class; only the
zero blocks beside X and Y are skipped, which favors it. It needs 2.7 GB and is measured at full size. Both
sides use one thread. --quick uses 2,000 items, 500 of them labeled, where the ratio is smaller.

The kernel form is measured on ten overlapping clusters in 20 dimensions, every second one of class 1, a
tenth labeled: 500 landmarks against the exact form with 3,000 items (--quick: 100 and 800), and landmarks
alone with 50,000 items (--quick: 3,000). The second number is the share of items with the same nearest
label in both forms.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from embedding_core.discriminant.discriminative_projections import DiscriminativeProjections
from embedding_core.discriminant.joint_quotient import JointQuotient, joint_quotient
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.labels import as_indicator
from tests.benchmarks.table import Row, peak_bytes

BAR = 50.0
FULL, QUICK = (9298, 2000), (2000, 500)
KERNEL_FULL, KERNEL_QUICK = (3000, 50_000, 500), (800, 3000, 100)
"""Items of both forms, items of landmarks alone, number of landmarks."""
SIDES = ("literal", "closed", "fit")
DATA = Path(os.environ.get("LABELSCAPE_DATA", "../shared/data"))


def load_items(folder: Path, n: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Load items and classes in random order, and the name of the data."""
    file = folder / "usps" / "usps.parquet"
    rng = np.random.default_rng(0)
    if not file.is_file():
        y = rng.integers(0, 10, n)
        return (
            rng.normal(size=(10, 256))[y] + rng.normal(size=(n, 256)),
            y,
            f"random items, {file} is missing",
        )
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    X = np.column_stack([table[name].to_numpy() for name in table.column_names if name.startswith("f")])
    rows = rng.permutation(len(X))[:n]
    return X[rows].astype(np.float64), table["class"].to_numpy()[rows], "USPS"


def printed_matrices(X: np.ndarray, Y: np.ndarray, W: Any, mu: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute A + C and B + C of step 1; X (p, m) has the l labeled items first, Y is (c, l)."""
    m, (c, l) = X.shape[1], Y.shape  # noqa: E741
    dense = W.toarray()
    U1, U2, U4 = np.diag((np.arange(m) < l).astype(float)), np.eye(m, l), np.eye(l)
    A = np.block([[X @ U1 @ X.T, -X @ U2 @ Y.T], [-Y @ U2.T @ X.T, Y @ U4 @ Y.T]])
    B = np.zeros_like(A)
    for k in range(c):
        S_k = np.zeros((c, l))
        S_k[k] = 1
        B += np.block([[X @ U1 @ X.T, -X @ U2 @ S_k.T], [-S_k @ U2.T @ X.T, S_k @ U4 @ S_k.T]])
    C = np.zeros_like(A)
    C[: len(X), : len(X)] = X @ (mu * (np.diag(dense.sum(axis=1)) - dense)) @ X.T
    return A + C, B + C


class Problem:
    """One collection with labels (-1 means unlabeled) and graph, and every side of the comparison."""

    def __init__(self, X: np.ndarray, y: np.ndarray, W: Any) -> None:
        self.X, self.y, self.W = X, y, W
        self.labeled = y >= 0
        self.Y = as_indicator(y).Y
        self.mu = self.labeled.sum() / W.sum()

    def literal(self) -> tuple[np.ndarray, np.ndarray]:
        return printed_matrices(self.X.T, self.Y[self.labeled].T.astype(float), self.W, self.mu)

    def closed(self) -> JointQuotient:
        return joint_quotient(self.X, self.Y, self.labeled.astype(float), GraphLaplacian(self.W), self.mu)

    def fit(self) -> DiscriminativeProjections:
        return DiscriminativeProjections(n_components=100).fit(self.X, self.y, self.W)

    def nothing(self) -> None:
        """Measure the memory of only the data and the graph."""


def seconds(run: Callable[[], object]) -> float:
    """CPU time: one thread works, and other programs on the machine hardly affect it."""
    started = time.process_time()
    run()
    return time.process_time() - started


def largest_gap(problem: Problem) -> float:
    """Return the largest literal residual of the fitted columns, relative to (B + C) gamma."""
    near, spread = problem.literal()
    model = problem.fit()
    gamma = np.vstack([model.projection_, model.label_projection_])
    residual = near @ gamma - spread @ gamma * model.eigenvalues_
    return float(np.abs(residual).max() / np.abs(spread @ gamma).max())


def peak_megabytes(side: str, *arguments: str) -> float:
    """Measure the peak memory of a fresh process that runs one side once."""
    return float(in_fresh_process(side, *arguments)["peak"])


def in_fresh_process(side: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.bench_projections", "--child", side, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout))


def child_side(side: str, folder: Path) -> dict[str, Any]:
    arrays = np.load(folder / "items.npz")
    getattr(Problem(arrays["X"], arrays["y"], sp.csr_array(sp.load_npz(folder / "graph.npz"))), side)()
    return {"peak": peak_bytes() / 1e6}


def child_kernel(n: int, landmarks: int | None, file: str) -> dict[str, Any]:
    """Fit the kernel form and write the nearest label of every item."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 10, n)
    X = rng.normal(size=(10, 20))[cluster] + rng.normal(size=(n, 20))
    y = np.where(rng.random(n) < 0.1, cluster % 2, -1)
    W = build_knn_graph(X, 10)
    model = DiscriminativeProjections(kernel="rbf", ridge=1e-4, landmarks=landmarks)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The graph has")
        spent = seconds(lambda: model.fit(X, y, W))
    to_labels = [((model.embedding_ - place) ** 2).sum(axis=1) for place in model.transform_labels([0, 1])]
    nearest = np.argmin(to_labels, axis=0)
    np.save(file, nearest)
    right = float((nearest == cluster % 2).mean())
    return {"seconds": spent, "peak": peak_bytes() / 1e6, "right": right}


def measure_closed_forms(n: int, n_labeled: int, folder: Path, rounds: int) -> list[Row]:
    X, y, title = load_items(folder, n)
    problem = Problem(X, np.where(np.arange(n) < n_labeled, y, -1), build_knn_graph(X, 10))
    with threadpool_limits(1):
        times = {side: min(seconds(getattr(problem, side)) for _ in range(rounds)) for side in SIDES}
        gap = largest_gap(problem)
    with tempfile.TemporaryDirectory() as name:
        np.savez(Path(name) / "items.npz", X=problem.X, y=problem.y)
        sp.save_npz(Path(name) / "graph.npz", problem.W)
        peaks = {side: peak_megabytes(side, name) for side in ("nothing", *SIDES)}
    above = {side: f"{peaks[side] - peaks['nothing']:.0f}" for side in SIDES}
    memory = {side: f"{above[side]} MB (literal {above['literal']}) over data and graph" for side in SIDES}
    work = f"DiscriminativeProjections, {title} {n:,} x {X.shape[1]}"
    return [
        (
            f"{work}, forming A + C and B + C",
            f"at least {BAR:.0f}x the literal m x m products",
            f"{times['literal'] / times['closed']:.0f}x ({times['closed']:.3f} s)",
            memory["closed"],
        ),
        (
            f"{work}, whole fit, 100 dimensions (residual in the literal matrices {gap:.0e})",
            "at least 10x forming these alone",
            f"{times['literal'] / times['fit']:.0f}x ({times['fit']:.3f} s)",
            memory["fit"],
        ),
    ]


def measure_kernel(n: int, n_large: int, landmarks: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        files = [str(Path(name) / f"{form}.npy") for form in ("exact", "landmarks", "large")]
        exact = in_fresh_process("kernel", str(n), "0", files[0])
        few = in_fresh_process("kernel", str(n), str(landmarks), files[1])
        large = in_fresh_process("kernel", str(n_large), str(landmarks), files[2])
        same = (np.load(files[0]) == np.load(files[1])).mean()
    work = f"DiscriminativeProjections, rbf, {landmarks} landmarks"
    return [
        (
            f"{work}, n = {n:,}, against the exact kernel form",
            "at least 15x; same nearest label at least 0.9",
            f"{exact['seconds'] / few['seconds']:.0f}x ({few['seconds']:.1f} s); {same:.3f}",
            f"{few['peak']:.0f} MB (exact {exact['peak']:.0f})",
        ),
        (
            f"{work}, n = {n_large:,}, precomputed graph",
            "peak below 2 GB",
            f"{large['seconds']:.1f} s, nearest label right {large['right']:.3f}",
            f"{large['peak']:.0f} MB",
        ),
    ]


def measure(quick: bool = False, folder: Path = DATA, rounds: int = 2) -> list[Row]:
    """Return rows (work, bar, measured, peak memory); `quick` uses fewer items, without bars."""
    rows = measure_closed_forms(*(QUICK if quick else FULL), folder, rounds)
    return rows + measure_kernel(*(KERNEL_QUICK if quick else KERNEL_FULL))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        side, *arguments = given.child
        if side == "kernel":
            n, landmarks, file = arguments
            print(json.dumps(child_kernel(int(n), int(landmarks) or None, file)))
        else:
            print(json.dumps(child_side(side, Path(arguments[0]))))
        return
    for work, bar, measured, peak in measure(given.quick, given.data, given.rounds):
        print(f"{work}\n    {measured}; peak {peak}; bar: {bar}")


if __name__ == "__main__":
    main()
