"""The contract of data readers: options in, a collection of items with labels out."""

from __future__ import annotations

import hashlib
import re
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from storage.errors import SourceError
from storage.paths import expand_path
from storage.quoting import count_of, quote

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from storage.sources.media import Medium

Content = Literal["images", "sound", "text", "features"]
# Maximum number of listed notes of one kind; a folder of 100,000 images with a short label file has many.
LISTED_NOTES = 100
# Characters of a label, and of an id, which may be a path.
LONGEST_NAME, LONGEST_PATH = 1_000, 4_096
_SURROGATE = re.compile(r"[\x00\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class SourceOptions:
    """Where the data are and how to read them.

    Parameters
    ----------
    path : str
        A folder, a file or the name of a built-in set. Write ``./iris`` for a folder that has the name of a
        built-in set.
    kind : str
        Kind of a registered reader, or "auto" to recognize the source by its content.
    labels : str or None
        Image folder: the label file. ARFF: the XML file, or the name of the class attribute. Sparse
        text and arrays: the table of labels. Table: the column that holds the class, or columns and patterns
        separated by commas, or a table of labels.
    label_separator : str
        Separates the labels of one cell.
    strict : bool
        Label entries without a file, files without an entry, repeated entries and files of unknown kind
        are errors instead of notes.
    min_label_count : int
        Labels with fewer items are dropped.
    drop_labels : tuple of str
        Labels to drop.
    text : str or None
        Table: the column with the texts, if it has another name than usual.
    every_seconds : float
        Video: time between two key frames.
    labeled : bool
        False reads items without labels, for annotation: labels need not exist and are not read.
    id, split : str or None
        Columns of a table; recognized by name if None. The id "none" means row numbers.
    features, ignore : tuple of str
        Columns of a table by name or pattern (`f*`); recognized by content if empty.
    categorical : {"ignore", "onehot"}
        Whether columns of text with few values become features.
    allow_missing : bool
        Whether supplied features may have missing values, because a later stage fills them.
    wanted : tuple of str
        Names of the features of a model, for annotation; other columns are not read.
    """

    path: str = "demo"
    kind: str = "auto"
    labels: str | None = None
    label_separator: str = "|"
    strict: bool = False
    min_label_count: int = 1
    drop_labels: tuple[str, ...] = ()
    text: str | None = None
    every_seconds: float = 10.0
    labeled: bool = True
    id: str | None = None
    features: tuple[str, ...] = ()
    split: str | None = None
    ignore: tuple[str, ...] = ()
    categorical: str = "ignore"
    allow_missing: bool = False
    wanted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Note:
    """A problem that did not stop the reader.

    `row` is the line of a text file (the header is line 1) or the data row of a table, from 1.
    """

    file: str
    row: int | None
    message: str


# Rows of features, or numbers of sparse ones, that are checked at a time.
_CHECKED_ROWS = 2**16


class PartName(NamedTuple):
    """Name and content of one part of the items; known before the source is read."""

    name: str
    content: Content


# The only part of most sources.
IMAGE_PARTS: tuple[PartName, ...] = (PartName("images", "images"),)
FEATURE_PARTS: tuple[PartName, ...] = (PartName("given", "features"),)


class Piece(NamedTuple):
    """One of several files of an item, and the digest of its content."""

    path: Path
    digest: str


@dataclass(frozen=True, eq=False)
class Part:
    """One kind of content of all items: files or texts for an extractor, or features of the source.

    Attributes
    ----------
    name : str
        Its content if that is unique; "given" for supplied features, and the column for one of several.
    content : {"images", "sound", "text", "features"}
    digests : list of n str
        Content digest of each item; "" for an item without this part.
    paths : list of n Path or None
        Files. None for an item without this part.
    pieces : list of n tuples of Piece
        Several files per item, whose features are averaged: the key frames of a clip. `paths` names one.
    texts : list of n str or None
    X : ndarray of float32 or csr_array of float32, shape (n, p)
        Supplied features. NaN marks a missing value where `allows_missing` is True.
    feature_names : list of p str or None
    """

    name: str
    content: Content
    digests: list[str]
    paths: Sequence[Path | None] | None = None
    pieces: Sequence[tuple[Piece, ...]] | None = None
    texts: Sequence[str | None] | None = None
    X: np.ndarray | csr_array | None = None
    feature_names: list[str] | None = None
    allows_missing: bool = False

    def files(self, row: int) -> list[tuple[Path | bytes, str]]:
        """The files, or the text, of an item, each with its digest; empty for an item without this part."""
        if not self.digests[row]:
            return []
        if self.pieces is not None:
            return list(self.pieces[row])
        if self.paths is not None:
            path = self.paths[row]
            assert path is not None
            return [(path, self.digests[row])]
        assert self.texts is not None
        return [((self.texts[row] or "").encode(), self.digests[row])]

    @cached_property
    def columns_digest(self) -> str:
        """One digest of the number and names of the supplied features."""
        width = 0 if self.X is None else self.X.shape[1]
        return combine_digests([str(width), *(self.feature_names or [])])


def given_features(
    X: np.ndarray | csr_array, digests: list[str], names: list[str] | None
) -> tuple[Part, ...]:
    """The parts of a collection whose source supplies one block of features."""
    return (Part("given", "features", digests, X=X, feature_names=names),)


@dataclass(frozen=True, eq=False)
class Collection:
    """Items with their labels.

    Attributes
    ----------
    kind : str
        Kind of the source.
    ids : list of str
        Name of each item.
    parts : tuple of Part
        What the items consist of: one part for most sources, several for clips with pictures and sound or for
        tables with several embeddings.
    labels : ndarray of int8, shape (n, K)
        0/1; rows of -1 for unlabeled items.
    split : list of str or None
        As stated by the source, "" for items without a split.
    recognized : dict of str to str
        Where the reader found ids, labels and the split, in words, for `labelscape inspect`. Without "id" the
        ids are row numbers.
    """

    kind: str
    ids: list[str]
    parts: tuple[Part, ...]
    labels: np.ndarray
    label_names: list[str]
    split: list[str] | None
    single_label: bool
    notes: list[Note]
    recognized: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what the stages rely on, so that no reader can omit it."""
        repeated = next((name for name, count in Counter(self.ids).items() if count > 1), None)
        if repeated is not None:
            raise SourceError(
                f"{self.kind}: several items have the id {quote(repeated)}. Make the ids unique."
            )
        expected = (len(self.ids), len(self.label_names))
        if self.labels.shape != expected:
            raise SourceError(f"{self.kind}: labels of shape {self.labels.shape}; expected {expected}.")
        check_texts(self.label_names, f"{self.kind}: the label", LONGEST_NAME)
        names = [self.ids, self.split or [], *(part.feature_names or [] for part in self.parts)]
        for texts in names:
            check_texts(texts, f"{self.kind}: the id, split or feature name", LONGEST_PATH, controls=True)
        for part in self.parts:
            if part.X is not None:
                _check_features(part, self.ids, self.kind)

    @cached_property
    def digests(self) -> list[str]:
        """Content digest of each item over all parts; labels do not matter."""
        if len(self.parts) == 1:
            return self.parts[0].digests
        return [combine_digests(row) for row in zip(*(part.digests for part in self.parts), strict=True)]

    @property
    def paths(self) -> Sequence[Path | None] | None:
        """Image files of the items, if they have any."""
        return next((part.paths for part in self.parts if part.content == "images"), None)

    @property
    def X(self) -> np.ndarray | csr_array | None:  # noqa: N802, as in Part
        """The first block of features that the source supplies."""
        return next((part.X for part in self.parts if part.content == "features"), None)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the first block of supplied features."""
        return next((part.feature_names for part in self.parts if part.content == "features"), None)

    def part(self, name: str) -> Part:
        """The part of this name."""
        return next(part for part in self.parts if part.name == name)

    def part_digest(self, name: str) -> str:
        """One digest of everything that the features of a part depend on: the items and the columns."""
        part = self.part(name)
        return combine_digests([digest_items(self.ids, part.digests), part.columns_digest])


def check_texts(texts: Sequence[str], what: str, longest: int, controls: bool = False) -> None:
    """Refuse texts that tables and pages cannot show: too long, not Unicode, or with control characters.

    `controls` allows control characters, which names of files may contain.
    """
    pattern = _SURROGATE if controls else _CONTROL
    if pattern.search("".join(texts)) is None and max(map(len, texts), default=0) <= longest:
        return
    for text in texts:
        if len(text) > longest:
            raise SourceError(
                f"{what} {quote(text)} is too long; at most {longest:,} characters are allowed."
            )
        if bad := pattern.search(text):
            raise SourceError(f"{what} {quote(text)} contains the character {bad[0]!r}. Remove it.")


def _check_features(part: Part, ids: list[str], kind: str) -> None:
    X = part.X
    assert X is not None
    if X.ndim != 2 or X.shape[0] != len(ids) or X.shape[1] == 0:
        raise SourceError(
            f"{kind}: features of shape {X.shape} for {len(ids)} items; "
            "expected one row per item with at least one number each."
        )
    values = X if isinstance(X, np.ndarray) else X.data
    is_bad = np.isinf if part.allows_missing else lambda values: ~np.isfinite(values)
    starts = range(0, len(values), _CHECKED_ROWS)
    if any(is_bad(values[start : start + _CHECKED_ROWS]).any() for start in starts):
        row = int(np.flatnonzero(is_bad(X.sum(axis=1, dtype=np.float64)))[0])
        raise SourceError(
            f"{kind}: the features of item {quote(ids[row])} contain a missing or infinite value. "
            "Fill it or drop the item."
        )


class Source(Protocol):
    """A recognized source. Opening it reads no data."""

    @property
    def kind(self) -> str:
        """Kind of the reader."""
        ...

    @property
    def parts(self) -> tuple[PartName, ...]:
        """What the items consist of; at most a header is read for it."""
        ...

    @property
    def name(self) -> str:
        """Default name of the experiment."""
        ...

    @property
    def options(self) -> SourceOptions: ...

    def digest(self, cache_dir: Path) -> str:
        """Digest of everything that `read` reads; fast if nothing changed."""
        ...

    def read(self, cache_dir: Path) -> Collection: ...


class Match(IntEnum):
    """How well a reader matches a path."""

    NO = 0
    # The reader can open the path, but parts may be missing. Opening it reports which.
    POSSIBLE = 1
    # A complete data set in one file.
    DATA_SET = 2
    # A folder as a whole, regardless of other data sets inside it.
    CERTAIN = 3


class SourceReader(Protocol):
    """Recognizes and opens one kind of source.

    Attributes
    ----------
    kind : str
        Value of `source.kind`.
    supports : str
        What it reads, for messages and help.
    names : tuple of str
        Names of built-in sets, used in place of a path.
    reads_folders : bool
        Whether `open` accepts a folder; else it receives a file.
    medium : Medium or None
        The files that a folder must mainly contain, for readers of such folders.
    """

    kind: str
    supports: str
    names: tuple[str, ...]
    reads_folders: bool
    medium: Medium | None

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """How well this reader matches an existing file or folder; reads a header at most."""
        ...

    def open(self, path: Path, options: SourceOptions) -> Source:
        """Open a path that this reader matches."""
        ...


class FileReader:
    """Base class of readers that read files and have no built-in sets."""

    names: tuple[str, ...] = ()
    reads_folders = False
    medium: Medium | None = None


def given_file(options: SourceOptions, folder: Path) -> Path | None:
    """The file that `labels` names, relative to the data or to the working directory."""
    if options.labels is None:
        return None
    given = expand_path(options.labels, "source.labels")
    for candidate in (folder / given, given):
        if candidate.is_file():
            return candidate
    raise SourceError(f"labels={quote(options.labels)}: no such file, neither in {folder} nor here.")


def choose_label_file(
    options: SourceOptions, path: Path, beside: Path | None, expected: str, needed: bool = True
) -> Path | None:
    """The file with the labels of `path`: the one in `source.labels`, else the one that was found beside it.

    Parameters
    ----------
    beside : Path or None
    expected : str
        Names of files that are looked for, for the error if there are no labels.
    needed : bool
        Whether to raise that error if labels are wanted.
    """
    found = given_file(options, path.parent) or beside
    if found is None and needed and options.labeled:
        raise no_labels_beside(path, expected)
    return found


def no_labels_beside(path: Path, expected: str) -> SourceError:
    """The error of features without labels."""
    return SourceError(
        f"{path} has no labels: {expected} is expected beside it, or name the file: --set source.labels=FILE."
    )


def combine_digests(parts: Iterable[str]) -> str:
    """One digest of a sequence of strings. Lengths are hashed too, so that ["ab"] and ["a", "b"] differ."""
    texts = list(parts)
    whole = "".join(texts)
    if whole.isascii():  # fast path for many names
        data, sizes = whole.encode("ascii"), map(len, texts)
    else:
        encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
        data, sizes = b"".join(encoded), map(len, encoded)
    return hashlib.blake2b(struct.pack(f"<{len(texts)}q", *sizes) + data, digest_size=16).hexdigest()


def digest_items(ids: Sequence[str], digests: Sequence[str]) -> str:
    """One digest of the ids and contents of items, independent of their labels."""
    return combine_digests([*ids, "", *digests])


def digest_rows(X: np.ndarray) -> list[str]:
    """Digest of each row of a dense matrix."""
    X = np.ascontiguousarray(X)
    return [hashlib.blake2b(row.data, digest_size=16).hexdigest() for row in X]


def limit_notes(notes: Sequence[Note], limit: int = LISTED_NOTES) -> list[Note]:
    """The first notes, then one note that counts the rest."""
    if len(notes) <= limit:
        return list(notes)
    rest = f"and {len(notes) - limit} more like this: {notes[limit - 1].message}"
    return [*notes[:limit], Note(notes[limit].file, None, rest)]


def refuse_if_strict(notes: Sequence[Note], options: SourceOptions) -> None:
    """Raise the first note as an error if `strict` is set."""
    if not (options.strict and notes):
        return
    first = notes[0]
    where = first.file if first.row is None else f"{first.file}, line {first.row}"
    raise SourceError(
        f"{where}: {first.message} ({count_of(len(notes), 'problem')} in total; strict makes them errors). "
        "Fix the source, or set strict to false to list them instead."
    )
