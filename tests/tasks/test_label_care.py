"""Suggestions of a review: one class where items have one, and no decision asked twice; queues."""

from typing import Any

import numpy as np
import pytest

from storage.artifacts.annotations import Annotations
from tasks.label_care.queue import error_queue, make_queue, unlike_queue
from tasks.label_care.review import page_tables, without_checked
from tasks.label_care.suggestions import DUPLICATE, RULE, SUSPECT, UNLIKE, make_cards

NAMES = ["blue", "green", "red"]


def suspect(name: str, label: str, missing: bool, score: float = 0.5) -> dict[str, Any]:
    return {"id": name, "label": label, "missing": missing, "opposite": 0.9, "score": score}


def group(*ids: str, **given: Any) -> dict[str, Any]:
    known = {"ids": list(ids), "size": len(ids), "labeled": len(ids), "differ": True, "exact": False}
    return {**known, **given}


def findings(**given: Any) -> dict[str, Any]:
    suspects = given.get("suspects", [])
    counts: dict[str, list[int]] = {}
    for one in suspects:
        counts.setdefault(one["label"], [0, 0])[int(one["missing"])] += 1
    empty: dict[str, Any] = {"suspects": [], "duplicates": [], "pairs": [], "unlike": [], "names": []}
    totals = {"suspects_total": len(suspects), "suspects_by_label": counts, "duplicates_total": 0}
    return {"label_names": NAMES, **empty, **totals, **given}


@pytest.mark.parametrize(
    ("suspects", "expected"),
    [
        ([suspect("a", "red", True)], ("red",)),
        ([suspect("a", "red", True, 0.4), suspect("a", "green", True, 0.6)], ("green",)),
        ([suspect("a", "blue", False), suspect("a", "red", True)], ("red",)),
        ([suspect("a", "blue", False)], ("blue",)),
        ([suspect("a", "unknown", True)], ("blue",)),
    ],
)
def test_one_class_is_suggested_for_a_suspect(
    suspects: list[dict[str, Any]], expected: tuple[str, ...]
) -> None:
    (card,) = make_cards(findings(suspects=suspects), {"a": ("blue",)}, 9, single_label=True)
    assert card.proposed == expected
    assert any("No other class" in reason for reason in card.why) == (expected == ("blue",))


def test_several_labels_are_changed_where_items_have_several() -> None:
    suspects = [suspect("a", "red", True), suspect("a", "green", True), suspect("a", "blue", False)]
    (card,) = make_cards(findings(suspects=suspects), {"a": ("blue",)}, 9)
    assert card.proposed == ("green", "red")


def test_the_class_of_the_other_item_is_suggested_for_near_duplicates() -> None:
    found = findings(duplicates=[group("a", "b"), group("c", "d", "e", "f")])
    labels: dict[str, tuple[str, ...] | None] = {"a": ("blue",), "b": ("red",), "f": None}
    labels |= {"c": ("red",), "d": ("green",), "e": ("red",)}
    cards = make_cards(found, labels, 9, single_label=True)
    # d is the only one of its group that is not of its most frequent class
    assert {card.id: card.proposed for card in cards} == {"a": ("red",), "b": ("blue",), "d": ("red",)}
    assert {card.id: card.checked for card in cards} == {"a": ("red",), "b": ("blue",), "d": ("red",)}
    several = make_cards(found, labels, 9)
    assert {card.id: card.proposed for card in several}["a"] == ("blue", "red")


def test_what_was_decided_is_not_asked_again() -> None:
    pair = {"kind": "always", "first": "blue", "second": "green", "both": 9, "expected": 1.0}
    found = findings(
        suspects=[suspect("a", "red", True), suspect("b", "red", True)],
        duplicates=[group("a", "b")],
        pairs=[{**pair, "exceptions": ["c", "d"]}],
        unlike=[{"id": "e", "times": 3.0}, {"id": "f", "times": 2.5}],
    )
    labels = {"a": ("blue",), "b": ("green",), "c": ("blue",), "d": ("blue",), "e": (), "f": ()}

    def kinds(checked: set[tuple[str, str]], most: int = 9) -> set[tuple[str, str]]:
        left = without_checked(found, checked)
        return {(card.id, card.kind) for card in make_cards(left, labels, most, checked=checked)}

    rest = {("c", RULE), ("d", RULE), ("e", UNLIKE), ("f", UNLIKE)}
    assert kinds(set()) == {("a", SUSPECT), ("b", SUSPECT), *rest}
    assert kinds({("a", "red")}) == {("a", DUPLICATE), ("b", SUSPECT), *rest}
    assert kinds({("a", "red"), ("a", "green")}) == {("b", SUSPECT), *rest}
    assert kinds({("c", "blue")}) == kinds(set()), "green of c is not decided"
    decided = {("c", "blue"), ("c", "green"), ("e", "*"), ("b", "*")}
    assert kinds(decided) == {("a", SUSPECT), ("d", RULE), ("f", UNLIKE)}
    assert kinds(decided, most=1) == kinds(decided), "decided cards take no place of others"


def test_the_table_of_labels_agrees_with_the_number_of_suspects() -> None:
    suspects = [suspect("a", "red", True), suspect("b", "red", False), suspect("b", "blue", False)]
    found = without_checked(findings(suspects=suspects), {("a", "red"), ("b", "blue")})
    assert found["suspects_total"] == 1
    assert page_tables(found)[0].rows == (("red", "1", "0"),)
    pairs = "Labels that always or never occur together"
    assert [pairs in {one.title for one in page_tables(found, single)} for single in (False, True)] == [1, 0]


def test_labels_of_near_duplicates_are_compared_only_where_two_have_some() -> None:
    groups = [
        group("a", "b"),
        group("c", "d", differ=False),
        group("e", "f", differ=False, labeled=1),
        group("g", "h", differ=False, labeled=0),
    ]
    table = page_tables(findings(duplicates=groups, duplicates_total=4))[1]
    assert [row[1] for row in table.rows] == ["differ", "equal", "one labeled", "none labeled"]


def test_probable_errors_are_spread_over_the_collection_and_a_random_sample_is_not() -> None:
    places = np.array([[0.0], [0.01], [0.02], [0.03], [9.0], [0.04], [-7.0], [0.05]])
    suspects = [suspect(str(row), "red", True) for row in range(8)]
    labels: dict[str, tuple[str, ...] | None] = {str(row): ("blue",) for row in range(8)}
    cards = make_cards(findings(suspects=suspects), labels, 8)
    queue = error_queue(cards, 3, lambda rows: places[rows])
    assert [card.id for card in queue.cards] == ["0", "4", "6"]
    assert [card.id for card in error_queue(cards, 8, lambda rows: places[rows]).cards] == list("01234567")

    scores = np.linspace(0.4, 0.6, 40)[:, None]
    found = Annotations([f"i{row}" for row in range(40)], ["red"], scores > 0.5, scores, np.array([0.5]))

    def refuse(rows: Any) -> Any:
        raise AssertionError("a random sample is not spread")

    drawn = make_queue("random", found, {"red": 3}, 5, refuse)
    assert len({card.id for card in drawn.cards}) == 5
    line = make_queue("closest", found, {"red": 3}, 2, lambda rows: np.asarray(rows)[:, None] * 1.0)
    assert [card.id for card in line.cards] == [
        "i19",
        "i23",
    ]  # of eight nearest to 0.5, the first and the farthest


def test_items_as_near_as_labeled_ones_are_not_unlike_them() -> None:
    scores = np.full((8, 1), 0.5)
    found = Annotations([f"i{row}" for row in range(8)], ["red"], scores > 0.4, scores, np.array([0.4]))
    places = np.array([[0.0], [0.1], [5.0], [0.2], [90.0], [-90.0], [70.0], [-70.0]])
    novelty = np.array([1.0, 1.0, 0.9, 0.8, 0.4, 0.3, 0.2, 0.1])

    def queue(count: int) -> list[str]:
        made = unlike_queue(found, np.arange(8), novelty, count, lambda rows: places[rows])
        return [card.id for card in made.cards]

    assert queue(2) == ["i0", "i2"]  # spread out, though not to the far ones
    assert queue(6) == [f"i{row}" for row in range(6)]  # as many as are asked for
