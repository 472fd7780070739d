"""`lineage`: from a result back to the bytes it was computed from."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from flows.commands.options import Subparsers, add_command, read_default_config
from flows.config import RunConfig
from flows.rerun import command_again
from flows.stores import open_store
from flows.terminal import show, tell
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError, StoreError
from tasks.maintenance.damaged_runs import describe_damaged, find_run, quarantine_runs
from tasks.maintenance.lineage import GONE, LineageGraph, Node
from tasks.report.tables import format_time

_SHORT = 12
# Inputs from outside the store that are not bytes of the source.
_OUTSIDE = {"model": "from the tracker"}


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "lineage", lineage, json=True)
    parser.add_argument(
        "name",
        nargs="?",
        metavar="RUN|REF",
        help="id of a run, key or digest of an artifact (default: newest run)",
    )


def lineage(options: argparse.Namespace) -> int:
    """Show the tree of a run (default: the newest) or of one artifact."""
    config = read_default_config(options)
    store = open_store(config)
    run = _find_run(store, options.name)
    graph = LineageGraph(store, run.stages.values() if run else ())
    nodes = graph.of_run(run) if run else [graph.of_artifact(options.name)]
    if options.json:
        record: dict[str, Any] = {"run": {"id": run.id, **run.to_json()} if run else None}
        record["results"] = [node.to_json() for node in nodes]
        show(json.dumps(record, indent=2, ensure_ascii=False))
        return 0
    if run:
        show("\n".join(_head(run, config)))
    seen: set[str] = set()
    for node in nodes:
        show("\n".join(_tree(node, "", "", seen)))
    show(f"versions  {_versions(nodes)}")
    return 0


def _find_run(store: ArtifactStore, name: str | None) -> LoggedRun | None:
    if name is not None:
        try:
            return find_run(store, name)
        except StoreError:
            if not any(one.name.startswith(name) for one in quarantine_runs(store)):
                return None  # it may be an artifact
            raise
    damaged = quarantine_runs(store)
    runs = RunLog(store).entries()
    if not runs and damaged:
        raise StoreError(describe_damaged(damaged, store))
    if not runs:
        raise ConfigError("no runs yet; start with `labelscape run`, or select another folder with --home.")
    if damaged:
        tell(describe_damaged(damaged, store))
    return runs[0]


def _head(run: LoggedRun, config: RunConfig) -> list[str]:
    tracked = f", tracked as {run.tracked['run_id'][:8]} at {run.tracked['uri']}" if run.tracked else ""
    return [
        f"run       {run.id}, {run.name}, {format_time(run.created)} UTC{tracked}",
        f"source    {run.source}",
        f"again     {command_again(run, config)}",
        "",
    ]


def _tree(node: Node, lead: str, below: str, seen: set[str]) -> Iterator[str]:
    """One line for the artifact, its settings, then its inputs; an artifact is expanded only once."""
    known = ["", node.label, *node.label.rstrip("]").split("[")]
    name = node.label if node.role in known else f"{node.role} of {node.label}"
    digest = node.digest[:_SHORT]
    if node.manifest is None:
        place = GONE if node.gone else _OUTSIDE.get(node.role, "bytes of the source")
        yield f"{lead}{name}  {digest}  ({place})"
        return
    if node.manifest["key"] in seen:
        yield f"{lead}{name}  {digest}  (see above)"
        return
    seen.add(node.manifest["key"])
    took = f"{node.manifest['seconds']:.1f} s, {format_time(node.manifest['created'])}"
    yield f"{lead}{name}  {digest}  {took}, code {node.code[:_SHORT]}"
    bar = "│  " if node.inputs else "   "
    settings = " ".join(f"{key}={value}" for key, value in node.settings.items())
    if settings:
        yield f"{below}{bar}{settings}"
    for number, one in enumerate(node.inputs, start=1):
        last = number == len(node.inputs)
        yield from _tree(
            one, f"{below}{'└─ ' if last else '├─ '}", f"{below}{'   ' if last else '│  '}", seen
        )


def _versions(nodes: list[Node]) -> str:
    """Every combination of package versions that computed a part of it."""
    found: dict[str, None] = {}
    pending = list(nodes)
    while pending:
        node = pending.pop()
        pending += node.inputs
        if node.manifest:
            found[", ".join(f"{name} {number}" for name, number in node.manifest["versions"].items())] = None
    return "; ".join(found)
