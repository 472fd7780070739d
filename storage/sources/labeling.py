"""Build the label matrix Y from the labels of each item, drop labels and check the rest."""

from __future__ import annotations

import difflib
from collections.abc import Collection as Names
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from storage.errors import SourceError
from storage.limits import check_memory
from storage.quoting import count_of, quote
from storage.sources.base import Note, SourceOptions
from storage.sources.numbers import is_whole

# With more, the K x K label correlation no longer fits into ordinary memory.
MOST_LABELS = 10_000


@dataclass(frozen=True, eq=False)
class Labeling:
    """Label matrix Y (n, K) int8 with rows of -1 for unlabeled items, and the column names."""

    Y: np.ndarray
    names: list[str]
    single_label: bool


def sort_names(names: Iterable[str]) -> list[str]:
    """Sort names alphabetically, or by value if all are integers."""
    distinct = sorted(set(names))
    return sorted(distinct, key=int) if all(map(is_whole, distinct)) else distinct


def check_label_matrix(n: int, labels: int) -> None:
    """Refuse a label matrix that is too large, before it is built.

    The pipeline uses a few copies of Y (n, K) and of the label correlation (K, K).
    """
    if labels > MOST_LABELS:
        raise SourceError(
            f"{n:,} items have {labels:,} different labels; at most {MOST_LABELS:,} can be learned. "
            "Merge or drop rare labels, and check that the labels are not ids or texts."
        )
    needed = 5 * n * labels + 32 * labels * labels
    check_memory(needed, f"a label matrix of {n:,} items and {labels:,} labels")


def label_sets(rows: Sequence[Names[str] | None], *, single_label: bool) -> Labeling:
    """Labeling of items with a set of labels each; None for an unlabeled item."""
    names = sort_names(name for row in rows if row is not None for name in row)
    check_label_matrix(len(rows), len(names))
    column = {name: k for k, name in enumerate(names)}
    Y = np.zeros((len(rows), len(names)), dtype=np.int8)
    for i, row in enumerate(rows):
        if row is None:
            Y[i] = -1
        else:
            Y[i, [column[name] for name in row]] = 1
    return Labeling(Y, names, single_label)


def label_classes(values: Sequence[str | None]) -> Labeling:
    """Labeling of items with one class each; None for an unlabeled item."""
    return label_sets([None if value is None else (value,) for value in values], single_label=True)


def no_labels(n: int) -> Labeling:
    """Labeling of items whose labels are not needed."""
    return Labeling(np.zeros((n, 0), dtype=np.int8), [], single_label=False)


def settle_labels(labeling: Labeling, options: SourceOptions, where: str) -> tuple[Labeling, list[Note]]:
    """Drop labels according to the options and check that enough remain.

    In multi-label data an item whose labels are all dropped stays labeled, with no label. In single-label
    data it becomes unlabeled, because an item without a class cannot be used.
    """
    if not options.labeled:
        return no_labels(len(labeling.Y)), []
    Y, names = labeling.Y, labeling.names
    _check_drop_labels(names, options, where)
    labeled = _labeled_rows(labeling, where)
    has = Y == 1
    counts = has.sum(axis=0)
    dropped = np.array([name in options.drop_labels for name in names], dtype=bool)
    kept = ~dropped & (counts >= options.min_label_count)
    _check_enough(names, kept, options, where)
    notes = _count_notes(names, counts, dropped, options, where)

    Y = np.ascontiguousarray(Y[:, kept])
    emptied = labeled & has.any(axis=1) & ~has[:, kept].any(axis=1)
    if emptied.any():
        fate = "now unlabeled" if labeling.single_label else "still labeled, with no label"
        notes.append(
            Note(where, None, f"{count_of(int(emptied.sum()), 'item')} had dropped labels only, {fate}")
        )
    if labeling.single_label:
        Y[emptied] = -1
    return Labeling(Y, [n for n, k in zip(names, kept, strict=True) if k], labeling.single_label), notes


def _check_drop_labels(names: list[str], options: SourceOptions, where: str) -> None:
    for name in options.drop_labels:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3) or names[:10]
            raise SourceError(
                f"drop_labels names {quote(name)}, which {where} does not have. "
                f"Did you mean {', '.join(map(quote, near))}?"
            )


def _labeled_rows(labeling: Labeling, where: str) -> np.ndarray:
    n = len(labeling.Y)
    if n == 0:
        raise SourceError(f"{where} has no items. Give a source with items, some of them labeled.")
    labeled = np.zeros(n, dtype=bool) if not labeling.names else labeling.Y[:, 0] >= 0
    if not labeled.any():
        raise SourceError(
            f"{where}: none of the {n} items carries a label. Label some of them; not all need labels."
        )
    return labeled


def _check_enough(names: list[str], kept: np.ndarray, options: SourceOptions, where: str) -> None:
    left = [name for name, keep in zip(names, kept, strict=True) if keep]
    if len(left) >= 2:
        return
    found = f"{len(names)} found, {len(names) - len(left)} dropped by drop_labels or min_label_count"
    if not left:
        raise SourceError(
            f"{where}: no label is left ({found}; min_label_count={options.min_label_count}). "
            "Lower min_label_count or drop fewer labels."
        )
    raise SourceError(
        f"{where} has one label only, {quote(left[0])} ({found}), and an embedding needs at least two. "
        "Label items with a second class (for instance 'other'), or drop fewer labels."
    )


def _count_notes(
    names: list[str], counts: np.ndarray, dropped: np.ndarray, options: SourceOptions, where: str
) -> list[Note]:
    notes = []
    for name, count, drop in zip(names, counts.tolist(), dropped, strict=True):
        if drop:
            notes.append(
                Note(
                    where, None, f"label {quote(name)} ({count_of(count, 'item')}) is dropped by drop_labels"
                )
            )
        elif count < options.min_label_count:
            few = (
                f"{count_of(count, 'item')}, min_label_count is {options.min_label_count}"
                if count
                else "no item has it"
            )
            notes.append(Note(where, None, f"label {quote(name)} is dropped: {few}"))
        elif count == 0:
            notes.append(Note(where, None, f"label {quote(name)}: no item has it"))
    return notes
