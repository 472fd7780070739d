"""`review`: what looks wrong with the labels of a collection, as tables and as a page to decide on."""

import argparse
import json
from typing import Any

from flows.annotate import name_model
from flows.commands.options import Subparsers, add_command, add_tracker
from flows.config import find_home
from flows.label_care import (
    add_model_options,
    choose_folder,
    make_review_plan,
    merge_command,
    own_label_file,
    read_request,
)
from flows.runner import Run, open_workspace
from flows.terminal import show
from storage.errors import ConfigError
from storage.paths import expand_path
from storage.quoting import count_of
from tasks.annotation.files import check_separator
from tasks.label_care.corrections import labels_by_id, load_checked
from tasks.label_care.findings import load_findings
from tasks.label_care.review import flattery_lines, without_checked, write_review
from tasks.label_care.suggestions import make_cards
from tasks.report.tables import Table
from tasks.stages.ingest import open_collection

_OUT, _MOST, _SHOWN = "review", 200, 10


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "review", review, json=True, staged=True)
    add_model_options(parser)
    add_tracker(parser)
    parser.add_argument("--out", help="folder of the tables and review.html (default: review in this folder)")
    parser.add_argument(
        "--n", type=int, default=_MOST, metavar="N", help=f"items of each kind on the page (default: {_MOST})"
    )


def review(options: argparse.Namespace) -> int:
    """Write the ranked tables and the page, print the most suspect labels."""
    if options.n < 1:
        raise ConfigError(f"--n {options.n}: give a number of items from 1.")
    request = read_request(options)
    source, home = expand_path(options.source, "argument"), find_home(request.here)
    out = choose_folder(options.out, _OUT, source, home)
    options.session.reporter.say(f"model      {name_model(request.model)}")
    result = Run(make_review_plan(request), session=options.session).execute(options.verbose)
    settings = request.config.source
    workspace = open_workspace(request.config, options.session.reporter)
    opened = open_collection(settings, workspace, allow_missing=True)
    collection = opened.read(workspace.cache_dir)
    check_separator(set(collection.label_names), settings.label_separator, "review")
    checked = load_checked(opened, collection.ids, own_label_file(source))
    found = without_checked(load_findings(result.store, result.products.annotations), checked)
    found["name"] = opened.name
    cards = make_cards(found, labels_by_id(collection), options.n, collection.single_label, checked)
    merge = merge_command(request, options.source)
    said = f"Merge the saved file with: {merge}"
    files = write_review(found, collection, out, cards, said, settings.label_separator, options.n)
    if options.json:
        record = {**found, "files": [str(file) for file in files], "lacking": request.model.fitted.lacking}
        show(json.dumps(record, indent=2, ensure_ascii=False))
        return 0
    show([*_tables(found), *_lines(found, request.model.fitted.lacking, collection.single_label)])
    show(f"\npage       {files[0]}\ntables     {out}\nthen       {merge}")
    return 0


def _tables(found: dict[str, Any]) -> list[str | Table]:
    suspects = found["suspects"]
    if not suspects:
        return []
    rows = tuple(
        (
            one["id"],
            one["label"],
            "missing?" if one["missing"] else "wrong?",
            f"{one['opposite']:.0%}",
            f"{one['score']:.2f}",
        )
        for one in suspects[:_SHOWN]
    )
    caption = (
        f"the most suspect of {found['suspects_total']:,}; opposite: share of the items with such a score "
        "that are labeled the other way"
    )
    header = ("item", "label", "problem", "opposite", "score")
    return ["", Table(header, rows, caption, texts=frozenset({1, 2})), ""]


def _lines(found: dict[str, Any], lacking: str, single_label: bool) -> list[str]:
    pairs, names, decided = found["pairs"], found["names"], found.get("suspects_checked", 0)
    lines = [f"errors     not judged. {lacking}."] if lacking else []
    if decided:
        said = count_of(decided, "suspect label was", "suspect labels were")
        lines.append(f"checked    {said} decided before and left out")
    groups = count_of(found["duplicates_total"], "group of near-duplicates", "groups of near-duplicates")
    lines.append(
        f"duplicates {groups} ({count_of(found['duplicates_items'], 'item')}), "
        f"{found['duplicates_differ']:,} with different labels"
    )
    lines += [f"           {line}" for line in flattery_lines(found)]
    unlike = count_of(found["unlike_total"], "item lies", "items lie")
    lines.append(f"unlike     {unlike} more than twice as far from others as usual")
    if not single_label:
        always = sum(one["kind"] == "always" for one in pairs)
        together = count_of(always, "pair of labels always occurs", "pairs of labels always occur")
        lines.append(f"pairs      {together} together, {len(pairs) - always} never")
    lines += [f"names      {' and '.join(one['names'])}: {one['why']}" for one in names[:5]]
    return lines
