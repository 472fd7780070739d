"""`methods` and `config`: list the methods and the settings."""

import argparse
import json

from flows.commands.options import Subparsers, add_command, add_configuration
from flows.terminal import show, show_verbatim


def add_parser(commands: Subparsers) -> None:
    """Declare `methods` and `config`."""
    add_command(commands, "methods", methods, json=True)
    parser = add_command(commands, "config", config, json=True)
    add_configuration(parser)
    parser.add_argument("--show", action="store_true", help="print the resolved configuration (the default)")


def methods(options: argparse.Namespace) -> int:
    """Print every method with its paper, the labels it takes and its cost."""
    from embedding_core.registry import METHODS
    from tasks.report.tables import Table

    if options.json:
        show(json.dumps([_as_record(method) for method in METHODS.values()], indent=2, ensure_ascii=False))
        return 0
    columns = {
        "name": "name",
        "title": "method",
        "reach": "new items",
        "labels": "labels",
        "cost": "cost",
        "paper": "from",
    }
    records = [_as_record(method) for method in METHODS.values()]
    rows = tuple(tuple(record[key] for key in columns) for record in records)
    header = tuple(columns.values())
    show(Table(header, rows, texts=frozenset(range(len(header))), optional=(5, 4, 3, 2)))
    show("\nCost for n items, p features and K labels; the graph adds n^2 p once per run.")
    return 0


def _as_record(method: object) -> dict[str, str]:
    from embedding_core.registry.method import Method

    assert isinstance(method, Method)
    labels = [
        text for text, takes in (("single", method.single_label), ("multi", method.multi_label)) if takes
    ]
    return {
        "name": method.name,
        "title": method.title + (" (baseline)" if method.baseline else ""),
        "paper": method.paper or "plain baseline",
        "reach": "inductive" if method.inductive else "transductive",
        "labels": "/".join(labels),
        "cost": method.cost,
        "equations": method.equations,
    }


def config(options: argparse.Namespace) -> int:
    """Print the resolved configuration."""
    from flows.commands.options import read_config
    from flows.config_text import show_config

    resolved = read_config(options)
    show_verbatim(resolved.model_dump_json(indent=2) if options.json else show_config(resolved).rstrip())
    return 0
