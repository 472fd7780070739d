"""The published anchors as an experiment: printed values, verdicts, and a small run on real data."""

from dataclasses import replace

import pytest

from embedding_core.protocols.published_anchors import CHOSEN, DRAWS, FOLDS, SPLITS
from storage.artifacts.schemas import TrialCell
from storage.reference.published import published_cells
from tasks.reproduce.anchors import ANCHORS
from tasks.reproduce.catalog import get_experiment
from tasks.reproduce.comparison import compare, count_verdicts
from tests.tasks.test_reproduce import quiet_config, run_experiment

METRICS = ("hamming_loss", "micro_f1", "macro_f1", "lrap")


def test_every_candidate_is_of_known_members_and_each_is_an_arm():
    members = ANCHORS.full["methods"]
    assert {name for names in ANCHORS.full["candidates"] for name in names} == set(members)
    arms = {arm.title: [arm.method, dict(arm.params)] for arm in ANCHORS.arms}
    assert {name: arms[name] for name in members} == members
    assert ANCHORS.arms[1].method == CHOSEN
    assert get_experiment("published-anchors") is ANCHORS


def test_printed_values_are_those_of_two_protocols_on_two_sets():
    cells = published_cells(ANCHORS.name)
    printed = {(cell.dataset, cell.condition, cell.metric): cell.value for cell in cells}
    assert len(cells) == len(printed) == 14
    rows = {key[:2]: [printed.get((*key[:2], metric)) for metric in METRICS] for key in printed}
    assert rows == {
        ("scene_split", DRAWS): [0.077, 0.792, 0.800, 0.889],
        ("scene_split", FOLDS): [0.072, 0.780, None, 0.897],
        ("yeast", DRAWS): [0.193, 0.682, 0.483, 0.766],
        ("yeast", FOLDS): [0.190, 0.655, None, 0.775],
    }


def test_verdicts_follow_the_rule_of_the_papers():
    """Two points either way; a smaller Hamming loss is better; one rule for all metrics has no verdict."""
    arm = ANCHORS.arms[0]
    experiment = replace(ANCHORS, datasets=("yeast",), arms=(arm,))
    values = {"hamming_loss": 0.15, "micro_f1": 0.60, "macro_f1": 0.5, "lrap": 0.766}
    cells = [TrialCell(DRAWS, "zscore", metric, 0, value) for metric, value in values.items()]
    cells.append(TrialCell(f"{DRAWS}, one half", "zscore", "macro_f1", 0, 0.2))
    rows = compare(experiment, {("yeast", arm.title): cells})
    verdicts = {(row.condition, row.metric): row.verdict for row in rows if row.trials}
    assert [verdicts[DRAWS, metric] for metric in METRICS] == ["better", "worse", "reproduced", "reproduced"]
    assert verdicts[f"{DRAWS}, one half", "macro_f1"] == "not printed"
    assert not experiment.lists(f"{DRAWS}, one half") and experiment.lists(FOLDS)
    assert sum(count_verdicts(rows).values()) == 4


@pytest.mark.slow
def test_two_draws_and_two_folds_of_yeast(shared_data, tmp_path):
    members = {"Kernel DLE": ["kernel_dle", {"few_labels": False}], "ML-kNN": ["ml_knn", {}]}
    small = replace(
        ANCHORS,
        datasets=("yeast",),
        arms=tuple(arm for arm in ANCHORS.arms if arm.title in ("Kernel DLE", CHOSEN, "ML-kNN")),
        full={**ANCHORS.full, "trials": 2, "methods": members, "candidates": [["ML-kNN"], ["Kernel DLE"]]},
    )
    result = run_experiment(small, False, shared_data, quiet_config(tmp_path))
    rows = {(row.method, row.condition, row.metric): row for row in result.products.rows if row.trials}
    for split in SPLITS:
        row, chosen = (rows[method, split, "lrap"] for method in ("Kernel DLE", CHOSEN))
        assert row.verdict == "reproduced" and row.trials == 2
        assert row.mean == chosen.mean > row.baselines["ML-kNN"]
        assert chosen.paper is None
    assert "60/40 draws" in result.report.read_text(encoding="utf-8")
