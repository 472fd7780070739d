"""Locality preserving semi-supervised support vector machines."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.affinity import check_sigma_choice, choose_sigma
from embedding_core.base import LinearEmbedding
from embedding_core.errors import InvalidInput
from embedding_core.graphs import check_affinity
from embedding_core.labels import Indicator
from embedding_core.margin.alternation import Machine, Rules, Stage, alternate, energy_dimension
from embedding_core.margin.assembly import Maps, assemble_maps, prepare_stage, works_in_features
from embedding_core.margin.locality import GRAPH_CHOICES, check_links, own_graph_family
from embedding_core.margin.nystrom import KERNELS, Kernel, KernelCoordinates, check_precomputed
from embedding_core.margin.parameters import DIMENSION_WORDS, check_parameters
from embedding_core.margin.selection import (
    C_CANDIDATES,
    Setting,
    cv_scores,
    decide,
    dimension_candidates,
    fit_columns,
)


class LPSSVM(ClassifierMixin, LinearEmbedding):
    """Locality preserving semi-supervised support vector machine (LPSSVM) [1]_.

    Learns, for each class or label, a subspace in which linked items (labelled or not) stay close, and a
    support vector machine in it, in turns. Places and classifies new items.

    Parameters
    ----------
    kernel : {"rbf", "linear", "precomputed"}, default="rbf"
        exp(-theta |x - z|²); the features themselves; or X is the kernel matrix (n, n) of all items of the
        fit, and kernel values (m, n) with them afterwards (spatial pyramid match kernels).
    theta : float or "auto", default="auto"
        Width of "rbf"; "auto" is 1 / p, the paper's.
    gamma : float, default=1.0
        Weight of the margin in the subspace, Eq. 5. 0 gives locality preserving projections (LPP).
    C : float or "cv", default=1.0
        Penalty of margin errors. "cv" (not in the paper) picks 0.1, 1, 10 or 100.
    n_components : int, "energy" or "cv", default="energy"
        Dimensions of each subspace: so many; what holds the share `energy` (the paper's rule); or "cv", the
        best of 1, 2, 4, ... (the paper leaves it open), the same for all labels.
    energy : float, default=0.5
        Share in (0, 1] of the eigenvalues' energy to keep. The paper names none, and shows 0.1 to 0.7 to do
        well.
    energy_of : {"similarity", "laplacian"}, default="similarity"
        Energy of an eigenvalue lambda: 1 - lambda, cut to [0, 1], or lambda itself.
    update_sign : {"printed", "gradient"}, default="printed"
        Sign of the margin's term in Eq. 8, 9 and 11: + as printed, or -, the gradient of Eq. 5.
    scaling : {"spread", "constraint", "unit"}, default="spread"
        Length of the directions a: items have mean square 1 along each, a^T X D X^T a = tr(D); the printed
        a^T X D X^T a = 1; or 1 in feature space.
    max_iter : int, default=3
        Iterations T of Fig. 1.
    tol : float, default=1e-3
        tau of Fig. 1: stops where the squared change of the multipliers is below it.
    landmarks : int, sequence of int, "auto" or None, default=None
        Nyström: directions are sought in the span of so many random items, or of these rows, in place of all.
        "auto" takes 500 beyond 2,000 items. Needed beyond some 10,000 items. Not used by "linear" with
        p <= n, which is cheap as it is.
    graph : {"knn", "gaussian", "kernel"}, default="knn"
        Graph where no affinity is given: nearest neighbours (sparse) or all pairs (dense, up to 2 GB),
        weighed by exp(-d² / (2 sigma)); or nearest neighbours weighed by the kernel's values (the paper's
        Fig. 1). Distances are those of the features, of the feature space if precomputed.
    n_neighbors : int, default=10
        Neighbours of an item.
    sigma : float, "auto" or "cv", default="auto"
        In squared distances. "auto" is their mean over the linked pairs; "cv" picks 1/64, 1/16, 1/4, 1 or 4
        times that.
    random_state : int, RandomState or None, default=0
        Draws the landmarks.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, r)
        All items of `fit` in the subspaces of all machines, side by side in the order of `n_components_`.
    eigenvalues_ : ndarray of shape (r,)
        lambda of Eq. 9 or 11, ascending within each machine.
    n_components_ : ndarray of shape (J,)
        Dimensions of each machine's subspace; 0 where a label needs none (all labelled items agree on it).
    coef_, intercept_ : ndarrays of shape (h, J) and (J,)
        Decisions: x^T coef_ + intercept_ for "linear", k(x, basis items) coef_ + intercept_ else. J is 1 for
        two classes, else K.
    projection_ : ndarray of shape (p, r)
        "linear" only: an item is placed at projection_^T x.
    expansion_, basis_items_
        Other kernels: v of Eq. 10 (h, r), and the items (their row numbers if precomputed) it belongs to.
    classes_ : ndarray of shape (K,)
    n_iter_ : int
        Iterations of the machine that took most.
    C_, sigma_, theta_ : float
        Values used; sigma_ is None where an affinity was given or `graph` is "kernel".
    n_features_in_ : int

    Notes
    -----
    Fig. 1: train an SVM on the labelled items; in turns solve Eq. 9 (Eq. 11 for a kernel) and train an SVM in
    the subspace of the smallest eigenvalues (Eq. 6, 7, 12). One machine a label against the rest, one in all
    for two classes. The graph part is solved once: what a label adds is a matrix of rank one. The kernel form
    works in the span of the items without those that add less than 1e-8 to it; the exact one is the Nyström
    form with all items as landmarks.

    Readings. The gradient of Eq. 5 has -X_L F F^T X_L^T where Eq. 8, 9 and 11 print +: `update_sign`. The
    cost does not fall monotonically with either sign, contrary to the text. With a^T X D X^T a = I and C = 1
    all multipliers end at C, and machines for rare labels say no to everything: `scaling`, whose default
    keeps the constraint up to one factor. The code for LPP that the paper used [2]_ has unit length in
    feature space, and takes similarities for eigenvalues: the default of `energy_of`. Energy is shared among
    the dimensions there are, hence fewer with landmarks. The multipliers are not unique where the subspace
    has fewer dimensions than there are labelled items; LibSVM's are taken, so that from the second iteration
    on the order of items can matter. A kernel matrix of full rank drops out of Eq. 11: the subspace is then
    that of the graph alone, the kernel serving to place new items.

    Under one fixed protocol LPSSVM does not beat a plain SVM. What helps: features on one scale, `C` and
    `n_components` by cross-validation.

    Cross-validation takes 5 folds of the labelled items, hidden from the margin but not from the graph, and
    compares micro-F1 (the accuracy, for classes). Where both are asked for, the dimension is chosen at C = 1,
    then C.

    References
    ----------
    .. [1] W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui, "Semantic Concept Classification by Joint
       Semi-supervised Learning of Feature Subspaces and Support Vector Machines", ECCV 2008, LNCS 5305,
       270-283.
    .. [2] D. Cai, codes for subspace learning, KGE.m (reference 17 of [1]_).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from embedding_core.margin.lpssvm import LPSSVM
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
        "kernel": KERNELS,
        "energy_of": ("similarity", "laplacian"),
        "update_sign": ("printed", "gradient"),
        "scaling": ("spread", "constraint", "unit"),
        "graph": GRAPH_CHOICES,
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
        max_iter: int = 3,
        tol: float = 1e-3,
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
        self.n_components = n_components  # type: ignore[assignment]
        self.energy = energy
        self.energy_of = energy_of
        self.update_sign = update_sign
        self.scaling = scaling
        self.max_iter = max_iter
        self.tol = tol
        self.landmarks = landmarks
        self.graph = graph
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.random_state = random_state

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Find the subspaces and machines.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
            Kernel matrix (n, n) if precomputed.
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabelled, or 0/1 columns with rows of -1 for unlabelled.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items. Where given, `graph`, `n_neighbors` and `sigma`
            play no part.

        Returns
        -------
        self
        """
        self.multi_label_ = sp.issparse(y) or np.asarray(y).ndim == 2
        X, target = self._check_inputs(X, y)
        if self.kernel == "precomputed":
            X = check_precomputed(X, X.shape[0])
        self.theta_ = 1.0 / X.shape[1] if self.theta == "auto" else float(self.theta)
        W = self._affinity(X, target, affinity)
        check_links(W, components_matter=not works_in_features(self._kernel, X))
        stage, span = self._prepare(X, target, W)
        setting, _ = self._best_setting(stage, target)
        self.C_ = setting[0]
        machines = fit_columns(stage, self._signs(target), setting, self._fit_machine)
        self.classes_ = target.classes
        return self._store_machines(X, assemble_maps(X, self._kernel, stage, span, machines), machines)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Place items in the subspaces of all machines, side by side.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (m, p), or kernel values (m, n) if precomputed

        Returns
        -------
        ndarray of shape (m, r)
        """
        check_is_fitted(self)
        return self._place(self._check_items(X, reset=False), self._directions)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distances (m, K) from the machines' borders in units of the margin, (m,) for two classes.

        A label on which all labelled items agree gets -1 or 1.
        """
        decisions = self._decisions(X)
        return decisions[:, 0] if self._one_decision else decisions

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes (m,) with the largest decision, or labels (m, K) in 0/1 with a positive one."""
        labels = decide(self._decisions(X), self.multi_label_)
        return labels.astype(np.int64) if self.multi_label_ else self.classes_[labels.argmax(axis=1)]

    def predict_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores (m, K) in [0, 1]: 1 / (1 + exp(-decision)).

        Above one half on the positive side and comparable between labels as decisions are; not calibrated
        probabilities. Two classes have scores that sum to one.
        """
        scores = expit(self._decisions(X))
        return np.column_stack([1 - scores, scores]) if self._one_decision else scores

    def _decisions(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return self._place(self._check_items(X, reset=False), self.coef_) + self.intercept_

    def _place(self, X: Any, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.kernel == "linear":
            return np.asarray(X @ directions)
        return self._kernel.columns(X, self.basis_items_) @ directions

    @property
    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.theta_)

    @property
    def _directions(self) -> NDArray[np.float64]:
        return self.projection_ if self.kernel == "linear" else self.expansion_

    @property
    def _one_decision(self) -> bool:
        return not self.multi_label_ and len(self.classes_) == 2

    @property
    def _n_features_out(self) -> int:
        return self._directions.shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.classifier_tags.multi_label = True
        return tags

    def _check_items(self, X: Any, reset: bool) -> Any:
        if self.kernel == "precomputed" and sp.issparse(X):
            raise InvalidInput("Precomputed kernel values came sparse; they must be dense: pass X.toarray().")
        return super()._check_items(X, reset)

    def _check_parameters(self) -> None:
        check_parameters(self, self._legal)
        check_sigma_choice(self.sigma)

    def _check_classes(self, target: Indicator) -> None:
        Y = target.Y[target.labelled]
        if (Y.min(axis=0) == Y.max(axis=0)).all():
            found = (
                "no label on which they differ" if self.multi_label_ else f"one class, {target.classes[0]}"
            )
            raise InvalidInput(
                f"The {len(Y)} labelled items have {found}; LPSSVM separates classes and needs items on both "
                "sides of at least one. Label items of another class."
            )

    def _affinity(self, X: Any, target: Indicator, affinity: Any) -> Any:
        self.sigma_ = None
        if affinity is not None:
            return check_affinity(affinity, X.shape[0])
        family = own_graph_family(X, self._kernel, self.graph, self.n_neighbors)
        if self.graph == "kernel":
            return family.weigh(family.scale)
        self.sigma_ = choose_sigma(family, self.sigma, lambda W: self._graph_score(X, target, W))
        return family.weigh(self.sigma_)

    def _graph_score(self, X: Any, target: Indicator, W: Any) -> float:
        if not W.sum() > 0:
            return 0.0
        return self._best_setting(self._prepare(X, target, W)[0], target, score=True)[1]

    def _prepare(self, X: Any, target: Indicator, W: Any) -> tuple[Stage, KernelCoordinates | None]:
        return prepare_stage(X, self._kernel, W, target.labelled, self.landmarks, self.random_state)

    def _signs(self, target: Indicator) -> NDArray[np.int8]:
        """-1 and 1 of the labelled items for every machine, (l, J)."""
        one = not self.multi_label_ and target.n_classes == 2
        columns = target.Y[target.labelled][:, 1:] if one else target.Y[target.labelled]
        return (2 * columns - 1).astype(np.int8)

    def _fit_machine(self, stage: Stage, sign: NDArray[np.int8], setting: Setting) -> Machine:
        C, r = setting
        gamma = float(self.gamma) if self.update_sign == "printed" else -float(self.gamma)
        rules = Rules(gamma, C, int(self.max_iter), float(self.tol), self.scaling)
        if r is None:
            return alternate(stage, sign, rules, lambda mu: energy_dimension(mu, self.energy, self.energy_of))
        return alternate(stage, sign, rules, lambda mu: r)

    def _best_setting(self, stage: Stage, target: Indicator, score: bool = False) -> tuple[Setting, float]:
        """C and dimension to use, and their score where one was asked for or needed."""
        rank = len(stage.locality.values)
        penalties = C_CANDIDATES if self.C == "cv" else (float(self.C),)
        r: Any = self.n_components
        if r not in DIMENSION_WORDS and r > rank:
            raise InvalidInput(
                f"n_components={r} exceeds the {rank} dimensions that the linked items span; lower it, or "
                "add items, features or landmarks."
            )
        dimensions = dimension_candidates(rank) if r == "cv" else [None if r == "energy" else int(r)]
        if len(penalties) == len(dimensions) == 1 and not score:
            return (penalties[0], dimensions[0]), np.nan
        Y, signs = target.Y[target.labelled], self._signs(target)

        def best_of(settings: list[Setting]) -> tuple[Setting, float]:
            scores = cv_scores(stage, Y, signs, settings, self._fit_machine, self.multi_label_)
            best = max(settings, key=scores.__getitem__)
            return best, scores[best]

        best, best_score = best_of([(penalties[0], r) for r in dimensions])
        return (best, best_score) if len(penalties) == 1 else best_of([(C, best[1]) for C in penalties])

    def _store_machines(self, X: Any, maps: Maps, machines: list[Machine | float]) -> Self:
        found = [machine for machine in machines if isinstance(machine, Machine)]
        self.coef_ = maps.coef
        self.intercept_ = np.array([m.bias if isinstance(m, Machine) else m for m in machines])
        self.n_components_ = np.array([len(m.eigenvalues) if isinstance(m, Machine) else 0 for m in machines])
        self.n_iter_ = max(machine.n_iter for machine in found)
        self.eigenvalues_ = np.concatenate([machine.eigenvalues for machine in found])
        if self.kernel == "linear":
            self.projection_ = maps.directions
        else:
            self.expansion_, self.basis_items_ = maps.directions, maps.items
        self.embedding_ = self._place(X, maps.directions)
        return self
