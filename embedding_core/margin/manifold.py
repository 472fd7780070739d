"""Manifold regularization: what Laplacian support vector machines and Laplacian least squares share."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.checks import check_not_negative, check_positive
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.graph.supplied import check_links
from embedding_core.labels import Indicator
from embedding_core.margin.assembly import span_items
from embedding_core.margin.classifier import KernelClassifier
from embedding_core.margin.deformation import Deformation, deform_kernel
from embedding_core.margin.selection import best_setting

RIDGES = (0.05, 0.5, 0.005, 5.0)
"""gamma_A l that "cv" tries, preferred first among equal scores; "auto" is the first."""
SMOOTHNESS = (1.0, 0.1, 10.0, 0.0, 100.0)
"""gamma_I / (gamma_A n²) that "cv" tries, over the mean degree, preferred first; "auto" is the first."""

Setting = tuple[float, float]
"""gamma_A l, and c = gamma_I / (gamma_A n²)."""
Deform = Callable[[float], Deformation]
Array = NDArray[np.float64]
Signs = NDArray[np.int8]
Weights = tuple[Array, Array]


class ManifoldClassifier(KernelClassifier):
    """What LapSVM and LapRLS share: the deformed kernel; subclasses solve on its rows."""

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
        """Pairs to choose from, the preferred first."""
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
        """Setting to use, and its score where one was asked for or needed."""
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
        """Weights (d, J) and biases (J,); a label on which all items agree is answered by its sign."""
        V, bias = np.zeros((rows.shape[1], signs.shape[1])), signs[0].astype(np.float64)
        differ = (signs != signs[0]).any(axis=0)
        if differ.any():
            V[:, differ], bias[differ] = self._solve(rows, signs[:, differ], weight, ridge)
        return V, bias

    @abstractmethod
    def _solve(self, rows: Array, signs: Signs, weight: Array, ridge: float) -> Weights:
        """Weights and biases for signs (l, J) that differ in every column, items of `weight` (l,).

        `ridge` is gamma_A l.
        """
