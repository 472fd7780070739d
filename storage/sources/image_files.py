"""Which files below a folder are images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

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


def is_image_name(name: str) -> bool:
    """Whether a file of this name is taken for an image."""
    return PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES


@dataclass(frozen=True)
class ImageListing:
    """Images below a folder by their relative POSIX path, sorted, and what else was odd."""

    images: dict[str, Path]
    notes: list[Note] = field(default_factory=list)


def own_folders(cache_dir: Path | None) -> set[Path]:
    """Folders inside a source that are ours: the cache, and the home it lies in with its reports."""
    return set() if cache_dir is None else {cache_dir.resolve(), cache_dir.resolve().parent}


def list_images(folder: Path, skip: Path | None = None) -> ImageListing:
    """Find the images below a folder; hidden files and folders and our own (cache `skip`) are passed over."""
    images: dict[str, Path] = {}
    notes: list[Note] = []
    for name, path in _walk(folder, skip):
        problem = _name_problem(path, name)
        if problem is None and is_image_name(name):
            images[name] = path
        elif problem is not None:
            notes.append(Note(name.encode("utf-8", "backslashreplace").decode(), None, problem))
    return ImageListing(dict(sorted(images.items())), sorted(notes, key=lambda note: note.file))


def holds_images(folder: Path, skip: Path | None = None) -> bool:
    """Whether there is any image below a folder."""
    return any(is_image_name(name) for name, _ in _walk(folder, skip))


def _walk(folder: Path, skip: Path | None) -> Iterator[tuple[str, Path]]:
    """Relative POSIX path and path of each visible file, each folder once."""
    skipped = own_folders(skip)
    seen: set[tuple[int, int]] = set()
    for top, folders, files in os.walk(folder, followlinks=True, onerror=_refuse_folder):
        place = Path(top)
        status = place.stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()  # a link to a folder already walked; following it might never end
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(
            name for name in folders if _is_visible(name) and _resolved(top, name) not in skipped
        )
        prefix = "" if place == folder else f"{place.relative_to(folder).as_posix()}/"
        yield from ((prefix + name, place / name) for name in sorted(files) if _is_visible(name))


def _resolved(top: str, name: str) -> Path:
    return Path(top, name).resolve()


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name != "__MACOSX"


def _refuse_folder(error: OSError) -> None:
    raise SourceError(
        f"{error.filename} cannot be listed: {error.strerror}. Mend its permissions."
    ) from error


def _name_problem(path: Path, name: str) -> str | None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "left out: the name is not UTF-8; rename the file"
    if is_image_name(name):
        return None if path.is_file() else "left out: a link that leads nowhere, or no regular file"
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _COMPANION_SUFFIXES or not suffix:
        return None
    known = " ".join(sorted(IMAGE_SUFFIXES))
    return f"left out: {suffix} is not among the images understood ({known})"
