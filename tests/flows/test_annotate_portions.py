"""Annotation in portions: the same files, nothing judged twice, and a kill costs one portion."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flows.annotate import AnnotationPlan, AnnotationResult, ChosenModel, annotation_config
from flows.runner import Run, RunResult
from storage.artifacts.annotations import Annotations
from storage.tracking.client import ModelInfo
from tasks.annotation import FittedModel, Request, judge, load_annotations, portions, predicting
from tasks.annotation import evidence as evidence_module
from tasks.annotation.files import write_annotations
from tasks.stage import run_stage
from tasks.stages import chunks
from tests.conftest import local_config
from tests.run_driver import train_model

pytestmark = pytest.mark.slow
CUT = 40
"""Items of a portion, at most."""
Annotate = Callable[..., RunResult[AnnotationResult]]


def write_table(path: Path, n: int, seed: int, changed: int | None = None) -> Path:
    """A table of two features and a label; the features of row `changed` are others."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + 3 * label[:, None]
    if changed is not None:
        X[changed] += 0.5
    lines = ["id,a,b,c,class"]
    lines += [f"item{row:04d},{X[row, 0]},{X[row, 1]},{X[row, 2]},{'xy'[label[row]]}" for row in range(n)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> FittedModel:
    """A model with its labeled items, as a tracked run has them."""
    place = tmp_path_factory.mktemp("training")
    return train_model(write_table(place / "known.csv", 60, 0), place / "home")


@pytest.fixture
def annotate(model: FittedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Annotate:
    monkeypatch.setattr(chunks, "MAX_ITEMS", CUT)

    def annotate(
        new: Path, home: str = "home", request: Request | None = None
    ) -> RunResult[AnnotationResult]:
        config = annotation_config(str(new), local_config("demo", tmp_path / home))
        info = ModelInfo("c" * 32, "p" * 32, "run", "tables", "mlda", "MLDA", {}, {})
        plan = AnnotationPlan(config, ChosenModel(model, info), request=request or Request())
        return Run(plan).run_stages(run_stage)

    return annotate


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """The portions that were judged."""
    seen: list[range] = []
    original = judge.Judge.judge

    def note(self: judge.Judge, portion: portions.Portion, asked: object) -> object:
        seen.append(portion.rows)
        return original(self, portion, asked)  # type: ignore[arg-type]

    monkeypatch.setattr(judge.Judge, "judge", note)
    return seen


def load(result: RunResult[AnnotationResult]) -> Annotations:
    return load_annotations(result.store, result.products.annotations)


@pytest.mark.parametrize("request_", [Request(), Request(precision=0.8)])
def test_the_files_are_those_of_one_portion(
    annotate: Annotate,
    judged: list[range],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request_: Request,
) -> None:
    new = write_table(tmp_path / "new.csv", 150, 1)
    in_portions = load(annotate(new, "several", request_))
    assert len(judged) > 2
    judged.clear()
    monkeypatch.setattr(chunks, "MAX_ITEMS", 10**6)
    monkeypatch.setattr(chunks, "MEAN_ITEMS", 10**9)
    at_once = load(annotate(new, "one", request_))
    assert judged == [range(150)]
    assert in_portions.findings == at_once.findings
    written = [
        [file.read_bytes() for file in write_annotations(found, tmp_path / name, {"model": "m"})]
        for found, name in ((in_portions, "several"), (at_once, "one"))
    ]
    assert written[0] == written[1]


def test_evidence_that_is_not_asked_for_is_not_computed(
    annotate: Annotate, judged: list[range], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And predictions alone are stored in fewer portions."""
    new = write_table(tmp_path / "new.csv", 150, 1)
    whole = load(annotate(new))
    several = list(judged)
    judged.clear()
    monkeypatch.setattr(predicting, "JOINED", 100)
    for name in ("find_nearest", "find_novelty", "everyone"):
        monkeypatch.delattr(evidence_module.Evidence, name)
    less = load(annotate(new, request=Request(evidence=False)))
    np.testing.assert_array_equal(less.scores, whole.scores)
    np.testing.assert_array_equal(less.labels, whole.labels)
    assert 1 < len(judged) < len(several)
    assert [row for one in judged for row in one] == list(range(150))
    assert all(len(one) <= 100 for one in judged)
    assert less.ids == whole.ids
    assert less.findings == {**whole.findings, "drift": None}
    assert whole.findings["drift"]
    assert any(whole.nearest)
    assert not any(less.nearest)
    assert less.novelty is None


def test_only_portions_with_changed_or_new_items_are_judged_again(
    annotate: Annotate, judged: list[range], tmp_path: Path
) -> None:
    before = load(annotate(write_table(tmp_path / "new.csv", 150, 1)))
    everything = list(judged)
    judged.clear()
    after = load(annotate(write_table(tmp_path / "new.csv", 150, 1, changed=70)))
    assert len(judged) == 1 and 70 in judged[0] and judged[0] in everything
    same = np.arange(150) != 70
    np.testing.assert_array_equal(before.scores[same], after.scores[same])
    assert (before.scores[70] != after.scores[70]).any() or before.novelty[70] != after.novelty[70]  # type: ignore[index]


def test_a_kill_costs_one_portion(
    annotate: Annotate, judged: list[range], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed while it judges its third portion; the next run judges the rest."""
    new = write_table(tmp_path / "new.csv", 150, 1)
    whole = load(annotate(new, "undisturbed"))
    count = len(judged)
    judged.clear()
    pid = os.fork()
    if pid == 0:
        note = judge.Judge.judge

        def stop(self: judge.Judge, portion: portions.Portion, asked: object) -> object:
            if len(judged) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return note(self, portion, asked)  # type: ignore[arg-type]

        judge.Judge.judge = stop  # type: ignore[method-assign, assignment]
        annotate(new)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    again = load(annotate(new))
    assert len(judged) == count - 2
    np.testing.assert_array_equal(again.scores, whole.scores)
    assert again.findings == whole.findings


def test_drift_of_many_items_is_tested_on_a_sample_that_does_not_depend_on_portions(
    annotate: Annotate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "DRIFT_ROWS", 50)
    new = write_table(tmp_path / "new.csv", 150, 1)
    several = load(annotate(new, "several")).findings["drift"]
    monkeypatch.setattr(chunks, "MAX_ITEMS", 10**6)
    assert several["new"] == 50
    assert load(annotate(new, "fewer")).findings["drift"] == several
