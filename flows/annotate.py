"""The plan of `labelscape annotate`: label new items with the champion or the model of a tracked run."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from flows.config import RunConfig, place_from
from flows.runner import Plan
from flows.stages import StageRunner
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.models import load_model
from storage.artifacts.run_log import Kind
from storage.errors import SourceError, TrackingError
from storage.tracking.client import ModelInfo, Tracker
from storage.tracking.models import check_model_digest
from storage.tracking.registry import CHAMPION, ModelRegistry, Version, model_name
from tasks import annotation
from tasks.annotation import FittedModel
from tasks.settings import NewItems
from tasks.stages import ingest
from tasks.stages.feature_blocks import block_stages, use_tables
from tasks.stages.tracking import BASELINE_TAG, list_collections


@dataclass(frozen=True)
class ModelSelector:
    """Which model annotates.

    Without a run and a method it is the champion that `labelscape auto` registered, or else the best model of
    the newest run. Without an experiment it is that of the newest run.
    """

    run: str | None = None
    method: str | None = None
    experiment: str | None = None


@dataclass(frozen=True)
class ChosenModel:
    """The model that annotates and where it is tracked; `champion` if it is the champion."""

    fitted: FittedModel
    info: ModelInfo
    champion: Version | None = None


@dataclass(frozen=True)
class AnnotationResult:
    """References to what an annotation made.

    Attributes
    ----------
    annotations : ArtifactRef
        Labels and scores of the readable items.
    features : ArtifactRef
        Features of all items; they list the unreadable ones.
    """

    name: str
    experiment_name: str
    annotations: ArtifactRef
    features: ArtifactRef
    tracked: ClassVar[None] = None

    @property
    def shown(self) -> tuple[ArtifactRef, ...]:
        """Artifacts that are read after the walk, to write the files."""
        return (self.annotations, self.features)


@dataclass(frozen=True)
class AnnotationPlan(Plan[AnnotationResult]):
    """Annotation of new items: ingest without labels, features by the recipe of the model, prediction.

    The source may be anything that `labelscape run` reads; its labels are not needed. Annotating a small
    folder takes a second or two, but starting a Prefect server takes 10 to 20 s. An annotation therefore runs
    in a Prefect flow only if a server is configured or running (`labelscape up`), otherwise without Prefect.

    Attributes
    ----------
    config : RunConfig
        Only home, store, executor and the path of the source are used; see `annotation_config`.
    model : ChosenModel
    uri : str or None
        The tracker as given by the user, to repeat the run; None for the configured one.
    tables : tuple of str
        Tables in place of those of the model's blocks `table:PATH`.
    """

    model: ChosenModel
    uri: str | None = None
    tables: tuple[str, ...] = ()
    kind: ClassVar[Kind] = "annotate"
    starts_prefect: ClassVar[bool] = False

    @property
    def source(self) -> str:
        """The absolute path of the new items; messages name the path as it was given."""
        return place_from(Path(), self.config.source.path)

    def settings(self) -> dict[str, Any]:
        """The source and the model."""
        fitted, info = self.model.fitted, self.model.info
        model = {"experiment": info.experiment, **fitted.facts, "model": fitted.digest, "uri": self.uri}
        tables = {"tables": list(self.tables)} if self.tables else {}
        return {"source": self.source, **model, **tables}

    def walk(self, stages: StageRunner, tags: Mapping[str, str]) -> AnnotationResult:
        """Read the items, compute their features as those of the model, and predict their labels."""
        workspace, model = stages.workspace, self.model.fitted
        place = self.config.source.model_copy(update={"wanted": model.supplied_names})
        blocks = use_tables(model.blocks, self.tables)
        source = ingest.open_collection(place, workspace, any(block.fills for block in blocks))
        for block in blocks:
            annotation.check_recipe(block.recipe, source)
        manifest = stages(ingest.stage(place, source, workspace))
        made: dict[str, ArtifactRef | None] = {}
        for stage in block_stages(blocks, place, source, manifest, made, workspace):
            made[stage.variant] = stages(stage)
        found = made[""]
        labels = stages(annotation.stage(model, place.path, found, workspace))
        assert found is not None
        assert labels is not None
        # Annotations are logged separately: `store gc` keeps the newest runs of each experiment.
        return AnnotationResult(source.name, f"annotate {self.model.info.experiment}", labels, found)


def annotation_config(path: str, here: RunConfig) -> RunConfig:
    """The configuration `here`, with new items as its source; its own source is the labeled collection.

    New items are read like its own: the columns of ids and texts, ignored columns, key frames of clips.
    """
    own = here.source
    new = NewItems(path=path, id=own.id, ignore=own.ignore, text=own.text, every_seconds=own.every_seconds)
    return here.model_copy(update={"source": new})


def choose_model(tracker: Tracker, selector: ModelSelector) -> ChosenModel:
    """Load the selected model from the tracker."""
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES

    champion = None if selector.run or selector.method else find_champion(tracker, selector.experiment)
    payload, info = (
        _champions_model(tracker, champion)
        if champion
        else tracker.model(selector.run or _newest(tracker, selector.experiment), selector.method)
    )
    digest = hashlib.blake2b(payload, digest_size=16).hexdigest()
    fitted = FittedModel(load_model(payload, SKOPS_TRUSTED_TYPES), digest, info.parent_id, info.method)
    return ChosenModel(fitted, info, champion)


def find_champion(tracker: Tracker, experiment: str | None) -> Version | None:
    """The champion of an experiment, by default of the one used last; None if none is registered."""
    names = [experiment] if experiment else list_collections(tracker)
    return ModelRegistry(tracker).find(model_name(names[0]), CHAMPION) if names else None


def is_baseline(champion: Version) -> bool:
    """Whether a champion is a plain baseline."""
    return champion.tags.get(BASELINE_TAG) == "true"


def name_model(model: ChosenModel) -> str:
    """Describe the model that annotates."""
    info, champion = model.info, model.champion
    place = f"{info.title} of run {info.parent_id[:8]} ({info.experiment})"
    if champion is None:
        return place
    plain = ", a plain baseline" if is_baseline(champion) else ""
    return f"{place}, champion: version {champion.version} of {champion.name}{plain}"


def _champions_model(tracker: Tracker, champion: Version) -> tuple[bytes, ModelInfo]:
    try:
        payload, info = tracker.model(champion.run_id)
        check_model_digest(payload, champion.tags, f"the model of run {champion.run_id}")
        return payload, info
    except TrackingError as error:
        raise TrackingError(
            f"the champion (version {champion.version} of {champion.name}) cannot be loaded: {error} "
            "Run `labelscape auto` again, or name a run with --run."
        ) from error


def _newest(tracker: Tracker, experiment: str | None) -> str:
    names = [experiment] if experiment else list_collections(tracker)
    newest = next((run for name in names if (run := tracker.latest(name))), None)
    if newest is None:
        raise SourceError(
            f"no run has been tracked at {tracker.uri} yet; train a model with `labelscape run`."
        )
    return newest.parent_id
