"""Decisions from shares, boundaries, and the solver they rest on."""

import numpy as np
import pytest

from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import decide_labels
from embedding_core.labels import as_indicator
from embedding_core.transduction.graph_solvers import TOLERANCE, solve_columns
from embedding_core.transduction.score_rules import DECISIONS, balanced_cuts, make_rule, prior_cuts

LABELED = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [1, 1, 0]])


def target(Y=LABELED):
    return as_indicator(np.vstack([Y, np.full((1, Y.shape[1]), -1)]))


def shares(m=200, seed=0):
    return np.random.default_rng(seed).beta(2, 3, size=(m, 3))


@pytest.mark.parametrize("decision", DECISIONS)
def test_scores_rise_with_the_share_from_0_to_1(decision):
    rule = make_rule(decision, shares(), target())
    scores = rule.scores(np.linspace(0, 1, 50)[:, None] * np.ones(3))
    assert (np.diff(scores, axis=0) > 0).all()
    np.testing.assert_array_equal(scores[[0, -1]], [[0.0] * 3, [1.0] * 3])


def test_half_leaves_shares_as_they_are():
    f = shares()
    np.testing.assert_array_equal(make_rule("half", f, target()).scores(f), f)


def test_mass_is_the_papers_rule_for_two_classes():
    # yes where q f_i / sum f > (1 - q) (1 - f_i) / sum (1 - f)
    f, q = shares(), LABELED.mean(axis=0)
    expected = q * f / f.sum(axis=0) > (1 - q) * (1 - f) / (1 - f).sum(axis=0)
    np.testing.assert_array_equal(decide_labels(make_rule("mass", f, target()).scores(f)), expected)
    assert (expected != (f > 0.5)).any()


def test_mass_is_the_papers_rule_for_several_classes():
    one_each = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    f = shares() / shares().sum(axis=1, keepdims=True)
    expected = one_each.mean(axis=0) * f / f.sum(axis=0)
    scores = make_rule("mass", f, target(one_each)).scores(f)
    np.testing.assert_array_equal(scores.argmax(axis=1), expected.argmax(axis=1))
    others = np.array(
        [[max(row[:k].max(initial=0), row[k + 1 :].max(initial=0)) for k in range(3)] for row in expected]
    )
    np.testing.assert_allclose(scores, expected / (expected + others))
    np.testing.assert_array_equal((scores > 0.5).sum(axis=1), 1)
    np.testing.assert_array_equal(make_rule("prior", f, target(one_each)).scores(f), scores)


def test_prior_says_yes_as_often_as_the_labeled_items_do():
    f = shares()
    yes = decide_labels(make_rule("prior", f, target()).scores(f))
    np.testing.assert_allclose(yes.mean(axis=0), LABELED.mean(axis=0))
    assert (f[yes == 1].min() > f[yes == 0].min()) and (
        f[:, 0][yes[:, 0] == 0].max() < f[:, 0][yes[:, 0] == 1].min()
    )


def test_prior_cuts_lie_half_way_and_respect_ties():
    column = np.array([[0.1], [0.2], [0.2], [0.2], [0.8]])
    assert prior_cuts(column, np.array([0.2])) == pytest.approx(0.5)
    assert prior_cuts(column, np.array([0.7])) == pytest.approx(0.15)
    assert prior_cuts(column, np.array([0.0])) == pytest.approx(0.9)
    assert prior_cuts(column, np.array([1.0])) == pytest.approx(0.05)


@pytest.mark.parametrize("decision", DECISIONS)
def test_labels_that_all_or_none_have_stay_so(decision):
    Y = np.array([[1, 0, 1], [1, 0, 0]])
    f = np.column_stack([np.ones(20), np.zeros(20), np.linspace(0, 1, 20)])
    scores = make_rule(decision, f, target(Y)).scores(f)
    np.testing.assert_array_equal(decide_labels(scores)[:, :2], np.tile([1, 0], (20, 1)))
    assert np.isfinite(scores).all()


def test_without_items_to_decide_every_rule_is_half():
    for decision in DECISIONS:
        np.testing.assert_array_equal(make_rule(decision, np.zeros((0, 3)), target()).yes, 1.0)


def test_balanced_cuts_have_the_least_balanced_error():
    rng = np.random.default_rng(1)
    Y = (rng.random((40, 3)) < 0.3).astype(np.int8)
    scores = np.round(rng.normal(size=(40, 3)) + Y, 1)  # with ties

    def error(cut, k):
        yes = scores[:, k] > cut
        return (~yes)[Y[:, k] == 1].mean() + yes[Y[:, k] == 0].mean()

    for k, cut in enumerate(balanced_cuts(scores, Y)):
        best = min(error(b, k) for b in np.r_[scores[:, k] - 0.05, scores[:, k] + 0.05])
        assert error(cut, k) == pytest.approx(best)
    assert balanced_cuts(np.zeros((3, 2)), np.array([[1, 0]] * 3)).tolist() == [-np.inf, np.inf]
    assert balanced_cuts(np.array([[2.0], [1.0]]), np.array([[0], [1]])) == 2.0  # useless: no to all


def spd(n, seed=0, spread=0.0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    scale = 10 ** rng.uniform(-spread, 0, n)
    return (A @ A.T + n * np.eye(n)) * np.outer(scale, scale)


@pytest.mark.parametrize("spread", [0.0, 6.0])
def test_conjugate_gradients_hold_every_equation(spread):
    A, shifts = spd(50, spread=spread), np.array([0.0, 1.0, 100.0])
    B = np.random.default_rng(1).normal(size=(50, 3)) * np.diag(A)[:, None]
    diagonal = np.diag(A)[:, None] * (1 + shifts)

    def apply(V):
        return A @ V + np.diag(A)[:, None] * shifts * V

    X = solve_columns(apply, diagonal, B, np.zeros((50, 3)))
    assert (abs(B - apply(X)) <= TOLERANCE * diagonal * abs(X).max(axis=0)).all()
    for k, shift in enumerate(shifts):
        np.testing.assert_allclose(
            X[:, k], np.linalg.solve(A + shift * np.diag(np.diag(A)), B[:, k]), rtol=1e-7, atol=1e-9
        )


def test_conjugate_directions_reach_the_solution_in_as_many_steps_as_unknowns():
    A, calls = spd(12), []

    def apply(V):
        calls.append(V)
        return A @ V

    solve_columns(
        apply, np.diag(A)[:, None], np.random.default_rng(1).normal(size=(12, 3)), np.zeros((12, 3))
    )
    assert len(calls) <= 12 + 3


def test_a_solution_given_as_start_is_returned():
    A = spd(10)
    X = np.ones((10, 2))
    np.testing.assert_array_equal(solve_columns(lambda V: A @ V, np.diag(A)[:, None], A @ X, X), X)
    zero = solve_columns(lambda V: A @ V, np.diag(A)[:, None], 0 * X, 0 * X)
    np.testing.assert_array_equal(zero, 0.0)


def test_a_system_that_cannot_be_solved_says_so():
    L = np.array([[1.0, -1.0], [-1.0, 1.0]])  # singular, and the right-hand side not in its range
    with pytest.raises(InvalidInput, match=r"did not converge.*larger n_neighbors"):
        solve_columns(lambda V: L @ V, np.ones((2, 1)), np.ones((2, 1)), np.zeros((2, 1)))
