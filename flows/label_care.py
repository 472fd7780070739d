"""The plan of `labelscape review`, and what the commands about labels share."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from embedding_core.features.picture_signature import PictureSignature
from flows.annotate import (
    AnnotationPlan,
    ChosenModel,
    ModelSelector,
    annotation_config,
    choose_model,
    find_experiment_of,
)
from flows.commands.annotate import read_settings
from flows.commands.options import open_tracker
from flows.config import RunConfig, as_override, find_home, place_from
from flows.rerun import command_here
from flows.runner import RunResult
from flows.selection import SelectionResult
from flows.stages import StageRunner
from storage.artifacts.disk import store_errors
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.locks import hold_lock
from storage.artifacts.run_log import Kind
from storage.errors import ConfigError, TrackingError
from storage.paths import expand_path
from storage.permissions import make_users_folder
from storage.sources import OpenedSource
from storage.tracking.client import Tracker
from storage.tracking.registry import CHALLENGER, CHAMPION, ModelRegistry, model_name
from tasks.annotation import Request
from tasks.label_care import findings
from tasks.label_care.corrections import Merged, merge_corrections, read_corrections
from tasks.label_care.gain import Gain, settle_gain
from tasks.runs import source_place
from tasks.settings import SourceSettings
from tasks.stage import Workspace
from tasks.stages.features import extractor_recipe, recipe_stage
from tasks.stages.ingest import open_collection
from tasks.stages.tracking import make_tracker

_SAVED = "corrections.csv"


@dataclass(frozen=True)
class ReviewPlan(AnnotationPlan):
    """Review of a collection: ingest with labels, features by the recipe of the model, findings.

    Pictures also get signatures, by which near-duplicates are found.
    """

    kind: ClassVar[Kind] = "review"

    def settings(self) -> dict[str, Any]:
        """The source and the model."""
        return {**super().settings(), "review": True}

    def _judge(
        self,
        source: OpenedSource,
        manifest: ArtifactRef | None,
        features: ArtifactRef | None,
        stages: StageRunner,
    ) -> ArtifactRef | None:
        place, workspace = self.config.source, stages.workspace
        signatures = None
        if source.contents == ("images",):
            recipe = extractor_recipe(PictureSignature.name, vars(PictureSignature()))
            signatures = stages(
                recipe_stage(recipe, place, source, manifest, workspace, PictureSignature.name)
            )
        return stages(
            findings.stage(self.model.fitted, place.path, manifest, features, signatures, workspace)
        )


@dataclass(frozen=True)
class CareRequest:
    """What a command about labels works on: the configuration of the source, the model, and its tracker.

    `uri` is the tracker and `given` the settings of the source as the user stated them, to repeat the run.
    """

    config: RunConfig
    model: ChosenModel
    tracker: Tracker
    here: RunConfig
    uri: str | None = None
    given: tuple[str, ...] = ()


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `read_request` reads."""
    parser.add_argument("source", metavar="SOURCE", help="the collection, with its labels")
    parser.add_argument(
        "--run", help="run id (default: champion or challenger of `auto`, else the newest tracked run)"
    )
    parser.add_argument("--method", help="method of that run (default: the one with the best score)")
    parser.add_argument("--experiment", help="experiment of the champion or run (default: that of SOURCE)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how SOURCE is read, such as source.labels=labels.csv; may be repeated",
    )


def read_request(options: argparse.Namespace) -> CareRequest:
    """The model of a collection, and the configuration with which its items and labels are read."""
    here, given = read_settings(options)
    tracker = open_tracker(options)
    source = str(expand_path(options.source, "argument"))
    experiment = options.experiment
    if not (experiment or options.run):
        experiment = find_experiment_of(tracker, here, source)
    model = choose_model(tracker, _model_of_auto(tracker, options.run, options.method, experiment))
    labeled = model.fitted.labeled
    config = annotation_config(options.source, here, labeled.source if labeled else None, given, True)
    uri = tracker.uri if options.uri else None
    return CareRequest(config, model, tracker, here, uri, tuple(options.set))


def _model_of_auto(
    tracker: Tracker, run: str | None = None, method: str | None = None, experiment: str | None = None
) -> ModelSelector:
    """The model that is named, or the champion, or the challenger: it has scores to judge labels by.

    Without any of them it is that of the newest run.
    """
    if experiment and not (run or method):
        registry, name = ModelRegistry(tracker), model_name(experiment)
        if registry.find(name, CHAMPION) is None and (found := registry.find(name, CHALLENGER)):
            run = found.run_id
    return ModelSelector(run, method, experiment)


def configured_request(config: RunConfig, experiment: str | None) -> CareRequest:
    """The model of a configured collection, for a refresh."""
    tracker = make_tracker(config.tracking.uri, find_home(config))
    own = experiment or find_experiment_of(tracker, config, config.source.path)
    model = choose_model(tracker, _model_of_auto(tracker, experiment=own))
    labeled = model.fitted.labeled
    read = annotation_config(config.source.path, config, labeled.source if labeled else None, None, True)
    return CareRequest(read, model, tracker, config)


def make_review_plan(request: CareRequest) -> ReviewPlan:
    """The plan that reviews the collection of a request."""
    return ReviewPlan(
        request.config, request.model, request.uri, request=Request(unlabeled=True), given=request.given
    )


def merge_file(
    path: Path, source: SourceSettings, workspace: Workspace, labels_file: Path, replace: bool = False
) -> Merged:
    """Merge a file of answers into the labels of a source, one merge at a time; see `merge_corrections`."""
    corrections = read_corrections(path, source.label_separator)
    with store_errors(workspace.home), hold_lock(workspace.home / ".labels.lock"):
        opened = open_collection(source, workspace, allow_missing=True)
        return merge_corrections(corrections, opened, workspace.cache_dir, labels_file, replace)


def merge_command(request: CareRequest, source: str) -> str:
    """The command that merges the saved file, with all settings by which the source was read here."""
    sets = [word for setting in _stated_settings(request) for word in ("--set", setting)]

    def command(file: str, place: str) -> str:
        return command_here(request.config, "labels", "apply", file, place, *sets)

    made = command(_SAVED, source)
    if not made.startswith("cd "):
        return made
    return command(str(Path(_SAVED).absolute()), place_from(Path(), source))


def command_on(config: RunConfig, source: str, word: str, *options: str) -> str:
    """A command on a source as it was named, with the home and the store of a configuration."""
    made = command_here(config, word, source, *options)
    return (
        command_here(config, word, place_from(Path(), source), *options) if made.startswith("cd ") else made
    )


def _stated_settings(request: CareRequest) -> list[str]:
    """Settings of the source that are no defaults, or that labelscape.toml states otherwise."""
    read, unset = request.config.source, SourceSettings()
    known = source_settings(request.here, SourceSettings(path=place_from(Path(), read.path)))
    values = {name: getattr(read, name) for name in SourceSettings.model_fields if name != "path"}
    return [
        f"source.{name}={as_override(value)}"
        for name, value in values.items()
        if value is not None and not value == getattr(unset, name) == getattr(known, name)
    ]


def choose_folder(given: str | None, default: str, source: Path, home: Path) -> Path:
    """The folder that results are written to; refused if a run of the source would read them as data."""
    out = expand_path(given or default, "--out").absolute()
    inside = next(
        (one for one in (source, home) if one.is_dir() and out.resolve().is_relative_to(one.resolve())), None
    )
    if inside is not None or out.is_file():
        why = (
            "a file"
            if inside is None
            else "inside the collection"
            if inside == source
            else "inside the home folder"
        )
        raise ConfigError(f"--out {out} is {why}; choose another folder with --out FOLDER.")
    with store_errors(out, "--out"):
        make_users_folder(out)
    return out


def own_label_file(source: Path) -> Path:
    """The file for labels that cannot be written back into the source: beside it."""
    return source.absolute().with_name(f"{source.absolute().stem}-labels.csv")


def source_settings(here: RunConfig, given: SourceSettings) -> SourceSettings:
    """How a source is read: as labelscape.toml says if it is about this source, then as `--set` says."""
    known = here.source.model_dump() if source_place(here.source) == source_place(given) else {}
    stated = {name: getattr(given, name) for name in given.model_fields_set}
    return SourceSettings(**{**known, **stated, "path": given.path})


def report_gain(config: RunConfig, result: RunResult[SelectionResult]) -> Gain | None:
    """What labels that changed since the last model of the collection gained; None if none did."""
    settled = result.products.settled
    held = settled and (settled.challenger or settled.champion)
    if not held:
        return None
    tracker = make_tracker(config.tracking.uri, result.home)
    try:
        return settle_gain(result.home, config.source, result.products.experiment_name, held.run_id, tracker)
    except TrackingError:
        return None  # the model is registered; only the comparison is missing
