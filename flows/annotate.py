"""Annotate new items with the champion of a collection, or with the model of a tracked run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.artifacts.models import load_model
from storage.errors import SourceError, TrackingError
from storage.sources import SourceOptions, open_source
from storage.tracking.client import ModelInfo, Tracker
from storage.tracking.registry import CHAMPION, ModelRegistry, Version, model_name
from storage.urls import redact
from tasks.annotation import Annotations, annotate_source, write_annotations
from tasks.executor import Executor
from tasks.reporter import Reporter
from tasks.selection.tracking import BASELINE_TAG
from tasks.stages.tracking import list_collections


@dataclass(frozen=True)
class Annotated:
    """The annotations, the model that made them, and the files written; `champion` if it is the champion."""

    annotations: Annotations
    model: ModelInfo
    files: list[Path]
    champion: Version | None = None


@dataclass(frozen=True)
class ModelSelector:
    """Which model annotates.

    Without a run and a method it is the champion that `labelscape auto` registered, or else the best model of
    the newest run. Without an experiment it is that of the newest run.
    """

    run: str | None = None
    method: str | None = None
    experiment: str | None = None


def annotate_items(
    path: str,
    cache_dir: Path,
    tracker: Tracker,
    selector: ModelSelector,
    out: Path,
    reporter: Reporter,
    executor: Executor,
) -> Annotated:
    """Label every item of a source and write Parquet and CSV.

    The source may be anything that `labelscape run` reads; its labels are not needed.
    """
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES

    champion = None if selector.run or selector.method else find_champion(tracker, selector.experiment)
    payload, info = (
        _champions_model(tracker, champion)
        if champion
        else tracker.model(selector.run or _newest(tracker, selector.experiment), selector.method)
    )
    reporter.say(f"model      {name_model(info, champion)}")
    model: Any = load_model(payload, SKOPS_TRUSTED_TYPES)
    source = open_source(SourceOptions(path=path, labeled=False), cache_dir)
    annotations = annotate_source(source, model, cache_dir, reporter, executor)
    files = write_annotations(annotations, out, {"run": info.parent_id, "method": info.method})
    return Annotated(annotations, info, files, champion)


def find_champion(tracker: Tracker, experiment: str | None) -> Version | None:
    """The champion of an experiment, by default of the one used last; None if none is registered."""
    names = [experiment] if experiment else list_collections(tracker)
    return ModelRegistry(tracker).find(model_name(names[0]), CHAMPION) if names else None


def is_baseline(champion: Version) -> bool:
    """Whether a champion is a plain baseline."""
    return champion.tags.get(BASELINE_TAG) == "true"


def name_model(info: ModelInfo, champion: Version | None) -> str:
    """Describe the model that annotates."""
    place = f"{info.title} of run {info.parent_id[:8]} ({info.experiment})"
    if champion is None:
        return place
    plain = ", a plain baseline" if is_baseline(champion) else ""
    return f"{place}, champion: version {champion.version} of {champion.name}{plain}"


def _champions_model(tracker: Tracker, champion: Version) -> tuple[bytes, ModelInfo]:
    try:
        return tracker.model(champion.run_id)
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
            f"no run has been tracked at {redact(tracker.uri)} yet; train a model with `labelscape run`."
        )
    return newest.parent_id
