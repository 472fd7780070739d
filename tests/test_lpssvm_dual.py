"""The exact solver of the machines against optimality conditions, LibSVM, and hand-computed cases."""

import numpy as np
import pytest
from sklearn.svm import SVC

from embedding_core.margin.dual import solve_dual
from embedding_core.margin.machines import svm_trainer

SHAPES = [(8, 2), (80, 5), (60, 60), (40, 90)]


def two_sides(l, r, seed=0):  # noqa: E741
    """Items (l, r) whose sides overlap, and their signs."""
    rng = np.random.default_rng(seed)
    E = rng.normal(size=(l, r))
    sign = np.where(E[:, 0] + rng.normal(size=l) > 0.3, 1, -1).astype(np.int8)
    sign[:2] = 1, -1
    return E, sign


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e4])
def test_multipliers_fulfil_the_optimality_conditions(shape, C):
    E, sign = two_sides(*shape)
    F, bias = solve_dual(E, sign, C)
    alpha, margin = F * sign, sign * (E @ (E.T @ F) + bias)
    assert abs(F.sum()) < 1e-12 * C * len(E)
    assert (alpha >= 0).all()
    assert (alpha <= C * (1 + 1e-12)).all()
    assert (margin[alpha == 0] > 1 - 1e-9).all()
    full = alpha > C * (1 - 1e-12)
    assert (margin[full] < 1 + 1e-6).all()
    np.testing.assert_allclose(margin[(alpha > 0) & ~full], 1.0, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_decisions_are_those_of_libsvm(shape, C):
    E, sign = two_sides(*shape)
    F, bias = solve_dual(E, sign, C)
    machine = SVC(C=C, kernel="linear", tol=1e-8).fit(E, sign)
    np.testing.assert_allclose(E @ (E.T @ F) + bias, machine.decision_function(E), atol=1e-4)


def test_two_items_by_hand():
    # at -1 and 3: the border lies between them at 1, the margin is 2, w = 1/2, alpha = 1/8
    E, sign = np.array([[-1.0], [3.0]]), np.array([-1, 1], dtype=np.int8)
    F, bias = solve_dual(E, sign, 1.0)
    np.testing.assert_allclose(F, [-1 / 8, 1 / 8], atol=1e-12)
    np.testing.assert_allclose(bias, -1 / 2, atol=1e-12)
    F, _ = solve_dual(E, sign, 0.05)  # a penalty below 1/8 bounds both
    np.testing.assert_allclose(F, [-0.05, 0.05], atol=1e-12)


def test_repeated_items_share_their_multiplier():
    # the optimum is not unique; its centre is symmetric
    E, sign = np.array([[-1.0], [3.0], [3.0], [3.0]]), np.array([-1, 1, 1, 1], dtype=np.int8)
    F, bias = solve_dual(E, sign, 1.0)
    np.testing.assert_allclose(F, [-1 / 8, 1 / 24, 1 / 24, 1 / 24], atol=1e-9)
    np.testing.assert_allclose(bias, -1 / 2, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_order_of_items_does_not_matter(shape):
    E, sign = two_sides(*shape)
    E, sign = np.vstack([E, E[:10]]), np.r_[sign, sign[:10]]
    F, bias = solve_dual(E, sign, 5.0)
    order = np.random.default_rng(1).permutation(len(E))
    shuffled, same_bias = solve_dual(E[order], sign[order], 5.0)
    np.testing.assert_allclose(shuffled, F[order], atol=1e-7)
    np.testing.assert_allclose(same_bias, bias, atol=1e-8)


def test_items_that_carry_no_information():
    # all at one point: every direction is as good as none, and the larger side wins
    sign = np.array([1, 1, 1, -1], dtype=np.int8)
    for E in (np.zeros((4, 3)), np.ones((4, 2))):
        F, bias = solve_dual(E, sign, 1.0)
        assert np.isfinite(F).all()
        np.testing.assert_allclose(E @ (E.T @ F) + bias, 1.0, atol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e3])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_move_of_the_items_changes_the_bias_alone_and_their_scale_stands_for_the_penalty(shift, scale):
    E, sign = two_sides(60, 6)
    F, bias = solve_dual(E, sign, 2.0)
    moved, moved_bias = solve_dual(scale * (E + shift), sign, 2.0 / scale**2)
    np.testing.assert_allclose(scale**2 * moved, F, atol=1e-7)
    np.testing.assert_allclose(moved_bias, bias - shift * (E.T @ F).sum(), atol=1e-6 * (1 + shift))


def test_features_of_many_scales_stop_where_rounding_takes_over():
    # margins are differences of numbers 1e11 times as large: LibSVM ends nowhere near, the path near enough
    rng = np.random.default_rng(1)
    E = rng.normal(size=(51, 35)) * 10.0 ** rng.integers(-4, 5, size=35)
    sign = rng.choice([-1, 1], size=51).astype(np.int8)
    F, bias = solve_dual(E, sign, 10.0)
    w, alpha = E.T @ F, F * sign
    primal = w @ w / 2 + 10.0 * np.maximum(0.0, 1 - sign * (E @ w + bias)).sum()
    assert alpha.min() >= 0
    assert alpha.max() <= 10.0
    assert primal - (alpha.sum() - w @ w / 2) < 1e-3 * primal


def test_large_machines_go_to_libsvm(monkeypatch):
    E, sign = two_sides(80, 5)
    exact, bias = svm_trainer(E)(sign, 1.0)
    np.testing.assert_array_equal(exact, solve_dual(E, sign, 1.0)[0])
    monkeypatch.setattr("embedding_core.margin.machines.EXACT_SIZE", 4)
    for gram_bytes in (1e9, 0.0):
        monkeypatch.setattr("embedding_core.margin.machines.GRAM_BYTES", gram_bytes)
        F, b = svm_trainer(E)(sign, 1.0)
        assert 0 < np.abs(E.T @ (F - exact)).max() < 1e-2
        np.testing.assert_allclose(b, bias, atol=1e-2)
