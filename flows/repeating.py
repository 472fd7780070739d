"""How a logged run is had again: of which kind it is, and by which command; commands to be pasted."""

import shlex
from typing import Any, Literal

from flows.config import RunConfig, find_home, load_default_config
from flows.stores import find_store_uri
from storage.errors import ConfigError
from storage.run_log import LoggedRun

Kind = Literal["run", "auto", "reproduce"]
# In the configuration of a logged run: the name of its experiment, and the settings of `auto`.
REPRODUCED, CHOSEN = "reproduce", "auto"


def kind_of(run: LoggedRun) -> Kind:
    """Which command made a run; no other kind of run keeps settings of `auto`."""
    if REPRODUCED in run.config:
        return "reproduce"
    return "auto" if CHOSEN in run.config else "run"


def command_here(config: RunConfig, *words: str) -> str:
    """A command that, given in this folder, finds the home and the store of a configuration."""
    try:
        default = load_default_config()
    except ConfigError:
        default = RunConfig()  # no command works before that file is mended
    home, uri = find_home(config), find_store_uri(config.store.uri)
    place = ["--home", str(home)] if home != find_home(default) else []
    store = f"LABELSCAPE_STORE={shlex.quote(uri or '')} " if uri != find_store_uri(default.store.uri) else ""
    return store + shlex.join(["labelscape", *words, *place])


def command_again(run: LoggedRun, config: RunConfig) -> str:
    """The command that repeats a run of the store of a configuration."""
    if kind_of(run) != "reproduce":
        return command_here(config, "run", "--as", run.id)
    sets = ["--sets", ",".join(run.config["sets"])] if run.config.get("sets") else []
    quick = ["--quick"] if run.config["quick"] else []
    return command_here(config, "reproduce", run.config[REPRODUCED], *quick, *sets, "--data", run.source)


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
