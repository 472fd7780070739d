"""CPU time and memory of `labelscape auto` against the plain baselines alone, fitted by scikit-learn.

    python -m tests.benchmarks.bench_auto [--quick] [--large]

1,000 rows, 100 features, 20 labels. The plain baselines of `auto` are fitted by scikit-learn on the same
folds, with the same grids on three inner folds and a fit with the chosen values; one of the five folds is
measured and multiplied. They are written as a practitioner would: pipelines with z-scores,
`OneVsRestClassifier`, `GridSearchCV`. `auto` scores all of its candidates and fits the winner, in a process
of its own, with its Prefect server and without a tracker. Both use one thread per process.

With --large: 100,000 rows, 72 features, 6 labels and a budget of ten minutes, with server and tracker as a
user runs it. The row gives the elapsed time in budgets, CPU seconds, peak memory, and what was scored.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.benchmarks.table import Row

BAR = 3.0
MEMORY = "1.5 GB"
SIZES = {False: (1000, 100, 20), True: (120, 10, 4)}
FOLDS = 5
LARGE_SIZES = {False: (100_000, 72, 6), True: (3000, 10, 4)}
LARGE_BUDGETS = {False: 600, True: 120}
LARGE_BAR, LARGE_MEMORY = 1.2, "4 GB"


def made_collection(n: int, p: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels: linear and bent functions of the features with noise, shares of 5 to 40 %."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    bent = np.tanh(X[:, rng.permutation(p)[:K]] * X[:, rng.permutation(p)[:K]])
    F = X @ rng.normal(size=(p, K)) / np.sqrt(p) + 0.7 * bent + 0.5 * rng.normal(size=(n, K))
    cuts = [np.quantile(f, 1 - share) for f, share in zip(F.T, np.linspace(0.05, 0.4, K), strict=True)]
    return X, (cuts < F).astype(np.int8)


def write_table(file: Path, X: np.ndarray, Y: np.ndarray) -> None:
    """Write a table that `auto` reads."""
    header = [*(f"f{k}" for k in range(X.shape[1])), *(f"label:l{k}" for k in range(Y.shape[1]))]
    np.savetxt(file, np.hstack([X, Y]), delimiter=",", header=",".join(header), comments="", fmt="%.6g")


def write_parquet(file: Path, X: np.ndarray, Y: np.ndarray) -> None:
    """Write the same columns as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    features = {f"f{k}": column for k, column in enumerate(X.astype(np.float32).T)}
    pq.write_table(pa.table({**features, **{f"label:l{k}": column for k, column in enumerate(Y.T)}}), file)


def plain_models() -> dict[str, object]:
    """Return the plain baselines of `auto` for tables, by scikit-learn, with the grids of the registry."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, LinearSVC

    def tuned(estimator: object, **grid: list) -> GridSearchCV:
        return GridSearchCV(make_pipeline(StandardScaler(), estimator), grid, cv=3, scoring="f1_micro")

    penalties, widths = [0.001, 0.01, 0.1, 1.0, 10.0], [0.1, 0.3, 1.0, 3.0]
    inner = "onevsrestclassifier__estimator__"
    gammas = [width / SIZES[False][1] for width in widths]
    return {
        "knn_zscore": tuned(
            KNeighborsClassifier(weights="distance"),
            kneighborsclassifier__n_neighbors=[1, 3, 5, 10, 15, 20, 30, 50],
        ),
        "logistic_regression": tuned(
            OneVsRestClassifier(LogisticRegression(max_iter=1000)), **{f"{inner}C": penalties}
        ),
        "linear_svm": tuned(OneVsRestClassifier(LinearSVC(max_iter=5000)), **{f"{inner}C": penalties}),
        "rbf_svc": tuned(
            OneVsRestClassifier(SVC()), **{f"{inner}C": [1.0, 10.0, 100.0], f"{inner}gamma": gammas}
        ),
        "extra_trees": ExtraTreesClassifier(500, max_features=0.3, random_state=0),
        "random_forest": RandomForestClassifier(500, random_state=0),
    }


def measure_plain(X: np.ndarray, Y: np.ndarray) -> float:
    """CPU seconds of fitting and predicting every plain baseline on all folds; one is measured."""
    from threadpoolctl import threadpool_limits

    from embedding_core.model_selection.folds import stratified_folds

    train, test = stratified_folds(Y, FOLDS, 0)[0]
    total = 0.0
    for name, model in plain_models().items():
        started = time.process_time()
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # liblinear does not converge at large C
            model.fit(X[train], Y[train]).predict(X[test])  # type: ignore[attr-defined]
        seconds = FOLDS * (time.process_time() - started)
        print(f"  scikit-learn {name}: {seconds:.1f} s", flush=True)
        total += seconds
    return total


class MemoryWatch(threading.Thread):
    """Largest sum of the resident memory of a process and its children, sampled twice per second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.ended = pid, 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.5):
            self.peak = max(self.peak, sum(map(resident_bytes, family(self.pid))))


def family(pid: int) -> list[int]:
    """Return a process and everything it started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [pid, *(one for child in text.split() for one in family(int(child)))]


def resident_bytes(pid: int) -> int:
    """Memory of a process without what it shares with others."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except OSError:
        return 0


@dataclass(frozen=True)
class Cost:
    """Elapsed and CPU seconds of a command, its peak bytes, and what it printed."""

    elapsed: float
    cpu: float
    peak: float
    printed: str


def measure_auto(table: Path, home: Path, budget: str, *settings: str) -> Cost:
    """Run the command and measure it."""
    command = [sys.executable, "-m", "flows.cli", "auto", str(table), "--home", str(home), "--budget", budget]
    command += ["--json", *(part for setting in settings for part in ("--set", setting))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
        watch = MemoryWatch(running.pid)
        watch.start()
        printed, _ = running.communicate()
        watch.ended.set()
    if running.returncode:
        raise RuntimeError(f"auto ended with code {running.returncode}")
    after, elapsed = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - started
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Cost(elapsed, cpu, float(watch.peak), printed)


def measure(quick: bool = False) -> list[Row]:
    """One row: the ratio and the peak memory."""
    n, p, K = SIZES[quick]
    X, Y = made_collection(n, p, K)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "made.csv"
        write_table(table, X, Y)
        settings = ("tracking.enabled=false", f"evaluation.folds={FOLDS}", "executor=processes:1")
        cost = measure_auto(table, Path(folder) / "home", "2h", *settings)
        ours, peak = cost.cpu, cost.peak
        print(f"  auto: {ours:.1f} s, {peak / 1e6:.0f} MB", flush=True)
    plain = measure_plain(X, Y)
    work = (
        f"`auto` on {n:,} rows, {p} features, {K} labels, in CPU time of its plain baselines by scikit-learn"
    )
    measured = f"{ours / plain:.2f} ({ours:.0f} s against {plain:.0f} s)"
    return [(work, f"at most {BAR:g}; peak below {MEMORY}", measured, f"{peak / 1e6:.0f} MB")]


def measure_large(quick: bool = False) -> list[Row]:
    """One row: elapsed time in budgets, and what was scored."""
    (n, p, K), budget = LARGE_SIZES[quick], LARGE_BUDGETS[quick]
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "made.parquet"
        write_parquet(table, *made_collection(n, p, K))
        settings = [f"evaluation.exact_items={n // 3}"] if quick else []
        cost = measure_auto(table, Path(folder) / "home", f"{budget}s", *settings)
    found = json.loads(cost.printed)
    for one in found["candidates"]:
        print(f"  {one['title']}: {one['state']}. {one['reason'] or ''}", flush=True)
    print(f"  {found['time']}, winner {found['winner']}", flush=True)
    scored = [one["title"] for one in found["candidates"] if one["state"] == "scored"]
    work = f"`auto --budget {budget // 60}m` on {n:,} rows, {p} features, {K} labels, elapsed in budgets"
    measured = f"{cost.elapsed / budget:.2f} ({cost.cpu:.0f} s of CPU; scored: {'; '.join(scored)})"
    bar = f"at most {LARGE_BAR:g}; two plain baselines and Kernel DLE scored; peak below {LARGE_MEMORY}"
    return [(work, bar, measured, f"{cost.peak / 1e6:.0f} MB")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small table, to check that everything works")
    parser.add_argument("--large", action="store_true", help="100,000 rows within a budget of ten minutes")
    options = parser.parse_args()
    for row in (measure_large if options.large else measure)(options.quick):
        print(" | ".join(row))


if __name__ == "__main__":
    main()
