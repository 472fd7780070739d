"""Experiments as stages and as a command: one whole experiment on built-in sets, its keys, its records."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from embedding_core.protocols.trial import Arm
from flows.config import load_config
from flows.experiments import ExperimentPlan
from flows.rerun import flow_parameters
from flows.runner import Run, open_workspace
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import RunLog
from storage.artifacts.schemas import unpack_files
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError, ServiceDown
from storage.reference.sets import find_data_folder, is_original, reference_sets
from tasks.maintenance.gc import Garbage, find_garbage
from tasks.reporter import Reporter
from tasks.reproduce import catalog, report, trials
from tasks.reproduce.datasets import DatasetRef
from tasks.reproduce.experiment import BASELINES, Experiment
from tasks.reproduce.mlda import FIG5
from tasks.settings import SourceSettings
from tasks.stages.tracking import load_tracked
from tests.tasks.test_lineage import walk_inputs

TINY = Experiment(
    name="dle-table3",
    title="a small copy of Table 3",
    paper="a paper",
    where="Table 3",
    datasets=("iris", "wine"),
    arms=(Arm("LPP", "lpp"), Arm("DLE", "dle"), *BASELINES),
    protocol="embedding_core.protocols.semi_supervised",
    full={"trials": 3, "labeled": 0.2, "readings": ["clean"], "seed": 0},
    quick={"trials": 2},
)


def quiet_config(home: Path, **tracking):
    return load_config(None, home=str(home), executor="serial", tracking={"enabled": False, **tracking})


def run_experiment(experiment, quick, folder, config):
    """Run an experiment in this process, without Prefect."""
    return Run(ExperimentPlan(config, experiment, quick, folder)).run_stages()


@pytest.mark.slow
def test_whole_experiment_on_built_in_sets(tmp_path):
    config = quiet_config(tmp_path / "home")
    result = run_experiment(TINY, True, tmp_path, config)
    measured = [row for row in result.products.rows if row.trials]
    assert {(row.dataset, row.method, row.preprocessing) for row in measured} == {
        (dataset, method, preprocessing)
        for dataset in ("iris", "wine")
        for method in ("LPP", "DLE")
        for preprocessing in ("raw", "zscore")
    }
    assert all(row.trials == 2 and set(row.baselines) == {"1NN", "scaled SVM"} for row in measured)
    (iris,) = [
        row for row in measured if (row.dataset, row.method, row.preprocessing) == ("iris", "DLE", "raw")
    ]
    assert 0.8 < iris.mean <= 1
    text = result.report.read_text(encoding="utf-8")
    assert "| iris | DLE |" in text and "printed cells" in text
    table = pq.read_table(result.report.parent / "cells.parquet")
    assert table.num_rows == len(result.products.rows)
    assert {"paper", "mean", "spread", "verdict", "baseline:1NN"} <= set(table.column_names)
    assert "baseline_spread:1NN" in table.column_names
    again = run_experiment(TINY, True, tmp_path, config)
    assert (again.computed, again.products.rows) == (0, result.products.rows)


@pytest.mark.slow
def test_quick_runs_do_not_crowd_out_a_full_one(tmp_path):
    config = quiet_config(tmp_path / "home")
    small = replace(TINY, datasets=("iris",), preprocessing=("raw",))
    for quick in (False, True):
        run_experiment(small, quick, tmp_path, config)
    store = ArtifactStore.local(tmp_path / "home" / "store")
    assert find_garbage(store, RunLog(store), keep=1) == Garbage((), ())


@pytest.mark.slow
def test_a_second_run_computes_nothing_and_a_new_arm_computes_only_itself(tmp_path):
    config = quiet_config(tmp_path / "home")
    small = replace(TINY, datasets=("iris",), preprocessing=("raw",))
    assert run_experiment(small, True, tmp_path, config).computed == 7
    assert run_experiment(small, True, tmp_path, config).computed == 0
    wider = replace(small, arms=(*small.arms, Arm("PCA", "pca")))
    assert run_experiment(wider, True, tmp_path, config).computed == 2


@pytest.mark.slow  # it starts processes
def test_processes_give_the_same_numbers(tmp_path):
    small = replace(TINY, datasets=("iris",), arms=TINY.arms[1:2])
    alone, together = (
        run_experiment(
            small,
            True,
            tmp_path,
            load_config(None, home=str(tmp_path / executor), executor=executor, tracking={"enabled": False}),
        )
        for executor in ("serial", "processes:2")
    )
    assert alone.products.rows == together.products.rows


@pytest.mark.slow
def test_an_experiment_is_tracked_once(tmp_path):
    config = quiet_config(tmp_path / "home", enabled=True)
    small = replace(TINY, datasets=("iris",), preprocessing=("raw",))
    first = run_experiment(small, True, tmp_path, config)
    reported = load_tracked(first.store, first.products.tracked)
    assert run_experiment(small, True, tmp_path, config).products.tracked == first.products.tracked
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}")
    run = client.get_run(reported.parent_id)
    assert run.data.tags["labelscape.reproduce"] == "dle-table3"
    names = {file.path for file in client.list_artifacts(reported.parent_id)}
    assert {"table.md", "cells.parquet"} <= names
    client.delete_run(reported.parent_id)
    assert run_experiment(small, True, tmp_path, config).products.tracked != first.products.tracked
    (run,) = RunLog(
        ArtifactStore.local(tmp_path / "home" / "store")
    ).entries()  # where it was tracked names no other run
    assert run.id == first.run_id


def test_another_file_of_the_same_name_is_noticed(tmp_path):
    place = tmp_path / reference_sets()["sonar"].path
    place.parent.mkdir()
    place.write_bytes(b"something else")
    assert not is_original("sonar", tmp_path)
    assert is_original("wine", tmp_path)


@pytest.mark.slow
def test_the_real_sets_match_their_checksums(shared_data):
    ours = [name for name, one in reference_sets().items() if one.builtin or one.sha256]
    assert len(ours) == len(reference_sets()) - 1  # all but TRECVID, which is licensed
    assert all(is_original(name, shared_data) for name in ours)


def test_data_folder_from_argument_environment_or_home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSCAPE_DATA", str(tmp_path / "named"))
    assert find_data_folder(None, tmp_path) == tmp_path / "named"
    assert find_data_folder(str(tmp_path), tmp_path) == tmp_path
    monkeypatch.delenv("LABELSCAPE_DATA")
    assert find_data_folder(None, tmp_path) == tmp_path / "data"
    new = tmp_path / "nowhere"
    assert find_data_folder(str(new), tmp_path, must_exist=False) == new
    with pytest.raises(ConfigError, match="no such folder"):
        find_data_folder(str(tmp_path / "nowhere"), tmp_path)


def test_list_says_what_is_missing(command, tmp_path, monkeypatch):
    monkeypatch.delenv("LABELSCAPE_DATA", raising=False)
    answer = command("reproduce", "list", "--home", tmp_path)
    assert answer.code == 0
    for name in catalog.experiments():
        assert name in answer.out
    assert "soybean, housing, balance" in answer.out


def test_unknown_names_and_missing_data_are_user_errors(command, tmp_path, monkeypatch):
    monkeypatch.delenv("LABELSCAPE_DATA", raising=False)
    answer = command("reproduce", "dle-tabel3", "--home", tmp_path)
    assert answer.code == 2
    assert "Did you mean dle-table3" in answer.err
    answer = command("reproduce", "dle-fig2", "--home", tmp_path)
    assert answer.code == 2
    assert "is missing: expected" in answer.err and "face_yale.parquet" in answer.err
    answer = command("reproduce", "dle-table3", "--sets", "moons", "--home", tmp_path)
    assert answer.code == 2
    assert "has soybean, housing, wine, balance, iris" in answer.err
    answer = command("reproduce", "dle-table3", "--sets", "wine, irsi", "--home", tmp_path)
    assert answer.code == 2
    assert "--sets wine,irsi: no set 'irsi'. Did you mean iris? dle-table3 has soybean" in answer.err


@pytest.fixture
def tiny_catalog(monkeypatch):
    """The small experiment in place of all."""
    from flows.commands import reproduce as command_module

    for module in (catalog, command_module):
        monkeypatch.setattr(module, "experiments", lambda: {TINY.name: TINY})


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_catalog", "without_engine")
def test_command_prints_the_table_and_all_prints_a_summary(command, tmp_path):
    (tmp_path / "labelscape.toml").write_text('executor = "serial"\n[tracking]\nenabled = false\n')
    answer = command("reproduce", "dle-table3", "--quick", "--home", tmp_path / "home")
    assert answer.code == 0
    assert "iris" in answer.out and "verdict" in answer.out
    again = command("reproduce", "all", "--quick", "--home", tmp_path / "home")
    assert "printed cells" in again.out and "7 " in again.out
    assert "computed in" not in again.err


def test_the_key_covers_the_code_of_every_method_that_a_stage_runs(tmp_path):
    workspace = open_workspace(quiet_config(tmp_path), Reporter())
    data = DatasetRef("msrc", None, (None,), SourceSettings())
    recipe = trials.stage(FIG5, FIG5.arms[0], data, True, workspace).recipe()
    assert {"embedding_core.discriminant.mlda", "embedding_core.classifiers.mlls"} <= set(recipe.code)
    drawn = report.stage(FIG5, True, "labelscape", [data], {}, workspace).recipe()
    assert {"embedding_core.discriminant.mlda", "tasks.reproduce.transfer_figure"} <= set(drawn.code)


def test_the_key_covers_the_code_that_makes_the_rows_of_a_page(tmp_path):
    workspace = open_workspace(quiet_config(tmp_path), Reporter())
    recipe = report.stage(TINY, True, "labelscape", [], {}, workspace).recipe()
    called = [getattr(report, name, None) for name in report._compare_all.__code__.co_names]
    used = {one.__module__ for one in called if callable(one)}
    assert "tasks.reproduce.claims" in used
    assert used <= set(recipe.code)
    assert not {
        name
        for name in recipe.code
        if name.startswith(("storage.artifacts.store", "storage.artifacts.locks"))
    }


@pytest.mark.slow
def test_cells_name_their_data_settings_and_code(tmp_path):
    config = quiet_config(tmp_path / "home")
    result = run_experiment(TINY, True, tmp_path, config)
    cells = pq.read_table(result.report.parent / "cells.parquet").to_pylist()
    store = ArtifactStore.local(tmp_path / "home" / "store")
    recipes = {
        one["recipe"]["variant"]: one["recipe"] for one in store.entries() if one["stage"] == "reproduce"
    }
    measured = [one for one in cells if one["trials"]]
    for one in measured:
        recipe = recipes[f"dle-table3/{one['dataset']}/{one['method']}"]
        assert (one["features"], one["labels"]) == (recipe["inputs"]["features"], recipe["inputs"]["labels"])
        assert json.loads(one["settings"]) == recipe["params"]["settings"]
        assert (one["seed"], one["quick"], one["claim"]) == (0, True, False)
        assert one["version"]
    assert len({one["code"] for one in measured}) == 2  # of two methods
    assert len({one["features"] for one in measured}) == 2  # of two sets
    page = result.report.read_text(encoding="utf-8")
    assert "Command: `labelscape reproduce dle-table3 --quick --sets iris,wine` (quick run)." in page
    assert all(one["features"][:12] in page for one in measured)
    assert '"seed": 0' in page


def test_a_page_made_by_other_code_is_another_page(tmp_path):
    workspace = open_workspace(quiet_config(tmp_path), Reporter())
    ref = ArtifactRef("reproduce", "a" * 64, "b" * 64, "cells", 3)

    def key(made, by="labelscape reproduce"):
        return report.stage(TINY, True, by, [], {("iris", "DLE"): made}, workspace).recipe().key

    assert key(ref) != key(replace(ref, key="c" * 64))
    assert key(ref) != key(ref, "labelscape reproduce --quick")


def test_everything_that_determines_a_number_is_in_its_key(tmp_path):
    workspace = open_workspace(quiet_config(tmp_path), Reporter())
    data = DatasetRef("iris", None, (None,), SourceSettings())

    def key(experiment, arm=1, quick=True):
        return trials.stage(experiment, experiment.arms[arm], data, quick, workspace).recipe().key

    others = [
        key(TINY, quick=False),
        key(replace(TINY, full={**TINY.full, "seed": 1})),
        key(replace(TINY, preprocessing=("raw",))),
        key(replace(TINY, arms=(TINY.arms[0], replace(TINY.arms[1], params={"sigma": 2.0})))),
        key(replace(TINY, arms=(TINY.arms[0], replace(TINY.arms[1], fit_on="train")))),
    ]
    assert len({key(TINY), *others}) == 6
    assert key(replace(TINY, title="another title", note="a note")) == key(TINY)


@pytest.mark.slow
def test_a_logged_experiment_is_not_repeated_as_a_run(command, tmp_path):
    config = quiet_config(tmp_path / "home")
    run_experiment(replace(TINY, datasets=("iris",)), True, tmp_path, config)
    (run,) = RunLog(ArtifactStore.local(tmp_path / "home" / "store")).entries()
    again = (
        f"labelscape reproduce dle-table3 --quick --sets iris --data {tmp_path} --home {tmp_path / 'home'}"
    )
    answer = command("run", "--as", run.id, "--home", tmp_path / "home")
    assert answer.code == 2
    assert f"repeat it with `{again}`" in answer.err
    assert f"again     {again}\n" in command("lineage", "--home", tmp_path / "home").out


@pytest.mark.slow
def test_an_experiment_leads_back_to_the_bytes_of_its_sets(command, tmp_path):
    config = quiet_config(tmp_path / "home")
    run_experiment(replace(TINY, preprocessing=("raw",)), True, tmp_path, config)
    (root,) = json.loads(command("lineage", "--json", "--home", tmp_path / "home").out)["results"]
    below = list(walk_inputs(root))
    assert root["label"] == "reproduce_report[dle-table3]"
    assert {one["label"] for one in below if not one["inputs"]} == {"source"}
    assert {"reproduce[dle-table3/wine/DLE]", "features[iris]"} <= {one["label"] for one in below}


@pytest.mark.usefixtures("tiny_catalog")
def test_a_run_without_prefect_is_kept_for_sync(command, tmp_path, monkeypatch):
    (tmp_path / "labelscape.toml").write_text('executor = "serial"\n[tracking]\nenabled = false\n')

    def refuse(home, verbose):
        raise ServiceDown("no one")

    monkeypatch.setattr("flows.runner.prepare_engine", refuse)
    answer = command("reproduce", "dle-table3", "--quick", "--sets", "iris", "--home", tmp_path / "home")
    assert "NOT IN PREFECT: no one Record it later: `labelscape sync --home " in answer.out
    (run,) = RunLog(ArtifactStore.local(tmp_path / "home" / "store")).entries()
    assert run.unrecorded == "no one"
    assert flow_parameters(run.kind, run.config, run.source) == {
        "name": "dle-table3",
        "quick": True,
        "folder": str(tmp_path / "home" / "data"),
        "sets": ["iris"],
    }


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_catalog", "without_engine")
def test_a_tracker_that_does_not_answer_is_reported_with_a_remedy(command, tmp_path):
    (tmp_path / "labelscape.toml").write_text('executor = "serial"\n[tracking]\nuri = "http://127.0.0.1:9"\n')
    answer = command("reproduce", "dle-table3", "--quick", "--sets", "iris", "--home", tmp_path / "home")
    assert answer.code == 0
    assert "NOT TRACKED: no tracking server answers at http://127.0.0.1:9" in answer.out
    assert "Results are in the store; repeat the command to track them." in answer.out


def test_files_of_a_report_are_kept_in_the_store(tmp_path):
    config = quiet_config(tmp_path / "home")
    run_experiment(replace(TINY, datasets=("iris",)), True, tmp_path, config)
    store = ArtifactStore.local(tmp_path / "home" / "store")
    (entry,) = [one for one in store.entries() if one["stage"] == "reproduce_report"]
    files = unpack_files(store.read(store.ref("reproduce_report", entry["key"])))
    assert set(files) == {"table.md", "cells.parquet"}
