"""The data sets of the papers' experiments: where each lies in a data folder, and how to come by it."""

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
        File below the data folder; empty where the set is built in.
    sha256, origin : str
        Of the file (empty for a set that labelscape's own experiments had not), and where it was found.
    builtin : str
        Name of the built-in set.
    content : str
        Digest of the content (`fetch.content_digest`), for sets that have a public copy.
    openml : mapping
        A public copy and how its labels are read; empty without one.
    addresses : tuple of str
        Files of another public copy; of two the first is the training part, the second the test part.
    reading : mapping
        How these files are read, see `fetch_files`.
    min_label_count, drop_labels
        As in `SourceOptions`.
    first_rows : int
        The paper's part of the file, from its beginning; 0 for all.
    every_row : bool
        Rows without any label count too.
    color_spaces : tuple of str
        Of the color moments of images; those of several stand side by side.
    size : (int, int)
        Rows and labels that experiments take of it, to reckon how long they will last; zeros: not known.
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
    size: tuple[int, int] = (0, 0)

    @property
    def copy(self) -> str:
        """Where its public copy is, for readers; empty without one."""
        if self.addresses:
            return " and ".join(self.addresses)
        return f"{self.openml['name']} (version {self.openml['version']}) of OpenML" if self.openml else ""

    @property
    def host(self) -> str:
        """Who keeps the public copy."""
        return urlsplit(self.addresses[0]).netloc if self.addresses else "OpenML"


@cache
def reference_sets() -> dict[str, ReferenceSet]:
    """Every set by name."""
    known = tomllib.loads(_LIST.read_text(encoding="utf-8"))
    return {name: ReferenceSet(name, **_hashable(_facts_of(name, known))) for name in known}


def _facts_of(name: str, known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What is said of a set, and of the one whose file it reads in another way."""
    own = dict(known[name])
    return {**known[own.pop("of")], **own} if "of" in own else own


def _hashable(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}


def find_data_folder(given: str | None, home: Path, must_exist: bool = True) -> Path:
    """The folder of the user's data sets: as given, else by the environment, else in the home folder."""
    named = given or os.environ.get(DATA_VARIABLE)
    folder = Path(named).expanduser() if named else home / "data"
    if given and must_exist and not folder.is_dir():
        raise ConfigError(f"--data {given}: there is no such folder.")
    return folder.absolute()


def locate(name: str, folder: Path) -> str:
    """What to open: a file of the data folder, or the name of a built-in set.

    Raises
    ------
    SourceError
        The file is not there; the message says which one is expected, and how to come by it.
    """
    wanted = reference_sets()[name]
    if wanted.builtin:
        return wanted.builtin
    file = folder / wanted.path
    if file.is_file():
        return str(file)
    raise SourceError(
        f"the data set {wanted.title!r} is not there: {file} is expected ({wanted.origin}). "
        f"{_advice(wanted)} Name the folder of your data sets by --data or {DATA_VARIABLE}."
    )


def is_original(name: str, folder: Path) -> bool:
    """Whether a set is byte for byte the one that the README's numbers were made with, if any were."""
    wanted = reference_sets()[name]
    if wanted.builtin or not wanted.sha256:
        return True
    with (folder / wanted.path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == wanted.sha256


def _advice(wanted: ReferenceSet) -> str:
    if wanted.copy:
        return f"Where there is a network, `labelscape reproduce fetch` gets it from {wanted.copy}."
    return "It has no public copy that could be fetched; put the file there."
