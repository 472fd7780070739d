"""Labeled and unlabeled rows of each class in the fit, new rows after it: Table 1 of LPSSVM."""

import numpy as np
import pytest
from sklearn.svm import SVC

from embedding_core.errors import InvalidInput
from embedding_core.linalg.l1 import intersection_kernel
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.protocols import multilabel_folds, new_rows, tuned_split
from embedding_core.protocols.new_rows import (
    METRIC,
    NEAREST,
    NEW,
    UNLABELED,
    choose_params,
    class_mean,
    draw_parts,
    fit,
    kernel_neighbors,
    parts_of,
    training_rows,
    trial,
)
from embedding_core.protocols.trial import Arm, TrialData
from tasks.reproduce.margin import CALTECH, CALTECH_ARMS

SETTINGS = {"labeled": 3, "unlabeled": 6, "new": 4, "seed": 0}
METHODS = [arm for arm in CALTECH_ARMS if arm.method != NEAREST]


def histograms(n_classes: int = 4, per_class: int = 13, noise: float = 1.0) -> TrialData:
    """The intersection kernel of rows that sum to one, and their classes."""
    rng = np.random.default_rng(0)
    centers = rng.gamma(0.5, size=(n_classes, 30))
    X = np.repeat(centers, per_class, axis=0) * rng.gamma(1 / noise, size=(n_classes * per_class, 30))
    X = (X + 1e-3) / (X + 1e-3).sum(axis=1, keepdims=True)
    Y = np.repeat(np.eye(n_classes, dtype=np.int8), per_class, axis=0)
    return TrialData(intersection_kernel(X), Y, tuple("abcd"[:n_classes]), single_label=True)


def test_parts_are_disjoint_and_have_the_numbers_of_the_paper():
    classes = np.repeat([0, 1, 2], [31, 60, 45])
    parts = draw_parts(classes, 5, 25, 30, np.random.default_rng(0))
    assert [np.bincount(classes[rows]).tolist() for rows in parts] == [[5] * 3, [25] * 3, [1, 30, 15]]
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything) == 3 * 30 + 46
    assert all((np.diff(rows) > 0).all() for rows in parts)
    settings = CALTECH.settings("caltech101", quick=False)
    assert [settings[name] for name in ("labeled", "unlabeled", "new")] == [5, 25, 30]


def test_a_class_without_new_rows_is_an_error():
    with pytest.raises(InvalidInput, match="leave no new row in a class of 30"):
        draw_parts(np.repeat([0, 1], [30, 60]), 5, 25, 30, np.random.default_rng(0))


def test_rate_is_the_mean_over_classes():
    classes = np.array([0, 0, 0, 0, 2, 2])
    right = np.array([True, False, False, False, True, True])
    by_hand = np.mean([right[classes == k].mean() for k in (0, 2)])
    assert class_mean(right, classes) == by_hand == 0.625


def test_nearest_row_is_the_nearest_in_feature_space():
    X = np.random.default_rng(1).normal(size=(20, 3))
    rows, among = np.arange(15, 20), np.arange(0, 15, 2)
    by_hand = [np.linalg.norm(X[among] - X[row], axis=1).argmin() for row in rows]
    assert kernel_neighbors(X @ X.T, rows, among).tolist() == by_hand


def test_svm_of_a_kernel_is_libsvm_on_the_labeled_rows():
    data = histograms(2)
    parts = parts_of(data, SETTINGS, 0)
    seen = np.sort(np.concatenate(parts[:2]))
    predict = fit("svm", {"scale": "none", "C": 1.0}, data.X, data.classes, parts.labeled, seen)
    machine = SVC(C=1.0, kernel="precomputed")
    machine.fit(data.X[np.ix_(parts.labeled, parts.labeled)], data.classes[parts.labeled])
    expected = machine.predict(data.X[np.ix_(parts.new, parts.labeled)])
    np.testing.assert_array_equal(predict(parts.new), expected)


@pytest.mark.slow
@pytest.mark.parametrize("arm", CALTECH_ARMS, ids=lambda arm: arm.title)
def test_every_method_takes_the_kernel(arm):
    data, settings = histograms(per_class=25, noise=1.5), {**SETTINGS, "unlabeled": 16}
    cells = trial(data, arm, settings, "raw", 0)
    assert [(cell.condition, cell.metric) for cell in cells] == [(UNLABELED, METRIC), (NEW, METRIC)]
    assert min(cell.value for cell in cells) > 0.4  # chance is 0.25
    assert cells == trial(data, arm, settings, "raw", 0)


@pytest.mark.slow
@pytest.mark.parametrize("arm", CALTECH_ARMS, ids=lambda arm: arm.title)
def test_only_labels_of_labeled_rows_matter(arm):
    data = histograms()
    parts = parts_of(data, SETTINGS, 0)
    wrong = data.classes.copy()
    hidden = np.concatenate([parts.unlabeled, parts.new])
    wrong[hidden] = (wrong[hidden] + 1) % 4
    answers = []
    for classes in (data.classes, wrong):
        chosen = choose_params(arm, data.X, classes, parts)
        seen = np.sort(np.concatenate(parts[:2]))
        answers.append((chosen, fit(arm.method, chosen, data.X, classes, parts.labeled, seen)(hidden)))
    assert answers[0][0] == answers[1][0]
    np.testing.assert_array_equal(answers[0][1], answers[1][1])


@pytest.mark.slow
@pytest.mark.parametrize("arm", METHODS, ids=lambda arm: arm.title)
def test_new_rows_take_no_part_in_the_fit(arm):
    data = histograms()
    parts = parts_of(data, SETTINGS, 0)
    seen = np.sort(np.concatenate(parts[:2]))
    changed = data.X.copy()
    changed[np.ix_(parts.new, seen)] = changed[np.ix_(seen, parts.new)].T[::-1]
    params = {name: value[0] if isinstance(value, list) else value for name, value in arm.params.items()}
    one, other = (
        fit(arm.method, params, K, data.classes, parts.labeled, seen)(parts.unlabeled)
        for K in (data.X, changed)
    )
    np.testing.assert_array_equal(one, other)


def test_a_candidate_is_chosen_on_held_out_labeled_rows(monkeypatch):
    data = histograms(noise=2.0)
    parts = parts_of(data, {**SETTINGS, "labeled": 5, "unlabeled": 4}, 0)
    K, classes = data.X[np.ix_(parts.labeled, parts.labeled)], data.classes[parts.labeled]
    right = []
    for train, held in stratified_folds(data.Y[parts.labeled], 3, seed=0):
        nearest = (K.diagonal()[train] - 2 * K[np.ix_(held, train)]).argmin(axis=1)
        right += (classes[train][nearest] == classes[held]).tolist()
    assert new_rows._held_out_rate(NEAREST, {}, data.X, data.classes, parts) == np.mean(right)
    rates = {1.0: 0.4, 10.0: 0.6, 100.0: 0.6}
    monkeypatch.setattr(new_rows, "_held_out_rate", lambda method, params, *given: rates[params["C"]])
    arm = Arm("SVM", "svm", {"scale": "none", "C": list(rates)})
    assert choose_params(arm, data.X, data.classes, parts) == {"scale": "none", "C": 10.0}


def test_features_are_learned_from_rows_that_a_protocol_trains_on():
    data = histograms()
    assert training_rows(data, SETTINGS, 1).tolist() == parts_of(data, SETTINGS, 1).labeled.tolist()
    folds = {"folds": 3, "seed": 0, "rows": 0}
    held = multilabel_folds.fold_rows(data, folds, 2)[1]
    assert not np.intersect1d(multilabel_folds.training_rows(data, folds, 2), held).size
    with pytest.raises(InvalidInput, match="set rows=0"):
        multilabel_folds.training_rows(data, {**folds, "rows": 10}, 0)
    split = {"sizes": [30, 20], "seed": 0}
    train, _ = tuned_split.draw_parts(len(data.Y), 30, 20, 1, 0)
    assert tuned_split.training_rows(data, split, 1).tolist() == train.tolist()


def test_features_that_are_no_kernel_are_refused():
    data = TrialData(np.ones((52, 3)), histograms().Y, single_label=True)
    with pytest.raises(InvalidInput, match=r"needs a kernel matrix .* shape \(52, 3\)"):
        trial(data, METHODS[0], SETTINGS, "raw", 0)
    with pytest.raises(InvalidInput, match="'zscore'"):
        trial(histograms(), METHODS[0], SETTINGS, "zscore", 0)
