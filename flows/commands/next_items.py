"""`next`: which items to label next, with a forecast of what more labels gain."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedding_core.errors import InvalidInput
from flows.annotate import AnnotationPlan, name_model
from flows.commands.options import Subparsers, add_command, add_tracker
from flows.config import find_home
from flows.label_care import (
    CareRequest,
    add_model_options,
    choose_folder,
    make_review_plan,
    merge_command,
    own_label_file,
    read_request,
)
from flows.runner import Run, RunResult, open_workspace
from flows.terminal import show
from storage.errors import ConfigError
from storage.paths import expand_path
from storage.sources.base import Collection
from tasks.annotation import Request, load_annotations
from tasks.annotation.files import check_separator
from tasks.annotation.recipes import match_blocks
from tasks.dataset import load_blocks
from tasks.label_care.corrections import labels_by_id, load_checked
from tasks.label_care.findings import load_findings
from tasks.label_care.gain import forecast_for, forecast_sentence, keep_forecast
from tasks.label_care.page import PageText
from tasks.label_care.queue import KINDS, Order, Queue, error_queue, make_queue
from tasks.label_care.queue_files import write_queue
from tasks.label_care.review import without_checked
from tasks.label_care.suggestions import make_cards
from tasks.report.tables import Table
from tasks.stages.ingest import open_collection

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
    workspace = open_workspace(request.config, options.session.reporter)
    opened = open_collection(request.config.source, workspace, allow_missing=True)
    collection = opened.read(workspace.cache_dir)
    separator = request.config.source.label_separator
    check_separator(set(collection.label_names), separator, "next")
    if options.by == "errors":
        checked = load_checked(opened, collection.ids, own_label_file(source))
        queue = _errors(request, options, collection, checked)
    else:
        queue = _unlabeled(request, options, collection)
    forecast, sentence = _forecast(request, home)
    merge = merge_command(request, options.source)
    text = PageText(
        f"Label next: {opened.name}",
        f"{len(queue.cards)} items, {queue.purpose}.",
        f"Merge the saved file with: {merge}",
        notes=[f"Forecast: {sentence}."] if sentence else [],
    )
    names = sorted({*collection.label_names, *request.model.fitted.annotator.classes_})
    files = write_queue(queue, collection, names, out, text, separator, request.model.info.run_id)
    if options.json:
        show(json.dumps(_record(queue, forecast, files), indent=2, ensure_ascii=False))
        return 0
    show(["", _table(queue), ""])
    lines = [f"for        {queue.kind}: {queue.purpose}"]
    lines += [f"forecast   {sentence}"] if sentence else []
    show(
        [
            *lines,
            f"page       {files[0]}",
            f"files      {', '.join(file.name for file in files[1:])} in {out}",
        ]
    )
    show(f"then       {merge}")
    return 0


def _unlabeled(request: CareRequest, options: argparse.Namespace, collection: Collection) -> Queue:
    """A queue of unlabeled items, from the predictions of the model."""
    plan = AnnotationPlan(
        request.config,
        request.model,
        request.tracker.uri if options.uri else None,
        request=Request(unlabeled=True),
        given=tuple(options.set),
    )
    if not (collection.labels < 0).any(axis=1).any():
        raise ConfigError(
            f"all {len(collection.ids)} items of {options.source} have labels, so none is left. Look "
            "for wrong ones with --by errors."
        )
    result = Run(plan, session=options.session).execute(options.verbose)
    found = load_annotations(result.store, result.products.annotations)
    counts = (collection.labels == 1).sum(axis=0).tolist()
    carriers = dict(zip(collection.label_names, counts, strict=True))
    queue = make_queue(options.by, found, carriers, options.n, _coordinates(request, result, found.ids))
    if not queue.cards:
        raise ConfigError(
            f"--by {options.by}: no such item was found. Choose another kind, such as --by random."
        )
    return queue


def _coordinates(request: CareRequest, result: RunResult[Any], ids: Sequence[str]) -> Any:
    """Prepared features of some of the unlabeled items."""
    model = request.model.fitted

    def place(rows: Order) -> Any:
        found, _ = load_blocks(result.store, result.products.features)
        where = {name: row for row, name in enumerate(found[0].ids)}
        chosen = np.array([where[ids[row]] for row in rows.tolist()])
        X = match_blocks(found, model, request.config.source.path)[chosen]
        return model.annotator.prepare_features(X)

    return place


def _errors(
    request: CareRequest, options: argparse.Namespace, collection: Collection, checked: set[tuple[str, str]]
) -> Queue:
    """A queue of labeled items that are probably labeled wrong."""
    if request.model.fitted.lacking:
        raise ConfigError(f"--by errors needs out-of-fold scores. {request.model.fitted.lacking}.")
    result = Run(make_review_plan(request, options), session=options.session).execute(options.verbose)
    found = without_checked(load_findings(result.store, result.products.annotations), checked)
    cards = make_cards(found, labels_by_id(collection), options.n, collection.single_label, checked)
    return error_queue(cards, options.n)


def _forecast(request: CareRequest, home: Path) -> tuple[dict[str, Any] | None, str]:
    """The forecast, and its sentence; empty if too few items are labeled."""
    model = request.model.fitted
    if model.labeled is None:
        return None, ""
    try:
        made = forecast_for(model.annotator, model.labeled)
    except InvalidInput as error:
        return None, f"none: {str(error).rstrip('.')}"
    keep_forecast(home, request.config.source, made)
    return vars(made), forecast_sentence(made, model.labeled.label_names)


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
