"""Scale of DLE, MultiLabelDLE and MLDA: time as ratios measured side by side, peak memory of fresh processes.

    python -m tests.benchmarks.bench_discriminant [--quick] [--only memory|stream|text]

memory  n = 200,000, p = 384, K = 50, float32 in memory. Time relative to X^T X and X^T L X in plain NumPy
        and SciPy, in float32 (twice as fast as float64, without protection against rounding): at most 3.
        Peak memory of the whole process, including the interpreter, relative to the size of X: below 3.
stream  The same from Parquet row groups at n = 125,000 and 1,000,000: peak memory of the process minus the
        arrays of the graph below 1 GB, time of the larger size at most 9 times that of the smaller.
text    MLDA and MultiLabelDLE on yahoo_science, 6,345 x 37,187 sparse, 22 labels, a fifth of the items
        unlabeled for the second, including its graph: below 2 GB (a p x p matrix takes 11 GB).

The graph is synthetic: every item is linked to 10 random items, about 20 entries per row. The neighbors of
real data are not closer together in row order. One fifth of the classes is hidden from DLE. The label
columns of the other two are complete: to initialize unlabeled items, MultiLabelDLE searches all pairs of
labeled and unlabeled items, which only the text rows include. One thread throughout. Times are CPU times,
which other programs disturb least.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from embedding_core import DLE, MLDA, MultiLabelDLE
from tests.benchmarks.table import Row, peak_bytes

P, K = 384, 50
METHODS: dict[str, Any] = {"DLE": DLE, "MultiLabelDLE": MultiLabelDLE, "MLDA": MLDA}
LABELS = {"DLE": "a fifth unlabeled", "MultiLabelDLE": "Y complete", "MLDA": "Y complete"}
GROUP_ROWS = 10_922  # 16 MB, what the store writes
YAHOO = Path(__file__).parents[3] / "shared" / "data" / "yahoo_science"


def make_labels(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Classes with a fifth hidden, and label columns with about three labels per item."""
    y = rng.integers(0, K, n)
    Y = np.zeros((n, K), dtype=np.int8)
    for labels in (y, rng.integers(0, K, n), (y + 1) % K):
        Y[np.arange(n), labels] = 1
    return np.where(rng.random(n) < 0.2, -1, y), Y


def make_items(Y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    centers = rng.standard_normal((K, P), dtype=np.float32)
    X = Y.astype(np.float32) @ centers
    X += rng.standard_normal(X.shape, dtype=np.float32)
    X += 5
    return X


def make_graph(n: int, rng: np.random.Generator) -> sp.csr_array:
    ends = rng.integers(0, n, 10 * n, dtype=np.int32)
    starts = np.repeat(np.arange(n, dtype=np.int32), 10)
    half = sp.csr_array((rng.random(10 * n), (starts, ends)), shape=(n, n))
    W = sp.csr_array(half + half.T)
    W.setdiag(0)
    W.eliminate_zeros()
    W.sort_indices()
    return W


def write_problem(folder: Path, n: int) -> None:
    """Write items (Parquet and .npy), labels and graph, one portion at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from storage.artifacts.columns import vectors

    rng = np.random.default_rng(0)
    y, Y = make_labels(n, rng)
    np.save(folder / "classes.npy", y)
    np.save(folder / "columns.npy", Y)
    W = make_graph(n, rng)
    for name in ("data", "indices", "indptr"):
        part = getattr(W, name)
        np.save(folder / f"{name}.npy", part if name == "data" else part.astype(np.int32))
    schema = pa.schema([("features", pa.list_(pa.float32(), P))])
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(folder / "items.parquet", schema, **options) as writer:
        for start in range(0, n, GROUP_ROWS):
            X = make_items(Y[start : start + GROUP_ROWS], np.random.default_rng((0, start)))
            writer.write_table(pa.table({"features": vectors(X, np.float32)}, schema=schema))


def load_labels(folder: Path, method: str) -> np.ndarray:
    return np.load(folder / ("classes.npy" if method == "DLE" else "columns.npy"))


def load_graph(folder: Path) -> sp.csr_array:
    parts = [np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr")]
    W = sp.csr_array(tuple(parts), shape=(len(parts[2]) - 1,) * 2, copy=False)
    W.has_canonical_format = True
    return W


def load_items(folder: Path) -> np.ndarray:
    from embedding_core.linalg.row_blocks import load_rows
    from storage.artifacts.row_blocks import ParquetRows

    return load_rows(ParquetRows(folder / "items.parquet"))


def graph_bytes(W: sp.csr_array) -> int:
    return int(W.data.nbytes + W.indices.nbytes + W.indptr.nbytes)


def timed(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def plain_products(X: np.ndarray, L: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The minimum that any method with a graph must compute, in the dtype of X."""
    return X.T @ X, X.T @ (L @ X)


def child_memory(folder: Path, method: str, n: int) -> dict[str, float]:
    """Run one fit only, to measure the peak memory of the process."""
    X, y = load_items(folder), load_labels(folder, method)
    W = load_graph(folder) if method != "MLDA" else None
    METHODS[method]().fit(X, y, W)
    return {"peak": peak_bytes(), "size": X.nbytes}


def child_ratio(folder: Path, method: str, n: int) -> dict[str, float]:
    """Run fit and plain products alternately and return the median of the ratios."""
    X, y, W = load_items(folder), load_labels(folder, method), load_graph(folder)
    L = sp.csr_array((sp.diags_array(W.sum(axis=1)) - W).astype(X.dtype))
    pairs = []
    for _ in range(3):
        pairs.append((timed(lambda: METHODS[method]().fit(X, y, W)), timed(lambda: plain_products(X, L))))
    return {"ratio": float(np.median([a / b for a, b in pairs])), "seconds": float(np.median(pairs, 0)[0])}


def child_stream(folder: Path, method: str, n: int) -> dict[str, float]:
    from storage.artifacts.row_blocks import ParquetRows

    y = load_labels(folder, method)
    W = load_graph(folder) if method != "MLDA" else None
    X = ParquetRows(folder / "items.parquet")
    wall = time.perf_counter()
    seconds = timed(lambda: METHODS[method]().fit(X, y, W))
    above = peak_bytes() - (0 if W is None else graph_bytes(W))
    return {"above": above, "seconds": seconds, "wall": time.perf_counter() - wall}


def child_text(folder: Path, method: str, n: int) -> dict[str, float]:
    import pyarrow.parquet as pq

    X = sp.csr_array(sp.load_npz(folder / "yahoo_science_X.npz")).astype(np.float64)
    table = pq.read_table(folder / "yahoo_science_labels.parquet")
    rows = np.array(table.column("paper_subset").to_pylist())
    names = [name for name in table.column_names if name.startswith("label:")]
    Y = np.column_stack([np.array(table.column(name).to_pylist(), dtype=np.int8) for name in names])[rows]
    Y = Y[:, Y.sum(axis=0) >= 100][: n or None]
    X = X[rows][: n or None]
    if method == "MultiLabelDLE":
        Y[np.random.default_rng(0).random(len(Y)) < 0.2] = -1
    wall = time.perf_counter()
    model = METHODS[method]()
    seconds = timed(lambda: model.fit(X, Y))
    shape = {"n": X.shape[0], "p": X.shape[1], "K": Y.shape[1], "r": model.embedding_.shape[1]}
    return {**shape, "peak": peak_bytes(), "seconds": seconds, "wall": time.perf_counter() - wall}


def child_write(folder: Path, method: str, n: int) -> dict[str, float]:
    write_problem(folder, n)
    return {}


def in_fresh_process(work: str, folder: Path, method: str = "", n: int = 0) -> dict[str, float]:
    command = [sys.executable, "-m", __spec__.name, "--child", work, str(folder), method, str(n)]
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{work} {method} n={n} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout))


def measure_memory(n: int) -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_fresh_process("write", folder, n=n)
        for method in METHODS:
            time_of, memory = (in_fresh_process(work, folder, method, n) for work in ("ratio", "memory"))
            rows.append(
                (
                    f"{method}, {n:,} x {P} float32, K = {K}, {LABELS[method]}, precomputed graph",
                    "at most 3x XᵀX and XᵀLX; peak below 3x X",
                    f"{time_of['ratio']:.2f}x ({time_of['seconds']:.1f} s)",
                    f"{memory['peak'] / memory['size']:.2f}x X ({memory['peak'] / 1e6:.0f} MB)",
                )
            )
    return rows


def measure_stream(sizes: tuple[int, int]) -> list[Row]:
    """Measure the smaller size before and after the larger one, so that a slowing machine slows both."""
    small, large = sizes
    grown = large / small
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folders = {n: Path(name) / str(n) for n in sizes}
        for n, folder in folders.items():
            folder.mkdir()
            in_fresh_process("write", folder, n=n)
        for method in METHODS:
            before, most, after = (
                in_fresh_process("stream", folders[n], method, n) for n in (small, large, small)
            )
            usual = (before["seconds"] + after["seconds"]) / 2
            rows.append(
                (
                    f"{method} from Parquet, {LABELS[method]}, n = {small:,} to {large:,}",
                    f"at most {9 / 8 * grown:.1f}x for {grown:.0f}x; peak below 1 GB above the graph",
                    f"{most['seconds'] / usual:.2f}x ({most['seconds']:.1f} s)",
                    f"{most['above'] / 1e6:.0f} MB above the graph",
                )
            )
    return rows


def measure_text(n: int) -> list[Row]:
    if not YAHOO.exists():
        return [("yahoo_science", "peak below 2 GB", f"skipped, {YAHOO} does not exist", "-")]
    rows = []
    for method in ("MLDA", "MultiLabelDLE"):
        found = in_fresh_process("text", YAHOO, method, n)
        labels = "a fifth unlabeled" if method == "MultiLabelDLE" else "Y complete"
        rows.append(
            (
                f"{method}, {found['n']:.0f} x {found['p']:.0f} sparse text, K = {found['K']:.0f}, {labels}",
                "no p x p matrix, peak below 2 GB",
                f"{found['seconds']:.1f} s",
                f"{found['peak'] / 1e9:.2f} GB",
            )
        )
    return rows


def measure(quick: bool = False, only: str | None = None) -> list[Row]:
    """Return rows (work, bar, measured, peak memory); `quick` uses smaller n, where the bars do not apply."""
    rows = []
    if only in (None, "memory"):
        rows += measure_memory(20_000 if quick else 200_000)
    if only in (None, "stream"):
        rows += measure_stream((10_000, 40_000) if quick else (125_000, 1_000_000))
    if only in (None, "text"):
        rows += measure_text(1500 if quick else 0)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="smaller n: a minute, no verdict on bars")
    parser.add_argument("--only", choices=("memory", "stream", "text"))
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        work, folder, method, n = options.child
        print(json.dumps(globals()[f"child_{work}"](Path(folder), method, int(n))))
        return
    if options.quick:
        print("quick: interpreter and fixed costs outweigh the data, the bars do not apply")
    for work, bar, measured, peak in measure(options.quick, options.only):
        print(f"{work:74s} {measured:28s} {peak:24s} bar: {bar}")


if __name__ == "__main__":
    main()
