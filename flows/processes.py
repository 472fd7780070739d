"""Detached processes: started into their own group, recognized again, stopped as a group."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Keeps the handles of what this process started, so that it can collect their exit.
_started: dict[int, "subprocess.Popen[bytes]"] = {}


def start(command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]) -> int:
    """Start a process that outlives this one, its output in `log`; return its id."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _started[process.pid] = process
    return process.pid


def identity(pid: int) -> str | None:
    """What tells a process from a later one with the same id; None where none runs."""
    _collect(pid)
    if sys.platform == "linux":
        return _identity_from_proc(pid)
    return _identity_from_ps(pid)


def stop(pid: int, expected: str, grace_seconds: float = 15.0) -> bool:
    """Stop a process and its group, if it still is the one expected; say whether it was."""
    if identity(pid) != expected:
        return False
    _signal_group(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while identity(pid) == expected and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal_group(pid, signal.SIGKILL)  # what is left of the group, mostly nothing
    while identity(pid) == expected and time.monotonic() < deadline + 5:
        time.sleep(0.05)
    return True


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"({log}: {error.strerror})"
    return "\n".join(text.rstrip().splitlines()[-lines:])


def _collect(pid: int) -> None:
    """Take the exit of a child of ours, which would stay a zombie otherwise."""
    process = _started.get(pid)
    if process is not None and process.poll() is not None:
        del _started[pid]


def _identity_from_proc(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    # The name in parentheses may hold spaces; state is the first field after it, start the 20th.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


def _identity_from_ps(pid: int) -> str | None:
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return None if len(shown) < 2 or shown[0].startswith("Z") else shown[1].strip()


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
