"""Suggestions of `review`: a card for each item that looks wrong and that nobody has decided yet."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from tasks.label_care.cards import Card, merge_cards
from tasks.label_care.corrections import EVERYTHING

SUSPECT, DUPLICATE, RULE, UNLIKE = "probable error", "near-duplicate", "against a rule", "unlike all others"
_LEFT_EMPTY = "Accepting this leaves no label, and the item counts as unlabeled until it gets one."
_NO_OTHER = "No other class is suggested: mark the right one if the given one is wrong."
Labels = tuple[str, ...]
Findings = Mapping[str, Any]
Checked = AbstractSet[tuple[str, str]]


def is_decided(name: str, labels: Iterable[str], checked: Checked) -> bool:
    """Whether a person has decided on all of these labels of an item."""
    return (name, EVERYTHING) in checked or all((name, label) in checked for label in labels)


def make_cards(
    found: Findings,
    labels: Mapping[str, Labels | None],
    most: int,
    single_label: bool = False,
    checked: Checked = frozenset(),
) -> list[Card]:
    """The items to decide, the most suspect first.

    Parameters
    ----------
    found : mapping
    labels : mapping of str to tuple of str or None
        The given labels of each item.
    most : int
        Cards of each kind.
    single_label : bool
        Items have one class each, so one is suggested.
    checked : set of (id, label)
        Decisions of a person; cards that ask for nothing else are left out.
    """
    kinds = [
        _suspect_cards(found, labels, single_label),
        (_class_cards if single_label else _duplicate_cards)(found, labels),
        _rule_cards(found, labels),
        _unlike_cards(found, labels),
    ]
    left = [[one for one in cards if not is_decided(one.id, one.checked, checked)] for cards in kinds]
    return merge_cards(card for cards in left for card in cards[:most])


def _suspect_cards(found: Findings, labels: Mapping[str, Labels | None], single_label: bool) -> list[Card]:
    by_item: dict[str, list[Mapping[str, Any]]] = {}
    for one in found["suspects"]:
        by_item.setdefault(one["id"], []).append(one)
    cards = []
    for name, suspects in by_item.items():
        given = labels.get(name)
        if single_label:
            proposed = _likely_class(suspects, found["label_names"]) or given or ()
            note = (_NO_OTHER,) if proposed == given else ()
        else:
            changed = {one["label"] for one in suspects}
            proposed = tuple(
                one for one in found["label_names"] if (one in (given or ())) != (one in changed)
            )
            note = () if proposed else (_LEFT_EMPTY,)
        cards.append(
            Card(
                name,
                SUSPECT,
                given,
                proposed,
                (*map(_suspect_reason, suspects), *note),
                tuple(one["label"] for one in suspects),
                {one["label"]: one["score"] for one in suspects},
            )
        )
    return cards


def _likely_class(suspects: Iterable[Mapping[str, Any]], names: Sequence[str]) -> Labels:
    """The class with the best score among those that may be missing; empty if there is none."""
    missing = [one for one in suspects if one["missing"] and one["label"] in names]
    return (max(missing, key=lambda one: one["score"])["label"],) if missing else ()


def _suspect_reason(one: Mapping[str, Any]) -> str:
    share = f"{one['opposite']:.0%}"
    if one["missing"]:
        return f"{one['label']} may be missing: {share} of the items with such a score carry it."
    return f"{one['label']} may be wrong: {share} of the items with such a score do not carry it."


def _duplicate_cards(found: Findings, labels: Mapping[str, Labels | None]) -> list[Card]:
    """Near-duplicates with different labels: each may have the labels of all of them."""
    cards = []
    for given in _contradictions(found, labels):
        union = {label for one in given.values() for label in one or ()}
        proposed = tuple(label for label in found["label_names"] if label in union)
        cards += [
            _duplicate_card(name, given, proposed, union - set(own))
            for name, own in given.items()
            if own is not None and set(own) != union
        ]
    return cards


def _class_cards(found: Findings, labels: Mapping[str, Labels | None]) -> list[Card]:
    """Near-duplicates of different classes: each may have the most frequent class of the others.

    Items whose class is the most frequent one of their group get no card.
    """
    cards = []
    for given in _contradictions(found, labels):
        counts = Counter(label for one in given.values() for label in one or ())
        for name, own in given.items():
            others = [label for label, _ in counts.most_common() if label not in (own or ())]
            if own is None or not others or any(counts[label] > counts[others[0]] for label in own):
                continue
            cards.append(_duplicate_card(name, given, (others[0],), set(others)))
    return cards


def _contradictions(
    found: Findings, labels: Mapping[str, Labels | None]
) -> Iterable[dict[str, Labels | None]]:
    """Groups of near-duplicates with different labels, as the labels of each item."""
    return ({name: labels.get(name) for name in one["ids"]} for one in found["duplicates"] if one["differ"])


def _duplicate_card(
    name: str, given: Mapping[str, Labels | None], proposed: Labels, changed: AbstractSet[str]
) -> Card:
    others = tuple(other for other in given if other != name)
    reasons = tuple(
        f"Very similar to {other}, which has {', '.join(given[other] or ()) or 'no label'}."
        for other in others[:3]
        if given[other] is not None
    )
    return Card(name, DUPLICATE, given[name], proposed, reasons, tuple(sorted(changed)), others=others)


def _rule_cards(found: Findings, labels: Mapping[str, Labels | None]) -> list[Card]:
    cards = []
    for pair in found["pairs"]:
        first, second = pair["first"], pair["second"]
        for name in pair["exceptions"]:
            given = labels.get(name) or ()
            if pair["kind"] == "always":
                wanted = {*given, second}
                text = f"It has {first} and not {second}; nearly all items with {first} have both."
            else:
                wanted = set(given)
                text = f"It has {first} and {second}, which almost never occur together."
            proposed = tuple(label for label in found["label_names"] if label in wanted)
            cards.append(Card(name, RULE, labels.get(name), proposed, (text,), (first, second)))
    return cards


def _unlike_cards(found: Findings, labels: Mapping[str, Labels | None]) -> list[Card]:
    return [
        Card(
            one["id"],
            UNLIKE,
            labels.get(one["id"]),
            labels.get(one["id"]) or (),
            (f"It lies {one['times']:.1f} times as far from its nearest items as usual.",),
        )
        for one in found["unlike"]
    ]
