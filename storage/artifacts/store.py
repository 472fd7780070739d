"""The artifact store: content-addressed Parquet files that are whole, verified and computed once.

    <root>/<stage>/<key[:2]>/<key>.parquet    the data
    <root>/<stage>/<key[:2]>/<key>.json       its manifest, written last: without it there is no artifact
    <root>/locks/<key>.lock                   held while a process computes the key, then removed
    <root>/damaged/<stage>/                   what failed its checksum, set aside for a look
    <root>/pointers/<name>.json               small mutable notes, such as the last run
    <root>/runs/<id>.json                     the runs, see `storage.artifacts.run_log`

Every file is prepared beside its place (`.tmp`), flushed to the disk and renamed. A process may be killed at
any instant: an artifact is there and whole, or it is not there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from storage.artifacts import disk, orphans
from storage.artifacts.artifact import Artifact, Outcome, SetAside, as_ref, describe
from storage.artifacts.blobs import FolderShelf, Shelf
from storage.artifacts.checksum_cache import MISMATCH, Verified
from storage.artifacts.keys import ArtifactRef, Recipe
from storage.artifacts.layout import Layout, Look, Place, check_size, look_at
from storage.artifacts.locks import hold_lock, share_lock, telling, try_lock
from storage.artifacts.pointers import FOLDER as NOTES
from storage.artifacts.pointers import Notes
from storage.errors import ArtifactDamaged, ArtifactGone, StoreError

if TYPE_CHECKING:
    import pyarrow as pa


class Store:
    """Artifacts under one folder, shared by any number of processes and threads of one machine.

    Parameters
    ----------
    root : Path
        The folder; created when first written to.

    Attributes
    ----------
    set_aside : list of SetAside
        What this object found damaged so far, for the report.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root).absolute()
        self._layout = Layout(self.root)
        self.set_aside: list[SetAside] = []
        self._verified = Verified()

    @property
    def place(self) -> str:
        """Where it lies, for messages."""
        return str(self.root)

    def check(self) -> None:
        """Refuse a place that cannot be used, before any work; a local one is found out when written to."""

    def shelf(self, folder: str) -> Shelf:
        """A folder of the store for small notes."""
        return FolderShelf(self.root, folder)

    def find(self, recipe: Recipe, verify: bool = False) -> ArtifactRef | None:
        """The artifact of a recipe, or None when it must be computed.

        Parameters
        ----------
        recipe : Recipe
        verify : bool
            False checks the manifest and the size of the data, and changes nothing. True also hashes the data
            (once a process while the file stays as it is) and sets a damaged artifact aside.
        """
        place = self._layout.place(recipe.stage, recipe.key)
        look = self._checked(place, verify)
        return as_ref(look.content) if look.content else None

    def ref(self, stage: str, key: str) -> ArtifactRef:
        """The reference of an artifact that is there; StoreError when it is not."""
        return as_ref(self._manifest(self._layout.place(stage, key))[1])

    def has(self, ref: ArtifactRef) -> bool:
        """Whether exactly this artifact is there; its data are not read."""
        content = self._look(self._layout.place(ref.stage, ref.key), full=False).content
        return content is not None and content["digest"] == ref.digest

    def details(self, ref: ArtifactRef) -> dict[str, Any]:
        """The manifest: kind, rows, digest, bytes, recipe, seconds, created, versions."""
        return self._manifest(self._layout.place(ref.stage, ref.key), ref.digest)[1]

    def files(self, manifest: Mapping[str, Any]) -> list[Path]:
        """The files of an artifact, and of all that it links to."""
        names = [f"{manifest['stage']}/{manifest['key']}", *manifest["links"]]
        places = (self._layout.place(*name.split("/")) for name in names)
        return [file for place in places for file in (place.manifest, place.data)]

    def links_hold(self, manifest: Mapping[str, Any], verify: bool = False) -> bool:
        """Whether all that an artifact links to is there as it was then; `verify` as in `find`.

        Parameters
        ----------
        manifest : mapping
            Of the artifact, from `details`.
        verify : bool
        """
        links = manifest["links"]
        # Earlier versions kept no digests of links: then they have only to be there.
        for link, digest in zip(links, manifest.get("link_digests", [None] * len(links)), strict=True):
            place = self._layout.place(*link.split("/"))
            look = self._checked(place, verify)
            if look.content is None or digest not in (None, look.content["digest"]):
                return False
        return True

    def looks(self) -> Iterator[tuple[str, Look]]:
        """Every artifact by stage and key, and what is seen of it without reading its data."""
        for place in self._layout.artifacts():
            yield place.name, look_at(place)

    def entries(self) -> Iterator[dict[str, Any]]:
        """Manifests of all artifacts that `find` would give, by stage and key."""
        return (look.content for _, look in self.looks() if look.content)

    def read(self, ref: ArtifactRef, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows, verified; the metadata of the table's schema is the artifact's and its `kind`.

        With `columns` these alone are decoded.

        Raises
        ------
        ArtifactDamaged
            When the bytes are not those that were written. The files have been set aside; computing the
            recipe again replaces them.
        """
        with self._opened(ref) as (parquet, metadata):
            # For a few small columns threads cost more than they save.
            return parquet.read(columns, use_threads=columns is None).replace_schema_metadata(metadata)

    def iter_batches(self, ref: ArtifactRef, rows: int = 4096) -> Iterator[pa.RecordBatch]:
        """The rows in portions, after verifying the whole file; memory stays flat."""
        with self._opened(ref) as (parquet, metadata):
            for batch in parquet.iter_batches(batch_size=rows):
                yield batch.replace_schema_metadata(metadata)

    def fetch(self, ref: ArtifactRef) -> None:
        """Have the data at hand, verified, before they are read; of a local store they are."""

    def adopt(self, raw: bytes, fill: Callable[[Path], None]) -> None:
        """Take over an artifact that was made elsewhere.

        Parameters
        ----------
        raw : bytes
            Its manifest.
        fill : callable
            Writes the data that the manifest describes to a file; what it raises is passed on, and nothing is
            kept.
        """
        ref = as_ref(disk.unseal(raw))
        place = self._layout.place(ref.stage, ref.key)

        def prepare(data: Path) -> tuple[ArtifactRef, bytes]:
            fill(data)
            return ref, raw

        with hold_lock(place.lock):
            look = look_at(place)
            if look.problem:
                self._move_aside(place, look.problem)
            if look.content is None or look.content["digest"] != ref.digest:
                self._install(place, prepare, look.content)

    def compute(
        self,
        recipe: Recipe,
        produce: Callable[[], Artifact],
        force: bool = False,
        on_wait: Callable[[str], None] | None = None,
    ) -> Outcome:
        """Give the artifact of a recipe, computing it when it is missing or damaged.

        Processes that ask for the same recipe at once compute it once; the others wait.

        Parameters
        ----------
        recipe : Recipe
        produce : callable without arguments
            Computes the artifact. What it raises is passed on, and nothing is stored.
        force : bool
            Compute even when it is there. Until the new one is whole the old one stays.
        on_wait : callable, optional
            Gets one line of text when another process is computing the same recipe.
        """
        started = time.perf_counter()
        if not force and (ref := self.find(recipe, verify=True)):
            return Outcome(ref, True, time.perf_counter() - started)
        place = self._layout.place(recipe.stage, recipe.key)
        with hold_lock(place.lock, telling(f"{recipe.stage} is being computed", on_wait)):
            look = self._look(place, full=True)
            if look.problem:
                self._move_aside(place, look.problem)
            if look.content and not force:
                return Outcome(as_ref(look.content), True, time.perf_counter() - started)
            ref = self._write(recipe, place, produce, look.content)
        return Outcome(ref, False, time.perf_counter() - started)

    def remember(self, name: str, payload: Mapping[str, Any]) -> None:
        """Keep a small JSON note under a name; the latest wins, readers see the old or the new one whole."""
        self._notes.remember(name, payload)

    def last(self, name: str) -> dict[str, Any] | None:
        """What `remember` kept, or None; a damaged note is set aside and counts as none."""
        return self._notes.last(name)

    def notes(self) -> dict[str, dict[str, Any]]:
        """All that `remember` kept, by name."""
        return self._notes.all()

    def verify_notes(self) -> Iterator[tuple[str, str]]:
        """Read every note: the names of damaged ones, and what is wrong; each is set aside."""
        return self._notes.verify()

    @property
    def _notes(self) -> Notes:
        return Notes(self.shelf(NOTES), self.set_aside)

    def verify(self) -> Iterator[tuple[str, str | None]]:
        """Read and hash every artifact: its name, and None or what is wrong; a damaged one is set aside."""
        self._verified.forget()
        for place in self._artifacts():
            look = self._look(place, full=True)
            if look.problem:
                self._set_aside(place, look)
            yield place.name, look.problem

    def recent(self) -> set[str]:
        """Names of artifacts that must not be removed yet, whoever needs them: here none."""
        return set()

    def discard(self, stage: str, key: str) -> bool:
        """Remove an artifact; False where another process is working on it."""
        place = self._layout.place(stage, key)
        with try_lock(place.lock) as mine, disk.store_errors(place.manifest):
            if mine:
                place.manifest.unlink(missing_ok=True)
                disk.sync_folder(place.manifest.parent)  # never a manifest whose data are gone
                place.data.unlink(missing_ok=True)
        return mine

    @contextmanager
    def in_use(self, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
        """Keep `alone` out while a run counts on artifacts that it has found; `on_wait` as in `compute`."""
        tidied = f"{self.root} is being tidied up (`store gc`)"
        with share_lock(self._layout.in_use, telling(tidied, on_wait)):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep runs from beginning; StoreError while one is under way."""
        with try_lock(self._layout.in_use) as mine:
            if not mine:
                raise StoreError(f"a run is using {self.root}; try again when it has ended.")
            yield

    def sweep(self) -> Sequence[PurePath]:
        """Remove what killed processes left and artifacts that were set aside; gives what was removed.

        What a running process works on stays.
        """
        return [*self.shelf(NOTES).sweep(), *orphans.sweep(self._layout)]

    def leftovers(self) -> Sequence[PurePath]:
        """What `sweep` would remove."""
        return [*self.shelf(NOTES).leftovers(), *orphans.list_leftovers(self._layout)]

    def damaged(self) -> dict[str, int]:
        """Files that were set aside, and their bytes."""
        return orphans.measure_damaged(self._layout)

    def _artifacts(self) -> Iterator[Place]:
        return self._layout.artifacts()

    def _checked(self, place: Place, verify: bool) -> Look:
        look = self._look(place, full=verify)
        if look.problem and verify:
            self._set_aside(place, look)
        return look

    def _look(self, place: Place, full: bool) -> Look:
        look = look_at(place)
        if not full or look.content is None:
            return look
        with disk.store_errors(place.data):
            try:
                intact = self._verified.is_intact(place.data, look.content["digest"])
                return look if intact else Look(look.raw, problem=MISMATCH)
            except FileNotFoundError:  # another process has just set it aside
                return check_size(look, None)

    def _manifest(self, place: Place, digest: str | None = None) -> tuple[bytes, dict[str, Any]]:
        look = self._look(place, full=False)
        if look.problem:
            raise self._damaged(place, look)
        if look.content is None or look.raw is None:
            raise ArtifactGone(f"{place.name} is not in the store {self.place}", "run again to compute it")
        if digest and look.content["digest"] != digest:
            raise ArtifactGone(
                f"{place.name} in {self.place} was computed again and is now {look.content['digest'][:12]}…, "
                f"not {digest[:12]}…",
                "run again to use the new one",
            )
        return look.raw, look.content

    @contextmanager
    def _opened(self, ref: ArtifactRef) -> Iterator[tuple[Any, dict[str, str]]]:
        from storage.artifacts import tables

        place = self._layout.place(ref.stage, ref.key)
        raw, _ = self._manifest(place, ref.digest)
        try:
            with tables.open_verified(place.data, ref.digest) as opened:
                yield opened
        except tables.DamageError as damage:
            raise self._damaged(place, Look(raw, problem=str(damage))) from damage

    def _damaged(self, place: Place, look: Look) -> StoreError:
        try:
            moved = self._set_aside(place, look)
        except StoreError as error:
            reason = str(error).removesuffix(".")
            return ArtifactDamaged(f"{place.name} is damaged: {look.problem}. It stays where it is: {reason}")
        if not moved:
            return ArtifactGone(
                f"{place.name} was replaced while it was read", "run again to use the new one"
            )
        return ArtifactDamaged(
            f"{place.name} is damaged: {look.problem}. It was moved to {self.place}/damaged",
            "run again to compute it anew",
        )

    def _set_aside(self, place: Place, look: Look) -> bool:
        with hold_lock(place.lock):
            # Somebody else may have put a good one in its place since.
            unchanged = disk.read_if_there(place.manifest) == look.raw
            if unchanged:
                self._move_aside(place, look.problem or "")
        return unchanged

    def _move_aside(self, place: Place, reason: str) -> None:
        self._layout.move_aside(place)
        self.set_aside.append(SetAside(place.name, reason))

    def _write(
        self, recipe: Recipe, place: Place, produce: Callable[[], Artifact], old: dict[str, Any] | None
    ) -> ArtifactRef:
        from storage.artifacts import tables

        begun = time.perf_counter()
        artifact = produce()

        def prepare(data: Path) -> tuple[ArtifactRef, bytes]:
            written = tables.write_table(data, artifact)
            ref = ArtifactRef(recipe.stage, recipe.key, written.digest, artifact.kind, written.rows)
            return ref, disk.seal(describe(recipe, ref, written.bytes, begun, artifact))

        return self._install(place, prepare, old)

    def _install(
        self,
        place: Place,
        prepare: Callable[[Path], tuple[ArtifactRef, bytes]],
        old: dict[str, Any] | None,
    ) -> ArtifactRef:
        """Put the data that `prepare` writes, and the manifest it gives, where `old` is; under the lock."""
        data, manifest = disk.temporary_path(place.data), disk.temporary_path(place.manifest)
        try:
            with disk.store_errors(place.data):
                disk.make_folder(place.data.parent)
            ref, raw = prepare(data)
            with disk.store_errors(place.manifest):
                disk.write_synced(manifest, raw)
                # From here on only names change, for which a full disk has room.
                if old and old["digest"] != ref.digest:
                    place.manifest.unlink()  # never an old manifest beside new data
                data.replace(place.data)
                disk.sync_folder(place.data.parent)
                manifest.replace(place.manifest)
                disk.sync_folder(place.data.parent)
        except BaseException:
            disk.remove_quietly(data, manifest)
            raise
        return ref
