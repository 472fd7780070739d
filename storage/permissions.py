"""Who may read what is written: the home folder is for its owner only, files for users follow their umask.

A collection, its labels and the names of its files may be confidential, and the usual umask lets everybody
read. Our own writes name their mode (`storage.artifacts.disk`). Libraries such as MLflow, SQLite and Prefect
follow the umask, and so do the processes started from here: `private_umask` covers them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
_PRIVATE_UMASK = 0o077
_ANY_FILE, _ANY_FOLDER = 0o666, 0o777

# The umask with which the program was started, while `private_umask` has replaced it.
_given_umask: int | None = None


@contextmanager
def private_umask() -> Iterator[None]:
    """Create every file of this process and of those it starts for their owner only."""
    global _given_umask
    outer, before = _given_umask, os.umask(_PRIVATE_UMASK)
    _given_umask = before if outer is None else outer
    try:
        yield
    finally:
        _given_umask = outer
        os.umask(before)


def users_umask() -> int:
    """Return the umask with which the program was started."""
    if _given_umask is not None:
        return _given_umask
    umask = os.umask(_PRIVATE_UMASK)  # it cannot be read without setting it
    os.umask(umask)
    return umask


def users_file_mode() -> int:
    """Return the mode of a new file outside the home folder, such as one named with `--out`."""
    return _ANY_FILE & ~users_umask()


def make_users_folder(folder: Path) -> None:
    """Create a folder outside the home folder, and its parents, for everybody whom the umask admits."""
    if not folder.is_dir():
        make_users_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir()
            # Add to the mode instead of replacing it: it may have inherited the group bit of its parent.
            folder.chmod(S_IMODE(folder.stat().st_mode) | (_ANY_FOLDER & ~users_umask()))


def opened_to(folder: Path) -> str | None:
    """Say who besides its owner may enter or read an existing folder; None if nobody."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return None
    if mode & 0o007:
        return "every user of this machine"
    return "the users of its group" if mode & 0o070 else None
