"""Annotation as a run: nothing is computed twice, kills and damage are repaired, training runs stay fresh."""

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from embedding_core.features import extraction
from flows.annotate import (
    AnnotationPlan,
    AnnotationResult,
    ChosenModel,
    annotation_config,
    find_experiment_of,
)
from flows.config import load_config
from flows.runner import Run, RunResult
from flows.stages import Compute
from flows.status import inspect_stages
from storage.artifacts.run_log import RunLog
from storage.errors import ConfigError
from storage.tracking.client import ExperimentInfo, ModelInfo, Tracker
from tasks.annotation import load_annotations
from tasks.executor import SerialExecutor, ThreadExecutor
from tasks.runs import load_last_run
from tasks.stage import run_stage
from tasks.stages.embedding import load_model_payload
from tasks.stages.tracking import PAPERS
from tests.conftest import REPOSITORY, UNTRACKED, Command, local_config, run_training, write_pictures
from tests.flows.test_cli_annotate import FakeTracker
from tests.flows.test_run_crash import artifacts, flip
from tests.run_driver import fitted_model

STAGES = ["ingest", "features", "annotation"]


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model of images, as stored by a run."""
    place = tmp_path_factory.mktemp("training")
    folder = write_pictures(place / "pictures", 20)
    run = run_training(local_config(folder, place / "home", "embedding.method=mlda"), until="embedding")
    ref = run.products.refs["embedding"]["mlda"]
    assert ref
    return load_model_payload(ref, run.store) or b""


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return write_pictures(tmp_path / "new", 12)


Annotate = Callable[..., RunResult[AnnotationResult]]


@pytest.fixture
def annotate(payload: bytes, new: Path, tmp_path: Path) -> Annotate:
    """Annotate the new pictures in this process, without Prefect."""

    def annotate(
        *settings: str, home: str = "home", run: str = "p" * 32, compute: Compute = run_stage
    ) -> RunResult[AnnotationResult]:
        config = annotation_config(str(new), local_config("demo", tmp_path / home, *settings))
        info = ModelInfo("c" * 32, run, "run", "pictures", "mlda", "MLDA", {}, {})
        model = ChosenModel(fitted_model(payload, run), info)
        return Run(AnnotationPlan(config, model)).run_stages(compute)

    return annotate


@pytest.fixture
def extracted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were extracted."""
    seen: list[str] = []
    original = extraction.extract_file

    def extract_and_note(path: Path, *rest: object) -> object:
        seen.append(path.name)
        return original(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(extraction, "extract_file", extract_and_note)
    return seen


def states(result: RunResult[AnnotationResult]) -> dict[str, bool]:
    return {one.label: one.cached for one in result.stages}


@pytest.mark.slow
def test_unchanged_items_are_fresh_and_a_changed_one_is_extracted_alone(
    annotate: Annotate, new: Path, extracted: list[str]
) -> None:
    first = annotate()
    assert states(first) == dict.fromkeys(STAGES, False)
    assert len(extracted) == 12
    extracted.clear()
    second = annotate()
    assert states(second) == dict.fromkeys(STAGES, True)
    assert second.run_id == first.run_id, "a repeated run is the same run"
    (new / "p03.png").write_bytes((new / "p05.png").read_bytes()[:-12] + b"12 new bytes")
    third = annotate()
    assert extracted == ["p03.png"]
    assert states(third) == dict.fromkeys(STAGES, False)
    assert third.changes is not None
    assert third.changes["counts"] == {"changed": 1}
    before, after = (load_annotations(one.store, one.products.annotations) for one in (first, third))
    same = [row for row, name in enumerate(before.ids) if name != "p03.png"]
    np.testing.assert_array_equal(before.scores[same], after.scores[same])


@pytest.mark.slow
def test_a_model_of_another_run_leaves_items_and_features_fresh(annotate: Annotate) -> None:
    annotate()
    assert states(annotate(run="q" * 32)) == {"ingest": True, "features": True, "annotation": False}


@pytest.mark.slow
def test_the_executor_is_the_configured_one(annotate: Annotate) -> None:
    used = []

    def compute(stage, workspace, force):  # type: ignore[no-untyped-def]
        used.append(workspace.executor)
        return run_stage(stage, workspace, force)

    serial = annotate("executor=serial", compute=compute)
    threads = annotate("executor=threads:2", home="other", compute=compute)
    assert [type(one) for one in used] == [SerialExecutor] * 3 + [ThreadExecutor] * 3
    digests = [[one.ref.digest for one in result.stages] for result in (serial, threads)]
    assert digests[0] == digests[1]


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_annotation_resumes(
    annotate: Annotate, payload: bytes, new: Path, tmp_path: Path, stage: str
) -> None:
    whole = annotate(home="undisturbed")
    (tmp_path / "model.skops").write_bytes(payload)
    words = ["killed_annotation", tmp_path / "home", new, tmp_path / "model.skops", stage]
    killed = subprocess.run(
        [sys.executable, "-m", "tests.run_driver", *map(str, words)], cwd=REPOSITORY, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = annotate()
    assert states(again) == {name: STAGES.index(name) < STAGES.index(stage) for name in STAGES}
    assert artifacts(tmp_path / "home") == artifacts(tmp_path / "undisturbed")
    assert again.run_id == whole.run_id


@pytest.mark.slow
def test_every_damaged_artifact_is_recomputed(annotate: Annotate, tmp_path: Path) -> None:
    annotate()
    whole, dice = artifacts(tmp_path / "home"), random.Random(3)
    stages = {"ingest", "features", "features_part", "annotation", "annotation_part"}
    assert {name.split("/")[0] for name in whole} == stages
    for name in sorted(whole):
        flip(tmp_path / "home" / "store" / name, dice)
        stage, _, data = name.split("/")
        assert [one.name for one in annotate().damaged] == [f"{stage}/{data.partition('-')[0]}"]
        assert artifacts(tmp_path / "home") == whole
    assert annotate().damaged == ()


@pytest.mark.slow
def test_annotating_the_collection_of_a_run_leaves_the_run_fresh(
    annotate: Annotate, new: Path, tmp_path: Path, extracted: list[str]
) -> None:
    config = local_config(new, tmp_path / "home", "embedding.method=mlda")
    run = run_training(config, until="embedding")
    last = load_last_run(run.store, config.source)
    extracted.clear()
    annotated = annotate()
    assert extracted == [], "the features of the run are used"
    assert states(annotated) == {"ingest": False, "features": True, "annotation": False}
    assert load_last_run(run.store, config.source) == last
    found = {one.label: one.state for one in inspect_stages(config)}
    assert {found[label] for label in last} == {"fresh"}
    again = run_training(config, until="embedding")
    assert (again.computed, again.changes, again.run_id) == (0, None, run.run_id)


class TestCommands:
    @pytest.fixture(autouse=True)
    def tracker(self, payload: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("flows.commands.annotate.open_tracker", lambda options: FakeTracker(payload))

    @pytest.mark.parametrize("known", [True, False])
    def test_prefect_is_used_only_if_a_server_is_configured_or_running(
        self, command: Command, new: Path, monkeypatch: pytest.MonkeyPatch, known: bool
    ) -> None:
        flows: list[str] = []

        def run_in_flow(run: Run[AnnotationResult]) -> RunResult[AnnotationResult]:
            flows.append(run.plan.kind)
            return run.run_stages()

        monkeypatch.setitem(sys.modules, "flows.prefect_engine", SimpleNamespace(run_in_flow=run_in_flow))
        monkeypatch.setattr("flows.runner.prepare_engine", lambda home, verbose: None)
        monkeypatch.setattr("flows.runner.starts_server", lambda: not known)
        done = command("annotate", new)
        assert done.code == 0
        assert flows == (["annotate"] if known else [])
        assert "starting Prefect" not in done.err
        assert "NOT IN PREFECT" not in done.out

    def test_a_prefect_server_that_is_down_is_reported(
        self, command: Command, new: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
        done = command("annotate", new)
        assert done.code == 0
        assert "NOT IN PREFECT: no Prefect server answers" in done.out
        assert "12 items annotated" in done.out

    @pytest.mark.slow
    def test_the_run_is_listed_and_can_be_repeated(self, command: Command, new: Path) -> None:
        done = json.loads(command("annotate", new, "--json", "--home", "home").out)
        assert [one["state"] for one in done["stages"]] == ["computed"] * 3
        (run,) = json.loads(command("store", "ls", "--runs", "--json", "--home", "home").out)
        assert (run["id"], run["kind"], run["source"]) == (done["run"], "annotate", str(new))
        assert run["experiment"] == "annotate pictures"
        assert "annotate" in command("store", "ls", "--runs", "--home", "home").out
        again = f"labelscape annotate {new} --run {'p' * 32} --method mlda --home"
        lineage = command("lineage", "--home", "home").out
        assert f"again     {again}" in lineage
        assert "(from the tracker)" in lineage
        assert "(bytes of the source)" in lineage
        refused = command("run", "--as", done["run"], "--home", "home")
        assert refused.code == 2
        assert f"run {done['run']} is an annotation of new items; repeat it with `{again}" in refused.err
        repeated = json.loads(command(*again.split()[1:], "home", "--json").out)
        assert [one["state"] for one in repeated["stages"]] == ["fresh"] * 3
        assert repeated["run"] == done["run"]

    def test_gc_keeps_the_last_annotation_of_a_source(
        self, command: Command, new: Path, tmp_path: Path
    ) -> None:
        command("annotate", new, "--home", "home")
        before = artifacts(tmp_path / "home")
        assert command("store", "gc", "--keep", "0", "--home", "home").code == 0
        assert artifacts(tmp_path / "home") == before

    def test_the_loss_of_the_last_annotation_names_the_command_that_restores_it(
        self, command: Command, new: Path, tmp_path: Path
    ) -> None:
        command("annotate", new, "--home", "home")
        (pointer,) = (tmp_path / "home" / "store" / "pointers").glob("annotate-*.json")
        pointer.write_bytes(pointer.read_bytes().replace(b'"features"', b'"featurez"'))
        done = command("store", "verify", "--home", "home")
        assert done.code == 1
        restored = f"the stages of the last annotation of {new}; `labelscape annotate {new}` records them"
        assert restored in done.out

    @pytest.mark.usefixtures("without_engine")
    def test_the_kind_of_a_training_run(self, command: Command, new: Path) -> None:
        command("run", new, *UNTRACKED, "--until", "ingest", "--home", "home")
        (run,) = json.loads(command("store", "ls", "--runs", "--json", "--home", "home").out)
        assert run["kind"] == "run"


def test_two_kinds_of_runs_have_different_ids(annotate: Annotate) -> None:
    (run,) = RunLog(annotate().store).entries()
    assert replace(run, kind="run").id != run.id


@pytest.mark.slow
def test_a_running_server_shows_the_annotation_as_a_flow(
    payload: bytes, new: Path, tmp_path: Path, engine: str
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowFilter, FlowFilterName

    from flows.prefect_engine import record_run

    info = ModelInfo("c" * 32, "p" * 32, "run", "pictures", "mlda", "MLDA", {}, {})
    config = annotation_config(str(new), local_config("demo", tmp_path / "home"))
    result = Run(AnnotationPlan(config, ChosenModel(fitted_model(payload), info))).execute()
    assert result.unrecorded is None
    (run,) = RunLog(result.store).entries()
    later = record_run(run, tmp_path / "home", pytest.fail)
    with get_client(sync_client=True) as client:
        name = FlowFilter(name=FlowFilterName(any_=["labelscape-annotate"]))
        flows = client.read_flow_runs(flow_filter=name)
    # Other tests use the same server.
    found = [one for one in flows if one.parameters["source"] == str(new)]
    assert {one.state_name for one in found} == {"Completed"}
    assert later in {str(one.id) for one in found}
    assert len(found) == 2


class TestWhichCollection:
    """Without --experiment, a model of another collection is never taken."""

    @pytest.fixture
    def folders(self, tmp_path: Path) -> list[str]:
        for name in ("photos", "wine", "new"):
            (tmp_path / name).mkdir()
        return [str(tmp_path / name) for name in ("photos", "wine", "new")]

    def found(self, known: Sequence[tuple[str, str]], path: str, **given: Any) -> str | None:
        tracker = SimpleNamespace(
            experiments=lambda: [ExperimentInfo(name, name, source) for name, source in known]
        )
        return find_experiment_of(cast(Tracker, tracker), load_config(None, **given), path)

    def test_the_only_one(self, folders: list[str]) -> None:
        assert self.found([("photos", folders[0])], folders[2]) == "photos"
        assert self.found([], folders[2]) is None

    def test_that_of_the_items_themselves_not_the_newest(self, folders: list[str]) -> None:
        known = [("wine", folders[1]), ("photos", folders[0])]
        assert self.found(known, folders[0]) == "photos"

    def test_that_of_the_configured_source(self, folders: list[str]) -> None:
        known = [("wine", folders[1]), ("photos", folders[0])]
        assert self.found(known, folders[2], source={"path": folders[0]}) == "photos"
        assert self.found(known, folders[2], tracking={"experiment": "mine"}) == "mine"

    def test_several_are_refused_with_their_names(self, folders: list[str]) -> None:
        known = [("wine", folders[1]), ("photos", folders[0]), (PAPERS, "")]
        with pytest.raises(
            ConfigError, match=rf"--experiment:\n  wine  {folders[1]}\n  photos  {folders[0]}"
        ):
            self.found(known, folders[2])
