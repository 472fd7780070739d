"""Commands for the user to paste: they repeat a logged run and name its home and store. Flow parameters."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.config import DEFAULT_FILE, RunConfig, find_home, load_default_config
from flows.stores import find_store_uri
from storage.artifacts.run_log import Kind, LoggedRun
from storage.errors import ConfigError
from tasks.safe_text import join_words

# Keys in the settings of a logged run: the name of its experiment, and the settings of `auto`.
REPRODUCED, CHOSEN = "reproduce", "auto"


def flow_name(kind: Kind) -> str:
    """Name of the Prefect flow of a kind of run."""
    return "labelscape-train" if kind == "run" else f"labelscape-{kind}"


def flow_parameters(kind: Kind, settings: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The parameters that Prefect shows for a run with these settings."""
    if kind in ("annotate", "review"):
        return dict(settings)
    if kind != "reproduce":
        return {"config": dict(settings)}
    return {
        "name": settings[REPRODUCED],
        "quick": settings["quick"],
        "folder": source,
        "sets": list(settings["sets"]),
    }


def command_here(config: RunConfig, *words: str) -> str:
    """A command that finds the home and the store of a configuration when pasted in this folder.

    If the labelscape.toml of this folder names another store, the command first changes to a folder without
    such a file, because the file takes precedence over LABELSCAPE_STORE. Addresses are printed without user
    and password.
    """
    try:
        default = load_default_config()
    except ConfigError:
        default = RunConfig()  # no command works before that file is fixed
    home, uri = find_home(config), find_store_uri(config.store.uri)
    away = bool(default.store.uri) and uri != default.store.uri
    move = f"cd {shlex.quote(str(_plain_folder(home)))} && " if away else ""
    place = ["--home", str(home)] if away or home != find_home(default) else []
    there = find_store_uri(None if away else default.store.uri)
    store = f"LABELSCAPE_STORE={shlex.quote(uri)} " if uri and uri != there else ""
    return move + store + join_words(["labelscape", *words, *place])


def _plain_folder(home: Path) -> Path:
    """The home folder, or its nearest parent without a labelscape.toml."""
    return next((one for one in (home, *home.parents) if not (one / DEFAULT_FILE).is_file()), home)


def command_again(run: LoggedRun, config: RunConfig) -> str:
    """The command that repeats a run of the store of a configuration."""
    known = run.config
    if run.kind in ("annotate", "review"):
        place = ["--uri", known["uri"]] if known["uri"] else []
        chosen = ["--run", known["run"], "--method", known["method"]]
        tables = [word for path in known.get("tables", ()) for word in ("--table", path)]
        return command_here(config, run.kind, run.source, *chosen, *place, *tables, *_annotating_words(known))
    if run.kind != "reproduce":
        return command_here(config, "run", "--as", run.id)
    words = reproducing_words(known[REPRODUCED], known["quick"], known["sets"])
    return command_here(config, *words, "--data", run.source)


def _annotating_words(known: Mapping[str, Any]) -> list[str]:
    """The options of an annotation besides its source and model."""
    promised = [
        word
        for name in ("precision", "confidence")
        if name in known
        for word in (f"--{name}", f"{known[name]:g}")
    ]
    chosen = [word for setting in known.get("set", ()) for word in ("--set", setting)]
    unlabeled = known.get("unlabeled") and "review" not in known
    return [*(["--unlabeled"] if unlabeled else []), *promised, *chosen]


def reproducing_words(name: str, quick: bool, sets: Sequence[str]) -> list[str]:
    """The words of the command that runs an experiment on these data sets."""
    chosen = ["--sets", ",".join(sets)] if sets else []
    return ["reproduce", name, *(["--quick"] if quick else []), *chosen]
