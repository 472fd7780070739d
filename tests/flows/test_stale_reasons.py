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


def block(name: str, **changed: Any) -> dict[str, Any]:
    return {"name": name, "scale": "zscore", "weight": 1.0, "fill": "none", **changed}


JOINED: dict[str, Any] = {
    "stage": "features",
    "variant": "",
    "code": {"embedding_core.preprocessing": "a"},
    "params": {"blocks": [block("color_moments"), block("gabor")]},
    "inputs": {"color_moments": "a", "gabor": "b"},
    "schema": 1,
}
SINGLE: dict[str, Any] = {
    **JOINED,
    "code": {"embedding_core.features.gabor": "c"},
    "params": {"extractor": "gabor", "gabor": {"n_scales": 4}, "strict": False},
    "inputs": {"items": "d"},
}


@pytest.mark.parametrize(
    ("before", "change", "reasons"),
    [
        (
            JOINED,
            {"params": {"blocks": [block("color_moments"), block("gabor", weight=2.0, scale="unit")]}},
            [
                "parameter features.scales.gabor zscore → unit",
                "parameter features.weights.gabor 1.0 → 2.0",
            ],
        ),
        (
            JOINED,
            {"params": {"blocks": [block(name, fill="mean") for name in ("color_moments", "gabor")]}},
            ["parameter features.fill none → mean"],
        ),
        (JOINED, SINGLE, ["parameter features.extractors color_moments, gabor → gabor"]),
        (SINGLE, JOINED, ["parameter features.extractors gabor → color_moments, gabor"]),
        (JOINED, {"inputs": {"color_moments": "a", "gabor": "x"}}, ["data: block gabor changed"]),
        (SINGLE, {"inputs": {"items": "x"}}, ["data: items changed"]),
        (
            SINGLE,
            {"params": {**SINGLE["params"], "gabor": {"n_scales": 5}}},
            ["parameter features.gabor.n_scales 4 → 5"],
        ),
        (
            {**SINGLE, "inputs": {"training": "a", "learned": "a", "manifest": "a"}},
            {"inputs": {"training": "b", "learned": "b", "manifest": "b"}},
            ["data: training items, what the extractor learned, items or labels changed"],
        ),
    ],
)
def test_blocks_are_named_in_words(
    before: dict[str, Any], change: dict[str, Any], reasons: list[str]
) -> None:
    assert explain(before, {**before, **change}) == reasons
