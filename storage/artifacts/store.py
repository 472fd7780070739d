"""The artifact store: content-addressed Parquet files, verified when read and computed once.

    <root>/<stage>/<key[:2]>/<key>-<digest>.parquet   the data; a blob of this name never changes
    <root>/<stage>/<key[:2]>/<key>.json               the manifest, written last: it names the data
    <root>/locks/<key>.lock                           held while a process computes the key, then removed
    <root>/leases/                                    runs and gc of a shared store, see `leases`
    <root>/quarantine/<stage>/                        damaged artifacts
    <root>/pointers/<name>.json                       small mutable records, such as the last run
    <root>/runs/<id>.json                             the runs, see `run_log`

`<root>` is a folder or an fsspec address. A process may be killed at any time: an artifact exists completely
or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from storage.artifacts import disk, orphans
from storage.artifacts.artifact import Artifact, Outcome, QuarantinedBlob
from storage.artifacts.blobs import Blobs, DamagedBlob, Depth, LocalBlobs
from storage.artifacts.keys import QUARANTINE, ArtifactRef, Recipe
from storage.artifacts.locks import describe_wait
from storage.artifacts.manifest import (
    Location,
    ManifestCheck,
    as_ref,
    check_manifest,
    data_location,
    describe,
    find_size_problem,
    parse_location,
)
from storage.artifacts.pointers import FOLDER as POINTERS
from storage.artifacts.pointers import Pointers
from storage.artifacts.records import Records
from storage.errors import ArtifactDamaged, ArtifactGone, StoreError

if TYPE_CHECKING:
    import pyarrow as pa

    from storage.artifacts.remote import Remote

_NO_PARENTS: Mapping[str, ArtifactRef] = MappingProxyType({})


class ArtifactStore:
    """Artifacts in a folder or at a shared address.

    Parameters
    ----------
    blobs : Blobs
        Where they are kept; see also `local` and `shared`.

    Attributes
    ----------
    quarantined : list of QuarantinedBlob
        Damaged artifacts that this object has found so far.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.quarantined: list[QuarantinedBlob] = []
        # Manifests of a shared store by name and digest: one request per manifest is enough.
        self._seen: dict[tuple[str, str], tuple[bytes, dict[str, Any]]] = {}

    @classmethod
    def local(cls, root: Path) -> ArtifactStore:
        """Open the store in a folder of this machine."""
        return cls(LocalBlobs(root))

    @classmethod
    def shared(cls, copies: Path, remote: Remote, grace: timedelta | None = None) -> ArtifactStore:
        """Open the store at an address, with a folder for local copies; see `FsspecBlobs`."""
        from storage.artifacts.fsspec_blobs import GRACE, FsspecBlobs

        return cls(FsspecBlobs(remote, LocalBlobs(copies), GRACE if grace is None else grace))

    @property
    def root(self) -> Path:
        """The folder on this machine: the store itself, or the local copies of a shared one."""
        return self._blobs.local.root

    @property
    def place(self) -> str:
        """Path or address, for messages."""
        return self._blobs.place

    @property
    def is_shared(self) -> bool:
        """Whether the store is at an address rather than in a folder."""
        return self._blobs.local is not self._blobs

    @property
    def _copies(self) -> list[Blobs]:
        """The places that receive an artifact: the local folder first, then the address."""
        return [self._blobs.local, self._blobs] if self.is_shared else [self._blobs]

    def check_access(self) -> None:
        """Raise if the store cannot be used, before any work is done; a local one reports that on writing."""
        self._blobs.check_access()

    def records(self, folder: str) -> Records:
        """The small records in a folder of the store."""
        return Records(self._blobs, folder)

    def find(self, recipe: Recipe, verify: bool = False) -> ArtifactRef | None:
        """Return the artifact of a recipe, or None if it must be computed.

        Parameters
        ----------
        recipe : Recipe
        verify : bool
            False checks the manifest and the size of the data, and changes nothing. True also checks the
            checksum of the data (once per process while the file does not change) and moves a damaged
            artifact to quarantine.
        """
        check = self._verified(Location(recipe.stage, recipe.key), verify)
        return as_ref(check.content) if check.content else None

    def ref(self, stage: str, key: str) -> ArtifactRef:
        """Return the reference of a stored artifact; StoreError if it is not stored."""
        return as_ref(self._manifest(Location(stage, key))[1])

    def has(self, ref: ArtifactRef) -> bool:
        """Return whether exactly this artifact is stored; its data is not read."""
        content = self._check(Location(ref.stage, ref.key), "size").content
        return content is not None and content["digest"] == ref.digest

    def details(self, ref: ArtifactRef) -> dict[str, Any]:
        """Return the manifest: kind, rows, digest, bytes, recipe, parents, seconds, created, versions."""
        return self._manifest(Location(ref.stage, ref.key), ref.digest)[1]

    def links_hold(self, manifest: Mapping[str, Any], verify: bool = False) -> bool:
        """Return whether everything that an artifact links to is stored unchanged; `verify` as in `find`."""
        for link, digest in zip(manifest["links"], manifest["link_digests"], strict=True):
            check = self._verified(parse_location(link), verify)
            if check.content is None or check.content["digest"] != digest:
                return False
        return True

    def checks(self) -> Iterator[tuple[str, ManifestCheck]]:
        """Check every artifact (`stage/key`) without reading its data."""
        stats = self._blobs.list_blobs()
        locations = {one.manifest: one for one in orphans.list_locations(stats)}
        for name, raw in sorted(self._blobs.read_many(locations).items()):
            location = locations[name]
            check = check_manifest(str(location), raw)
            if check.content:
                data = stats.get(location.data(check.content["digest"]))
                problem = find_size_problem(check.content["bytes"], data.size if data else None)
                check = ManifestCheck(raw, problem=problem) if problem else check
            yield str(location), check

    def entries(self) -> Iterator[dict[str, Any]]:
        """Return the manifests of all intact artifacts, sorted by stage and key."""
        return (check.content for _, check in self.checks() if check.content)

    def read(self, ref: ArtifactRef, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows, verified; the schema's metadata are those of the artifact and its `kind`.

        With `columns` only these are decoded.

        Raises
        ------
        ArtifactDamaged
            If the bytes are not those that were written. The artifact is then in quarantine; computing the
            recipe again replaces it.
        """
        from storage.artifacts.tables import read_table

        with self._opened(ref) as (parquet, metadata):
            return read_table(parquet, columns).replace_schema_metadata(metadata)

    def iter_batches(self, ref: ArtifactRef, rows: int = 4096) -> Iterator[pa.RecordBatch]:
        """Return the rows in batches, after verifying the whole file; memory use stays constant."""
        with self._opened(ref) as (parquet, metadata):
            for batch in parquet.iter_batches(batch_size=rows):
                yield batch.replace_schema_metadata(metadata)

    def fetch(self, ref: ArtifactRef) -> Path:
        """Return the local file of the data; a shared store downloads and verifies it first."""
        location = Location(ref.stage, ref.key)
        return self._fetch(location, ref.digest, self._raw_manifest(location, ref.digest))

    def compute(
        self,
        recipe: Recipe,
        produce: Callable[[], Artifact],
        force: bool = False,
        on_wait: Callable[[str], None] | None = None,
        parents: Mapping[str, ArtifactRef] = _NO_PARENTS,
    ) -> Outcome:
        """Return the artifact of a recipe, computing it if it is missing or damaged.

        Processes of one machine that ask for the same recipe at once compute it once; the others wait.

        Parameters
        ----------
        recipe : Recipe
        produce : callable without arguments
            Computes the artifact. Its exceptions are passed on, and nothing is stored.
        force : bool
            Compute even if it is stored. The old artifact stays until the new one is complete.
        on_wait : callable, optional
            Receives one line of text if another process is computing the same recipe.
        parents : mapping of role to ArtifactRef
            The artifacts it is computed from. They are recorded in the manifest; the key does not depend on
            them, only on the digests in the recipe.
        """
        started = time.perf_counter()
        if not force and (ref := self.find(recipe, verify=True)):
            return Outcome(ref, True, time.perf_counter() - started)
        location = Location(recipe.stage, recipe.key)
        waiting = describe_wait(f"{recipe.stage} is being computed", on_wait)
        with self._blobs.local.hold(location.key, waiting):
            check = self._check(location, "checksum")
            if check.problem:
                self._move_to_quarantine(location, check)
            found = None if force else (check.content or self._finish_upload(location))
            if found:
                return Outcome(as_ref(found), True, time.perf_counter() - started)
            ref = self._write(recipe, produce, parents, check.content)
        return Outcome(ref, False, time.perf_counter() - started)

    def write_pointer(self, name: str, payload: Mapping[str, Any]) -> None:
        """Write a small JSON record under a name; the last write wins."""
        for pointers in self._pointers():
            pointers.write(name, payload)

    def read_pointer(self, name: str) -> dict[str, Any] | None:
        """Return a pointer, or None; with a shared store the last one written on this machine comes first.

        A damaged pointer is moved to quarantine and counts as missing.
        """
        found = (pointers.read(name) for pointers in self._pointers())
        return next((payload for payload in found if payload is not None), None)

    def read_pointers(self, prefixes: tuple[str, ...] = ("",)) -> dict[str, dict[str, Any]]:
        """Return all pointers whose names begin with one of `prefixes`, by name."""
        return self._pointers()[-1].read_all(prefixes)

    def verify_pointers(self) -> Iterator[tuple[str, str]]:
        """Read every pointer and move damaged ones to quarantine; return the name and reason of each."""
        return self._pointers()[-1].verify()

    def unreadable_pointers(self) -> list[str]:
        """List damaged pointers without moving them."""
        return self._pointers()[-1].unreadable()

    def _pointers(self) -> list[Pointers]:
        return [Pointers(Records(blobs, POINTERS), self.quarantined) for blobs in self._copies]

    def verify(self) -> Iterator[tuple[str, str | None]]:
        """Read and hash every artifact; yield its name, and None or the problem.

        Damaged artifacts are moved to quarantine.
        """
        for location in orphans.list_locations(self._blobs.list_blobs()):
            check = self._check(location, "content")
            if check.problem:
                self._quarantine(location, check)
            yield str(location), check.problem

    def recent(self) -> set[str]:
        """Names of artifacts within the grace period, which must not be removed even if nothing uses them."""
        if not self._blobs.grace:
            return set()
        stats = self._blobs.list_blobs()
        young = orphans.find_young(self._blobs, stats)
        return {str(one) for one in orphans.list_locations(stats) if one.manifest in young}

    def discard(self, stage: str, key: str) -> bool:
        """Remove an artifact; False if another process is working on it."""
        location = Location(stage, key)
        with self._blobs.local.try_hold(location.key) as acquired:
            if acquired:
                for blobs in reversed(self._copies):
                    check = check_manifest(str(location), blobs.read(location.manifest))
                    blobs.delete(location.manifest, *_data_blobs(blobs, location, check))
        return acquired

    def in_use(self, on_wait: Callable[[str], None] | None = None) -> AbstractContextManager[None]:
        """Shared lock for a run: `store gc` must not delete what this run uses. `on_wait` as in `compute`."""
        return self._blobs.in_use(on_wait)

    def exclusive(self) -> AbstractContextManager[None]:
        """Exclusive lock for garbage collection; StoreError while a run is active."""
        return self._blobs.exclusive()

    def orphans(self) -> list[PurePath]:
        """List what `remove_orphans` would remove."""
        live = orphans.find_live(self._blobs)
        return [
            blobs.locate(name)
            for blobs in reversed(self._copies)
            for name in orphans.find_orphans(blobs, live, blobs is not self._blobs)
        ]

    def remove_orphans(self) -> list[PurePath]:
        """Remove what killed processes left, and damaged artifacts; return what was removed.

        What a running process works on stays. In a shared store, everything within the grace period stays
        too, and local copies of artifacts that the store no longer has are removed.
        """
        live = orphans.find_live(self._blobs)
        return [
            blobs.locate(name)
            for blobs in reversed(self._copies)
            for name in orphans.remove_orphans(blobs, live, self._blobs, blobs is not self._blobs)
        ]

    def quarantine_sizes(self) -> dict[str, int]:
        """Return the blobs in quarantine and their bytes."""
        return {name: one.size for name, one in self._blobs.list_blobs(QUARANTINE).items()}

    def _verified(self, location: Location, verify: bool) -> ManifestCheck:
        check = self._check(location, "checksum" if verify else "size")
        if check.problem and verify:
            self._quarantine(location, check)
        return check

    def _check(self, location: Location, depth: Depth) -> ManifestCheck:
        check = self._check_at(self._blobs, location, depth)
        if self.is_shared and check.raw and check.content:
            self._seen[str(location), check.content["digest"]] = check.raw, check.content
        return check

    @staticmethod
    def _check_at(blobs: Blobs, location: Location, depth: Depth) -> ManifestCheck:
        check = check_manifest(str(location), blobs.read(location.manifest))
        if check.content is None:
            return check
        digest = check.content["digest"]
        problem = blobs.find_problem(location.data(digest), check.content["bytes"], digest, depth)
        return ManifestCheck(check.raw, problem=problem) if problem else check

    def _manifest(self, location: Location, digest: str | None = None) -> tuple[bytes, dict[str, Any]]:
        if digest and (seen := self._seen.get((str(location), digest))):
            return seen
        check = self._check(location, "size")
        if check.problem:
            raise self._damaged(location, check)
        if check.content is None or check.raw is None:
            raise ArtifactGone(f"{location} is not in the store {self.place}", "run again to compute it")
        if digest and check.content["digest"] != digest:
            raise ArtifactGone(
                f"{location} in {self.place} was computed again and is now {check.content['digest'][:12]}…, "
                f"not {digest[:12]}…",
                "run again to use the new one",
            )
        return check.raw, check.content

    def _raw_manifest(self, location: Location, digest: str) -> bytes:
        """Return the manifest of data to be read; a complete local copy needs no request."""
        if self.is_shared:
            copy = self._check_at(self._blobs.local, location, "size")
            if copy.raw and copy.content and copy.content["digest"] == digest:
                return copy.raw
        return self._manifest(location, digest)[0]

    @contextmanager
    def _opened(self, ref: ArtifactRef) -> Iterator[tuple[Any, dict[str, str]]]:
        from storage.artifacts import tables

        location = Location(ref.stage, ref.key)
        raw = self._raw_manifest(location, ref.digest)
        fetch = partial(self._fetch, location, ref.digest, raw)
        with ExitStack() as stack:
            try:
                opened = stack.enter_context(tables.open_verified(fetch(), ref.digest))
            except DamagedBlob as damage:
                if not self._blobs.drop_copy(location.data(ref.digest)):
                    raise self._damaged(location, ManifestCheck(raw, problem=str(damage))) from damage
                # Only the local copy was damaged.
                opened = stack.enter_context(tables.open_verified(fetch(), ref.digest))
            yield opened

    def _fetch(self, location: Location, digest: str, raw: bytes) -> Path:
        try:
            file = self._blobs.fetch(location.data(digest), digest)
        except DamagedBlob as damage:
            raise self._damaged(location, ManifestCheck(raw, problem=str(damage))) from None
        local = self._blobs.local
        if self.is_shared and local.read(location.manifest) != raw:
            local.write(location.manifest, raw)  # worker processes read only the local folder
        return file

    def _damaged(self, location: Location, check: ManifestCheck) -> StoreError:
        try:
            moved = self._quarantine(location, check)
        except StoreError as error:
            reason = str(error).removesuffix(".")
            return ArtifactDamaged(
                f"{location} is damaged: {check.problem}. It could not be moved to quarantine: {reason}"
            )
        if not moved:
            return ArtifactGone(f"{location} was replaced while it was read", "run again to use the new one")
        return ArtifactDamaged(
            f"{location} is damaged: {check.problem}. It was moved to {self.place}/{QUARANTINE}",
            "run again to recompute it",
        )

    def _quarantine(self, location: Location, check: ManifestCheck) -> bool:
        with self._blobs.local.hold(location.key):
            # Another process may have replaced it by an intact one since it was checked.
            unchanged = self._blobs.read(location.manifest) == check.raw
            if unchanged:
                self._move_to_quarantine(location, check)
        return unchanged

    def _move_to_quarantine(self, location: Location, check: ManifestCheck) -> None:
        """Move manifest and data; the caller holds the lock."""
        self._seen = {known: found for known, found in self._seen.items() if known[0] != str(location)}
        readable = check_manifest(str(location), check.raw)
        for name in (location.manifest, *_data_blobs(self._blobs, location, readable)):
            self._blobs.move(name, location.quarantined(name))
        self.quarantined.append(QuarantinedBlob(str(location), check.problem or ""))

    def _finish_upload(self, location: Location) -> dict[str, Any] | None:
        """Upload an artifact that is complete on this machine but never arrived at the shared address.

        An artifact with links is recomputed instead, so that the linked artifacts are uploaded too.
        """
        check = self._check_at(self._blobs.local, location, "checksum")
        if check.content is None or check.raw is None or check.content["links"]:
            return None
        data = location.data(check.content["digest"])
        self._blobs.publish(self._blobs.local.locate(data), data)
        self._blobs.write(location.manifest, check.raw)
        return check.content

    def _write(
        self,
        recipe: Recipe,
        produce: Callable[[], Artifact],
        parents: Mapping[str, ArtifactRef],
        old: dict[str, Any] | None,
    ) -> ArtifactRef:
        from storage.artifacts import tables

        begun = time.perf_counter()
        artifact = produce()
        location = Location(recipe.stage, recipe.key)
        draft = self._blobs.local.draft(f"{location.folder}/{location.key}.parquet")
        try:
            written = tables.write_table(draft, artifact)
            ref = ArtifactRef(recipe.stage, recipe.key, written.digest, artifact.kind, written.rows)
            raw = disk.seal(describe(recipe, ref, written.bytes, begun, artifact, parents))
            self._install(location, ref, draft, raw, old)
        except BaseException:
            disk.remove_quietly(draft)
            raise
        return ref

    def _install(
        self, location: Location, ref: ArtifactRef, file: Path, raw: bytes, old: dict[str, Any] | None
    ) -> None:
        """Publish the data, then the manifest that names it; the caller holds the lock."""
        data = location.data(ref.digest)
        is_new = old is None or old["digest"] != ref.digest
        for blobs in self._copies:
            file = blobs.publish(file, data)
            try:
                blobs.write(location.manifest, raw)
            except BaseException:
                if is_new and not self.is_shared:
                    disk.remove_quietly(file)
                raise
        if old and is_new and not self.is_shared:  # other machines may still read the old data
            self._blobs.delete(location.data(old["digest"]))


def _data_blobs(blobs: Blobs, location: Location, check: ManifestCheck) -> list[str]:
    """Names of the data of an artifact; all data of its key if its manifest does not say which."""
    if check.content:
        return [location.data(check.content["digest"])]
    return [name for name in blobs.list_blobs(location.folder) if data_location(name) == location]
