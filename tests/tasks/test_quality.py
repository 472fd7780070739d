"""Scores of single labels, confusions, and the items to look at first."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from tasks.report.content import draw_report
from tasks.report.data import ShownCase
from tasks.report.judged import JudgedItems
from tasks.report.page import render_page
from tasks.report.quality import count_confusions, list_confusions, most_doubtful, most_wrong, score_labels
from tests.tasks.test_page import EVIL, Page, make


def judged(Y: np.ndarray, single: bool = False, seed: int = 0) -> JudgedItems:
    rng = np.random.default_rng(seed)
    scores = np.clip(np.where(Y == 1, 0.65, 0.3) + rng.normal(0, 0.25, Y.shape), 0, 1)
    decided = (scores > 0.5).astype(np.int8)
    if single:
        decided = np.eye(Y.shape[1], dtype=np.int8)[scores.argmax(axis=1)]
    return JudgedItems("mlda", "MLDA, 10NN", scores, decided, single)


def labels(n: int = 200, K: int = 4) -> np.ndarray:
    Y = (np.random.default_rng(1).random((n, K)) < 0.4).astype(np.int8)
    Y[::5] = -1
    return Y


def test_scores_of_labels_equal_those_of_scikit_learn() -> None:
    Y, names = labels(), list("abcd")
    found = judged(Y)
    known = (Y >= 0).all(axis=1)
    wanted = precision_recall_fscore_support(Y[known], found.decided[known], zero_division=np.nan)
    rows = score_labels(Y, found, names)
    assert [row.f1 for row in rows] == sorted(row.f1 for row in rows)
    for row in rows:
        k = names.index(row.name)
        assert row[1:5] == pytest.approx([one[k] for one in wanted])


def test_confusions_of_single_labels_are_the_confusion_matrix() -> None:
    Y = np.eye(4, dtype=np.int8)[np.random.default_rng(2).integers(0, 4, 150)]
    found = judged(Y, single=True)
    wanted = confusion_matrix(Y.argmax(axis=1), found.decided.argmax(axis=1))
    np.fill_diagonal(wanted, 0)
    np.testing.assert_array_equal(count_confusions(Y, found), wanted)
    counts = [int(row[2]) for row in list_confusions(Y, found, list("abcd"))]
    assert counts == sorted(wanted[wanted > 0].tolist(), reverse=True)[: len(counts)]


def test_the_most_doubtful_and_the_most_wrong_items() -> None:
    Y, names = labels(), list("abcd")
    found = judged(Y)
    found.scores[7], found.scores[8] = 0.9, 0.5
    Y[7], Y[8] = [1, 1, 0, 1], [1, 0, 0, 0]
    found.scores[7, 2], found.decided[7] = 1.0, 1
    assert most_doubtful(Y, found, names)[0] == (8, "in doubt: a, score 0.50")
    assert (7, "c: predicted, not given, score 1.00") in most_wrong(Y, found, names)
    assert not {one.row for one in most_wrong(Y, found, names)} & set(range(0, 200, 5))


def test_an_unlabeled_collection_of_rare_labels_has_dashes_and_no_errors() -> None:
    Y = np.zeros((6, 2), dtype=np.int8)
    found = JudgedItems("m", "M", np.zeros((6, 2)), np.zeros((6, 2), dtype=np.int8), False)
    assert all(np.isnan(row.f1) for row in score_labels(Y, found, ["a", "b"]))
    assert list_confusions(Y, found, ["a", "b"]) == []


@pytest.mark.slow
def test_the_page_shows_labels_confusions_and_cases_as_text() -> None:
    data = make(label_names=[EVIL, "b", "c"])
    cases = {"Most wrong": [ShownCase(EVIL, EVIL, [EVIL], b"\xff\xd8"), ShownCase("x", "why", [])]}
    data = make(label_names=[EVIL, "b", "c"], judged=judged(data.Y), cases=cases)
    page = Page(render_page(draw_report(data), map_page="map.html"))
    assert page.attributes("section", "id")[:3] == ["results", "labels", "cases"]
    assert "script" not in {tag for tag, _ in page.tags}
    assert "map.html" in page.attributes("a", "href")
    assert "none of the labels" in page.text
    assert "precision" in page.text
