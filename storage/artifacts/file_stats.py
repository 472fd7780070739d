"""What the system tells of files without opening them: names, sizes, times.

Nothing but the lightest modules is imported here, since `status` may answer from this alone.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Iterator
from operator import attrgetter

from storage.errors import SourceError

# The clock of a file system may be as coarse as that of FAT, which ticks every 2 s.
TICK_NS = 2 * 10**9
# The inode tells a link that was led to another file of the same size and times; a new mode shows in ctime.
_STATE = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino")
_FIELDS = 4
# Folders that programs leave behind.
_MACHINE_MADE = frozenset({"__MACOSX", "__pycache__"})
_NAME = attrgetter("name")


def is_settled(looked: int, *changed: int) -> bool:
    """Whether what a look found at a file stands for as long as its times stay the same.

    A file that is changed twice within one tick of the clock keeps its times: seen between the two, they say
    nothing of what it holds later.

    Parameters
    ----------
    looked : int
        When the look began, in nanoseconds.
    changed : int
        The file's mtime and ctime then. Tools put the first back (`cp -p`, `rsync -t`), never the second.
    """
    return max(changed) + TICK_NS <= looked


def state_of(path: str) -> list[int] | None:
    """Times of content and of name and mode, size and inode of a file or folder; None where there is none."""
    try:
        return list(_STATE(os.stat(path)))
    except OSError:
        return None


def states_below(folder: str, skipped: Collection[str] = ()) -> tuple[bytes, list[int]]:
    """Names of all visible files below a folder, and the facts of `state_of`, one file after another.

    Files count in the order in which the system lists them: should that change by itself, so does the answer.
    """
    names: list[str] = []
    numbers: list[int] = []  # an array grows more slowly
    for prefix, files in scan_folders(folder, skipped):
        names.append(prefix)
        for entry in files:
            names.append(entry.name)
            try:
                numbers += _STATE(entry.stat())
            except OSError:  # a link that leads nowhere: it counts itself
                numbers += _STATE(entry.stat(follow_symlinks=False))
    return "\0".join(names).encode("utf-8", "surrogateescape"), numbers


def newest(states: list[int]) -> int:
    """The latest of all times of change in nanoseconds."""
    return max(max(states[place::_FIELDS], default=0) for place in (0, 1))


def pack(states: list[int]) -> bytes:
    """States as bytes, to be compared or hashed."""
    try:
        return array("q", states).tobytes()
    except OverflowError:  # inodes of some network drives take all 64 bits
        return repr(states).encode()


def scan_folders(
    folder: str, skipped: Collection[str] = ()
) -> Iterator[tuple[str, Iterator[os.DirEntry[str]]]]:
    """Each visible folder once, from the top down: its relative path with a final /, and its files.

    Folders whose real path is among `skipped` are passed over. The files must be looked at before the next
    folder is asked for. They come one by one: a list of many thousand entries would set the garbage collector
    to work, which costs as much as the listing.
    """
    seen: set[tuple[int, int]] = set()
    pending = [(folder, "")]
    while pending:
        top, prefix = pending.pop()
        below: list[os.DirEntry[str]] = []
        try:
            status = os.stat(top)
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
            if not skipped or os.path.realpath(entry.path) not in skipped
        )


def _files_among(
    entries: Iterator[os.DirEntry[str]], folders: list[os.DirEntry[str]]
) -> Iterator[os.DirEntry[str]]:
    """The visible files; visible folders are put into `folders`."""
    for entry in entries:
        name = entry.name
        if name[0] != "." and name not in _MACHINE_MADE:  # `_is_visible`, without the call
            if entry.is_dir():
                folders.append(entry)
            else:
                yield entry


def _is_visible(name: str) -> bool:
    return name[0] != "." and name not in _MACHINE_MADE
