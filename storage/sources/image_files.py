"""Find the images in a folder and its sub-folders."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from storage.artifacts.file_stats import newest, pack, scan_folders, states_below
from storage.sources.base import Note
from storage.sources.media import IMAGES, Medium, most_frequent, suffix_of

IMAGE_SUFFIXES, MAX_IMAGE_BYTES = IMAGES.suffixes, IMAGES.max_bytes
# Suffixes of files that often accompany images; they are skipped without a note.
# fmt: off
_COMPANION_SUFFIXES = frozenset((
    ".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet", ".md", ".rst", ".html", ".htm", ".xml", ".yaml",
    ".yml", ".toml", ".ini", ".cfg", ".log", ".pdf", ".py", ".ipynb", ".npy", ".npz", ".mat", ".arff", ".zip",
    ".tar", ".gz", ".tgz", ".db", ".sha256", ".md5", ".lock", ".bak", ".url", ".nfo",
))
# fmt: on


def is_image_name(name: str) -> bool:
    """Whether a file name has the suffix of an image."""
    return suffix_of(name) in IMAGE_SUFFIXES


@dataclass(frozen=True)
class ImageListing:
    """Images in a folder by relative POSIX path, sorted, and notes about other files.

    `unreadable` is the number of images among the other files that cannot be read.
    """

    images: dict[str, Path]
    notes: list[Note] = field(default_factory=list)
    unreadable: int = 0

    def without(self, problems: Mapping[int, str]) -> ImageListing:
        """The listing without the images at some positions; the reasons become notes."""
        if not problems:
            return self
        names = list(self.images)
        notes = [Note(names[k], None, f"skipped: it cannot be read ({why})") for k, why in problems.items()]
        left = {name: path for k, (name, path) in enumerate(self.images.items()) if k not in problems}
        return ImageListing(left, [*notes, *self.notes], len(problems))


@dataclass(frozen=True)
class FolderStamp:
    """State of a folder without the content of its files. `text` changes if any file does."""

    text: str
    states: list[int] = field(repr=False)

    @property
    def newest(self) -> int:
        """The latest modification time in nanoseconds."""
        return newest(self.states)


def own_folders(cache_dir: Path | None) -> set[str]:
    """Folders of this program inside a source: the cache, and the home folder with its reports."""
    return set() if cache_dir is None else {str(cache_dir.resolve()), str(cache_dir.resolve().parent)}


def list_images(folder: Path, skip: Path | None = None, medium: Medium = IMAGES) -> ImageListing:
    """Find the images in a folder, or the files of another medium.

    Hidden files and folders are skipped, and our own (cache folder `skip`).
    """
    images: dict[str, Path] = {}
    notes: list[Note] = []

    def skip_one(name: str, reason: str) -> None:
        notes.append(Note(name.encode("utf-8", "backslashreplace").decode(), None, f"skipped: {reason}"))

    def skip_folder(prefix: str, reason: str) -> None:
        skip_one(prefix, f"the folder cannot be listed ({reason})")

    for prefix, files in scan_folders(str(folder), own_folders(skip), skip_folder):
        for entry in files:
            name = prefix + entry.name
            problem = _name_problem(entry, name, medium)
            if problem is not None:
                skip_one(name, problem)
            elif medium.has_name(name):
                images[name] = Path(entry.path)
    return ImageListing(dict(sorted(images.items())), sorted(notes, key=lambda note: note.file))


def holds_images(folder: Path, skip: Path | None = None, medium: Medium = IMAGES) -> bool:
    """Whether a folder or one of its sub-folders contains an image, or a file of another medium."""
    found = scan_folders(str(folder), own_folders(skip))
    return any(medium.has_name(entry.name) for _, files in found for entry in files)


def main_medium(folder: Path, skip: Path | None = None) -> Medium | None:
    """The medium of most files in a folder and its sub-folders, see `most_frequent`."""
    found = scan_folders(str(folder), own_folders(skip))
    return most_frequent(Counter(suffix_of(entry.name) for _, files in found for entry in files))


def stamp_files(folder: Path, skip: Path | None = None) -> FolderStamp:
    """One digest of the names, sizes, times and inodes of all visible files. No file is opened."""
    names, states = states_below(str(folder), own_folders(skip))
    hasher = hashlib.blake2b(names, digest_size=16)
    hasher.update(pack(states))
    return FolderStamp(hasher.hexdigest(), states)


def _name_problem(entry: os.DirEntry[str], name: str, medium: Medium) -> str | None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "the name is not UTF-8; rename the file"
    if medium.has_name(name):
        return None if _is_file(entry) else "a broken link, or not a regular file"
    suffix = suffix_of(name)
    if suffix in _COMPANION_SUFFIXES or not suffix:
        return None
    known = " ".join(sorted(medium.suffixes))
    what = "image format" if medium is IMAGES else f"format of {medium.noun}"
    return f"{suffix} is not a supported {what} ({known})"


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False
