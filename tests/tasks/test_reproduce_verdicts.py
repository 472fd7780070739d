"""Rows of experiments: means beside printed numbers, verdicts, captions and claims."""

import io
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from embedding_core.protocols.semi_supervised import CEILING, READINGS
from embedding_core.protocols.trial import Arm
from storage.artifacts.schemas import TrialCell
from tasks.reproduce import comparison
from tasks.reproduce.comparison import (
    CEILING_TITLE,
    Row,
    compare,
    count_impossible,
    count_verdicts,
    judge_cell,
    verdict_line,
)
from tasks.reproduce.dle import FIG2, TABLE3, TABLE4
from tasks.reproduce.mlda import TABLE1
from tasks.reproduce.page import cells_parquet, comparison_table, markdown_page
from tasks.reproduce.provenance import Provenance
from tests.tasks.test_reproduce import TINY


@pytest.mark.parametrize(
    ("paper", "mean", "metric", "verdict"),
    [
        (0.60, 0.60, "accuracy", "reproduced"),
        (0.60, 0.62, "accuracy", "reproduced"),
        (0.60, 0.58, "accuracy", "reproduced"),
        (0.60, 0.6201, "accuracy", "better"),
        (0.60, 0.5799, "accuracy", "worse"),
        (0.60, 0.65, "error", "worse"),
        (0.60, 0.55, "hamming_loss", "better"),
    ],
)
def test_verdict_is_two_points_either_way(paper, mean, metric, verdict):
    assert judge_cell(paper, mean, metric) == verdict


def cells(condition, values, preprocessing="raw"):
    return [
        TrialCell(condition, preprocessing, "accuracy", number, value) for number, value in enumerate(values)
    ]


def test_rows_have_means_spreads_and_baselines():
    experiment = replace(TINY, datasets=("iris",))
    measured = {
        ("iris", "LPP"): cells("", [0.60, 0.64]) + cells("", [0.7, 0.7], "zscore"),
        ("iris", "DLE"): cells("", [0.9, 0.9]),
        ("iris", "1NN"): cells("", [0.5]) + cells("", [0.7, 0.9], "zscore"),
        ("iris", "scaled SVM"): cells("", [0.4], "zscore"),
    }
    raw, scaled, dle, *rest = compare(experiment, measured)
    assert (raw.mean, raw.trials) == (pytest.approx(0.62), 2)
    assert raw.spread == pytest.approx(0.0283, abs=1e-4)
    assert raw.baselines == {"1NN": 0.5, "scaled SVM": 0.4}
    assert scaled.baselines == {"1NN": pytest.approx(0.8), "scaled SVM": 0.4}
    assert (raw.baseline_spreads, scaled.baseline_spreads) == ({}, {"1NN": pytest.approx(0.02**0.5)})
    assert (raw.paper, raw.verdict, raw.primary) == (pytest.approx(0.632), "reproduced", True)
    assert (scaled.verdict, scaled.primary) == ("better", False)
    assert dle.verdict == "better"
    protein = [row for row in rest if row.dataset == "protein"]
    assert len(protein) == 7
    assert {row.verdict for row in protein} == {"not comparable"}
    assert all(row.reason and row.mean is None for row in protein)


def test_a_printed_number_above_the_ceiling_is_impossible_for_neighbors_alone():
    arms = (
        Arm("DLE", "dle"),
        Arm("CF", "local_global_consistency"),
        Arm(CEILING_TITLE, CEILING, role="baseline"),
    )
    experiment = replace(TABLE4, datasets=("soybean",), arms=arms)
    more = READINGS["more"]
    measured = {
        ("soybean", "DLE"): cells(more, [0.5]) + cells(READINGS["within"], [0.85]),
        ("soybean", "CF"): cells(more, [0.362]),
        ("soybean", CEILING_TITLE): cells(more, [0.3]) + cells(READINGS["within"], [0.95]),
    }
    impossible, possible, graph, *rest = rows = compare(experiment, measured)
    assert impossible.verdict == "impossible"
    assert "0.300" in impossible.reason
    assert possible.verdict == graph.verdict == "not comparable"
    assert possible.reason.startswith("ambiguous: ")
    assert (impossible.primary, possible.primary) == (False, True)
    assert count_impossible(rows) == 1
    assert "; 1 of them impossible under one reading of the paper's words" in verdict_line(experiment, rows)
    counted = count_verdicts([replace(impossible, primary=True), *rest])
    assert counted["not comparable"] == 1 + 5  # and protein's


@pytest.mark.parametrize(("dataset", "verdict"), [("wine", "worse"), ("soybean", "not comparable")])
def test_an_ambiguous_number_is_shown_and_not_comparable(dataset, verdict):
    experiment = replace(TINY, datasets=(dataset,), arms=(Arm("DLE", "dle"),))
    row = compare(experiment, {(dataset, "DLE"): cells("", [0.5])})[0]
    assert (row.verdict, row.mean) == (verdict, 0.5)
    assert row.paper > 0.8
    assert row.reason.startswith("ambiguous: ") == (dataset == "soybean")


def test_a_sample_of_the_rows_is_not_comparable():
    experiment = replace(TINY, datasets=("iris",), arms=TINY.arms[:1], quick={"trials": 1, "rows": 50})
    measured = {("iris", "LPP"): cells("", [0.632])}
    assert compare(experiment, measured)[0].verdict == "reproduced"
    sampled = compare(experiment, measured, quick=True)[0]
    assert (sampled.verdict, sampled.mean) == ("not comparable", 0.632)
    assert "50 rows" in sampled.reason


def test_a_sample_is_described_in_words():
    assert FIG2.sample("pie", quick=True) == "30 images of each person"
    assert FIG2.sample("pie", quick=False) == FIG2.sample("yale", quick=True) == ""
    assert TABLE1.sample("yahoo", quick=True) == "500 rows"


def test_printed_numbers_of_sets_that_are_not_in_a_run_are_reported_and_not_counted():
    rows = compare(replace(TINY, datasets=()), {})
    assert len(rows) == 42
    reported = {row.dataset: row.verdict for row in rows}
    assert reported.pop("protein") == "not comparable"
    assert set(reported.values()) == {"not in this run"}
    assert sum(count_verdicts(rows).values()) == 7  # of protein, which is not available
    assert "of 7 printed cells (raw): " in verdict_line(TINY, rows)
    assert "35 printed cells belong to data sets that are not in this run" in verdict_line(TINY, rows)
    assert verdict_line(TINY, [row for row in rows if row.dataset == "iris"]).startswith("7 printed cells")


def test_the_verdicts_of_a_quick_run_say_so():
    row = Row("iris", "DLE", "", "raw", "accuracy", 0.5, 0.5, trials=2, verdict="reproduced", primary=True)
    once = replace(row, condition="measured in the first trial alone", trials=1)
    assert verdict_line(TINY, [row, once]).startswith("quick, 2 of 3 trials: of 2 printed cells")
    assert verdict_line(TINY, [replace(row, trials=3), once]).startswith("of 2 printed cells")
    two = [replace(row, trials=1), replace(row, dataset="wine")]
    assert verdict_line(TINY, two).startswith("quick, 1 of 3 or 2 of 3 trials: ")


def test_verdicts_are_counted_only_under_the_papers_protocol():
    row = Row("iris", "DLE", "", "raw", "accuracy", 0.5, 0.5, verdict="reproduced", primary=True)
    rows = [row, replace(row, primary=False), replace(row, verdict="worse"), replace(row, paper=None)]
    assert count_verdicts(rows) == {"reproduced": 1, "better": 0, "worse": 1, "not comparable": 0}


def test_quick_settings_replace_full_ones_by_set():
    experiment = replace(TINY, overrides={"wine": {"labeled": 0.5}}, quick_overrides={"wine": {"trials": 1}})
    assert experiment.settings("iris", quick=False)["trials"] == 3
    assert experiment.settings("iris", quick=True)["trials"] == 2
    assert experiment.settings("wine", quick=True) == {**TINY.full, "trials": 1, "labeled": 0.5}


def test_a_set_may_have_its_own_graph():
    experiment = replace(TABLE3, own_graph={"wine": {"graph": "knn"}})
    by_title = {arm.title: arm for arm in experiment.arms_on("wine")}
    assert by_title["DLE"].params["graph"] == "knn"
    assert "graph" not in by_title["1NN"].params
    assert {arm.title: arm for arm in experiment.arms_on("iris")}["DLE"].params["graph"] == "gaussian"


def test_the_caption_states_what_all_rows_share():
    rows = [Row("iris", name, "clean", "raw", "accuracy", 0.5, 0.5, 0.1, 3) for name in ("LPP", "DLE")]
    table = comparison_table(TINY, rows)
    assert table.header == ("data", "method", "paper", "ours", "1NN", "scaled SVM", "verdict", "why")
    assert "preprocessing raw" in table.caption and "over 3 trials" in table.caption
    assert "dle-table3: Table 3" in markdown_page(TINY, False, "labelscape", rows, ["curves.png"], {})
    cells = pq.read_table(io.BytesIO(cells_parquet(TINY, False, rows, {})))
    assert cells["method"].to_pylist() == ["LPP", "DLE"]


def test_a_claim_is_marked_and_has_the_data_of_its_set():
    row = Row("iris", "DLE > LPP", "", "raw", "accuracy_lead", mean=0.1, trials=3, claim=True)
    made = {("iris", "DLE"): Provenance("f", "l", "{}", 7, "c", "1.0")}
    (cell,) = pq.read_table(io.BytesIO(cells_parquet(TINY, False, [row], made))).to_pylist()
    assert (cell["claim"], cell["quick"], cell["seed"], cell["features"]) == (True, False, 7, "f")


def test_verdict_words_are_defined_in_one_place():
    uncounted = {comparison.UNPUBLISHED, comparison.NOT_RUN, comparison.IMPOSSIBLE}
    assert set(count_verdicts([])) == set(comparison.VERDICTS) - uncounted
