"""What a run does beyond the sizes up to which it is exact; the sizes are lowered here."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import time_estimates
from flows.pipeline import TrainingPlan
from flows.runner import Run
from flows.stages import StageSelection
from storage.artifacts.columns import read_metadata
from storage.errors import ConfigError
from storage.sources import open_source
from storage.sources.base import SourceOptions
from tasks import folds
from tasks.stages.evaluation import load_scores, sampling_note
from tests.conftest import Answer, local_config, run_locally, run_training

MANY = ("evaluation.exact_items=100", "affinity.exact_items=100", "evaluation.test_items=100")


def write_items(path: Path, n: int = 700) -> Path:
    """Items with lists of labels, a fifth unlabeled, in several row groups."""
    rng = np.random.default_rng(0)
    Y = rng.random((n, 4)) < 0.3
    X = (Y @ rng.normal(size=(4, 12)) + rng.normal(size=(n, 12))).astype(np.float32)
    labels = [None if k % 5 == 0 else [f"l{j}" for j in np.flatnonzero(row)] for k, row in enumerate(Y)]
    table = pa.table(
        {
            "id": [f"i{k:05d}" for k in range(n)],
            "features": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 12),
            "labels": pa.array(labels, pa.list_(pa.string())),
        }
    )
    pq.write_table(table, path, row_group_size=100)
    return path


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("many") / "items.parquet")


def test_lists_of_texts_in_several_row_groups_are_read(items: Path, tmp_path: Path) -> None:
    found = open_source(SourceOptions(path=str(items)), tmp_path).read(tmp_path)
    one = pq.read_table(items)
    single = tmp_path / "one.parquet"
    pq.write_table(one, single)
    same = open_source(SourceOptions(path=str(single)), tmp_path).read(tmp_path)
    assert found.label_names == same.label_names == ["l0", "l1", "l2", "l3"]
    assert (found.labels == same.labels).all()
    assert (found.parts[0].X == same.parts[0].X).all()


@pytest.mark.slow
def test_the_graph_is_planned_only_if_a_method_uses_it(items: Path, tmp_path: Path) -> None:
    plain = run_locally(items, tmp_path, "embedding.methods=mlda")
    assert "affinity" not in plain.outcomes
    assert "evaluation[mlda]" in plain.outcomes
    assert "affinity" in run_locally(items, tmp_path, "embedding.methods=multilabel_dle").outcomes


@pytest.mark.slow
def test_beyond_the_exact_sizes_an_index_samples_and_landmarks_are_used(items: Path, tmp_path: Path) -> None:
    few = run_locally(items, tmp_path)
    assert "evaluation[svm]" in few.outcomes
    many = run_locally(items, tmp_path, *MANY)
    store = many.workspace.store
    assert {"evaluation[nystrom_svm]", "evaluation[least_squares_svm]"} <= many.computed
    assert "evaluation[svm]" not in many.outcomes
    assert "model[nystrom_svm]" in many.computed
    assert "model[1nn]" not in many.outcomes, "a copy of the features"
    graph = many.products.ref("affinity")
    assert graph is not None
    assert 0.99 <= float(read_metadata(store.read(graph)).get("recall", "1")) <= 1


@pytest.mark.slow
def test_a_sample_of_test_items_is_stated_with_its_error(items: Path, tmp_path: Path) -> None:
    all_tested = run_locally(items, tmp_path, "embedding.methods=mlda", "evaluation.baselines=['1nn']")
    assert sampling_note(all_tested.workspace.store, all_tested.products.scores.values(), "macro_f1") == ""
    run = run_locally(items, tmp_path, "embedding.methods=mlda", "evaluation.baselines=['1nn']", *MANY)
    store, scores = run.workspace.store, run.products.scores
    note = sampling_note(store, scores.values(), "macro_f1")
    assert note.startswith("each fold tests a stratified sample of 94 of its 187 items; standard error of")
    ref = scores["mlda"]
    assert ref is not None
    errors = json.loads(store.details(ref)["metadata"]["sampled"])["errors"]
    assert all(0 < errors[name] < 0.1 for name in ("macro_f1", "lrap", "hamming_loss"))
    known = all_tested.products.scores["mlda"]
    assert known is not None
    for metric in ("macro_f1", "hamming_loss"):
        means = [
            np.mean([row.value for row in load_scores(store, one) if row.metric == metric])
            for one in (ref, known)
        ]
        assert abs(means[0] - means[1]) < 5 * errors[metric]


@pytest.mark.slow
def test_the_table_of_a_run_says_that_it_tested_a_sample(
    items: Path, tmp_path: Path, command: "pytest.FixtureRequest"
) -> None:
    settings = [f"--set={one}" for one in (*MANY, "tracking.enabled=false", "evaluation.baselines=['1nn']")]
    answer: Answer = command("run", items, "--methods", "mlda", "--home", tmp_path / "home", *settings)  # type: ignore[operator]
    assert answer.code == 0, answer.err
    assert "stratified sample of 56 of its 112" in " ".join(answer.out.split())


@pytest.mark.slow
def test_large_features_are_fitted_one_fold_at_a_time(
    items: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = run_locally(items, tmp_path / "a", "embedding.methods=mlda", "executor=threads:2")
    monkeypatch.setattr(folds, "_MOST_SHARED", 0)
    monkeypatch.setattr(folds.ThreadExecutor, "map", lambda *given, **more: pytest.fail("used threads"))
    many = run_locally(items, tmp_path / "b", "embedding.methods=mlda", "executor=threads:2")
    first, second = few.products.scores["mlda"], many.products.scores["mlda"]
    assert first is not None
    assert second is not None
    assert first.digest == second.digest


@pytest.mark.slow
def test_a_method_that_takes_more_than_an_hour_needs_a_yes(
    items: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = local_config(items, tmp_path, "embedding.methods=['svm']", *MANY)
    monkeypatch.setattr(time_estimates, "LONGEST_SECONDS", 0.0)
    until = StageSelection(until="evaluation")
    with pytest.raises(ConfigError, match=r"svm: about .* expected \(its time grows as n\^2\)\. Add --yes"):
        Run(TrainingPlan(config, confirmed=False), until).run_stages()
    run = run_training(config, until="evaluation")
    assert run.products.scores["svm"] is not None
    # nothing is left to compute, so nothing is asked
    Run(TrainingPlan(config, confirmed=False), until).run_stages()


def test_the_expected_time_grows_with_the_power_of_the_method() -> None:
    from embedding_core.registry import get_method

    assert (get_method("svm").growth, get_method("sle").growth) == (2, 3)
    assert (get_method("mlda").growth, get_method("kernel_dle").growth, get_method("knn_zscore").growth) == (
        1,
        1,
        1,
    )
