"""Annotate a configured collection without further questions, for schedules and `labelscape refresh`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_name

from flows.annotate import AnnotationPlan, ModelSelector, annotation_config, choose_model, find_experiment_of
from flows.config import RunConfig, find_home
from flows.runner import Plan, RunResult, open_workspace
from storage.artifacts.disk import make_folder
from storage.artifacts.schemas import unpack_manifest
from tasks.annotation import Request, load_annotations
from tasks.annotation.files import write_annotations
from tasks.reporter import Reporter
from tasks.runs import load_last_run, source_id
from tasks.stage import run_stage
from tasks.stages import ingest
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
    request = Request(unlabeled=_was_run(config))
    reading = annotation_config(
        config.source.path, config, labeled.source if labeled else None, None, request.unlabeled
    )
    if request.unlabeled and not _has_unlabeled(reading):
        return 0, []
    result = execute(AnnotationPlan(reading, model, request=request))
    runs["annotate"] = result.run_id
    found = load_annotations(result.store, result.products.annotations)
    name = quote_name(Path(config.source.path).name or "items", safe=" ")
    out = home / ANNOTATIONS / f"{name}-{source_id(config.source)[:6]}"
    make_folder(out.parent)
    return len(found.ids), write_annotations(found, out, model.fitted.facts)


def _was_run(config: RunConfig) -> bool:
    """Whether the source is a collection that was read with its labels before."""
    return "ingest" in load_last_run(open_workspace(config, Reporter()).store, config.source)


def _has_unlabeled(reading: RunConfig) -> bool:
    """Whether the collection has items without labels now; it may have changed since the last run."""
    workspace = open_workspace(reading, Reporter())
    with workspace.store.in_use(workspace.reporter.say):
        source = ingest.open_collection(reading.source, workspace, allow_missing=True)
        manifest = run_stage(ingest.stage(reading.source, source, workspace), workspace).ref
        labels = unpack_manifest(workspace.store.read(manifest)).labels
    return labels is not None and bool((labels < 0).any())
