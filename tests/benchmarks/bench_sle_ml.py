"""SLEML against scikit-learn's SpectralEmbedding on the same graph: speed, exactness, memory.

    python -m tests.benchmarks.bench_sle_ml [--quick] [--rounds 3] [--skip-million]

Every round runs each method once, one after the other; a line shows the median over the rounds of ratios of
processor time within a round, which other programs on the machine disturb least. `residual` is the largest
|M u - (1 - μ) u| over the unit eigenvectors u of M = D^(-1/2) W D^(-1/2). The graph of a million nodes is
made by one process and solved by a fresh one, whose peak memory is shown. AMG is measured where pyamg is
installed.
"""

import argparse
import importlib.util
import resource
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
from embedding_core.graphs import graph_components

R, K = 20, 20


def clusters(n: int, p: int, pieces: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Items of K overlapping classes, in `pieces` clouds far from each other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    X = 1.5 * rng.normal(size=(K, p))[y] + rng.normal(size=(n, p))
    X[:, 0] += 1e3 * rng.integers(pieces, size=n)
    return X, y


def spectral_embedding(W: Any, solver: str) -> np.ndarray:
    model = SpectralEmbedding(R, affinity="precomputed", eigen_solver=solver, random_state=0)
    return model.fit_transform(W)


def residual(graph: CombinedGraph, Z: np.ndarray) -> tuple[float, float]:
    """Largest residual of an eigenvector, and the sum of the Rayleigh quotients μ."""
    root = np.sqrt(graph.degree)[:, None]
    U = root * Z
    U = U / np.linalg.norm(U, axis=0)
    M_U = graph.apply(U / root) / root
    theta = np.einsum("ij,ij->j", U, M_U)
    return float(np.linalg.norm(M_U - U * theta, axis=0).max()), float((1 - theta).sum())


def measure(runs: dict[str, Callable[[], np.ndarray]], rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    results = {}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # both say that a graph is not connected
                results[name] = run()
            seconds[name].append(time.process_time() - start)
    return {name: np.array(values) for name, values in seconds.items()}, results


def compare(title: str, n: int, pieces: int, balance: float, bar: float, rounds: int) -> None:
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
    seconds, results = measure(runs, rounds)
    sets = find_label_sets(np.eye(K, dtype=np.int8)[y]) if balance < 1 else None
    ours = residual(CombinedGraph(balance * W, sets, 1 - balance), results["SLEML"])
    print(f"\n{title}: n = {n}, {W.nnz // 2} edges, {c} components, λ = {balance}, {r} vectors")
    print(f"  SLEML   {np.median(seconds['SLEML']):7.2f} s  residual {ours[0]:.0e}  sum of μ {ours[1]:.6f}")
    for solver in solvers:
        theirs = residual(CombinedGraph(W), results[solver])
        ratio = float(np.median(seconds[solver] / seconds["SLEML"]))
        print(
            f"  {solver:7} {np.median(seconds[solver]):7.2f} s  residual {theirs[0]:.0e}  sum of μ "
            f"{theirs[1]:.6f}  SLEML x{ratio:.2f} faster, bar {bar}: {'ok' if ratio >= bar else 'MISSED'}"
        )


def make_million(folder: Path, n: int, k: int) -> None:
    X, y = clusters(n, 4)
    W = build_half_knn_graph(X.astype(np.float32), k)
    sp.save_npz(folder / "W.npz", sp.csr_matrix(W), compressed=False)
    np.savez(folder / "items.npz", X=X.astype(np.float32), y=y)


def solve_million(folder: Path) -> None:
    W = sp.csr_array(sp.load_npz(folder / "W.npz"))
    items = np.load(folder / "items.npz")
    X, y = items["X"], items["y"]
    del items
    for balance, r in ((0.9, K - 1), (1.0, R)):
        start, processor = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SLEML(balance=balance, n_components=r, n_neighbors=10).fit(X, y, affinity=W)
        wall, processor = time.perf_counter() - start, time.process_time() - processor
        unit = 2**30 if sys.platform == "darwin" else 2**20
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        print(
            f"  n = {len(y)}, {W.nnz // 2} edges, λ = {balance}, {r} vectors: {wall:.0f} s "
            f"({processor:.0f} s of processor), μ up to {model.eigenvalues_[-1]:.4f}, peak {peak:.2f} GB, "
            f"bar 3: {'ok' if peak < 3 else 'MISSED'}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="6,000 items, one round, no million")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-million", action="store_true")
    parser.add_argument("--million-only", action="store_true")
    parser.add_argument("--make", nargs=3, metavar=("FOLDER", "N", "NEIGHBORS"), help=argparse.SUPPRESS)
    parser.add_argument("--solve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        make_million(Path(arguments.make[0]), int(arguments.make[1]), int(arguments.make[2]))
        return
    if arguments.solve:
        solve_million(arguments.solve)
        return
    n, rounds = (6_000, 1) if arguments.quick else (60_000, arguments.rounds)
    if not arguments.million_only:
        compare("connected", n, 1, 1.0, 3.0, rounds)
        compare("connected, with labels", n, 1, 0.9, 3.0, rounds)
        compare("five components", n, 5, 1.0, 1.5, rounds)
        compare("41 components", n, 41, 1.0, 1.5, rounds)
        compare("41 components, with labels", n, 41, 0.9, 1.5, rounds)
    if arguments.quick or arguments.skip_million:
        return
    print("\na million items, fresh process:", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.bench_sle_ml"]
        subprocess.run([*command, "--make", folder, "1000000", "27"], check=True)
        subprocess.run([*command, "--solve", folder], check=True)


if __name__ == "__main__":
    main()
