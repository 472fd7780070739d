"""Kernel DLE as a classifier: label scores, Platt calibration and neighbor votes on leave-one-out rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from embedding_core.base import PartialLabelsMixin
from embedding_core.checks import check_choice
from embedding_core.classifiers.ml_knn import other_neighbors
from embedding_core.kernel_dle.estimator import KernelDLE
from embedding_core.knn_classifier import decide_labels, nearest_rows, vote
from embedding_core.labels import as_indicator, in_given_form
from embedding_core.model_selection.calibration import Calibration, calibrate_together
from embedding_core.model_selection.inner_choice import rate_scores
from embedding_core.model_selection.threshold_tuning import TARGETS, tune_thresholds
from embedding_core.model_selection.thresholds import shift_scores

PENALTY = 1.0

CANDIDATES = (1, 3, 5, 10, 15, 20, 30, 50)
"""Candidate numbers of neighbors."""
MOST_ROWS = 10_000
"""Maximum number of rows that vote; larger sets are sampled, so that time is linear in the rows."""
HALF = np.array(0.5)


def fit_calibration(scores: NDArray[np.float64], Y: NDArray[np.int8]) -> Calibration:
    """Fit leave-one-out scores (l, K) to labels Y (l, K).

    The penalty C = 1 of the slope refers to scores of unit standard deviation. A label that all rows have, or
    no row has, keeps its constant value.
    """
    K = Y.shape[1]
    slopes, offsets = np.zeros(K), np.where(Y[0] == 1, np.inf, -np.inf)
    for k in np.flatnonzero(Y.min(axis=0) != Y.max(axis=0)):
        spread = float(scores[:, k].std()) or 1.0
        model = LogisticRegression(C=PENALTY).fit(scores[:, [k]] / spread, Y[:, k])
        slopes[k], offsets[k] = model.coef_[0, 0] / spread, model.intercept_[0]
    return Calibration(slopes, offsets)


@dataclass(frozen=True)
class NeighborVotes:
    """Votes of the k rows of `Z` (v, r) nearest to a query, with labels `Y` (v, K) and weights 1/d."""

    Z: NDArray[np.float64]
    Y: NDArray[np.int8]
    k: int

    def scores(self, queries: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted fraction (m, K) of votes for each label, in [0, 1]."""
        return vote(self.Y, *nearest_rows(self.Z, queries, self.k), "distance")


def fit_votes(
    Z: NDArray[np.float64], Y: NDArray[np.int8], random_state: Any
) -> tuple[NeighborVotes, NDArray[np.float64]]:
    """Choose k by leave-one-out votes; return the model and the votes (l, K) for each row by all others.

    Parameters
    ----------
    Z : ndarray of shape (l, r)
        Leave-one-out rows, placed without their own labels.
    Y : ndarray of shape (l, K)
    random_state : int, RandomState or None
        Draws the `MOST_ROWS` rows that vote if there are more.
    """
    asked = np.arange(len(Z))
    if len(Z) > MOST_ROWS:
        asked = np.sort(check_random_state(random_state).choice(len(Z), MOST_ROWS, replace=False))
    distances, indices = other_neighbors(Z, min(max(CANDIDATES), len(asked) - 1), asked)
    best: tuple[tuple[float, float], int, NDArray[np.float64]] | None = None
    for k in [k for k in CANDIDATES if k <= distances.shape[1]]:
        votes = vote(Y[asked], distances[:, :k], indices[:, :k], "distance")
        quality = rate_scores(Y, votes)
        if best is None or quality > best[0]:
            best = quality, k, votes
    assert best is not None  # at least two rows: one neighbor is always available
    return NeighborVotes(Z[asked], Y[asked], best[1]), best[2]


class KernelDLEClassifier(PartialLabelsMixin, BaseEstimator):
    """Classifier in the embedding of `KernelDLE`, trained on its leave-one-out rows.

    The score of a label is the mean of three scores: the label score f of the embedding, a logistic function
    of it (Platt scaling), and the votes of the nearest neighbors in the embedding. All are trained on the
    leave-one-out rows and never on the fitted rows, which lie too close to their labels.

    Parameters
    ----------
    kernel, graph_weight, regularization, landmarks, n_components, few_labels, input_scale, links
        As in `KernelDLE`. `n_components` limits the coordinates used for the neighbor search. With few labels
        the averaged label scores are used alone, without Platt scaling and neighbors.
    calibrate : bool, default=False
        With few labels, turn the averaged label scores into probabilities by one logistic function of all
        labels, see `calibrate_together`. Otherwise Platt scaling is part of the scores anyway.
    random_state : int, RandomState or None, default=0
        As in `KernelDLE`; also draws the rows that vote.
    tune_for : {"hamming", "micro_f1", "macro_f1", "label_f1"}, default="hamming"
        Metric for which label columns are thresholded on `loo_scores_`: "hamming" uses one half for every
        label, "micro_f1" one common threshold with the best F1, "macro_f1" one threshold per label that gives
        it to a plausible share of the rows, and "label_f1" the threshold with the best F1 of each label; see
        `tune_thresholds`. Classes are decided by the highest score.

    Attributes
    ----------
    embedding_model_ : KernelDLE
    calibration_ : Calibration or None
        None with few labels, unless `calibrate` is set.
    votes_ : NeighborVotes or None
        None with few labels.
    thresholds_ : ndarray of shape (K,)
        Decision thresholds of the scores; inf if no labeled item has the label, -inf if all have it.
    loo_scores_ : ndarray of shape (l, K)
        Leave-one-out scores in [0, 1] of the labeled items; see Notes.
    transduction_scores_ : ndarray of shape (n, K)
        Scores of all items of the fit by `predict_scores`, with their links; only if links enter the kernel.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    n_features_in_ : int

    Notes
    -----
    Label scores f are clipped to [0, 1] before averaging. With few labels they are used alone, as 1 / (1 +
    exp(-4 (f - 1/2))): a label without any evidence (f = 0) has the score .12. With `calibrate` both
    numbers of this function are fitted to the leave-one-out scores of all labels. Platt scaling has two
    parameters per label, fitted to leave-one-out scores; it is not refitted without each item. Neighbors
    are searched among the leave-one-out rows, each placed without its own labels but with those of the
    other items. So `loo_scores_`, on which thresholds are tuned, is exact only in the label scores f. With
    few labels it is exact, but only covers the fits on plain z-scores, whose thresholds are then applied to
    the mean of all fits. Neighbors are weighted by 1/d; their number is chosen among 1, 3, 5, 10, 15, 20,
    30 and 50 by leave-one-out. Above 10,000 rows a sample of 10,000 votes.

    `predict_scores` returns scores in [0, 1] that exceed one half for yes: the scores themselves for
    "hamming", and otherwise scores shifted by their thresholds. `predict_proba` returns the scores,
    normalized to sum to one for classes.

    Measured on the official splits with default parameters (Hamming loss, LRAP): emotions .186, .818; scene
    .073, .897; yeast .186, .771.

    References
    ----------
    .. [1] H. Wang, H. Huang, C. Ding, "Discriminant Laplacian Embedding", AAAI 2010.
    .. [2] J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import KernelDLEClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4))
    >>> Y = np.column_stack([X[:, 0] * X[:, 1] > 0, X[:, 2] > 0.5]).astype(int)
    >>> model = KernelDLEClassifier().fit(X[:200], Y[:200])
    >>> round(float((model.predict(X[200:]) == Y[200:]).mean()), 1)
    0.9
    """

    @property
    def takes_links(self) -> bool:
        """Whether the links of new items change their scores: links enter the kernel."""
        return self.embedding_model_.propagation_ is not None

    def __init__(
        self,
        *,
        kernel: str | Callable[[Any, Any], Any] = "auto",
        graph_weight: float | str = 0.0,
        regularization: float | str = "loo",
        landmarks: int | str | None = "auto",
        n_components: int | None = None,
        few_labels: bool | str = "auto",
        input_scale: str = "zscore",
        links: str = "none",
        tune_for: str = "hamming",
        calibrate: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.graph_weight = graph_weight
        self.regularization = regularization
        self.landmarks = landmarks
        self.n_components = n_components
        self.few_labels = few_labels
        self.input_scale = input_scale
        self.links = links
        self.tune_for = tune_for
        self.calibrate = calibrate
        self.random_state = random_state

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Learn from the labeled items; parameters as for `KernelDLE.fit`."""
        check_choice("tune_for", self.tune_for, TARGETS)
        own = ("tune_for", "calibrate")
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in own}
        model = KernelDLE(**settings).fit(X, y, affinity)
        target = as_indicator(y)
        self.embedding_model_ = model
        self.classes_, self.multi_label_ = model.classes_, model.multi_label_
        self.n_features_in_ = model.n_features_in_
        self.__dict__.pop("feature_names_in_", None)  # left by an earlier fit
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        self._learn(target.Y[target.labeled], model.loo_embedding_[target.labeled])
        self.__dict__.pop("transduction_scores_", None)
        if model.item_scores_ is not None:
            self.transduction_scores_ = self._shifted(self._combine(model.item_scores_))
        return self

    def _learn(self, Y: NDArray[np.int8], Z: NDArray[np.float64]) -> None:
        """Train on the leave-one-out rows Z (l, r) and scores of the labeled items."""
        scores = self.embedding_model_.loo_scores_
        self.calibration_: Calibration | None = None
        self.votes_: NeighborVotes | None = None
        if self.embedding_model_.few_labels_:
            self.calibration_ = calibrate_together(scores, Y) if self.calibrate else None
            self.loo_scores_ = self._few_scores(scores)
        else:
            self.calibration_ = fit_calibration(scores, Y)
            self.votes_, votes = fit_votes(Z, Y, self.random_state)
            self.loo_scores_ = (np.clip(scores, 0.0, 1.0) + self.calibration_.apply(scores) + votes) / 3
        self.thresholds_ = tune_thresholds(self.loo_scores_, Y, self.tune_for)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return scores (m, K) in [0, 1]; for classes they are normalized to sum to one."""
        scores = self._scores(X)
        if self.multi_label_:
            return scores
        normalized: NDArray[np.float64] = scores / scores.sum(axis=1, keepdims=True)
        return normalized

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return label scores relative to their thresholds (m, K), or class scores (m, K).

        For two classes, returns the score of the second minus that of the first class, (m,).
        """
        scores = self._scores(X)
        if self.multi_label_:
            return shift_scores(scores, self.thresholds_) - 0.5
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_scores(self, X: Any, links: Any = None) -> NDArray[np.float64]:
        """Return scores (m, K) in [0, 1], above one half for yes; see Notes.

        `links` (m, n) or (m, n + m) are links of these items, see `KernelDLE.label_scores`.
        """
        return self._shifted(self._scores(X, links))

    def _shifted(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return scores if self.tune_for == "hamming" else shift_scores(scores, self.thresholds_)

    def predict(self, X: Any, links: Any = None) -> NDArray[Any]:
        """Return labels (m, K) in 0/1, or the highest-scored classes (m,) if `fit` was given classes (n,)."""
        check_is_fitted(self)
        # thresholds apply to label columns only
        scores = self.predict_scores(X, links) if self.multi_label_ else self._scores(X, links)
        labels = decide_labels(scores, single_label=not self.multi_label_)
        return in_given_form(labels, self.classes_, self.multi_label_)

    def _scores(self, X: Any, links: Any = None) -> NDArray[np.float64]:
        """Return scores (m, K) in [0, 1] before thresholds are applied."""
        check_is_fitted(self)
        return self._combine(self.embedding_model_.label_scores(X, links))

    def _combine(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of label scores (m, K), their calibration and the neighbors' votes."""
        model = self.embedding_model_
        if self.calibration_ is None or self.votes_ is None:
            return self._few_scores(scores)
        Z = (scores - model.label_means_) @ model.rotation_
        return (np.clip(scores, 0.0, 1.0) + self.calibration_.apply(scores) + self.votes_.scores(Z)) / 3

    def _few_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores in [0, 1] from the averaged label scores (m, K) of the form for few labels."""
        calibration = self.calibration_
        return shift_scores(scores, HALF) if calibration is None else calibration.apply(scores)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags
