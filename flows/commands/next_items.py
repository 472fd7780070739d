"""`next`: which items to label next, with a forecast of what more labels gain."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.annotate import name_model
from flows.commands.options import Subparsers, add_command, add_tracker
from flows.config import find_home
from flows.label_care import add_model_options, choose_folder, merge_command, read_request
from flows.label_queue import QueueBuilder
from flows.runner import Plan, Run, RunResult
from flows.terminal import show
from storage.errors import ConfigError
from storage.paths import expand_path
from tasks.label_care.queue import KINDS, Queue
from tasks.report.tables import Table

_OUT, _COUNT, _SHOWN, _MOST = "next", 20, 20, 10_000


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "next", next_items, json=True, staged=True)
    add_model_options(parser)
    add_tracker(parser)
    parser.add_argument(
        "--n", type=int, default=_COUNT, metavar="N", help=f"number of items (default: {_COUNT})"
    )
    purposes = "; ".join(
        f"{name}: {text.partition(':')[0].partition(';')[0]}" for name, text in KINDS.items()
    )
    parser.add_argument("--by", default="random", metavar="KIND", help=f"{purposes} (default: random)")
    parser.add_argument("--out", help="folder of the queue (default: next in this folder)")


def next_items(options: argparse.Namespace) -> int:
    """Write the queue as a table, a page and tasks of other tools; print it with the forecast."""
    if not 1 <= options.n <= _MOST:
        raise ConfigError(f"--n {options.n}: give a number of items from 1 to {_MOST:,}.")
    if options.by not in KINDS:
        raise ConfigError(f"--by {options.by!r} is unknown; choose one of {', '.join(KINDS)}.")
    request = read_request(options)
    source, home = expand_path(options.source, "argument"), find_home(request.here)
    out = choose_folder(options.out, _OUT, source, home)
    options.session.reporter.say(f"model      {name_model(request.model)}")

    def execute(plan: Plan[Any]) -> RunResult[Any]:
        return Run(plan, session=options.session).execute(options.verbose)

    merge = merge_command(request, options.source)
    builder = QueueBuilder(request, execute, options.session.reporter)
    made = builder.write(options.by, options.n, out, f"Merge the saved file with: {merge}")
    queue, files = made.queue, made.files
    if options.json:
        show(json.dumps(_record(queue, made.forecast, files), indent=2, ensure_ascii=False))
        return 0
    show(["", _table(queue), ""])
    lines = [f"for        {queue.kind}: {queue.purpose}"]
    lines += [f"forecast   {made.sentence}"] if made.sentence else []
    show(
        [
            *lines,
            f"page       {files[0]}",
            f"files      {', '.join(file.name for file in files[1:])} in {out}",
        ]
    )
    show(f"then       {merge}")
    return 0


def _table(queue: Queue) -> Table:
    rows = tuple(
        (card.id, ", ".join(card.proposed) or "no label", " ".join(card.why)) for card in queue.cards[:_SHOWN]
    )
    more = len(queue.cards) - _SHOWN
    caption = f"and {more} more in next.csv" if more > 0 else ""
    return Table(("item", "suggestion", "reason"), rows, caption, texts=frozenset({1, 2}))


def _record(queue: Queue, forecast: dict[str, Any] | None, files: Sequence[Path]) -> dict[str, Any]:
    items = [
        {
            "id": card.id,
            "given": None if card.given is None else list(card.given),
            "suggested": list(card.proposed),
            "why": " ".join(card.why),
        }
        for card in queue.cards
    ]
    return {
        "kind": queue.kind,
        "purpose": queue.purpose,
        "items": items,
        "forecast": forecast,
        "files": [str(file) for file in files],
    }
