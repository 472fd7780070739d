"""Small training parts of real multi-label sets: out-of-fold scores, and what is decided on new rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from embedding_core import KernelDLEClassifier
from embedding_core.label_care.forecast import ridge_learner
from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.folds import stratified_folds
from tests.real_sets import msrc, read_table

SIZES = (60, 100, 200, 400)
MOST_TEST_ROWS = 1000
Scores = Callable[[Any, np.ndarray, Any], np.ndarray]
"""Fits X (l, p), Y (l, K) and returns scores of other rows (m, p)."""


def table(name: str) -> Callable[[Path], tuple[Any, np.ndarray]]:
    return lambda folder: read_table(folder, name)[:2]


def corel(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The 60 most frequent labels."""
    X, Y, _ = read_table(folder, "corel5k")
    return X, np.ascontiguousarray(Y[:, np.argsort(-Y.sum(axis=0), kind="stable")[:60]])


def yahoo(folder: Path) -> tuple[Any, np.ndarray]:
    """1,500 pages drawn at random, TF-IDF, and the 22 labels with at least 100 pages."""
    counts = sp.csr_array(sp.load_npz(folder / "yahoo_science" / "yahoo_science_X.npz")).astype(np.float64)
    labels = pq.read_table(folder / "yahoo_science" / "yahoo_science_labels.parquet").to_pandas()
    Y = labels[[column for column in labels if column.startswith("label:")]].to_numpy(np.int8)
    rows = np.sort(np.random.default_rng(0).permutation(np.flatnonzero(labels["paper_subset"]))[:1500])
    X = sp.csr_array(TfidfTransformer().fit_transform(counts[rows]))
    return X, np.ascontiguousarray(Y[rows][:, Y.sum(axis=0) >= 100])


SETS: dict[str, Callable[[Path], tuple[Any, np.ndarray]]] = {
    "emotions": table("emotions"),
    "scene": table("scene"),
    "yeast": table("yeast"),
    "mediamill_reduced": table("mediamill_reduced"),
    "corel5k": corel,
    "msrc_v2": msrc,
    "yahoo_science": yahoo,
}


def ridge_scores(X: Any, Y: np.ndarray, queries: Any) -> np.ndarray:
    """Ridge regression with an intercept, as in forecasts: the penalty by exact leave-one-out errors."""
    return ridge_learner(X, Y, queries)[0]


def kernel_dle_scores(X: Any, Y: np.ndarray, queries: Any) -> np.ndarray:
    return KernelDLEClassifier().fit(X, Y).predict_scores(queries)


MODELS: dict[str, Scores] = {"ridge": ridge_scores, "Kernel DLE": kernel_dle_scores}


@dataclass(frozen=True)
class Split:
    """Out-of-fold scores of the training rows, and the scores of test rows by a fit on all of them."""

    name: str
    size: int
    scores: np.ndarray
    Y: np.ndarray
    folds: np.ndarray
    test_scores: np.ndarray
    Y_test: np.ndarray


def score_rows(name: str, X: Any, Y: np.ndarray, size: int, seed: int, model: Scores) -> Split:
    rng = np.random.default_rng([seed, size])
    order = rng.permutation(len(Y))
    train, test = np.sort(order[:size]), np.sort(order[size : size + MOST_TEST_ROWS])
    scores, folds = np.empty((size, Y.shape[1])), np.empty(size, dtype=np.intp)
    for fold, (inside, out) in enumerate(stratified_folds(Y[train], 5, seed)):
        scores[out] = model(X[train[inside]], Y[train[inside]], X[train[out]])
        folds[out] = fold
    return Split(name, size, scores, Y[train], folds, model(X[train], Y[train], X[test]), Y[test])


def draw_splits(
    folder: Path, names: list[str], sizes: tuple[int, ...], draws: int, model: Scores
) -> Iterator[Split]:
    for name in names:
        X, Y = SETS[name](folder)
        for size in sizes:
            if size + 100 <= len(Y):
                yield from (score_rows(name, X, Y, size, seed, model) for seed in range(draws))


def rate_decisions(split: Split, thresholds: np.ndarray) -> dict[str, float]:
    """Quality of decisions on the test rows, and how plausible the number of given labels is.

    given/true is the mean over labels of the share of rows that get a label, relative to its true share;
    absurd, the share of labels given to more than five times their true share; extreme, the number of labels
    given to more than half of the rows though fewer than a tenth carry them.
    """
    decided = (split.test_scores > thresholds).astype(np.int8)
    found = multilabel_metrics(split.Y_test, decided, split.test_scores)
    given, true = decided.mean(axis=0), split.Y_test.mean(axis=0)
    times = given[true > 0] / true[true > 0]
    return {
        "macro F1": found["macro_f1"],
        "micro F1": found["micro_f1"],
        "precision": found["micro_precision"],
        "Hamming": found["hamming_loss"],
        "given/true": float(times.mean()),
        "absurd": float((times > 5).mean()),
        "extreme": float(((given > 0.5) & (true < 0.1)).sum()),
    }
