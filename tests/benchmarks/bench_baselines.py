"""Quality of the plain baselines and the label ensembles beside Kernel DLE, on splits that sources name.

    python -m tests.benchmarks.bench_baselines [SET ...]

Prints one Markdown table per set: macro F1, micro F1, LRAP and Hamming loss on the test rows, labels decided
at one half of the scores, and CPU seconds of fit and prediction. emotions, scene and yeast have official
splits; yahoo_science is a random draw of 1,500 training and 1,500 test pages of its 22 frequent labels. Runs
in one thread if OMP_NUM_THREADS=1 is set.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp

from embedding_core.annotator import Annotator
from embedding_core.metrics import multilabel_metrics
from embedding_core.registry.candidates import data_kind, pick_candidates
from tests.real_sets import official

METRICS = ("macro_f1", "micro_f1", "lrap", "hamming_loss")
SETS = ("emotions", "scene", "yeast", "yahoo_science")
FURTHER = ("rbf_svc uncalibrated", "ecc", "calibrated_label_ranking")
FOLDER = Path(os.environ.get("LABELSCAPE_DATA", Path(__file__).parents[3] / "shared" / "data"))


def yahoo_science(folder: Path) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Return the pages of the papers' subset, their 22 labels, and two random parts of 1,500 pages."""
    X = sp.load_npz(folder / "yahoo_science" / "yahoo_science_X.npz").astype(np.float64)
    table = pq.read_table(folder / "yahoo_science" / "yahoo_science_labels.parquet").to_pandas()
    Y = table[[name for name in table if name.startswith("label:")]].to_numpy(np.int8)
    rows = np.flatnonzero(table["paper_subset"].to_numpy())
    Y = Y[:, Y[rows].sum(axis=0) >= 100]
    drawn = np.random.default_rng(0).permutation(rows)[:3000]
    return sp.csr_array(X), Y, np.sort(drawn[:1500]), np.sort(drawn[1500:])


def rivals(X: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, method and parameters of plain candidates for these items, Kernel DLE and ensembles."""
    known = [one for one in pick_candidates(False, (), data_kind(X)) if one.plain or one.name == "kernel_dle"]
    found = [(one.name, one.method, dict(one.params)) for one in known]
    found.append(("rbf_svc uncalibrated", "rbf_svc", {"calibrate": False}))
    return [*found, *((name, name, {}) for name in FURTHER[1:])]


def measure_set(name: str) -> None:
    """Print the table of one set."""
    X, Y, train, test = yahoo_science(FOLDER) if name == "yahoo_science" else official(FOLDER, name)
    print(f"\n{name}: {len(train)} training rows, {len(test)} test rows, {Y.shape[1]} labels\n")
    print("| method | macro F1 | micro F1 | LRAP | Hamming loss | CPU s |\n|---|---|---|---|---|---|")
    for title, method, params in rivals(X):
        started = time.process_time()
        model = Annotator(method, params).fit(X[train], Y[train])
        scores = model.predict_scores(X[test])
        seconds = time.process_time() - started
        found = multilabel_metrics(Y[test], (scores > 0.5).astype(np.int8), scores)
        values = " | ".join(f"{found[metric]:.3f}" for metric in METRICS)
        print(f"| {title} | {values} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SETS:
        measure_set(chosen)
