"""Whole runs in processes of their own: `python -m tests.run_driver COMMAND HOME ...`; answers in JSON."""

import importlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.config import load_config
from flows.runner import run_training
from flows.stages import Span
from storage.artifacts.store import Outcome
from storage.sources.demo import write_demo
from tasks.stage import Stage, Workspace, run_stage

_HEAVY = (
    "embedding_core.features.block_sums",
    "matplotlib.backends.backend_agg",
    "sklearn.neighbors",
    "sklearn.svm",
    "storage.artifacts.models",
    "tasks.report.content",
    "tasks.report.page",
)
QUICK = ("tracking.enabled=false", "evaluation.folds=2", "report.thumbnails=2")


def run(home: Path, source: str = "demo", *settings: str, submit: Any = run_stage) -> dict[str, Any]:
    """One run as the command line does it, without an engine; which stages it computed, by key."""
    config = load_config(None, [*QUICK, *settings], home=str(home), source={"path": source})
    result = run_training(config, Span(), submit)
    return {
        "run": result.run_id,
        "report": str(result.report),
        "problem": result.untracked,
        "computed": [f"{one.ref.stage}/{one.ref.key}" for one in result.stages if not one.cached],
        "digests": {one.label: one.ref.digest for one in result.stages if one.label != "tracking"},
    }


def at_once(home: Path, meeting: str, *arguments: str) -> dict[str, Any]:
    """A run that begins when all others are ready."""
    place = Path(meeting)
    (place / f"here-{os.getpid()}").touch()
    while not (place / "go").exists():
        time.sleep(0.01)
    return run(home, *arguments)


def pausing(home: Path, meeting: str, *arguments: str) -> dict[str, Any]:
    """A run that stops before its embeddings until it may go on."""
    place = Path(meeting)

    def submit(stage: Stage, workspace: Workspace, force: bool) -> Outcome:
        if stage.name == "embedding":
            (place / "under-way").touch()
            while not (place / "go").exists():
                time.sleep(0.01)
        return run_stage(stage, workspace, force)

    return run(home, *arguments, submit=submit)


def killed_child(home: Path, seconds: float) -> bool:
    """Fork a run and kill it after some time; False where it ended before."""
    child = os.fork()
    if child == 0:
        try:
            sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            run(home)
        except BaseException:
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0, f"a run failed with {status}"
            return False
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill_often(home: Path, kills: str, seed: str) -> dict[str, Any]:
    """Kill runs at random instants of the time that a whole one takes; what is done is kept in between.

    Whenever a run ends before it is killed, the next one begins in a new home, in which the collection has
    been drawn already; drawing it would take most of the time.
    """
    for name in _HEAVY:  # once, before forking
        importlib.import_module(name)
    dice, left, chain = random.Random(int(seed)), int(kills), 0
    write_demo(home / "drawn" / "cache" / "demo")
    begun = time.monotonic()
    assert not killed_child(_new_home(home, "undisturbed"), 600)
    usual = time.monotonic() - begun
    place = _new_home(home, "chain0")
    while left:
        if killed_child(place, dice.uniform(0, usual)):
            left -= 1
        else:
            chain += 1
            place = _new_home(home, f"chain{chain}")
    assert not killed_child(place, 600)
    return {"chains": chain + 1, "seconds": usual}


def _new_home(place: Path, name: str) -> Path:
    shutil.copytree(place / "drawn", place / name)
    return place / name


COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "run": run,
    "at_once": at_once,
    "pausing": pausing,
    "kill_often": kill_often,
}

if __name__ == "__main__":
    command, where, *rest = sys.argv[1:]
    sys.stdout.write(json.dumps(COMMANDS[command](Path(where), *rest)) + "\n")
