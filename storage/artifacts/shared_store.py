"""The artifact store at an fsspec address, shared by any number of machines.

    <uri>/<stage>/<key[:2]>/<key>-<digest>.parquet    the data, by content: never overwritten with others
    <uri>/<stage>/<key[:2]>/<key>.json                the manifest, put last: it says which data are meant
    <uri>/damaged/, pointers/, runs/                  as in a local store, see `storage.artifacts.store`
    <uri>/leases/                                     who uses it now, see `storage.artifacts.leases`

An artifact is written to a local store first, verified there, and put from it: the data, then the manifest.
So at any instant a reader sees the old artifact, the new one or none, never a part. Nothing is locked: two
machines that compute the same recipe at once both put the same result. What is read is fetched into the local
store once and verified by its digest; what is not read is not fetched.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from storage.artifacts import disk, leases, quarantine
from storage.artifacts.artifact import Artifact, Outcome, SetAside, as_ref
from storage.artifacts.blobs import RemoteShelf, Shelf
from storage.artifacts.checksum_cache import MISMATCH
from storage.artifacts.disk import TEMPORARY
from storage.artifacts.keys import DAMAGED, RESERVED_FOLDERS, ArtifactRef, Recipe
from storage.artifacts.layout import Look, Place, check_size, read_manifest
from storage.artifacts.locks import hold_lock
from storage.artifacts.remote import Remote, Stored
from storage.artifacts.store import Store
from storage.errors import ArtifactDamaged, StoreError

GRACE = timedelta(hours=1)
_DATA = ".parquet"
_MANIFEST = re.compile(r"(?P<stage>\w+)/[0-9a-f]{2}/(?P<key>[0-9a-f]{64})\.json")
_OBJECT = re.compile(r"(?P<stage>\w+)/[0-9a-f]{2}/[0-9a-f]{64}-[0-9a-f]{64}\.parquet")
_BEING_PUT = re.compile(rf"\w+/.+\.[0-9a-f]{{32}}\{TEMPORARY}")


class SharedStore(Store):
    """Artifacts at an address, with a local store in front.

    Parameters
    ----------
    cache : Path
        Folder of the local store; it may be removed at any time.
    remote : Remote
    grace : timedelta
        What was stored less than this ago is not removed, whoever needs it: it may belong to work that is
        not known here yet.

    Attributes
    ----------
    set_aside : list of SetAside
        What was found damaged at the address.
    """

    def __init__(self, cache: Path, remote: Remote, grace: timedelta = GRACE) -> None:
        super().__init__(cache)
        self._cache = Store(cache)
        self._remote = remote
        self._grace = grace
        self._lease: leases.Lease | None = None
        # Manifests by name and digest: that of given data is always the same.
        self._seen: dict[tuple[str, str], tuple[bytes, dict[str, Any]]] = {}

    @property
    def place(self) -> str:
        """Where it lies, for messages."""
        return self._remote.uri

    def check(self) -> None:
        """Refuse an address or credentials that cannot be used, before any work."""
        self._remote.listing(leases.FOLDER)

    def shelf(self, folder: str) -> Shelf:
        """A folder of the store for small notes."""
        return RemoteShelf(self._remote, folder)

    def looks(self) -> Iterator[tuple[str, Look]]:
        """Every artifact by stage and key, and what is seen of it without reading its data."""
        stored = self._remote.listing()
        manifests = {self._name(place.manifest): place for place in self._places(stored)}
        for name, raw in sorted(self._remote.read_many(manifests).items()):
            look = read_manifest(manifests[name].name, raw)
            if look.content:
                data = stored.get(self._data_name(manifests[name], look.content["digest"]))
                look = check_size(look, data.size if data else None)
            yield manifests[name].name, look

    def fetch(self, ref: ArtifactRef) -> None:
        """Have the data in the local store, verified; ArtifactDamaged where those at the address are not."""
        from storage.artifacts.tables import DamageError

        if self._cache.has(ref):
            return
        place = self._layout.place(ref.stage, ref.key)
        raw, _ = self._manifest(place, ref.digest)
        try:
            self._cache.adopt(raw, lambda file: self._download(place, ref.digest, file))
        except DamageError as damage:
            raise self._damaged(place, Look(raw, problem=str(damage))) from None

    def compute(
        self,
        recipe: Recipe,
        produce: Callable[[], Artifact],
        force: bool = False,
        on_wait: Callable[[str], None] | None = None,
    ) -> Outcome:
        """Give the artifact of a recipe, computing it when it is missing or damaged; see `Store.compute`.

        Processes with the same local store compute it once. What lies there and never arrived, because the
        connection broke, is put now.
        """
        begun = time.perf_counter()
        if not force and (ref := self.find(recipe, verify=True)):
            return Outcome(ref, True, time.perf_counter() - begun)
        # A copy that never arrived is put as it is; one with links is put together again, which puts those.
        copy = None if force else self._cache.find(recipe)
        linked = copy is not None and bool(self._cache.details(copy)["links"])
        outcome = self._cache.compute(recipe, produce, force or linked, on_wait)
        if not (outcome.cached and self.has(outcome.ref)):
            self._publish(outcome.ref)
        return outcome

    def remember(self, name: str, payload: Mapping[str, Any]) -> None:
        """Keep a small JSON note under a name, here and for others; the latest wins."""
        self._cache.remember(name, payload)
        super().remember(name, payload)

    def last(self, name: str) -> dict[str, Any] | None:
        """What `remember` kept in this local store, else what it kept in any."""
        known = self._cache.last(name)
        return known if known is not None else super().last(name)

    def recent(self) -> set[str]:
        """Names of artifacts that were stored too short a time ago to be removed."""
        stored = self._remote.listing()
        young = self._young(stored)
        return {place.name for place in self._places(stored) if self._name(place.manifest) in young}

    def discard(self, stage: str, key: str) -> bool:
        """Remove an artifact; True. `sweep` drops the local copy."""
        self._check_alone()
        place = self._layout.place(stage, key)
        content = read_manifest(place.name, self._remote.read(self._name(place.manifest))).content
        self._remote.remove(self._name(place.manifest))  # never a manifest whose data are gone
        if content:
            self._remote.remove(self._data_name(place, content["digest"]))
        return True

    @contextmanager
    def in_use(self, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
        """Keep `alone` out, on every machine, while a run counts on artifacts that it has found."""
        with self._cache.in_use(on_wait), leases.in_use(self._remote, on_wait):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep runs of every machine from beginning; StoreError while one is under way."""
        with self._cache.alone(), leases.alone(self._remote) as lease:
            self._lease = lease
            try:
                yield
            finally:
                self._lease = None

    def sweep(self) -> Sequence[PurePath]:
        """Remove what killed processes left, and local copies of what is gone at the address.

        That is data which no manifest names, objects that were being put and artifacts that were set aside,
        all older than the grace period, and leases that lapsed.
        """
        left, manifests = self._left()
        self._check_alone()
        self._remote.remove(*left)
        return [*map(PurePosixPath, left), *self._tidy_cache(manifests)]

    def leftovers(self) -> Sequence[PurePath]:
        """What `sweep` would remove, but for local copies."""
        return [*map(PurePosixPath, self._left()[0]), *self._cache.leftovers()]

    def damaged(self) -> dict[str, int]:
        """Objects that were set aside, and their bytes."""
        return {name: one.size for name, one in self._remote.listing(DAMAGED).items()}

    def _left(self) -> tuple[list[str], Mapping[str, bytes]]:
        """What killed processes left at the address, and the manifests that are there."""
        stored = self._remote.listing()
        manifests = self._remote.read_many(self._name(place.manifest) for place in self._places(stored))
        young, named = self._young(stored), self._named_data(stored, manifests)
        left = [name for name in stored if _is_leftover(name, named) and name not in young]
        return [*left, *(self._lease.lapsed() if self._lease else [])], manifests

    def _named_data(self, stored: Mapping[str, Stored], manifests: Mapping[str, bytes]) -> set[str]:
        """Data that manifests name."""
        looks = {
            place: read_manifest(place.name, manifests.get(self._name(place.manifest)))
            for place in self._places(stored)
        }
        return {
            self._data_name(place, look.content["digest"]) for place, look in looks.items() if look.content
        }

    def _tidy_cache(self, manifests: Mapping[str, bytes]) -> list[PurePath]:
        """Drop local copies of artifacts that are gone at the address, and of notes that were damaged."""
        for place in self._layout.artifacts():
            if self._name(place.manifest) not in manifests:
                self._cache.discard(*place.name.split("/"))
        quarantine.forget(
            self._cache, quarantine.find_lost(self._cache)
        )  # the notes that count are at the address
        return list(self._cache.sweep())

    def _young(self, stored: Mapping[str, Stored]) -> set[str]:
        """Objects within the grace period, by the store's own clock."""
        now = max((one.modified for one in stored.values()), default=None)
        return {name for name, one in stored.items() if now and now - one.modified < self._grace}

    def _check_alone(self) -> None:
        if self._lease:
            self._lease.check()

    def _artifacts(self) -> Iterator[Place]:
        return self._places(self._remote.listing())

    def _places(self, stored: Mapping[str, Stored]) -> Iterator[Place]:
        """Artifacts that have a manifest, among the objects of a listing."""
        for name in sorted(stored):
            if (found := _MANIFEST.fullmatch(name)) and found["stage"] not in RESERVED_FOLDERS:
                yield self._layout.place(found["stage"], found["key"])

    def _checked(self, place: Place, verify: bool) -> Look:
        """Look at the manifest and the size of the data; `verify` sets aside what does not fit.

        The data themselves are verified when they are fetched, and by `verify`.
        """
        look = self._look(place, full=False)
        if look.problem and verify:
            self._set_aside(place, look)
        return look

    def _look(self, place: Place, full: bool) -> Look:
        """What the address says of an artifact; `full` reads all of its data there."""
        look = read_manifest(place.name, self._remote.read(self._name(place.manifest)))
        if look.content and (full or not self._cache.has(as_ref(look.content))):
            look = self._look_at_data(place, look, look.content["digest"], full)
        if look.raw and look.content:
            self._seen[place.name, look.content["digest"]] = look.raw, look.content
        return look

    def _look_at_data(self, place: Place, look: Look, digest: str, full: bool) -> Look:
        name = self._data_name(place, digest)
        found = self._remote.look(name)
        look = check_size(look, found.size if found else None)
        if full and look.content and self._remote.digest(name) != digest:
            return Look(look.raw, problem=MISMATCH)
        return look

    def _manifest(self, place: Place, digest: str | None = None) -> tuple[bytes, dict[str, Any]]:
        return self._seen.get((place.name, digest or "")) or super()._manifest(place, digest)

    @contextmanager
    def _opened(self, ref: ArtifactRef) -> Iterator[tuple[Any, dict[str, str]]]:
        self.fetch(ref)
        with ExitStack() as opened:
            try:
                parquet = opened.enter_context(self._cache._opened(ref))
            except ArtifactDamaged:
                # The copy on this disk has gone bad and was set aside.
                self.fetch(ref)
                parquet = opened.enter_context(self._cache._opened(ref))
            yield parquet

    def _download(self, place: Place, digest: str, file: Path) -> None:
        from storage.artifacts.tables import DamageError

        name = self._data_name(place, digest)
        # Twice, so that a fault of the line is not taken for one of the store.
        if not (self._arrives(name, digest, file) or self._arrives(name, digest, file)):
            raise DamageError(MISMATCH)

    def _arrives(self, name: str, digest: str, file: Path) -> bool:
        if not self._remote.download(name, file):
            return False
        with disk.store_errors(file), file.open("r+b") as stream:
            os.fsync(stream.fileno())
            return hashlib.file_digest(stream, "sha256").hexdigest() == digest

    def _publish(self, ref: ArtifactRef) -> None:
        """Put an artifact of the local store: the data, and when they are there, the manifest."""
        place = self._layout.place(ref.stage, ref.key)
        with hold_lock(place.lock):
            raw = disk.read_if_there(place.manifest)
            if raw is None or not self._cache.has(ref):
                raise StoreError(
                    f"{place.name} was removed from {self.root} before it was stored; run again."
                )
            self._remote.upload(place.data, self._data_name(place, ref.digest))
            self._remote.write(self._name(place.manifest), raw)

    def _set_aside(self, place: Place, look: Look) -> bool:
        self._seen = {known: found for known, found in self._seen.items() if known[0] != place.name}
        manifest = self._name(place.manifest)
        if self._remote.read(manifest) != look.raw:
            return False  # somebody has put a good one in its place since
        # Data of a manifest that cannot be read stay, to be overwritten or swept.
        content = read_manifest(place.name, look.raw).content
        found = [manifest, *([self._data_name(place, content["digest"])] if content else [])]
        for name in found:
            self._remote.copy(name, f"{DAMAGED}/{place.name.partition('/')[0]}/{PurePosixPath(name).name}")
        self._remote.remove(*found)
        self.set_aside.append(SetAside(place.name, look.problem or ""))
        return True

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _data_name(self, place: Place, digest: str) -> str:
        return f"{self._name(place.data).removesuffix(_DATA)}-{digest}{_DATA}"


def _is_leftover(name: str, named: Container[str]) -> bool:
    """Whether an object was being put, is data no manifest names, or an artifact that was set aside."""
    found = _OBJECT.fullmatch(name)
    orphan = found and found["stage"] not in RESERVED_FOLDERS and name not in named
    folder, _, rest = name.partition("/")
    aside = folder == DAMAGED and rest.partition("/")[0] not in RESERVED_FOLDERS
    return bool(orphan or _BEING_PUT.fullmatch(name) or aside)
