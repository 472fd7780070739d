"""Open regular files only: a FIFO, device, socket or kernel file would block the reader or never end."""

from __future__ import annotations

import errno
import os
from functools import cache
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG

# Their files look regular, but reading one may block, consume a log or have an effect on a device.
_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")


# No file handle or no memory is left. Another attempt may succeed, and the file is not to blame.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class NotRegular(OSError):
    """The name is not that of a regular file, but of a FIFO, device, socket, folder or kernel file."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", str(path))


@cache
def system_devices() -> frozenset[int]:
    """Device numbers of the file systems of the kernel, which contain no data of users."""
    found: set[int] = set()
    for folder in _SYSTEM_FOLDERS:
        try:
            found.add(Path(folder).stat().st_dev)
        except OSError:
            continue
    # Where one of them is an ordinary folder, its device is that of all files.
    return frozenset(found - {Path("/").stat().st_dev})


def is_regular(status: os.stat_result) -> bool:
    """Return whether a file is a regular file of a user."""
    return S_ISREG(status.st_mode) and status.st_dev not in system_devices()


def is_regular_file(path: Path) -> bool:
    """Return whether a path leads to a regular file; False if that cannot be found out."""
    try:
        return is_regular(path.stat())
    except (OSError, ValueError):
        return False


def is_absent(error: OSError) -> bool:
    """Return whether an error means that no regular file has this name; a link to itself leads to none."""
    missing = isinstance(error, FileNotFoundError | NotADirectoryError | NotRegular)
    return missing or error.errno == errno.ELOOP


def is_exhausted(error: OSError) -> bool:
    """Return whether an error says that this machine or process has no handle or memory left."""
    return error.errno in _EXHAUSTED


def open_regular(path: Path | str) -> BufferedReader:
    """Open a regular file for reading.

    The check is made on the open file, so the name cannot change in between, and opening never waits.

    Raises
    ------
    NotRegular
        An OSError: it is not a regular file.
    OSError
        It cannot be opened; a link that leads to itself has the number ELOOP.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise NotRegular(path) from error
        raise
    try:
        if not is_regular(os.fstat(descriptor)):
            raise NotRegular(path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
