"""Loaded by a Dask worker (`--preload`): from its second portion on, it waits until a file permits to go on.

A test sees the file `waiting-<pid>` when a worker is in the middle of a stage, and creates `go` to end that.
"""

import os
import threading
from pathlib import Path
from typing import Any

GATE = "LABELSCAPE_TEST_GATE"


def dask_setup(worker: Any) -> None:
    """Replace the function that computes portions in this process."""
    from tasks.stages import portion_jobs

    compute, folder, done = portion_jobs.compute_portion, Path(os.environ[GATE]), []

    def gated(job: Any) -> Any:
        if done:
            (folder / f"waiting-{os.getpid()}").touch()
            while not (folder / "go").exists():
                threading.Event().wait(0.02)
        done.append(job)
        return compute(job)

    portion_jobs.compute_portion = gated
