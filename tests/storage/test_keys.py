"""Keys: one text for one value, one key for one recipe."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.artifacts.keys import ArtifactRef, Recipe, canonical_json
from storage.errors import StoreError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)
BASE = {
    "stage": "affinity",
    "variant": "knn",
    "code": {"embedding_core.graph.affinity": "aa"},
    "params": {"n_neighbors": 10},
    "inputs": {"features": "ff"},
    "schema": 1,
}


def recipe(**changes: object) -> Recipe:
    return Recipe(**{**BASE, **changes})


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(), PLAIN))
def test_the_order_of_names_does_not_matter(value: Mapping[str, object]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))


def test_tuples_are_lists_and_any_mapping_is_a_mapping() -> None:
    value = MappingProxyType({"b": (1, (2.5, None)), "a": MappingProxyType({"x": True})})
    assert canonical_json(value) == '{"a":{"x":true},"b":[1,[2.5,null]]}'


@pytest.mark.parametrize(
    ("value", "error", "place"),
    [
        ({"a": [1, float("nan")]}, ValueError, r"value\.a\[1\]"),
        ({"a": float("inf")}, ValueError, r"value\.a"),
        ({"a": {"b": Path("x")}}, TypeError, r"value\.a\.b"),
        ({1: "a"}, TypeError, "names in keys"),
        ({"a": {1, 2}}, TypeError, r"value\.a"),
        ({"a": b"x"}, TypeError, r"value\.a"),
    ],
)
def test_a_value_without_a_canonical_text_is_refused_with_its_place(
    value: object, error: type, place: str
) -> None:
    with pytest.raises(error, match=place):
        canonical_json(value)


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "features"},
        {"variant": "gaussian"},
        {"code": {"embedding_core.graph.affinity": "ab"}},
        {"params": {"n_neighbors": 11}},
        {"params": {"n_neighbors": 10.0}},
        {"params": {}},
        {"inputs": {"features": "fe"}},
        {"inputs": {"edges": "ff"}},
        {"schema": 2},
    ],
)
def test_every_ingredient_changes_the_key(change: dict[str, object]) -> None:
    assert recipe(**change).key != recipe().key


def test_the_key_stays_as_it_is() -> None:
    """A changed key would make every stored artifact stale: change it knowingly."""
    assert recipe().key == "57cb8daaed1cf0e8745dd607cf060dd117db2e1ddeb0c475c3bfd63c062fa9e0"
    assert recipe(params=MappingProxyType({"n_neighbors": 10})).key == recipe().key


def test_changing_the_callers_dictionary_later_changes_nothing() -> None:
    params = {"weights": ["gaussian"]}
    made = recipe(params=params)
    params["weights"].append("heat")
    assert made.key == recipe(params={"weights": ["gaussian"]}).key
    assert made.ingredients()["params"] == {"weights": ["gaussian"]}


@pytest.mark.parametrize("stage", ["", "../x", "a/b", "locks", "quarantine", "pointers", "Ab", "1a", ".x"])
def test_a_stage_must_be_a_folder_name(stage: str) -> None:
    with pytest.raises(StoreError, match="not a stage name"):
        recipe(stage=stage)


def test_a_reference_survives_json() -> None:
    ref = ArtifactRef("affinity", "a" * 64, "b" * 64, "edges", 7)
    assert ArtifactRef.from_json(ref.to_json()) == ref
    assert hash(ref) == hash(ArtifactRef.from_json(ref.to_json()))


@pytest.mark.parametrize(
    "change", [{"key": "../../x"}, {"key": "a"}, {"digest": 3}, {"stage": ".."}, {"rows": "7"}, {"extra": 1}]
)
def test_a_foreign_reference_is_refused(change: dict[str, object]) -> None:
    content = ArtifactRef("affinity", "a" * 64, "b" * 64, "edges", 7).to_json() | change
    with pytest.raises(StoreError):
        ArtifactRef.from_json(content)
