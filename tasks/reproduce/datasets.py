"""Data sets of the experiments; they pass through the same stages as any other collection."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from embedding_core.blocks import FeatureBlock
from embedding_core.protocols.trial import TrialData
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceError
from storage.reference.sets import ReferenceSet, locate, reference_sets
from storage.sources import OpenedSource
from tasks.dataset import Dataset, load_dataset, load_graph, side_by_side
from tasks.reproduce import learned
from tasks.reproduce.experiment import Draws
from tasks.settings import AffinitySettings, FeatureSettings, SourceSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages import affinity, ingest
from tasks.stages.feature_blocks import BlockPlan, plan_blocks
from tasks.stages.features import recipe_stage

Execute = Callable[[Stage], ArtifactRef | None]
AUTO: Literal["auto"] = "auto"
"""The color space that each fit chooses."""


@dataclass(frozen=True)
class DatasetRef:
    """A data set by reference; artifacts that do not exist yet are None.

    Images have one features artifact per color space or extractor, other data sets have one. `learned` are
    features that are learned from the training rows, one artifact per trial; a kernel matrix of all rows
    takes the place of the features. `classes` limits a quick run to the first classes; 0 for all. `links` is
    the graph of sets with given links.
    """

    name: str
    manifest: ArtifactRef | None
    features: tuple[ArtifactRef | None, ...]
    settings: SourceSettings
    learned: tuple[ArtifactRef | None, ...] = ()
    classes: int = 0
    links: ArtifactRef | None = None

    def inputs(self, store: ArtifactStore) -> dict[str, str | None]:
        """Digests of labels and features; None if they do not exist yet."""
        labels = ingest.part_digest(self.manifest, "labels", store)
        wanted = reference_sets()[self.name]
        names = static_extractors(wanted) if wanted.extractors else wanted.color_spaces
        found = {
            f"features[{name}]" if number else "features": digest_of(ref)
            for number, (name, ref) in enumerate(zip(names, self.features, strict=False))
        }
        by_trial = {f"features[trial {n}]": digest_of(ref) for n, ref in enumerate(self.learned)}
        links = {"links": digest_of(self.links)} if wanted.edges else {}
        return {"labels": labels, **found, **by_trial, **links}

    @property
    def part(self) -> dict[str, Any]:
        """Which of its rows are used, see `paper_rows`."""
        wanted = reference_sets()[self.name]
        limit = {"classes": self.classes} if self.classes else {}
        return {"first_rows": wanted.first_rows, "every_row": wanted.every_row, **limit}


def static_extractors(wanted: ReferenceSet) -> tuple[str, ...]:
    """Extractors of a set that learn nothing."""
    return tuple(name for name in wanted.extractors if name != learned.WORDS)


def open_dataset(
    name: str,
    folder: Path,
    workspace: Workspace,
    execute: Execute,
    draws: Draws | None = None,
) -> DatasetRef:
    """Ingest a data set of the folder and compute its features.

    Parameters
    ----------
    draws : Draws, optional
        The trials; needed for sets whose features are learned from training rows.
    """
    wanted = reference_sets()[name]
    settings = SourceSettings(
        path=locate(name, folder),
        min_label_count=wanted.min_label_count,
        drop_labels=wanted.drop_labels,
        edges=str(folder / wanted.edges) if wanted.edges else None,
        split=wanted.split or None,
    )
    source = ingest.open_collection(settings, workspace)
    # Named after the data set: the record of one run may contain several.
    manifest = execute(replace(ingest.stage(settings, source, workspace), variant=name))
    found = []
    for variant, block in _block_plans(wanted, source):
        found.append(execute(recipe_stage(block.recipe, settings, source, manifest, workspace, variant)))
    classes = draws.settings.get("classes", 0) if draws else 0
    data = DatasetRef(name, manifest, tuple(found), settings, classes=classes)
    if wanted.edges:
        stage = affinity.stage(AffinitySettings(graph="given"), settings, "none", found[0], workspace)
        data = replace(data, links=execute(replace(stage, variant=name)))
    return _learn(data, source, workspace, execute, draws)


def _block_plans(wanted: ReferenceSet, source: OpenedSource) -> list[tuple[str, BlockPlan]]:
    """The blocks of features that need no training rows, each with the variant of its stage."""
    plans = []
    if wanted.extractors:
        for name in static_extractors(wanted):
            (block,) = plan_blocks(FeatureSettings.model_validate({"extractors": [name]}), source)
            plans.append((f"{wanted.name}/{name}", block))
        return plans
    for number, space in enumerate(wanted.color_spaces):
        moments = FeatureSettings.model_validate({"color_moments": {"color_space": space}})
        (block,) = plan_blocks(moments, source)
        plans.append((f"{wanted.name}/{space}" if number else wanted.name, block))
    return plans


def _learn(
    data: DatasetRef,
    source: OpenedSource,
    workspace: Workspace,
    execute: Execute,
    draws: Draws | None,
) -> DatasetRef:
    """Add the features that each trial learns, and the kernel."""
    wanted = reference_sets()[data.name]
    if data.manifest is None or not (learned.WORDS in wanted.extractors or wanted.kernel):
        return data
    labels, positions = _label_rows(workspace.store, data)
    if learned.WORDS in wanted.extractors:
        data = replace(data, learned=_count_words(data, labels, positions, source, workspace, execute, draws))
        positions = np.arange(len(positions))  # words are those of the used rows
    if not wanted.kernel:
        return data
    kernels = []
    for number, ref in enumerate(data.learned or data.features):
        variant = f"{data.name}/trial {number}" if data.learned else data.name
        kernels.append(execute(learned.kernel_stage(ref, wanted.kernel, positions, variant, workspace)))
    return replace(data, features=(), learned=tuple(kernels))


def _count_words(
    data: DatasetRef,
    labels: TrialData,
    positions: NDArray[np.intp],
    source: OpenedSource,
    workspace: Workspace,
    execute: Execute,
    draws: Draws | None,
) -> tuple[ArtifactRef | None, ...]:
    """Visual words by trial; the codebook of each is learned from its training rows."""
    if draws is None:
        raise ValueError(f"the features of {data.name} are learned in each trial, but no trials are given")
    draw_rows = importlib.import_module(draws.protocol).training_rows
    found = source.read(workspace.cache_dir)
    ids = [found.ids[position] for position in positions]
    pictures = learned.Pictures(ids, found.part("images"), positions, labels.Y.argmax(axis=1))
    items = ingest.part_digest(data.manifest, ingest.items_of("images"), workspace.store)
    parameters = reference_sets()[data.name].words
    return tuple(
        execute(
            learned.words_stage(
                pictures,
                draw_rows(labels, draws.settings, number),
                parameters,
                items,
                f"{data.name}/trial {number}",
                workspace,
            )
        )
        for number in range(draws.trials)
    )


def _label_rows(store: ArtifactStore, data: DatasetRef) -> tuple[TrialData, NDArray[np.intp]]:
    """Labels of the used rows, without features, and their positions in the collection."""
    assert data.manifest
    items = unpack_manifest(store.read(data.manifest))
    rows = _used_rows(items.labels, data.name, data.classes)
    names = items.label_names[: data.classes] if data.classes else items.label_names
    Y = np.ascontiguousarray(items.labels[rows][:, : len(names)])
    return TrialData(np.empty((len(rows), 0)), Y, tuple(names), bool((Y.sum(axis=1) == 1).all())), rows


def load_items(store: ArtifactStore, data: DatasetRef) -> Dataset:
    """Every item, including unlabeled ones; several blocks of features are concatenated."""
    assert data.manifest and all(data.features)
    found = [load_dataset(store, data.manifest, ref) for ref in data.features if ref]
    if any(one.ids != found[0].ids for one in found):
        raise SourceError(f"{data.name}: an image could not be read by every extractor; replace it.")
    if len(found) == 1:
        return found[0]
    return replace(found[0], X=np.hstack([one.X for one in found]))


def paper_rows(items: Dataset, name: str) -> NDArray[np.intp]:
    """Rows that a paper uses: labeled ones (most of the data sets have no others), of the paper's part."""
    return _used_rows(items.Y, name)


def _used_rows(Y: NDArray[np.int8], name: str, classes: int = 0) -> NDArray[np.intp]:
    """The rows of `paper_rows` by their labels; of a set with one class per row only the first classes."""
    wanted = reference_sets()[name]
    kept = (Y >= 0).all(axis=1) if wanted.every_row else (Y > 0).any(axis=1)
    if classes:
        kept = (Y[:, :classes] > 0).any(axis=1)
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


def load_trial_data(store: ArtifactStore, data: DatasetRef, number: int = 0) -> TrialData:
    """Data of the rows that a paper uses in one trial, as protocols take them."""
    if data.learned:
        return _load_learned(store, data, number)
    items = load_items(store, data)
    rows = paper_rows(items, data.name)
    train, test = (
        None if items.split is None else np.array([items.split[row] == part for row in rows])
        for part in ("train", "test")
    )
    blocks = _blocks_of(data.name, [items.X.shape[1]])
    links = None if data.links is None else load_graph(store, data.links)[rows][:, rows]
    return TrialData(
        items.X[rows],
        items.Y[rows],
        tuple(items.label_names),
        items.single_label,
        train,
        blocks,
        test,
        links,
    )


def _load_learned(store: ArtifactStore, data: DatasetRef, number: int) -> TrialData:
    """Features that a trial learned beside those that need no learning; or the kernel of all rows."""
    labels, positions = _label_rows(store, data)
    # A kernel of features that learn nothing is the same in all trials.
    ref = data.learned[number if len(data.learned) > 1 else 0]
    assert ref is not None and all(data.features)
    static = [learned.load_block(store, one) for one in data.features if one]
    blocks = [
        *(learned.readable_rows(one, positions) for one in static),
        learned.load_block(store, ref).X,
    ]
    return replace(labels, X=side_by_side(blocks), blocks=_blocks_of(data.name, [X.shape[1] for X in blocks]))


def _blocks_of(name: str, widths: Sequence[int]) -> tuple[dict[str, Any], ...]:
    """How several blocks, or one of several alternatives, are prepared; empty for a single plain block."""
    wanted = reference_sets()[name]
    if wanted.color_spaces == (AUTO,):
        from embedding_core.features.color_moments import ColorMoments

        count = ColorMoments(color_space=AUTO).alternatives
        return (FeatureBlock("color_moments", widths[0], "zscore", alternatives=count).to_json(),)
    if len(widths) < 2:
        return ()
    names = [*static_extractors(wanted), learned.WORDS]
    return tuple(
        FeatureBlock(name, width, "zscore").to_json() for name, width in zip(names, widths, strict=True)
    )
