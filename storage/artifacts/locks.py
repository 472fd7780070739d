"""File locks between processes and threads; the operating system releases them when their holder dies."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storage.artifacts.disk import make_folder, store_errors
from storage.permissions import PRIVATE_FILE

# A link planted under the name of a lock is not followed, and a FIFO does not block.
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_held: set[int] = set()


def _drop_inherited_locks() -> None:
    # flock belongs to the open file, which a forked worker shares: without this, a worker that outlives its
    # killed parent would keep the lock. Closing the worker's copy does not unlock the parent's.
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_drop_inherited_locks)


def _names_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


OnWait = Callable[[int | None], None] | None
"""Receives the process id of the lock's holder, or None if it is unknown."""


def describe_wait(what: str, on_wait: Callable[[str], None] | None) -> OnWait:
    """Report what a process waits for, such as `features is being computed`."""
    if on_wait is None:
        return None
    return lambda holder: on_wait(f"{what} by process {holder or '(unknown)'}; waiting for it.")


def _waiting_lock(kind: int, on_wait: OnWait) -> Callable[[int], None]:
    """Return a function that locks a file, waiting if necessary; `on_wait` is called at most once."""
    reported: list[bool] = []

    def lock(descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait and not reported:
                reported.append(True)
                holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
                on_wait(int(holder) if holder.isdecimal() else None)
            fcntl.flock(descriptor, kind)

    return lock


def _write_process_id(descriptor: int) -> None:
    # Only for the message of waiting processes; on a full disk the lock works without it.
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # a hard link would change another file
        return
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)


def _acquire(path: Path, lock: Callable[[int], None]) -> int:
    """Lock the file that `path` names now; the previous holder removes it on release, so check again."""
    while True:
        descriptor = os.open(path, _OPEN | os.O_CREAT, PRIVATE_FILE)
        _held.add(descriptor)
        try:
            lock(descriptor)
            if _names_same_file(descriptor, path):
                _write_process_id(descriptor)
                return descriptor
        except BaseException:
            _close(descriptor)
            raise
        _close(descriptor)


def _close(descriptor: int) -> None:
    if descriptor in _held:
        _held.discard(descriptor)
        os.close(descriptor)


def _release(path: Path, descriptor: int) -> None:
    if descriptor in _held:
        # Still locked here, so no other process's file is removed. A leftover file blocks no one.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        _close(descriptor)


@contextmanager
def hold_lock(path: Path, on_wait: OnWait = None) -> Iterator[None]:
    """Hold an exclusive lock.

    Parameters
    ----------
    path : Path
        The lock file; its folder is created if it is missing. The file is removed on release.
    on_wait : callable, optional
        Called once with the holder's process id (None if unknown) if the lock is taken.
    """
    with store_errors(path):
        make_folder(path.parent)
        descriptor = _acquire(path, _waiting_lock(fcntl.LOCK_EX, on_wait))
    try:
        yield
    finally:
        _release(path, descriptor)


@contextmanager
def share_lock(path: Path, on_wait: OnWait = None) -> Iterator[None]:
    """Hold a lock together with any number of other holders of `share_lock`; see `hold_lock`."""
    with store_errors(path):
        make_folder(path.parent)
        descriptor = _acquire(path, _waiting_lock(fcntl.LOCK_SH, on_wait))
    try:
        yield
    finally:
        _close(descriptor)


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Like `hold_lock`, without waiting; yields whether the lock was acquired."""
    with store_errors(path):
        make_folder(path.parent)
        try:
            descriptor = _acquire(path, lambda number: fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            descriptor = None
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            _release(path, descriptor)


def is_free(path: Path) -> bool:
    """Return whether a lock is free; its file is neither created nor removed.

    Something else under its name, such as a link, is never free: it must not be removed.
    """
    with store_errors(path):
        try:
            descriptor = os.open(path, _OPEN)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                return False
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
    return True
