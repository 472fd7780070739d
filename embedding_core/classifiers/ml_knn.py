"""ML-kNN: Bayesian inference from the labels of the nearest neighbors."""

import numpy as np
from numpy.typing import NDArray

from embedding_core.checks import check_positive
from embedding_core.classifiers.label_classifier import LabelClassifier, check_neighbors
from embedding_core.knn_classifier import nearest_rows, vote
from embedding_core.scaling import Features


def other_neighbors(
    X: Features, k: int, asked: NDArray[np.intp] | None = None, rows: NDArray[np.intp] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return distances and indices (n, k) of the k rows nearest to each row of X, excluding the row itself.

    If `asked` is given, only these rows may be neighbors, and indices refer to positions in it. If `rows` is
    given, only their neighbors are returned. A row with many copies may be missing from its own list of k + 1
    neighbors; then all of them are other rows.
    """
    asked = np.arange(X.shape[0]) if asked is None else asked
    queries = X if rows is None else X[rows]
    distances, indices = nearest_rows(X[asked], queries, k + 1)
    itself = asked[indices] == (np.arange(len(indices)) if rows is None else rows)[:, None]
    itself[~itself.any(axis=1), -1] = True
    return distances[~itself].reshape(-1, k), indices[~itself].reshape(-1, k)


def count_labels(
    Y: NDArray[np.int8], distances: NDArray[np.float64], indices: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the number (m, K) of neighbors that have each label."""
    counts: NDArray[np.intp] = np.rint(vote(Y, distances, indices) * indices.shape[1]).astype(np.intp)
    return counts


def smoothed_shares(
    counts: NDArray[np.intp], rows: NDArray[np.bool_], k: int, s: float
) -> NDArray[np.float64]:
    """Return P(E_c | H) (k + 1, K): the smoothed fraction of `rows` (n, K) with c neighbors of the label."""
    table = np.stack([((counts == c) & rows).sum(axis=0) for c in range(k + 1)])
    shares: NDArray[np.float64] = (s + table) / (s * (k + 1) + table.sum(axis=0))
    return shares


class MLkNN(LabelClassifier):
    """Multi-label k nearest neighbors (ML-kNN) [1]_.

    Learns, for each label, how many neighbors have the label around items with it and around items without
    it, and predicts the posterior probability. Fitted on the labeled items only.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number k of neighbors of an item.
    smoothing : float, default=1.0
        s > 0, the initial count of each outcome; 1 is Laplace smoothing.

    Attributes
    ----------
    prior_ : ndarray of shape (K,)
        P(H_1), the probability that an item has the label.
    likelihood_ : ndarray of shape (2, k + 1, K)
        P(E_c | H_b), the probability that c neighbors of an item have the label if the item does not have it
        (b = 0) or has it (b = 1).
    X_, Y_ : (n, p) array or CSR matrix, and (n, K) array of int8
        The labeled items and their labels.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    n_features_in_ : int

    Notes
    -----
    With n items, of which n_1 have the label, and kappa_b[c] the number of items with (b = 1) or without
    (b = 0) the label that have c neighbors with it, where an item is not its own neighbor:

        P(H_1) = (s + n_1) / (2 s + n)
        P(E_c | H_b) = (s + kappa_b[c]) / (s (k + 1) + sum_c kappa_b[c])
        score = P(H_1) P(E_c | H_1) / sum_b P(H_b) P(E_c | H_b)

    Scores are probabilities. A score of exactly one half, which the paper leaves open, counts as no. As s
    grows, all scores approach the prior, which approaches one half. Labels that no item or every item has
    need no special case. Distances are Euclidean, and ties are broken by row order. Scale features of
    different units first.

    References
    ----------
    .. [1] M.-L. Zhang, Z.-H. Zhou, "ML-KNN: A lazy learning approach to multi-label learning", Pattern
       Recognition 40 (7), 2007, 2038-2048.

    Examples
    --------
    >>> from embedding_core import MLkNN
    >>> X, Y = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.3]], [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [0, 1]]
    >>> model = MLkNN(n_neighbors=2).fit(X, Y)
    >>> model.predict([[0.3], [4.9]]).tolist()
    [[1, 0], [0, 1]]
    >>> model.predict_scores([[0.3]]).round(2).tolist()
    [[0.8, 0.28]]
    """

    def __init__(self, *, n_neighbors: int = 10, smoothing: float = 1.0) -> None:
        self.n_neighbors = n_neighbors
        self.smoothing = smoothing

    def _check_parameters(self) -> None:
        check_positive("smoothing", self.smoothing)

    def _learn(self, X: Features, Y: NDArray[np.int8]) -> None:
        n, k, s = len(Y), self.n_neighbors, self.smoothing
        check_neighbors(k, n, n - 1)
        counts = count_labels(Y, *other_neighbors(X, k))
        self.prior_ = (s + Y.sum(axis=0)) / (2 * s + n)
        self.likelihood_ = np.stack([smoothed_shares(counts, rows, k, s) for rows in (Y == 0, Y == 1)])
        self.X_, self.Y_ = X, Y

    def _score(self, X: Features) -> NDArray[np.float64]:
        counts = count_labels(self.Y_, *nearest_rows(self.X_, X, self.n_neighbors))
        without, having = (np.take_along_axis(table, counts, axis=0) for table in self.likelihood_)
        yes = self.prior_ * having
        scores: NDArray[np.float64] = yes / (yes + (1 - self.prior_) * without)
        return scores
