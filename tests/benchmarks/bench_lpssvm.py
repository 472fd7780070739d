"""LPSSVM with landmarks (Nyström) against its exact kernel form, side by side.

    python -m tests.benchmarks.bench_lpssvm [--quick] [--rounds 1]

Each form is fitted in a fresh process on the same items (ten overlapping clusters in 20 dimensions, every
second one positive, a tenth labelled), kernel and graph; it then decides on these items and on as many new
ones. Bars at n = 5,000 with 500 landmarks: at least 15 times faster, signs of the decisions agree on 0.97 or
more. The agreement falls with the accuracy: where clusters overlap more, both forms err, on different items.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

BAR_RATIO, BAR_AGREEMENT = 15.0, 0.97


def draw_items(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Items (n, 20) of ten clusters and their class, 0 or 1."""
    centers = np.random.default_rng(0).normal(size=(10, 20))
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 10, n)
    return centers[cluster] + rng.normal(size=(n, 20)), cluster % 2


def measure(n: int, landmarks: int | None, decisions_file: str) -> None:
    """Fit one form, write its decisions, print seconds and peak memory."""
    from embedding_core.graphs import build_knn_graph
    from embedding_core.margin.lpssvm import LPSSVM

    X, y = draw_items(n, seed=1)
    X_new, _ = draw_items(n, seed=2)
    hidden = np.where(np.random.default_rng(3).random(n) < 0.1, y, -1)
    W = build_knn_graph(X, 10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = LPSSVM(kernel="rbf", n_components=10, landmarks=landmarks)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The graph has")
        started = time.perf_counter()
        model.fit(X, hidden, affinity=W)
        seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    np.save(decisions_file, [model.decision_function(X), model.decision_function(X_new)])
    print(json.dumps({"seconds": seconds, "peak_mb": after / 1024, "fit_mb": (after - before) / 1024}))


def run_form(n: int, landmarks: int | None, folder: str) -> tuple[dict[str, float], np.ndarray]:
    """Measure one form in a process of its own."""
    file = str(Path(folder) / f"{landmarks}.npy")
    command = [sys.executable, "-m", "tests.benchmarks.bench_lpssvm", "--child", file, "--items", str(n)]
    command += [] if landmarks is None else ["--landmarks", str(landmarks)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), np.load(file)


def compare(n: int, m: int, rounds: int) -> None:
    """Print both forms, their ratio and agreement beside the bars."""
    exact, nystrom = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            result, decisions = run_form(n, None, folder)
            exact.append(result)
            result, approximate = run_form(n, m, folder)
            nystrom.append(result)
    seconds = [statistics.median(run["seconds"] for run in runs) for runs in (exact, nystrom)]
    print(f"n = {n}, p = 20, landmarks = {m}, {rounds} round(s)")
    for name, runs, median in (("exact", exact, seconds[0]), ("Nyström", nystrom, seconds[1])):
        print(
            f"  {name:8} fit {median:8.2f} s   peak {runs[-1]['peak_mb']:7.0f} MB "
            f"(fit alone {runs[-1]['fit_mb']:.0f} MB)"
        )
    ratio = seconds[0] / seconds[1]
    same = ((decisions > 0) == (approximate > 0)).mean(axis=1)
    truth = [draw_items(n, seed)[1] for seed in (1, 2)]
    right = [[((form[s] > 0) == truth[s]).mean() for s in (0, 1)] for form in (decisions, approximate)]
    print(f"  ratio {ratio:.1f}x   {_verdict(ratio >= BAR_RATIO)} (bar: {BAR_RATIO:.0f}x)")
    for s, items in enumerate(("items of the fit", "new items")):
        print(
            f"  same sign, {items:16} {same[s]:.4f}   {_verdict(same[s] >= BAR_AGREEMENT)} "
            f"(bar: {BAR_AGREEMENT})   accuracy {right[0][s]:.3f} exact, {right[1][s]:.3f} Nyström"
        )


def _verdict(reached: bool) -> str:
    return "ok" if reached else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 1,500 with 150 landmarks, some seconds")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--items", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--landmarks", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        measure(given.items, given.landmarks, given.child)
    else:
        compare(*((1_500, 150) if given.quick else (5_000, 500)), given.rounds)


if __name__ == "__main__":
    main()
