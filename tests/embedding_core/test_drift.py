"""Whether new items are like the labeled ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from embedding_core import InvalidInput
from embedding_core.annotation import drift
from embedding_core.annotation.drift import detect_drift, moved_blocks, moved_features
from tests.synthetic import sparse_items


def draw(seed=0, a=60, b=40, p=5):
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(p, p))
    return rng.normal(size=(a, p)) @ mixed, rng.normal(size=(b, p)) @ mixed


def literal_auc(K, y, folds):
    """Ridge regression on the other folds, fold by fold, for one target."""
    found, mean = [], y.mean()
    for fold in range(drift.FOLDS):
        out, rest = folds == fold, folds != fold
        kept = K[np.ix_(rest, rest)] + drift.PENALTY * np.eye(rest.sum())
        scores = K[np.ix_(out, rest)] @ np.linalg.solve(kept, y[rest] - mean)
        found.append(roc_auc_score(y[out], scores))
    return np.mean(found)


@pytest.mark.slow
def test_one_solve_serves_all_folds_and_permutations():
    A, B = draw()
    X, y = drift._stack_sides(A, B, np.random.RandomState(0), 600)
    rng = np.random.RandomState(1)
    folds = drift._deal_folds(y, rng)
    sides = drift._permute_sides(y, folds, 20, rng)
    K = drift._kernel_matrix(X)
    expected = [literal_auc(K, column, folds) for column in sides.T]
    found = drift._mean_auc(drift._out_of_fold(K, sides, folds), sides, folds)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert len(set(np.round(found, 6))) > 10


def test_the_p_value_counts_permutations_that_do_as_well(monkeypatch):
    values = np.array([0.7, 0.7, 0.9, 0.2, 0.699])
    monkeypatch.setattr(drift, "_mean_auc", lambda *_: values)
    found = detect_drift(*draw(), n_permutations=4)
    assert (found.auc, found.p_value) == (0.7, 3 / 5)


def test_sides_are_permuted_within_folds():
    y = np.repeat([0, 1], [30, 15]).astype(np.int8)
    rng = np.random.RandomState(0)
    folds = drift._deal_folds(y, rng)
    sides = drift._permute_sides(y, folds, 50, rng)
    for fold in range(drift.FOLDS):
        assert (sides[folds == fold].sum(axis=0) == 3).all()
        assert (folds == fold).sum() == 9
    np.testing.assert_array_equal(sides[:, 0], y)
    assert 0.25 < sides[:, 1:].mean(axis=1).min() * 3 / 2 < sides[:, 1:].mean(axis=1).max() < 0.6


@pytest.mark.slow
def test_rows_that_are_drawn_alike_seldom_raise_an_alarm():
    """100 draws: p is spread evenly, so 1 and 5 alarms are expected; three standard errors above."""
    found = [detect_drift(*draw(seed, 40, 30), random_state=seed, n_permutations=99) for seed in range(100)]
    p = np.array([one.p_value for one in found])
    assert (p <= 0.05).sum() <= 5 + 3 * np.sqrt(100 * 0.05 * 0.95)
    assert (p <= 0.01).sum() <= 1 + 3 * np.sqrt(100 * 0.01 * 0.99)
    assert 0.4 < p.mean() < 0.6
    assert abs(np.mean([one.auc for one in found]) - 0.5) < 0.03


@pytest.mark.parametrize("change", [lambda B: 0.5 * B, lambda B: B + 1.0, lambda B: B[:, [1, 0, 2, 3, 4]]])
def test_shifted_rows_void_the_promise(change):
    A, B = draw(a=120, b=90)
    found = detect_drift(A, change(B))
    assert found.verdict == "void"
    assert found.auc > 0.6


def test_scale_and_order_of_the_features_do_not_matter():
    A, B = draw()
    order = [3, 0, 4, 1, 2]
    plain = detect_drift(A, B + 0.3)
    changed = detect_drift(100 * A[:, order] - 7, 100 * (B + 0.3)[:, order] - 7)
    assert plain.auc == pytest.approx(changed.auc, abs=1e-9)
    assert plain.p_value == changed.p_value


def test_the_same_seed_gives_the_same_result_and_large_sides_are_sampled():
    A, B = draw(a=50, b=700)
    found = detect_drift(A, B, n_permutations=19)
    assert found == detect_drift(A, B, n_permutations=19)
    assert (found.labeled, found.new) == (50, 600)
    assert detect_drift(A, B, n_permutations=19, most_rows=30).new == 30


def test_constant_features_tell_nothing():
    A, B = draw()
    constant = [np.hstack([rows, np.full((len(rows), 2), 1e6 / 3)]) for rows in (A, B)]
    plain = detect_drift(A, B, n_permutations=19)
    found = detect_drift(*constant, n_permutations=19)
    assert found.p_value == pytest.approx(plain.p_value)
    same = detect_drift(np.ones((20, 3)), np.ones((9, 3)))
    assert (same.auc, same.p_value, same.verdict) == (0.5, 1.0, "same")
    assert moved_features(np.ones((20, 3)), np.ones((9, 3))) == ()


def test_sparse_rows():
    A, B = sparse_items(60, 40), sparse_items(50, 40, seed=1)
    assert detect_drift(A, B).p_value > 0.01
    more = sparse_items(50, 40, seed=1, density=0.4)
    assert detect_drift(A, more).verdict == "void"
    dense = moved_features(A.toarray(), more.toarray())
    sparse = moved_features(A, more)
    assert [one.name for one in dense] == [one.name for one in sparse]
    np.testing.assert_allclose([one.size for one in dense], [one.size for one in sparse])


@pytest.mark.parametrize(
    ("a", "b", "tested"), [(60, 4, False), (4, 60, False), (60, 5, True), (5, 5, True), (60, 1, False)]
)
def test_tiny_sides(a, b, tested):
    A, B = draw(a=a, b=b)
    found = detect_drift(A, B, n_permutations=19)
    assert (found.verdict != "untested") == tested
    assert np.isfinite(found.auc) == tested
    assert ("was not tested" in found.sentence) == (not tested)
    assert bool(moved_blocks(A, B, [("all", 5)])) == tested


def test_verdicts_and_sentences():
    A, B = draw(1, a=100, b=80)
    assert detect_drift(A, B).sentence.startswith(
        "No difference between new and labeled items was found (AUC"
    )
    assert "no promise holds for them" in detect_drift(A, B + 2).sentence
    assert "may differ" in drift.Drift(0.6, 0.03, "warn", 9, 9).sentence


def test_the_block_that_moved_is_first():
    A, B = draw(a=100, b=80, p=6)
    B[:, 2:4] *= 3  # same means
    found = moved_blocks(A, B, [("one", 2), ("two", 2), ("three", 2)])
    assert found[0].name == "two"
    assert found[0].size > 0.7 > 0.65 > found[1].size
    with pytest.raises(InvalidInput, match="columns for 6 features"):
        moved_blocks(A, B, [("one", 2), ("two", 2)])


def test_features_that_moved_by_more_than_chance():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(200, 30)), rng.normal(size=(150, 30))
    assert moved_features(A, B) == ()
    B[:, 7] += 2
    B[:, 4] -= 1
    names = [f"feature {k}" for k in range(30)]
    first, second = moved_features(1e3 * A + 1e9, 1e3 * B + 1e9, names)
    assert (first.name, second.name) == ("feature 7", "feature 4")
    spread = np.sqrt((A[:, 7].var() * 200 + B[:, 7].var() * 150) / 348)
    assert first.size == pytest.approx((B[:, 7].mean() - A[:, 7].mean()) / spread, rel=1e-6)
    assert second.size < -0.7
    assert moved_features(A, B, most=1) == moved_features(A, B)[:1]


def test_rounding_of_a_constant_feature_is_no_difference():
    third = np.full((30, 1), 1e6 / 3)
    shaken = third * (1 + np.finfo(float).eps * np.arange(30)[:, None] % 2)
    assert moved_features(third, shaken) == ()


def test_constants_that_differ_are_infinitely_far_apart():
    (found,) = moved_features(np.zeros((9, 1)), np.ones((9, 1)))
    assert found.size == np.inf


@pytest.mark.parametrize(
    ("A", "B", "message"),
    [
        (np.ones((9, 2)), np.ones((9, 3)), "labeled items have 2 features and new items 3"),
        (np.ones((9, 2)), sp.csr_array(np.ones((9, 2))), "both be dense or both be sparse"),
        (np.ones((9, 2)), np.full((9, 2), np.nan), "NaN"),
        (np.ones((9, 2)), np.empty((0, 2)), r"X has shape \(0, 2\)"),
    ],
)
def test_nonsense_is_refused(A, B, message):
    with pytest.raises(InvalidInput, match=message):
        detect_drift(A, B)
    with pytest.raises(InvalidInput, match=message):
        moved_features(A, B)


def test_names_of_another_number_are_refused():
    with pytest.raises(InvalidInput, match="1 names for 5 features"):
        moved_features(*draw(), names=["a"])
