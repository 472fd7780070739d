"""Random forests and extremely randomized trees, stored as plain arrays.

scikit-learn grows the trees. Its compiled tree object is not safe to load from an untrusted file, because
node indices are followed unchecked. The trees are therefore stored as arrays and traversed here, where NumPy
checks every index.
"""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from embedding_core.checks import SCALE_ITEMS, check_count
from embedding_core.classifiers.baselines import calibrate_votes, constant_decisions
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import as_labeled_features, decide_labels
from embedding_core.labels import one_label_each
from embedding_core.model_selection.calibration import Calibration
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.scaling import Features, as_features

# Number of (row, tree) pairs traversed at a time.
_BLOCK_PLACES = 2**21
_CALIBRATION_FOLDS, _FEWEST_ROWS = 3, 12
# Forests that calibrate have this part of the trees.
_CALIBRATION_SHARE = 5


class ArrayForest(BaseEstimator):
    """Base of the forests; all labels share the same trees. A subclass names scikit-learn's forest.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    max_features : {"sqrt", "log2"}, int or float
        Features tried at a split, as in scikit-learn.
    min_samples_leaf : int
    random_state : int
    rows_per_tree : int
        Of more labeled rows, every tree is grown on a random sample of this size. Growing a tree takes
        n log(n), and many trees see every row between them.
    calibrate : bool
        Whether scores are calibrated, see `embedding_core.model_selection.calibration`, on three inner folds
        with a fifth of the trees. Trees average towards the middle: their frequencies of probable labels are
        too low, those of improbable ones too high. Rows with exactly one label each are not calibrated.

    Attributes
    ----------
    feature_, threshold_, left_, right_ : arrays with one entry per node of all trees
        A row goes left if its feature is at most the threshold. Leaves point to themselves.
    leaf_ : array
        Row of `shares_` that belongs to a leaf.
    shares_ : (leaves, K) float32 array
        Fraction of each label among the training rows of a leaf.
    roots_ : (n_estimators,) array
    depth_ : int
        Largest number of splits on the path to a leaf.
    calibration_ : Calibration or None
    n_features_in_ : int

    Notes
    -----
    If every row has exactly one label, the classes share one output (splits by Gini impurity over the
    classes). Otherwise each label is an output of its own. Without calibration, scores equal those of
    scikit-learn up to float32.
    """

    _grower: ClassVar[type[RandomForestClassifier | ExtraTreesClassifier]]
    n_estimators: int
    max_features: str | int | float
    min_samples_leaf: int
    random_state: int
    rows_per_tree: int
    calibrate: bool

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Grow the trees on the labeled rows of X (n, p), Y (n, K)."""
        check_count("n_estimators", self.n_estimators)
        check_count("min_samples_leaf", self.min_samples_leaf)
        check_count("rows_per_tree", self.rows_per_tree)
        X, indicator = as_labeled_features(X, Y)
        rows, labels = X[indicator.labeled], indicator.Y[indicator.labeled]
        single = one_label_each(labels)
        self._keep(self._grow(rows, _targets(labels, single)), labels, single)
        self.calibration_ = self._calibrate(rows, labels) if self.calibrate and not single else None
        self.n_features_in_ = X.shape[1]
        return self

    def _grow(self, rows: Features, targets: NDArray[Any]) -> RandomForestClassifier | ExtraTreesClassifier:
        many = rows.shape[0] > self.rows_per_tree
        forest = self._grower(
            **({"bootstrap": True, "max_samples": self.rows_per_tree} if many else {}),
            n_estimators=self.n_estimators,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            random_state=self.random_state,
        )
        largest = float(max(rows.max(), -rows.min()))
        if largest > float(np.finfo(np.float32).max):
            raise InvalidInput(f"X contains {largest:.3g}, too large for trees. {SCALE_ITEMS}")
        return forest.fit(rows, targets)

    def _calibrate(self, rows: Features, labels: NDArray[np.int8]) -> Calibration | None:
        """Fit increasing functions to the scores of rows that smaller forests have not seen."""
        if len(labels) < _FEWEST_ROWS:
            return None
        fewer = clone(self).set_params(
            n_estimators=-(-self.n_estimators // _CALIBRATION_SHARE), calibrate=False
        )
        scores = np.full(labels.shape, np.nan)
        for train, test in stratified_folds(labels, _CALIBRATION_FOLDS, self.random_state):
            found = fewer.fit(rows[train], labels[train]).predict_scores(rows[test])
            scores[test] = np.where(constant_decisions(labels[train]) == 0, found, np.nan)
        return calibrate_votes(scores, labels)

    def _keep(
        self,
        grown: RandomForestClassifier | ExtraTreesClassifier,
        labels: NDArray[np.int8],
        single: bool,
    ) -> None:
        """Copy the trees into the arrays, one after the other."""
        trees = [one.tree_ for one in grown.estimators_]
        starts = np.cumsum([0, *(tree.node_count for tree in trees)])
        self.roots_ = starts[:-1]
        self.depth_ = max(tree.max_depth for tree in trees)
        nodes = np.arange(starts[-1])
        split = np.concatenate([tree.children_left >= 0 for tree in trees])
        pairs = list(zip(trees, starts[:-1], strict=True))
        left = np.concatenate([tree.children_left + start for tree, start in pairs])
        right = np.concatenate([tree.children_right + start for tree, start in pairs])
        self.left_, self.right_ = np.where(split, left, nodes), np.where(split, right, nodes)
        self.feature_ = np.where(split, np.concatenate([tree.feature for tree in trees]), 0)
        self.threshold_ = np.concatenate([tree.threshold for tree in trees])
        self.leaf_ = np.cumsum(~split) - 1
        self.shares_ = np.concatenate(
            [_leaf_shares(tree, grown.classes_, labels, single) for tree in trees]
        ).astype(np.float32)

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Return the mean (m, K) over the trees of the label fractions in a row's leaf, calibrated if set."""
        scores = self._mean_shares(as_features(X, self.n_features_in_))
        return scores if self.calibration_ is None else self.calibration_.apply(scores)

    def _mean_shares(self, X: Features) -> NDArray[np.float64]:
        scores = np.empty((X.shape[0], self.shares_.shape[1]))
        step = max(1, _BLOCK_PLACES // len(self.roots_))
        for start in range(0, len(scores), step):
            block = slice(start, start + step)
            scores[block] = self._score_block(X[block])
        return scores

    def _score_block(self, X: Features) -> NDArray[np.float64]:
        rows = (X.toarray() if sp.issparse(X) else X).astype(np.float32)  # the type the trees were grown on
        which = np.arange(len(rows))[:, None]
        places = np.tile(self.roots_, (len(rows), 1))
        for _ in range(self.depth_):
            goes_left = rows[which, self.feature_[places]] <= self.threshold_[places]
            places = np.where(goes_left, self.left_[places], self.right_[places])
        leaves = self.leaf_[places]
        total = np.zeros((len(rows), self.shares_.shape[1]))
        for tree in range(leaves.shape[1]):
            total += self.shares_[leaves[:, tree]]
        shares: NDArray[np.float64] = total / leaves.shape[1]
        return shares

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Return the labels (m, K) with a score above one half."""
        return decide_labels(self.predict_scores(X))


class RandomForest(ArrayForest):
    """Breiman's random forest; parameters and attributes as in `ArrayForest`."""

    _grower = RandomForestClassifier

    def __init__(
        self,
        n_estimators: int = 500,
        max_features: str | int | float = "sqrt",
        min_samples_leaf: int = 1,
        random_state: int = 0,
        rows_per_tree: int = 50_000,
        calibrate: bool = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state
        self.rows_per_tree = rows_per_tree
        self.calibrate = calibrate


class ExtraTrees(ArrayForest):
    """Extremely randomized trees: thresholds are drawn at random; parameters as in `ArrayForest`."""

    _grower = ExtraTreesClassifier

    def __init__(
        self,
        n_estimators: int = 500,
        max_features: str | int | float = 0.3,
        min_samples_leaf: int = 1,
        random_state: int = 0,
        rows_per_tree: int = 50_000,
        calibrate: bool = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state
        self.rows_per_tree = rows_per_tree
        self.calibrate = calibrate


def _targets(labels: NDArray[np.int8], single: bool) -> NDArray[Any]:
    """Return classes (n,) if every row has one, else labels (n, K); a single label as (n,)."""
    if single:
        classes: NDArray[Any] = labels.argmax(axis=1)
        return classes
    return labels if labels.shape[1] > 1 else labels[:, 0]


def _leaf_shares(tree: Any, classes: Any, labels: NDArray[np.int8], single: bool) -> NDArray[np.float64]:
    """Return the fraction (leaves, K) of each label in the leaves of one tree; 0 for absent labels."""
    values = tree.value[tree.children_left < 0]
    shares = np.zeros((len(values), labels.shape[1]))
    if single:
        shares[:, classes] = values[:, 0, : len(classes)]
        fractions: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return fractions
    if labels.shape[1] == 1:
        classes = [classes]
    for k, known in enumerate(classes):
        output = values[:, k, : len(known)]
        shares[:, k] = output[:, known == 1].sum(axis=1) / output.sum(axis=1)
    return shares
