"""How a logged run is had again: of which kind it is, and by which command; commands to be pasted."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from flows.config import DEFAULT_FILE, RunConfig, find_home, load_default_config
from flows.stores import find_store_uri
from storage.artifacts.run_log import LoggedRun
from storage.errors import ConfigError
from storage.urls import redact

Kind = Literal["run", "auto", "reproduce"]
# In the configuration of a logged run: the name of its experiment, and the settings of `auto`.
REPRODUCED, CHOSEN = "reproduce", "auto"


def kind_of(run: LoggedRun) -> Kind:
    """Which command made a run; no other kind of run keeps settings of `auto`."""
    if REPRODUCED in run.config:
        return "reproduce"
    return "auto" if CHOSEN in run.config else "run"


def command_here(config: RunConfig, *words: str) -> str:
    """A command that, given in this folder, finds the home and the store of a configuration.

    Where the labelscape.toml of this folder names another store, it is given in a folder without one: what
    that file says goes before LABELSCAPE_STORE. An address stands in it without user and password, as stores
    take them.
    """
    try:
        default = load_default_config()
    except ConfigError:
        default = RunConfig()  # no command works before that file is mended
    home, uri = find_home(config), find_store_uri(config.store.uri)
    away = bool(default.store.uri) and uri != default.store.uri
    move = f"cd {shlex.quote(str(_plain_folder(home)))} && " if away else ""
    place = ["--home", str(home)] if away or home != find_home(default) else []
    there = find_store_uri(None if away else default.store.uri)
    store = f"LABELSCAPE_STORE={shlex.quote(redact(uri))} " if uri and uri != there else ""
    return move + store + shlex.join(["labelscape", *words, *place])


def _plain_folder(home: Path) -> Path:
    """The home folder, or the nearest one above it that has no labelscape.toml."""
    return next((one for one in (home, *home.parents) if not (one / DEFAULT_FILE).is_file()), home)


def command_again(run: LoggedRun, config: RunConfig) -> str:
    """The command that repeats a run of the store of a configuration."""
    if kind_of(run) != "reproduce":
        return command_here(config, "run", "--as", run.id)
    known = run.config
    words = reproducing_words(known[REPRODUCED], known["quick"], known.get("sets", ()))
    return command_here(config, *words, "--data", run.source)


def reproducing_words(name: str, quick: bool, sets: Sequence[str]) -> list[str]:
    """The words of the command that runs an experiment on these sets."""
    chosen = ["--sets", ",".join(sets)] if sets else []
    return ["reproduce", name, *(["--quick"] if quick else []), *chosen]


def flow_parameters(run: LoggedRun) -> dict[str, Any]:
    """What the flow of a run would have been given."""
    if kind_of(run) != "reproduce":
        return {"config": dict(run.config)}
    return {
        "name": run.config[REPRODUCED],
        "quick": run.config["quick"],
        "folder": run.source,
        "config": {},
        "sets": list(run.config.get("sets", [])),
    }
