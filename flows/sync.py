"""Track and record runs whose tracker or Prefect server was down; their results are in the store."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flows.config import RunConfig, find_home, repeat_config
from flows.prefect_settings import prepare_engine
from flows.run_settings import changed_settings, method_params, resolved_config
from flows.runner import open_workspace
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.errors import LabelscapeError, ServiceError
from storage.urls import redact
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


def unrecorded_runs(log: RunLog) -> list[LoggedRun]:
    """Runs that Prefect has no record of, oldest first."""
    return [run for run in reversed(log.entries()) if run.unrecorded]


def sync_prefect(run: LoggedRun, here: RunConfig, log: RunLog, verbose: bool = False) -> Synced:
    """Record one run in Prefect."""
    try:
        prepare_engine(find_home(here), verbose)
        from flows.prefect_engine import record_run

        flow_run = record_run(run)
    except ServiceError as error:
        return Synced(run, problem=str(error))
    except Exception as error:  # Prefect's client raises errors of its libraries
        return Synced(run, problem=f"Prefect refused it ({type(error).__name__}: {error})")
    log.update(replace(run, unrecorded=None))
    return Synced(run, flow_run, "Prefect")


def sync_run(run: LoggedRun, here: RunConfig, uri: str | None, reporter: Reporter) -> Synced:
    """Track one run from its artifacts in the store; neither its source nor Prefect is needed.

    Parameters
    ----------
    run : LoggedRun
    here : RunConfig
        The configuration that names the home and the store.
    uri : str or None
        Replaces the tracking address of the run, which is logged without passwords.
    reporter : Reporter
    """
    try:
        config = repeat_config(run, here)
        if uri:
            config = config.model_copy(update={"tracking": config.tracking.model_copy(update={"uri": uri})})
        workspace = open_workspace(config, reporter)
        with workspace.store.in_use(reporter.say):
            ref = _track(run, config, workspace)
            tracked = tracking.load_tracked(workspace.store, ref)
    except LabelscapeError as error:
        return Synced(run, problem=str(error))
    place = redact(tracked.uri)
    RunLog(workspace.store).update(
        replace(
            run,
            stages={**run.stages, "tracking": ref},
            tracked={"uri": place, "run_id": tracked.parent_id},
            problem=None,
        )
    )
    return Synced(run, tracked.parent_id, place)


def _track(run: LoggedRun, config: RunConfig, workspace: Workspace) -> ArtifactRef:
    refs = run.stages
    scores = _variants(refs, "evaluation")
    facts = tracking.Facts(
        name=run.name,
        experiment=run.experiment,
        config=resolved_config(config),
        method_params={name: method_params(config, name) for name in scores},
        settings=changed_settings(config),
        tags={CREATED_TAG: run.created},
    )
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
    )
    return run_stage(stage, workspace).ref


def _variants(refs: Mapping[str, ArtifactRef], stage: str) -> dict[str, ArtifactRef | None]:
    """Artifacts of a stage by method: `embedding[mlda]` under `mlda`."""
    return {
        label.removeprefix(f"{stage}[").removesuffix("]"): ref
        for label, ref in refs.items()
        if label.startswith(f"{stage}[")
    }
