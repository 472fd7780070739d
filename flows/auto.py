"""The auto flow: score the candidates, choose, fit and register the winner."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.config import RunConfig
from flows.pipeline import open_workspace
from flows.runner import StageRecord, StageRunner, Submit, log_run, walk_remembering
from flows.selection import Contested, known_settings, walk_contest
from flows.stages import Span
from flows.terminal import current_reporter
from storage.artifacts.artifact import QuarantinedBlob
from storage.artifacts.store import ArtifactStore
from tasks.fold_pool import FoldPool
from tasks.selection.budget import Budget, parse_duration
from tasks.stage import run_stage


@dataclass(frozen=True)
class AutoResult:
    """What a run of `auto` made; see `flows.runner.RunResult`."""

    contested: Contested
    stages: list[StageRecord]
    home: Path
    store: ArtifactStore
    untracked: str | None
    run_id: str
    damaged: tuple[QuarantinedBlob, ...] = ()
    unrecorded: str | None = None
    changes: Mapping[str, Any] | None = None


def new_budget(config: RunConfig) -> Budget:
    """The configured time for scoring candidates, not begun."""
    return Budget(parse_duration(config.auto.budget))


def run_auto(
    config: RunConfig,
    submit: Submit = run_stage,
    tags: Mapping[str, str] | None = None,
    budget: Budget | None = None,
) -> AutoResult:
    """Choose a model for the configured collection within the configured budget; needs no engine.

    Parameters
    ----------
    config : RunConfig
    submit : callable, optional
        Runs one stage; default: here and now.
    tags : mapping, optional
        Facts of the engine, for the tracker.
    budget : Budget, optional
        One that may have begun; default: a new one of the configured length.
    """
    started = time.perf_counter()
    workspace = open_workspace(config, current_reporter())
    runner = StageRunner(workspace, Span(), submit)
    time_left = budget or new_budget(config)
    workers = min(workspace.n_threads, config.evaluation.folds)
    with workspace.store.in_use(workspace.reporter.say), FoldPool(workers, time_left) as pool:
        done = walk_remembering(
            config,
            workspace,
            runner,
            lambda: walk_contest(config, workspace, runner, tags or {}, pool, time_left),
        )
        # What the tracker does not know yet the same command adds, not `sync`: a title has to be decided.
        seconds = time.perf_counter() - started
        run = log_run(config.source.path, known_settings(config), runner, done, None, seconds)
    return AutoResult(
        done,
        list(runner.records.values()),
        workspace.home,
        workspace.store,
        runner.untracked,
        run.id,
        tuple(workspace.store.quarantined),
    )
