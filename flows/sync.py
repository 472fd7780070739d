"""Track and record runs whose tracker or Prefect server was down; their results are in the store."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from flows.config import RunConfig, find_home, repeat_config
from flows.pipeline import TrainingPlan
from flows.prefect_settings import prepare_engine
from flows.runner import open_workspace
from flows.tracked_names import run_facts
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.credentials import enter, hide_secrets, keep
from storage.errors import LabelscapeError, ServiceError, TrackingError
from storage.tracking.client import Tracker
from tasks.reporter import Reporter
from tasks.stage import Workspace, run_stage
from tasks.stages import tracking
from tasks.stages.embedding import Data

CREATED_TAG = "labelscape.created"


@dataclass(frozen=True)
class Synced:
    """A run that was not tracked, and where it is now, or why it still is not tracked."""

    run: LoggedRun
    tracker_id: str | None = None
    uri: str | None = None
    problem: str | None = None


def untracked_runs(log: RunLog) -> list[LoggedRun]:
    """Runs that should have been tracked and are not, oldest first."""
    return [run for run in reversed(log.entries()) if run.problem and not run.tracked]


def lost_runs(log: RunLog, open_tracker: Callable[[str], Tracker]) -> list[LoggedRun]:
    """Runs that were tracked in a database file that was damaged and set aside, oldest first.

    Only runs of `labelscape run`: repeating `auto` or `reproduce` tracks theirs again.
    """
    by_uri: dict[str, list[LoggedRun]] = {}
    for run in reversed(log.entries()):
        if run.tracked and run.kind == TrainingPlan.kind:
            by_uri.setdefault(run.tracked["uri"], []).append(run)
    found = []
    for uri, runs in by_uri.items():
        with suppress(TrackingError):  # a tracker that does not answer has not lost its runs
            lost = open_tracker(uri).lost_runs([run.tracked["run_id"] for run in runs if run.tracked])
            found += [run for run in runs if run.tracked and run.tracked["run_id"] in lost]
    return found


def unrecorded_runs(log: RunLog) -> list[LoggedRun]:
    """Runs that Prefect has no record of, oldest first."""
    return [run for run in reversed(log.entries()) if run.unrecorded]


def sync_prefect(
    run: LoggedRun, here: RunConfig, log: RunLog, reporter: Reporter, verbose: bool = False
) -> Synced:
    """Record one run in Prefect."""
    try:
        prepare_engine(find_home(here), verbose)
        from flows.prefect_engine import record_run

        flow_run = record_run(run, find_home(here), reporter.warn)
    except ServiceError as error:
        return Synced(run, problem=str(error))
    except Exception as error:  # Prefect's client raises errors of its libraries
        return Synced(run, problem=hide_secrets(f"Prefect refused it ({type(error).__name__}: {error})"))
    log.update(replace(run, unrecorded=None, flow_run=flow_run))
    return Synced(run, flow_run, "Prefect")


def sync_run(run: LoggedRun, here: RunConfig, uri: str | None, reporter: Reporter) -> Synced:
    """Track one run from its artifacts in the store; neither its source nor Prefect is needed.

    Parameters
    ----------
    run : LoggedRun
    here : RunConfig
        The configuration that names the home and the store.
    uri : str or None
        Replaces the tracking address of the run. That is logged without its password, which is looked up in
        the home folder.
    reporter : Reporter
    """
    try:
        config = repeat_config(run, here)
        if uri:
            config = config.model_copy(
                update={"tracking": config.tracking.model_copy(update={"uri": enter(uri)})}
            )
        workspace = open_workspace(config, reporter)
        keep(config.tracking.uri, workspace.home)
        with workspace.store.in_use(reporter.say):
            ref = _track(run, config, workspace)
            tracked = tracking.load_tracked(workspace.store, ref)
    except LabelscapeError as error:
        return Synced(run, problem=str(error))
    RunLog(workspace.store).update(
        replace(
            run,
            stages={**run.stages, "tracking": ref},
            tracked={"uri": tracked.uri, "run_id": tracked.parent_id},
            problem=None,
        )
    )
    return Synced(run, tracked.parent_id, tracked.uri)


def _track(run: LoggedRun, config: RunConfig, workspace: Workspace) -> ArtifactRef:
    refs = run.stages
    scores = _variants(refs, "evaluation")
    tags = {CREATED_TAG: run.created}
    facts = run_facts(config, run.name, run.experiment, scores, tags, lambda: run.changes)
    data = Data(refs.get("ingest"), refs.get("features"), refs.get("affinity"), config.features.scale)
    stage = tracking.stage(
        config.tracking,
        facts,
        data,
        _variants(refs, "embedding"),
        _variants(refs, "model"),
        scores,
        refs.get("report"),
        workspace,
        refs.get("correlation"),
        {**_variants(refs, "map"), **({"": refs["map"]} if "map" in refs else {})},
    )
    return run_stage(stage, workspace).ref


def _variants(refs: Mapping[str, ArtifactRef], stage: str) -> dict[str, ArtifactRef | None]:
    """Artifacts of a stage by method: `embedding[mlda]` under `mlda`."""
    return {
        label.removeprefix(f"{stage}[").removesuffix("]"): ref
        for label, ref in refs.items()
        if label.startswith(f"{stage}[")
    }
