"""Rows of tracked runs: classifiers apart, filtered, grouped; the difference of two runs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from storage.errors import ConfigError
from storage.tracking.models import ComparedRun
from tasks.comparison import (
    MethodRow,
    as_cells,
    check_columns,
    comparison_table,
    group_records,
    group_table,
    make_rows,
    newest_of_each,
    parse_conditions,
    parse_day,
    select_rows,
    sort_rows,
    varying_settings,
)
from tasks.run_difference import Change, compare_runs, pick_pair, score_table
from tasks.stages.tracking import BASELINE_TAG

SETTINGS = {"affinity.n_neighbors": "10", "evaluation.folds": "3", "evaluation.seed": "1"}
TAGS = {"labelscape.digest.manifest": "m", "labelscape.code.features": "c", "labelscape.settings": "s"}


def run(name: str = "r1", method: str = "mlda", f1: float = 0.5, day: int = 1, **given: Any) -> ComparedRun:
    settings = {**SETTINGS, **given.pop("settings", {})}
    known: dict[str, Any] = {
        "run_id": f"{name}-{method}",
        "parent_id": f"{name}0000000",
        "run_name": name,
        "method": method,
        "title": method.upper(),
        "classifier": "1nn",
        "metrics": {"macro_f1": f1, "10nn/macro_f1": f1 + 0.1, "hamming_loss": 1 - f1},
        "metrics_std": {"macro_f1": 0.01, "10nn/macro_f1": 0.02},
        "params": settings,
        "tags": {},
        "run_tags": TAGS,
        "run_params": settings,
        "started": datetime(2026, 11, day, tzinfo=UTC),
    }
    return ComparedRun(**(known | given))


def test_each_classifier_has_its_row() -> None:
    first, second = make_rows([run()])
    assert (first.classifier, dict(first.metrics)) == ("1nn", {"macro_f1": 0.5, "hamming_loss": 0.5})
    assert (second.classifier, dict(second.metrics)) == ("10nn", {"macro_f1": 0.6})
    assert (first.title, second.title) == ("MLDA, 1NN", "MLDA, 10NN")
    assert second.text("macro_f1") == "0.600 ± 0.020"


def test_a_metric_with_a_slash_that_is_no_metric_of_ours_is_kept() -> None:
    (row,) = make_rows([run(metrics={"scene/f1": 0.5}, metrics_std={})])
    assert dict(row.metrics) == {"scene/f1": 0.5}


def test_sorted_best_first_and_rows_without_the_metric_last() -> None:
    rows = make_rows([run(f1=0.4), run("r2", f1=0.7)])
    assert [row.metrics["macro_f1"] for row in sort_rows(rows, "macro_f1")] == pytest.approx(
        [0.8, 0.7, 0.5, 0.4]
    )
    assert [row.run.run_name for row in sort_rows(rows, "hamming_loss")[:2]] == ["r2", "r1"]
    assert [row.classifier for row in sort_rows(rows, "hamming_loss")[2:]] == ["10nn", "10nn"]


def test_of_identical_scores_the_newest_run_is_kept_with_all_classifiers() -> None:
    same = {"labelscape.digest.scores": "d"}
    rows = make_rows([run(tags=same), run("r2", day=2, tags=same), run("r3", day=3)])
    assert [(row.run.run_name, row.classifier) for row in newest_of_each(rows)] == [
        ("r2", "1nn"),
        ("r2", "10nn"),
        ("r3", "1nn"),
        ("r3", "10nn"),
    ]


class TestSelecting:
    rows = make_rows([run(), run("r2", "dle", day=2, settings={"affinity.n_neighbors": "15"})])

    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
            (["method=dle"], {"r2"}),
            (["affinity.n_neighbors=10.0"], {"r1"}),
            (["classifier=10nn"], {"r1", "r2"}),
            (["method=mlda", "affinity.n_neighbors=15"], set()),
            ([], {"r1", "r2"}),
        ],
    )
    def test_by_settings(self, conditions: list[str], expected: set[str]) -> None:
        found = select_rows(self.rows, parse_conditions(conditions))
        assert {row.run.run_name for row in found} == expected

    def test_by_day(self) -> None:
        day = parse_day("2026-11-02", "--after")
        assert {row.run.run_name for row in select_rows(self.rows, {}, day)} == {"r2"}
        assert {row.run.run_name for row in select_rows(self.rows, {}, None, day)} == {"r1"}

    def test_what_cannot_be_read(self) -> None:
        with pytest.raises(ConfigError, match="KEY=VALUE"):
            parse_conditions(["mlda"])
        with pytest.raises(ConfigError, match="--after soon: give a day such as"):
            parse_day("soon", "--after")
        with pytest.raises(ConfigError, match=r"did you mean affinity\.n_neighbors\?"):
            check_columns(["n_neighbors"], self.rows, "--columns")
        with pytest.raises(ConfigError, match=r"changes, data, affinity\.n_neighbors, or another setting"):
            check_columns(["k"], self.rows, "--where")

    def test_settings_that_vary(self) -> None:
        assert varying_settings(self.rows) == ["affinity.n_neighbors"]


def test_the_best_of_each_value() -> None:
    rows = make_rows([run(f1=0.3), run("r2", f1=0.7, settings={"affinity.n_neighbors": "15"})])
    table = group_table(sort_rows(rows, "macro_f1"), "affinity.n_neighbors", "macro_f1")
    assert [row[:4] for row in table.rows] == [
        ("15", "2", "MLDA, 10NN", "0.800 ± 0.020"),
        ("10", "2", "MLDA, 10NN", "0.400 ± 0.020"),
    ]


def test_groups_as_data_have_numbers_in_full() -> None:
    rows = make_rows([run(f1=1 / 3), run("r2", f1=0.7)])
    best, other = group_records(sort_rows(rows, "macro_f1"), "run", "macro_f1")
    assert (best["run"], best["results"], best["classifier"]) == ("r2000000", 2, "10nn")
    assert (other["macro_f1"], other["macro_f1_std"]) == (1 / 3 + 0.1, 0.02)
    table = group_table(sort_rows(rows, "macro_f1"), "run", "macro_f1")
    assert table.header == ("run", "results", "best", "macro F1 ↑")


def test_baselines_do_not_hide_what_a_setting_does() -> None:
    plain = run("r1", "svm", f1=0.8, tags={BASELINE_TAG: "true"})
    rows = sort_rows(make_rows([run("r1", f1=0.3), plain]), "macro_f1")
    (best,) = (table := group_table(rows, "affinity.n_neighbors", "macro_f1")).rows
    assert best[:3] == ("10", "2", "MLDA, 10NN")
    assert table.caption.endswith("without plain baselines")
    by_method = group_table(rows, "method", "macro_f1")
    assert [row[0] for row in by_method.rows] == ["svm", "mlda"]


@pytest.mark.parametrize(
    ("name", "settings", "shown"),
    [
        ("photos", {}, "defaults"),
        ("photos · mlda", {"embedding.methods": '["mlda"]'}, "defaults"),
        ("photos · mlda+dle · hsv · n_neighbors=15", {"embedding.methods": '["mlda", "dle"]'},
         "hsv · n_neighbors=15"),
        ("photos · 4 methods · hsv", {"embedding.methods": '["a", "b", "c", "d"]'}, "hsv"),
        ("photos · auto", {}, "auto"),
        ("my · own", {"name": "my · own"}, "my · own"),
    ],
)  # fmt: skip
def test_what_differs_does_not_repeat_source_and_methods(
    name: str, settings: dict[str, str], shown: str
) -> None:
    (row, _) = make_rows([run(name, settings=settings)])
    assert row.text("differs") == shown


def test_chosen_columns() -> None:
    table = comparison_table(make_rows([run()]), "macro_f1", ["macro_f1", "affinity.n_neighbors", "run"])
    assert table.header == ("method", "macro F1 ↑", "affinity.n_neighbors", "run")
    assert table.rows[0] == ("MLDA, 1NN", "0.500 ± 0.010", "10", "r1000000")
    hidden = comparison_table(make_rows([run()]), "macro_f1", ["macro_f1"], hidden=1).caption
    assert hidden.endswith("; 1 result of older runs with the same scores left out (--all)")


def test_scores_on_other_data_are_marked() -> None:
    other = {**TAGS, "labelscape.digest.manifest": "n"}
    chosen = {"labelscape.digest.labels": "l", "labelscape.digest.ingest": "n"}  # as `auto` has them
    runs = [run(f1=0.7), run("r2", day=3, run_tags=other), run("r3", "svm", day=2, run_tags=chosen)]
    rows = [row for row in make_rows(runs) if row.classifier == "1nn"]
    table = comparison_table(rows, "macro_f1", ["macro_f1", "data"])
    assert [(row[0], row[2]) for row in table.rows] == [
        ("MLDA, 1NN *", "m"),
        ("MLDA, 1NN", "n"),
        ("SVM, 1NN", "n"),
    ]
    assert table.caption.endswith("; *: other items or labels than in the newest run")
    groups = group_table(sort_rows(rows, "macro_f1"), "run", "macro_f1")
    assert [row[2] for row in groups.rows][:1] == ["MLDA, 1NN *"]
    assert "*" not in comparison_table(rows[1:], "macro_f1", ["macro_f1"]).caption


def test_csv_has_numbers_in_full() -> None:
    header, first, _ = as_cells(make_rows([run(f1=1 / 3)]), ["macro_f1", "run"])
    assert header == ["method", "classifier", "baseline", "macro_f1", "macro_f1_std", "run"]
    assert first[:5] == ["mlda", "1nn", False, 1 / 3, 0.01]


class TestDifference:
    def compare(self, **given: Any) -> Any:
        folds = {"r1": {0: 0.5, 1: 0.6, 2: 0.7}, "r2": {0: 0.6, 1: 0.71, 2: 0.8}}

        def fold_scores(row: MethodRow, metric: str) -> dict[int, float]:
            return folds[row.run.run_name]

        metric = given.pop("metric", "macro_f1")
        return compare_runs(make_rows([run()]), make_rows([run("r2", **given)]), metric, fold_scores)

    def test_equal_runs(self) -> None:
        found = self.compare()
        assert (found.settings, found.data, found.code, found.versions) == ([], [], [], [])
        assert found.same_folds
        lead = found.scores[0].lead
        assert lead.mean == pytest.approx(0.31 / 3)
        assert lead.beyond_noise
        best, *_ = score_table(found).rows
        assert (best[0], best[3:]) == ("MLDA, 10NN", ("+0.103 better", "0.015"))  # best first

    def test_a_loss_beyond_noise_is_named(self) -> None:
        found = self.compare(metric="hamming_loss")
        row = next(row for row in score_table(found).rows if row[0] == "MLDA, 1NN")
        assert row[3:] == ("+0.103 worse", "0.015")  # a larger loss is worse

    def test_changed_settings_code_and_data(self) -> None:
        tags = {**TAGS, "labelscape.digest.manifest": "n", "labelscape.code.features": "d"}
        found = self.compare(settings={"affinity.n_neighbors": "15"}, run_tags=tags)
        assert [(one.name, one.first, one.second) for one in found.settings] == [
            ("affinity.n_neighbors", "10", "15")
        ]
        assert [one.name for one in found.code] == ["features"]
        assert [one.name for one in found.data] == ["manifest"]
        assert not found.same_folds
        assert found.scores[0].lead is None

    def test_other_folds_are_not_compared_fold_by_fold(self) -> None:
        found = self.compare(settings={"evaluation.folds": "5"})
        assert found.scores[0].lead is None
        assert "cannot be compared fold by fold" in score_table(found).caption

    def test_methods_of_one_run_only(self) -> None:
        found = self.compare(method="dle")
        assert (found.only_first, found.only_second) == (
            ["MLDA, 1NN", "MLDA, 10NN"],
            ["DLE, 1NN", "DLE, 10NN"],
        )


def test_narrow_tables_keep_what_tells_runs_apart() -> None:
    """At 80 columns two runs of one method do not look alike."""
    from flows.table_layout import lay_out_table

    runs = [run("photos · n_neighbors=5"), run("photos · n_neighbors=15", f1=0.4)]
    columns = ["macro_f1", "differs", "run", "micro_f1", "lrap", "hamming_loss", "started"]
    table = comparison_table(make_rows(runs), "macro_f1", columns)
    shown = [table.header[place] for place in lay_out_table(table, 80).columns]
    assert shown[:3] == ["method", "macro F1 ↑", "what differs"]
    assert [row[2] for row in table.rows][::2] == ["n_neighbors=5", "n_neighbors=15"]


def test_the_default_difference_is_of_two_runs_of_one_kind() -> None:
    def rows(name: str, auto: bool = False) -> list[MethodRow]:
        return make_rows([run(name, run_params={**SETTINGS, **({"auto.candidates": "[]"} if auto else {})})])

    newest, trained, chosen = rows("a3", auto=True), rows("r2"), rows("a1", auto=True)
    assert pick_pair([newest, trained, chosen]) == (chosen, newest)
    assert pick_pair([newest, trained]) == (trained, newest)
    before = rows("r0")
    assert pick_pair([newest, trained, before]) == (before, trained)
    assert pick_pair([newest]) is None


def test_digests_are_shown_by_their_beginning() -> None:
    assert Change("ingest", "0123456789ab" * 4, "f" * 64).text == "ingest: 0123456789ab → ffffffffffff"
    assert Change("evaluation.folds", "5", "3").text == "evaluation.folds: 5 → 3"
