"""Which files below a folder are images."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from storage.errors import SourceError
from storage.sources.base import Note

# fmt: off
IMAGE_SUFFIXES = frozenset((
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp",
    ".ppm", ".pgm", ".pbm", ".pnm",
))
# fmt: on
# Files that lie beside images as a matter of course.
# fmt: off
_COMPANION_SUFFIXES = frozenset((
    ".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet", ".md", ".rst", ".html", ".htm", ".xml", ".yaml",
    ".yml", ".toml", ".ini", ".cfg", ".log", ".pdf", ".py", ".ipynb", ".npy", ".npz", ".mat", ".arff", ".zip",
    ".tar", ".gz", ".tgz", ".db", ".sha256", ".md5", ".lock", ".bak", ".url", ".nfo",
))
# fmt: on


_MACOS = "__MACOSX"
_NAME = attrgetter("name")
# The inode tells a link that was led to another file of the same size and times; a new mode shows in ctime.
_STATE = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino")
_FIELDS = 4


def is_image_name(name: str) -> bool:
    """Whether a file of this name is taken for an image."""
    return _suffix(name) in IMAGE_SUFFIXES


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122, a Path takes ten times as long


@dataclass(frozen=True)
class ImageListing:
    """Images below a folder by their relative POSIX path, sorted, and what else was odd."""

    images: dict[str, Path]
    notes: list[Note] = field(default_factory=list)


@dataclass(frozen=True)
class FolderStamp:
    """State of a folder without the content of its files: `text` changes with any of them.

    `states` are the facts of `_STATE`, file by file.
    """

    text: str
    states: list[int] = field(repr=False)

    @property
    def newest(self) -> int:
        """The latest of all times of change in nanoseconds; asked for only where something changed."""
        return max(max(self.states[place::_FIELDS], default=0) for place in (0, 1))


def own_folders(cache_dir: Path | None) -> set[Path]:
    """Folders inside a source that are ours: the cache, and the home it lies in with its reports."""
    return set() if cache_dir is None else {cache_dir.resolve(), cache_dir.resolve().parent}


def list_images(folder: Path, skip: Path | None = None) -> ImageListing:
    """Find the images below a folder; hidden files and folders and our own (cache `skip`) are passed over."""
    images: dict[str, Path] = {}
    notes: list[Note] = []
    for prefix, files in scan_folders(folder, skip):
        for entry in files:
            name = prefix + entry.name
            problem = _name_problem(entry, name)
            if problem is not None:
                notes.append(Note(name.encode("utf-8", "backslashreplace").decode(), None, problem))
            elif is_image_name(name):
                images[name] = Path(entry.path)
    return ImageListing(dict(sorted(images.items())), sorted(notes, key=lambda note: note.file))


def holds_images(folder: Path, skip: Path | None = None) -> bool:
    """Whether there is any image below a folder."""
    return any(is_image_name(entry.name) for _, files in scan_folders(folder, skip) for entry in files)


def scan_folders(folder: Path, skip: Path | None = None) -> Iterator[tuple[str, Iterator[os.DirEntry[str]]]]:
    """Each visible folder once, from the top down: its relative path with a final /, and its files.

    The files must be looked at before the next folder is asked for. They come one by one: a list of many
    thousand entries would set the garbage collector to work, which costs as much as the listing.
    """
    skipped = {str(place) for place in own_folders(skip)}
    seen: set[tuple[int, int]] = set()
    pending = [(str(folder), "")]
    while pending:
        top, prefix = pending.pop()
        below: list[os.DirEntry[str]] = []
        try:
            status = Path(top).stat()
            if (status.st_dev, status.st_ino) in seen:
                continue  # a link to a folder already walked; following it might never end
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(top) as entries:
                yield prefix, _files_among(entries, below)
                below += (entry for entry in entries if entry.is_dir() and _is_visible(entry.name))
        except OSError as error:
            raise SourceError(f"{top} cannot be listed: {error.strerror}. Mend its permissions.") from error
        below.sort(key=_NAME, reverse=True)  # the first is taken next
        pending += (
            (entry.path, f"{prefix}{entry.name}/")
            for entry in below
            if os.path.realpath(entry.path) not in skipped
        )


def _files_among(
    entries: Iterator[os.DirEntry[str]], folders: list[os.DirEntry[str]]
) -> Iterator[os.DirEntry[str]]:
    """The visible files; visible folders are put into `folders`."""
    for entry in entries:
        name = entry.name
        if name[0] != "." and name != _MACOS:  # `_is_visible`, without the call
            if entry.is_dir():
                folders.append(entry)
            else:
                yield entry


def stamp_files(folder: Path, skip: Path | None = None) -> FolderStamp:
    """One digest of the names, sizes, times and inodes of all visible files; none of them is opened.

    Files count in the order in which the system lists them: should that change by itself, so does the stamp.
    """
    names: list[str] = []
    numbers: list[int] = []  # an array grows more slowly
    for prefix, files in scan_folders(folder, skip):
        names.append(prefix)
        for entry in files:
            names.append(entry.name)
            try:
                numbers += _STATE(entry.stat())
            except OSError:  # a link that leads nowhere: it counts itself
                numbers += _STATE(entry.stat(follow_symlinks=False))
    hasher = hashlib.blake2b("\0".join(names).encode("utf-8", "surrogateescape"), digest_size=16)
    hasher.update(_as_bytes(numbers))
    return FolderStamp(hasher.hexdigest(), numbers)


def _as_bytes(numbers: list[int]) -> bytes:
    try:
        return array("q", numbers).tobytes()
    except OverflowError:  # inodes of some network drives take all 64 bits
        return repr(numbers).encode()


def _is_visible(name: str) -> bool:
    return name[0] != "." and name != _MACOS


def _name_problem(entry: os.DirEntry[str], name: str) -> str | None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "left out: the name is not UTF-8; rename the file"
    if is_image_name(name):
        return None if entry.is_file() else "left out: a link that leads nowhere, or no regular file"
    suffix = _suffix(name)
    if suffix in _COMPANION_SUFFIXES or not suffix:
        return None
    known = " ".join(sorted(IMAGE_SUFFIXES))
    return f"left out: {suffix} is not among the images understood ({known})"
