"""The plan of `labelscape annotate`: label new items with the champion or the model of a tracked run."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from flows.config import RunConfig, place_from
from flows.runner import Plan
from flows.stages import StageRunner
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.labeled_items import load_labeled_items
from storage.artifacts.models import load_model
from storage.artifacts.run_log import Kind
from storage.errors import ConfigError, SourceError, TrackingError
from storage.quoting import quote
from storage.sources import OpenedSource
from storage.tracking.client import ModelInfo, Tracker
from storage.tracking.models import check_labeled_digest, check_model_digest
from storage.tracking.registry import CHAMPION, ModelRegistry, Version, model_name
from storage.urls import redact
from tasks import annotation
from tasks.annotation import FittedModel, Request
from tasks.annotation.files import check_label_table
from tasks.runs import source_place
from tasks.settings import NewItems, PartlyLabeled, SourceSettings
from tasks.stage import Workspace
from tasks.stages import ingest
from tasks.stages.feature_blocks import BlockPlan, block_stages, use_tables
from tasks.stages.tracking import BASELINE_TAG, list_collections

# Settings of the labeled collection with which new items are read as well.
READING = (
    "id",
    "text",
    "ignore",
    "features",
    "split",
    "categorical",
    "label_separator",
    "every_seconds",
)
# The readers advise to change a setting, which a run can.
_MODELS_SETTINGS = (
    "Here the settings features.* are those of the model: change the new items, or train with other settings."
)
# Files with columns, of which `source.labels` may name some.
_WITH_COLUMNS = (".csv", ".tsv", ".txt", ".jsonl", ".parquet", ".feather", ".arff")


@dataclass(frozen=True)
class ModelSelector:
    """Which model annotates.

    Without a run and a method it is the champion that `labelscape auto` registered, or else the best model of
    the newest run. Without an experiment there must be only one; see `find_experiment_of`.
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
    manifest : ArtifactRef
        All items; with labels if only the unlabeled ones were annotated.
    annotations : ArtifactRef
        Labels and scores of the readable items.
    features : ArtifactRef
        Features of all items; they list the unreadable ones.
    """

    name: str
    experiment_name: str
    manifest: ArtifactRef
    annotations: ArtifactRef
    features: ArtifactRef
    tracked: ClassVar[None] = None

    @property
    def shown(self) -> tuple[ArtifactRef, ...]:
        """Artifacts that are read after the walk, to write the files."""
        return (self.manifest, self.annotations, self.features)


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
    request : Request
        A promise on precision; whether to annotate only the items without labels.
    given : tuple of str
        Settings of the command line (`source.id=name`), to repeat the run.
    writes_labels : bool
        Whether labels are written back; a source that takes none is then refused before any work is done.
    """

    model: ChosenModel
    uri: str | None = None
    tables: tuple[str, ...] = ()
    request: Request = field(default_factory=Request)
    given: tuple[str, ...] = ()
    writes_labels: bool = False
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
        given = {"tables": list(self.tables), "set": list(self.given)}
        chosen = {name: values for name, values in given.items() if values}
        return {"source": self.source, **model, **chosen, **self.request.params()}

    def check(self, workspace: Workspace) -> None:
        """Report a source that cannot be opened or does not fit the model at once."""
        with _explaining():
            self._open(workspace)

    def walk(self, stages: StageRunner, tags: Mapping[str, str]) -> AnnotationResult:
        """Read the items, compute their features as those of the model, and predict their labels."""
        with _explaining():
            return self._walk(stages)

    def _open(self, workspace: Workspace) -> tuple[SourceSettings, list[BlockPlan], OpenedSource]:
        """Open the source, and check that its items fit the model."""
        model, place = self.model.fitted, self.config.source
        if isinstance(place, NewItems):
            place = place.model_copy(update={"wanted": model.supplied_names})
        blocks = use_tables(model.blocks, self.tables)
        source = ingest.open_collection(place, workspace, any(block.fills for block in blocks))
        if self.writes_labels:
            check_label_table(source.kind, place.path)
        for block in blocks:
            annotation.check_recipe(block.recipe, source)
        return place, blocks, source

    def _walk(self, stages: StageRunner) -> AnnotationResult:
        workspace = stages.workspace
        place, blocks, source = self._open(workspace)
        manifest = stages(ingest.stage(place, source, workspace))
        made: dict[str, ArtifactRef | None] = {}
        for stage in block_stages(blocks, place, source, manifest, made, workspace):
            made[stage.variant] = stages(stage)
        found = made[""]
        labels = self._judge(source, manifest, found, stages)
        assert found is not None
        assert labels is not None
        assert manifest is not None
        # Annotations are logged separately: `store gc` keeps the newest runs of each experiment.
        experiment = f"{self.kind} {self.model.info.experiment}"
        return AnnotationResult(source.name, experiment, manifest, labels, found)

    def _judge(
        self,
        source: OpenedSource,
        manifest: ArtifactRef | None,
        features: ArtifactRef | None,
        stages: StageRunner,
    ) -> ArtifactRef | None:
        """The last stage: predict the labels."""
        place, workspace = self.config.source, stages.workspace
        model, request = self.model.fitted, self.request
        return stages(annotation.stage(model, place.path, features, workspace, request, manifest, place))


@contextmanager
def _explaining() -> Iterator[None]:
    """Say that settings of features are those of the model, if the advice of a reader is to change one."""
    try:
        yield
    except SourceError as error:
        if type(error) is SourceError and "features." in str(error):
            raise SourceError(f"{error} {_MODELS_SETTINGS}") from error
        raise


def annotation_config(
    path: str,
    here: RunConfig,
    recorded: Mapping[str, Any] | None = None,
    given: SourceSettings | None = None,
    unlabeled: bool = False,
) -> RunConfig:
    """The configuration `here` with new items as its source; its own source is the labeled collection.

    New items are read like the collection of the model (columns of ids and texts, ignored columns, key frames
    of clips), unless the configuration or the command line says otherwise.

    Parameters
    ----------
    path : str
        The new items.
    here : RunConfig
        Of its source only settings that it states count, not defaults.
    recorded : mapping, optional
        The settings with which the collection of the model was read.
    given : SourceSettings, optional
        Settings of the command line; those that it states count.
    unlabeled : bool
        Read a collection with its labels, to annotate the items without.
    """
    kind = PartlyLabeled if unlabeled else NewItems
    known = {name: value for name, value in (recorded or {}).items() if name in kind.model_fields}
    values = _reading(path, known, known.keys(), unlabeled)
    values |= _reading(path, here.source.model_dump(), here.source.model_fields_set, unlabeled)
    if given is not None:
        values |= {name: getattr(given, name) for name in given.model_fields_set}
    return here.model_copy(update={"source": kind(**{**values, "path": path})})


def _reading(
    path: str, settings: Mapping[str, Any], stated: Collection[str], unlabeled: bool
) -> dict[str, Any]:
    """The stated settings of a collection that also apply to the source at `path`.

    If that is the same collection and its labels are read, all of them do.
    """
    if unlabeled and place_from(Path(), path) == place_from(Path(), str(settings.get("path", ""))):
        chosen: Collection[str] = stated
    else:
        chosen = [name for name in (*READING, *_label_columns(path, settings)) if name in stated]
    return {name: settings[name] for name in chosen if settings.get(name) is not None}


def _label_columns(path: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Whether `labels` names columns, which are no features of new items either."""
    labels = str(settings.get("labels") or "")
    named = labels and Path(path).suffix.lower() in _WITH_COLUMNS and not Path(labels).suffix
    return ("labels",) if named else ()


def choose_model(tracker: Tracker, selector: ModelSelector) -> ChosenModel:
    """Load the selected model from the tracker."""
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES

    champion = None if selector.run or selector.method else find_champion(tracker, selector.experiment)
    payload, info = (
        _champions_model(tracker, champion)
        if champion
        else tracker.model(selector.run or _newest(tracker, selector.experiment), selector.method)
    )
    annotator = load_model(payload, SKOPS_TRUSTED_TYPES)
    fitted = FittedModel(annotator, _digest(payload), info.parent_id, info.method)
    return ChosenModel(_with_labeled_items(fitted, tracker, info, champion), info, champion)


def _digest(payload: bytes) -> str:
    return hashlib.blake2b(payload, digest_size=16).hexdigest()


def _with_labeled_items(
    fitted: FittedModel, tracker: Tracker, info: ModelInfo, champion: Version | None
) -> FittedModel:
    """The model with the labeled items that were tracked with it."""
    payload = tracker.labeled_items(info.run_id)
    if payload is None:
        return fitted
    check_labeled_digest(payload, champion.tags if champion else {}, f"the file of run {info.run_id}")
    labeled = load_labeled_items(payload)
    if not fitted.belongs(labeled):
        raise TrackingError(
            f"the labeled items of run {info.run_id} do not belong to its model: they have other labels or "
            "features. Train again, or name another run with --run."
        )
    return replace(fitted, labeled=labeled, labeled_digest=_digest(payload))


def find_experiment_of(tracker: Tracker, here: RunConfig, path: str) -> str | None:
    """The experiment whose models may annotate the items at `path`; None if nothing is tracked.

    It is the configured one, that of these items if they are a tracked collection themselves, that of the
    configured source, or the only one. A model of any other collection is never taken by itself.

    Raises
    ------
    ConfigError
        Several collections are tracked and nothing says which is meant.
    """
    if here.tracking.experiment:
        return here.tracking.experiment
    known = list_collections(tracker)
    places = [source_place(SourceSettings(path=path))]
    if "path" in here.source.model_fields_set:
        places.append(source_place(here.source))
    for place in places:
        if found := next((one.name for one in known if one.source == redact(place)), None):
            return found
    if len(known) > 1:
        names = "\n".join(f"  {one.name}  {one.source}".rstrip() for one in known)
        raise ConfigError(
            f"models of {len(known)} collections are tracked, and nothing says which of them fits "
            f"{quote(path)}; choose one with --experiment:\n{names}"
        )
    return known[0].name if known else None


def find_champion(tracker: Tracker, experiment: str | None) -> Version | None:
    """The champion of an experiment; None if none is registered."""
    return ModelRegistry(tracker).find(model_name(experiment), CHAMPION) if experiment else None


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
    newest = tracker.latest(experiment) if experiment else None
    if newest is None:
        raise SourceError(
            f"no run has been tracked at {tracker.uri} yet; train a model with `labelscape run`."
        )
    return newest.parent_id
