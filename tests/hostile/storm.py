"""Four runs at once, with random kills of runs and of the Prefect server; then everything must be intact."""

import json
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.hostile.soak import arguments, call, show, start

AT_ONCE = 4
# The shares of runs that are killed, and of rounds in which the server is.
KILLED, SERVER_KILLED = 0.4, 0.1
# Longest time until a run is killed; the first runs create the databases meanwhile.
KILL_SECONDS = 12.0
ALONE_SECONDS = 10.0
"""Time until the servers are started; the first runs create the databases by themselves."""


@dataclass
class Storm:
    """A storm in a home folder."""

    home: Path
    source: Path
    dice: random.Random
    runs: dict["subprocess.Popen[str]", float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    completed: dict[str, bool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def start_run(self) -> None:
        """Start a run; it may be killed after a while."""
        given = [*arguments(self.home, self.source, self.dice.randrange(8)), "--json"]
        doomed = self.dice.random() < KILLED
        delay = self.dice.uniform(0.5, KILL_SECONDS) if doomed else float("inf")
        self.runs[start(self.home, *given)] = time.monotonic() + delay
        self.counts["started"] += 1

    def tend(self) -> None:
        """Kill the runs whose time has come, and note those that ended."""
        for process, doom in list(self.runs.items()):
            if process.poll() is None and time.monotonic() < doom:
                continue
            if process.poll() is None:
                process.kill()
                self.counts["killed"] += 1
            said = process.communicate(timeout=120)[0]
            del self.runs[process]
            if process.returncode == 0:
                self.note(said)
            elif process.returncode != -signal.SIGKILL:
                self.problems.append(f"a run ended with exit code {process.returncode}: {said[-600:]}")

    def note(self, said: str) -> None:
        """Note a completed run, and whether it was tracked at once."""
        at = said.find("{\n")
        summary, _ = json.JSONDecoder().raw_decode(said[at:])
        tracked = summary["tracking"]["run_id"] is not None
        self.completed[summary["run"]] = self.completed.get(summary["run"], False) or tracked
        self.counts["completed"] += 1
        if not tracked and not summary["tracking"]["problem"]:
            self.problems.append(f"run {summary['run']} was not tracked and does not say so")

    def kill_server(self) -> None:
        """Kill the Prefect server that `up` started, and start it again."""
        with suppress(OSError, ValueError, KeyError, psutil.NoSuchProcess):
            record = json.loads((self.home / "services.json").read_bytes())
            psutil.Process(record["prefect"]["pid"]).kill()
            self.counts["server"] += 1
        code, said = call(self.home, "up", "--prefect-port", "0", "--mlflow-port", "0")
        if code:
            self.problems.append(f"`up` failed after the server was killed: {said[-600:]}")

    def rage(self, seconds: float) -> None:
        """Keep four runs going until the time is up, then let the last ones end."""
        deadline = time.monotonic() + seconds
        begun, served = time.monotonic(), False
        while time.monotonic() < deadline:
            while len(self.runs) < AT_ONCE:
                self.start_run()
            self.tend()
            ready = time.monotonic() - begun > ALONE_SECONDS
            if ready and (not served or self.dice.random() < SERVER_KILLED * 0.2):
                served = True
                self.kill_server()
            time.sleep(0.2)
        while self.runs:
            self.tend()
            time.sleep(0.2)


def weather(home: Path, source: Path, seconds: float, seed: int) -> list[str]:
    """Let a storm pass over a home; what was wrong afterwards."""
    storm = Storm(home, source, random.Random(seed))
    storm.rage(seconds)
    counts = storm.counts
    show(
        f"{counts['started']} runs: {counts['completed']} completed, {counts['killed']} killed; "
        f"the Prefect server was killed {counts['server']} times"
    )
    for command in (("sync",), ("store", "verify")):
        code, said = call(home, *command)
        show(
            f"{' '.join(command)}: exit code {code}: {said.strip().splitlines()[-1] if said.strip() else ''}"
        )
        if code:
            storm.problems.append(f"`{' '.join(command)}` ended with exit code {code}: {said[-600:]}")
    return [*storm.problems, *_untracked(storm)]


def _untracked(storm: Storm) -> list[str]:
    """Completed runs that are tracked neither at once nor by `sync`."""
    code, said = call(storm.home, "store", "ls", "--runs", "--json")
    if code:
        return [f"`store ls --runs` ended with exit code {code}: {said[-600:]}"]
    tracked = {run["id"] for run in json.loads(said[said.find("[") :]) if run["tracked"]}
    at_once = sum(storm.completed.values())
    lost = [run for run in storm.completed if run not in tracked]
    later = len(storm.completed) - at_once - len(lost)
    show(
        f"{len(storm.completed)} different runs completed: {at_once} tracked at once, "
        f"{later} by sync, {len(lost)} lost"
    )
    return [f"run {run} completed and is not tracked" for run in lost]
