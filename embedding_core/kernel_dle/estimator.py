"""Kernel DLE as an embedding: a rotation of label scores, with a special form for few labels."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from embedding_core.checks import (
    check_choice,
    check_count,
    check_not_negative,
    check_positive,
    validate_items,
)
from embedding_core.errors import InvalidInput, TooManyComponents
from embedding_core.graph.propagation import LinkPropagation
from embedding_core.graph.supplied import check_given_graph
from embedding_core.kernel_dle.kernels import (
    KERNELS,
    PARTS,
    SPARSE_SHARE,
    WIDTHS,
    CallableKernel,
    FeatureMetric,
    MixedKernel,
    fit_kernel,
    l1_gradients,
    part_distances,
    resolve_kernel,
    sensitivity_metric,
    whitening_metric,
)
from embedding_core.kernel_dle.links import LINKS, LinkedRows, choose_links, rows_of
from embedding_core.kernel_dle.solution import (
    GRAPH_WEIGHTS,
    REGULARIZATIONS,
    Fit,
    KernelExpansion,
    Problem,
    choose_fit,
    local_graph,
    local_kernel_graph,
    solve,
)
from embedding_core.knn_classifier import as_labeled_features
from embedding_core.labels import Indicator, check_labels_differ, given_as_columns
from embedding_core.linalg.conditioning import EPS
from embedding_core.linalg.eigen import fix_signs
from embedding_core.linalg.kernel_space import Kernel, KernelMap, check_precomputed
from embedding_core.scaling import SCALINGS, make_scaler, row_scale

FEW = 10
"""`few_labels="auto"` averages metrics up to this many labeled rows per label."""

FEW_LABELS = ("auto",)


def labels_are_few(Y: NDArray[np.int8]) -> bool:
    """Return whether the labels that occur have at most `FEW` rows on average; Y (l, K) of labeled rows."""
    positives = Y.sum(axis=0, dtype=np.int64)
    return bool(positives[positives > 0].mean() <= FEW) if positives.any() else True


def solve_few(problem: Problem, graph_given: bool, regularizations: Sequence[float]) -> list[Fit]:
    """Return the fits of all metrics and graph weights, whose scores are to be averaged.

    The first fits use the given kernel. The others use metrics learned from the labels and are marked as
    such. Each metric has its own graph unless one was given. Only kernels that are a mixture of distances
    between z-scored dense rows have further metrics.

    A learned metric has seen the label of the left-out row, so it takes over the penalty that the given
    kernel chose for the same graph weight.
    """
    found = solve(problem, dict.fromkeys(GRAPH_WEIGHTS, regularizations))
    chosen = {fit.graph_weight: (fit.regularization,) for fit in found}
    for metric in _other_metrics(problem, found[0]):
        kernel = fit_kernel(
            "mixture",
            problem.X,
            problem.random_state,
            metric,
            problem.kernel.scaler,  # type: ignore[attr-defined]  # only mixtures have other metrics
        )
        W = problem.W if graph_given else local_graph(kernel.views(problem.X)["z"])
        fits = solve(replace(problem, kernel=kernel, W=W), chosen)
        found += [replace(fit, learned=True) for fit in fits]
    return found


def _other_metrics(problem: Problem, first: Fit) -> Iterator[FeatureMetric]:
    """Yield the metrics besides plain z-scores; `first` is the fit without a graph."""
    kernel = problem.kernel
    if not isinstance(kernel, MixedKernel) or kernel.parts != PARTS["mixture"] or sp.issparse(problem.X):
        return
    Z = kernel.views(problem.X[problem.labeled])["z"]
    whitened = whitening_metric(Z, problem.Y)
    if whitened is not None:
        yield whitened
    yield sensitivity_metric(mean_squared_gradient(first.machine, problem.X[problem.labeled]))


def mean_squared_gradient(machine: KernelExpansion, X: Any) -> NDArray[np.float64]:
    """Return the diagonal (p,) of G: the mean squared slope of the scores along each z-scored feature.

    Slopes are summed over the labels and averaged over the rows of X. The machine must have the kernel
    "mixture".
    """
    kernel = machine.kernel
    rows, items = kernel.views(X)["z"], kernel.views(machine.items)["z"]
    squared_part, l1_part = _slopes(kernel, rows, items)
    total = np.zeros(rows.shape[1])
    for coef in machine.coef.T:
        pull = squared_part * coef
        slope = 2 * (rows * pull.sum(axis=1, keepdims=True) - pull @ items)
        slope += l1_gradients(rows, items, l1_part * coef)
        total += (slope**2).mean(axis=0)
    return total


def _slopes(
    kernel: MixedKernel, rows: NDArray[np.float64], items: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the derivatives (m, h) of the kernel by the squared L2 and by the L1 distance of each pair."""
    found = []
    for part, median in zip(kernel.parts, kernel.medians, strict=True):
        ratio = part_distances(part, rows, items) / median
        slopes = np.mean([-s * np.exp(-s * ratio) for s in WIDTHS], axis=0)
        found.append(slopes / (len(kernel.parts) * median))
    return found[0], found[1]


class KernelDLE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Discriminant Laplacian embedding in the feature space of a bandwidth-free kernel.

    Items with similar labels are placed close together. The directions V of the kernel's feature space
    maximize tr[(V^T M V)^(-1) V^T S_b V], where S_b is the between-label scatter and M the total scatter plus
    a penalty on size and, with a graph weight, on roughness along a graph of all items. Transforms new items.

    Parameters
    ----------
    kernel : {"auto", "mixture", "linear", "intersection", "precomputed"} or callable, default="auto"
        "mixture" is the mean of Gaussian and Laplacian kernels with five widths around the median distance,
        on z-scored features. "auto" is "mixture" for dense data. If more than half of the entries are zero,
        it is the mean of these two and of Gaussian and linear kernels on rows of unit length; for text (more
        than nine tenths zero, none negative) only the latter two. "linear" is x^T z of z-scored features.
        "intersection" is the sum of min(x, z) for histograms, never scaled. For "precomputed", X is the
        kernel matrix (n, n) of all items in `fit`, and the kernel values (m, n) with them afterwards. A
        callable takes rows (m, p) and (h, p) and returns kernel values (m, h).
    graph_weight : float or "loo", default=0.0
        Weight mu >= 0 of the roughness along the graph. "loo" chooses among 0, 0.1, 1 and 10 by leave-one-out
        scores. With few labels all four are averaged, see `few_labels`. Values of these grids that are too
        large for double precision are dropped.
    regularization : float or "loo", default="loo"
        lambda > 0 in units of the mean squared length of the items. "loo" chooses among 10^-4, 10^-3.5, ...,
        10^1.5 by exact leave-one-out scores: LRAP, or accuracy if each item has one label.
    landmarks : int, "auto" or None, default="auto"
        Items that span the feature space (Nyström). None takes all; "auto" takes all up to 4,000 items and
        2,000 above.
    n_components : int or None, default=None
        Dimensions, at most the rank of the labels. None takes that rank.
    few_labels : bool or "auto", default="auto"
        Average the scores of three metrics (z-scored; whitened by the shrunk within-class scatter; features
        weighted by the sensitivity of the scores to them) and four graph weights. "auto" does so up to ten
        labeled items per label on average.
    input_scale : {"zscore", "none", "unit", "cosine"}, default="zscore"
        Scaling of the features before distances are measured, see `Scaler`; what "z-scored" says below holds
        for the default. "cosine" is "unit", for counts with TF-IDF weights; it suits words.
    links : {"none", "only", "mean", "loo"}, default="none"
        How the `affinity` of `fit` enters the kernel as links between items. "only" replaces the kernel by
        inner products of features propagated along the links, see `LinkPropagation`; "mean" averages both
        kernels; "loo" chooses among them and the kernel without links by exact leave-one-out scores.
    random_state : int, RandomState or None, default=0
        Draws landmarks, and the items whose distances give the medians if there are more than 2,000.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, r)
        All items of the fit as `transform` places them. Labeled items lie closer to their labels here than
        new items would, so never train a classifier on these rows.
    loo_embedding_ : ndarray of shape (n, r)
        The same with each labeled item placed without its label; exact, see Notes.
    loo_scores_ : ndarray of shape (l, K)
        Leave-one-out scores of the labeled items about the mean of all items; see Notes.
    rotation_ : ndarray of shape (K, r)
        R, with orthonormal columns.
    eigenvalues_ : ndarray of shape (r,)
        Contribution of each direction to the objective: the squared lengths of the columns of V.
    label_means_ : ndarray of shape (K,)
        Fraction of the labeled items that have each label.
    machines_ : list of KernelExpansion
        Kernel expansions whose mean gives the label scores: one, or several if labels are few.
    regularization_, graph_weight_ : float or list of float
        lambda and mu of the machines; a list if labels are few.
    kernel_ : str
        Kind of the kernel: "mixture", "sparse", "text", "linear", "intersection", "precomputed" or
        "callable".
    links_ : {"attributes", "links", "mean"}
        Kernel used; "attributes" if links do not enter it.
    links_scores_ : dict of str to float
        Leave-one-out score of each kernel that was compared: accuracy, or LRAP for several labels per item.
    propagation_ : LinkPropagation or None
        Items and links of the fit, if links enter the kernel.
    item_scores_ : ndarray of shape (n, K) or None
        Label scores of all items of the fit with their links, if links enter the kernel.
    few_labels_ : bool
    sparse_ : bool
        Whether items are kept and compared as sparse rows.
    classes_ : ndarray of shape (K,)
    multi_label_ : bool
        Whether `fit` was given label columns.
    n_features_in_ : int

    Notes
    -----
    Let T = Y - 1 mean^T, H = Phi^T T, S_b = H H^T, S_t = Phi^T (I - 11^T / l) Phi of the labeled items,
    A = Phi^T L Phi of all items, M = S_t + lambda tau (I + mu A), and M^(-1/2) H = U Sigma R^T. The solution
    V = M^(-1/2) U Sigma gives V^T phi(x) = R^T (f(x) - mean), a rotation of the scores
    f(x) = mean + k_c(x)^T (K_c + lambda tau I)^(-1) T. These are ridge regression of the labels with the
    centered, deformed kernel K (I + mu L K)^(-1). tau = tr(K_c) / l. L = I - D^(-1/2) W D^(-1/2) of the graph
    of ten nearest neighbors with W_ij = exp(-d² / (r_i r_j)), r_i the distance to the tenth neighbor.

    The scores of item i without its label are y_i - (y_i - f(x_i)) / (1 - h_i) with its leverage h_i. This is
    exact for all lambda from one eigendecomposition; the kernel, lambda tau and the graph are kept fixed. The
    scores are stored about the mean of all items, f_-i - mean_-i + mean: the mean of the other items is lower
    if item i has the label, which would reveal the label to a model trained on these rows.

    Unlabeled items only take part through the graph. If it has no weight (graph_weight=0 and labels are not
    few), they change nothing, including scaling and medians.

    Links enter the kernel through the features of all items, labeled or not, but not through labels: scores
    of the unlabeled items of the fit are transductive, and leaving out stays exact. New items are placed by
    their links to the items of the fit, or by their own features if they have none, see `label_scores`. If
    links enter the kernel, there is no special form for few labels; if "loo" decides against them, the model
    is that of a fit without affinity.

    With few labels the three metrics apply to "mixture" kernels on dense X; other kernels only have their own
    metric. Two of the metrics are learned from all labels, so leaving an item out of the ridge regression
    would not hide its label from them (on noise such scores appear perfect). The leave-one-out scores and
    rows are therefore those of the four fits on plain z-scores, which are exact. These fits also choose
    lambda for each graph weight, which the fits with learned metrics take over.

    References
    ----------
    .. [1] H. Wang, H. Huang, C. Ding, "Discriminant Laplacian Embedding", AAAI 2010.
    .. [2] V. Sindhwani, P. Niyogi, M. Belkin, "Beyond the Point Cloud: from Transductive to Semi-supervised
       Learning", ICML 2005.
    .. [3] J. Gasteiger, A. Bojchevski, S. Günnemann, "Predict then Propagate: Graph Neural Networks meet
       Personalized PageRank", ICLR 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from embedding_core import KernelDLE
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 5))
    >>> y = (X[:, 0] ** 2 + X[:, 1] ** 2 > 1.5).astype(int)
    >>> model = KernelDLE().fit(X[:60], y[:60])
    >>> model.transform(X[60:]).shape
    (30, 1)
    >>> model.loo_embedding_.shape
    (60, 1)
    """

    def __init__(
        self,
        *,
        kernel: str | Callable[[Any, Any], Any] = "auto",
        graph_weight: float | str = 0.0,
        regularization: float | str = "loo",
        landmarks: int | str | None = "auto",
        n_components: int | None = None,
        few_labels: bool | str = "auto",
        input_scale: str = "zscore",
        links: str = "none",
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.graph_weight = graph_weight
        self.regularization = regularization
        self.landmarks = landmarks
        self.n_components = n_components
        self.few_labels = few_labels
        self.input_scale = input_scale
        self.links = links
        self.random_state = random_state

    def fit(self, X: Any, y: Any, affinity: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n, p)
            All items, labeled or not; the kernel matrix (n, n) if precomputed.
        y : array-like of shape (n,) or (n, K)
            Classes with -1 for unlabeled items, or 0/1 columns with rows of -1 for unlabeled items.
        affinity : array or sparse matrix of shape (n, n), optional
            Symmetric non-negative similarities of all items, used instead of a graph built from the features,
            and as links if `links` is not "none".

        Returns
        -------
        self
        """
        self._check_parameters()
        X, target = as_labeled_features(self._check_items(X, reset=True), y)
        self.multi_label_ = given_as_columns(y)
        self.classes_ = target.classes
        self._check_labels(target)
        W = None if affinity is None else check_given_graph(affinity, X.shape[0])
        fits, rows = (
            self._solve_linked(X, target, W) if self.links != "none" else self._solve_plain(X, target, W)
        )
        self._keep(fits)
        self._rotate(target, fits)
        self._place(rows, target, fits)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Map items (m, p), or kernel values (m, n) with the items of the fit, to coordinates (m, r)."""
        coordinates: NDArray[np.float64] = (self.label_scores(X) - self.label_means_) @ self.rotation_
        return coordinates

    def label_scores(self, X: Any, links: Any = None) -> NDArray[np.float64]:
        """Return label scores f (m, K) of items: near 1 for yes and near 0 for no, unbounded.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (m, p)
        links : array or sparse matrix of shape (m, n) or (m, n + m), optional
            Weights of links from these items to the n items of the fit, and to each other. Only used if links
            enter the kernel. An item without links is placed by its features.
        """
        check_is_fitted(self)
        X = self._check_items(X, reset=False)
        if self.propagation_ is None:
            return self._scores(X)
        return self._scores(rows_of(self.links_, LinkedRows(X, self.propagation_.transform(X, links))))

    def _scores(self, X: Any) -> NDArray[np.float64]:
        mean: NDArray[np.float64] = np.mean([machine.scores(X) for machine in self.machines_], axis=0)
        return mean

    def _solve_linked(self, X: Any, target: Indicator, W: Any) -> tuple[list[Fit], Any]:
        """Return the fit with the best kernel of those that `links` allows, and the rows that it compares."""
        if W is None:
            raise InvalidInput(f'links="{self.links}" needs the links of the items: pass them as affinity.')
        scale = "auto" if self.input_scale in ("zscore", "cosine") else self.input_scale
        propagation = LinkPropagation(scale=scale).fit(X, W)
        P, Y = propagation.propagated(), target.Y[target.labeled]
        kernel, rows = self._fit_kernel(X, target.labeled)
        everyone = np.ones(len(Y), dtype=bool)
        problem = Problem(rows, kernel, everyone, Y, None, self.landmarks, self.random_state)
        best, fit, scores = choose_links(problem, P[target.labeled], self.links, self._penalties())
        if best == "attributes":
            fits, rows = self._solve_plain(X, target, None)
        else:
            fits, rows = [fit], rows_of(best, LinkedRows(X, P))
            self.few_labels_ = False
            self.propagation_: LinkPropagation | None = propagation
        self.links_, self.links_scores_ = best, scores
        return fits, rows

    def _penalties(self) -> Sequence[float]:
        return REGULARIZATIONS if self.regularization == "loo" else (float(self.regularization),)

    def _solve_plain(self, X: Any, target: Indicator, W: Any) -> tuple[list[Fit], Any]:
        """Return the fits without links in the kernel, and the rows that they compare."""
        self.links_, self.links_scores_ = "attributes", {}
        self.propagation_ = None
        return self._solve(X, target, W), X

    def _solve(self, X: Any, target: Indicator, W: Any) -> list[Fit]:
        """Return one fit, or several if labels are few, on the items that take part."""
        Y = target.Y[target.labeled]
        self.few_labels_ = labels_are_few(Y) if self.few_labels == "auto" else bool(self.few_labels)
        with_graph = self.few_labels_ or self.graph_weight != 0
        used = np.ones(len(target.Y), dtype=bool) if with_graph else target.labeled
        kernel, X = self._fit_kernel(X, used)
        graph_given = W is not None
        if with_graph and not graph_given:
            W = self._own_graph(kernel, X)
        problem = Problem(X, kernel, target.labeled[used], Y, W, self.landmarks, self.random_state)
        if self.few_labels_:
            fits = solve_few(problem, graph_given, self._penalties())
        else:
            fits = [choose_fit(problem, self.graph_weight, self._penalties())]
        if self.kernel == "precomputed":  # new kernel values refer to all items, including unused ones
            fits = [_renumber(fit, np.flatnonzero(used)) for fit in fits]
        return fits

    def _fit_kernel(self, X: Any, used: NDArray[np.bool_]) -> tuple[KernelMap, Any]:
        """Return the kernel and the rows it is applied to."""
        if self.kernel == "precomputed":
            self.kernel_ = "precomputed"
            return Kernel("precomputed"), check_precomputed(X).astype(np.float64)[np.ix_(used, used)]
        rows = X if used.all() else X[used]
        if callable(self.kernel):
            self.kernel_ = "callable"
            return CallableKernel(self.kernel), rows
        if self.kernel == "intersection":
            self.kernel_ = "intersection"
            return Kernel("intersection"), rows
        self.kernel_ = resolve_kernel(self.kernel, rows)
        scale = row_scale(rows) if self.input_scale == "cosine" else self.input_scale
        scaler = make_scaler(scale).fit(rows.astype(np.float64))
        return fit_kernel(self.kernel_, rows, self.random_state, scaler=scaler), rows

    @staticmethod
    def _own_graph(kernel: KernelMap, X: Any) -> Any:
        if isinstance(kernel, MixedKernel):
            views = kernel.views(X)
            return local_graph(views.get("z", views.get("c")))
        return local_kernel_graph(X) if kernel.name == "precomputed" else local_graph(X)

    def _keep(self, fits: list[Fit]) -> None:
        self.machines_: list[KernelExpansion] = [fit.machine for fit in fits]
        regularizations = [fit.regularization for fit in fits]
        graph_weights = [fit.graph_weight for fit in fits]
        self.regularization_ = regularizations if self.few_labels_ else regularizations[0]
        self.graph_weight_ = graph_weights if self.few_labels_ else graph_weights[0]

    def _rotate(self, target: Indicator, fits: list[Fit]) -> None:
        """Compute R and Sigma² from T^T (F - mean) = H^T M^(-1) H = R Sigma² R^T."""
        self.label_means_ = target.Y[target.labeled].mean(axis=0)
        self.loo_scores_ = np.mean([fit.left_out for fit in fits if not fit.learned], axis=0)
        values, R = scipy.linalg.eigh(np.mean([fit.explained for fit in fits], axis=0))
        values, R = values[::-1], R[:, ::-1]
        rank = int((values > 64 * len(values) * EPS * values[0]).sum())
        r = rank if self.n_components is None else self.n_components
        if r > rank:
            raise TooManyComponents(
                f"n_components={r} exceeds the {rank} directions in which the labels differ; lower it or "
                "leave it at None.",
                rank,
            )
        self.rotation_, self.eigenvalues_ = fix_signs(R[:, :r]), values[:r].copy()

    def _place(self, X: Any, target: Indicator, fits: list[Fit]) -> None:
        """Place all items: those that took part by their fitted scores, others by the map."""
        used = target.labeled if len(fits[0].fitted) < len(target.Y) else np.ones(len(target.Y), dtype=bool)
        scores = np.empty(target.Y.shape)
        scores[used] = np.mean([fit.fitted for fit in fits], axis=0)
        if not used.all():
            scores[~used] = self._scores(X[~used])
        self.item_scores_ = None if self.propagation_ is None else scores
        self.embedding_ = (scores - self.label_means_) @ self.rotation_
        self.loo_embedding_ = self.embedding_.copy()
        self.loo_embedding_[target.labeled] = (self.loo_scores_ - self.label_means_) @ self.rotation_

    def _check_parameters(self) -> None:
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, KERNELS)
        check_not_negative("graph_weight", self.graph_weight, ("loo",))
        check_positive("regularization", self.regularization, ("loo",))
        check_count("landmarks", self.landmarks, ("auto", None))
        check_count("n_components", self.n_components, (None,))
        if not isinstance(self.few_labels, bool | np.bool_):
            check_choice("few_labels", self.few_labels, FEW_LABELS)
        check_choice("input_scale", self.input_scale, (*SCALINGS, "cosine"))
        check_choice("links", self.links, LINKS)
        if self.links != "none" and (self.graph_weight != 0 or self.kernel == "precomputed"):
            raise InvalidInput(
                f'links="{self.links}" propagates features along the links and takes neither graph_weight='
                f"{self.graph_weight!r} nor a precomputed kernel; set graph_weight=0 and pass features."
            )

    def _check_items(self, X: Any, reset: bool) -> Any:
        if self.kernel == "precomputed" and sp.issparse(X):
            raise InvalidInput("Precomputed kernel values must be dense, but X is sparse: pass X.toarray().")
        X = validate_items(self, X, reset)
        if reset:
            # with few zeros the dense form is faster and takes no more memory
            self.sparse_ = sp.issparse(X) and X.nnz < (1 - SPARSE_SHARE) * X.shape[0] * X.shape[1]
        if sp.issparse(X) == self.sparse_:
            return X
        return sp.csr_array(X) if self.sparse_ else X.toarray()

    def _check_labels(self, target: Indicator) -> None:
        Y = target.Y[target.labeled]
        if len(Y) < 2:
            raise InvalidInput(
                f"{type(self).__name__} got n_samples={len(Y)} labeled item and needs two or more; label "
                "more."
            )
        check_labels_differ(target, type(self).__name__, self.multi_label_)

    @property
    def _n_features_out(self) -> int:
        return int(self.rotation_.shape[1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _renumber(fit: Fit, used: NDArray[np.intp]) -> Fit:
    """Convert row numbers among the used items to row numbers among all items."""
    return replace(fit, machine=replace(fit.machine, items=used[fit.machine.items]))
