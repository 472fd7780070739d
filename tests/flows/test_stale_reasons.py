"""Reasons for a stale stage: each difference between two recipes is named."""

from typing import Any

import pytest

from flows.stale_reasons import explain

RECIPE: dict[str, Any] = {
    "stage": "affinity",
    "variant": "",
    "code": {"embedding_core.graph.knn": "a"},
    "params": {"n_neighbors": 10},
    "inputs": {"features": "a"},
    "schema": 1,
}


def test_equal_recipes_give_no_reason() -> None:
    assert explain(RECIPE, RECIPE) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 2}, "storage format 1 → 2"),
        ({"params": {"n_neighbors": 12}}, "parameter affinity.n_neighbors 10 → 12"),
        ({"code": {"embedding_core.graph.knn": "b"}}, "code of embedding_core/graph/knn.py changed"),
        ({"inputs": {"features": "b"}}, "data: features changed"),
    ],
)
def test_each_difference_is_the_one_reason(change: dict[str, Any], reason: str) -> None:
    assert explain(RECIPE, {**RECIPE, **change}) == [reason]
