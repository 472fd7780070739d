"""CF, HF, MLGF and SMSE: their equations, limits and extension to new items."""

import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading

from embedding_core.graph.affinity import build_gaussian_graph, build_knn_graph
from embedding_core.labels import as_indicator, label_correlation
from embedding_core.transduction.consistency import LocalGlobalConsistency
from embedding_core.transduction.harmonic import HarmonicFunctions
from embedding_core.transduction.mlgf import MLGF
from embedding_core.transduction.smse import SMSE
from tests.synthetic import literal_laplacian, multi_label, single_label


def partly(n=60, single=False, seed=0):
    """Items, labels with two of three rows hidden, and which rows are labeled."""
    X, y = (single_label if single else multi_label)(n, seed=seed)
    hidden = y.copy()
    hidden[np.arange(n) % 3 > 0] = -1
    return X, hidden, np.arange(n) % 3 == 0


def as_columns(y):
    return (
        (y[:, None] == np.unique(y[y >= 0])).astype(float) if y.ndim == 1 else np.maximum(y, 0).astype(float)
    )


def walk_matrix(W):
    """S = D^(-1/2) W D^(-1/2)."""
    root = 1 / np.sqrt(W.sum(axis=1))
    return root[:, None] * W * root


def label_graph(Y, normalized=False):
    C = label_correlation(Y)
    np.fill_diagonal(C, 0)
    H = np.diag(C.sum(axis=1)) - C
    return H / np.sqrt(np.outer(C.sum(axis=1), C.sum(axis=1))) if normalized else H


GRAPHS = pytest.mark.parametrize(
    ("build", "options"), [(build_knn_graph, {}), (build_gaussian_graph, {"graph": "gaussian"})]
)


@GRAPHS
@pytest.mark.parametrize("single", [True, False])
def test_harmonic_functions_solve_their_equation(build, options, single):
    X, y, labeled = partly(single=single)
    model = HarmonicFunctions(**options).fit(X, y)
    W = build(X)
    W = W.toarray() if sp.issparse(W) else W
    F, Y, L = model.label_distributions_, as_columns(y), literal_laplacian(W)
    np.testing.assert_allclose((L @ F)[~labeled], 0, atol=1e-9 * W.sum(axis=1).max())
    np.testing.assert_array_equal(F[labeled], Y[labeled])
    literal = np.linalg.solve(L[np.ix_(~labeled, ~labeled)], W[np.ix_(~labeled, labeled)] @ Y[labeled])
    np.testing.assert_allclose(F[~labeled], literal, atol=1e-8)


def test_harmonic_rows_sum_to_one_and_stay_within_the_labels():
    X, y, labeled = partly(single=True)
    F = HarmonicFunctions().fit(X, y).label_distributions_
    np.testing.assert_allclose(F.sum(axis=1), 1.0, atol=1e-8)
    X, Y, labeled = partly()
    F = HarmonicFunctions().fit(X, Y).label_distributions_
    assert F.min() > -1e-8 and F.max() < 1 + 1e-8
    assert F[~labeled].min() > 0 and F[~labeled].max() < 1  # extremes lie at labeled items only


def test_a_star_takes_the_weighted_mean_of_its_labeled_ends():
    W = np.zeros((4, 4))
    W[0, 1:] = W[1:, 0] = [1.0, 2.0, 5.0]
    model = HarmonicFunctions().fit(np.zeros((4, 1)), [-1, 0, 1, 1], affinity=W)
    np.testing.assert_allclose(model.label_distributions_[0], [1 / 8, 7 / 8])
    assert model.transduction_.tolist() == [1, 0, 1, 1]


def test_every_item_is_harmonic_however_small_its_degree():
    rng = np.random.default_rng(0)
    X, y, labeled = partly(single=True)
    W = build_knn_graph(X).toarray()
    scale = 10.0 ** rng.uniform(-6, 0, len(W))
    W *= np.outer(scale, scale)
    F = HarmonicFunctions().fit(X, y, affinity=W).label_distributions_
    mean_of_neighbors = W @ F / W.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(F[~labeled], mean_of_neighbors[~labeled], atol=1e-9)


def test_a_weakly_linked_part_keeps_rows_that_sum_to_one():
    W = np.kron(np.eye(2), np.ones((5, 5)) - np.eye(5))
    W[4, 5] = W[5, 4] = 1e-14  # below what the residual can tell
    y = np.array([0, 1, -1, -1, -1, -1, -1, -1, -1, -1])
    F = HarmonicFunctions().fit(np.zeros((10, 1)), y, affinity=W).label_distributions_
    np.testing.assert_allclose(F.sum(axis=1), 1.0, atol=1e-8)
    np.testing.assert_allclose(F[5:], 0.5, atol=1e-6)


@pytest.mark.parametrize("single", [True, False])
def test_consistency_is_its_closed_form(single):
    X, y, labeled = partly(single=single)
    model = LocalGlobalConsistency(alpha=0.9).fit(X, y)
    W = build_knn_graph(X).toarray()
    spread = 0.1 * np.linalg.inv(np.eye(len(X)) - 0.9 * walk_matrix(W))
    np.testing.assert_allclose(model.label_distributions_, spread @ as_columns(y), atol=1e-12)
    # the paper's rule for two classes: "has it" against "has it not"
    F_no = spread @ (labeled[:, None] * (1 - as_columns(y)))
    np.testing.assert_allclose(
        model.shares_, spread @ as_columns(y) / (spread @ as_columns(y) + F_no), atol=1e-9
    )


def test_consistency_agrees_with_label_spreading():
    X, y, _ = partly(single=True)
    W = build_knn_graph(X)
    model = LocalGlobalConsistency(alpha=0.8, decision="half").fit(X, y, affinity=W)
    theirs = LabelSpreading(kernel=lambda A, B: W.toarray(), alpha=0.8, max_iter=5000, tol=1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(X, y)
    np.testing.assert_allclose(model.shares_, theirs.label_distributions_, atol=1e-9)
    np.testing.assert_array_equal(model.transduction_, theirs.transduction_)


@GRAPHS
def test_mlgf_solves_its_sylvester_equation(build, options):
    X, Y, labeled = partly()
    model = MLGF(nu=0.3, **options).fit(X, Y)
    W = build(X)
    W = W.toarray() if sp.issparse(W) else W
    L, H, d = literal_laplacian(W), label_graph(Y), W.sum() / len(W)
    F, Y_l = model.label_distributions_, Y[labeled].astype(float)
    np.testing.assert_array_equal(F[labeled], Y_l)
    np.testing.assert_allclose((L @ F / d + 0.3 * F @ H)[~labeled], 0, atol=1e-8)
    literal = scipy.linalg.solve_sylvester(
        L[np.ix_(~labeled, ~labeled)] / d, 0.3 * H, W[np.ix_(~labeled, labeled)] @ Y_l / d
    )
    np.testing.assert_allclose(F[~labeled], literal, atol=1e-8)
    assert F[~labeled].min() > 0 and F[~labeled].max() < 1
    np.testing.assert_allclose(model.label_laplacian_, H)


def test_mlgf_without_label_graph_is_the_harmonic_function():
    X, Y, _ = partly()
    plain = HarmonicFunctions(decision="prior").fit(X, Y)
    for model in (MLGF(nu=0).fit(X, Y), SMSE(nu=0, variant="hard").fit(X, Y)):
        np.testing.assert_allclose(model.label_distributions_, plain.label_distributions_, atol=1e-9)
        np.testing.assert_array_equal(model.transduction_, plain.transduction_)
    assert abs(MLGF().fit(X, Y).label_distributions_ - plain.label_distributions_).max() > 1e-3
    X, y, _ = partly(single=True)  # no two classes occur together
    np.testing.assert_allclose(
        MLGF(nu=5).fit(X, y).label_distributions_,
        HarmonicFunctions().fit(X, y).label_distributions_,
        atol=1e-9,
    )


def test_mlgf_does_not_depend_on_the_unit_of_the_affinity():
    X, Y, _ = partly()
    W = build_knn_graph(X)
    one, other = (MLGF().fit(X, Y, affinity=c * W) for c in (1.0, 1e6))
    np.testing.assert_allclose(one.label_distributions_, other.label_distributions_, atol=1e-8)


def test_strong_label_links_draw_labels_together():
    X, Y, labeled = partly()
    gaps = [np.ptp(MLGF(nu=nu).fit(X, Y).label_distributions_[~labeled], axis=1).mean() for nu in (0, 1, 100)]
    assert gaps[0] > 1.2 * gaps[1] > 1.2 * gaps[2]


def test_smse_solves_its_sylvester_equation():
    X, Y, labeled = partly()
    model = SMSE(mu=5, nu=0.7).fit(X, Y)
    W = build_knn_graph(X).toarray()
    A = np.eye(len(X)) + 5 * (np.eye(len(X)) - walk_matrix(W))
    H = label_graph(Y, normalized=True)
    F = model.label_distributions_
    np.testing.assert_allclose(A @ F + 0.7 * F @ H, as_columns(Y), atol=1e-10)
    np.testing.assert_allclose(F, scipy.linalg.solve_sylvester(A, 0.7 * H, as_columns(Y)), atol=1e-10)
    if_all = scipy.linalg.solve_sylvester(A, 0.7 * H, np.tile(labeled[:, None], (1, 4)).astype(float))
    half = SMSE(mu=5, nu=0.7, decision="half").fit(X, Y)
    np.testing.assert_allclose(half.transduction_scores_, F / if_all, atol=1e-9)


@pytest.mark.parametrize("single", [True, False])
def test_smse_without_label_graph_is_local_and_global_consistency(single):
    X, y, _ = partly(single=single)
    one, other = SMSE(mu=4, nu=0).fit(X, y), LocalGlobalConsistency(alpha=0.8).fit(X, y)
    np.testing.assert_allclose(one.label_distributions_, other.label_distributions_, atol=1e-11)
    np.testing.assert_allclose(one.transduction_scores_, other.transduction_scores_, atol=1e-8)


def test_hard_smse_with_the_same_label_graph_is_mlgf():
    X, Y, _ = partly()
    one, other = SMSE(nu=0.4, variant="hard").fit(X, Y), MLGF(nu=0.4).fit(X, Y)
    np.testing.assert_array_equal(one.label_distributions_, other.label_distributions_)


@pytest.mark.parametrize("kind", [LocalGlobalConsistency, HarmonicFunctions, MLGF])
@pytest.mark.parametrize("options", [{"n_neighbors": 4}, {"graph": "gaussian", "sigma": 3.0}])
def test_new_items_have_the_weighted_mean_of_the_shares(kind, options):
    X, Y, _ = partly()
    new = X[:7] + 0.3
    model = kind(decision="half", **options).fit(X, Y)
    squared = ((new[:, None] - X) ** 2).sum(axis=2)
    weight = np.exp(-squared / (2 * model.sigma_))
    if "graph" not in options:
        weight[squared > np.sort(squared, axis=1)[:, 3:4]] = 0
    literal = weight @ model.shares_ / weight.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_scores(new), literal, atol=1e-12)
    np.testing.assert_array_equal(model.predict(new), literal > 0.5)


def test_with_a_given_affinity_the_nearest_items_count_alike_for_new_ones():
    X, y, _ = partly(single=True)
    model = HarmonicFunctions(n_neighbors=3).fit(X, y, affinity=build_knn_graph(X, sigma=50.0))
    nearest = np.argsort(((X[5] + 0.1 - X) ** 2).sum(axis=1))[:3]
    literal = model.shares_[nearest].mean(axis=0)
    best, second = np.sort(literal)[[-1, -2]]
    expected = literal / (literal + np.where(literal == best, second, best))
    np.testing.assert_allclose(model.predict_scores([X[5] + 0.1])[0], expected)
    assert model.sigma_ is None


def test_items_far_away_get_an_answer():
    X, y, _ = partly(single=True)
    scores = HarmonicFunctions(graph="gaussian").fit(X, y).predict_scores(X[:3] + 1e4)
    assert np.isfinite(scores).all()
    assert (scores > 0).all()


def test_sigma_is_chosen_by_cross_validation():
    X, y, _ = partly(90, single=True)
    scale = HarmonicFunctions().fit(X, y).sigma_
    model = HarmonicFunctions(sigma="cv").fit(X, y)
    assert model.sigma_ / scale in (1 / 64, 1 / 16, 1 / 4, 1, 4)
    scores = {
        factor: HarmonicFunctions()._cv_score(X, build_knn_graph(X, sigma=factor * scale), as_indicator(y))
        for factor in (1 / 64, 1 / 16, 1 / 4, 1, 4)
    }
    assert scores[model.sigma_ / scale] == max(scores.values()) > min(scores.values())
