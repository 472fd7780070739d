"""Classifiers that labelscape makes of other methods."""

from typing import Any

from embedding_core.registry.method import Method

_PAPER = "composed by labelscape"


def _composed(name: str, title: str, attribute: str, cost: str, graph: bool, **defaults: Any) -> Method:
    return Method(
        name=name,
        title=title,
        paper=_PAPER,
        equations="",
        module="embedding_core.classifiers.composed",
        attribute=attribute,
        role="classifier",
        inductive=True,
        single_label=True,
        multi_label=True,
        uses_graph=graph,
        cost=cost,
        defaults=defaults,
        own_scaling=True,
    )


ENTRIES = (
    _composed("mlda_knn", "MLDA + tuned kNN", "ProjectedNeighbors", "4 fits", False, projection="mlda"),
    _composed(
        "projections_knn",
        "Discriminative projections + tuned kNN",
        "ProjectedNeighbors",
        "4 fits",
        True,
        projection="discriminative_projections",
    ),
    _composed(
        "kernel_dle_forest",
        "Mean of Kernel DLE and random forest",
        "ScoreMean",
        "both",
        True,
        members=("kernel_dle", "random_forest"),
    ),
)
