"""Folds: a partition of the labeled rows that keeps every label's share."""

import numpy as np
import pytest

from embedding_core.errors import InvalidInput
from embedding_core.model_selection.folds import check_folds, smallest_training_part, stratified_folds


def draw_labels(n=203, shares=(0.5, 0.3, 0.1, 0.04), unlabeled=40, seed=0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, len(shares))) < shares).astype(np.int8)
    Y[rng.permutation(n)[:unlabeled]] = -1
    return Y


@pytest.mark.parametrize("n_splits", [2, 5, 10])
def test_test_parts_partition_the_labeled_rows(n_splits):
    Y = draw_labels()
    folds = stratified_folds(Y, n_splits, seed=3)
    labeled = np.flatnonzero(Y[:, 0] >= 0)
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), labeled)
    for train, test in folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), labeled)
        assert (np.diff(train) > 0).all()
    sizes = [len(test) for _, test in folds]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_positives_are_spread_evenly(seed):
    Y = draw_labels(n=600, seed=seed)
    folds = stratified_folds(Y, 5, seed=seed)
    counts = np.array([(Y[test] > 0).sum(axis=0) for _, test in folds])
    assert (counts.max(axis=0) - counts.min(axis=0) <= 2).all()


def test_single_labels_are_spread_to_one():
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 4, 101)
    folds = stratified_folds(classes, 5, seed=1)
    counts = np.array([np.bincount(classes[test], minlength=4) for _, test in folds])
    assert (counts.max(axis=0) - counts.min(axis=0) <= 1).all()


@pytest.mark.parametrize("positives", [1, 2, 4])
def test_label_rarer_than_folds_is_in_as_many_folds_as_it_has_positives(positives):
    Y = draw_labels(n=100, unlabeled=0)
    Y[:, 3] = 0
    Y[:positives, 3] = 1
    holding = [test for _, test in stratified_folds(Y, 5, seed=0) if (Y[test, 3] == 1).any()]
    assert len(holding) == positives


def test_rows_and_columns_without_any_label_work():
    Y = np.zeros((11, 3), dtype=int)
    Y[0, 0] = 1
    sizes = sorted(len(test) for _, test in stratified_folds(Y, 5))
    assert sizes == [2, 2, 2, 2, 3]


@pytest.mark.parametrize("seed", range(30))
def test_sizes_stay_equal_where_labels_pull_elsewhere(seed):
    """Few rows with many labels each: by labels alone some folds would overflow and others stay empty."""
    Y = (np.random.default_rng(seed).random((13, 9)) < 0.4).astype(int)
    assert sorted(len(test) for _, test in stratified_folds(Y, 5, seed)) == [2, 2, 3, 3, 3]


def test_as_many_folds_as_rows_leave_one_out():
    Y = np.eye(6, dtype=int)
    assert sorted(test.tolist() for _, test in stratified_folds(Y, 6)) == [[i] for i in range(6)]


def test_same_seed_same_folds_and_another_seed_others():
    Y = draw_labels()

    def tests_of(seed):
        return [test.tolist() for _, test in stratified_folds(Y, 5, seed)]

    assert tests_of(7) == tests_of(7)
    assert tests_of(7) != tests_of(8)


@pytest.mark.parametrize("n_splits", [0, 1, 4])
def test_impossible_number_of_folds_is_refused(n_splits):
    with pytest.raises(InvalidInput, match=f"{n_splits} folds of 3 labeled rows; choose from 2 to 3"):
        stratified_folds([[1, 0], [0, 1], [1, 1], [-1, -1]], n_splits)


def test_folds_that_leave_one_label_to_train_on_are_refused():
    y = np.array([0] * 9 + [1])
    Y = np.eye(2, dtype=np.int8)[y]
    with pytest.raises(InvalidInput, match=r"fold \d .* 'sea' has 1, 'sky' has 9\. Label more"):
        check_folds(stratified_folds(Y, 3), Y, ["sky", "sea"])
    Y[0] = [0, 1]
    check_folds(stratified_folds(Y, 3), Y, ["sky", "sea"])


@pytest.mark.parametrize(("n", "n_splits"), [(2, 3), (3, 3), (7, 3), (10, 5), (11, 5), (4, 9)])
def test_the_smallest_training_part_is_that_of_the_folds(n, n_splits):
    folds = stratified_folds(np.ones((n, 1), dtype=int), min(n_splits, n))
    assert smallest_training_part(n, n_splits) == min(len(train) for train, _ in folds)
    assert smallest_training_part(1, n_splits) == 1
