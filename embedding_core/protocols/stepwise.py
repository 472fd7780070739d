"""Any method of the registry with everything that it leaves open chosen inside the training labels.

What is open is data: a mapping of parameters in which a list holds candidates, the default first. They are
chosen one after another, in the order of the mapping, each by cross-validation on the labeled rows with the
former choices kept: the cost is a sum over parameters, not a product. How an embedding is read (so many of
its first dimensions, so many neighbors) costs no fit and is chosen anew at every step.

Beside parameters of the method's estimator a mapping may hold

neighbors
    How many nearest labeled rows are asked in the embedding of a projection (or, for "1nn", in the input).
dimensions
    How many of the first dimensions count there; None: all.
n_components "widest"
    As many as the largest of `dimensions`, or the rank of the rows where that is less or None is among them.
landmarks
    So many, or all rows that the method sees where these are fewer.
pca
    False or True: principal components in front, 98 % of the variance.
sigma_times, with n_neighbors
    The graph of nearest neighbors is made here; its sigma is so many times the mean squared length of edges.
theta_times
    The width theta of a kernel is so many times 1 / p.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput, TooManyComponents
from embedding_core.evaluation import hide_labels
from embedding_core.graph.affinity import GraphFamily, graph_family
from embedding_core.knn_classifier import nearest_rows, vote
from embedding_core.model_selection.folds import smallest_training_part
from embedding_core.model_selection.inner_choice import choose_scored
from embedding_core.protocols.trial import prepare
from embedding_core.registry import get_method
from embedding_core.registry.method import Method
from embedding_core.scaling import as_features
from embedding_core.subspace.principal import principal_space

FOLDS = 3
"""Of the labeled rows: with few labels more would leave some classes out of most folds."""

OWN_NAMES = frozenset({"neighbors", "dimensions", "pca", "sigma_times", "theta_times"})
"""What is not a parameter of an estimator, see the module's text."""

WIDEST = "widest"
INPUT_NEIGHBORS = "1nn"
"""The method whose embedding is the input itself."""

Rows = NDArray[np.intp]
Params = dict[str, Any]


@dataclass(frozen=True)
class Widest:
    """So many dimensions, or as many as the rows have where that is less, or `most` is None."""

    most: int | None


@dataclass(frozen=True)
class Tuned:
    """What a tuned method says.

    Attributes
    ----------
    params : dict
        The choice, the way of reading an embedding included.
    scores : (m, K) array
        Of the rows that were asked for.
    left_out : (l, K) array or None
        Of the labeled rows in their order, each by a fit without its labels; None where nothing was open and
        the method leaves none itself.
    """

    params: Params
    scores: NDArray[np.float64]
    left_out: NDArray[np.float64] | None


def fit_tuned(
    method: str,
    params: Mapping[str, Any],
    X: Any,
    Y: NDArray[np.int8],
    train: Rows,
    test: Rows,
    seed: int = 0,
) -> Tuned:
    """Choose on the training rows, fit with their labels alone, score the test rows.

    Parameters
    ----------
    method, params
        A name of the registry; its parameters, lists are candidates. See the module's text.
    X : (n, p) array
        A method that takes unlabeled rows sees all of them.
    Y : (n, K) array of 0/1
        Labels of all rows but `train` are hidden before anything else happens.
    train, test : arrays of row numbers
    seed : int
        Of the inner folds.
    """
    bench = _Bench(method, as_features(X), hide_labels(Y, train, test), train)
    grid = {name: value if isinstance(value, list) else [value] for name, value in params.items()}
    readings = _readings(method, grid, len(train))
    chosen, left_out = _search(bench, grid, readings, seed)
    reading: Params = {name: chosen.pop(name) for name in ("dimensions", "neighbors") if name in chosen}
    [scores], model = bench.fit(chosen, train, test, [reading])
    if left_out is None:
        left_out = getattr(model, "loo_scores_", getattr(model, "left_out_scores_", None))
    return Tuned({**chosen, **reading}, scores, left_out)


def _fit_widest(
    method: Method, settings: Params, narrowing: bool, X: Any, Y: NDArray[np.int8], graph: Params
) -> Any:
    """Fit; `narrowing` goes down to the dimensions that the method has, where these are fewer.

    The rank of the rows, from which it begins, counts rows too that are neither labeled nor linked.
    """
    while True:
        try:
            return method.build(**settings).fit(X, Y, **graph)
        except TooManyComponents as error:
            if not narrowing or error.most < 1:
                raise
            settings = {**settings, "n_components": error.most}


def _readings(method: str, grid: dict[str, list[Any]], n_labeled: int) -> list[Params]:
    """Take the ways of reading an embedding out of the grid; one empty one for a classifier."""
    if not reads_neighbors(method):
        return [{}]
    smallest = smallest_training_part(n_labeled, FOLDS)
    neighbors = [k for k in grid.pop("neighbors", [1]) if k <= smallest]
    if not neighbors:
        raise InvalidInput(f"neighbors: {smallest} rows of an inner fold are there to choose from.")
    dimensions = grid.pop("dimensions", [None])
    if WIDEST in grid.get("n_components", ()):
        grid["n_components"] = [Widest(None if None in dimensions else max(dimensions))]
    return [{"dimensions": d, "neighbors": k} for d in dimensions for k in neighbors]


def reads_neighbors(method: str) -> bool:
    """Whether a method answers through nearest neighbors."""
    return method == INPUT_NEIGHBORS or get_method(method).role == "projection"


def _search(
    bench: "_Bench", grid: Mapping[str, Sequence[Any]], readings: Sequence[Params], seed: int
) -> tuple[Params, NDArray[np.float64] | None]:
    """The choice, one parameter after another, and its out-of-fold scores of the labeled rows."""
    chosen, left_out = {name: values[0] for name, values in grid.items()}, None
    reading = readings[0]
    open_steps = [(name, values) for name, values in grid.items() if len(values) > 1]
    if not open_steps and len(readings) > 1:
        open_steps = [("", [None])]
    labels = bench.Y[bench.train]
    for name, values in open_steps:
        tried = [{**chosen, name: value} if name else chosen for value in values]

        def score(fitted: Rows, held: Rows, tried: Sequence[Params] = tried) -> Iterator[NDArray[np.float64]]:
            for one in tried:
                yield from bench.inner_scores(one, fitted, held, readings)

        best, left_out = choose_scored(labels, len(tried) * len(readings), score, FOLDS, seed)
        chosen, reading = tried[best // len(readings)], readings[best % len(readings)]
    return {**chosen, **reading}, left_out


@dataclass
class _Bench:
    """The rows of one search, and what its fits have in common."""

    method: str
    X: Any
    Y: NDArray[np.int8]
    train: Rows
    _inputs: dict[bool, Any] = field(default_factory=dict)
    _graphs: dict[tuple[bool, int], GraphFamily] = field(default_factory=dict)
    _ranks: dict[bool, int] = field(default_factory=dict)
    _known: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)

    def inner_scores(
        self, params: Params, fitted: Rows, held: Rows, readings: Sequence[Params]
    ) -> list[NDArray[np.float64]]:
        """Scores of held-out labeled rows, both counted within `train`; a fit is done once for all steps."""
        key = f"{sorted(params.items())} {held.tolist()}"
        if key not in self._known:
            with warnings.catch_warnings():  # of a candidate; the chosen fit says what it has to say
                warnings.simplefilter("ignore")
                self._known[key], _ = self.fit(params, self.train[fitted], self.train[held], readings)
        return self._known[key]

    def fit(
        self, params: Params, known: Rows, asked: Rows, readings: Sequence[Params]
    ) -> tuple[list[NDArray[np.float64]], Any]:
        """Scores (m, K) of the asked rows under each reading by a fit with the labels of the known alone."""
        X = self._input(bool(params.get("pca")))
        if self.method == INPUT_NEIGHBORS:
            return self._read(X[known], X[asked], known, readings), None
        method = get_method(self.method)
        Y = np.full_like(self.Y, -1)
        Y[known] = self.Y[known]
        seen = np.arange(len(Y)) if method.sees_all_rows else known
        rows = X[seen]
        settings, affinity = self._settings(params, rows)
        graph = {"affinity": affinity} if affinity is not None else {}
        narrowing = isinstance(params.get("n_components"), Widest)
        model = _fit_widest(method, settings, narrowing, rows, Y[seen], graph)
        if method.role == "classifier":
            return [np.asarray(model.predict_scores(X[asked]))], model
        # An eigenmap has exact places for the rows of its fit alone.
        Z = model.embedding_ if method.sees_all_rows else model.transform(X)
        return self._read(Z[known], Z[asked], known, readings), model

    def _input(self, pca: bool) -> Any:
        """X, or its principal components, learned on the rows that the method sees."""
        if pca not in self._inputs:
            sees_all = get_method(self.method).sees_all_rows
            seen = np.arange(len(self.Y)) if sees_all else self.train
            self._inputs[pca] = prepare(self.X, "pca" if pca else "raw", seen)
        return self._inputs[pca]

    def _settings(self, params: Params, X: Any) -> tuple[Params, Any]:
        """Parameters of the estimator that sees the rows X, and the graph where it is made here."""
        settings, affinity = dict(params), None
        pca = bool(settings.pop("pca", False))
        if "theta_times" in settings:
            settings["theta"] = settings.pop("theta_times") / X.shape[1]
        if "sigma_times" in settings:
            family = self._graph(pca, settings.pop("n_neighbors"))
            affinity = family.weigh(settings.pop("sigma_times") * family.scale)
        if "landmarks" in settings:
            settings["landmarks"] = min(settings["landmarks"], X.shape[0])
        if isinstance(settings.get("n_components"), Widest):
            rank, most = self._rank(pca), settings["n_components"].most
            settings["n_components"] = rank if most is None else min(most, rank)
        return settings, affinity

    def _graph(self, pca: bool, n_neighbors: int) -> GraphFamily:
        if (pca, n_neighbors) not in self._graphs:
            self._graphs[pca, n_neighbors] = graph_family(self._input(pca), "knn", n_neighbors)
        return self._graphs[pca, n_neighbors]

    def _rank(self, pca: bool) -> int:
        if pca not in self._ranks:
            self._ranks[pca] = principal_space(self._input(pca)).rank
        return self._ranks[pca]

    def _read(self, Z: Any, asked: Any, known: Rows, readings: Sequence[Params]) -> list[NDArray[np.float64]]:
        """Shares (m, K) of the labels among neighbors, one search for each number of dimensions."""
        most = max(one["neighbors"] for one in readings)
        found: dict[int, Any] = {}
        scores = []
        for one in readings:
            d = min(one["dimensions"] or Z.shape[1], Z.shape[1])
            if d not in found:
                found[d] = nearest_rows(Z[:, :d], asked[:, :d], most)
            distances, indices = found[d]
            k = one["neighbors"]
            scores.append(vote(self.Y[known], distances[:, :k], indices[:, :k]))
        return scores
