"""The report of an experiment as a stage, its files in the home folder, and its record in the tracker."""

import importlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import TRACKING
from storage.artifacts.schemas import pack_files, unpack_files
from storage.artifacts.store import ArtifactStore
from storage.reference.published import published_rows
from storage.tracking.client import MethodRecord, RunRecord, Tracker
from tasks.reproduce.against_plain import judge_against_plain
from tasks.reproduce.claims import claim_rows
from tasks.reproduce.comparison import Measured, Row, compare, count_verdicts
from tasks.reproduce.datasets import DatasetRef, load_trial_data, read_picture
from tasks.reproduce.experiment import Experiment
from tasks.reproduce.page import CELLS_FILE, TABLE_FILE, Story, cells_parquet, markdown_page, title_of
from tasks.reproduce.provenance import trace
from tasks.reproduce.trials import load_cells, used_methods
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages import report as pages
from tasks.stages.tracking import DIGEST_TAG, PAPERS, is_tracked, make_tracker, pack_tracked

ArmRefs = Mapping[tuple[str, str], ArtifactRef | None]


def load_measured(store: ArtifactStore, refs: ArmRefs) -> Measured:
    """Load every cell of an experiment."""
    return {key: load_cells(store, ref) for key, ref in refs.items() if ref is not None}


def load_rows(store: ArtifactStore, experiment: Experiment, quick: bool, refs: ArmRefs) -> list[Row]:
    """Load the comparison of an experiment."""
    return _compare_all(experiment, load_measured(store, refs), quick)


def _compare_all(experiment: Experiment, measured: Measured, quick: bool) -> list[Row]:
    """Compare cells with the paper, then check its claims; or compare the methods with plain baselines."""
    if experiment.against_plain:
        return judge_against_plain(experiment, compare(experiment, measured, quick), measured, quick)
    return [*compare(experiment, measured, quick), *claim_rows(experiment, measured, quick)]


def stage(
    experiment: Experiment,
    quick: bool,
    command: str,
    data: Sequence[DatasetRef],
    refs: ArmRefs,
    workspace: Workspace,
) -> Stage:
    """Build the stage that makes the table, cells and figures of an experiment."""
    inputs = {f"cells[{dataset}/{title}]": digest_of(ref) for (dataset, title), ref in refs.items()}
    for one in data:
        inputs |= {f"{part}[{one.name}]": digest for part, digest in one.inputs(workspace.store).items()}
    # A figure may fit the methods of the experiment again.
    used = [m for arm in experiment.arms for m in used_methods(arm, experiment.settings("", quick))]
    figure = (experiment.figure, *(method.module for method in used)) if experiment.figure else ()
    return Stage(
        name="reproduce_report",
        variant=experiment.name,
        code=("tasks.reproduce.page", "tasks.reproduce.claims", "tasks.reproduce.against_plain", *figure),
        params={
            "experiment": json.loads(json.dumps(asdict(experiment), default=str)),
            "quick": quick,
            "command": command,
            "parts": {one.name: one.part for one in data},
            # The page names the code that computed its numbers; other code may compute the same ones.
            "made_by": {f"{name}/{title}": ref.key for (name, title), ref in refs.items() if ref},
            "published": [asdict(cell) for cell in published_rows(experiment.name)],
        },
        inputs=inputs,
        produce=lambda: _write(experiment, quick, command, data, refs, workspace),
    )


def _write(
    experiment: Experiment,
    quick: bool,
    command: str,
    data: Sequence[DatasetRef],
    refs: ArmRefs,
    workspace: Workspace,
) -> Artifact:
    measured = load_measured(workspace.store, refs)
    rows = _compare_all(experiment, measured, quick)
    by_name = {one.name: one for one in data}
    story = Story(
        experiment=experiment,
        quick=quick,
        rows=rows,
        cells={key: list(cells) for key, cells in measured.items()},
        load=lambda name: load_trial_data(workspace.store, by_name[name]),
        picture=lambda name, row: read_picture(by_name[name], row, workspace),
    )
    figures = importlib.import_module(experiment.figure).draw(story) if experiment.figure else {}
    made = trace(workspace.store, refs)
    files = {
        TABLE_FILE: markdown_page(experiment, quick, command, rows, list(figures), made).encode(),
        CELLS_FILE: cells_parquet(experiment, quick, rows, made),
        **figures,
    }
    return pack_files(files)


def lay_out(experiment: Experiment, quick: bool, ref: ArtifactRef, workspace: Workspace) -> Path:
    """Write the files of the report to the home folder; return its page."""
    name = f"{experiment.name}{'-quick' if quick else ''}-{ref.digest[:12]}"
    return pages.lay_out(
        workspace.home / "reports" / "reproduce" / name,
        TABLE_FILE,
        ref.digest,
        lambda: unpack_files(workspace.store.read(ref)),
    )


def tracking_stage(
    experiment: Experiment,
    quick: bool,
    uri: str | None,
    report: ArtifactRef | None,
    refs: ArmRefs,
    workspace: Workspace,
) -> Stage:
    """Build the stage that tracks an experiment; the same results are not tracked twice."""
    tracker = make_tracker(uri, workspace.home, workspace.reporter.warn)
    return Stage(
        name=TRACKING,
        variant=experiment.name,
        code=(),
        params={"uri": tracker.uri, "quick": quick},
        inputs={"report": digest_of(report)},
        produce=lambda: _track(tracker, experiment, quick, report, refs, workspace.store),
        holds=lambda ref: is_tracked(tracker, workspace.store, ref),
    )


def _track(
    tracker: Tracker,
    experiment: Experiment,
    quick: bool,
    report: ArtifactRef | None,
    refs: ArmRefs,
    store: ArtifactStore,
) -> Artifact:
    assert report is not None
    rows = load_rows(store, experiment, quick, refs)
    verdicts = {f"labelscape.verdict.{name}": str(count) for name, count in count_verdicts(rows).items()}
    record = RunRecord(
        experiment=PAPERS,
        name=title_of(experiment, quick),
        params=experiment.settings("", quick),
        tags={"labelscape.reproduce": experiment.name, f"{DIGEST_TAG}report": report.digest, **verdicts},
        methods=_method_records(experiment, rows),
        files=unpack_files(store.read(report)),
    )
    return pack_tracked(tracker.log(record))


def _method_records(experiment: Experiment, rows: Iterable[Row]) -> list[MethodRecord]:
    """One record per arm; each cell is a metric named by data set, preprocessing and condition."""
    by_title: dict[str, list[Row]] = {}
    for row in rows:
        if row.mean is not None and not row.claim:
            by_title.setdefault(row.method, []).append(row)
    arms = {arm.title: arm for arm in experiment.arms}
    return [
        MethodRecord(
            name=title,
            title=title,
            params={"method": arms[title].method, **arms[title].params},
            metrics={_metric_name(row): row.mean for row in own if row.mean is not None},
            metrics_std={_metric_name(row): row.spread for row in own if row.spread is not None},
        )
        for title, own in by_title.items()
    ]


def _metric_name(row: Row) -> str:
    """Name of a metric with only the characters that the tracker accepts."""
    parts: list[Any] = [row.dataset, row.preprocessing, row.condition, row.metric]
    return "/".join(re.sub(r"[^\w .-]", "", str(part)).strip() for part in parts if part)
