"""The methods that can be compared, as data: what each one is, needs and costs.

Nothing heavy is imported here; `Method.build` imports the estimator when it is wanted. A new method is one
more entry of a family of `catalog/`. Its estimator follows scikit-learn's contract and one of two roles:

projection
    `fit(X, Y)`, `transform(X)`, and `embedding_` (n, r), the coordinates of the rows of the fit. Neighbors
    in these coordinates classify. `embedding_` and `transform` of the same rows may differ (eigenmaps) and
    are never compared with each other.
classifier
    `fit(X, Y)` and `predict_scores(X)` (m, K) in [0, 1], where more than one half means yes (`predict` says
    the same in 0/1).

`fit` takes `affinity=None` besides where `uses_graph`. A method that is not `inductive` knows the rows of its
fit alone: a projection then needs no `transform`, and a classifier leaves the scores of those rows in
`transduction_scores_` (n, K) in place of `predict_scores`. A classifier may have both; rows of its fit are
then judged by the former.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from embedding_core.errors import InvalidInput
from embedding_core.registry.catalog import (
    baselines,
    classifiers,
    composed,
    eigenmaps,
    kernel_dle,
    margin,
    papers,
    projections,
    transduction,
)
from embedding_core.registry.method import Method, did_you_mean

_FAMILIES = (
    papers,
    kernel_dle,
    projections,
    eigenmaps,
    classifiers,
    transduction,
    margin,
    composed,
    baselines,
)

METHODS: Mapping[str, Method] = MappingProxyType(
    {method.name: method for family in _FAMILIES for method in family.ENTRIES}
)


def get_method(name: str) -> Method:
    """Look a method up by name; an unknown name raises InvalidInput with near matches and the whole list."""
    try:
        return METHODS[name]
    except KeyError:
        known = list(METHODS)
        raise InvalidInput(
            f"method {name!r} is not known.{did_you_mean(name, known)} Methods: {', '.join(known)}."
        ) from None


def inner_methods(name: str, params: Mapping[str, Any]) -> list[str]:
    """Methods that a composed one is made of, none for all others."""
    given = {**get_method(name).defaults, **params}
    return [*given.get("members", ()), *([given["projection"]] if "projection" in given else [])]


def method_modules(name: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the estimators are that compute a method, those that it is made of included."""
    inner = (get_method(one).module for one in inner_methods(name, params))
    return tuple(dict.fromkeys((get_method(name).module, *inner)))
