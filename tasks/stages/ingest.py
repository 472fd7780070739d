"""Ingest: from a source to a manifest of items, their digests and their labels."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from weakref import WeakKeyDictionary

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Manifest, pack_manifest
from storage.artifacts.store import Artifact, ArtifactStore
from storage.errors import SourceChanged
from storage.sources import Collection, Source, SourceOptions, open_source
from storage.sources.base import combine_digests
from storage.sources.builtin import DemoSource
from storage.sources.listing import forget_digests
from tasks.changes import changes_since
from tasks.runs import load_last_run
from tasks.settings import SourceSettings
from tasks.stage import InputDigest, Stage, Workspace

# What decides which bytes are read is in their digest; the rest decides how they are understood.
_PATHS = {"path", "labels", "edges", "strict", "paranoid"}


def open_collection(settings: SourceSettings, workspace: Workspace) -> Source:
    """Recognize the source by what it is."""
    options = SourceOptions(**settings.model_dump(exclude={"edges", "paranoid"}))
    if settings.paranoid:
        forget_digests(workspace.cache_dir)
    source = open_source(options, workspace.cache_dir)
    if isinstance(source, DemoSource) and not source.is_drawn(workspace.cache_dir):
        workspace.reporter.say_once("drawing the demo collection, once")
    return source


def stage(settings: SourceSettings, source: Source, workspace: Workspace) -> Stage:
    """The manifest of a source."""
    digest = source.digest(workspace.cache_dir)
    return Stage(
        name="ingest",
        code=(type(source).__module__,),
        params=settings.model_dump(mode="json", exclude=_PATHS),
        inputs={"source": digest},
        produce=lambda: _read(settings, source, digest, workspace),
    )


def digest_items(ids: Sequence[str], digests: Sequence[str]) -> str:
    """One digest of which items there are and what they contain, whatever their labels."""
    return combine_digests([*ids, "", *digests])


def digest_columns(found: Collection) -> str:
    """One digest of how many given features there are and what they are called."""
    width = 0 if found.X is None else found.X.shape[1]
    return combine_digests([str(width), *(found.feature_names or [])])


def digest_collection(found: Collection) -> str:
    """What the features of a collection depend on: its items, and the columns of given features."""
    if found not in _digests:
        _digests[found] = combine_digests([digest_items(found.ids, found.digests), digest_columns(found)])
    return _digests[found]


# Ingest and features both ask; a weak key keeps no table in memory.
_digests: WeakKeyDictionary[Collection, str] = WeakKeyDictionary()


def digest_labels(manifest: Manifest) -> str:
    """One digest of who carries which label, whatever the items contain."""
    facts = [str(manifest.single_label), *manifest.label_names, "", manifest.labels.tobytes().hex()]
    return combine_digests(facts)


def part_digest(manifest: ArtifactRef | None, part: str, store: ArtifactStore) -> str | None:
    """Digest of the `items` or the `labels` of a manifest, so that a change in one leaves the other fresh."""
    return InputDigest(_facts(manifest, store)[part], manifest) if manifest else None


def has_single_labels(manifest: ArtifactRef | None, store: ArtifactStore) -> bool | None:
    """Whether every item carries exactly one label; None where the collection has not been read yet."""
    return json.loads(_facts(manifest, store)["single_label"]) if manifest else None


@lru_cache(maxsize=2)
def _facts(manifest: ArtifactRef, store: ArtifactStore) -> dict[str, str]:
    """What a manifest says in short; nearly every stage asks, and one digest has one answer."""
    return dict(store.details(manifest)["metadata"])


def changed_meanwhile(path: str) -> SourceChanged:
    """What stops a stage that read other bytes than its key names: kept, they would be there for good."""
    return SourceChanged(f"{path} changed while it was being read", "run again")


def _read(settings: SourceSettings, source: Source, digest: str, workspace: Workspace) -> Artifact:
    found = source.read(workspace.cache_dir)
    if source.digest(workspace.cache_dir) != digest:
        raise changed_meanwhile(settings.path)
    manifest = Manifest(
        ids=found.ids,
        digests=found.digests,
        labels=found.labels,
        label_names=found.label_names,
        split=found.split,
        single_label=found.single_label,
        source_kind=found.kind,
        notes=[(note.file, note.row, note.message) for note in found.notes],
    )
    packed = pack_manifest(manifest)
    parts = {"items": digest_collection(found), "labels": digest_labels(manifest)}
    last = load_last_run(workspace.store, settings).get("ingest")
    history = changes_since(workspace.store, last, manifest)
    return replace(packed, metadata={**packed.metadata, **parts}, history=history)
