"""A deployed flow that waits for a file, so that a test can decide what happens meanwhile."""

import os
import time
from pathlib import Path

from prefect import flow

from flows.config import RunConfig
from flows.deployed_runs import deployed_run


@flow(name="labelscape-waiting", persist_result=False)
def wait(config: RunConfig) -> None:
    """Write the id of this process into `started`, then wait for the file `go`."""
    with deployed_run(config):
        folder = Path(config.home or ".")
        with (folder / "started").open("a") as file:
            file.write(f"{os.getpid()}\n")
        while not (folder / "go").exists():
            time.sleep(0.1)
