"""From the labels of each item to the matrix Y: which labels stay, and what is odd about them."""

from __future__ import annotations

import difflib
from collections.abc import Collection as Names
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from storage.errors import SourceError
from storage.sources.base import Note, SourceOptions


@dataclass(frozen=True, eq=False)
class Labeling:
    """Y (n, K) int8 with whole rows of -1 for unlabeled items, and the names of its columns."""

    Y: np.ndarray
    names: list[str]
    single_label: bool


def sort_names(names: Iterable[str]) -> list[str]:
    """Names in alphabetical order, or by value where all are whole numbers."""
    distinct = sorted(set(names))
    try:
        return sorted(distinct, key=int)
    except ValueError:
        return distinct


def label_sets(rows: Sequence[Names[str] | None], *, single_label: bool) -> Labeling:
    """Labeling of items that each have some labels, or None where they are unlabeled."""
    names = sort_names(name for row in rows if row is not None for name in row)
    column = {name: k for k, name in enumerate(names)}
    Y = np.zeros((len(rows), len(names)), dtype=np.int8)
    for i, row in enumerate(rows):
        if row is None:
            Y[i] = -1
        else:
            Y[i, [column[name] for name in row]] = 1
    return Labeling(Y, names, single_label)


def label_classes(values: Sequence[str | None]) -> Labeling:
    """Labeling of items that each have one class, or None where they are unlabeled."""
    return label_sets([None if value is None else (value,) for value in values], single_label=True)


def settle_labels(labeling: Labeling, options: SourceOptions, where: str) -> tuple[Labeling, list[Note]]:
    """Leave out the labels the options ask to leave out and check that something can be learnt.

    In multi-label data an item all of whose labels are left out stays labeled, with none of the rest.
    In single-label data it becomes unlabeled, since its row would be no class at all.
    """
    Y, names = labeling.Y, labeling.names
    _check_drop_labels(names, options, where)
    labeled = _labeled_rows(labeling, where)
    counts = (Y == 1).sum(axis=0)
    dropped = np.array([name in options.drop_labels for name in names], dtype=bool)
    kept = ~dropped & (counts >= options.min_label_count)
    _check_enough(names, kept, options, where)
    notes = _count_notes(names, counts, dropped, options, where)

    Y = np.ascontiguousarray(Y[:, kept])
    emptied = labeled & (labeling.Y == 1).any(axis=1) & ~(Y == 1).any(axis=1)
    if emptied.any():
        fate = "they count as unlabeled" if labeling.single_label else "they stay, with no label"
        notes.append(Note(where, None, f"{emptied.sum()} items had left-out labels only; {fate}"))
    if labeling.single_label:
        Y[emptied] = -1
    return Labeling(Y, [n for n, k in zip(names, kept, strict=True) if k], labeling.single_label), notes


def _check_drop_labels(names: list[str], options: SourceOptions, where: str) -> None:
    for name in options.drop_labels:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3) or names[:10]
            raise SourceError(
                f"drop_labels names {name!r}, which {where} does not have. "
                f"Did you mean {', '.join(map(repr, near))}?"
            )


def _labeled_rows(labeling: Labeling, where: str) -> np.ndarray:
    n = len(labeling.Y)
    if n == 0:
        raise SourceError(f"{where} has no items. Give a source with items, some of them labeled.")
    labeled = np.zeros(n, dtype=bool) if not labeling.names else labeling.Y[:, 0] >= 0
    if not labeled.any():
        raise SourceError(
            f"{where}: none of the {n} items carries a label. Label some of them; the rest may stay empty."
        )
    return labeled


def _check_enough(names: list[str], kept: np.ndarray, options: SourceOptions, where: str) -> None:
    left = [name for name, keep in zip(names, kept, strict=True) if keep]
    if len(left) >= 2:
        return
    found = f"{len(names)} found, {len(names) - len(left)} left out by drop_labels or min_label_count"
    if not left:
        raise SourceError(
            f"{where}: no label is left ({found}; min_label_count={options.min_label_count}). "
            "Lower min_label_count or drop fewer labels."
        )
    raise SourceError(
        f"{where} has one label only, {left[0]!r} ({found}), and one label alone cannot be embedded: "
        "there is nothing to tell it from. Label items with a second class (for instance 'other'), "
        "or leave out fewer labels."
    )


def _count_notes(
    names: list[str], counts: np.ndarray, dropped: np.ndarray, options: SourceOptions, where: str
) -> list[Note]:
    notes = []
    for name, count, drop in zip(names, counts.tolist(), dropped, strict=True):
        if drop:
            notes.append(Note(where, None, f"label {name!r} ({count} items) is left out by drop_labels"))
        elif count < options.min_label_count:
            few = f"{count} items, min_label_count is {options.min_label_count}" if count else "nobody has it"
            notes.append(Note(where, None, f"label {name!r} is left out: {few}"))
        elif count == 0:
            notes.append(Note(where, None, f"label {name!r}: nobody has it"))
        elif count == 1:
            notes.append(
                Note(where, None, f"label {name!r} has one item; it cannot be both learnt and tested")
            )
    return notes
