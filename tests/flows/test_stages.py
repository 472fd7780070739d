"""Which stages a run computes, and the progress of an experiment."""

import subprocess
from pathlib import Path

import pytest

from flows import experiments
from flows.cli import build_parser
from flows.commands import COMMANDS
from flows.config import load_config
from flows.pipeline import STAGES, TrainingPlan
from flows.rerun import flow_parameters
from flows.runner import Run
from flows.session import Session
from flows.stages import StageSelection
from storage.errors import ConfigError
from tasks.reporter import Reporter
from tests.conftest import REPOSITORY, local_config


class Listener(Reporter):
    """Keeps every message."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def test_a_run_reports_to_its_session_and_records_what_it_recomputed(tmp_path: Path) -> None:
    session = Session(Listener())
    plan = TrainingPlan(local_config("iris", tmp_path))
    Run(plan, StageSelection(until="features"), session).run_stages()
    assert session.recomputed == []
    Run(plan, StageSelection(["features"], until="features"), session).run_stages()
    assert session.recomputed == ["features"]
    reporter = session.reporter
    assert isinstance(reporter, Listener)
    assert [line.split()[:2] for line in reporter.said] == [
        ["ingest", "computed"],
        ["features", "computed"],
        ["ingest", "fresh"],
        ["features", "computed"],
    ]


def test_what_was_recomputed_is_recorded_although_a_later_stage_fails(tmp_path: Path) -> None:
    session = Session(Listener())
    plan = TrainingPlan(local_config("iris", tmp_path, "embedding.n_components=9"))
    with pytest.raises(Exception, match="n_components=9"):
        Run(plan, StageSelection(["features"]), session).run_stages()
    assert session.recomputed == ["features"]


def test_a_selection_must_not_end_before_it_starts() -> None:
    with pytest.raises(ConfigError, match="--from report --until ingest: ingest comes first"):
        StageSelection(since="report", until="ingest").check(STAGES)


@pytest.mark.slow
def test_stage_names_are_those_of_the_stages(tmp_path: Path) -> None:
    done = Run(TrainingPlan(local_config("iris", tmp_path)), session=Session(Reporter())).run_stages()
    names = [record.ref.stage for record in done.stages]
    assert list(dict.fromkeys(names)) == [name for name in STAGES if name != "tracking"]


def test_prefect_is_shown_no_password() -> None:
    plan = TrainingPlan(load_config(None, ["tracking.uri=http://me:hush@tracker:5000"]))
    parameters = flow_parameters(plan.kind, plan.settings(), plan.source)
    assert "tracker:5000" in str(parameters)
    assert "hush" not in str(parameters)


def test_progress_of_an_experiment_shows_an_eta_from_computed_measurements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(experiments.time, "monotonic", lambda: now)
    listener = Listener()
    progress = experiments.MeasuringProgress(5, listener)
    progress.advance(computed=False)
    for seconds in (10.0, 20.0, 0.5, 1.0):
        now += seconds
        progress.advance(computed=True)
    assert listener.said == ["  2 of 5 measured, ETA 30 s", "  3 of 5 measured, ETA 30 s"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_declares_its_arguments_and_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        build_parser(name).parse_args([name, "--help"])
    assert end.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert COMMANDS[name].help in shown
    assert "--home" in shown


def test_no_state_travels_in_context_variables() -> None:
    packages = ["flows", "tasks", "storage", "embedding_core"]
    found = subprocess.run(
        ["grep", "-rl", "--include=*.py", "ContextVar", *packages],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == ""
