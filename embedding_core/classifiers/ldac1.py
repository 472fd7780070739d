"""LDA with one class at a time (LDA-C1)."""

import numpy as np
from numpy.typing import NDArray

from embedding_core.checks import check_choice
from embedding_core.classifiers.label_classifier import LabelClassifier, check_neighbors
from embedding_core.errors import warn_caller
from embedding_core.knn_classifier import nearest_rows, vote
from embedding_core.linalg.eigen import whitening
from embedding_core.linalg.row_blocks import project_rows
from embedding_core.linalg.scatter import center_items
from embedding_core.scaling import Features

SCATTERS = ("total", "within")

# Fractions of a sum of squares that count as zero up to rounding.
_SAME_MEANS = 1e-20
_NO_SPREAD = 1e-10


def mean_contrasts(Y: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return A (n, K) with X^T A = m_1 - m_0, the difference of the means with and without each label.

    Columns are zero for a label that no item or every item has.
    """
    n, having = len(Y), Y.sum(axis=0, dtype=np.float64)
    varied = (having > 0) & (having < n)
    with_label = Y / np.where(varied, having, 1.0)
    without = (1 - Y) / np.where(varied, n - having, 1.0)
    return np.where(varied, with_label - without, 0.0)


def binary_lda_directions(X: Features, Y: NDArray[np.int8], scatter: str) -> NDArray[np.float64]:
    """Return directions S^+ (m_1 - m_0) of unit length (p, K), one for each label against the rest.

    A column is zero if there is no direction: the means coincide, or differ only where S is zero.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p)
    Y : ndarray of shape (n, K)
        0/1 labels.
    scatter : {"total", "within"}
        S is S_t or S_w.

    Notes
    -----
    S_w = S_t - d d^T / |a|^2 with d = m_1 - m_0 = X_c^T a, so one factorization of S_t serves all labels.
    With k = S_t^+ d, the least-squares fit of a:

    - if the fit has a residual, S_w^+ d is a multiple of k (S_w has the range of S_t);
    - if it has none, S_w k = 0, hence S_w^+ = P S_t^+ P with P = I - k k^T / |k|^2, and S_w^+ d is a
      multiple of -P S_t^+ k.
    """
    A = mean_contrasts(Y)
    if not A.any():
        return np.zeros((X.shape[1], Y.shape[1]))
    items = center_items(X)
    T = whitening(items.scatter, scale_free=items.are_features)

    def inverse(D: NDArray[np.float64]) -> NDArray[np.float64]:
        return T.unwhiten(T.whiten(D))

    D = items.moments(A)
    K = inverse(D)
    G, squares = K.copy(), (A**2).sum(axis=0)
    if scatter == "within":
        perfect = ((A - items.project(K)) ** 2).sum(axis=0) < _NO_SPREAD * squares
        G[:, perfect] = _without_part_along(inverse(K[:, perfect]), K[:, perfect])
    G[:, (D * K).sum(axis=0) <= _SAME_MEANS * squares] = 0.0
    length = np.linalg.norm(G, axis=0)
    return items.lift(G / np.where(length > 0, length, 1.0))


def _without_part_along(H: NDArray[np.float64], K: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -(I - k k^T / |k|^2) h for each pair of columns; zero if h is parallel to k up to rounding."""
    rest = K * ((K * H).sum(axis=0) / (K * K).sum(axis=0)) - H
    return np.where(np.linalg.norm(rest, axis=0) > _NO_SPREAD * np.linalg.norm(H, axis=0), rest, 0.0)


class LDAC1(LabelClassifier):
    """Linear discriminant analysis with one class at a time (LDA-C1 of [1]_).

    Each label is a separate binary problem, items with it against items without it. Classical LDA projects
    the items onto a line, and the nearest neighbors on this line classify. Fitted on the labeled items only;
    label correlations are not used.

    Parameters
    ----------
    n_neighbors : int, default=1
        Number of neighbors on each line.
    scatter : {"total", "within"}, default="total"
        The line of a label is S^+ (m_1 - m_0), where S is the total or the within-class scatter of its two
        classes. Both give the same line if S_w is regular.

    Attributes
    ----------
    projection_ : ndarray of shape (p, K)
        Column k is the line of label k, of unit length, pointing from the items without the label to those
        with it; zero if a label has no line.
    places_ : ndarray of shape (n, K)
        Positions of the labeled items on the lines.
    Y_ : ndarray of shape (n, K)
        Labels of the labeled items.
    shares_ : ndarray of shape (K,)
        Fraction of the labeled items that have each label.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    n_features_in_ : int

    Notes
    -----
    The paper only says that "both dimensionality reduction and classification" are done one class at a time,
    each as a binary problem. Reading chosen: the projection is Eq. 2-5 for the two classes with means m_1 and
    m_0; the classifier is the paper's 1NN, "the most widely used classification method following standard
    LDA", in one dimension (two classes have K - 1 = 1). The alternative would be the Bayes rule of LDA with
    its threshold; on the music data it is further from the printed row than 1NN, which itself is well above
    it.

    If S_w is singular, as for p >= n, the paper uses S_w^+ for its own method, which is scatter="within". It
    discards the directions in which neither class varies, which are exactly those that separate the classes:
    on the Yahoo texts little but noise remains. S_t^+ keeps them.

    Scores are fractions of neighbors, so 0 or 1 with one neighbor. Among classes with equal scores the first
    is taken, which affects a quarter of the predictions on iris. A label that no item or every item has is
    predicted as its constant. A label without a line (its means coincide, or differ only where S is zero)
    gets its fraction among the labeled items as score, and a warning reports it.

    The lines do not depend on the scale of the features if S is regular.

    References
    ----------
    .. [1] H. Wang, C. Ding, H. Huang, "Multi-label Linear Discriminant Analysis", ECCV 2010, LNCS 6316,
       126-139, Sect. 5.2.

    Examples
    --------
    >>> from embedding_core import LDAC1
    >>> X = [[0.0, 1], [1, 0], [1, 2], [5, 1], [6, 0], [6, 2], [3, 9]]
    >>> Y = [[1, 0], [1, 0], [1, 1], [0, 1], [0, 0], [0, 1], [-1, -1]]
    >>> LDAC1().fit(X, Y).predict([[0.5, 0], [6, 1.8]]).tolist()
    [[1, 0], [0, 1]]
    """

    def __init__(self, *, n_neighbors: int = 1, scatter: str = "total") -> None:
        self.n_neighbors = n_neighbors
        self.scatter = scatter

    def _check_parameters(self) -> None:
        check_choice("scatter", self.scatter, SCATTERS)

    def _learn(self, X: Features, Y: NDArray[np.int8]) -> None:
        check_neighbors(self.n_neighbors, len(Y), len(Y))
        self.projection_ = binary_lda_directions(X, Y, self.scatter)
        self.shares_ = Y.mean(axis=0, dtype=np.float64)
        self._warn_of_labels_without_line()
        self.places_, self.Y_ = project_rows(X, self.projection_), Y

    def _warn_of_labels_without_line(self) -> None:
        varied = (self.shares_ > 0) & (self.shares_ < 1)
        lost = self.classes_[varied & ~self.projection_.any(axis=0)]
        if len(lost):
            warn_caller(
                f"{len(lost)} of {len(self.classes_)} labels ({', '.join(map(str, lost[:5]))}) have means "
                "that no line separates; their score is their proportion. Add features or labeled items.",
            )

    def _score(self, X: Features) -> NDArray[np.float64]:
        places = project_rows(X, self.projection_)
        scores = np.tile(self.shares_, (len(places), 1))
        for k in np.flatnonzero(self.projection_.any(axis=0)):
            line = slice(k, k + 1)
            nearest = nearest_rows(self.places_[:, line], places[:, line], self.n_neighbors)
            scores[:, line] = vote(self.Y_[:, line], *nearest)
        return scores
