"""`table:PATH`: features in a table of their own, joined to the items of a collection by id."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from storage.artifacts.regular_files import open_regular
from storage.errors import SourceError
from storage.quoting import count_of, list_names, quote
from storage.sources.array_files import is_sparse
from storage.sources.arrays import SUFFIXES as ARRAY_SUFFIXES
from storage.sources.arrays import ArrayReader
from storage.sources.base import Collection, Part, SourceOptions, digest_rows
from storage.sources.boundary import reading
from storage.sources.columns import ROW_NUMBERS, TABLE_SUFFIXES
from storage.sources.table import TableReader

_LISTED = 5
# How an item and a row of the table find each other, the strictest first.
_NAMES: dict[str, Callable[[str], str]] = {
    "id": lambda name: name,
    "file name": lambda name: PurePosixPath(name).name,
    "file name without ending": lambda name: PurePosixPath(name).stem,
}


@dataclass(frozen=True, eq=False)
class JoinedTable:
    """The features of the items, and in words how they were joined."""

    part: Part
    lines: list[str]
    extra: int


def digest_table(path: Path) -> str:
    """Digest of the bytes of a table."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise SourceError(
            f"table:{path}: the table cannot be read ({error.strerror or error}). Check the path in "
            "features.extractors."
        ) from error


def join_table(
    path: Path, ids: Sequence[str], allow_missing: bool, wanted: Sequence[str] = ()
) -> JoinedTable:
    """Read a table of features and put its rows into the order of some items.

    Parameters
    ----------
    path : Path
        A table with a column of ids, or an .npz file with an array `ids`.
    ids : sequence of n str
        Ids of the items. A file is also found by its name, or its name without ending, where that is unique.
    allow_missing : bool
        Whether items without a row, and missing values, become NaN. Otherwise they are an error.
    wanted : sequence of str
        Names of the features of a model; empty: the columns that are recognized as features.
    """
    try:
        with reading(path):
            found = _read(path, allow_missing, tuple(wanted))
    except SourceError as error:
        if ROW_NUMBERS not in str(error):
            raise
        raise SourceError(str(error).replace(ROW_NUMBERS, "")) from error
    if "id" not in found.recognized:
        why = "; ".join(note.message for note in found.notes if "as id" in note.message)
        raise SourceError(
            f"table:{path} has no ids to join by{f' ({why})' if why else ''}. Call the column with the "
            f"ids of the items `id`; they look like {quote(ids[0] if ids else '')}."
        )
    how, rows = _match(ids, found.ids)
    missing = [name for name, row in zip(ids, rows, strict=True) if row < 0]
    if len(missing) == len(ids):
        raise SourceError(
            f"table:{path}: none of its {len(found.ids)} ids is the id of an item. Its ids look like "
            f"{quote(found.ids[0])}, those of the items like {quote(ids[0])}."
        )
    if missing and not allow_missing:
        raise SourceError(
            f"table:{path} has no row for {len(missing)} of {len(ids)} items: "
            f"{list_names(missing, _LISTED)}. Add the rows, or fill them from the training "
            "rows with --set features.fill=mean."
        )
    used = set(rows)
    extra = [name for row, name in enumerate(found.ids) if row not in used]
    part = _take(found, rows)
    lines = [f"{len(ids) - len(missing)} of {len(ids)} items joined by {how} ({found.recognized['id']})"]
    if missing:
        lines.append(
            f"{count_of(len(missing), 'item')} without a row, to be filled: {list_names(missing, _LISTED)}"
        )
    if extra:
        lines.append(f"{count_of(len(extra), 'row')} of other items: {list_names(extra, _LISTED)}")
    return JoinedTable(part, lines, len(extra))


def _read(path: Path, allow_missing: bool, wanted: tuple[str, ...]) -> Collection:
    options = SourceOptions(path=str(path), labeled=False, allow_missing=allow_missing, wanted=wanted)
    suffix = path.suffix.lower()
    if suffix in TABLE_SUFFIXES:
        return TableReader().open(path, options).read(path.parent)
    if suffix in ARRAY_SUFFIXES and not (suffix == ".npz" and is_sparse(path)):
        return ArrayReader().open(path, options).read(path.parent)
    kinds = ", ".join((*TABLE_SUFFIXES, ".npz"))
    raise SourceError(f"table:{path} is not a table of features; supported: {kinds}.")


def _match(ids: Sequence[str], known: Sequence[str]) -> tuple[str, list[int]]:
    """The way of joining that finds most items, and the row of each item; -1 for none."""
    best: tuple[str, list[int]] = ("id", [-1] * len(ids))
    for how, shorten in _NAMES.items():
        ours, theirs = list(map(shorten, ids)), list(map(shorten, known))
        unique, counts = Counter(ours), Counter(theirs)
        position = {name: row for row, name in enumerate(theirs) if counts[name] == 1}
        rows = [position.get(name, -1) if unique[name] == 1 else -1 for name in ours]
        if sum(row >= 0 for row in rows) > sum(row >= 0 for row in best[1]):
            best = (how, rows)
    return best


def _take(found: Collection, rows: Sequence[int]) -> Part:
    """All blocks of a table side by side, in the order of the items."""
    blocks = [part.X for part in found.parts if isinstance(part.X, np.ndarray)]
    whole = np.hstack(blocks)
    taken = np.array(rows)
    X = whole[taken]
    X[taken < 0] = np.nan
    lists = [
        part.feature_names or [f"{part.name}[{k}]" for k in range(block.shape[1])]
        for part, block in zip(found.parts, blocks, strict=True)
    ]
    names = [name for names in lists for name in names]
    missing = bool(np.isnan(X).any())
    return Part("table", "features", digest_rows(X), X=X, feature_names=names, allows_missing=missing)
