"""LPSSVM for classes and for labels, and its choices by cross-validation."""

import numpy as np
import pytest
from scipy.special import expit

from embedding_core.graph.affinity import build_gaussian_graph
from embedding_core.labels import as_indicator
from embedding_core.margin.kernel_classifier import decide, dimension_candidates
from embedding_core.margin.lpssvm import LPSSVM
from embedding_core.model_selection.folds import stratified_folds
from tests.literal_margin import two_classes
from tests.synthetic import multi_label, projector, single_label

# --- classes and labels


def test_every_label_has_the_machine_it_would_have_alone():
    X, Y = multi_label()
    Y[1::3] = -1
    W = build_gaussian_graph(X)
    together = LPSSVM(n_components=5).fit(X, Y, W)
    assert together.decision_function(X).shape == (60, 4)
    assert together.embedding_.shape == (60, 20)
    for k in range(4):
        alone = LPSSVM(n_components=5).fit(X, Y[:, [k]], W)
        np.testing.assert_allclose(
            together.decision_function(X)[:, [k]], alone.decision_function(X), atol=1e-9
        )
        np.testing.assert_allclose(together.embedding_[:, 5 * k : 5 * k + 5], alone.embedding_, atol=1e-9)


def test_classes_are_one_against_the_rest_and_the_largest_decision_wins():
    X, y = single_label()
    hidden = np.where(np.arange(60) % 3 == 1, -1, y)
    W = build_gaussian_graph(X)
    names = np.array(["ant", "bee", "cow", "dog"])
    classes = LPSSVM(n_components=6).fit(X, hidden, W)
    columns = LPSSVM(n_components=6).fit(X, as_indicator(hidden).Y, W)
    np.testing.assert_array_equal(classes.decision_function(X), columns.decision_function(X))
    np.testing.assert_array_equal(classes.predict(X), classes.decision_function(X).argmax(axis=1))
    labels = np.array([None if c < 0 else names[c] for c in hidden], dtype=object)
    named = LPSSVM(n_components=6).fit(X, labels, W)
    np.testing.assert_array_equal(named.predict(X), names[classes.predict(X)])
    assert (classes.predict(X) == y).mean() > 0.7


def test_two_classes_have_one_machine_and_mirrored_columns():
    X, y, W = two_classes()
    one = LPSSVM(n_components=4).fit(X, y, W)
    both = LPSSVM(n_components=4).fit(X, as_indicator(y).Y, W)
    assert one.decision_function(X).shape == (60,)
    np.testing.assert_allclose(both.decision_function(X)[:, 1], one.decision_function(X))
    np.testing.assert_allclose(both.decision_function(X)[:, 0], -one.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(one.predict_scores(X).sum(axis=1), 1.0)
    np.testing.assert_array_equal(one.predict(X), (one.decision_function(X) > 0).astype(int))


def test_scores_are_logistic_in_the_decision():
    X, Y = multi_label()
    model = LPSSVM(kernel="linear").fit(X, Y)
    scores = model.predict_scores(X)
    np.testing.assert_allclose(scores, expit(model.decision_function(X)))
    np.testing.assert_array_equal(model.predict(X), scores > 0.5)
    assert scores.shape == (60, 4)
    assert ((scores >= 0) & (scores <= 1)).all()


def test_constant_labels_are_predicted_as_constants():
    X, Y = multi_label()
    Y[:, 1], Y[:, 3] = 0, 1
    Y[::2] = -1
    model = LPSSVM(kernel="linear", n_components=2).fit(X, Y)
    decisions = model.decision_function(X)
    assert (decisions[:, 1] == -1).all()
    assert (decisions[:, 3] == 1).all()
    assert model.n_components_.tolist() == [2, 0, 2, 0]
    assert model.embedding_.shape == (60, 4)
    assert model.predict(X)[:, [1, 3]].tolist() == [[0, 1]] * 60


def test_unlabeled_items_shape_the_subspace():
    X, y, _ = two_classes()
    moved = X.copy()
    moved[1::2] += np.random.default_rng(0).normal(size=(30, 7))
    fit = lambda items: LPSSVM(kernel="linear", n_components=2).fit(items, y, build_gaussian_graph(items))  # noqa: E731
    gap = np.abs(projector(fit(X).projection_) - projector(fit(moved).projection_)).max()
    assert gap > 1e-3


# --- choices by cross-validation


@pytest.mark.slow
def test_dimension_by_cross_validation_is_the_best_candidate_by_refits():
    X, y, W = two_classes()
    model = LPSSVM(kernel="linear", n_components="cv", C=10.0).fit(X, y, W)
    scores, times = {}, (y >= 0).astype(float)
    for r in (1, 2, 4, 7):
        found = []
        for _, test in stratified_folds(as_indicator(y).Y, 5, seed=0):
            hidden = y.copy()
            hidden[test] = -1
            refit = LPSSVM(kernel="linear", n_components=r, C=10.0).fit(X, hidden, W)
            found.append((refit.predict(X[test]) == y[test]).mean())
        scores[r] = np.mean(found)
        plain = LPSSVM(kernel="linear", n_components=r, C=10.0).fit(X, y, W)
        np.testing.assert_allclose(plain._graph_score(X, as_indicator(y), times, W), scores[r])
    best = max(scores, key=scores.get)
    assert model.n_components_.tolist() == [best]
    fixed = LPSSVM(kernel="linear", n_components=best, C=10.0).fit(X, y, W)
    np.testing.assert_array_equal(model.decision_function(X), fixed.decision_function(X))


@pytest.mark.slow
def test_c_and_sigma_by_cross_validation():
    X, Y = multi_label()
    Y[::3] = -1
    model = LPSSVM(kernel="linear", C="cv", n_components="cv").fit(X, Y, build_gaussian_graph(X))
    assert model.C_ in (0.1, 1.0, 10.0, 100.0)
    assert len(set(model.n_components_)) == 1
    X, y, _ = two_classes()
    chosen = LPSSVM(kernel="linear", sigma="cv", n_neighbors=12).fit(X, y)
    scale = LPSSVM(kernel="linear", n_neighbors=12).fit(X, y).sigma_
    assert np.isclose(chosen.sigma_ / scale, [1 / 64, 1 / 16, 1 / 4, 1, 4]).any()
    fixed = LPSSVM(kernel="linear", sigma=chosen.sigma_, n_neighbors=12).fit(X, y)
    np.testing.assert_array_equal(fixed.projection_, chosen.projection_)


def test_cross_validation_with_two_labeled_items():
    X, _, W = two_classes()
    y = np.r_[0, 1, np.full(58, -1)]
    assert np.isfinite(LPSSVM(n_components="cv", C="cv").fit(X, y, W).decision_function(X)).all()


def test_candidates_and_decisions():
    assert dimension_candidates(1) == [1]
    assert dimension_candidates(8) == [1, 2, 4, 8]
    assert dimension_candidates(11) == [1, 2, 4, 8, 11]
    f = np.array([[-1.0, -2.0], [0.0, 3.0]])
    assert decide(f, multi_label=True).tolist() == [[0, 0], [0, 1]]
    assert decide(f, multi_label=False).tolist() == [[1, 0], [0, 1]]
    assert decide(np.array([[0.5], [-0.5]]), multi_label=False).tolist() == [[0, 1], [1, 0]]
