"""Registry of all methods, as data: what each one is, what it needs and what it costs.

Importing the registry imports nothing heavy; `Method.build` imports the estimator when it is needed. To add a
method, add an entry to `catalog.py`. Its estimator follows scikit-learn's contract and has one of two roles:

projection
    `fit(X, Y)`, `transform(X)` and `embedding_` of shape (n, r), the coordinates of the rows of the fit. Rows
    are classified by their nearest neighbors in these coordinates. `embedding_` and `transform` may give
    different coordinates for the same rows (eigenmaps), so the two are never compared with each other.
classifier
    `fit(X, Y)` and `predict_scores(X)` of shape (m, K) in [0, 1]. A score above one half means that the row
    has the label; `predict` returns the same decision in 0/1.

If `uses_graph` is set, `fit` also takes `affinity=None`. A method that is not `inductive` only knows the rows
of its fit: a projection then needs no `transform`, and a classifier stores the scores of those rows in
`transduction_scores_` (n, K) instead of offering `predict_scores`. A classifier may have both; rows of the
fit are then judged by `transduction_scores_`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from embedding_core.errors import InvalidInput
from embedding_core.registry.catalog import ENTRIES
from embedding_core.registry.method import Method, did_you_mean

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in ENTRIES})


def get_method(name: str) -> Method:
    """Look up a method by name.

    Raises
    ------
    InvalidInput
        If the name is unknown. The message suggests similar names and lists all methods.
    """
    try:
        return METHODS[name]
    except KeyError:
        known = list(METHODS)
        raise InvalidInput(
            f"method {name!r} is not known.{did_you_mean(name, known)} Methods: {', '.join(known)}."
        ) from None


def inner_methods(name: str, params: Mapping[str, Any]) -> list[str]:
    """Return the methods that a composed method combines; an empty list for all others."""
    given = {**get_method(name).defaults, **params}
    single = [given[key] for key in ("projection", "classifier") if key in given]
    return [*given.get("members", ()), *single]


def method_modules(name: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the modules of the estimators that compute a method, including those that it combines."""
    inner = (get_method(one).module for one in inner_methods(name, params))
    return tuple(dict.fromkeys((get_method(name).module, *inner)))


def ignores_graph(name: str, params: Mapping[str, Any]) -> bool:
    """Return whether the graph of the items changes nothing in a fit with these parameters.

    Kernel DLE, also as a member of another method, uses the graph with few labels only, unless its parameters
    weigh the graph or take it as links.
    """
    own = params.get("params", {}).get("kernel_dle", params)
    unused = own.get("few_labels") is False and not own.get("graph_weight")
    return not get_method(name).uses_graph or (unused and own.get("links", "none") == "none")
