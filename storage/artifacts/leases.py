"""Who uses a shared store: leases, since object stores have no locks.

A run puts `leases/run-<id>.json` when it begins, renews it while it lasts and removes it at its end; who
removes artifacts does the same with `leases/gc-<id>.json`. Each puts its own lease first and looks for those
of the other side then, and stores show a put at once to everybody: so of two that begin at the same moment at
least one sees the other. A run waits; who removes gives up. A killed process renews no more and its lease
lapses. All times are those at which the store received a lease, so that no two clocks are compared.
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
_LOOK_SECONDS = 1.0
_JOIN_SECONDS = 10.0
_LOST = "lost touch with the store, so that others may use it otherwise; nothing more is removed. Try again."


class Lease:
    """One process's word that it uses the store, renewed until it is given back.

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
        """Keep it for as long as the block lasts."""
        self.renew()
        keeper = threading.Thread(target=self._keep, name="labelscape-lease", daemon=True)
        keeper.start()
        try:
            yield self
        finally:
            self._ended.set()
            keeper.join(_JOIN_SECONDS)
            # One that cannot be removed lapses; an error before it is the one to show.
            with suppress(StoreUnreachable):
                self._remote.remove(self._name)

    def renew(self) -> None:
        """Put it once more."""
        begun = time.time()
        self._remote.write(self._name, seal(self._holder))
        self._renewed = begun

    def others(self, *kinds: str) -> list[str]:
        """Names of the leases of some kinds, but this one, that have not lapsed."""
        names = tuple(f"{FOLDER}/{kind}-" for kind in kinds)
        return [name for name, age in self._ages() if name.startswith(names) and age < LIFETIME]

    def lapsed(self) -> list[str]:
        """Names of those whose holders were killed."""
        return [name for name, age in self._ages() if age >= LIFETIME]

    def _ages(self) -> list[tuple[str, timedelta]]:
        self.renew()
        known = self._remote.listing(FOLDER)
        if self._name not in known:
            raise StoreError(_LOST)
        now = known[self._name].modified
        return [(name, now - one.modified) for name, one in known.items() if name != self._name]

    def check(self) -> None:
        """StoreError where it may have lapsed unseen, as after a computer slept."""
        # Wall-clock time, which goes on while a computer sleeps.
        if time.time() - self._renewed > LIFETIME.total_seconds() / 2:
            raise StoreError(_LOST)

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            with suppress(StoreUnreachable):  # the work itself will meet the same trouble, and tell
                self.renew()


@contextmanager
def in_use(remote: Remote, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keep `alone` out while a run counts on artifacts that it has found; waits where it is at work."""
    with Lease(remote, "run").held() as lease:
        deadline = time.monotonic() + WAIT_SECONDS
        tell, tidied = on_wait, f"{remote.uri} is being tidied up (`store gc`)"
        while lease.others("gc"):
            if time.monotonic() > deadline:
                raise StoreError(f"{tidied}; run again when that has ended.")
            if tell:
                tell(f"{tidied}; waiting for it.")
                tell = None  # once
            time.sleep(_LOOK_SECONDS)
        yield


@contextmanager
def alone(remote: Remote) -> Iterator[Lease]:
    """Keep runs from beginning; StoreError while one is under way."""
    with Lease(remote, "gc").held() as lease:
        if others := lease.others("run", "gc"):
            minutes = LIFETIME.total_seconds() / 60
            raise StoreError(
                f"{len(others)} run(s) are using {remote.uri}; try again when they have ended. "
                f"The mark of a run that was killed lapses after {minutes:.0f} minutes."
            )
        yield lease
