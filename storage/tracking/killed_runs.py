"""Runs whose process was killed while it logged them: MLflow would show them as running for ever."""

import hashlib
import os
import socket
from typing import Any

import psutil

from storage.servers import find_process

PROCESS = "labelscape.process"
"""Tag with the process that logs a run: digest of the name of its machine, process id, time of its start."""
_MOST = 1000


def name_process() -> str:
    """Return the tag of this process."""
    return f"{_machine()} {os.getpid()} {psutil.Process().create_time()}"


def close_killed(client: Any, experiment_id: str) -> None:
    """Mark the runs of an experiment as killed that a process of this machine left behind."""
    query = "attributes.status = 'RUNNING'"
    for run in client.search_runs([experiment_id], filter_string=query, max_results=_MOST):
        if _has_ended(run.data.tags.get(PROCESS, "")):
            client.set_terminated(run.info.run_id, "KILLED")


def _has_ended(process: str) -> bool:
    """Whether a process is known to have ended; one of another machine is not."""
    try:
        machine, number, created = process.split(" ")
        return machine == _machine() and find_process(int(number), float(created)) is None
    except ValueError:
        return False


def _machine() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
