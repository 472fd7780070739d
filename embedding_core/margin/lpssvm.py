"""Locality preserving semi-supervised support vector machines."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from embedding_core.checks import check_count, check_not_negative, check_positive, check_share
from embedding_core.errors import TooManyComponents
from embedding_core.graph.supplied import check_links
from embedding_core.labels import Indicator
from embedding_core.linalg.eigen import fix_signs
from embedding_core.margin.kernel_classifier import (
    C_CANDIDATES,
    KernelClassifier,
    best_setting,
    dimension_candidates,
)
from embedding_core.margin.kernel_span import KernelSpan, works_in_features
from embedding_core.margin.lpssvm_solver import (
    Rules,
    SharedProblem,
    SubspaceMachine,
    alternate,
    decide_rows,
    energy_dimension,
    fit_columns,
    prepare_problem,
)

Setting = tuple[float, int | None]
"""C and the dimension; None stands for the energy rule."""


class LPSSVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelClassifier):
    """Locality preserving semi-supervised support vector machine (LPSSVM) [1]_.

    Learns, for each class or label, a subspace in which linked items (labeled or not) stay close and a
    support vector machine in that subspace, by alternation. Transforms and classifies new items.

    Parameters
    ----------
    kernel : {"rbf", "linear", "intersection", "precomputed"}, default="rbf"
        exp(-theta |x - z|²); the features themselves; the sum of min(x, z) for histograms (the spatial
        pyramid match kernel of the paper, for rows of `bow_sift`); or X is the kernel matrix (n, n) of all
        items in `fit`, and the kernel values (m, n) with them afterwards.
    theta : float or "auto", default="auto"
        Width of "rbf". "auto" is 1 / p, as in the paper.
    gamma : float, default=1.0
        Weight of the margin term in the subspace, Eq. 5. 0 gives locality preserving projections (LPP).
    C : float or "cv", default=1.0
        Penalty of margin errors. "cv" (not in the paper) chooses among 0.1, 1, 10 and 100.
    n_components : int, "energy" or "cv", default="energy"
        Dimensions of each subspace: a fixed number; the number that holds the fraction `energy` (the paper's
        rule); or "cv", the best of 1, 2, 4, ... (not in the paper), the same for all labels.
    energy : float, default=0.5
        Fraction in [0, 1] of the energy of the eigenvalues to keep; at least one dimension is kept. The paper
        gives no value and shows that 0.1 to 0.7 work well.
    energy_of : {"similarity", "laplacian"}, default="similarity"
        Energy of an eigenvalue lambda: 1 - lambda clipped to [0, 1], or lambda itself.
    update_sign : {"printed", "gradient"}, default="printed"
        Sign of the margin term in Eq. 8, 9 and 11: + as printed, or - as in the gradient of Eq. 5.
    scaling : {"spread", "constraint", "unit"}, default="spread"
        Length of the directions a. "spread": a^T X D X^T a = tr(D), so that items have mean square 1 along
        each direction; "constraint": a^T X D X^T a = 1 as printed; "unit": length 1 in feature space.
    ridge : float, default=0.0
        Penalty of |a|² (not in the paper) in units of tr(X D X^T) / n, added to X L X^T and to X D X^T. It
        keeps a kernel matrix of full rank from canceling, see Notes; 1 on Caltech-101 in `reproduce`.
    max_iter : int, default=3
        Iterations T of Fig. 1.
    tol : float, default=1e-3
        tau of Fig. 1: stop when the squared change of the multipliers is below it.
    input_scale : {"none", "zscore", "unit"}, default="none"
        Scaling of the features before the method, see `embedding_core.scaling.Scaler`, learned on all items.
        A single kernel width and a distance graph need features on one scale, so use "zscore" unless they are
        already. Not available for "precomputed".
    landmarks : int, sequence of int, "auto" or None, default=None
        Nyström approximation: search directions in the span of this many random items, or of these rows,
        instead of all items. "auto" takes 500 above 2,000 items. Needed above about 10,000 items. Not used by
        "linear" with p <= n, which is cheap without it.
    graph : {"knn", "gaussian", "kernel"}, default="knn"
        Graph if no affinity is given: nearest neighbors (sparse) or all pairs (dense, up to 2 GB), weighted
        by exp(-d² / (2 sigma)); or nearest neighbors weighted by the kernel values (Fig. 1 of the paper).
        Distances are those of the features, or of the feature space if the kernel is precomputed.
    n_neighbors : int, default=10
        Number of neighbors of an item.
    sigma : float, "auto" or "cv", default="auto"
        In squared distances. "auto" is their mean over the linked pairs; "cv" chooses among 1/64, 1/16, 1/4,
        1 and 4 times that.
    random_state : int, RandomState or None, default=0
        Draws the landmarks.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, r)
        All items of `fit` in the subspaces of all machines, concatenated in the order of `n_components_`.
    eigenvalues_ : ndarray of shape (r,)
        lambda of Eq. 9 or 11, ascending within each machine.
    n_components_ : ndarray of shape (J,)
        Dimensions of each machine's subspace; 0 for a label on which all labeled items agree.
    coef_, intercept_ : ndarrays of shape (h, J) and (J,)
        The decision is x^T coef_ + intercept_ for "linear" and k(x, basis items) coef_ + intercept_
        otherwise. J is 1 for two classes and K otherwise.
    projection_ : ndarray of shape (p, r)
        Only for "linear": an item is mapped to projection_^T x.
    expansion_, basis_items_
        Other kernels: v of Eq. 10 (h, r), and the items (their row numbers if precomputed) it refers to.
    classes_ : ndarray of shape (K,)
    n_iter_ : int
        Largest number of iterations over all machines.
    C_, sigma_, theta_ : float
        Values used; `sigma_` is None if an affinity was given or `graph` is "kernel".
    multi_label_ : bool
        Whether `fit` was given label columns.
    scaler_ : Scaler
        The input scaling.
    n_features_in_ : int

    Notes
    -----
    The algorithm of Fig. 1 trains an SVM on the labeled items, then alternates between solving Eq. 9 (Eq. 11
    for a kernel) and training an SVM in the subspace of the smallest eigenvalues (Eq. 6, 7, 12). Labels are
    classified one against the rest; two classes need a single machine. The graph part is solved once, because
    a label only adds a matrix of rank one. The kernel form works in the span of the items, without those that
    add less than 1e-8 to it; the exact form is the Nyström form with all items as landmarks.

    Ambiguities. The gradient of Eq. 5 has -X_L F F^T X_L^T where Eq. 8, 9 and 11 print +; see `update_sign`.
    Contrary to the text, the cost does not decrease monotonically with either sign. With a^T X D X^T a = I
    and C = 1 all multipliers saturate at C, and the machines of rare labels reject every item; see `scaling`,
    whose default keeps the constraint up to a common factor. The LPP code that the paper used [2]_ normalizes
    to unit length in feature space and takes similarities as eigenvalues, the default of `energy_of`. A
    kernel matrix of full rank cancels in Eq. 11: the subspace then depends only on the graph, and the kernel
    only maps new items. `ridge` prevents this by penalizing directions that need a large |a| to reach a
    variance of 1; that code has a similar option. Both matrices get the same penalty, so that such directions
    have eigenvalues near 1 and are kept last.

    The multipliers determine the next subspace, so the tolerance of a solver is amplified. Machines are
    therefore solved to working precision (see `embedding_core.margin.svm`), and neither the order of the
    items nor the number of threads changes the result beyond rounding. If more than 4,000 multipliers lie
    strictly between 0 and C, LibSVM's tolerance of 1e-3 remains.

    Landmarks span fewer and rougher directions than all items and share the energy among them, so compare the
    two forms at the same `n_components`. On 2,000 digits of USPS with 200 landmarks, the energy rule takes 45
    dimensions instead of 163, and the signs of the decisions agree on 95 % (the classes on 77 %, where the
    landmarks are right more often); with 20 dimensions in both they agree on 98 % (90 %). Landmarks chosen by
    k-means++ or pivoted Cholesky were no better than random ones.

    Under one fixed protocol LPSSVM does not outperform a plain SVM. The scale of the features matters most:
    macro F1 on the emotions data (official split) is .33 on raw and .66 on z-scored features (`input_scale`),
    and .66 for an SVM on z-scored features. A given graph must also be built from scaled features (.32
    otherwise). Cross-validation is not a reliable gain: `n_components="cv"` gives .67 there, `C="cv"` .64.

    Cross-validation takes 5 folds of the labeled items. Held-out items are hidden from the loss but not from
    the graph. Candidates are compared by micro-F1 (accuracy for classes). If both the dimension and C are
    "cv", the dimension is chosen first at C = 1, then C.

    References
    ----------
    .. [1] W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui, "Semantic Concept Classification by Joint
       Semi-supervised Learning of Feature Subspaces and Support Vector Machines", ECCV 2008, LNCS 5305,
       270-283.
    .. [2] D. Cai, codes for subspace learning, KGE.m (reference 17 of [1]_).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core import LPSSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> hidden = y.copy()
    >>> hidden[::2] = -1
    >>> model = LPSSVM(kernel="linear", n_components=3).fit(X, hidden)
    >>> model.embedding_.shape
    (150, 9)
    >>> round(model.score(X, y), 1)
    0.9
    """

    _legal: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **KernelClassifier._legal,
        "energy_of": ("similarity", "laplacian"),
        "update_sign": ("printed", "gradient"),
        "scaling": ("spread", "constraint", "unit"),
    }

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        theta: float | str = "auto",
        gamma: float = 1.0,
        C: float | str = 1.0,
        n_components: int | str = "energy",
        energy: float = 0.5,
        energy_of: str = "similarity",
        update_sign: str = "printed",
        scaling: str = "spread",
        ridge: float = 0.0,
        max_iter: int = 3,
        tol: float = 1e-3,
        input_scale: str = "none",
        landmarks: int | Sequence[int] | str | None = None,
        graph: str = "knn",
        n_neighbors: int = 10,
        sigma: float | str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.theta = theta
        self.gamma = gamma
        self.C = C
        self.n_components = n_components
        self.energy = energy
        self.energy_of = energy_of
        self.update_sign = update_sign
        self.scaling = scaling
        self.ridge = ridge
        self.max_iter = max_iter
        self.tol = tol
        self.input_scale = input_scale
        self.landmarks = landmarks
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.random_state = random_state

    def _learn(self, X: Any, target: Indicator, times: NDArray[np.float64], affinity: Any) -> None:
        W = self._affinity(X, affinity, lambda W: self._graph_score(X, target, times, W))
        check_links(W, components_matter=not works_in_features(self._kernel, X))
        problem, span = self._prepare(X, times, W)
        setting, _ = self._best_setting(problem, target)
        self.C_ = setting[0]
        self._store(X, problem, span, self._fit_machines(problem, self._signs(target), setting))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Map items to the subspaces of all machines, concatenated.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (m, p), or kernel values (m, n) if precomputed

        Returns
        -------
        ndarray of shape (m, r)
        """
        check_is_fitted(self)
        return self._place(self._check_items(X, reset=False), self._directions)

    @property
    def _directions(self) -> NDArray[np.float64]:
        return self.projection_ if self.kernel == "linear" else self.expansion_

    @property
    def _n_features_out(self) -> int:
        return int(self._directions.shape[1])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_not_negative("gamma", self.gamma)
        check_not_negative("tol", self.tol)
        check_not_negative("ridge", self.ridge)
        check_share("energy", self.energy)
        check_count("max_iter", self.max_iter)
        check_positive("C", self.C, ("cv",))
        check_count("n_components", self.n_components, ("energy", "cv"))

    def _graph_score(self, X: Any, target: Indicator, times: NDArray[np.float64], W: Any) -> float:
        if not W.sum() > 0:
            return 0.0
        return self._best_setting(self._prepare(X, times, W)[0], target, score=True)[1]

    def _prepare(self, X: Any, times: NDArray[np.float64], W: Any) -> tuple[SharedProblem, KernelSpan]:
        return prepare_problem(
            X, self._kernel, W, times, self.landmarks, self.random_state, float(self.ridge)
        )

    def _fit_machines(
        self, problem: SharedProblem, signs: NDArray[np.int8], setting: Setting
    ) -> list[SubspaceMachine | float]:
        C, r = setting
        gamma = float(self.gamma) if self.update_sign == "printed" else -float(self.gamma)
        rules = Rules(gamma, C, int(self.max_iter), float(self.tol), self.scaling)

        def choose(values: NDArray[np.float64]) -> int:
            return energy_dimension(values, self.energy, self.energy_of) if r is None else r

        return fit_columns(signs, lambda sign: alternate(problem, sign, rules, choose))

    def _best_setting(
        self, problem: SharedProblem, target: Indicator, score: bool = False
    ) -> tuple[Setting, float]:
        """Return C and the dimension to use, and their score if one was requested or needed."""
        penalties = C_CANDIDATES if isinstance(self.C, str) else (float(self.C),)
        dimensions = self._dimensions(len(problem.locality.values))
        if len(penalties) == len(dimensions) == 1 and not score:
            return (penalties[0], dimensions[0]), np.nan
        Y, signs = target.Y[target.labeled], self._signs(target)

        def answer(train: NDArray[np.intp], test: NDArray[np.intp], setting: Setting) -> NDArray[np.float64]:
            machines = self._fit_machines(problem.select(train), signs[train], setting)
            return decide_rows(machines, problem.rows[test])

        by_dimension = [(penalties[0], r) for r in dimensions]
        best, value = best_setting(Y, by_dimension, answer, self.multi_label_)
        if len(penalties) == 1:
            return best, value
        return best_setting(Y, [(C, best[1]) for C in penalties], answer, self.multi_label_)

    def _dimensions(self, rank: int) -> list[int | None]:
        """Return the candidate dimensions; None stands for the energy rule."""
        if self.n_components == "cv":
            return [*dimension_candidates(rank)]
        if isinstance(self.n_components, str):
            return [None]
        if self.n_components > rank:
            raise TooManyComponents(
                f"n_components={self.n_components} exceeds the {rank} dimensions that the linked items span; "
                "lower it, or add items, features or landmarks.",
                rank,
            )
        return [int(self.n_components)]

    def _store(
        self, X: Any, problem: SharedProblem, span: KernelSpan, machines: list[SubspaceMachine | float]
    ) -> None:
        """Concatenate the subspaces of all machines and store their decisions."""
        basis = problem.locality.basis
        found = [machine for machine in machines if isinstance(machine, SubspaceMachine)]
        none = np.zeros(basis.shape[1])
        weights = np.column_stack([m.weight if isinstance(m, SubspaceMachine) else none for m in machines])
        A = fix_signs(basis @ np.hstack([machine.directions for machine in found]))
        directions, self.coef_ = span.lift(X, A), span.lift(X, basis @ weights)
        self.intercept_ = np.array([m.bias if isinstance(m, SubspaceMachine) else m for m in machines])
        self.n_components_ = np.array(
            [len(m.eigenvalues) if isinstance(m, SubspaceMachine) else 0 for m in machines]
        )
        self.n_iter_ = max(machine.n_iter for machine in found)
        self.eigenvalues_ = np.concatenate([machine.eigenvalues for machine in found])
        if self.kernel == "linear":
            self.projection_ = directions = fix_signs(directions)
            self.embedding_ = self._place(X, directions)
            return
        # signs are fixed by the items' coordinates: the basis of the span depends on the order of the rows
        self.basis_items_ = span.basis_items(X)
        placed = self._place(X, directions)
        self.embedding_ = fix_signs(placed)
        self.expansion_ = directions * np.where((placed * self.embedding_).sum(axis=0) < 0, -1.0, 1.0)
