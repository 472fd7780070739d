"""The summary of a finished run: a record for scripts, tables and lines for people."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from embedding_core.registry import get_method
from flows.config import RunConfig, find_home
from flows.pipeline import TrainingProducts
from flows.rerun import command_here
from flows.runner import RunResult
from flows.services import running
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import TRACKING, LoggedRun, RunLog
from storage.artifacts.schemas import Score, unpack_manifest
from storage.tracking.client import TrackedRun
from tasks.report.data import NoteRow
from tasks.report.page import MAP_PAGE
from tasks.report.ranking import group_scores, judge
from tasks.report.score_table import score_table
from tasks.report.tables import Table
from tasks.stages.evaluation import load_scores, sampling_note
from tasks.stages.features import load_skipped
from tasks.stages.tracking import load_tracked

if TYPE_CHECKING:
    from tasks.label_care.gain import Gain

Training: TypeAlias = RunResult[TrainingProducts]
# Skipped files that are shown with the reason.
_LISTED_FILES = 5
# Width of the words before the lines.
_WIDTH = 11


def load_all_scores(result: Training) -> list[Score]:
    """Load every score of a run."""
    return [row for ref in result.products.scores.values() if ref for row in load_scores(result.store, ref)]


def load_oddities(result: RunResult[Any]) -> tuple[list[NoteRow], dict[str, str]]:
    """Load the notes of ingest, and the items that could not be read with the reason."""
    store, refs = result.store, {record.label: record.ref for record in result.stages}
    notes = unpack_manifest(store.read(refs["ingest"])).notes if "ingest" in refs else []
    return list(notes), load_skipped(store, refs["features"]) if "features" in refs else {}


def summarize_run(config: RunConfig, result: Training, earlier: LoggedRun | None = None) -> dict[str, Any]:
    """Return the run as plain data: mean and spread of every metric per method, run ids, stages."""
    tracked = find_tracked(result, result.products.tracked)
    return {
        **summarize_stages(config, result, tracked, earlier),
        "map": _find_map(result),
        "methods": _methods(load_all_scores(result), tracked.children if tracked else {}),
    }


def find_gain(config: RunConfig, result: Training) -> "Gain | None":
    """What labels that changed since the last `run` of the source gained; None if none did."""
    log = RunLog(result.store).entries()
    here = next((one for one in log if one.id == result.run_id), None)
    if here is None:
        return None
    of_source = (one for one in log if (one.kind, one.source) == (here.kind, here.source))
    last = next((one for one in of_source if one.id != here.id), None)
    if last is None or last.stages.get("ingest") == here.stages.get("ingest"):
        return None
    from tasks.label_care.run_gain import compare_runs_by_labels

    return compare_runs_by_labels(result.store, last.stages, here.stages, config.evaluation.sort_by)


def _find_map(result: Training) -> str | None:
    """The map beside the report."""
    page = result.report.parent / MAP_PAGE if result.report else None
    return str(page) if page and page.is_file() else None


def find_tracked(result: RunResult[Any], ref: ArtifactRef | None) -> TrackedRun | None:
    """Return where a run was tracked; None if it was not."""
    return load_tracked(result.store, ref) if ref else None


def summarize_stages(
    config: RunConfig, result: RunResult[Any], tracked: TrackedRun | None, earlier: LoggedRun | None = None
) -> dict[str, Any]:
    """Return what every kind of run reports, as plain data: places, problems found, state of each stage.

    With `earlier`, the run that this one repeats, also how their stages compare.
    """
    notes, skipped = load_oddities(result)
    return {
        "run": result.run_id,
        "repeats": {"run": earlier.id, **_compare(result, earlier)} if earlier else None,
        "source": config.source.path,
        "home": str(result.home),
        "report": str(result.report) if result.report else None,
        "tracking": {
            "uri": tracked.uri if tracked else None,
            "run_id": tracked.parent_id if tracked else None,
            "experiment_id": tracked.experiment_id if tracked else None,
            "problem": result.untracked,
        },
        "prefect": {"problem": result.unrecorded},
        "warnings": list(result.warnings),
        "changes": dict(result.changes) if result.changes else None,
        "damaged": [one.to_json() for one in result.damaged],
        "stages": stage_states(result),
        "notes": [{"file": file, "row": row, "message": message} for file, row, message in notes],
        "skipped": [{"file": name, "reason": reason} for name, reason in skipped.items()],
    }


def stage_states(result: RunResult[Any]) -> list[dict[str, Any]]:
    """Return the state of each stage as plain data."""
    return [
        {
            "stage": record.label,
            "state": "fresh" if record.cached else "computed",
            "seconds": round(record.seconds, 3),
            "key": record.ref.key,
            "digest": record.ref.digest,
        }
        for record in result.stages
    ]


def _compare(result: RunResult[Any], earlier: LoggedRun) -> dict[str, list[str]]:
    """Stages whose results differ between two runs, and stages that only one of them has.

    The tracking stage is ignored.
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
    """Per method: its metrics with its first classifier, and with every classifier."""
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


def summary_text(
    config: RunConfig, result: Training, summary: dict[str, Any], gain: "Gain | None" = None
) -> list[str | Table]:
    """Return the table of results, the verdict, what changed labels gained, and where to find more."""
    rows = load_all_scores(result)
    lines: list[str | Table] = []
    if rows:
        names = dict.fromkeys(row[0] for row in rows)
        titles = {name: get_method(name).title for name in names}
        baselines = {name for name in names if get_method(name).baseline}
        sort_by = config.evaluation.sort_by
        note = sampling_note(result.store, result.products.scores.values(), sort_by)
        table = score_table(rows, sort_by=sort_by, titles=titles, baselines=baselines, note=note)
        lines = ["", table, "", judge(rows, sort_by, baselines, titles).text]
    return [*lines, "", *(gain.lines(_WIDTH) if gain else ()), *closing_lines(config, summary)]


def closing_lines(config: RunConfig, summary: dict[str, Any], remedy: str | None = None) -> list[str]:
    """Return how many stages were computed, and where to find the results.

    `remedy` says what to do about results that were not tracked; the default names `sync`.
    """
    computed = [one for one in summary["stages"] if one["state"] == "computed"]
    lines = [f"stages     {len(computed)} computed, {len(summary['stages']) - len(computed)} fresh"]
    lines.append(f"run        {summary['run']}{_comparison(summary['repeats'])}")
    lines += _oddities(summary)
    if summary["report"]:
        lines.append(f"report     {summary['report']}")
    if summary.get("map"):
        lines.append(f"map        {summary['map']}")
    tracking = summary["tracking"]
    if tracking["run_id"]:
        lines.append(f"tracked    run {tracking['run_id'][:8]} at {tracking['uri']}")
        lines.append(f"compare    `{command_here(config, 'compare')}`")
        lines.append(f"browse     {_how_to_browse(config)}")
    sync = command_here(config, "sync")
    problems = (tracking["problem"], summary["prefect"]["problem"])
    lines += [f"warning    {text}" for text in summary["warnings"]]
    return [*lines, *problem_lines(*problems, remedy or f"track them later: `{sync}`", sync)]


def _how_to_browse(config: RunConfig) -> str:
    if running(find_home(config)) is None:
        return f"`{command_here(config, 'up')}` starts the pages of Prefect and MLflow"
    return f"`{command_here(config, 'open', 'mlflow')}`, `{command_here(config, 'open', 'prefect')}`"


def problem_lines(
    untracked: str | None, unrecorded: str | None, remedy: str, sync: str = "labelscape sync"
) -> list[str]:
    """Say why the tracker or Prefect has no record of a run, and what to do."""
    lines = [f"NOT TRACKED: {untracked} Results are in the store; {remedy}"] if untracked else []
    if unrecorded:
        lines.append(f"NOT IN PREFECT: {unrecorded} Record it later: `{sync}`")
    return lines


def _comparison(repeats: dict[str, Any] | None) -> str:
    if repeats is None:
        return ""
    said = f"same results as {repeats['run']}"
    if repeats["differ"]:
        said = f"differs from {repeats['run']} in {', '.join(repeats['differ'])}"
    not_run = f"; not run: {', '.join(repeats['not_run'])}" if repeats["not_run"] else ""
    more = f"; not in {repeats['run']}: {', '.join(repeats['more'])}" if repeats["more"] else ""
    return f", {said}{not_run}{more}"


def _oddities(summary: dict[str, Any]) -> list[str]:
    """Count repaired artifacts, skipped items and notes, each with the first case."""
    lines, skipped, notes, damaged = [], summary["skipped"], summary["notes"], summary["damaged"]
    if summary["changes"]:
        counts = summary["changes"]["counts"].items()
        changes = ", ".join(f"{count} {kind}" for kind, count in counts) or "items reordered"
        lines.append(f"data       {changes} since the last run")
    if damaged:
        first = damaged[0]
        lines.append(
            f"repaired   {len(damaged)} damaged, quarantined and recomputed; first: {first['artifact']}: "
            f"{first['reason']}"
        )
    if skipped:
        first = skipped[0]
        lines.append(f"skipped    {len(skipped)} unreadable; first: {first['file']}: {first['reason']}")
        lines += _list_more((one["file"], one["reason"]) for one in skipped[1:])
    if notes:
        first = notes[0]
        place = first["file"] if first["row"] is None else f"{first['file']}, line {first['row']}"
        lines.append(f"notes      {len(notes)} on the data; first: {place}: {first['message']}")
        more = ((one["file"], one["message"]) for one in notes[1:])
        lines += _list_more((file, text) for file, text in more if text.startswith("skipped: "))
    return lines


def _list_more(skipped: Iterable[tuple[str, str]]) -> list[str]:
    """A few more skipped files with the reason; the report and --json list all."""
    return [f"           {file}: {reason}" for file, reason in islice(skipped, _LISTED_FILES - 1)]
