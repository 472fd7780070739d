"""Given, shuffled and hidden labels; sets of two labels between their singles: the protocol of SLE-ML."""

import numpy as np
import pytest

from embedding_core.protocols.placement import neighbor_agreement, place_rows
from embedding_core.protocols.separability import (
    ACCURACY,
    AGREEMENT,
    BETWEEN,
    GIVEN,
    HIDDEN,
    SHUFFLED,
    between_singles,
    in_plane,
    label_groups,
    shuffle_labels,
    trial,
)
from embedding_core.protocols.trial import Arm, TrialData, draw_rows, trial_rng
from tasks.reproduce.eigenmaps import FIGS, OTHERS
from tests.trial_sets import blobs, shuffle_rows

SETTINGS = {"min_rows": 3, "seed": 0}
SLE_ML = Arm("SLE-ML 0.5", "sle_ml", {"n_components": 2, "balance": 0.5})


def two_labels() -> TrialData:
    """Three labels on a line, a few rows with the two neighboring ones, one row with all three."""
    rng = np.random.default_rng(0)
    sets = [(0,)] * 20 + [(1,)] * 20 + [(2,)] * 20 + [(0, 1)] * 6 + [(1, 2)] * 2 + [(0, 1, 2)]
    Y = np.zeros((len(sets), 3), dtype=np.int8)
    for row, labels in enumerate(sets):
        Y[row, list(labels)] = 1
    X = np.column_stack([Y @ [0.0, 4.0, 8.0] / Y.sum(axis=1), rng.normal(size=len(sets))])
    return TrialData(X + 0.1 * rng.normal(size=X.shape), Y, ("low", "middle", "high"))


def by_condition(cells, metric):
    return {cell.condition: cell.value for cell in cells if cell.metric == metric}


@pytest.mark.parametrize("arm", [SLE_ML, *OTHERS], ids=lambda arm: arm.title)
def test_hidden_labels_move_no_row(arm):
    data = blobs(90)
    train, test = draw_rows(len(data.Y), 0.5, trial_rng(0, 0))
    before, after = (place_rows(arm, one, train, "raw").rows for one in (data, shuffle_rows(data, test)))
    np.testing.assert_array_equal(before, after)


def test_a_shuffle_deals_the_same_labels_to_other_rows():
    data = blobs(90)
    dealt = shuffle_labels(data, trial_rng(0, 0))
    assert not np.array_equal(dealt.Y, data.Y)
    np.testing.assert_array_equal(dealt.Y.sum(axis=0), data.Y.sum(axis=0))
    np.testing.assert_array_equal(dealt.X, data.X)


@pytest.mark.filterwarnings("ignore:45 of 90 items have no link")
def test_labels_alone_show_as_much_with_shuffled_ones():
    labels_alone = Arm("SLE-ML 0.0", "sle_ml", {"n_components": 2, "balance": 0.0})
    features_alone = Arm("SLE-ML 1.0", "sle_ml", {"n_components": 2, "balance": 1.0})
    data = blobs(90)
    made_up = by_condition(trial(data, labels_alone, SETTINGS, "raw", 0), AGREEMENT)
    assert made_up[GIVEN] == made_up[SHUFFLED] == 1.0
    honest = by_condition(trial(data, features_alone, SETTINGS, "raw", 0), AGREEMENT)
    assert honest[GIVEN] > honest[SHUFFLED] + 0.2


@pytest.mark.filterwarnings("ignore:45 of 90 items have no link")
def test_labels_of_two_classes_span_one_dimension():
    data = blobs(90, K=2)
    for arm in (FIGS.arms[0], OTHERS[2]):
        assert by_condition(trial(data, arm, SETTINGS, "raw", 0), AGREEMENT)[GIVEN] == 1.0
        assert in_plane(arm, data).params["n_components"] == 1
    assert in_plane(SLE_ML, data) is SLE_ML


def test_given_labels_are_measured_once_and_draws_repeat():
    data = blobs(90)
    first, again, second = (trial(data, SLE_ML, SETTINGS, "raw", number) for number in (0, 0, 1))
    assert first == again
    assert {cell.condition for cell in first} == {GIVEN, SHUFFLED, HIDDEN}
    assert {cell.condition for cell in second} == {SHUFFLED, HIDDEN}
    Z = place_rows(SLE_ML, data, np.arange(90), "raw").rows
    assert by_condition(first, AGREEMENT)[GIVEN] == neighbor_agreement(Z, data.classes)


def test_plain_methods_name_the_hidden_labels():
    cells = trial(blobs(90), Arm("1NN", "1nn"), SETTINGS, "raw", 0)
    assert [(cell.condition, cell.metric) for cell in cells] == [(HIDDEN, ACCURACY)]
    assert 0.5 < cells[0].value <= 1


def test_between_is_more_than_a_right_angle():
    Y = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.int8)
    for place, inside in (((1.0, 0.9), True), ((1.0, 1.1), False), ((-0.1, 0.0), False), ((2.1, 0), False)):
        Z = np.array([[0.0, 0.0], [2.0, 0.0], place])
        assert between_singles(Z, Y, 1) == {(0, 1): inside}


def test_sets_with_too_few_rows_have_no_center():
    data = two_labels()
    assert between_singles(data.X, data.Y, 3) == {(0, 1): True}
    assert set(between_singles(data.X, data.Y, 2)) == {(0, 1), (1, 2)}


def test_several_labels_a_row():
    cells = trial(two_labels(), SLE_ML, SETTINGS, "raw", 0)
    between = by_condition(cells, BETWEEN)
    assert between[GIVEN] == between[f"{GIVEN}, low + middle"] == 1.0
    assert f"{SHUFFLED}, low + middle" in between
    assert trial(two_labels(), OTHERS[-1], SETTINGS, "raw", 0) == []
    assert len(np.unique(label_groups(two_labels().Y))) == 6


def test_eigenmaps_take_the_papers_number_of_neighbors():
    assert all("n_neighbors" not in arm.params for arm in FIGS.arms)
    data = blobs(90)
    model_k = round(1.5 * 90 / 3)
    from embedding_core.eigenmaps.sle_ml import SLEML

    assert SLEML().fit(data.X, data.Y).n_neighbors_ == model_k
