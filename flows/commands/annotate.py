"""`annotate`: label new items with the model of a tracked run."""

import argparse
import json
from pathlib import Path

from flows.annotate import Annotated, ModelSelector, annotate_items, is_baseline, name_model
from flows.commands.options import Subparsers, add_command, add_tracker, open_tracker, read_default_config
from flows.config import find_home
from flows.terminal import TerminalReporter, show
from tasks.executor import make_executor

_LISTED = 10


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "annotate", annotate, json=True, resumable=True)
    parser.add_argument("folder", help="new images, or a table with the columns the model was trained on")
    parser.add_argument("--run", help="run id (default: the champion of `auto`, else the newest tracked run)")
    parser.add_argument("--method", help="method of that run (default: the one with the best score)")
    parser.add_argument("--experiment", help="experiment of the champion or run (default: the last one used)")
    add_tracker(parser)
    parser.add_argument("--out", help="file name without ending (default: annotations in this folder)")


def annotate(options: argparse.Namespace) -> int:
    """Write labels with scores; print the number of each label and the skipped items."""
    done = annotate_items(
        options.folder,
        find_home(read_default_config(options)) / "cache",
        open_tracker(options),
        ModelSelector(options.run, options.method, options.experiment),
        Path(options.out or "annotations"),
        TerminalReporter(quiet=options.json),
        make_executor("auto"),
    )
    show(json.dumps(_as_record(done), indent=2, ensure_ascii=False) if options.json else _as_text(done))
    return 0


def _as_record(done: Annotated) -> dict[str, object]:
    found, champion = done.annotations, done.champion
    return {
        "run_id": done.model.parent_id,
        "method": done.model.method,
        "champion": {
            "model": champion.name,
            "version": champion.version,
            "plain_baseline": is_baseline(champion),
        }
        if champion
        else None,
        "items": len(found.ids),
        "labels": found.counts(),
        "skipped": [{"file": name, "reason": reason} for name, reason in found.skipped.items()],
        "files": [str(file) for file in done.files],
    }


def _as_text(done: Annotated) -> str:
    found = done.annotations
    lines = [f"{len(found.ids)} items annotated by {name_model(done.model, done.champion)}"]
    lines += [f"  {name:<24} {count}" for name, count in found.counts().items()]
    if found.skipped:
        lines.append(f"{len(found.skipped)} skipped:")
        lines += [f"  {name}: {reason}" for name, reason in list(found.skipped.items())[:_LISTED]]
        if len(found.skipped) > _LISTED:
            lines.append(f"  and {len(found.skipped) - _LISTED} more (--json lists all)")
    return "\n".join([*lines, *(f"written    {file}" for file in done.files)])
