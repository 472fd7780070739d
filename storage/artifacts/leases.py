"""Leases: they replace locks in a shared store, because object stores have no locks.

A run writes `leases/run-<id>.json` when it begins, renews it while it is active and removes it at its end;
garbage collection does the same with `leases/gc-<id>.json`. Each writes its own lease first and then looks
for leases of the other kind. A write to an object store is visible to everyone at once, so of two that begin
at the same moment at least one sees the other. A run waits; garbage collection gives up. A killed process no
longer renews its lease, which then expires. All ages use the times at which the store received the leases, so
no two clocks are compared.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from storage.artifacts.disk import seal
from storage.artifacts.remote import Remote
from storage.errors import StoreError, StoreUnreachable

FOLDER = "leases"
LIFETIME = timedelta(minutes=10)
RENEW_SECONDS = 60.0
WAIT_SECONDS = 60.0
_POLL_SECONDS = 1.0
_JOIN_SECONDS = 10.0
_LOST = "lost the lease of the shared store, so other runs may use it; nothing more is removed. Try again."


class Lease:
    """A lease of one process on the store, renewed until it is released.

    Parameters
    ----------
    remote : Remote
    kind : {"run", "gc"}
    """

    def __init__(self, remote: Remote, kind: str) -> None:
        self._remote = remote
        self._name = f"{FOLDER}/{kind}-{uuid.uuid4().hex}.json"
        self._holder = {"host": socket.gethostname(), "process": os.getpid()}
        self._renewed = 0.0
        self._ended = threading.Event()

    @contextmanager
    def held(self) -> Iterator[Lease]:
        """Hold the lease for the duration of the block."""
        self.renew()
        keeper = threading.Thread(target=self._keep, name="labelscape-lease", daemon=True)
        keeper.start()
        try:
            yield self
        finally:
            self._ended.set()
            keeper.join(_JOIN_SECONDS)
            # A lease that cannot be removed expires; an earlier error is the one to report.
            with suppress(StoreUnreachable):
                self._remote.remove(self._name)

    def renew(self) -> None:
        """Write the lease again."""
        begun = time.time()
        self._remote.write(self._name, seal(self._holder))
        self._renewed = begun

    def others(self, *kinds: str) -> list[str]:
        """Names of the other leases of some kinds that have not expired."""
        names = tuple(f"{FOLDER}/{kind}-" for kind in kinds)
        return [name for name, age in self._ages() if name.startswith(names) and age < LIFETIME]

    def expired(self) -> list[str]:
        """Names of leases whose holders were killed."""
        return [name for name, age in self._ages() if age >= LIFETIME]

    def _ages(self) -> list[tuple[str, timedelta]]:
        self.renew()
        known = self._remote.list_objects(FOLDER)
        if self._name not in known:
            raise StoreError(_LOST)
        now = known[self._name].modified
        return [(name, now - one.modified) for name, one in known.items() if name != self._name]

    def check(self) -> None:
        """Raise StoreError if the lease may have expired unnoticed, as after a computer was suspended."""
        # Wall-clock time continues while a computer is suspended; a monotonic clock may not.
        if time.time() - self._renewed > LIFETIME.total_seconds() / 2:
            raise StoreError(_LOST)

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            with suppress(StoreUnreachable):  # the main thread will encounter and report the same error
                self.renew()


@contextmanager
def in_use(remote: Remote, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Block garbage collection while a run uses artifacts; wait while a collection is active."""
    with Lease(remote, "run").held() as lease:
        deadline = time.monotonic() + WAIT_SECONDS
        report, cleaned = on_wait, f"{remote.uri} is being cleaned up (`store gc`)"
        while lease.others("gc"):
            if time.monotonic() > deadline:
                raise StoreError(f"{cleaned}; run again when that has ended.")
            if report:
                report(f"{cleaned}; waiting for it.")
                report = None  # only once
            time.sleep(_POLL_SECONDS)
        yield


@contextmanager
def exclusive(remote: Remote) -> Iterator[Lease]:
    """Prevent runs from starting; StoreError while one is active."""
    with Lease(remote, "gc").held() as lease:
        if others := lease.others("run", "gc"):
            minutes = LIFETIME.total_seconds() / 60
            raise StoreError(
                f"{len(others)} run(s) are using {remote.uri}; try again when they have ended. "
                f"The lease of a run that was killed expires after {minutes:.0f} minutes."
            )
        yield lease
