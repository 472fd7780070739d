"""Which items extractors may learn from."""

from collections.abc import Sequence

from storage.sources.base import combine_digests

MAX_ITEMS = 1_000
TRAINING = ("train", "training")
OTHERS = ("test", "testing", "val", "valid", "validation", "dev", "eval", "holdout")


def training_rows(ids: Sequence[str], split: Sequence[str | None] | None) -> list[int]:
    """Rows that an extractor learns from, in the order of the collection.

    If a split for training is stated, its items and those without a split are used, else all but those of a
    split for testing or validation. Of more than `MAX_ITEMS`, a fixed choice by a digest of their ids is
    used, so that most changes of a large collection leave what was learned alone.

    >>> training_rows(["a", "b", "c"], ["train", "Test", ""])
    [0, 2]
    """
    words = [(one or "").strip().lower() for one in split or [""] * len(ids)]
    if any(word in TRAINING for word in words):
        rows = [row for row, word in enumerate(words) if word in ("", *TRAINING)]
    else:
        rows = [row for row, word in enumerate(words) if word not in OTHERS]
    if len(rows) <= MAX_ITEMS:
        return rows
    return sorted(sorted(rows, key=lambda row: combine_digests([ids[row]]))[:MAX_ITEMS])


def training_digest(ids: Sequence[str], digests: Sequence[str], split: Sequence[str | None] | None) -> str:
    """One digest of the ids and contents of the items that extractors learn from."""
    return combine_digests(text for row in training_rows(ids, split) for text in (ids[row], digests[row]))
