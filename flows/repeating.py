"""How a logged run is had again: of which kind it is, and by which command."""

import shlex
from typing import Any, Literal

from storage.run_log import LoggedRun

Kind = Literal["run", "auto", "reproduce"]
# In the configuration of a logged run: the name of its experiment, and the settings of `auto`.
REPRODUCED, CHOSEN = "reproduce", "auto"


def kind_of(run: LoggedRun) -> Kind:
    """Which command made a run; no other kind of run keeps settings of `auto`."""
    if REPRODUCED in run.config:
        return "reproduce"
    return "auto" if CHOSEN in run.config else "run"


def command_again(run: LoggedRun) -> str:
    """The command that repeats a run."""
    if kind_of(run) != "reproduce":
        return f"labelscape run --as {run.id}"
    sets = ["--sets", ",".join(run.config["sets"])] if run.config.get("sets") else []
    quick = ["--quick"] if run.config["quick"] else []
    return shlex.join(
        ["labelscape", "reproduce", run.config[REPRODUCED], *quick, *sets, "--data", run.source]
    )


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
