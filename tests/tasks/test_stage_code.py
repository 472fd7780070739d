"""Code fingerprints: the key of a stage covers every module that affects its result."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

import tasks.stage
from embedding_core.features import extraction
from embedding_core.registry.candidates import Candidate
from flows.pipeline import walk
from flows.runner import open_workspace
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Score
from storage.artifacts.store import ArtifactStore
from tasks.reporter import Reporter
from tasks.selection.choice import CandidateResult, choose
from tasks.selection.choice import stage as choice_stage
from tasks.selection.out_of_fold import Tuning
from tasks.stage import Stage
from tasks.stages.embedding import Data, model_stage
from tests.conftest import local_config, run_training

EXTRACTION = "embedding_core.features.extraction"
ROWS_AND_NEIGHBORS = {"tasks.dataset", "tasks.stages.neighbors"}
BUILDS_GRAPHS = {"tasks.stages.chunks", "tasks.stages.graph", *ROWS_AND_NEIGHBORS}


@pytest.fixture
def code(picture_folder: Path, tmp_path: Path) -> dict[str, set[str]]:
    """Task modules in the key of each stage; nothing is computed."""
    config = local_config(picture_folder, tmp_path / "home")
    found: dict[str, set[str]] = {}

    def note(stage: Stage) -> ArtifactRef | None:
        found[stage.name] = {name for name in stage.recipe().code if name.startswith("tasks.")}
        return None

    walk(config, open_workspace(config, Reporter()), note)
    return found


@pytest.mark.slow
def test_rows_and_neighbors_count_where_they_shape_the_result(code: dict[str, set[str]]) -> None:
    assert code["affinity"] == {"tasks.stages.affinity", *BUILDS_GRAPHS}
    assert code["evaluation"] == {"tasks.stages.evaluation", "tasks.folds", *BUILDS_GRAPHS}
    assert (
        code["embedding"]
        == code["model"]
        == {"tasks.stages.embedding", "tasks.stages.chunks"} | ROWS_AND_NEIGHBORS
    )
    assert code["ingest"] == {"tasks.stages.ingest", "tasks.training_rows"}
    assert code["correlation"] == {"tasks.stages.correlation"}
    assert code["features"] == {"tasks.stages.features", "tasks.stages.chunks"}


def test_other_tasks_count_through_the_one_that_calls_them() -> None:
    assert {"tasks.folds", "tasks.dataset"} < set(tasks.stage.task_code((), "tasks.selection.candidates"))
    assert {"tasks.reproduce.datasets", "tasks.dataset"} < set(
        tasks.stage.task_code((), "tasks.reproduce.trials")
    )


def test_what_decides_labels_counts_where_they_are_decided(tmp_path: Path) -> None:
    workspace = open_workspace(local_config("iris", tmp_path), Reporter())
    ref = ArtifactRef("candidate", "0" * 64, "1" * 64, "predictions", 1)
    data = Data(None, None, None, "none")
    tuned = model_stage("svm", {}, data, workspace, tuning=Tuning("macro_f1", ref)).recipe().code
    plain = model_stage("svm", {}, data, workspace).recipe().code
    assert tuned.keys() - plain.keys() >= {
        "tasks.selection.out_of_fold",
        "embedding_core.model_selection.threshold_tuning",
    }
    standing = CandidateResult(
        Candidate("svm", "svm"), "scored", "", [Score("svm", "svm", 0, "macro_f1", 0.5)], ref
    )
    made = choose([standing], "macro_f1", "macro_f1")
    assert made
    measured = choice_stage(made).recipe().code
    assert measured.keys() >= {
        "tasks.selection.choice",
        "tasks.selection.out_of_fold",
        "tasks.dataset",
        "embedding_core.metrics",
    }
    assert not any(name.startswith("storage.") for name in measured), "what reads and writes does not count"
    assert "tasks.selection.out_of_fold" not in tasks.stage.task_code((), "tasks.selection.candidates"), (
        "scores are before decisions"
    )


@pytest.fixture
def extracted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the images whose features were extracted."""
    names: list[str] = []
    real = extraction.extract_many

    def record(paths: Sequence[Path], *arguments: object) -> object:
        names.extend(path.name for path in paths)
        return real(paths, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(extraction, "extract_many", record)
    return names


def pretend_changed(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    real = tasks.stage.code_fingerprint
    monkeypatch.setattr(
        tasks.stage,
        "code_fingerprint",
        lambda modules: {name: "0" if name == module else digest for name, digest in real(modules).items()},
    )


def extract(source: Path, home: Path) -> None:
    run_training(local_config(source, home), until="features")


@pytest.mark.slow
def test_rows_of_other_code_are_not_reused(
    picture_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extracted: list[str]
) -> None:
    extract(picture_folder, tmp_path / "home")
    assert len(extracted) == 40
    extracted.clear()
    Image.new("RGB", (24, 32), "red").save(picture_folder / "p20.png")
    extract(picture_folder, tmp_path / "home")
    assert extracted == ["p20.png"]
    extracted.clear()
    pretend_changed(monkeypatch, EXTRACTION)
    extract(picture_folder, tmp_path / "home")
    assert len(extracted) == 40


def test_portions_record_the_code_of_their_task(picture_folder: Path, tmp_path: Path) -> None:
    extract(picture_folder, tmp_path / "home")
    parts = [
        one
        for one in ArtifactStore.local(tmp_path / "home" / "store").entries()
        if one["stage"] == "features_part"
    ]
    assert parts
    assert all({"tasks.stages.features", EXTRACTION} <= one["recipe"]["code"].keys() for one in parts)
