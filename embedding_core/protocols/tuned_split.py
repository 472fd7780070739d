"""One split into training and test rows: Hamming loss, F1 with thresholds tuned on training rows, LRAP.

Every estimator with `fit(X, Y)` and `predict_scores(X)` is judged in the same way: Hamming loss at one half,
micro-F1 with one common threshold, macro-F1 with one threshold per label, and LRAP. Thresholds have the best
F1 on out-of-sample scores of the training rows; `auto` and `annotate` use another rule per label, see
`embedding_core.model_selection.threshold_tuning`. If features come in several blocks, such as color spaces,
the training rows choose one block for each estimator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from embedding_core.annotator import Annotator
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import decide_labels
from embedding_core.metrics import multilabel_metrics, row_precisions
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.threshold_tuning import tune_thresholds
from embedding_core.protocols.trial import Arm, Cell, TrialData, prepare, trial_rng

FIGURES = ("hamming_loss", "micro_f1", "macro_f1", "lrap")
"""Metrics of a split; the F1 scores use tuned thresholds."""
_TUNED = {"micro_f1": "micro_f1", "macro_f1": "label_f1"}
"""Rule of the thresholds for each tuned metric. The published figures were measured with these."""

FOLDS = 3
OFFICIAL, RANDOM = "official split", "random splits"
CHOSEN, SHARE = "chosen: ", "share"
"""Condition prefix and metric of the cells that report which block was chosen."""


@dataclass(frozen=True)
class SplitScores:
    """Scores of test rows (m, K), and out-of-sample scores of training rows (l, K)."""

    left_out: NDArray[np.float64]
    test: NDArray[np.float64]


def score_split(
    estimator: Any,
    X: Any,
    Y: NDArray[np.int8],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    seed: int = 0,
) -> SplitScores:
    """Fit on the training rows and score both.

    An estimator with `loo_scores_` or `left_out_scores_` provides the scores of the training rows itself; any
    other is refitted on stratified folds of them.
    """
    fitted = clone(estimator).fit(X[train], Y[train])
    model = getattr(fitted, "model_", fitted)
    left_out = getattr(model, "loo_scores_", getattr(model, "left_out_scores_", None))
    if left_out is None:
        left_out = _out_of_fold(estimator, X[train], Y[train], seed)
    return SplitScores(left_out, fitted.predict_scores(X[test]))


def _out_of_fold(estimator: Any, X: Any, Y: NDArray[np.int8], seed: int) -> NDArray[np.float64]:
    scores = np.empty(Y.shape)
    for train, test in stratified_folds(Y, FOLDS, seed):
        scores[test] = clone(estimator).fit(X[train], Y[train]).predict_scores(X[test])
    return scores


def split_figures(
    scores: SplitScores, Y_train: NDArray[np.int8], Y_test: NDArray[np.int8]
) -> dict[str, float]:
    """Compute `FIGURES` of the test rows; their labels are only used for measuring."""
    plain = multilabel_metrics(Y_test, decide_labels(scores.test), scores.test)
    found = {"hamming_loss": plain["hamming_loss"], "lrap": plain["lrap"]}
    for metric, rule in _TUNED.items():
        thresholds = tune_thresholds(scores.left_out, Y_train, rule)
        decided = (scores.test > thresholds).astype(np.int8)
        found[metric] = multilabel_metrics(Y_test, decided, scores.test)[metric]
    return {name: found[name] for name in FIGURES}


def judge_split(
    estimator: Any,
    X: Any,
    Y: NDArray[np.int8],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    seed: int = 0,
) -> dict[str, float]:
    """Compute `FIGURES` of one estimator on one split."""
    return split_figures(score_split(estimator, X, Y, train, test, seed), Y[train], Y[test])


def choose_block(estimator: Any, blocks: Sequence[Any], Y: NDArray[np.int8], seed: int = 0) -> int:
    """Return the block of features of the training rows with the best out-of-fold LRAP; the first on ties.

    Every estimator is refitted on folds. Scores that a fit reports for its own rows favor noisy blocks if its
    parameters were chosen on these rows.
    """
    found = [row_precisions(Y, _out_of_fold(estimator, X, Y, seed)).mean() for X in blocks]
    return int(np.argmax(found))


def split_columns(X: Any, count: int) -> list[Any]:
    """Split X, dense or CSR, into blocks with the same number of columns."""
    width, rest = divmod(X.shape[1], count)
    if rest or not width:
        raise InvalidInput(f"{X.shape[1]} columns cannot be split into {count} blocks of equal size.")
    return [X[:, start : start + width] for start in range(0, X.shape[1], width)]


def draw_parts(
    n: int, n_train: int, n_test: int, number: int, seed: int = 0
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw training and test rows, both ascending; the draw depends only on seed and number."""
    if n_train < 2 or n_test < 1 or n_train + n_test > n:
        raise InvalidInput(
            f"{n_train} training and {n_test} test rows of {n}: draw at least two training rows and one test "
            "row, and no more rows than there are."
        )
    order = trial_rng(seed, number).permutation(n)
    return np.sort(order[:n_train]), np.sort(order[n_train : n_train + n_test])


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Compute `FIGURES` of one split: the official one first, if the set has one, then random ones.

    Settings
    --------
    sizes : (int, int), optional
        Training and test rows in random splits; by default as many as in the official split.
    blocks : sequence of str, optional
        Names of the feature blocks, of the same number of columns each. The training rows of a split choose
        one, see `choose_block`; one cell per block reports whether it was chosen.
    seed : int
    """
    condition = OFFICIAL if data.train is not None and number == 0 else RANDOM
    train, test = _rows_of(data, settings, number)
    # Blocks of a data set are prepared by the annotator itself, in every fit.
    estimator = Annotator(arm.method, dict(arm.params), blocks=data.blocks or None)
    names, seed = settings.get("blocks", ()), settings["seed"]
    given = "raw" if data.blocks else preprocessing
    blocks = [prepare(X, given, train) for X in split_columns(data.X, max(len(names), 1))]
    chosen = choose_block(estimator, [X[train] for X in blocks], data.Y[train], seed) if names else 0
    figures = judge_split(estimator, blocks[chosen], data.Y, train, test, seed)
    return [
        *(Cell(condition, name, value) for name, value in figures.items()),
        *(Cell(CHOSEN + name, SHARE, float(block == chosen)) for block, name in enumerate(names)),
    ]


def training_rows(data: TrialData, settings: Mapping[str, Any], number: int) -> NDArray[np.intp]:
    """Return the rows that features of a trial may be learned from."""
    return _rows_of(data, settings, number)[0]


def _rows_of(
    data: TrialData, settings: Mapping[str, Any], number: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    if data.train is None:
        if "sizes" not in settings:
            raise InvalidInput("the data set has no column `split` of train and test; use a copy with one.")
        n_train, n_test = settings["sizes"]
        return draw_parts(len(data.Y), n_train, n_test, number, settings["seed"])
    train, test = np.flatnonzero(data.train), np.flatnonzero(~data.train)
    if number == 0:
        return train, test
    return draw_parts(len(data.Y), len(train), len(test), number, settings["seed"])
