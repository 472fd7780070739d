"""Plain methods that every comparison shows beside the papers' methods."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.svm import SVC

from embedding_core.checks import check_positive
from embedding_core.knn_classifier import NeighborLabels, as_labeled_features, decide_labels
from embedding_core.scaling import Scaler


class InputNeighbors(BaseEstimator):
    """Nearest neighbors in the input space.

    Parameters
    ----------
    scale : {"none", "zscore", "unit"}
        Scaling of the features before distances are measured, see `Scaler`.
    n_neighbors : int
    weights : {"uniform", "distance"}

    Attributes
    ----------
    scaler_ : Scaler
    neighbors_ : NeighborLabels
    """

    def __init__(self, scale: str = "none", n_neighbors: int = 1, weights: str = "uniform") -> None:
        self.scale = scale
        self.n_neighbors = n_neighbors
        self.weights = weights

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Keep the labeled rows of X (n, p) and Y (n, K); the scaling is learnt on all rows of X."""
        self.scaler_ = Scaler(self.scale).fit(X)
        self.neighbors_ = NeighborLabels(self.n_neighbors, self.weights).fit(self.scaler_.transform(X), Y)
        return self

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Share (m, K) of the neighbors that carry each label."""
        return self.neighbors_.predict_scores(self.scaler_.transform(X))

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Labels (m, K) that more than half of the neighbors carry."""
        return decide_labels(self.predict_scores(X))


class ScaledSVM(BaseEstimator):
    """One support vector machine a label on z-scored features.

    Parameters
    ----------
    C : float
        Penalty of margin errors.
    gamma : float, "scale" or "auto"
        Width of the kernel exp(-gamma d²); "scale" is 1 / (p variance of X), scikit-learn's default, "auto"
        1 / p, LibSVM's.
    scale : {"zscore", "none", "unit"}
        Scaling of the features, see `Scaler`; "none" is what a paper that does not mention any may have done.

    Attributes
    ----------
    scaler_ : Scaler
        With z-scores a sparse X is divided by the deviations alone.
    machines_ : list of SVC or None
        None for a label that all training rows carry, or none does: it is predicted as it was seen.
    constants_ : (K,) array
        The score of labels without a machine, 0 or 1.

    Notes
    -----
    Scores are logistic in the decision value: above one half on the positive side, comparable between labels
    as decision values are, but not calibrated probabilities.
    """

    def __init__(self, C: float = 1.0, gamma: float | str = "scale", scale: str = "zscore") -> None:
        self.C = C
        self.gamma = gamma
        self.scale = scale

    def fit(self, X: Any, Y: ArrayLike) -> Self:
        """Fit one machine a label on the labeled rows of X (n, p), Y (n, K)."""
        check_positive("C", self.C)
        check_positive("gamma", self.gamma, ("scale", "auto"))
        X, indicator = as_labeled_features(X, Y)
        self.scaler_ = Scaler(self.scale).fit(X)
        scaled, labels = self.scaler_.transform(X), indicator.Y[indicator.labeled]
        rows = scaled[indicator.labeled]
        self.machines_ = [self._fit_label(rows, column) for column in labels.T]
        self.constants_ = labels[0].astype(np.float64)
        self.n_features_in_ = scaled.shape[1]
        return self

    def _fit_label(self, rows: Any, column: NDArray[np.int8]) -> SVC | None:
        if column.min() == column.max():
            return None
        return SVC(C=self.C, kernel="rbf", gamma=self.gamma).fit(rows, column)

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores (m, K) in [0, 1], see Notes."""
        rows = self.scaler_.transform(X)
        scores = np.tile(self.constants_, (rows.shape[0], 1))
        for k, machine in enumerate(self.machines_):
            if machine is not None:
                scores[:, k] = expit(machine.decision_function(rows))
        return scores

    def predict(self, X: Any) -> NDArray[np.int8]:
        """Labels (m, K) on the positive side of their machine."""
        return decide_labels(self.predict_scores(X))
