"""Whole runs in separate processes: `python -m tests.run_driver COMMAND HOME ...`; answers in JSON."""

import hashlib
import importlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedding_core.annotator import SKOPS_TRUSTED_TYPES
from flows.annotate import AnnotationPlan, ChosenModel, annotation_config
from flows.config import load_config
from flows.pipeline import TrainingPlan
from flows.runner import Run
from storage.artifacts.models import load_model
from storage.artifacts.store import Outcome
from storage.tracking.client import ModelInfo
from tasks.annotation import FittedModel
from tasks.annotation.labeled import collect_labeled_items
from tasks.dataset import load_dataset
from tasks.stage import Stage, Workspace, run_stage
from tasks.stages.embedding import load_model_payload
from tasks.stages.evaluation import load_predictions
from tests.conftest import local_config, run_training, write_pictures

_HEAVY = (
    "embedding_core.features.moment_kernels",
    "matplotlib.backends.backend_agg",
    "sklearn.neighbors",
    "sklearn.svm",
    "storage.artifacts.models",
    "tasks.report.content",
    "tasks.report.page",
)
QUICK = ("tracking.enabled=false", "evaluation.folds=2", "report.thumbnails=2")


def run(home: Path, source: str = "demo", *settings: str, submit: Any = run_stage) -> dict[str, Any]:
    """One run as the command line does it, without Prefect; returns the computed stages by key."""
    config = load_config(None, [*QUICK, *settings], home=str(home), source={"path": source})
    result = Run(TrainingPlan(config)).run_stages(submit)
    return {
        "run": result.run_id,
        "report": str(result.report),
        "problem": result.untracked,
        "computed": [f"{one.ref.stage}/{one.ref.key}" for one in result.stages if not one.cached],
        "digests": {one.label: one.ref.digest for one in result.stages if one.label != "tracking"},
    }


def meet() -> None:
    """Tell the parent process that this one is ready, and wait until it answers with a line."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


def at_once(home: Path, *arguments: str) -> dict[str, Any]:
    """A run that starts when all others are ready."""
    meet()
    return run(home, *arguments)


def pausing(home: Path, *arguments: str) -> dict[str, Any]:
    """A run that pauses before its first embedding until it may continue."""
    paused = False

    def submit(stage: Stage, workspace: Workspace, force: bool) -> Outcome:
        nonlocal paused
        if stage.name == "embedding" and not paused:
            paused = True
            meet()
        return run_stage(stage, workspace, force)

    return run(home, *arguments, submit=submit)


def train_model(source: Path, home: Path, *settings: str) -> FittedModel:
    """An MLDA model with its labeled items and out-of-fold scores, as a tracked run has them."""
    config = local_config(source, home, "embedding.methods=mlda", *settings)
    run = run_training(config, until="evaluation")
    store, refs = run.store, run.products.refs
    manifest, features = refs["ingest"][""], refs["features"][""]
    fitted, scores = refs["embedding"]["mlda"], refs["evaluation"]["mlda"]
    assert manifest and features and fitted and scores
    made = fitted_model(load_model_payload(fitted, store) or b"")
    dataset, (_, predictions) = load_dataset(store, manifest, features), load_predictions(store, scores)
    labeled = collect_labeled_items(dataset, predictions, "macro_f1", {})
    return replace(made, labeled=labeled, labeled_digest="l" * 32)


def fitted_model(payload: bytes, run: str = "p" * 32) -> FittedModel:
    """A model as `annotate` gets it from the tracker."""
    digest = hashlib.blake2b(payload, digest_size=16).hexdigest()
    return FittedModel(load_model(payload, SKOPS_TRUSTED_TYPES), digest, run, "mlda")


def killed_annotation(home: Path, source: str, model: str, victim: str) -> dict[str, Any]:
    """An annotation that is killed while it computes a stage, after the stages before it are stored."""

    def submit(stage: Stage, workspace: Workspace, force: bool) -> Outcome:
        if stage.name == victim:
            stage = replace(stage, produce=lambda: os.kill(os.getpid(), signal.SIGKILL))  # type: ignore[arg-type, return-value]
        return run_stage(stage, workspace, force)

    info = ModelInfo("c" * 32, "p" * 32, "run", "pictures", "mlda", "MLDA", {}, {})
    config = annotation_config(source, load_config(None, QUICK, home=str(home)))
    plan = AnnotationPlan(config, ChosenModel(fitted_model(Path(model).read_bytes()), info))
    return {"run": Run(plan).run_stages(submit).run_id}


def killed_child(home: Path, source: str, seconds: float) -> bool:
    """Fork a run and kill it after some time; False if it ended before."""
    child = os.fork()
    if child == 0:
        try:
            sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            run(home, source)
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
    """Kill runs at random instants within the duration of a whole run; finished stages are kept.

    When a run ends before it is killed, the next one starts in a new home. The collection is small, so that
    more of the kills hit a write than a computation.
    """
    for name in _HEAVY:  # once, before forking
        importlib.import_module(name)
    dice, left, chain = random.Random(int(seed)), int(kills), 0
    source = str(write_pictures(home / "pictures", 40))
    assert not killed_child(home / "first", source, 600)  # compiles and caches
    begun = time.monotonic()
    assert not killed_child(home / "undisturbed", source, 600)
    usual = time.monotonic() - begun
    while left:
        if killed_child(home / f"chain{chain}", source, dice.uniform(0, usual)):
            left -= 1
        else:
            chain += 1
    assert not killed_child(home / f"chain{chain}", source, 600)
    return {"chains": chain + 1, "seconds": usual}


COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "run": run,
    "at_once": at_once,
    "pausing": pausing,
    "kill_often": kill_often,
    "killed_annotation": killed_annotation,
}

if __name__ == "__main__":
    command, where, *rest = sys.argv[1:]
    sys.stdout.write(json.dumps(COMMANDS[command](Path(where), *rest)) + "\n")
