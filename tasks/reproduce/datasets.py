"""Data sets of the experiments, through the same stages as any other collection."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from embedding_core.protocols.trial import TrialData
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import Store
from storage.reference.sets import locate, reference_sets
from tasks.dataset import Dataset, load_dataset
from tasks.settings import FeatureSettings, SourceSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages import features, ingest


@dataclass(frozen=True)
class DatasetRef:
    """A data set by reference; None where its artifacts are not there yet.

    Of images there are features for each of the set's color spaces, of any other set one.
    """

    name: str
    manifest: ArtifactRef | None
    features: tuple[ArtifactRef | None, ...]
    settings: SourceSettings

    def inputs(self, store: Store) -> dict[str, str | None]:
        """Digests of labels and features; None where they are not there yet."""
        labels = ingest.part_digest(self.manifest, "labels", store)
        first, *others = self.features
        named = zip(reference_sets()[self.name].color_spaces[1:], others, strict=True)
        beside = {f"features[{space}]": digest_of(ref) for space, ref in named}
        return {"labels": labels, "features": digest_of(first), **beside}

    @property
    def part(self) -> dict[str, Any]:
        """Which of its rows count, see `paper_rows`."""
        wanted = reference_sets()[self.name]
        return {"first_rows": wanted.first_rows, "every_row": wanted.every_row}


def open_dataset(
    name: str, folder: Path, workspace: Workspace, execute: Callable[[Stage], ArtifactRef | None]
) -> DatasetRef:
    """Read a data set of the folder; images get their features here."""
    wanted = reference_sets()[name]
    settings = SourceSettings(
        path=locate(name, folder), min_label_count=wanted.min_label_count, drop_labels=wanted.drop_labels
    )
    source = ingest.open_collection(settings, workspace)
    # Named by the set, so that the record of a run tells those of several sets apart.
    manifest = execute(replace(ingest.stage(settings, source, workspace), variant=name))
    found = []
    for number, space in enumerate(wanted.color_spaces):
        moments = FeatureSettings.model_validate({"color_moments": {"color_space": space}})
        extract = features.stage(moments, settings, source, manifest, workspace)
        found.append(execute(replace(extract, variant=f"{name}/{space}" if number else name)))
    return DatasetRef(name, manifest, tuple(found), settings)


def load_items(store: Store, data: DatasetRef) -> Dataset:
    """Every item, rows without a label included; features of several color spaces side by side."""
    assert data.manifest and all(data.features)
    found = [load_dataset(store, data.manifest, ref) for ref in data.features if ref]
    if len(found) == 1:
        return found[0]
    return replace(found[0], X=np.hstack([one.X for one in found]))


def paper_rows(items: Dataset, name: str) -> np.ndarray:
    """Rows that carry a label, for most of the papers' sets have no others, of the part that a paper has."""
    wanted = reference_sets()[name]
    kept = (items.Y >= 0).all(axis=1) if wanted.every_row else (items.Y > 0).any(axis=1)
    rows = np.flatnonzero(kept)
    return rows[rows < wanted.first_rows] if wanted.first_rows else rows


def read_picture(data: DatasetRef, row: int, workspace: Workspace) -> np.ndarray:
    """Pixels (h, w, 3) of the image behind a row of `load_trial_data`."""
    from embedding_core.features.images import decode_image

    items = load_items(workspace.store, data)
    found = ingest.open_collection(data.settings, workspace).read(workspace.cache_dir)
    path = dict(zip(found.ids, found.paths or [], strict=True))[items.ids[paper_rows(items, data.name)[row]]]
    return decode_image(path.read_bytes())


def load_trial_data(store: Store, data: DatasetRef) -> TrialData:
    """The rows that carry a label, as protocols take them."""
    items = load_items(store, data)
    rows = paper_rows(items, data.name)
    train = None if items.split is None else np.array([items.split[row] == "train" for row in rows])
    return TrialData(items.X[rows], items.Y[rows], tuple(items.label_names), items.single_label, train)
