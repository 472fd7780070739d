"""What an extractor learns from training items, for instance a codebook: a stage before its features."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import ModelFile, pack_model, unpack_manifest, unpack_model
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError, StoreError
from storage.sources import OpenedSource
from storage.sources.base import Part
from tasks.reporter import Advance
from tasks.settings import SourceSettings
from tasks.stage import Stage, Workspace
from tasks.stages.ingest import TRAINING, changed_meanwhile, explain_change, part_digest
from tasks.training_rows import training_rows

if TYPE_CHECKING:
    from embedding_core.features.base import FeatureExtractor

# Key of a recipe: the artifact with what its extractor learned.
LEARNED = "learned"
_FORMAT = "npz"


def learning_stage(
    extractor: "FeatureExtractor",
    name: str,
    recipe: Mapping[str, Any],
    part: str,
    place: SourceSettings,
    source: OpenedSource,
    manifest: ArtifactRef | None,
    workspace: Workspace,
    check: Callable[[], None] = lambda: None,
) -> Stage:
    """What an extractor learns from the training items.

    Parameters
    ----------
    extractor : FeatureExtractor
        As configured.
    name : str
        Name of its block.
    recipe : mapping
        The recipe of its features, without what it learned.
    part : str
        The part of the items that it reads.
    check : callable
        May raise before the first file is read.
    """
    if extractor.learns_from_labels:
        raise ConfigError(
            f"the extractor {extractor.name} would learn from the labels of all items, also those that a "
            "cross-validation tests on, so every score would be too good. Set "
            f"features.{extractor.name}.per_class=false, or name what was learned elsewhere: "
            f"features.extractors={extractor.name}:FILE."
        )
    return Stage(
        name="features",
        variant=learned_variant(name),
        code=(type(extractor).__module__,),
        params=dict(recipe),
        inputs={"training": part_digest(manifest, TRAINING, workspace.store)},
        produce=lambda: _learn(extractor, part, place, source, manifest, workspace, check),
    )


def learned_variant(name: str) -> str:
    """Variant of the stage that learns for a block."""
    return f"{name} learning"


def load_learned(recipe: Mapping[str, Any], store: ArtifactStore) -> dict[str, np.ndarray]:
    """What the extractor of a recipe learned.

    Raises
    ------
    ConfigError
        The store does not hold it, for instance because a model comes from elsewhere.
    """
    known = recipe[LEARNED]
    try:
        ref = store.ref("features", known["key"])
        if ref.digest != known["digest"]:
            raise StoreError("it was learned again with another result")
        (found,) = unpack_model(store.read(ref))
    except StoreError as error:
        raise ConfigError(
            f"what the extractor {recipe['extractor']} learned for this model is not in the store "
            f"{store.place}. Train again with `labelscape run`, or use the store of the model."
        ) from error
    with np.load(io.BytesIO(found.payload), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _learn(
    extractor: "FeatureExtractor",
    part: str,
    place: SourceSettings,
    source: OpenedSource,
    manifest: ArtifactRef | None,
    workspace: Workspace,
    check: Callable[[], None],
) -> Artifact:
    from embedding_core.features.extraction import FileChanged

    assert manifest is not None
    check()
    items, collection = unpack_manifest(workspace.store.read(manifest)), source.read(workspace.cache_dir)
    if collection.digests != items.digests:
        raise changed_meanwhile(place.path)
    rows = training_rows(items.ids, items.split)
    with workspace.reporter.progress(f"{extractor.name} learning", len(rows)) as advance:
        contents = training_contents(collection.part(part), rows, advance)
        try:
            learned = extractor.learn(contents)
        except FileChanged as error:
            raise explain_change(error) from error
    payload = io.BytesIO()
    np.savez(payload, allow_pickle=False, **learned)
    return pack_model([ModelFile(extractor.name, _FORMAT, payload.getvalue())])


def training_contents(
    part: Part, rows: Iterable[int], advance: Advance = lambda done: None
) -> Iterator[bytes]:
    """The file of each training item: its first one if it has several, nothing if it lacks this part."""
    from embedding_core.features.extraction import read_content

    for done, row in enumerate(rows, start=1):
        files = part.files(row)
        yield read_content(*files[0]) if files else b""
        advance(done)
