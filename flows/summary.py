"""What a run has to say at its end: a record for scripts, a table for people."""

from typing import Any, TypeAlias

from embedding_core.registry import get_method
from flows.config import RunConfig
from flows.pipeline import TrainingProducts
from flows.rerun import command_here
from flows.runner import RunResult
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import TRACKING, LoggedRun
from storage.artifacts.schemas import Score, unpack_manifest
from storage.tracking.client import TrackedRun
from tasks.report.data import NoteRow
from tasks.report.ranking import group_scores, judge
from tasks.report.tables import printable, render_text, score_table
from tasks.stages.evaluation import load_scores
from tasks.stages.features import load_skipped
from tasks.stages.tracking import load_tracked

Training: TypeAlias = RunResult[TrainingProducts]


def load_all_scores(result: Training) -> list[Score]:
    """Every score of a run."""
    return [row for ref in result.products.scores.values() if ref for row in load_scores(result.store, ref)]


def load_oddities(result: RunResult[Any]) -> tuple[list[NoteRow], dict[str, str]]:
    """What ingest noted, and which items could not be read, with the reason."""
    store, refs = result.store, {record.label: record.ref for record in result.stages}
    notes = unpack_manifest(store.read(refs["ingest"])).notes if "ingest" in refs else []
    return list(notes), load_skipped(store, refs["features"]) if "features" in refs else {}


def summarize_run(config: RunConfig, result: Training, earlier: LoggedRun | None = None) -> dict[str, Any]:
    """The run as plain data: methods with every metric's mean and spread, run ids, stages."""
    tracked = find_tracked(result, result.products.tracked)
    return {
        **summarize_stages(config, result, tracked, earlier),
        "report": str(result.report) if result.report else None,
        "methods": _methods(load_all_scores(result), tracked.children if tracked else {}),
    }


def find_tracked(result: RunResult[Any], ref: ArtifactRef | None) -> TrackedRun | None:
    """Where a run was tracked, if it was."""
    return load_tracked(result.store, ref) if ref else None


def summarize_stages(
    config: RunConfig, result: RunResult[Any], tracked: TrackedRun | None, earlier: LoggedRun | None = None
) -> dict[str, Any]:
    """What any run has to say, as plain data: where it is kept, what was odd, what became of each stage.

    With an earlier run that it repeats, also how its stages compare with that one's.
    """
    notes, skipped = load_oddities(result)
    return {
        "run": result.run_id,
        "repeats": {"run": earlier.id, **_compare(result, earlier)} if earlier else None,
        "source": config.source.path,
        "home": str(result.home),
        "report": None,
        "tracking": {
            "uri": tracked.uri if tracked else None,
            "run_id": tracked.parent_id if tracked else None,
            "experiment_id": tracked.experiment_id if tracked else None,
            "problem": result.untracked,
        },
        "prefect": {"problem": result.unrecorded},
        "changes": dict(result.changes) if result.changes else None,
        "damaged": [one.to_json() for one in result.damaged],
        "stages": [
            {
                "stage": record.label,
                "state": "fresh" if record.cached else "computed",
                "seconds": round(record.seconds, 3),
                "key": record.ref.key,
                "digest": record.ref.digest,
            }
            for record in result.stages
        ],
        "notes": [{"file": file, "row": row, "message": message} for file, row, message in notes],
        "skipped": [{"file": name, "reason": reason} for name, reason in skipped.items()],
    }


def _compare(result: RunResult[Any], earlier: LoggedRun) -> dict[str, list[str]]:
    """Stages of which two runs have different results, and those that one of them alone has.

    Where each was tracked does not count.
    """
    now = {record.label: record.ref for record in result.stages}
    then, here = (
        {label: ref.digest for label, ref in refs.items() if ref.stage != TRACKING}
        for refs in (earlier.stages, now)
    )
    return {
        "differ": [label for label in here if label in then and here[label] != then[label]],
        "not_run": [label for label in then if label not in here],
        "more": [label for label in here if label not in then],
    }


def _methods(rows: list[Score], run_ids: dict[str, str]) -> dict[str, Any]:
    """By method: the metrics under its first classifier, and under every classifier."""
    methods: dict[str, Any] = {}
    for entry in group_scores(rows):
        found = {name: {"mean": entry.mean(name), "std": entry.spread(name)} for name in entry.values}
        method = get_method(entry.method)
        known = methods.setdefault(
            entry.method,
            {
                "title": method.title,
                "baseline": method.baseline,
                "run_id": run_ids.get(entry.method),
                "classifier": entry.classifier,
                "metrics": found,
                "classifiers": {},
            },
        )
        known["classifiers"][entry.classifier] = found
    return methods


def summary_text(config: RunConfig, result: Training, summary: dict[str, Any]) -> str:
    """Results, verdict, and where to look at them."""
    rows = load_all_scores(result)
    lines: list[str] = []
    if rows:
        names = dict.fromkeys(row[0] for row in rows)
        titles = {name: get_method(name).title for name in names}
        baselines = {name for name in names if get_method(name).baseline}
        sort_by = config.evaluation.sort_by
        table = score_table(rows, sort_by=sort_by, titles=titles, baselines=baselines)
        lines += ["", render_text(table), "", judge(rows, sort_by, baselines, titles).text]
    return "\n".join([*lines, "", *closing_lines(config, summary)])


def closing_lines(config: RunConfig, summary: dict[str, Any], remedy: str | None = None) -> list[str]:
    """What became of the stages, and where to look.

    `remedy` says what to do about results that were not tracked; by default `sync` tracks them.
    """
    computed = [one for one in summary["stages"] if one["state"] == "computed"]
    lines = [f"stages     {len(computed)} computed, {len(summary['stages']) - len(computed)} fresh"]
    lines.append(f"run        {summary['run']}{_comparison(summary['repeats'])}")
    lines += _oddities(summary)
    if summary["report"]:
        lines.append(f"report     {summary['report']}")
    tracking = summary["tracking"]
    if tracking["run_id"]:
        lines.append(f"tracked    run {tracking['run_id'][:8]} at {tracking['uri']}")
        compare, up = command_here(config, "compare"), command_here(config, "up")
        lines.append(f"look       {compare}, or `{up}` for the pages of Prefect and MLflow")
    sync = command_here(config, "sync")
    problems = (tracking["problem"], summary["prefect"]["problem"])
    return [*lines, *problem_lines(*problems, remedy or f"track them later: {sync}", sync)]


def problem_lines(
    untracked: str | None, unrecorded: str | None, remedy: str, sync: str = "labelscape sync"
) -> list[str]:
    """Why the tracker, or Prefect, does not know of a run, and what to do."""
    lines = [f"NOT TRACKED: {untracked} Results are in the store; {remedy}"] if untracked else []
    if unrecorded:
        lines.append(f"NOT IN PREFECT: {unrecorded} Record it there later: {sync}")
    return lines


def _comparison(repeats: dict[str, Any] | None) -> str:
    if repeats is None:
        return ""
    said = f"every result as in {repeats['run']}"
    if repeats["differ"]:
        said = f"differs from {repeats['run']} in {', '.join(repeats['differ'])}"
    not_run = f"; not run: {', '.join(repeats['not_run'])}" if repeats["not_run"] else ""
    more = f"; not in {repeats['run']}: {', '.join(repeats['more'])}" if repeats["more"] else ""
    return f", {said}{not_run}{more}"


def _oddities(summary: dict[str, Any]) -> list[str]:
    """How much was damaged, skipped and noted, each with its first case."""
    lines, skipped, notes, damaged = [], summary["skipped"], summary["notes"], summary["damaged"]
    if summary["changes"]:
        counts = summary["changes"]["counts"].items()
        told = ", ".join(f"{count} {kind}" for kind, count in counts) or "items in another order"
        lines.append(f"data       {told} since the last run")
    if damaged:
        first = damaged[0]
        lines.append(
            f"repaired   {len(damaged)} damaged, set aside and computed anew, as {first['artifact']}: "
            f"{first['reason']}"
        )
    if skipped:
        first = skipped[0]
        lines.append(f"skipped    {len(skipped)} unreadable, as {first['file']}: {first['reason']}")
    if notes:
        first = notes[0]
        place = first["file"] if first["row"] is None else f"{first['file']}, line {first['row']}"
        lines.append(f"noted      {len(notes)} in the source, as {place}: {first['message']}")
    return [printable(line) for line in lines]
