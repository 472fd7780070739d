"""The registry of commands. A new command is one module in this package and one entry here.

A module may define several commands. Its `add_parser(commands)` declares the arguments of each with
`flows.commands.options.add_command`. Modules are imported only when their command is used.
"""

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a command is defined, and its line in `labelscape --help`."""

    module: str
    help: str


COMMANDS = {
    "run": CommandEntry("run", "run every stage, print the results, track them"),
    "auto": CommandEntry("auto", "score candidate models, keep the best as the collection's champion"),
    "refresh": CommandEntry("refresh", "repeat what is stale after a change, report how scores moved"),
    "watch": CommandEntry("refresh", "refresh a collection whenever its files change"),
    "inspect": CommandEntry("inspect", "show what is recognized in a source, before anything runs"),
    "status": CommandEntry("status", "show which stages are fresh and which would run, and why"),
    "stage": CommandEntry("run", "re-run one stage, and later ones whose input changed"),
    "compare": CommandEntry("compare", "show the tracked runs of an experiment side by side"),
    "open": CommandEntry("opening", "open the report of a run, or its page in MLflow or Prefect"),
    "map": CommandEntry("maps", "fix the places of items on the map, or make a new version of it"),
    "annotate": CommandEntry("annotate", "label new items with the champion or the model of a tracked run"),
    "review": CommandEntry("review", "find labels that are probably wrong, near-duplicates and odd items"),
    "next": CommandEntry("next_items", "choose items to label next, and forecast what labels gain"),
    "labels": CommandEntry("labels", "merge corrections of labels into a collection"),
    "export": CommandEntry("export", "write the labels of a run in the formats of other tools"),
    "reproduce": CommandEntry(
        "reproduce", "run the papers' tables and figures, compare with the published numbers"
    ),
    "methods": CommandEntry("listing", "list the available methods"),
    "lineage": CommandEntry("lineage", "trace a result back to the bytes it came from"),
    "store": CommandEntry("store", "list, verify, measure and clean up the artifact store, pin runs"),
    "sync": CommandEntry("sync", "track runs whose tracker or Prefect server was down"),
    "config": CommandEntry("listing", "show the configuration with every default"),
    "up": CommandEntry("operate", "start a local Prefect server and the MLflow UI on 127.0.0.1"),
    "down": CommandEntry("operate", "stop both servers"),
    "serve": CommandEntry("operate", "run on a schedule from this process"),
    "deploy": CommandEntry("operate", "register a schedule on a work pool for a worker"),
    "prune": CommandEntry("prune", "remove old flow runs, events, logs, deleted MLflow runs and reports"),
    "worker": CommandEntry("operate", "run what is registered on a work pool"),
}
