"""Data sets of the experiments; they pass through the same stages as any other collection."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from embedding_core.protocols.trial import TrialData
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import ArtifactStore
from storage.reference.sets import locate, reference_sets
from tasks.dataset import Dataset, load_dataset
from tasks.settings import FeatureSettings, SourceSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages import ingest
from tasks.stages.feature_blocks import plan_blocks
from tasks.stages.features import recipe_stage


@dataclass(frozen=True)
class DatasetRef:
    """A data set by reference; artifacts that do not exist yet are None.

    Images have one features artifact per color space, other data sets have one.
    """

    name: str
    manifest: ArtifactRef | None
    features: tuple[ArtifactRef | None, ...]
    settings: SourceSettings

    def inputs(self, store: ArtifactStore) -> dict[str, str | None]:
        """Digests of labels and features; None if they do not exist yet."""
        labels = ingest.part_digest(self.manifest, "labels", store)
        first, *others = self.features
        named = zip(reference_sets()[self.name].color_spaces[1:], others, strict=True)
        beside = {f"features[{space}]": digest_of(ref) for space, ref in named}
        return {"labels": labels, "features": digest_of(first), **beside}

    @property
    def part(self) -> dict[str, Any]:
        """Which of its rows are used, see `paper_rows`."""
        wanted = reference_sets()[self.name]
        return {"first_rows": wanted.first_rows, "every_row": wanted.every_row}


def open_dataset(
    name: str, folder: Path, workspace: Workspace, execute: Callable[[Stage], ArtifactRef | None]
) -> DatasetRef:
    """Ingest a data set of the folder and compute its features."""
    wanted = reference_sets()[name]
    settings = SourceSettings(
        path=locate(name, folder), min_label_count=wanted.min_label_count, drop_labels=wanted.drop_labels
    )
    source = ingest.open_collection(settings, workspace)
    # Named after the data set: the record of one run may contain several.
    manifest = execute(replace(ingest.stage(settings, source, workspace), variant=name))
    found = []
    for number, space in enumerate(wanted.color_spaces):
        moments = FeatureSettings.model_validate({"color_moments": {"color_space": space}})
        (block,) = plan_blocks(moments, source)
        variant = f"{name}/{space}" if number else name
        found.append(execute(recipe_stage(block.recipe, settings, source, manifest, workspace, variant)))
    return DatasetRef(name, manifest, tuple(found), settings)


def load_items(store: ArtifactStore, data: DatasetRef) -> Dataset:
    """Every item, including unlabeled ones; features of several color spaces are concatenated."""
    assert data.manifest and all(data.features)
    found = [load_dataset(store, data.manifest, ref) for ref in data.features if ref]
    if len(found) == 1:
        return found[0]
    return replace(found[0], X=np.hstack([one.X for one in found]))


def paper_rows(items: Dataset, name: str) -> np.ndarray:
    """Rows that a paper uses: labeled ones (most of the data sets have no others), of the paper's part."""
    wanted = reference_sets()[name]
    kept = (items.Y >= 0).all(axis=1) if wanted.every_row else (items.Y > 0).any(axis=1)
    rows = np.flatnonzero(kept)
    return rows[rows < wanted.first_rows] if wanted.first_rows else rows


def read_picture(data: DatasetRef, row: int, workspace: Workspace) -> np.ndarray:
    """Pixels (h, w, 3) of the image of a row of `load_trial_data`."""
    from embedding_core.features.images import decode_image

    items = load_items(workspace.store, data)
    found = ingest.open_collection(data.settings, workspace).read(workspace.cache_dir)
    path = dict(zip(found.ids, found.paths or [], strict=True))[items.ids[paper_rows(items, data.name)[row]]]
    assert path is not None  # an image collection
    return decode_image(path.read_bytes())


def load_trial_data(store: ArtifactStore, data: DatasetRef) -> TrialData:
    """Data of the rows that a paper uses, as protocols take them."""
    items = load_items(store, data)
    rows = paper_rows(items, data.name)
    train = None if items.split is None else np.array([items.split[row] == "train" for row in rows])
    return TrialData(items.X[rows], items.Y[rows], tuple(items.label_names), items.single_label, train)
