"""Annotate a configured collection without further questions, for schedules and `labelscape refresh`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_name

from flows.annotate import AnnotationPlan, ModelSelector, annotation_config, choose_model, find_experiment_of
from flows.config import RunConfig, find_home
from flows.runner import Plan, RunResult, open_workspace
from storage.artifacts.disk import make_folder
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import unpack_manifest
from storage.artifacts.store import ArtifactStore
from tasks.annotation import Request, load_annotations
from tasks.annotation.files import write_annotations
from tasks.reporter import Reporter
from tasks.runs import load_last_run, source_id
from tasks.stages.tracking import make_tracker

Execute = Callable[[Plan[Any]], RunResult[Any]]
"""Runs a plan."""
ANNOTATIONS = "annotations"
"""Folder of the home with the annotations of deployed runs and refreshes."""


def annotate_source(
    config: RunConfig, execute: Execute, experiment: str | None, runs: dict[str, str]
) -> tuple[int, list[Path]]:
    """Annotate a collection, or the items of a tracked one that have no labels.

    Returns the number of items, and the files in the folder `annotations` of the home.
    """
    home = find_home(config)
    tracker = make_tracker(config.tracking.uri, home)
    own = experiment or find_experiment_of(tracker, config, config.source.path)
    model = choose_model(tracker, ModelSelector(experiment=own))
    labeled = model.fitted.labeled
    request = Request(unlabeled=_has_labels(config))
    if request.unlabeled and not _count_unlabeled(config):
        return 0, []
    reading = annotation_config(
        config.source.path, config, labeled.source if labeled else None, None, request.unlabeled
    )
    result = execute(AnnotationPlan(reading, model, request=request))
    runs["annotate"] = result.run_id
    found = load_annotations(result.store, result.products.annotations)
    name = quote_name(Path(config.source.path).name or "items", safe=" ")
    out = home / ANNOTATIONS / f"{name}-{source_id(config.source)[:6]}"
    make_folder(out.parent)
    return len(found.ids), write_annotations(found, out, model.fitted.facts)


def _has_labels(config: RunConfig) -> bool:
    """Whether the source is a collection that was read with its labels before."""
    store = open_workspace(config, Reporter()).store
    return _last_manifest(store, config) is not None


def _count_unlabeled(config: RunConfig) -> int:
    store = open_workspace(config, Reporter()).store
    ref = _last_manifest(store, config)
    labels = unpack_manifest(store.read(ref)).labels if ref else None
    return 0 if labels is None else int((labels < 0).all(axis=1).sum())


def _last_manifest(store: ArtifactStore, config: RunConfig) -> ArtifactRef | None:
    known = load_last_run(store, config.source).get("ingest")
    return ArtifactRef.from_json(known) if known else None
