"""Names, sizes and times of files, as the operating system reports them without opening the files."""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Iterator
from operator import attrgetter

from storage.errors import SourceError

# FAT has the coarsest clock of the common file systems: 2 s.
TICK_NS = 2 * 10**9
# The inode detects a link that now points to another file of equal size and times; ctime detects a new mode.
_STATE = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino")
_FIELDS = 4
# Folders that programs create.
_MACHINE_MADE = frozenset({"__MACOSX", "__pycache__"})
_NAME = attrgetter("name")


def is_settled(looked: int, *changed: int) -> bool:
    """Return whether a file's content can be assumed unchanged for as long as its times are unchanged.

    A file that is changed twice within one tick of the clock keeps its times. If it was read between the two
    changes, the times say nothing about its later content.

    Parameters
    ----------
    looked : int
        When reading began, in nanoseconds.
    changed : int
        The file's mtime and ctime at that time. Tools can reset mtime (`cp -p`, `rsync -t`), but not ctime.
    """
    return max(changed) + TICK_NS <= looked


def states_below(folder: str, skipped: Collection[str] = ()) -> tuple[bytes, list[int]]:
    """Return the names of all visible files below a folder, and their states, concatenated.

    The state of a file is its mtime, ctime, size and inode. Files are in the order in which the operating
    system lists them.
    """
    names: list[str] = []
    numbers: list[int] = []  # appending to an array is slower
    for prefix, files in scan_folders(folder, skipped):
        names.append(prefix)
        for entry in files:
            names.append(entry.name)
            try:
                numbers += _STATE(entry.stat())
            except OSError:  # a dangling link counts as itself
                numbers += _STATE(entry.stat(follow_symlinks=False))
    return "\0".join(names).encode("utf-8", "surrogateescape"), numbers


def newest(states: list[int]) -> int:
    """Return the latest mtime or ctime in nanoseconds."""
    return max(max(states[place::_FIELDS], default=0) for place in (0, 1))


def pack(states: list[int]) -> bytes:
    """Return states as bytes, to be compared or hashed."""
    try:
        return array("q", states).tobytes()
    except OverflowError:  # inodes of some network drives use all 64 bits
        return repr(states).encode()


def scan_folders(
    folder: str, skipped: Collection[str] = ()
) -> Iterator[tuple[str, Iterator[os.DirEntry[str]]]]:
    """Iterate over the visible folders from the top down, each once: relative path with a final /, and files.

    Folders whose real path is in `skipped` are skipped. The files must be consumed before the next folder is
    requested. They are an iterator because a list of thousands of entries triggers Python's garbage
    collector, which takes as long as the listing.
    """
    seen: set[tuple[int, int]] = set()
    pending = [(folder, "")]
    while pending:
        top, prefix = pending.pop()
        below: list[os.DirEntry[str]] = []
        try:
            status = os.stat(top)
            if (status.st_dev, status.st_ino) in seen:
                continue  # a link to a folder already visited; following it might never end
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(top) as entries:
                yield prefix, _files_among(entries, below)
                below += (entry for entry in entries if entry.is_dir() and _is_visible(entry.name))
        except OSError as error:
            raise SourceError(f"{top} cannot be listed: {error.strerror}. Check its permissions.") from error
        below.sort(key=_NAME, reverse=True)  # the first is popped next
        pending += (
            (entry.path, f"{prefix}{entry.name}/")
            for entry in below
            if not skipped or os.path.realpath(entry.path) not in skipped
        )


def _files_among(
    entries: Iterator[os.DirEntry[str]], folders: list[os.DirEntry[str]]
) -> Iterator[os.DirEntry[str]]:
    """Iterate over the visible files; visible folders are appended to `folders`."""
    for entry in entries:
        name = entry.name
        if name[0] != "." and name not in _MACHINE_MADE:  # inlined `_is_visible`
            if entry.is_dir():
                folders.append(entry)
            else:
                yield entry


def _is_visible(name: str) -> bool:
    return name[0] != "." and name not in _MACHINE_MADE
