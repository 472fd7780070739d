"""What a label file says: the labels of named images, and how it names them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from storage.errors import SourceError
from storage.quoting import quote
from storage.sources.base import LONGEST_NAME, LONGEST_PATH, Note, check_texts

SPLITS = ("train", "test", "val", "valid", "validation")
"""Names of folders, files and tags that state a split."""

Matching = Literal["path", "stem", "tail", "name"]
"""How entries name images: by path, by path without suffix, by the end of the path, by the file name."""


@dataclass(frozen=True)
class LabelEntry:
    """Labels of one file: None if it is unlabeled, empty if it has none. `row` counts from 1."""

    name: str
    labels: tuple[str, ...] | None
    row: int
    split: str


@dataclass(frozen=True)
class LabelFile:
    """Content of a label file.

    Attributes
    ----------
    single_label : bool
        In a table: unless the column is named `labels` or a file has several.
    unit : str
        What `row` of an entry counts: "line", or the elements of a JSON file.
    match : str
        How the entries name images.
    notes : list of Note
        Problems in the file itself, which are errors if `strict` is set.
    remarks : list of Note
        Other facts about the file.
    """

    entries: list[LabelEntry]
    single_label: bool
    has_split: bool
    unit: str = "line"
    match: Matching = "path"
    notes: list[Note] = field(default_factory=list)
    remarks: list[Note] = field(default_factory=list)


def check_file_name(name: object, where: str) -> str:
    """Return the name of a file as it is given; SourceError if it is not usable text."""
    if not isinstance(name, str) or not name.strip():
        raise SourceError(f"{where}: the file name is empty or not text. Name the file.")
    check_texts([name], f"{where}: the file name", LONGEST_PATH, controls=True)
    return name


def check_label(name: object, where: str) -> str:
    """Return a label as it is given; SourceError if it is not usable text or an integer."""
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or not name.strip():
        raise SourceError(f"{where}: the label {quote(name)} is empty or not text. Name it.")
    check_texts([name], f"{where}: the label", LONGEST_NAME)
    return name
