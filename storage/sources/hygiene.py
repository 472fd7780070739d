"""What looks wrong with the labels of a collection. It is reported, and nothing is changed."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np

from storage.quoting import list_names, quote
from storage.sources.base import Collection, Note

FEW = 5
# Notes of one kind, and names in one note.
_MOST, _NAMES = 10, 8
PLACE = "labels"
_BLANK = re.compile(r"[\s_]+")
_WORDS = re.compile(r"[^\W\d_]+")
# A label that is a typo is at least this many times rarer than the right one.
_RARER = 3
# Letters that the longer of two words must have: one letter left out, doubled or swapped with the next; one
# letter replaced; two letters exchanged; two slips. Shorter words differ by as much and are both right (cat
# and car, horse and house).
_LEFT_OUT, _REPLACED, _EXCHANGED, _TWICE = 5, 6, 7, 9
# Longer names are sentences; more names with one letter changed in the same place are a numbering.
_LONGEST, _SERIES = 60, 20
# With more labels, only one slip is searched for.
_MANY = 2_000


def label_notes(collection: Collection) -> list[Note]:
    """Notes about labels that may be mistakes, at most some dozens.

    Labels that differ only by case or spaces; labels that look like a typo of a more frequent one; labels
    with fewer than five items; files with the same content and different labels.
    """
    counts = (collection.labels == 1).sum(axis=0).tolist()
    known = dict(zip(collection.label_names, counts, strict=True))
    alike, typos = similar_names(known)
    texts = [*_shorten(map(_alike_text, alike)), *_shorten(_typo_text(*pair, known) for pair in typos)]
    texts += _few(known)
    return [*(Note(PLACE, None, text) for text in texts), *_contradictions(collection)]


def similar_names(known: dict[str, int]) -> tuple[list[list[str]], list[tuple[str, str]]]:
    """Names of labels that look alike: groups that differ by case or spaces, and (typo, usual name) pairs.

    Parameters
    ----------
    known : dict of str to int
        Number of items with each label.
    """
    alike = _spelled_alike(known)
    return alike, _typos(known, {frozenset(pair) for names in alike for pair in combinations(names, 2)})


def _shorten(texts: Iterable[str]) -> list[str]:
    found = list(texts)
    rest = [f"and {len(found) - _MOST} more like this"] if len(found) > _MOST else []
    return found[:_MOST] + rest


def _key(name: str) -> str:
    """The same for names that differ only by case or spaces."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    # In "1 0" and "10" the space has a meaning.
    return _BLANK.sub(" " if any(map(str.isdigit, plain)) else "", plain)


def _spelled_alike(names: Iterable[str]) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[_key(name)].append(name)
    # Letters are classes of their own: a is not A.
    return [group for key, group in groups.items() if len(group) > 1 and len(key) > 1]


def _alike_text(names: list[str]) -> str:
    return f"{' and '.join(map(quote, names[:_NAMES]))} differ only by case or spaces; use one of them"


def _typos(known: dict[str, int], alike: set[frozenset[str]]) -> list[tuple[str, str]]:
    """Pairs of a label and the more frequent one that it may be a typo of, the most frequent first."""
    best: dict[str, str] = {}
    for pair in _near_pairs([name for name, count in known.items() if count and len(name) <= _LONGEST]):
        rare, usual = sorted(pair, key=lambda name: known[name])
        if frozenset(pair) in alike or known[rare] * _RARER > known[usual] or not is_slip(rare, usual):
            continue
        if rare not in best or known[best[rare]] < known[usual]:
            best[rare] = usual
    return sorted(best.items(), key=lambda pair: (-known[pair[1]], pair))


def _typo_text(rare: str, usual: str, known: dict[str, int]) -> str:
    return f"{quote(rare)} ({known[rare]}) may be a typo of {quote(usual)} ({known[usual]})"


def _near_pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of names that are equal if at most two letters are left out of each, without comparing all."""
    slips = 1 if len(names) > _MANY else 2
    groups: dict[str, set[str]] = defaultdict(set)
    for name in names:
        folded = name.casefold()
        is_long_enough = _EXCHANGED <= len(folded) <= _LONGEST // 2
        for shorter in _without_letters(folded, slips if is_long_enough else 1):
            groups[shorter].add(name)
    seen: set[tuple[str, str]] = set()
    for group in groups.values():
        if 1 < len(group) <= _SERIES:
            seen.update(combinations(sorted(group), 2))
    yield from sorted(seen)


def _without_letters(text: str, count: int) -> set[str]:
    found = {text}
    for _ in range(count):
        found |= {one[:k] + one[k + 1 :] for one in found for k in range(len(one))}
    return found


def is_slip(first: str, second: str) -> bool:
    """Whether two names differ by a slip in one word: numbers and short words are never slips.

    >>> is_slip("gras", "grass"), is_slip("cat", "car"), is_slip("class1", "class2")
    (True, False, False)
    """
    first, second = first.casefold(), second.casefold()
    if _WORDS.sub("", first) != _WORDS.sub("", second):
        return False
    words = zip(_WORDS.findall(first), _WORDS.findall(second), strict=True)
    other = [(one, two) for one, two in words if one != two]
    return len(other) == 1 and _is_slip_in_word(*other[0])


def _is_slip_in_word(first: str, second: str) -> bool:
    length = max(len(first), len(second))
    if first[0] != second[0]:  # a typo seldom hits the first letter: typical and atypical
        return False
    distance, has_same_letters = _distance(first, second), sorted(first) == sorted(second)
    if distance == 1:
        is_replaced = len(first) == len(second) and not has_same_letters
        return length >= (_REPLACED if is_replaced else _LEFT_OUT)
    return distance == 2 and length >= (_EXCHANGED if has_same_letters else _TWICE)


def _distance(first: str, second: str) -> int:
    """Number of letters to insert, delete, replace or swap with the next (optimal string alignment)."""
    rows = [list(range(len(second) + 1))]
    for i, one in enumerate(first, start=1):
        row = [i]
        for j, two in enumerate(second, start=1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (one != two))
            if i > 1 and j > 1 and one == second[j - 2] and two == first[i - 2]:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


def _few(known: dict[str, int]) -> list[str]:
    few = sorted((count, name) for name, count in known.items() if 0 < count < FEW)
    if not few:
        return []
    names = list_names((f"{quote(name)} ({count})" for count, name in few), _NAMES)
    return [
        f"{len(few)} of {len(known)} labels have fewer than {FEW} items, too few for training and testing: "
        f"{names}; source.min_label_count={FEW} drops them"
    ]


def _contradictions(collection: Collection) -> list[Note]:
    """Notes about labeled files with the same content and different labels."""
    # Rows of a table are often equal.
    counts = Counter(collection.digests if any(part.paths for part in collection.parts) else ())
    groups: dict[str, list[int]] = defaultdict(list)
    for row, digest in enumerate(collection.digests):
        if counts[digest] > 1 and (collection.labels[row] >= 0).all():
            groups[digest].append(row)
    found = [
        rows for rows in groups.values() if (collection.labels[rows] != collection.labels[rows[0]]).any()
    ]
    notes = []
    for rows in found[:_MOST]:
        shown = list_names((f"{quote(collection.ids[k])} ({_labels(collection, k)})" for k in rows), 3)
        text = f"{len(rows)} items have the same content and different labels: {shown}"
        notes.append(Note(collection.ids[rows[0]], None, text))
    if len(found) > _MOST:
        rest = f"and {len(found) - _MOST} more groups of items with the same content and different labels"
        notes.append(Note(PLACE, None, rest))
    return notes


def _labels(collection: Collection, row: int) -> str:
    return list_names((collection.label_names[k] for k in np.flatnonzero(collection.labels[row] == 1)), 3)
