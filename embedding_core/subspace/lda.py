"""Linear discriminant analysis."""

from embedding_core.discriminant.mlda import MLDA
from embedding_core.labels import Indicator, check_one_class_per_item


class LDA(MLDA):
    """Linear discriminant analysis (LDA) [1]_, for one class per item.

    Finds the directions in which class means differ most relative to the spread within classes: MLDA with Z =
    Y. Unlabeled items are not used in the fit.

    Parameters
    ----------
    scaling : {"unit", "within"}, default="unit"
        Length of the columns of the projection: 1, or v^T S_w v = 1. Up to a common factor, the latter is
        scikit-learn's `LinearDiscriminantAnalysis`. Nearest neighbors depend on it: on faces unit columns are
        much better.
    n_components : int or None, default=None
        Number of dimensions r, at most K-1. None means K-1, or all directions in which the classes differ if
        there are fewer.

    Attributes
    ----------
    projection_ : ndarray of shape (p, r)
        G; an item is mapped to G^T x.
    eigenvalues_ : ndarray of shape (r,)
        Ratio of between-class to within-class scatter along each column, descending.
    embedding_ : ndarray of shape (n, r)
        All items of `fit`, including unlabeled ones.
    classes_ : ndarray of shape (K,)
    mean_ : ndarray of shape (p,)
        Mean of the labeled items.
    correlation_ : ndarray of shape (K, K)
        C of `MLDA`: the identity.
    n_features_in_ : int

    Notes
    -----
    S_w^+ S_b v = lambda v, Eq. 2-5 of the MLDA paper [2]_, with the pseudo-inverse if S_w is singular
    (p > n). It is solved by MLDA's solvers rather than scikit-learn's, which do not accept sparse items.

    References
    ----------
    .. [1] R. A. Fisher, "The Use of Multiple Measurements in Taxonomic Problems", Annals of Eugenics 7, 1936.
    .. [2] H. Wang, C. Ding, H. Huang, "Multi-label Linear Discriminant Analysis", ECCV 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import LDA
    >>> X, y = load_iris(return_X_y=True)
    >>> LDA().fit(X, y).embedding_.shape
    (150, 2)
    """

    def __init__(self, *, scaling: str = "unit", n_components: int | None = None) -> None:
        super().__init__(weights="binary", scaling=scaling, n_components=n_components)

    def _check_classes(self, target: Indicator) -> None:
        check_one_class_per_item(target, type(self).__name__, "MLDA")
        super()._check_classes(target)
