"""Ingest: read a source into a manifest of items, their digests and their labels."""

import json
from dataclasses import replace
from functools import lru_cache

from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Manifest, pack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceChanged, SourceError
from storage.sources import OpenedSource, SourceOptions, open_source
from storage.sources.base import combine_digests
from storage.sources.builtin import DemoSource
from storage.sources.hygiene import label_notes
from storage.sources.listing import forget_digests
from tasks.changes import changes_since
from tasks.runs import load_last_run
from tasks.settings import SourceSettings
from tasks.stage import InputDigest, Stage, Workspace
from tasks.stages.missing_parts import lacking_fact
from tasks.training_rows import training_digest

# Fact of a manifest: what extractors learn from, see `tasks.training_rows`.
TRAINING = "training"
# Fact of a manifest: the number of labeled items.
_LABELED = "labeled"
# These settings decide which bytes are read, which the digest covers; the others decide how they are parsed,
# or whether they are refused.
_PATHS = {"path", "labels", "edges", "paranoid", "wanted"}


def source_options(settings: SourceSettings) -> SourceOptions:
    """The part of the settings that readers know."""
    return SourceOptions(**settings.model_dump(exclude={"edges", "paranoid"}), labeled=settings.labeled)


def open_collection(
    settings: SourceSettings, workspace: Workspace, allow_missing: bool = False
) -> OpenedSource:
    """Recognize and open the source that the settings name.

    `allow_missing` accepts supplied features with missing values, which `features.fill` fills later.
    """
    if settings.paranoid:
        forget_digests(workspace.cache_dir)
    options = replace(source_options(settings), allow_missing=allow_missing)
    source = open_source(options, workspace.cache_dir)
    if isinstance(source.inner, DemoSource) and not source.inner.is_drawn(workspace.cache_dir):
        workspace.reporter.say_once("drawing the demo collection (first use only)")
    return source


def stage(settings: SourceSettings, source: OpenedSource, workspace: Workspace) -> Stage:
    """The manifest of a source."""
    digest = source.digest(workspace.cache_dir)
    return Stage(
        name="ingest",
        code=(source.module, "storage.sources.hygiene"),
        params={
            **settings.model_dump(mode="json", exclude=_PATHS),
            **({} if settings.labeled else {"labeled": False}),
        },
        inputs={"source": digest},
        produce=lambda: _read(settings, source, digest, workspace),
    )


def digest_labels(manifest: Manifest) -> str:
    """One digest of the labels of all items, independent of their content."""
    facts = [str(manifest.single_label), *manifest.label_names, "", manifest.labels.tobytes().hex()]
    return combine_digests(facts)


def items_of(part: str) -> str:
    """Name of the fact of a manifest that tells whether a part of the items changed; for `part_digest`."""
    return f"items:{part}"


def part_digest(manifest: ArtifactRef | None, part: str, store: ArtifactStore) -> str | None:
    """Digest of the labels of a manifest, or of a part of its items. A change of one leaves the others fresh.

    Parameters
    ----------
    part : str
        "labels", `TRAINING`, or what `items_of` returns.
    """
    return InputDigest(_facts(manifest, store)[part], manifest) if manifest else None


def has_single_labels(manifest: ArtifactRef | None, store: ArtifactStore) -> bool | None:
    """Whether every item has exactly one label; None if the collection has not been read yet."""
    return json.loads(_facts(manifest, store)["single_label"]) if manifest else None


def count_labeled(manifest: ArtifactRef | None, store: ArtifactStore) -> int:
    """How many items are labeled; 0 if the collection has not been read yet."""
    return int(_facts(manifest, store).get(_LABELED, "0")) if manifest else 0


@lru_cache(maxsize=2)
def _facts(manifest: ArtifactRef, store: ArtifactStore) -> dict[str, str]:
    """The metadata of a manifest, cached because nearly every stage needs it."""
    return dict(store.details(manifest)["metadata"])


def changed_meanwhile(path: str) -> SourceChanged:
    """The error of a stage that read other bytes than its key names. Storing them would be permanent."""
    return SourceChanged(f"{path} changed while it was being read", "run again")


def explain_change(error: Exception) -> SourceChanged:
    """The error of a file that changed while it was read, from the message of the core."""
    what, _, advice = str(error).removesuffix(".").rpartition("; ")
    return SourceChanged(what, advice)


def _read(settings: SourceSettings, source: OpenedSource, digest: str, workspace: Workspace) -> Artifact:
    found = source.read(workspace.cache_dir)
    if source.digest(workspace.cache_dir) != digest:
        raise changed_meanwhile(settings.path)
    if not found.ids:
        raise SourceError(f"{settings.path} has no items. Give a source with items.")
    manifest = Manifest(
        ids=found.ids,
        digests=found.digests,
        labels=found.labels,
        label_names=found.label_names,
        split=found.split,
        single_label=found.single_label,
        source_kind=found.kind,
        notes=[(note.file, note.row, note.message) for note in (*found.notes, *label_notes(found))],
    )
    packed = pack_manifest(manifest)
    parts = {items_of(part.name): found.part_digest(part.name) for part in found.parts}
    parts |= {"labels": digest_labels(manifest), **lacking_fact(found)}
    parts[_LABELED] = str(int((found.labels >= 0).all(axis=1).sum()) if found.label_names else 0)
    if found.paths is not None:  # only extractors of images learn
        parts[TRAINING] = training_digest(found.ids, found.digests, found.split)
    last = load_last_run(workspace.store, settings).get("ingest")
    history = changes_since(workspace.store, last, manifest)
    return replace(packed, metadata={**packed.metadata, **parts}, history=history)
