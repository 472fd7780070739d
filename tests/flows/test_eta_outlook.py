"""What lies ahead of experiments: which stages, how heavy, and what is told while they run."""

import re
from dataclasses import replace

import pytest

from flows.eta import Forecast, forecasting
from flows.eta_outlook import MEASURING, remember, work_of
from flows.experiments import look_ahead, reproduce_one
from flows.pipeline import open_workspace
from flows.terminal import REPORTER
from storage.artifacts.run_log import RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceError
from storage.reference.sets import reference_sets
from tasks.reporter import Reporter
from tasks.reproduce import trials
from tasks.reproduce.datasets import DatasetRef
from tasks.reproduce.dle import FIG2, TABLE3, TABLE5
from tasks.reproduce.kernel_dle import SPLITS
from tasks.settings import SourceSettings
from tests.flows.test_pipeline import Notebook
from tests.tasks.test_reproduce import TINY, quiet_config, tiny_catalog  # noqa: F401

SMALL = replace(TINY, preprocessing=("raw",))


@pytest.fixture
def heard():
    reporter = Notebook()
    token = REPORTER.set(reporter)
    yield reporter.lines
    REPORTER.reset(token)


def stage_of(experiment, dataset, arm, quick, workspace):
    missing = (None,) * len(reference_sets()[dataset].color_spaces)
    data = DatasetRef(dataset, None, missing, SourceSettings())
    return trials.stage(experiment, experiment.arms[arm], data, quick, workspace)


@pytest.mark.parametrize(
    ("experiment", "dataset", "quick", "repeats", "rows"),
    [
        (FIG2, "pie", False, 50 * 4, 11554),
        (FIG2, "yale", False, 50 * 7, 165),
        (TABLE3, "iris", True, 3 * 2, 150),
        (SPLITS, "msrc_spaces", False, 12 * 4, 591),
        (TABLE5, "trecvid", True, 2 * 2, 500),  # nobody here has it: the asked rows, not one
    ],
)
def test_trials_weigh_as_much_as_their_rows(experiment, dataset, quick, repeats, rows, tmp_path):
    workspace = open_workspace(quiet_config(tmp_path), Reporter())
    stage = stage_of(experiment, dataset, 0, quick, workspace)
    found = work_of(stage.label, stage.variant, stage.params)
    assert found.amount == pytest.approx(repeats * rows**1.25)
    assert found.place == f"{experiment.name}/{dataset}"


def test_a_sample_of_the_rows_weighs_less(tmp_path):
    workspace = open_workspace(quiet_config(tmp_path), Reporter())
    stage = stage_of(FIG2, "pie", 0, True, workspace)
    settings = FIG2.settings("pie", quick=True)
    expected = settings["trials"] * len(settings["images"]) * (settings["most"] * 68) ** 1.25
    assert work_of(stage.label, stage.variant, stage.params).amount == pytest.approx(expected)


def test_each_measured_stage_tells_what_is_left(tmp_path, heard):
    reproduce_one(SMALL, True, tmp_path, quiet_config(tmp_path / "home"))
    measured = [line for line in heard if line.strip().startswith(f"{MEASURING}[")]
    left = [
        int(found[1]) for line in measured if (found := re.search(r"; (\d+) stages? left, done about", line))
    ]
    assert left == [7, 6, 5, 4, 3, 2, 1]
    assert len(measured) == 8
    assert "methods not timed yet: 3" in measured[0]
    assert not any("a guess" in line for line in measured[3:])  # each method was timed on the first set
    heard.clear()
    reproduce_one(SMALL, True, tmp_path, quiet_config(tmp_path / "home"))
    assert not any("left" in line for line in heard)


def test_a_quick_run_foretells_the_full_one(tmp_path):
    config = quiet_config(tmp_path / "home")
    reproduce_one(SMALL, True, tmp_path, config)
    store = ArtifactStore.local(tmp_path / "home" / "store")
    took = sum(one["seconds"] for one in store.entries() if one["stage"] == MEASURING)
    ahead = look_ahead([SMALL], False, tmp_path, config)
    assert len(ahead.ahead) == 8
    assert ahead.untimed == 0
    assert ahead.seconds_left() == pytest.approx(took * 3 / 2)  # three trials in place of two
    assert look_ahead([SMALL], True, tmp_path, config).ahead == []


def test_an_interrupted_run_is_ahead_in_part_alone(tmp_path):
    config = quiet_config(tmp_path / "home")
    reproduce_one(replace(SMALL, arms=SMALL.arms[:3]), True, tmp_path, config)
    ahead = look_ahead([SMALL], True, tmp_path, config)
    assert ahead.ahead == [f"reproduce[dle-table3/{name}/scaled SVM]" for name in ("iris", "wine")]
    assert ahead.seconds_left() > 0


def test_runs_whose_artifacts_are_gone_teach_nothing(tmp_path):
    config = quiet_config(tmp_path / "home")
    reproduce_one(replace(SMALL, datasets=("iris",)), True, tmp_path, config)
    store = ArtifactStore.local(tmp_path / "home" / "store")
    (run,) = RunLog(store).entries()
    forecast, variant = Forecast(), "dle-table3/iris/DLE"
    forecast.expect(work_of(f"{MEASURING}[{variant}]", variant, _recipe(store, variant)["params"]))
    for file in (store.root / MEASURING).rglob("*.json"):
        file.unlink()
    remember(forecast, store, {})
    assert forecast.seconds_left() is None
    assert run.stages


def _recipe(store, variant):
    (entry,) = [one for one in store.entries() if one["recipe"]["variant"] == variant]
    return entry["recipe"]


def test_all_tells_one_finishing_time_over_every_experiment(command, tmp_path, tiny_catalog, monkeypatch):  # noqa: F811
    from flows.commands import reproduce as command_module
    from tasks.reproduce import catalog

    broken = replace(SMALL, name="broken", datasets=("iris",))
    several = {one.name: one for one in (replace(SMALL, name="first"), broken, replace(SMALL, name="last"))}
    for module in (catalog, command_module):
        monkeypatch.setattr(module, "experiments", lambda: several)
    plainly = command_module._run

    def run(experiment, *rest):
        if experiment.name == "broken":
            raise SourceError("its data are torn")
        return plainly(experiment, *rest)

    monkeypatch.setattr(command_module, "_run", run)
    (tmp_path / "labelscape.toml").write_text("[tracking]\nenabled = false\n")
    answer = command("reproduce", "all", "--quick", "--home", tmp_path / "home")
    assert answer.code == 2
    assert "broken did not run: its data are torn" in answer.out
    assert "first, 1 of 3\n" in answer.err
    # 8 + 4 + 8 stages, of which the first experiment's are done, then the torn one's given up.
    assert re.search(r"^broken, 2 of 3; 12 stages left, done about \d", answer.err, re.M)
    assert re.search(r"^last, 3 of 3; 8 stages left, done about \d", answer.err, re.M)
    assert re.search(r"reproduce\[first/iris/LPP\] .*; 19 stages left", answer.err)


def test_all_leaves_out_experiments_without_the_asked_sets(command, tmp_path, tiny_catalog, monkeypatch):  # noqa: F811
    from flows.commands import reproduce as command_module
    from tasks.reproduce import catalog

    other = replace(SMALL, name="other", datasets=("digits",))
    for module in (catalog, command_module):
        monkeypatch.setattr(module, "experiments", lambda: {SMALL.name: SMALL, "other": other})
    (tmp_path / "labelscape.toml").write_text("[tracking]\nenabled = false\n")
    answer = command("reproduce", "all", "--quick", "--sets", "iris", "--home", tmp_path / "home")
    assert answer.code == 0
    assert "other" not in answer.out
    answer = command("reproduce", "all", "--quick", "--sets", "iris,digit", "--home", tmp_path / "home")
    assert answer.code == 2
    assert "no set 'digit'. Did you mean digits? There are iris, wine, digits." in answer.err


def test_a_set_of_another_reads_the_same_file_in_another_way():
    known = reference_sets()
    assert known["scene_split"].path == known["scene"].path
    assert (known["scene"].first_rows, known["scene_split"].first_rows) == (1211, 0)
    assert (known["mediamill"].every_row, known["mediamill_rows"].every_row) == (False, True)
    assert known["mediamill_rows"].sha256 == known["mediamill"].sha256
    assert all(min(one.size) > 0 for one in known.values() if one.builtin or one.sha256)


def test_one_forecast_is_used_where_a_command_has_one(tmp_path):
    mine = Forecast()
    with forecasting(mine):
        reproduce_one(replace(SMALL, datasets=("iris",)), True, tmp_path, quiet_config(tmp_path / "home"))
    assert mine.seconds_left() == 0.0  # it has learnt paces
