"""Locality preserving projections followed by support vector machines."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from embedding_core.checks import check_count, check_positive
from embedding_core.graph.affinity import GRAPHS
from embedding_core.labels import Indicator
from embedding_core.linalg.kernel_space import Kernel, place_by_kernel
from embedding_core.margin.kernel_classifier import KernelClassifier
from embedding_core.margin.svm import kernel_svm_trainer
from embedding_core.subspace.lpp import LPP

DIMENSIONS = 10
"""Minimum number of dimensions if `n_components` is None; K-1 would be one for two classes."""


class _Subspace(LPP):
    """LPP with a default number of columns that suits a classifier."""

    def _n_columns(self, target: Indicator, rank: int) -> int:
        if self.n_components is None and rank > 0:
            return min(max(target.n_classes - 1, DIMENSIONS), rank)
        return super()._n_columns(target, rank)


class LPPSVM(KernelClassifier):
    """Locality preserving projections followed by a support vector machine (LPP + SVM).

    The two-step method that [1]_ compares LPSSVM with. First, a subspace in which linked items stay close is
    learned from all items without their labels [2]_. Then one support vector machine per label is trained in
    it on the labeled items. Classifies new items.

    Parameters
    ----------
    kernel : {"rbf", "linear", "intersection", "precomputed"}, default="rbf"
        Kernel of the projections: exp(-theta |x - z|²), as in [1]_; the features themselves; the sum of
        min(x, z) for histograms; or X is the kernel matrix (n, n) of all items in `fit`, and the kernel
        values (m, n) with them afterwards.
    svm_kernel : {"rbf", "linear"}, default="rbf"
        Kernel of the machines in the subspace; "rbf" in [1]_. Its width is 1 / r, as in [1]_.
    C : float, default=1.0
        Penalty of margin errors; 1 in [1]_.
    n_components : int or None, default=None
        Dimensions r of the subspace. None takes the larger of K-1 and 10, at most the rank of the items; [1]_
        does not specify it.
    graph : {"knn", "gaussian"}, default="knn"
        Graph if no affinity is given: nearest neighbors (sparse) or all pairs (dense, up to 2 GB), weighted
        by exp(-d² / (2 sigma)).
    sigma : float, "auto" or "cv", default="auto"
        In squared distances, see `LPP`. "cv" rates subspaces by 1NN on the labeled items.
    theta, input_scale, landmarks, n_neighbors, random_state
        As in `LPSSVM`; "linear" does not use landmarks.

    Attributes
    ----------
    machine_items_ : ndarray of shape (l, r)
        The labeled items in the subspace, relative to the mean of all items.
    multipliers_, intercept_ : ndarrays of shape (l, J) and (J,)
        The decision is k(x, machine_items_) multipliers_ + intercept_ with k given by `svm_kernel`. J is 1
        for two classes and K otherwise. Multipliers are 0 for a label on which all labeled items agree.
    coef_, mean_ : ndarrays of shape (h, r) and (r,)
        An item is mapped to coef_^T x - mean_ for "linear", and coef_^T k(basis items, x) - mean_ otherwise.
    basis_items_ : array, CSR matrix or None
        Items (their row numbers if precomputed) that `coef_` refers to; None for "linear".
    embedding_ : ndarray of shape (n, r)
        All items of `fit` in the subspace.
    eigenvalues_ : ndarray of shape (r,)
        Eigenvalues of LPP, ascending.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    theta_ : float
        Value used.
    sigma_ : float or None
        Value used; None if an affinity was given.
    scaler_ : Scaler
        The input scaling.
    n_features_in_ : int

    Notes
    -----
    Solves X L X^T a = lambda X D X^T a for the r smallest lambda, with the same a^T X D X^T a for all (Eq. 3
    of [1]_). The common length is chosen such that the centered coordinates have mean square 1: with
    a^T X D X^T a = 1 they are so small that at C = 1 all multipliers of a linear machine saturate. See `LPP`
    for centering and the kernel form. The subspace does not depend on the labels, which is the point of the
    comparison. Machines are trained by LibSVM and refined to working precision (see
    `embedding_core.margin.svm`) for up to about 5,500 labeled items.

    References
    ----------
    .. [1] W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui, "Semantic Concept Classification by Joint
       Semi-supervised Learning of Feature Subspaces and Support Vector Machines", ECCV 2008, LNCS 5305,
       270-283.
    .. [2] X. He, P. Niyogi, "Locality Preserving Projections", NIPS 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import LPPSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> hidden = y.copy()
    >>> hidden[::2] = -1
    >>> model = LPPSVM(kernel="linear", n_components=2).fit(X, hidden)
    >>> round(model.score(X, y), 1)
    1.0
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **KernelClassifier._legal,
        "graph": GRAPHS,
        "svm_kernel": ("rbf", "linear"),
    }

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        theta: float | str = "auto",
        svm_kernel: str = "rbf",
        C: float = 1.0,
        n_components: int | None = None,
        input_scale: str = "none",
        landmarks: int | Sequence[int] | str | None = None,
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.theta = theta
        self.svm_kernel = svm_kernel
        self.C = C
        self.n_components = n_components
        self.input_scale = input_scale
        self.landmarks = landmarks
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.random_state = random_state

    def _learn(self, X: Any, target: Indicator, times: NDArray[np.float64], affinity: Any) -> None:
        subspace = self._subspace().fit(X, target.Y, affinity)
        linear = self.kernel == "linear"
        self.basis_items_ = None if linear else subspace.basis_items_
        self.eigenvalues_, self.sigma_ = subspace.eigenvalues_, subspace.sigma_
        length = float(np.sqrt(subspace.embedding_.var(axis=0).mean()))
        self.coef_ = (subspace.projection_ if linear else subspace.dual_coef_) / length
        self.mean_ = subspace.embedding_.mean(axis=0) / length
        self.embedding_ = subspace.embedding_ / length - self.mean_
        self._fit_machines(self._signs(target), target.labeled, times[target.labeled])

    def _fit_machines(
        self, signs: NDArray[np.int8], labeled: NDArray[np.bool_], weight: NDArray[np.float64]
    ) -> None:
        """Fit one machine per column of signs (l, J) on the labeled items in the subspace."""
        self.machine_items_ = self.embedding_[labeled]
        self.multipliers_ = np.zeros(signs.shape)
        self.intercept_ = signs[0].astype(np.float64)
        train = kernel_svm_trainer(self._machine_kernel, self.machine_items_)
        for j in np.flatnonzero((signs != signs[0]).any(axis=0)):
            sign = np.ascontiguousarray(signs[:, j])
            self.multipliers_[:, j], self.intercept_[j] = train(sign, float(self.C), weight)

    @property
    def _machine_kernel(self) -> Kernel:
        return Kernel(self.svm_kernel, 1 / self.embedding_.shape[1])

    def _subspace(self) -> _Subspace:
        return _Subspace(
            kernel=self.kernel,
            gamma=self.theta_,
            scaling="natural",
            n_components=self.n_components,
            landmarks=self.landmarks,
            graph=self.graph,
            n_neighbors=self.n_neighbors,
            sigma=self.sigma,
            random_state=self.random_state,
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("C", self.C)
        check_count("n_components", self.n_components, (None,))

    def _decisions(self, X: Any) -> NDArray[np.float64]:
        items = self._place(X, self.coef_) - self.mean_
        return place_by_kernel(self._machine_kernel, items, self.machine_items_, self.multipliers_) + (
            self.intercept_
        )
