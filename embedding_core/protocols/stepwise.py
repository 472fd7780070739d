"""Stepwise tuning of any method of the registry on the training labels.

Open choices are data: a mapping of parameters in which a list has the candidates, default first. They are
chosen one after another in the order of the mapping, each by cross-validation on the labeled rows with the
earlier choices fixed, so the cost is a sum over parameters and not a product. How an embedding is read
(number of its first dimensions, number of neighbors) needs no fit and is chosen again at every step.

Besides parameters of the estimator a mapping may contain

neighbors
    Number of nearest labeled rows in the embedding of a projection (or, for "1nn", in the input).
dimensions
    Number of leading dimensions to use there; None uses all.
n_components "widest"
    The largest of `dimensions`, or the rank of the rows if that is smaller or None is among them.
landmarks
    Number of landmarks, or all rows that the method sees if there are fewer.
pca
    Whether to apply principal components first, with 98 % of the variance.
sigma_times, with n_neighbors
    The nearest-neighbor graph is built here; its sigma is this factor times the mean squared edge length.
theta_times
    The width theta of a kernel is this factor times 1 / p.
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
"""Folds of the labeled rows: with few labels, more folds would leave some classes out of most folds."""

OWN_NAMES = frozenset({"neighbors", "dimensions", "pca", "sigma_times", "theta_times"})
"""Keys that are not parameters of an estimator, see the module docstring."""

WIDEST = "widest"
INPUT_NEIGHBORS = "1nn"
"""The method whose embedding is the input itself."""

Rows = NDArray[np.intp]
Params = dict[str, Any]


@dataclass(frozen=True)
class Widest:
    """Number of dimensions, at most the rank of the rows; the rank if `most` is None."""

    most: int | None


@dataclass(frozen=True)
class Tuned:
    """Result of a tuned method.

    Attributes
    ----------
    params : dict
        Chosen parameters, including how the embedding is read.
    scores : (m, K) array
        Scores of the test rows.
    left_out : (l, K) array or None
        Out-of-fold scores of the labeled rows in their order; None if nothing was open and the method has no
        such scores itself.
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
    """Choose parameters on the training rows, fit with their labels only, and score the test rows.

    Parameters
    ----------
    method, params
        A name of the registry, and its parameters; lists are candidates. See the module docstring.
    X : (n, p) array
        A method that uses unlabeled rows sees all rows.
    Y : (n, K) array of 0/1
        Labels of all rows except `train` are hidden first.
    train, test : arrays of row numbers
    seed : int
        Seed of the inner folds.
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
    """Fit; `narrowing` lowers the dimensions to those that the method has, if there are fewer.

    The rank of the rows, from which it starts, also counts rows that are neither labeled nor linked.
    """
    while True:
        try:
            return method.build(**settings).fit(X, Y, **graph)
        except TooManyComponents as error:
            if not narrowing or error.most < 1:
                raise
            settings = {**settings, "n_components": error.most}


def _readings(method: str, grid: dict[str, list[Any]], n_labeled: int) -> list[Params]:
    """Remove the ways of reading an embedding from the grid; one empty way for a classifier."""
    if not reads_neighbors(method):
        return [{}]
    smallest = smallest_training_part(n_labeled, FOLDS)
    neighbors = [k for k in grid.pop("neighbors", [1]) if k <= smallest]
    if not neighbors:
        raise InvalidInput(f"neighbors: an inner training fold has only {smallest} rows.")
    dimensions = grid.pop("dimensions", [None])
    if WIDEST in grid.get("n_components", ()):
        grid["n_components"] = [Widest(None if None in dimensions else max(dimensions))]
    return [{"dimensions": d, "neighbors": k} for d in dimensions for k in neighbors]


def reads_neighbors(method: str) -> bool:
    """Return whether a method classifies by nearest neighbors."""
    return method == INPUT_NEIGHBORS or get_method(method).role == "projection"


def _search(
    bench: "_Bench", grid: Mapping[str, Sequence[Any]], readings: Sequence[Params], seed: int
) -> tuple[Params, NDArray[np.float64] | None]:
    """Return the choice, one parameter after another, and its out-of-fold scores of the labeled rows."""
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
    """The rows of one search, and what its fits share."""

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
        """Return scores of held-out labeled rows (positions in `train`); every fit is done once."""
        key = f"{sorted(params.items())} {held.tolist()}"
        if key not in self._known:
            with warnings.catch_warnings():  # about a candidate; the final fit warns again if chosen
                warnings.simplefilter("ignore")
                self._known[key], _ = self.fit(params, self.train[fitted], self.train[held], readings)
        return self._known[key]

    def fit(
        self, params: Params, known: Rows, asked: Rows, readings: Sequence[Params]
    ) -> tuple[list[NDArray[np.float64]], Any]:
        """Return scores (m, K) of the asked rows for each reading, by a fit that only knows some labels."""
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
        # an eigenmap has exact coordinates only for the rows of its fit
        Z = model.embedding_ if method.sees_all_rows else model.transform(X)
        return self._read(Z[known], Z[asked], known, readings), model

    def _input(self, pca: bool) -> Any:
        """Return X, or its principal components, learned on the rows that the method sees."""
        if pca not in self._inputs:
            sees_all = get_method(self.method).sees_all_rows
            seen = np.arange(len(self.Y)) if sees_all else self.train
            self._inputs[pca] = prepare(self.X, "pca" if pca else "raw", seen)
        return self._inputs[pca]

    def _settings(self, params: Params, X: Any) -> tuple[Params, Any]:
        """Return the parameters of the estimator that sees the rows X, and the graph if it is built here."""
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
        """Return the label fractions (m, K) among neighbors, with one search per number of dimensions."""
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
