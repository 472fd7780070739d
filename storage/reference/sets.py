"""The data sets of the papers' experiments: their path in the data folder, and how to get them."""

import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storage.errors import ConfigError, SourceError
from storage.paths import expand_path

DATA_VARIABLE = "LABELSCAPE_DATA"
_LIST = Path(__file__).with_name("sets.toml")


@dataclass(frozen=True)
class ReferenceSet:
    """One data set.

    Attributes
    ----------
    name, title : str
        The name that experiments use, and the one a reader sees.
    path : str
        File below the data folder; empty for a built-in set.
    sha256 : str
        Checksum of the file that the published results were computed from; empty if there is none.
    origin : str
        Where the file comes from.
    builtin : str
        Name of the built-in set.
    content : str
        Digest of the content (`fetch.content_digest`), for sets that have a public copy.
    openml : mapping
        A public copy and how its labels are read; empty without one.
    addresses : tuple of str
        URLs of another public copy; if there are two, the training part and the test part.
    reading : mapping
        How these files are read, see `fetch_files`.
    min_label_count, drop_labels
        As in `SourceOptions`.
    first_rows : int
        Number of rows that the paper uses, from the first one; 0 for all.
    every_row : bool
        Whether rows without any label are used too.
    color_spaces : tuple of str
        Color spaces of the color moments of images; the moments of several are concatenated.
    extractors : tuple of str
        Blocks of features of images, side by side; empty for color moments alone. `bow_sift` learns its words
        from the training rows of each trial.
    words : mapping
        Parameters of `bow_sift`.
    kernel : str
        Kernel whose matrix of all rows is used instead of the features: "intersection" or "cosine".
    edges : str
        File of given links below the data folder; empty without links.
    split : str
        Column of the split, if it does not have a usual name.
    size : (int, int)
        Number of rows and labels that experiments use; zeros if unknown.
    """

    name: str
    title: str
    path: str = ""
    sha256: str = ""
    origin: str = ""
    builtin: str = ""
    content: str = ""
    openml: Mapping[str, Any] = field(default_factory=dict, hash=False)
    addresses: tuple[str, ...] = ()
    reading: Mapping[str, Any] = field(default_factory=dict, hash=False)
    min_label_count: int = 1
    drop_labels: tuple[str, ...] = ()
    first_rows: int = 0
    every_row: bool = False
    color_spaces: tuple[str, ...] = ("rgb",)
    extractors: tuple[str, ...] = ()
    words: Mapping[str, Any] = field(default_factory=dict, hash=False)
    kernel: str = ""
    edges: str = ""
    split: str = ""
    size: tuple[int, int] = (0, 0)

    @property
    def copy(self) -> str:
        """Location of its public copy, for messages; empty if there is none."""
        if self.addresses:
            return " and ".join(self.addresses)
        return f"{self.openml['name']} (version {self.openml['version']}) of OpenML" if self.openml else ""

    @property
    def host(self) -> str:
        """Host of the public copy."""
        return urlsplit(self.addresses[0]).netloc if self.addresses else "OpenML"


@cache
def reference_sets() -> dict[str, ReferenceSet]:
    """Every set by name."""
    known = tomllib.loads(_LIST.read_text(encoding="utf-8"))
    return {name: ReferenceSet(name, **_hashable(_facts_of(name, known))) for name in known}


def _facts_of(name: str, known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Settings of a set, inherited from the set named by `of`."""
    own = dict(known[name])
    return {**known[own.pop("of")], **own} if "of" in own else own


def _hashable(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}


def find_data_folder(given: str | None, home: Path, must_exist: bool = True) -> Path:
    """The folder of the data sets: as given, else LABELSCAPE_DATA, else `data` in the home folder."""
    named = given or os.environ.get(DATA_VARIABLE)
    folder = expand_path(named, "--data" if given else DATA_VARIABLE) if named else home / "data"
    if given and must_exist and not folder.is_dir():
        raise ConfigError(f"--data {given}: there is no such folder.")
    return folder.absolute()


def locate(name: str, folder: Path) -> str:
    """The path of a data set in the data folder, or the name of a built-in set.

    Raises
    ------
    SourceError
        The file does not exist; the message says which file is expected and how to get it.
    """
    wanted = reference_sets()[name]
    if wanted.builtin:
        return wanted.builtin
    file = folder / wanted.path
    if file.is_file():
        return str(file)
    raise SourceError(
        f"the data set {wanted.title!r} is missing: expected {file} ({wanted.origin}). "
        f"{_advice(wanted)} Choose the folder of your data sets with --data or {DATA_VARIABLE}."
    )


def is_original(name: str, folder: Path) -> bool:
    """Whether the file is the one that the published results were computed from; True if there is none."""
    wanted = reference_sets()[name]
    if wanted.builtin or not wanted.sha256:
        return True
    with (folder / wanted.path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == wanted.sha256


def _advice(wanted: ReferenceSet) -> str:
    if wanted.copy:
        return f"`labelscape reproduce fetch` downloads it from {wanted.copy}."
    return "There is no public copy to download; put the file there."
