"""`labels apply`: merge corrections of labels into the labels of a collection."""

import argparse
import json

from flows.commands.annotate import read_settings
from flows.commands.options import Subparsers, add_command, add_json
from flows.label_care import command_on, merge_file, own_label_file, source_settings
from flows.runner import open_workspace
from flows.terminal import show
from storage.paths import expand_path
from storage.quoting import count_of, list_names, quote
from tasks.label_care.corrections import Merged


def add_parser(commands: Subparsers) -> None:
    """Declare the command and its actions."""
    parser = add_command(commands, "labels", apply)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    text = "merge corrections into the labels of SOURCE, and log who changed what"
    action = actions.add_parser("apply", help=text, description=text)
    # An option after the action, as a user writes it; without one, what stands before the action remains.
    action.add_argument("--home", default=argparse.SUPPRESS, help="folder of store, database and reports")
    action.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS, help="show tracebacks")
    add_json(action)
    action.add_argument(
        "corrections",
        metavar="CORRECTIONS",
        help="corrections.csv of a page, next.csv with the column `after` filled in, or the export of Label "
        "Studio, Hugging Face, FiftyOne or COCO",
    )
    action.add_argument("source", metavar="SOURCE", help="the collection, with its labels")
    action.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how SOURCE is read, such as source.labels=labels.csv; may be repeated",
    )
    action.add_argument(
        "--labels",
        metavar="PATH",
        help="new file, if the labels of SOURCE cannot be edited (default: NAME-labels.csv beside it)",
    )
    action.add_argument(
        "--replace", action="store_true", help="answers without `before` replace labels that items have"
    )


def apply(options: argparse.Namespace) -> int:
    """Merge the answers and print what changed; refuse all of them if one is out of date."""
    here, given = read_settings(options)
    source = expand_path(options.source, "argument")
    settings = source_settings(here, given)
    workspace = open_workspace(here, options.session.reporter)
    target = expand_path(options.labels, "--labels").absolute() if options.labels else own_label_file(source)
    answers = expand_path(options.corrections, "argument")
    merged = merge_file(answers, settings, workspace, target, options.replace)
    command = command_on(here, options.source, "auto", *_sets(options, merged))
    if options.json:
        record = {**vars(merged), "place": str(merged.place), "log": str(merged.log), "next": command}
        show(json.dumps(record, indent=2, ensure_ascii=False))
        return 0
    show(_lines(merged, command))
    return 0


def _sets(options: argparse.Namespace, merged: Merged) -> list[str]:
    """The settings of the user, with the label file if it was made now."""
    settings = list(options.set)
    if merged.is_new:
        settings = [one for one in settings if one.partition("=")[0].strip() != "source.labels"]
        settings.append(f"source.labels={merged.place}")
    return [word for setting in settings for word in ("--set", setting)]


def _lines(merged: Merged, command: str) -> list[str]:
    parts = [
        count_of(merged.changed, "item corrected", "items corrected"),
        count_of(merged.answered, "item labeled", "items labeled"),
        count_of(merged.confirmed, "item confirmed", "items confirmed"),
    ]
    lines = [
        f"merged     {', '.join(parts)}; {count_of(merged.cells, 'label')} added or removed",
        f"labels     {merged.place}{' (new)' if merged.is_new else ''}",
        f"log        {merged.log}",
    ]
    if merged.repeated:
        lines.append(f"repeated   {count_of(merged.repeated, 'answer')} merged before")
    if merged.empty:
        shown = list_names(map(quote, merged.empty), 5)
        lines.append(
            f"empty      {len(merged.empty)} answered with no label: {shown}. A column of labels cannot tell "
            "them from unlabeled items"
        )
    return [*lines, f"then       {command}"]
