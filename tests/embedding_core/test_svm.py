"""The exact solver of the machines against optimality conditions, LibSVM, and hand-computed cases."""

import numpy as np
import pytest
from sklearn.svm import SVC

from embedding_core.linalg.kernel_space import Kernel
from embedding_core.margin.svm import kernel_svm_trainer, make_dual, settle, solve_dual, svm_trainer

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
    # the optimum is not unique; its center is symmetric
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


def conditions_hold(E, sign, C, F, bias, weight=1.0):
    """The optimality conditions, to rounding."""
    alpha, margin = F * sign, sign * (E @ (E.T @ F) + bias)
    full = alpha >= C * weight * (1 - 1e-12)
    np.testing.assert_allclose(margin[(alpha > 0) & ~full], 1.0, atol=1e-8)
    assert (margin[alpha == 0] > 1 - 1e-6).all()
    assert (margin[full] < 1 + 1e-6).all()
    assert alpha.min() >= 0
    assert abs(F.sum()) < 1e-6 * alpha.sum()


@pytest.mark.parametrize("shape", [(80, 90), (120, 60)])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize("gram_bytes", [1e9, 0.0])
def test_large_machines_are_those_of_libsvm_to_working_precision(monkeypatch, shape, C, gram_bytes):
    E, sign = two_sides(*shape)
    monkeypatch.setattr("embedding_core.margin.svm.EXACT_SIZE", 4)
    monkeypatch.setattr("embedding_core.margin.svm.GRAM_BYTES", gram_bytes)
    F, bias = svm_trainer(E)(sign, C, np.ones(len(E)))
    conditions_hold(E, sign, C, F, bias)
    exact, b = solve_dual(E, sign, C)
    np.testing.assert_allclose(E.T @ F, E.T @ exact, atol=1e-8 * np.abs(E.T @ exact).max())
    np.testing.assert_allclose(bias, b, atol=1e-7)


def test_too_many_multipliers_between_their_bounds_are_left_to_libsvm(monkeypatch):
    E, sign = two_sides(80, 90)
    exact, bias = solve_dual(E, sign, 1.0)
    monkeypatch.setattr("embedding_core.margin.svm.EXACT_SIZE", 4)
    monkeypatch.setattr("embedding_core.margin.svm.MOST_FREE", 4)
    F, b = svm_trainer(E)(sign, 1.0, np.ones(80))
    assert 1e-9 < np.abs(E.T @ (F - exact)).max() < 1e-2
    np.testing.assert_allclose(b, bias, atol=1e-2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("exact_size", [500, 4])
def test_a_weight_stands_for_copies_of_the_item(monkeypatch, shape, C, exact_size):
    monkeypatch.setattr("embedding_core.margin.svm.EXACT_SIZE", exact_size)
    E, sign = two_sides(*shape)
    times = np.random.default_rng(3).integers(1, 4, len(E))
    F, bias = svm_trainer(E)(sign, C, times.astype(float))
    conditions_hold(E, sign, C, F, bias, times)
    copied, b = solve_dual(E.repeat(times, axis=0), sign.repeat(times), C)
    w = E.repeat(times, axis=0).T @ copied
    np.testing.assert_allclose(E.T @ F, w, atol=1e-6 * np.abs(w).max())
    np.testing.assert_allclose(bias, b, atol=1e-5)
    if shape == (80, 5):  # separable: no multiplier reaches its bound, so weights change nothing
        plain, _ = svm_trainer(E)(sign, C, np.ones(len(E)))
        assert np.abs(E.T @ (F - plain)).max() > 1e-3 * np.abs(w).max()


@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_machines_with_another_kernel(monkeypatch, name):
    items, sign = two_sides(90, 3)
    items, sign = np.vstack([items, items[:9]]), np.r_[sign, sign[:9]]
    kernel, new = Kernel(name, 0.5), two_sides(20, 3, seed=4)[0]
    machine = SVC(C=2.0, kernel=name, gamma=0.5, tol=1e-8).fit(items, sign)
    expected = machine.decision_function(new)
    for gram_bytes, atol in ((1e9, 1e-5), (0.0, 1e-2)):
        monkeypatch.setattr("embedding_core.margin.svm.GRAM_BYTES", gram_bytes)
        F, bias = kernel_svm_trainer(kernel, items)(sign, 2.0, np.ones(99))
        np.testing.assert_allclose(kernel.columns(new, items) @ F + bias, expected, atol=atol)


def test_items_wrongly_put_on_a_bound_are_corrected():
    # LibSVM may be wrong about which items are on a bound: the rounds put that right
    E, sign = two_sides(60, 80)
    exact, bias = solve_dual(E, sign, 1.0)
    start = np.clip(exact * sign + np.random.default_rng(0).normal(scale=0.05, size=60), 0, 1)
    a, b = settle(make_dual(E, sign, 1.0, np.ones(60)), start, bias + 0.1)
    np.testing.assert_allclose(a * sign, exact, atol=1e-9)
    np.testing.assert_allclose(b, bias, atol=1e-9)
