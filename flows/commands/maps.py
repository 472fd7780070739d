"""`map`: list the versions of the map of a source, or make a new one."""

import argparse
import json

from flows.commands.options import Subparsers, add_command, add_configuration, read_config
from flows.rerun import command_here
from flows.stores import open_store
from flows.terminal import show
from tasks.map.versions import MapVersion, load_versions, make_version


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "map", show_map, json=True)
    add_configuration(parser)
    parser.add_argument(
        "--new", action="store_true", help="make the newest embedding the next version; places move"
    )
    parser.add_argument("--by", metavar="METHOD", help="with --new: the method; default: the best of the run")


def show_map(options: argparse.Namespace) -> int:
    """Print the versions of the map; with --new, make one first."""
    config = read_config(options)
    store = open_store(config)
    if options.new:
        with store.in_use():
            make_version(store, config.source, options.by, config.evaluation.sort_by)
    versions = load_versions(store, config.source)
    if options.json:
        show(json.dumps([{**one.to_json(), "items": one.places.rows} for one in versions], indent=2))
        return 0
    for one in versions:
        show(_describe(one))
    again, fixing = (command_here(config, word, config.source.path) for word in ("run", "map"))
    if not versions:
        show("No version of the map yet: each run places all items anew.")
        show(f"To fix their places: `{again}`, then `{fixing} --new`.")
    elif options.new:
        show(f"Draw it with `{again}`.")
        show("New items are added then; known ones keep their places until the next --new.")
    return 0


def _describe(one: MapVersion) -> str:
    moved = f"\n           {one.movement}" if one.movement else ""
    made = one.made.replace("T", " ").replace("+00:00", " UTC")
    return f"version {one.number}  {one.method}, {one.places.rows:,} items, made {made}{moved}"
