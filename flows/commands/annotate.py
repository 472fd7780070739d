"""`annotate`: label new items with the model of a tracked run."""

import argparse
import json
from pathlib import Path

from flows.annotate import (
    AnnotationPlan,
    AnnotationResult,
    ChosenModel,
    ModelSelector,
    annotation_config,
    choose_model,
    is_baseline,
    name_model,
)
from flows.commands.options import Subparsers, add_command, add_tracker, open_tracker, read_default_config
from flows.config import find_home
from flows.rerun import command_here
from flows.runner import Run, RunResult
from flows.summary import problem_lines, stage_states
from flows.terminal import show
from storage.artifacts.disk import store_errors
from storage.artifacts.schemas import Annotations
from storage.credentials import keep
from storage.errors import ConfigError
from storage.paths import expand_path
from tasks.annotation import load_annotations, write_annotations
from tasks.stages.features import load_skipped

_LISTED = 10
_OUT = "annotations"


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "annotate", annotate, json=True, staged=True)
    parser.add_argument("folder", help="new images, or a table with the columns the model was trained on")
    parser.add_argument("--run", help="run id (default: the champion of `auto`, else the newest tracked run)")
    parser.add_argument("--method", help="method of that run (default: the one with the best score)")
    parser.add_argument("--experiment", help="experiment of the champion or run (default: the last one used)")
    add_tracker(parser)
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="PATH",
        help="table with the features of the new items, for a model trained with table:PATH "
        "(default: the table of the model); may be repeated",
    )
    parser.add_argument("--out", help="file name without ending (default: annotations in this folder)")


def annotate(options: argparse.Namespace) -> int:
    """Write labels with scores; print the number of each label and the skipped items.

    If no Prefect server is configured or running, none is started: starting one takes longer than annotating
    a small folder.
    """
    config = annotation_config(options.folder, read_default_config(options))
    out = choose_out(options.out, expand_path(options.folder, "argument"), find_home(config))
    selector = ModelSelector(options.run, options.method, options.experiment)
    tracker = open_tracker(options)
    model = choose_model(tracker, selector)
    options.session.reporter.say(f"model      {name_model(model)}")
    tables = tuple(str(expand_path(table, "--table").absolute()) for table in options.table)
    plan = AnnotationPlan(config, model, tracker.uri if options.uri else None, tables)
    keep(plan.uri, find_home(config))
    result = Run(plan, session=options.session).execute(options.verbose)
    found = load_annotations(result.store, result.products.annotations)
    skipped = load_skipped(result.store, result.products.features)
    files = write_annotations(found, out, model.fitted.facts)
    if options.json:
        show(json.dumps(_as_record(result, model, found, skipped, files), indent=2, ensure_ascii=False))
        return 0
    lines = _as_lines(model, found, skipped, files)
    problems = problem_lines(None, result.unrecorded, "", command_here(config, "sync"))
    show("\n".join([*lines, *problems]))
    return 0


def choose_out(given: str | None, source: Path, home: Path) -> Path:
    """Return the file that annotations are written to, without its ending; its folder is created.

    Refused before any work is done: files in the home folder, and files that the next run would read as data.
    """
    out = expand_path(given or _OUT, "--out").absolute()
    files = [out.with_name(out.name + ending) for ending in (".parquet", ".csv")] if out.name else []
    inside = [one for one in (source, home) if one.is_dir() and out.resolve().is_relative_to(one.resolve())]
    blocked = next((file for file in files if file.is_dir()), None)
    advice = "choose another place with --out FOLDER/NAME"
    if not files:
        raise ConfigError(f"--out {given!r} names no file; {advice}.")
    if inside:
        what = "the items to annotate, which would contain them" if inside[0] == source else "the home folder"
        raise ConfigError(f"annotations would be written to {out}, inside {what}; {advice}.")
    if source.resolve() in (file.resolve() for file in files):
        raise ConfigError(f"--out {given} would overwrite {source}; {advice}.")
    if blocked is not None:
        raise ConfigError(f"{blocked} is a folder, so annotations cannot be written there; {advice}.")
    with store_errors(out.parent, "--out"):
        out.parent.mkdir(parents=True, exist_ok=True)
    return out


def _as_record(
    result: RunResult[AnnotationResult],
    model: ChosenModel,
    found: Annotations,
    skipped: dict[str, str],
    files: list[Path],
) -> dict[str, object]:
    champion = model.champion
    return {
        "run_id": model.info.parent_id,
        "method": model.info.method,
        "champion": {
            "model": champion.name,
            "version": champion.version,
            "plain_baseline": is_baseline(champion),
        }
        if champion
        else None,
        "items": len(found.ids),
        "labels": found.counts(),
        "skipped": [{"file": name, "reason": reason} for name, reason in skipped.items()],
        "files": [str(file) for file in files],
        "run": result.run_id,
        "changes": dict(result.changes) if result.changes else None,
        "damaged": [one.to_json() for one in result.damaged],
        "prefect": {"problem": result.unrecorded},
        "stages": stage_states(result),
    }


def _as_lines(
    model: ChosenModel, found: Annotations, skipped: dict[str, str], files: list[Path]
) -> list[str]:
    lines = [f"{len(found.ids)} items annotated by {name_model(model)}"]
    lines += [f"  {name:<24} {count}" for name, count in found.counts().items()]
    if skipped:
        lines.append(f"{len(skipped)} skipped:")
        lines += [f"  {name}: {reason}" for name, reason in list(skipped.items())[:_LISTED]]
        if len(skipped) > _LISTED:
            lines.append(f"  and {len(skipped) - _LISTED} more (--json lists all)")
    return [*lines, *(f"written    {file}" for file in files)]
