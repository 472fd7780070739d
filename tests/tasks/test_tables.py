"""Score tables, their Markdown and CSV, and the verdict on the best method."""

import csv
import io

import numpy as np
import pytest

from storage.errors import ConfigError
from tasks.report.data import ScoreRow
from tasks.report.ranking import format_score, judge, rank_entries
from tasks.report.score_table import score_table
from tasks.report.tables import (
    Table,
    display_width,
    notes_csv,
    render_markdown,
    scores_csv,
    shorten,
)
from tasks.safe_text import printable


def rows(
    method: str, values: list[float], metric: str = "macro_f1", classifier: str = "1nn"
) -> list[ScoreRow]:
    return [(method, classifier, fold, metric, value) for fold, value in enumerate(values)]


def test_mean_and_spread_over_folds() -> None:
    values = [0.5, 0.6, 0.75]
    table = score_table(rows("mlda", values))
    assert table.rows == (("mlda, 1NN", f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"),)
    assert "3 folds" in table.caption


def test_best_comes_first_and_its_cells_are_known() -> None:
    scores = rows("a", [0.5, 0.5]) + rows("b", [0.7, 0.7]) + rows("c", [0.6, 0.6])
    scores += rows("a", [0.1, 0.1], "hamming_loss") + rows("b", [0.3, 0.3], "hamming_loss")
    table = score_table(scores)
    assert [row[0] for row in table.rows] == ["b, 1NN", "c, 1NN", "a, 1NN"]
    assert table.header == ("method", "macro F1 ↑", "Hamming loss ↓")
    assert table.best == {(0, 1), (2, 2)}
    assert table.rows[1][2] == "–"


def test_a_loss_is_sorted_upwards_and_missing_scores_last() -> None:
    scores = rows("a", [0.3], "hamming_loss") + rows("b", [0.1], "hamming_loss") + rows("c", [0.9])
    assert [entry.method for entry in rank_entries(scores, "hamming_loss")] == ["b", "a", "c"]


def test_order_does_not_depend_on_the_order_of_the_rows() -> None:
    scores = rows("b", [0.5, 0.5]) + rows("a", [0.5, 0.5]) + rows("a", [0.5, 0.5], classifier="10nn")
    assert score_table(scores).rows == score_table(scores[::-1]).rows


def test_values_that_are_not_finite_are_never_shown() -> None:
    table = score_table(rows("a", [float("nan"), 0.5]) + rows("b", [float("nan")]))
    assert table.rows == (("a, 1NN", "0.500"), ("b, 1NN", "–"))


def test_an_unknown_sort_metric_is_rejected_with_the_available_ones() -> None:
    with pytest.raises(ConfigError, match=r"'macro_f2'.*macro_f1.*Did you mean 'macro_f1'"):
        score_table(rows("a", [0.5]), sort_by="macro_f2")


def test_no_scores_give_an_empty_table() -> None:
    table = score_table([])
    assert table.rows == ()


def test_a_classifier_that_is_the_method_is_not_repeated() -> None:
    table = score_table(rows("svm", [0.5], classifier="svm"), titles={"svm": "SVM"}, baselines={"svm"})
    assert table.rows[0][0] == "SVM (baseline)"
    assert table.marked == {0}


@pytest.mark.parametrize("width", [2, 5, 11, 30])
@pytest.mark.parametrize("text", ["a" * 40, "日本語" * 20, "e\u0301" * 40])
def test_shortened_text_fits_and_shows_the_cut(text: str, width: int) -> None:
    short = shorten(text, width)
    assert display_width(short) <= width
    assert "…" in short


def test_undecodable_bytes_are_replaced_and_joiners_are_kept() -> None:
    assert printable("bad\udcff").encode() == "bad\ufffd".encode()
    assert printable("👩\u200d🌾") == "👩\u200d🌾"


def test_markdown_escapes_names_and_marks_the_best() -> None:
    table = Table(("method", "x"), (("a|b*c_$d$<i>", "1.0"),), "caption", frozenset({(0, 1)}))
    assert render_markdown(table) == (
        "| method | x |\n|---|---:|\n| a\\|b\\*c\\_\\$d\\$\\<i\\> | **1.0** |\n\ncaption.\n"
    )


def test_csv_keeps_every_score_to_the_last_digit() -> None:
    scores = rows('a "quoted", name', [1 / 3, 0.1 + 0.2])
    read = list(csv.reader(io.StringIO(scores_csv(scores))))
    assert [(m, c, int(f), k, float(v)) for m, c, f, k, v in read[1:]] == scores
    assert notes_csv([("a,b.jpg", None, "x"), ("l.csv", 3, "y")]) == (
        'file,row,message\n"a,b.jpg",,x\nl.csv,3,y\n'
    )


def test_format_score() -> None:
    assert format_score(0.6012, 0.0209) == "0.601 ± 0.021"
    assert format_score(0.6) == "0.600"
    assert format_score(None) == "–"


BASE = rows("svm", [0.60, 0.62, 0.58], classifier="svm")


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        (
            [0.70, 0.73, 0.69],
            "ahead",
            "beats the best plain baseline, svm (0.600 ± 0.020), in macro F1 on 3 of 3",
        ),
        ([0.50, 0.53, 0.49], "behind", "No method beats the plain baselines here: svm"),
        ([0.64, 0.60, 0.58], "level", "cannot be distinguished"),
        ([0.60, 0.62, 0.58], "level", "0.000 ± 0.000"),
    ],
)
def test_verdict_follows_the_numbers(values: list[float], kind: str, words: str) -> None:
    verdict = judge(rows("mlda", values) + BASE, "macro_f1", {"svm"})
    assert verdict.kind == kind
    assert words in verdict.text


def test_verdict_compares_fold_by_fold() -> None:
    # The folds differ much more than the methods, but the lead is the same on each fold.
    base = rows("svm", [0.3, 0.6, 0.9], classifier="svm")
    verdict = judge(rows("mlda", [0.35, 0.66, 0.94]) + base, "macro_f1", {"svm"})
    assert verdict.kind == "ahead"
    assert "0.050 ± 0.010" in verdict.text


def test_verdict_on_a_loss_counts_downwards() -> None:
    scores = rows("mlda", [0.1, 0.11], "hamming_loss") + rows("svm", [0.2, 0.22], "hamming_loss")
    assert judge(scores, "hamming_loss", {"svm"}).kind == "ahead"


def test_verdict_says_when_the_best_was_picked_among_several() -> None:
    winner = rows("mlda", [0.70, 0.73, 0.69])
    assert "best of" not in judge(winner + BASE, "macro_f1", {"svm"}).text
    assert "best of 2" in judge(winner + rows("dle", [0.1, 0.1, 0.1]) + BASE, "macro_f1", {"svm"}).text


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([], "no scores"),
        (BASE, "no method beside"),
        (rows("mlda", [0.5, 0.6]), "no plain baseline"),
        (rows("mlda", [0.9]) + rows("svm", [0.1]), "cannot be ranked"),
    ],
)
def test_no_verdict_without_enough_scores(scores: list[ScoreRow], words: str) -> None:
    verdict = judge(scores, "macro_f1", {"svm"})
    assert verdict.kind == "unknown"
    assert words in verdict.text
