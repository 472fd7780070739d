"""Feature rows of the last run, found by the digest of an item's content."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.artifacts import columns
from storage.artifacts.keys import ArtifactRef, canonical_json, stage_label
from storage.artifacts.schemas import Features, unpack_feature_digests, unpack_features, unpack_parts
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from tasks.runs import load_last_run
from tasks.settings import SourceSettings
from tasks.stages.chunks import PART_STAGE
from tasks.stages.ingest import items_of

if TYPE_CHECKING:
    from embedding_core.features.extraction import Row

SKIPPED = "skipped"


class KnownRows:
    """Locates the feature row of each content digest in the portions of the last run.

    Attributes
    ----------
    positions : dict
        Row number by digest, counted over all portions.
    sound : set of str
        Keys of portions without unreadable items.
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
        """Whether the row of a content digest can be read. This reads its portion."""
        position = self.positions.get(digest)
        return position is not None and self._part(position)[0] is not None

    @property
    def seconds(self) -> float:
        """Total time that computing the portions took."""
        held = (ref for ref in self._refs if self._store.has(ref))
        return float(sum(self._store.details(ref)["seconds"] for ref in held))

    def row(self, digest: str) -> "Row":
        """Features of a known item."""
        part, row = self._part(self.positions[digest])
        assert part is not None
        error = part.errors[row] if part.errors else None
        if error:
            return None, error
        # An index into a sparse array with one number gives another format.
        return (part.X[row] if isinstance(part.X, np.ndarray) else part.X[row : row + 1]), None

    def _part(self, position: int) -> tuple[Features | None, int]:
        """The portion that holds a row (None if it is missing or damaged), and the row within it."""
        number = bisect_right(self._ends, position)
        ref = self._refs[number]
        row = position - (self._ends[number] - ref.rows)
        try:
            return _read_part(self._store, ref), row
        except StoreError:
            return None, row


def load_known_rows(
    store: ArtifactStore,
    place: SourceSettings,
    recipe: Mapping[str, Any],
    code: Mapping[str, str],
    variant: str = "",
) -> KnownRows:
    """Find the rows that the last run of a source computed with this recipe and this code.

    Parameters
    ----------
    store : ArtifactStore
    place : SourceSettings
    recipe : mapping
        The feature recipe. Rows that another recipe computed are not used.
    code : mapping
        Fingerprint of the code that computes features now.
    variant : str
        Name of the block, if the run joins several.
    """
    last = load_last_run(store, place)
    try:
        features = _last_block(last, variant, recipe)
        known = store.details(features)
        made = known["recipe"]
        params = {name: value for name, value in made["params"].items() if name != "strict"}
        if params != dict(recipe) or made["code"] != code:
            return KnownRows(store, [], {})
        parts = unpack_parts(store.read(features))
        refs = [
            ArtifactRef(PART_STAGE, key, digest, "features", int(rows))
            for key, digest, rows in zip(parts.keys, parts.digests, parts.rows, strict=True)
        ]
        digests = _listed_digests(store, last, made) or _stored_digests(store, refs)
    except (KeyError, StopIteration, StoreError):
        return KnownRows(store, [], {})
    sound = known["metadata"].get(SKIPPED) == canonical_json({})
    return KnownRows(store, refs, {digest: row for row, digest in enumerate(digests)}, sound)


def _last_block(last: Mapping[str, Any], variant: str, recipe: Mapping[str, Any]) -> ArtifactRef:
    """The block in the last run, whether it stood alone then or beside others."""
    labels = (stage_label("features", variant or recipe["extractor"]), "features")
    return ArtifactRef.from_json(next(last[label] for label in labels if label in last))


def _listed_digests(store: ArtifactStore, last: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """Digests of the items, read from their manifest; empty if the manifest lists other items."""
    manifest = ArtifactRef.from_json(last["ingest"])
    facts = store.details(manifest)["metadata"]
    items = [digest for name, digest in facts.items() if name.startswith(items_of(""))]
    if items != [made["inputs"]["items"]]:
        # A run that stopped before its features stage left a newer manifest, or the items have several parts.
        return []
    return columns.strings(store.read(manifest, ["digest"]), "digest")


def _stored_digests(store: ArtifactStore, refs: Sequence[ArtifactRef]) -> list[str]:
    return [digest for ref in refs for digest in unpack_feature_digests(store.read(ref, ["digest"]))[0]]


@lru_cache(maxsize=4)
def _read_part(store: ArtifactStore, ref: ArtifactRef) -> Features:
    return unpack_features(store.read(ref))
