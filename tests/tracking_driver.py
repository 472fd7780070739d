"""Log a run in another process, which tests can kill or start several times at once."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY

LOG_ONE = """
import sys; from pathlib import Path
from storage.tracking.client import MethodRecord, RunRecord, Tracker
uri, root = sys.argv[1], Path(sys.argv[2])
print(Tracker(uri, root, warn=print).log(RunRecord("demo", "a run")).parent_id)
"""


def start_logging(uri: str, root: Path, **given: Any) -> "subprocess.Popen[str]":
    """Log one run in another process; `warn` and the id of the run go to standard output."""
    return subprocess.Popen(
        [sys.executable, "-c", LOG_ONE, uri, str(root)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **given,
    )


def finish(process: "subprocess.Popen[str]") -> list[str]:
    """Wait for a process of `start_logging`; return its warnings, and last the id of its run."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.splitlines()
