"""Names, sizes and times of files, as the operating system reports them without opening the files."""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

from storage.artifacts.regular_files import is_exhausted, system_devices
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
            except OSError:  # a dangling link counts as itself, and a file that has just gone as its name
                with suppress(OSError):
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
    folder: str,
    skipped: Collection[str] = (),
    on_problem: Callable[[str, str], None] = lambda prefix, reason: None,
) -> Iterator[tuple[str, Iterator[os.DirEntry[str]]]]:
    """Iterate over the visible folders from the top down, each once: relative path with a final /, and files.

    Links to folders are followed last, so that a folder has its own path if it is inside. A link to a folder
    that was visited or contains the top folder is not followed, since that might never end.

    The folders in `skipped` are skipped. The files must be consumed before the next folder is
    requested. They are an iterator because a list of thousands of entries triggers Python's garbage
    collector, which takes as long as the listing.

    Raises
    ------
    SourceError
        The top folder cannot be listed. For a folder below it, `on_problem` is called with its relative path
        and the reason. Folders of the kernel, such as /proc behind a link, are such a problem.
    OSError
        No file handle or memory is left, which says nothing about a folder.
    """
    seen = {_identity(parent) for parent in Path(folder).resolve().parents}
    seen |= {_identity(Path(place)) for place in skipped}
    pending, linked = [(folder, "")], list[tuple[str, str]]()
    while pending or linked:
        top, prefix = pending.pop() if pending else linked.pop(0)
        below: list[os.DirEntry[str]] = []
        failed: list[OSError] = []
        try:
            status = os.stat(top)
            if prefix and (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            if status.st_dev in system_devices():
                raise OSError(errno.EINVAL, "it belongs to the operating system")
            with os.scandir(top) as entries:
                yield prefix, _files_among(entries, below, failed)
        except OSError as error:
            failed.append(error)
        if failed:
            reason = failed[0].strerror or str(failed[0])
            if is_exhausted(failed[0]):
                raise failed[0]
            if not prefix:
                raise SourceError(f"{top} cannot be listed: {reason}. Check its permissions.") from failed[0]
            on_problem(prefix, reason)
        below.sort(key=_NAME)
        found = [((entry.path, f"{prefix}{entry.name}/"), entry.is_symlink()) for entry in below]
        pending += [place for place, is_link in reversed(found) if not is_link]  # the first is popped next
        linked += [place for place, is_link in found if is_link]


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _files_among(
    entries: Iterator[os.DirEntry[str]], folders: list[os.DirEntry[str]], failed: list[OSError]
) -> Iterator[os.DirEntry[str]]:
    """Iterate over the visible files; visible folders and an error of the listing are appended to lists."""
    try:
        for entry in entries:
            name = entry.name
            if name[0] == "." or name in _MACHINE_MADE:
                continue
            try:
                is_folder = entry.is_dir()
            except OSError:  # a link that leads to itself, or through a folder that may not be entered
                is_folder = False
            if is_folder:
                folders.append(entry)
            else:
                yield entry
    except OSError as error:
        failed.append(error)
