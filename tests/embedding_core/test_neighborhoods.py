"""Hit rates, splits and places of labels: the protocol of discriminative projections."""

import numpy as np
import pytest

from embedding_core.errors import InvalidInput
from embedding_core.protocols.neighborhoods import (
    ACCURACY,
    HITS,
    SEPARATION,
    draw_split,
    label_separation,
    trial,
)
from embedding_core.protocols.placement import (
    Placement,
    hit_rates,
    neighbor_agreement,
    place_rows,
    transfer_accuracy,
)
from embedding_core.protocols.trial import Arm, TrialData, draw_share_per_class, trial_rng
from tasks.reproduce.projections import TDT2, USPS
from tests.trial_sets import blobs, shuffle_rows

SETTINGS = {"labeled": 40, "rows": 0, "dimensions": [2, 5], "neighbors": 4, "seed": 0}
DP = Arm("DP", "discriminative_projections", {"n_components": 5})
ARMS = [DP, Arm("LPP", "lpp", {"n_components": 5}), Arm("CCA", "cca"), Arm("LDA", "lda")]
PLAIN = [Arm("1NN", "1nn"), Arm("SVM", "svm")]


def literal_hits(Z, classes, k):
    right = 0
    for i in range(len(Z)):
        distance = ((Z - Z[i]) ** 2).sum(axis=1)
        distance[i] = np.inf
        right += classes[i] in classes[np.argsort(distance, kind="stable")[:k]]
    return right / len(Z)


def test_hit_rates_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    Z, classes = rng.normal(size=(50, 3)), rng.integers(0, 4, 50)
    expected = [literal_hits(Z, classes, k) for k in range(1, 6)]
    np.testing.assert_allclose(hit_rates(Z, classes, 5), expected)
    with pytest.raises(InvalidInput, match="n_neighbors=50 for 50 rows"):
        hit_rates(Z, classes, 50)


def test_transfer_names_a_row_by_its_nearest_labeled_one():
    Z = np.array([[0.0], [1.0], [0.2], [0.9], [0.4]])
    Y = np.eye(2, dtype=np.int8)[[0, 1, 0, 1, 1]]
    assert transfer_accuracy(Z, Y, np.array([0, 1]), np.array([2, 3, 4])) == pytest.approx(2 / 3)


def test_agreement_draws_among_rows_of_one_place():
    Z = np.zeros((6, 2))
    Z[4:] = 1.0
    groups = np.array([0, 0, 1, 1, 2, 2])
    # Four rows share a place: of the three others one is of the same group. The last two have one another.
    assert neighbor_agreement(Z, groups) == pytest.approx((4 / 3 + 2) / 6)
    order = np.array([5, 2, 0, 3, 1, 4])
    assert neighbor_agreement(Z[order], groups[order]) == pytest.approx((4 / 3 + 2) / 6)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.title)
def test_test_labels_move_no_row(arm):
    data = blobs()
    _, (train, test) = draw_split(data, SETTINGS, 0)
    before, after = (place_rows(arm, one, train, "zscore") for one in (data, shuffle_rows(data, test)))
    np.testing.assert_array_equal(before.rows, after.rows)
    if before.labels is not None:
        np.testing.assert_array_equal(before.labels, after.labels)


@pytest.mark.parametrize("arm", [ARMS[0], *ARMS[2:]], ids=lambda arm: arm.title)
def test_training_labels_do(arm):
    data = blobs()
    _, (train, _) = draw_split(data, SETTINGS, 0)
    before, after = (place_rows(arm, one, train, "raw").rows for one in (data, shuffle_rows(data, train)))
    assert not np.allclose(before, after)


def test_projections_of_labels_are_fitted_on_labeled_rows_alone():
    data = blobs()
    _, (train, test) = draw_split(data, SETTINGS, 0)
    moved = data.X.copy()
    moved[test] *= 3
    other = TrialData(moved, data.Y, data.label_names, single_label=True)
    for arm in ARMS[2:]:
        before, after = (place_rows(arm, one, train, "zscore").rows[train] for one in (data, other))
        np.testing.assert_array_equal(before, after)


def test_first_columns_are_the_embedding_of_fewer_dimensions():
    data = blobs()
    _, (train, _) = draw_split(data, SETTINGS, 0)
    for arm in ARMS[:2]:
        fewer = Arm(arm.title, arm.method, {"n_components": 2})
        many, few = (place_rows(one, data, train, "raw").rows for one in (arm, fewer))
        np.testing.assert_allclose(many[:, :2], few, atol=1e-8 * np.abs(few).max())


def test_splits_have_the_stated_sizes():
    classes = np.random.default_rng(0).integers(0, 10, 9298)
    usps = TrialData(np.zeros((9298, 1)), np.eye(10, dtype=np.int8)[classes], single_label=True)
    data, (train, test) = draw_split(usps, USPS.settings("usps", quick=False), 0)
    assert (len(train), len(test), len(data.Y)) == (2000, 7298, 9298)
    np.testing.assert_array_equal(np.sort([*train, *test]), np.arange(9298))
    topics = np.repeat(np.arange(4), [1844, 1828, 1222, 811])
    tdt2 = TrialData(np.zeros((5705, 1)), np.eye(4, dtype=np.int8)[topics], single_label=True)
    data, (train, test) = draw_split(tdt2, TDT2.settings("tdt2", quick=False), 0)
    assert np.bincount(data.classes[train]).tolist() == [615, 609, 407, 270]
    quick, (train, test) = draw_split(tdt2, TDT2.settings("tdt2", quick=True), 0)
    assert len(quick.Y) == len(train) + len(test) == 1500
    assert len(train) == pytest.approx(500, abs=2)


def test_a_share_of_each_class_has_one_row_at_least():
    classes = np.repeat([0, 1], [2, 30])
    train, test = draw_share_per_class(classes, 0.1, trial_rng(0, 0))
    assert np.bincount(classes[train]).tolist() == [1, 3]
    np.testing.assert_array_equal(np.sort([*train, *test]), np.arange(32))
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        draw_share_per_class(classes, 1.0, trial_rng(0, 0))


@pytest.mark.parametrize("arm", [*ARMS, *PLAIN], ids=lambda arm: arm.title)
def test_trials_repeat_by_number_and_differ_otherwise(arm):
    data = blobs()
    first, again, other = (trial(data, arm, SETTINGS, "raw", number) for number in (0, 0, 1))
    assert first == again != other


def test_cells_of_projections_and_plain_methods_stand_under_the_same_conditions():
    data = blobs()
    dp, nearest, svm = (trial(data, arm, SETTINGS, "raw", 0) for arm in (DP, *PLAIN))
    wanted = {(cell.condition, cell.metric) for cell in dp if cell.metric != SEPARATION}
    assert wanted == {(cell.condition, cell.metric) for cell in nearest}
    assert {cell.metric for cell in svm} == {ACCURACY}
    assert [cell.condition for cell in dp if cell.metric == HITS][:5] == [
        "2-D, K=1",
        "2-D, K=2",
        "2-D, K=3",
        "2-D, K=4",
        "labeled rows, 2-D, K=1",
    ]
    lda = trial(data, ARMS[3], SETTINGS, "raw", 0)
    assert {cell.condition.split(", K")[0] for cell in lda} == {"2-D", "labeled rows, 2-D"}


def test_separation_of_labels_is_in_spreads_of_rows():
    labels = np.array([[0.0, 0.0], [6.0, 0.0]])
    rows = np.array([[0.0, 2.0], [6.0, -2.0], [99.0, 0.0]])
    placed = Placement(rows, labels)
    classes = np.array([0, 1, 1])
    assert label_separation(placed, classes, np.array([0, 1]), 2) == pytest.approx(3.0)
