"""What every data reader takes and gives."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from storage.errors import SourceError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

KINDS = ("auto", "images", "table", "arff", "sparse", "builtin")
BUILTIN_NAMES = ("demo", "digits", "iris", "wine", "torus", "clusdat", "three_suns")
UNDERSTOOD = (
    "a folder of images with labels.csv, metadata.csv/.jsonl/.parquet or one sub-folder a class; "
    "a .parquet or .csv table with columns f0, f1, ... and label:<name> or class; "
    "a Mulan .arff (with its .xml); a sparse .npz with *_labels.parquet beside it; "
    "or a built-in set: " + ", ".join(BUILTIN_NAMES)
)
# A folder with a hundred thousand files and a short label file would bury the notes that matter.
LISTED_NOTES = 100


@dataclass(frozen=True)
class SourceOptions:
    """Where the data are and how to read them.

    Parameters
    ----------
    path : str
        A folder, a file, or the name of a built-in set. A folder that happens to bear the name of a
        built-in set is reached as ``./iris``.
    kind : str
        One of `KINDS`; "auto" recognizes the source by what it is.
    labels : str or None
        Image folder: the label file. ARFF: the XML file, or the name of the class attribute. Sparse
        text: the table of labels. Table: the column that holds the class.
    label_separator : str
        Between the labels of one cell.
    strict : bool
        Label entries without a file, files without an entry, repeated entries and files of unknown kind
        are errors rather than notes.
    min_label_count : int
        Labels that fewer items carry are left out.
    drop_labels : tuple of str
        Labels to leave out.
    """

    path: str = "demo"
    kind: str = "auto"
    labels: str | None = None
    label_separator: str = "|"
    strict: bool = False
    min_label_count: int = 1
    drop_labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Note:
    """An oddity that did not stop the reading.

    `row` is the line of a text file (the header is line 1) or the data row of a table, from 1.
    """

    file: str
    row: int | None
    message: str


@dataclass(frozen=True, eq=False)
class Collection:
    """Items with their labels.

    Attributes
    ----------
    kind : str
        "images" (see `paths`) or the kind of the source that gave `X`.
    ids, digests : list of str
        Name and content digest of each item; `digests` cover images or feature rows, not labels.
    labels : ndarray of int8, shape (n, K)
        0/1, whole rows of -1 where an item is unlabeled.
    split : list of str or None
        As the source states it, "" where it states none.
    X : ndarray of float32 or csr_array of float32, shape (n, p), or None
    """

    kind: str
    ids: list[str]
    digests: list[str]
    labels: np.ndarray
    label_names: list[str]
    split: list[str] | None
    single_label: bool
    paths: list[Path] | None
    X: np.ndarray | csr_array | None
    feature_names: list[str] | None
    notes: list[Note]


class Source(Protocol):
    """A recognized source; opening it reads no data."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> SourceOptions: ...

    def digest(self, cache_dir: Path) -> str:
        """Digest of the content of everything `read` reads; cheap when nothing changed."""
        ...

    def read(self, cache_dir: Path) -> Collection: ...


def combine_digests(parts: Iterable[str]) -> str:
    """One digest of a sequence of texts; lengths are hashed too, so that no two sequences collide."""
    texts = list(parts)
    whole = "".join(texts)
    if whole.isascii():  # in one go: ten thousand names are joined often
        data, sizes = whole.encode("ascii"), map(len, texts)
    else:
        encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
        data, sizes = b"".join(encoded), map(len, encoded)
    return hashlib.blake2b(struct.pack(f"<{len(texts)}q", *sizes) + data, digest_size=16).hexdigest()


def digest_rows(X: np.ndarray) -> list[str]:
    """Digest of each row of a dense matrix."""
    X = np.ascontiguousarray(X)
    return [hashlib.blake2b(row.data, digest_size=16).hexdigest() for row in X]


def limit_notes(notes: Sequence[Note], limit: int = LISTED_NOTES) -> list[Note]:
    """The first notes of one sort, then a last one that counts the rest."""
    if len(notes) <= limit:
        return list(notes)
    rest = f"and {len(notes) - limit} more like this: {notes[limit - 1].message}"
    return [*notes[:limit], Note(notes[limit].file, None, rest)]


def refuse_if_strict(notes: Sequence[Note], options: SourceOptions) -> None:
    """Turn the first oddity into an error when the options ask for it."""
    if not (options.strict and notes):
        return
    first = notes[0]
    where = first.file if first.row is None else f"{first.file}, line {first.row}"
    raise SourceError(
        f"{where}: {first.message} ({len(notes)} oddities in all, refused because strict is on). "
        "Mend the source, or turn strict off to have them listed instead."
    )
