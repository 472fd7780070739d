"""Features: one row an item, kept in portions so that a changed item rewrites one of them."""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts import columns
from storage.artifacts.keys import ArtifactRef, Recipe, canonical_json
from storage.artifacts.schemas import (
    SCHEMA_VERSION,
    Features,
    Parts,
    pack_features,
    pack_parts,
    unpack_feature_digests,
    unpack_features,
    unpack_parts,
)
from storage.artifacts.store import Artifact, ArtifactStore
from storage.errors import SourceChanged, SourceError, StoreError
from storage.sources import Collection, Source
from storage.sources.base import combine_digests
from tasks.reporter import Advance
from tasks.runs import load_last_run
from tasks.settings import FeatureSettings, SourceSettings
from tasks.stage import Stage, Workspace, fingerprint, task_code
from tasks.stages.chunks import PART_STAGE, split_items
from tasks.stages.ingest import (
    changed_meanwhile,
    digest_collection,
    digest_columns,
    digest_items,
    part_digest,
)

if TYPE_CHECKING:
    from embedding_core.features.color_moments import ColorMoments

# Features of one item, or why there are none.
_Row = tuple[NDArray[np.float32] | None, str | None]

_SKIPPED = "skipped"
# How many items of a portion have an error in place of features.
_UNREADABLE = "unreadable"
_GIVEN = "given"
_IMAGE_CODE = ("embedding_core.features.extraction",)


def stage(
    settings: FeatureSettings,
    place: SourceSettings,
    source: Source,
    manifest: ArtifactRef | None,
    workspace: Workspace,
) -> Stage:
    """Features of the items of a manifest; their labels do not matter here."""
    recipe = feature_recipe(settings, source.kind == "images")
    items = part_digest(manifest, "items", workspace.store)
    return Stage(
        name="features",
        code=_code(source),
        params={**recipe, "strict": place.strict},
        inputs={"items": items},
        produce=lambda: _extract(recipe, place, source, items, workspace),
        anew=lambda: _extract(recipe, place, source, items, workspace, anew=True),
    )


def _code(source: Source) -> tuple[str, ...]:
    """What makes the features: the extraction of images, else the reader of the source."""
    return _IMAGE_CODE if source.kind == "images" else (type(source).__module__,)


def feature_recipe(settings: FeatureSettings, images: bool) -> dict[str, Any]:
    """How features are made, as it is kept with them and with every model fitted on them."""
    if not images:
        return {"kind": _GIVEN}
    own = settings.model_dump(mode="json", include={"grid", "moments", "color_space"})
    return {"kind": "color_moments", **own, "code": feature_code()}


def feature_code() -> str:
    """One digest of the code that extracts features of images."""
    return combine_digests(fingerprint(("embedding_core.features.color_moments",)).values())


def load_skipped(store: ArtifactStore, ref: ArtifactRef) -> dict[str, str]:
    """Items that could not be read, with the reason."""
    metadata = store.read(ref).schema.metadata or {}
    return dict(json.loads(metadata.get(_SKIPPED.encode(), b"{}")))


class KnownRows:
    """Where the last run of a source left the features of each content digest.

    Attributes
    ----------
    positions : dict
        Row by digest, counted over all portions.
    sound : set of str
        Keys of portions of which every item is known to be readable.
    """

    def __init__(
        self,
        store: ArtifactStore,
        refs: Sequence[ArtifactRef],
        positions: dict[str, int],
        sound: bool = False,
    ) -> None:
        self.positions = positions
        self.sound = {ref.key for ref in refs} if sound else set()
        self._store = store
        self._refs = refs
        self._ends = list(accumulate(ref.rows for ref in refs))

    def __contains__(self, digest: str) -> bool:
        """Whether the features of a content can be had; its portion is read for that."""
        position = self.positions.get(digest)
        return position is not None and self._part(position)[0] is not None

    @property
    def seconds(self) -> float:
        """What making all portions took, each the last time."""
        held = (ref for ref in self._refs if self._store.has(ref))
        return float(sum(self._store.details(ref)["seconds"] for ref in held))

    def row(self, digest: str) -> _Row:
        """Features of an item that is known."""
        part, row = self._part(self.positions[digest])
        assert part is not None
        error = part.errors[row] if part.errors else None
        return (None if error else part.X[row], error)

    def _part(self, position: int) -> tuple[Features | None, int]:
        """The portion that holds a row, None where it is gone or damaged, and the row within it."""
        number = bisect_right(self._ends, position)
        ref = self._refs[number]
        row = position - (self._ends[number] - ref.rows)
        try:
            return _read_part(self._store, ref), row
        except StoreError:
            return None, row


def load_known_rows(store: ArtifactStore, place: SourceSettings, recipe: Mapping[str, Any]) -> KnownRows:
    """What the last run of a source extracted by this recipe; nothing where it used another one."""
    last = load_last_run(store, place)
    try:
        features = ArtifactRef.from_json(last["features"])
        known = store.details(features)
        made = known["recipe"]
        if not _makes_same_rows(recipe, made):
            return KnownRows(store, [], {})
        parts = unpack_parts(store.read(features))
        refs = [
            ArtifactRef(PART_STAGE, key, digest, "features", int(rows))
            for key, digest, rows in zip(parts.keys, parts.digests, parts.rows, strict=True)
        ]
        digests = _listed_digests(store, last, made) or _stored_digests(store, refs)
    except (KeyError, StoreError):
        return KnownRows(store, [], {})
    sound = known["metadata"].get(_SKIPPED) == canonical_json({})
    return KnownRows(store, refs, {digest: row for row, digest in enumerate(digests)}, sound)


def _makes_same_rows(recipe: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    """Whether this recipe, by the present code, gives the rows of an earlier features artifact."""
    same = {**recipe, "strict": made["params"]["strict"]} == made["params"]
    # Given features are read, never taken over: what reads them does not matter here.
    return same and (recipe["kind"] == _GIVEN or made["code"] == task_code(_IMAGE_CODE, __name__))


def _listed_digests(store: ArtifactStore, last: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """Digests of the items in order by their manifest alone; none where it is that of other items."""
    manifest = ArtifactRef.from_json(last["ingest"])
    if made["inputs"]["items"] != part_digest(manifest, "items", store):
        return []  # a run that ended before its features left a newer manifest
    return columns.strings(store.read(manifest, ["digest"]), "digest")


def _stored_digests(store: ArtifactStore, refs: Sequence[ArtifactRef]) -> list[str]:
    return [digest for ref in refs for digest in unpack_feature_digests(store.read(ref, ["digest"]))[0]]


def _extract(
    recipe: Mapping[str, Any],
    place: SourceSettings,
    source: Source,
    items: str | None,
    workspace: Workspace,
    anew: bool = False,
) -> Artifact:
    collection = source.read(workspace.cache_dir)
    if digest_collection(collection) != items:
        raise changed_meanwhile(place.path)
    known = KnownRows(workspace.store, [], {})
    if not anew:
        known = load_known_rows(workspace.store, place, recipe)
    extraction = _Extraction(collection, recipe, _code(source), known, workspace, anew)
    refs = extraction.run()
    _check_errors(extraction.errors, len(collection.ids), place, workspace)
    packed = pack_parts(
        Parts(
            part=np.arange(len(refs)),
            keys=[ref.key for ref in refs],
            digests=[ref.digest for ref in refs],
            rows=np.array([ref.rows for ref in refs]),
        )
    )
    skipped = {_SKIPPED: canonical_json(extraction.errors)}
    return replace(packed, metadata={**packed.metadata, **skipped}, links=tuple(refs))


class _Extraction:
    """Makes the portions of a collection from known rows and newly extracted ones."""

    def __init__(
        self,
        collection: Collection,
        recipe: Mapping[str, Any],
        code: tuple[str, ...],
        known: KnownRows,
        workspace: Workspace,
        anew: bool,
    ) -> None:
        self.errors: dict[str, str] = {}
        self._collection = collection
        self._recipe = recipe
        self._code = task_code(code, __name__)
        self._known = known
        self._columns = digest_columns(collection)
        self._workspace = workspace
        self._anew = anew

    def run(self) -> list[ArtifactRef]:
        """Every portion in order; memory holds one at a time."""
        chunks = list(split_items(self._collection.ids))
        done = 0
        refs = []
        with self._workspace.reporter.progress("features", len(self._collection.ids)) as advance:
            for rows in chunks:
                refs.append(self._compute(rows, lambda count, done=done: advance(done + count)))  # type: ignore[misc]
                done += len(rows)
                advance(done)
        return refs

    def _compute(self, rows: range, advance: Advance) -> ArtifactRef:
        ids, digests = _slice(self._collection.ids, rows), _slice(self._collection.digests, rows)
        recipe = Recipe(
            stage=PART_STAGE,
            variant="",
            code=self._code,
            params=self._recipe,
            inputs={"items": digest_items(ids, digests), "columns": self._columns},
            schema=SCHEMA_VERSION,
        )
        store = self._workspace.store
        produce = lambda: _pack_part(self._features(rows, ids, digests, advance))  # noqa: E731
        ref = store.compute(recipe, produce, force=self._anew).ref
        if ref.key not in self._known.sound and store.details(ref)["metadata"].get(_UNREADABLE) != "0":
            reasons = columns.strings(store.read(ref, ["error"]), "error")
            self.errors |= {name: why for name, why in zip(ids, reasons, strict=True) if why is not None}
        return ref

    def _features(self, rows: range, ids: list[str], digests: list[str], advance: Advance) -> Features:
        if self._collection.paths is None:
            X = self._collection.X[rows.start : rows.stop]  # type: ignore[index]
            return Features(ids, digests, X, None, self._recipe, self._collection.feature_names)
        missing = [row for row in rows if self._collection.digests[row] not in self._known]
        made = self._extract_images(missing, advance)
        made |= {row: self._known.row(self._collection.digests[row]) for row in rows if row not in made}
        width = self._moments().n_features
        blank = np.full(width, np.nan, dtype=np.float32)
        X = np.stack([vector if (vector := made[row][0]) is not None else blank for row in rows])
        names = list(self._moments().feature_names())
        return Features(ids, digests, X, [made[row][1] for row in rows], self._recipe, names)

    def _extract_images(self, rows: Sequence[int], advance: Advance) -> dict[int, _Row]:
        from embedding_core.features.extraction import FileChanged, extract_many

        assert self._collection.paths is not None
        if not rows:
            return {}
        paths = [self._collection.paths[row] for row in rows]
        digests = [self._collection.digests[row] for row in rows]
        found = extract_many(paths, self._moments(), self._workspace.executor.map, advance, digests)
        try:
            return {rows[index]: (vector, error) for index, vector, error in found}
        except FileChanged as error:
            what, _, advice = str(error).removesuffix(".").rpartition("; ")
            raise SourceChanged(what, advice) from error

    def _moments(self) -> "ColorMoments":
        return make_moments(self._recipe)


def _pack_part(features: Features) -> Artifact:
    packed = pack_features(features)
    return replace(packed, metadata={**packed.metadata, _UNREADABLE: str(int((~features.readable).sum()))})


def make_moments(recipe: Mapping[str, Any]) -> "ColorMoments":
    """The extractor that a recipe of color moments describes."""
    from embedding_core.features.color_moments import ColorMoments

    return ColorMoments(
        grid=tuple(recipe["grid"]), moments=tuple(recipe["moments"]), color_space=recipe["color_space"]
    )


@lru_cache(maxsize=4)
def _read_part(store: ArtifactStore, ref: ArtifactRef) -> Features:
    return unpack_features(store.read(ref))


def _slice(values: Sequence[str], rows: range) -> list[str]:
    return list(values[rows.start : rows.stop])


def _check_errors(
    errors: Mapping[str, str], n_items: int, place: SourceSettings, workspace: Workspace
) -> None:
    """Say how many items could not be read; stop where none could, or where `strict` asks for it."""
    if not errors:
        return
    name, why = next(iter(errors.items()))
    if place.strict or len(errors) == n_items:
        how_many = "none of the items" if len(errors) == n_items else f"{len(errors)} of {n_items} items not"
        raise SourceError(
            f"{place.path}: {how_many} readable; the first is {name}: {why}. Mend or remove it"
            + (", or set source.strict=false to list such items and go on." if place.strict else ".")
        )
    workspace.reporter.say(
        f"  {len(errors)} of {n_items} items skipped as unreadable (the report lists them), as {name}: {why}"
    )
