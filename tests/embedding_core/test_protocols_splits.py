"""Protocols of splits and of few labels: what is hidden, what is tuned where, what is drawn."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from embedding_core import InvalidInput, KernelDLEClassifier
from embedding_core.classifiers.baselines import ScaledSVM, TunedSVM
from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.protocols import few_labels, tuned_split
from embedding_core.protocols.few_labels import draw_labeled_rows
from embedding_core.protocols.trial import Arm, TrialData
from embedding_core.protocols.tuned_split import (
    FIGURES,
    SplitScores,
    choose_block,
    draw_parts,
    judge_split,
    score_split,
    split_columns,
    split_figures,
)
from tests.synthetic import multi_label, single_label


class Recorder(BaseEstimator):
    """Scores rows by their first features and remembers what it was fitted on."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, Y):
        self.width_ = Y.shape[1]
        Recorder.seen.append(X[:, 0].copy())
        return self

    def predict_scores(self, X):
        return np.clip(X[:, : self.width_], 0, 1)


def test_scores_of_training_rows_come_from_fits_without_them():
    X, Y = multi_label(90)
    train, test = draw_parts(90, 60, 30, 0)
    Recorder.seen.clear()
    scores = score_split(Recorder(), X, Y, train, test)
    first, *folds = Recorder.seen
    np.testing.assert_array_equal(first, X[train, 0])
    assert [len(fold) for fold in folds] == [40, 40, 40]
    assert scores.left_out.shape == (60, 4)
    own = KernelDLEClassifier().fit(X[train], Y[train])
    np.testing.assert_array_equal(
        score_split(KernelDLEClassifier(), X, Y, train, test).left_out, own.loo_scores_
    )


def test_thresholds_are_tuned_on_training_rows_and_measured_on_test_rows():
    Y_train = np.array([[1, 0], [0, 1], [1, 0], [0, 0]], dtype=np.int8)
    left_out = np.array([[0.3, 0.1], [0.1, 0.8], [0.25, 0.1], [0.1, 0.4]])
    Y_test = np.array([[1, 0], [0, 1]], dtype=np.int8)
    test = np.array([[0.15, 0.5], [0.05, 0.7]])
    found = split_figures(SplitScores(left_out, test), Y_train, Y_test)
    assert list(found) == list(FIGURES)
    assert found["hamming_loss"] == 0.25  # one half: the first row gets neither label
    assert found["macro_f1"] == 0.5  # thresholds 0.175 and 0.6; lower than 0.15 would be better here
    assert found["micro_f1"] == 0.5  # 0.175 for both; 0.6 would be better here
    assert found["lrap"] == multilabel_metrics(Y_test, Y_test, test)["lrap"]


def test_test_labels_are_only_used_to_measure():
    X, Y = multi_label(90)
    train, test = draw_parts(90, 60, 30, 1)
    changed = Y.copy()
    changed[test] = 1 - Y[test]
    first, second = (
        score_split(KernelDLEClassifier(), X, labels, train, test).test for labels in (Y, changed)
    )
    np.testing.assert_array_equal(first, second)
    assert judge_split(KernelDLEClassifier(), X, Y, train, test)["lrap"] > 0.7


def test_splits_depend_on_their_number_alone():
    train, test = draw_parts(100, 70, 20, 3)
    assert (len(train), len(test), len(np.intersect1d(train, test))) == (70, 20, 0)
    np.testing.assert_array_equal(draw_parts(100, 70, 20, 3)[0], train)
    assert not np.array_equal(draw_parts(100, 70, 20, 4)[0], train)
    with pytest.raises(InvalidInput, match="90 training and 20 test rows of 100"):
        draw_parts(100, 90, 20, 0)


def test_graph_methods_see_the_other_rows_without_labels():
    X, y = single_label(100)
    data = TrialData(X, np.eye(y.max() + 1, dtype=np.int8)[y], single_label=True)
    settings = {"labeled": [4], "neighbors": [], "metric": "accuracy", "seed": 0}
    labeled, rest = draw_labeled_rows(y, 4, 0, 2)
    hidden = np.where(np.isin(np.arange(100), labeled), y, -1)
    own = KernelDLEClassifier().fit(X, hidden).predict(X[rest])
    [cell] = few_labels.trial(data, Arm("Kernel DLE", "kernel_dle"), settings, "raw", 2)
    assert cell == ("N=4", "accuracy", (own == y[rest]).mean())


def test_the_official_split_comes_first_then_random_ones_of_its_sizes():
    X, Y = multi_label(90)
    data = TrialData(X, Y, train=np.arange(90) < 60)
    arm, settings = Arm("Kernel DLE", "kernel_dle"), {"seed": 0}
    cells = tuned_split.trial(data, arm, settings, "raw", 0)
    found = judge_split(KernelDLEClassifier(), X, Y, np.arange(60), np.arange(60, 90))
    assert cells == [(tuned_split.OFFICIAL, name, found[name]) for name in FIGURES]
    drawn = judge_split(KernelDLEClassifier(), X, Y, *draw_parts(90, 60, 30, 1))
    cells = tuned_split.trial(data, arm, settings, "raw", 1)
    assert cells == [(tuned_split.RANDOM, name, drawn[name]) for name in FIGURES]
    sized = tuned_split.trial(TrialData(X, Y), arm, {"seed": 0, "sizes": [60, 30]}, "raw", 1)
    assert sized == cells


def test_a_tuned_machine_gives_its_left_out_scores_itself():
    X, Y = multi_label(90)
    train, test = draw_parts(90, 60, 30, 0)
    machine = TunedSVM(penalties=(1.0,), widths=(0.3, 1.0), calibrate=False)
    scores = score_split(machine, X, Y, train, test)
    np.testing.assert_array_equal(scores.left_out, machine.fit(X[train], Y[train]).left_out_scores_)
    assert TunedSVM((1.0,), (0.3, 1.0), tuning_rows=50).fit(X[train], Y[train]).left_out_scores_ is None
    fold, held = stratified_folds(Y[train], 3, 0)[0]
    alone = ScaledSVM(machine.C_, machine.gamma_).fit(X[train][fold], Y[train][fold])
    np.testing.assert_allclose(
        scores.left_out[held],
        alone.predict_scores(X[train][held]),
        atol=1e-3,
        err_msg="a fold saw its labels",
    )


def test_a_set_without_a_split_needs_sizes():
    X, Y = multi_label(40)
    data = TrialData(X, Y)
    with pytest.raises(InvalidInput, match="no column `split`"):
        tuned_split.trial(data, Arm("SVM", "svm"), {"seed": 0}, "zscore", 0)


BLOCKS = {"seed": 0, "sizes": [60, 30], "blocks": ["first", "second", "third"]}


def three_blocks(informative: int, n: int = 90) -> TrialData:
    """Rows in three blocks of seven columns, all but one of them noise."""
    X, Y = multi_label(n)
    noise = np.random.default_rng(5).normal(size=(n, 3 * X.shape[1]))
    noise[:, informative * X.shape[1] : (informative + 1) * X.shape[1]] = X
    return TrialData(noise, Y)


def chosen_block(cells) -> list[str]:
    return [cell.condition for cell in cells if cell.metric == tuned_split.SHARE and cell.value == 1]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kernel_dle", "random_forest", "mlda_knn"])
@pytest.mark.parametrize("informative", [0, 2])
def test_the_informative_block_is_chosen_and_its_figures_alone_count(method, informative):
    arm = Arm("", method, {"n_estimators": 20} if method == "random_forest" else {})
    cells = tuned_split.trial(three_blocks(informative), arm, BLOCKS, "zscore", 1)
    assert chosen_block(cells) == [tuned_split.CHOSEN + BLOCKS["blocks"][informative]]
    X, Y = multi_label(90)
    alone = tuned_split.trial(TrialData(X, Y), arm, {"seed": 0, "sizes": [60, 30]}, "zscore", 1)
    assert [cell[:2] for cell in alone] == [(tuned_split.RANDOM, name) for name in FIGURES]
    np.testing.assert_allclose(
        [cell.value for cell in cells[: len(FIGURES)]], [cell.value for cell in alone], atol=1e-12
    )


@pytest.mark.slow
def test_test_rows_have_no_part_in_the_choice_of_a_block(monkeypatch):
    seen = []

    def watched(estimator, blocks, Y, seed):
        seen.append(np.hstack([*blocks, Y]))
        return choose_block(estimator, blocks, Y, seed)

    monkeypatch.setattr(tuned_split, "choose_block", watched)
    data, arm = three_blocks(1, n=150), Arm("Kernel DLE", "kernel_dle")
    settings = {**BLOCKS, "sizes": [60, 90]}  # so many that they would decide
    _, test = draw_parts(150, 60, 90, 2)
    X, Y = data.X.copy(), data.Y.copy()
    X[test, 7:14], X[test, 14:18] = 0.0, 10.0 * Y[test]  # here the third block tells, the second nothing
    Y[test] = np.roll(Y[test], 1, axis=1)
    found = [
        tuned_split.trial(one, arm, settings, "zscore", 2)
        for one in (data, replace(data, X=X), replace(data, Y=Y))
    ]
    assert [chosen_block(cells) for cells in found] == [[tuned_split.CHOSEN + "second"]] * 3
    lraps = {cell.value for cells in found for cell in cells if cell.metric == "lrap"}
    assert len(lraps) == 3  # what is measured there did change
    first, second, third = seen
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)


def test_of_blocks_that_do_equally_well_the_first_is_chosen():
    _, Y = multi_label(60)
    wrong, right = 1.0 - Y, Y.astype(float)
    assert choose_block(Recorder(), [wrong, right, 0.9 * right], Y) == 1
    assert choose_block(Recorder(), [right, right], Y) == 0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_columns_are_split_into_blocks_of_equally_many(form):
    X = np.arange(12.0).reshape(2, 6)
    blocks = [
        np.asarray(block.todense() if sp.issparse(block) else block) for block in split_columns(form(X), 3)
    ]
    np.testing.assert_array_equal(blocks, [X[:, :2], X[:, 2:4], X[:, 4:]])
    for count in (4, 7):
        with pytest.raises(InvalidInput, match=f"6 columns cannot be split into {count} blocks"):
            split_columns(form(X), count)
