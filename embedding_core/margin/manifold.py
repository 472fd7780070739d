"""Manifold regularization: Laplacian support vector machines and Laplacian regularized least squares."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from embedding_core.checks import check_not_negative, check_positive
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.graph.supplied import check_links
from embedding_core.labels import Indicator
from embedding_core.margin.kernel_classifier import KernelClassifier, best_setting
from embedding_core.margin.kernel_span import Deformation, deform_kernel, span_items
from embedding_core.margin.svm import svm_trainer

RIDGES = (0.05, 0.5, 0.005, 5.0)
"""Values of gamma_A l tried by "cv"; the first wins ties and is used by "auto"."""
SMOOTHNESS = (1.0, 0.1, 10.0, 0.0, 100.0)
"""Values of gamma_I / (gamma_A n²) tried by "cv", times the mean degree; the first is used by "auto"."""

Setting = tuple[float, float]
"""gamma_A l and c = gamma_I / (gamma_A n²)."""
Deform = Callable[[float], Deformation]
Array = NDArray[np.float64]
Signs = NDArray[np.int8]
Weights = tuple[Array, Array]


class ManifoldClassifier(KernelClassifier):
    """Base of LapSVM and LapRLS: builds the deformed kernel; subclasses solve on its rows."""

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        theta: float | str = "auto",
        gamma_A: float | str = "auto",
        gamma_I: float | str = "auto",
        input_scale: str = "none",
        landmarks: int | Sequence[int] | str | None = None,
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.theta = theta
        self.gamma_A = gamma_A
        self.gamma_I = gamma_I
        self.input_scale = input_scale
        self.landmarks = landmarks
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.random_state = random_state

    def _learn(self, X: Any, target: Indicator, times: Array, affinity: Any) -> None:
        everything = np.ones(X.shape[0], dtype=bool)
        span = span_items(X, self._kernel, everything, self.landmarks, self.random_state)

        weight = times[target.labeled]

        def deformations(W: Any) -> Deform:
            return cache(deform_kernel(span, target.labeled, GraphLaplacian(W)))

        def score(W: Any) -> float:
            if not W.sum() > 0:
                return 0.0
            return self._best_setting(W, target, weight, deformations(W), score=True)[1]

        W = self._affinity(X, affinity, score)
        check_links(W, components_matter=False)
        deform = deformations(W)
        (ridge, c), _ = self._best_setting(W, target, weight, deform)
        self.gamma_A_ = ridge / float(weight.sum())
        self.gamma_I_ = c * self.gamma_A_ * X.shape[0] ** 2
        deformed = deform(c)
        V, self.intercept_ = self._solve_columns(deformed.rows, self._signs(target), weight, ridge)
        self.coef_ = span.lift(X, deformed.restore(V))
        self.basis_items_ = span.basis_items(X)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("gamma_A", self.gamma_A, ("auto", "cv"))
        check_not_negative("gamma_I", self.gamma_I, ("auto", "cv"))

    def _settings(self, W: Any, n_labeled: float) -> list[Setting]:
        """Return the candidate pairs, the preferred one first."""
        n = W.shape[0]
        ridges = RIDGES if self.gamma_A == "cv" else RIDGES[:1]
        if not isinstance(self.gamma_A, str):
            ridges = (float(self.gamma_A) * n_labeled,)
        if not isinstance(self.gamma_I, str):
            return [(ridge, float(self.gamma_I) * n_labeled / (ridge * n**2)) for ridge in ridges]
        mean_degree = float(W.sum()) / n
        factors = SMOOTHNESS if self.gamma_I == "cv" else SMOOTHNESS[:1]
        return [(ridge, factor / mean_degree) for ridge in ridges for factor in factors]

    def _best_setting(
        self, W: Any, target: Indicator, weight: Array, deform: Deform, score: bool = False
    ) -> tuple[Setting, float]:
        """Return the setting to use, and its score if one was requested or needed."""
        settings = self._settings(W, float(weight.sum()))
        if len(settings) == 1 and not score:
            return settings[0], np.nan
        signs = self._signs(target)

        def answer(train: NDArray[np.intp], test: NDArray[np.intp], setting: Setting) -> Array:
            ridge, c = setting
            rows = deform(c).rows
            V, bias = self._solve_columns(rows[train], signs[train], weight[train], ridge)
            return rows[test] @ V + bias

        return best_setting(target.Y[target.labeled], settings, answer, self.multi_label_)

    def _solve_columns(self, rows: Array, signs: Signs, weight: Array, ridge: float) -> Weights:
        """Return weights (d, J) and biases (J,); a label on which all items agree gets its sign."""
        V, bias = np.zeros((rows.shape[1], signs.shape[1])), signs[0].astype(np.float64)
        differ = (signs != signs[0]).any(axis=0)
        if differ.any():
            V[:, differ], bias[differ] = self._solve(rows, signs[:, differ], weight, ridge)
        return V, bias

    @abstractmethod
    def _solve(self, rows: Array, signs: Signs, weight: Array, ridge: float) -> Weights:
        """Return weights and biases for non-constant signs (l, J) and item weights (l,).

        `ridge` is gamma_A l.
        """


class LapSVM(ManifoldClassifier):
    """Laplacian support vector machine (LapSVM) [1]_.

    A support vector machine whose decision function is also smooth along the graph of all items, labeled or
    not. Classifies new items.

    Parameters
    ----------
    kernel, theta, input_scale, landmarks, graph, n_neighbors, sigma, random_state
        As in `LPSSVM`.
    gamma_A : float, "auto" or "cv", default="auto"
        Weight > 0 of the norm |f|². "auto" is 0.05 / l with l labeled items (a penalty C of 10); "cv" chooses
        among 0.05, 0.5, 0.005 and 5 over l.
    gamma_I : float, "auto" or "cv", default="auto"
        Weight >= 0 of the smoothness f^T L f / n². 0 gives a support vector machine with
        C = 1 / (2 gamma_A l). "auto" is gamma_A n² over the mean degree of the graph, so that both terms have
        the same weight at any scale of W; "cv" chooses among 0, 0.1, 1, 10 and 100 times that.

    Attributes
    ----------
    coef_, intercept_ : ndarrays of shape (h, J) and (J,)
        The decision is x^T coef_ + intercept_ for "linear" and k(x, basis items) coef_ + intercept_
        otherwise. J is 1 for two classes and K otherwise.
    basis_items_ : array, CSR matrix or None
        Items (their row numbers if precomputed) that `coef_` refers to; None for "linear".
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    gamma_A_, gamma_I_, theta_ : float
        Values used.
    sigma_ : float or None
        Value used; None if an affinity was given or `graph` is "kernel".
    scaler_ : Scaler
        The input scaling.
    n_features_in_ : int

    Notes
    -----
    For each label, the minimizer of Eq. 4 of [2]_ with n = l + u items,

        1/l sum_(i <= l) max(0, 1 - y_i (f(x_i) + b)) + gamma_A |f|² + gamma_I / n² f^T L f,

    is f = sum_i alpha_i k(x_i, .) with alpha = (2 gamma_A I + 2 gamma_I / n² L K)^(-1) J^T Y beta, where beta
    in [0, 1/l] are the multipliers of a quadratic program (Section 4 of [1]_). beta / (2 gamma_A) are the
    multipliers of a support vector machine with C = 1 / (2 gamma_A l) on the deformed kernel (see
    `embedding_core.margin.kernel_span`). The machine is solved to working precision (see
    `embedding_core.margin.svm`).

    Labels are classified one against the rest; two classes need a single decision. The graph part,
    I + c R^T L R with c = gamma_I / (gamma_A n²) in coordinates R whose inner products are the kernel, is
    factored once for all labels. Items that add less than 1e-8 to the span of the others are left out of R.
    With landmarks, or with a linear kernel and p <= n, no n x n matrix is formed.

    Ambiguities: [2]_ prints Eq. 4 without 1 / n² and with |f|_2 for the norm of the kernel's space; this
    implementation follows [1]_ in both. L is D - W as in [2]_; [1]_ also considers the normalized L and its
    powers.

    Cross-validation, which [2]_ uses for gamma_A and gamma_I, takes 5 folds of the labeled items. Held-out
    items are hidden from the loss but not from the graph. All pairs are compared by micro-F1 (accuracy for
    classes).

    References
    ----------
    .. [1] M. Belkin, P. Niyogi, V. Sindhwani, "Manifold Regularization: A Geometric Framework for Learning
       from Labeled and Unlabeled Examples", JMLR 7, 2399-2434, 2006.
    .. [2] W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui, "Semantic Concept Classification by Joint
       Semi-supervised Learning of Feature Subspaces and Support Vector Machines", ECCV 2008, LNCS 5305,
       270-283.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from embedding_core import LapSVM
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> hidden = np.full(200, -1)
    >>> hidden[:10] = y[:10]
    >>> model = LapSVM(theta=5.0, gamma_I=500.0).fit(X, hidden)
    >>> round(model.score(X, y), 2)
    1.0
    """

    def _solve(self, rows: Array, signs: Signs, weight: Array, ridge: float) -> Weights:
        """Fit one machine per column on the same rows."""
        train, C = svm_trainer(rows), 1 / (2 * ridge)
        found = [train(np.ascontiguousarray(sign), C, weight) for sign in signs.T]
        F = np.column_stack([multipliers for multipliers, _ in found])
        return rows.T @ F, np.array([bias for _, bias in found])


class LapRLS(ManifoldClassifier):
    """Laplacian regularized least squares (LapRLS) [1]_.

    Fits the labels -1 and 1 by kernel functions that are also smooth along the graph of all items, labeled or
    not. Classifies new items.

    Parameters
    ----------
    kernel, theta, input_scale, landmarks, graph, n_neighbors, sigma, random_state
        As in `LPSSVM`.
    gamma_A : float, "auto" or "cv", default="auto"
        Weight > 0 of the norm |f|². "auto" is 0.05 / l with l labeled items; "cv" chooses among 0.05, 0.5,
        0.005 and 5 over l.
    gamma_I : float, "auto" or "cv", default="auto"
        Weight >= 0 of the smoothness f^T L f / n². 0 gives regularized least squares (kernel ridge regression
        with penalty gamma_A l). "auto" is gamma_A n² over the mean degree of the graph, so that both terms
        have the same weight at any scale of W; "cv" chooses among 0, 0.1, 1, 10 and 100 times that.

    Attributes
    ----------
    coef_, intercept_, basis_items_, classes_, multi_label_, gamma_A_, gamma_I_, theta_, sigma_, scaler_
        As in `LapSVM`, as is `n_features_in_`.

    Notes
    -----
    For each label, the minimizer of Eq. 4 of [2]_ with n = l + u items,

        1/l sum_(i <= l) (y_i - f(x_i))² + gamma_A |f|² + gamma_I / n² f^T L f,

    is f = sum_i alpha_i k(x_i, .) with (Section 4 of [1]_)

        (J K + gamma_A l I + gamma_I l / n² L K) alpha = J y,    J = diag(1, ..., 1, 0, ..., 0).

    There is no bias: `intercept_` is 0 except for labels on which all labeled items agree.

    Cost, ambiguities and cross-validation are those of `LapSVM`.

    References
    ----------
    .. [1] M. Belkin, P. Niyogi, V. Sindhwani, "Manifold Regularization: A Geometric Framework for Learning
       from Labeled and Unlabeled Examples", JMLR 7, 2399-2434, 2006.
    .. [2] W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui, "Semantic Concept Classification by Joint
       Semi-supervised Learning of Feature Subspaces and Support Vector Machines", ECCV 2008, LNCS 5305,
       270-283.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from embedding_core import LapRLS
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> hidden = np.full(200, -1)
    >>> hidden[:10] = y[:10]
    >>> model = LapRLS(theta=5.0, gamma_I=500.0).fit(X, hidden)
    >>> round(model.score(X, y), 2)
    1.0
    """

    def _solve(self, rows: Array, signs: Signs, weight: Array, ridge: float) -> Weights:
        """Solve ridge regression on the deformed rows, using the smaller of the two Gram matrices."""
        root = np.sqrt(weight)[:, None]
        Z, Y = root * rows, root * signs
        wide = Z.shape[1] > Z.shape[0]
        M = Z @ Z.T if wide else Z.T @ Z
        M[np.diag_indices(len(M))] += ridge
        solution = scipy.linalg.solve(M, Y if wide else Z.T @ Y, assume_a="pos", check_finite=False)
        return (Z.T @ solution if wide else solution), np.zeros(Y.shape[1])
