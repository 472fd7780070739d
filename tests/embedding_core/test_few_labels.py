"""A few labeled rows of each class: the protocol of LPSSVM."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import euclidean_distances

from embedding_core.graph.affinity import build_gaussian_graph
from embedding_core.protocols import few_labels
from embedding_core.protocols.few_labels import choose_neighbors, condition_of, draw_labeled_rows, trial
from embedding_core.protocols.trial import Arm, predict
from storage.sources.toy_sets import draw_three_suns
from tasks.reproduce.margin import ARMS, TOY, UCI
from tests.trial_sets import blobs, shuffle_rows

SETTINGS = {"labeled": [4], "neighbors": [8, 20], "metric": "accuracy", "seed": 0}


LapSVM = replace(ARMS[1], params={**ARMS[1].params, "gamma_A": "auto"})  # a quarter of the search
FAST_ARMS = [ARMS[0], LapSVM, *ARMS[2:5], pytest.param(ARMS[5], marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("arm", FAST_ARMS, ids=lambda arm: arm.title)
def test_test_labels_change_no_answer_and_no_choice(arm):
    data = blobs(60)
    train, test = draw_labeled_rows(data.classes, 4, 0, 0)
    chosen = [
        choose_neighbors(arm, one, train, "zscore", (8, 20)) for one in (data, shuffle_rows(data, test))
    ]
    assert chosen[0] == chosen[1]
    answers = [predict(chosen[0], one, train, test, "zscore") for one in (data, shuffle_rows(data, test))]
    np.testing.assert_array_equal(*answers)


def test_trials_repeat_by_number_and_differ_otherwise():
    data, settings = blobs(60), {**SETTINGS, "labeled": [4, 6], "neighbors": [10]}
    first, again, other = (trial(data, ARMS[4], settings, "raw", number) for number in (0, 0, 1))
    assert first == again != other


def test_labeled_rows_are_as_many_of_each_class():
    classes = np.repeat([0, 1], [126, 225])
    for count in UCI.settings("ionosphere", quick=False)["labeled"]:
        train, test = draw_labeled_rows(classes, count, 0, 0)
        assert np.bincount(classes[train]).tolist() == [count, count]
        assert len(train) + len(test) == 351
    assert UCI.settings("sonar", quick=False)["trials"] == 20


def test_a_tenth_of_the_suns_is_17_rows_as_in_the_paper():
    names, classes = np.unique(draw_three_suns().classes, return_inverse=True)
    train, _ = draw_labeled_rows(classes, TOY.settings("three_suns", quick=False)["labeled"][0], 0, 0)
    assert dict(zip(names, np.bincount(classes[train]), strict=True)) == {"blue": 6, "cyan": 5, "red": 6}


def test_error_and_accuracy_add_up():
    data = blobs(60)
    right, wrong = (
        trial(data, ARMS[0], {**SETTINGS, "metric": metric}, "raw", 0)[0] for metric in ("accuracy", "error")
    )
    assert right.value + wrong.value == pytest.approx(1)
    assert (right.condition, wrong.metric) == ("N=4", "error")
    assert condition_of(0.1) == "10 % labeled"


def test_the_graph_is_chosen_by_held_out_labeled_rows(monkeypatch):
    """The best of the candidates wins, and all rows that are asked for are labeled ones."""
    data = blobs(60)
    train, _ = draw_labeled_rows(data.classes, 4, 0, 0)
    asked = []

    def answer(arm, seen, rest, held, preprocessing):
        asked.append((arm.params["n_neighbors"], arm.params.get("gamma_A"), {*rest, *held}))
        right = seen.Y[held]
        return right if arm.params["n_neighbors"] == 8 else 1 - right

    monkeypatch.setattr(few_labels, "predict", answer)
    chosen = choose_neighbors(ARMS[1], data, train, "raw", (3, 8))
    assert chosen.params["n_neighbors"] == 8
    assert chosen.params["gamma_A"] == "cv"
    assert {gamma for _, gamma, _ in asked} == {"auto"}
    assert set.union(*(rows for *_, rows in asked)) == set(train)
    assert len(asked) == 2 * few_labels.FOLDS


def test_what_is_given_is_not_chosen():
    data = blobs(60)
    train, _ = draw_labeled_rows(data.classes, 4, 0, 0)
    plain, given = Arm("SVM", "svm"), replace(ARMS[4], params={"n_neighbors": 7})
    assert choose_neighbors(plain, data, train, "raw", (3, 8)) is plain
    assert choose_neighbors(given, data, train, "raw", (3, 8)) is given
    assert choose_neighbors(ARMS[4], data, train, "raw", (9,)).params["n_neighbors"] == 9


def test_the_graph_of_the_toy_is_the_gram_matrix_of_its_kernel():
    """The caption of Fig. 2; the width of the kernel is 1 / p."""
    X = draw_three_suns().X
    arms = {arm.title: arm for arm in TOY.arms_on("three_suns")}
    gram = np.exp(-euclidean_distances(X, squared=True) / X.shape[1])
    np.fill_diagonal(gram, 0.0)  # an item is not linked with itself
    for title in ("LapSVM", "LapRLS", "LPP+SVM", "LPSSVM"):
        params = arms[title].params
        assert params["graph"] == "gaussian"
        np.testing.assert_allclose(build_gaussian_graph(X, params["sigma"]), gram, atol=1e-5)
        assert choose_neighbors(arms[title], blobs(60), np.arange(9), "raw", (5, 10)) is arms[title]
    assert arms["LPSSVM, kNN graph"].params["graph"] == "kernel"
