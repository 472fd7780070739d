"""SLEML against scikit-learn's SpectralEmbedding on the same graph: speed, exactness, memory.

    python -m tests.benchmarks.bench_sle_ml [--quick] [--rounds 3] [--million-only]

Every round runs each method once. A line shows the median over the rounds of the ratios within a round, in
wall-clock time and in CPU time, which other programs disturb less. `residual` is the largest |M u - (1 - μ)
u| over the unit eigenvectors u of M = D^(-1/2) W D^(-1/2). One process builds the graph of a million nodes
and another one solves it; its peak memory is shown. AMG is measured if pyamg is installed.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.manifold import SpectralEmbedding

from embedding_core.eigenmaps.combined_graph import CombinedGraph, build_half_knn_graph, find_label_sets
from embedding_core.eigenmaps.sle_ml import SLEML
from embedding_core.graph.components import graph_components
from tests.benchmarks.table import Row, markdown, peak_bytes

R, K = 20, 20


def clusters(n: int, p: int, pieces: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw items of K overlapping classes in `pieces` clouds far from each other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    X = 1.5 * rng.normal(size=(K, p))[y] + rng.normal(size=(n, p))
    X[:, 0] += 1e3 * rng.integers(pieces, size=n)
    return X, y


def spectral_embedding(W: Any, solver: str) -> np.ndarray:
    model = SpectralEmbedding(R, affinity="precomputed", eigen_solver=solver, random_state=0)
    return model.fit_transform(W)


def residual(graph: CombinedGraph, Z: np.ndarray) -> tuple[float, float]:
    """Return the largest residual of an eigenvector and the sum of the Rayleigh quotients μ."""
    root = np.sqrt(graph.degree)[:, None]
    U = root * Z
    U = U / np.linalg.norm(U, axis=0)
    M_U = graph.apply(U / root) / root
    theta = np.einsum("ij,ij->j", U, M_U)
    return float(np.linalg.norm(M_U - U * theta, axis=0).max()), float((1 - theta).sum())


def time_rounds(
    runs: dict[str, Callable[[], np.ndarray]], rounds: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    seconds: dict[str, list[np.ndarray]] = {name: [] for name in runs}
    results = {}
    for _ in range(rounds):
        for name, run in runs.items():
            start = np.array([time.perf_counter(), time.process_time()])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # both warn that a graph is not connected
                results[name] = run()
            seconds[name].append(np.array([time.perf_counter(), time.process_time()]) - start)
    return {name: np.array(values) for name, values in seconds.items()}, results


def compare(title: str, n: int, pieces: int, balance: float, bar: float, rounds: int) -> list[Row]:
    """Return one row per solver of scikit-learn."""
    X, y = clusters(n, 6, pieces)
    W = build_half_knn_graph(X, 10)
    c = len(graph_components(W).sizes)
    r = R if balance == 1 else K - 1
    solvers = ["lobpcg", *(["amg"] if importlib.util.find_spec("pyamg") else [])]
    runs: dict[str, Callable[[], np.ndarray]] = {
        "SLEML": lambda: SLEML(balance=balance, n_components=r).fit(X, y, affinity=W).embedding_
    }
    for solver in solvers:
        runs[solver] = lambda solver=solver: spectral_embedding(W, solver)  # type: ignore[misc]
    seconds, results = time_rounds(runs, rounds)
    sets = find_label_sets(np.eye(K, dtype=np.int8)[y]) if balance < 1 else None
    ours = residual(CombinedGraph(balance * W, sets, 1 - balance), results["SLEML"])
    print(f"\n{title}: n = {n}, {W.nnz // 2} edges, {c} components, λ = {balance}, {r} vectors")
    took = np.median(seconds["SLEML"][:, 0])
    print(f"  SLEML   {took:7.2f} s  residual {ours[0]:.0e}  sum of μ {ours[1]:.6f}")
    rows = []
    for solver in solvers:
        theirs = residual(CombinedGraph(W), results[solver])
        ratio, in_cpu_time = np.median(seconds[solver] / seconds["SLEML"], axis=0)
        print(
            f"  {solver:7} {np.median(seconds[solver][:, 0]):7.2f} s  residual {theirs[0]:.0e}  sum of μ "
            f"{theirs[1]:.6f}  SLEML x{ratio:.2f} faster, bar {bar}: {'ok' if ratio >= bar else 'MISSED'}"
        )
        work = f"SLEML, n = {n:,}, λ = {balance:g}, {title}, against `SpectralEmbedding` with {solver}"
        rows.append((work, f"at least {bar:g}x", f"{ratio:.2f}x ({in_cpu_time:.2f}x in CPU time)", ""))
    return rows


def make_million(folder: Path, n: int, k: int) -> None:
    X, y = clusters(n, 4)
    W = build_half_knn_graph(X.astype(np.float32), k)
    sp.save_npz(folder / "W.npz", sp.csr_matrix(W), compressed=False)
    np.savez(folder / "items.npz", X=X.astype(np.float32), y=y)


def solve_million(folder: Path, balance: float) -> None:
    """Fit in this process and write the row of the table to the folder."""
    W = sp.csr_array(sp.load_npz(folder / "W.npz"))
    items = np.load(folder / "items.npz")
    X, y = items["X"], items["y"]
    r = R if balance == 1 else K - 1
    wall, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SLEML(balance=balance, n_components=r, n_neighbors=10).fit(X, y, affinity=W)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    work = f"SLEML, n = {len(y):,}, {W.nnz / 2e6:.1f} M edges, λ = {balance:g}, {r} vectors"
    took = f"{wall:.0f} s ({processor:.0f} s of CPU time)"
    row = (work, "peak below 3 GB", took, f"{peak_bytes() / 1e9:.2f} GB")
    print("  " + ", ".join(row), flush=True)
    (folder / "row.json").write_text(json.dumps(row), encoding="utf-8")


def measure_million(balances: tuple[float, ...] = (0.9, 1.0), seconds: float = 1800) -> list[Row]:
    """Build the graph of a million items once; run each fit in a separate process with a timeout."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.bench_sle_ml"]
        subprocess.run([*command, "--make", folder, "1000000", "27"], check=True)
        for balance in balances:
            try:
                subprocess.run([*command, "--solve", folder, str(balance)], check=True, timeout=seconds)
                rows.append(tuple(json.loads((Path(folder) / "row.json").read_text(encoding="utf-8"))))
            except subprocess.TimeoutExpired:
                work = f"SLEML, n = 1,000,000, λ = {balance:g}"
                rows.append((work, "peak below 3 GB", f"not done after {seconds:.0f} s", ""))
    return rows


def measure(quick: bool = False, rounds: int = 3) -> list[Row]:
    """Return the rows of the benchmark table."""
    n, rounds = (6_000, 1) if quick else (60_000, rounds)
    rows = compare("connected", n, 1, 1.0, 3.0, rounds)
    rows += compare("connected, with labels", n, 1, 0.9, 3.0, rounds)
    rows += compare("five components", n, 5, 1.0, 1.5, rounds)
    rows += compare("41 components", n, 41, 1.0, 1.5, rounds)
    rows += compare("41 components, with labels", n, 41, 0.9, 1.5, rounds)
    return rows if quick else rows + measure_million()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="6,000 items, one round, no million")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--million-only", action="store_true")
    parser.add_argument("--make", nargs=3, metavar=("FOLDER", "N", "NEIGHBORS"), help=argparse.SUPPRESS)
    parser.add_argument("--solve", nargs=2, metavar=("FOLDER", "BALANCE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        make_million(Path(arguments.make[0]), int(arguments.make[1]), int(arguments.make[2]))
    elif arguments.solve:
        solve_million(Path(arguments.solve[0]), float(arguments.solve[1]))
    elif arguments.million_only:
        print(markdown(measure_million()))
    else:
        print(markdown(measure(arguments.quick, arguments.rounds), judged=not arguments.quick))


if __name__ == "__main__":
    main()
