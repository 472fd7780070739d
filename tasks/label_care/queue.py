"""What to label next: a queue of items, each with a reason, spread over the collection."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.annotations import Annotations
from storage.quoting import count_of
from tasks.annotation.files import Margins
from tasks.label_care.cards import Card
from tasks.label_care.suggestions import SUSPECT

KINDS: Mapping[str, str] = {
    "random": "a random sample; no other order is reliably better, and forecast and promise stay valid",
    "closest": "items whose labels are closest to being decided otherwise; measured on four sets they were "
    "worth nothing over random (RESULTS.md), and the labeled items are no random sample any more",
    "confirm": "predictions of rare labels to confirm or reject; finds more carriers of them",
    "errors": "labeled items with probable label errors; improves the labels, adds none",
    "unlike": "items unlike all labeled ones; shows what the model has never seen",
}
Order = NDArray[np.intp]
# Items that are not more isolated than this share of the labeled ones are not unlike them.
_TYPICAL = 0.5


@dataclass(frozen=True)
class Queue:
    """Items to label: cards in their order, and what this kind of queue is for."""

    kind: str
    cards: Sequence[Card]

    @property
    def purpose(self) -> str:
        """What items of this kind are for."""
        return KINDS[self.kind]


def make_queue(
    kind: str,
    found: Annotations,
    carriers: Mapping[str, int],
    count: int,
    place: Callable[[Order], Any],
) -> Queue:
    """Choose unlabeled items by their predictions.

    Parameters
    ----------
    kind : str
        "random", "closest" or "confirm".
    found : Annotations
        Predictions for the unlabeled items.
    carriers : mapping of str to int
        Labeled items with each label.
    count : int
    place : callable
        Returns the coordinates (m, r) of some of the items.
    """
    order, reasons = _ORDERS[kind](found, carriers)
    if kind != "random":  # spread out, it would not be a random sample
        order = _spread(order, count, place)
    cards = [_card(kind, found, row, reasons(row)) for row in order[:count].tolist()]
    return Queue(kind, cards)


def unlike_queue(
    found: Annotations, order: Order, novelty: NDArray[np.float64], count: int, place: Callable[[Order], Any]
) -> Queue:
    """Choose among the unlabeled items that are most unlike the labeled ones.

    Parameters
    ----------
    found : Annotations
        Predictions for the unlabeled items.
    order, novelty : ndarrays of shape (m,)
        The most unlike items first; `pool_size(count)` of them if there are as many.
    count : int
    place : callable
        Returns the coordinates (m, r) of some of the items.
    """
    share = dict(zip(order.tolist(), novelty.tolist(), strict=True))
    order = order[: max(count, int((novelty > _TYPICAL).sum()))]
    cards = [
        _card("unlike", found, row, f"It is more isolated than {share[row]:.0%} of the labeled items.")
        for row in _spread(order, count, place).tolist()
    ]
    return Queue("unlike", cards)


def error_queue(cards: Sequence[Card], count: int, place: Callable[[Order], Any]) -> Queue:
    """The labeled items that are probably labeled wrong, from the cards of a review.

    Parameters
    ----------
    cards : sequence of Card
        The most suspect first; `pool_size(count)` of them if there are as many.
    count : int
    place : callable
        Returns the coordinates (m, r) of the items of some of the suspect cards, by their places among them.
    """
    suspects = [card for card in cards if card.kind == SUSPECT]
    chosen = _spread(np.arange(len(suspects)), count, place)
    return Queue("errors", [suspects[row] for row in chosen.tolist()])


def pool_size(count: int) -> int:
    """Items among which a queue of this length is spread out."""
    from embedding_core.label_care.spread import POOL

    return POOL * count


def _spread(order: Order, count: int, place: Callable[[Order], Any]) -> Order:
    """Items of the beginning of a ranking that are spread over the collection."""
    from embedding_core.label_care.spread import spread_out

    if len(order) <= count:
        return order
    pool = order[: pool_size(count)]
    return pool[spread_out(np.arange(len(pool)), place(pool), count)]


def _card(kind: str, found: Annotations, row: int, reason: str) -> Card:
    names = found.label_names
    proposed = tuple(name for name, given in zip(names, found.labels[row], strict=True) if given)
    scores = {name: float(score) for name, score in zip(names, found.scores[row], strict=True)}
    return Card(found.ids[row], kind, None, proposed, (reason,), scores=scores)


def _random(found: Annotations, carriers: Mapping[str, int]) -> tuple[Order, Callable[[int], str]]:
    # Uniform: promise and forecast rest on it. The same sample until answers come in.
    order = np.random.default_rng(len(found.ids)).permutation(len(found.ids))
    return order, lambda row: "Drawn at random."


def _closest(found: Annotations, carriers: Mapping[str, int]) -> tuple[Order, Callable[[int], str]]:
    margins = Margins(found)

    def reason(row: int) -> str:
        doubt = margins.doubts[row]
        side = "above" if doubt.margin > 0 else "below"
        gap = max(abs(doubt.margin), 0.001)
        few = "less than" if gap > abs(doubt.margin) else "only"
        return f"{found.label_names[doubt.label]} is {few} {gap:.3f} {side} its threshold."

    return np.array(margins.order, dtype=np.intp), reason


def _confirm(found: Annotations, carriers: Mapping[str, int]) -> tuple[Order, Callable[[int], str]]:
    counts = np.array([carriers.get(name, 0) for name in found.label_names])
    rare = counts <= np.median(counts)
    chosen: dict[int, tuple[tuple[int, int], int]] = {}
    for label in np.flatnonzero(rare).tolist():
        rows = np.flatnonzero(found.labels[:, label])
        ranked = rows[np.argsort(-found.scores[rows, label], kind="stable")]
        for rank, row in enumerate(ranked.tolist()):
            key = (rank, int(counts[label]))
            if row not in chosen or key < chosen[row][0]:
                chosen[row] = key, label
    order = sorted(chosen, key=lambda row: (chosen[row][0], row))

    def reason(row: int) -> str:
        label = chosen[row][1]
        name, score = found.label_names[label], found.scores[row, label]
        cut = "" if found.thresholds is None else f", threshold {found.thresholds[label]:.2f}"
        known = count_of(carriers.get(name, 0), "labeled item has", "labeled items have")
        return f"{name} is predicted (score {score:.2f}{cut}); {known} it."

    return np.array(order, dtype=np.intp), reason


_ORDERS: dict[str, Callable[[Annotations, Mapping[str, int]], tuple[Order, Callable[[int], str]]]] = {
    "random": _random,
    "closest": _closest,
    "confirm": _confirm,
}
