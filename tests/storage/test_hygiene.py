"""Label hygiene: what looks like a mistake is reported, what is merely similar is not."""

import random
import string
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.sources import Collection
from storage.sources.base import Part, given_features
from storage.sources.hygiene import _distance, _near_pairs, is_slip, label_notes


def collect(rows: list[set[str] | None], digests: list[str] | None = None) -> Collection:
    """A collection with these labels; None is an unlabeled item."""
    names = sorted({name for row in rows for name in row or ()})
    labels = np.array([[-1 if row is None else int(n in row) for n in names] for row in rows], dtype=np.int8)
    ids = [f"{k}.jpg" for k in range(len(rows))]
    return Collection(
        kind="images",
        ids=ids,
        parts=(Part("images", "images", digests or ids, paths=[Path(name) for name in ids]),),
        labels=labels,
        label_names=names,
        split=None,
        single_label=False,
        notes=[],
    )


def messages(counts: dict[str, int]) -> list[str]:
    """The messages for labels with these counts, one label per item."""
    return [note.message for note in label_notes(collect([{n} for n, c in counts.items() for _ in range(c)]))]


def test_labels_that_differ_by_case_or_spaces() -> None:
    found = messages(
        {"Sky": 6, "sky": 9, "sky ": 5, "polar bear": 5, "polar_bear": 7, "PolarBear": 5, "sea": 5}
    )
    assert found == [
        "'PolarBear' and 'polar bear' and 'polar_bear' differ only by case or spaces; use one of them",
        "'Sky' and 'sky' and 'sky ' differ only by case or spaces; use one of them",
    ]


@pytest.mark.parametrize(
    ("rare", "usual"),
    [
        ("gras", "grass"),
        ("buidling", "building"),
        ("bycicle", "bicycle"),
        ("helicoptor", "helicopter"),
        ("red flwoer", "red flower"),
        ("Grasss", "grass"),
        ("fotografer", "fotographer"),
    ],
)
def test_a_typo_of_a_more_frequent_label(rare: str, usual: str) -> None:
    found = messages({rare: 5, usual: 15, "other": 9})
    assert found == [f"{rare!r} (5) may be a typo of {usual!r} (15)"]


@pytest.mark.parametrize(
    ("rare", "usual"),
    [
        ("cat", "car"),
        ("boat", "coat"),
        ("horse", "house"),
        ("woman", "women"),
        ("class1", "class2"),
        ("class 10", "class 1"),
        ("1000000", "1000001"),
        ("grade A", "grade B"),
        ("a", "A"),
        ("1 0", "10"),
        ("-1", "1"),
        ("typical", "atypical"),
        ("positive", "negative"),
        ("indoor", "outdoor"),
        ("left hand", "left foot"),
    ],
)
def test_labels_that_are_merely_similar(rare: str, usual: str) -> None:
    assert messages({rare: 5, usual: 50, "other": 9}) == []


def test_an_equally_frequent_label_is_no_typo() -> None:
    assert messages({"grass": 14, "gras": 5}) == []
    assert messages({"grass": 15, "gras": 5}) != []


def test_a_series_of_names_is_no_typo() -> None:
    assert (
        messages({f"sector{letter}": 20 if letter == "a" else 5 for letter in string.ascii_lowercase}) == []
    )


def test_labels_with_few_items_are_one_note() -> None:
    found = messages({"sky": 9, "sea": 5, "hut": 1, "ice": 4})
    assert found == [
        "2 of 4 labels have fewer than 5 items, too few for training and testing: 'hut' (1), 'ice' (4); "
        "source.min_label_count=5 drops them"
    ]


def test_the_same_picture_with_different_labels() -> None:
    rows: list[set[str] | None] = [{"sky"}, {"sea"}, {"sky"}, {"sky"}, None, {"sky", "sea"}]
    found = label_notes(collect(rows * 5, [d for k in range(5) for d in (f"a{k}", f"a{k}", *"bbbc")]))
    contradictions = [note for note in found if "same content" in note.message]
    assert [note.file for note in contradictions] == ["0.jpg", "6.jpg", "12.jpg", "18.jpg", "24.jpg"]
    assert contradictions[0].message == (
        "2 items have the same content and different labels: '0.jpg' (sky), '1.jpg' (sea)"
    )


def test_equal_rows_of_a_table_are_no_contradiction() -> None:
    pictures = collect([{"sky"}, {"sea"}] * 5, ["same"] * 10)
    table = replace(pictures, parts=given_features(np.ones((10, 2), np.float32), pictures.digests, None))
    assert len(label_notes(pictures)) == 1
    assert label_notes(table) == []


def test_equal_labels_and_unlabeled_copies_are_no_contradiction() -> None:
    rows: list[set[str] | None] = [{"sky"}, {"sky"}, None] * 5 + [{"sea"}] * 5
    assert label_notes(collect(rows, ["same"] * 15 + list("abcde"))) == []


@pytest.mark.slow
def test_a_bad_collection_gives_some_dozens_of_notes() -> None:
    rng = random.Random(3)
    words = ["".join(rng.choices(string.ascii_lowercase, k=8)) for _ in range(200)]
    rows: list[set[str] | None] = [
        {name} for word in words for name in [word] * 6 + [word + word[-1], word.upper()]
    ]
    rows += [{words[0]}, {words[1]}] * 30
    found = label_notes(collect(rows, [str(k) for k in range(1600)] + [f"d{k // 2}" for k in range(60)]))
    assert 20 < len(found) < 40
    assert all(len(note.message) < 700 for note in found)


def test_an_item_without_labels_is_accepted() -> None:
    assert label_notes(collect([None, None])) == []


def literal_distance(a: str, b: str) -> int:
    """The textbook recursion."""
    if not a or not b:
        return len(a) + len(b)
    costs = [literal_distance(a[1:], b) + 1, literal_distance(a, b[1:]) + 1]
    costs.append(literal_distance(a[1:], b[1:]) + (a[0] != b[0]))
    if len(a) > 1 and len(b) > 1 and a[:2] == b[1::-1]:
        costs.append(literal_distance(a[2:], b[2:]) + 1)
    return min(costs)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(a=st.text("ab", max_size=5), b=st.text("ab", max_size=5))
def test_the_distance_is_that_of_the_recursion(a: str, b: str) -> None:
    assert _distance(a, b) == literal_distance(a, b)


@settings(max_examples=30, derandomize=True, deadline=None, database=None)
@given(names=st.lists(st.text("abcde", min_size=3, max_size=10), max_size=8, unique=True))
def test_every_slip_is_among_the_pairs_that_are_compared(names: list[str]) -> None:
    compared = {frozenset(pair) for pair in _near_pairs(names)}
    slips = {frozenset((a, b)) for a in names for b in names if a != b and is_slip(a, b)}
    assert slips <= compared
