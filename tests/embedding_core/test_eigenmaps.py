"""Laplacian eigenmaps, CCDR and Constraint Score: defining equations, literal versions, limits."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.manifold import SpectralEmbedding

from embedding_core.eigenmaps.ccdr import CCDR
from embedding_core.eigenmaps.combined_graph import build_half_knn_graph
from embedding_core.eigenmaps.constraint_score import ConstraintScore
from embedding_core.eigenmaps.laplacian_eigenmaps import LaplacianEigenmaps
from embedding_core.eigenmaps.slapeig import SLapEig
from embedding_core.eigenmaps.sle import SLE
from embedding_core.eigenmaps.sle_ml import SLEML
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.labels import as_indicator
from tests.literal_eigenmaps import (
    check_laplacian_pairs,
    literal_heat,
    literal_mean_square,
    literal_squares,
    overlapping,
    partly_labeled,
)
from tests.synthetic import multi_label, single_label

FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.float32])


# Laplacian eigenmaps


@FORMS
@pytest.mark.parametrize("sigma", ["auto", 5.0])
def test_laplacian_eigenmap_is_the_literal_one(form, sigma):
    X, y = overlapping()
    model = LaplacianEigenmaps(sigma=sigma, n_neighbors=9, n_components=4).fit(form(X), y)
    X = np.asarray(form(X) if form is np.float32 else X, dtype=np.float64)
    np.testing.assert_allclose(model.sigma_, literal_mean_square(X) if sigma == "auto" else 5.0)
    W = literal_heat(X, 9, model.sigma_)
    np.testing.assert_allclose(model.degree_, W.sum(axis=1))
    check_laplacian_pairs(model.embedding_, model.eigenvalues_, W)


def test_laplacian_eigenmap_does_not_use_labels():
    X, y = overlapping()
    model = LaplacianEigenmaps(n_neighbors=9).fit(X, y)
    shuffled = LaplacianEigenmaps(n_neighbors=9).fit(X, np.random.default_rng(0).permutation(y))
    assert model.embedding_.tobytes() == shuffled.embedding_.tobytes()
    alone = LaplacianEigenmaps(n_neighbors=9, n_components=3).fit(X, np.zeros(60, dtype=int))
    assert model.embedding_.tobytes() == alone.embedding_.tobytes()
    assert LaplacianEigenmaps(n_neighbors=9).fit(X, np.zeros(60, dtype=int)).embedding_.shape == (60, 1)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_laplacian_eigenmap_equals_that_of_scikit_learn(form):
    """SpectralEmbedding divides unit eigenvectors by the square roots of the degrees: the same scaling."""
    X, y = overlapping(120)
    W = build_knn_graph(X, 10, "heat")
    W = W if form == "sparse" else W.toarray()
    theirs = SpectralEmbedding(4, affinity="precomputed", eigen_solver="arpack", random_state=0)
    Z = theirs.fit_transform(sp.csr_matrix(W) if form == "sparse" else W)
    model = LaplacianEigenmaps(n_components=4).fit(X, y, affinity=W)
    signs = np.sign((Z * model.embedding_).sum(axis=0))
    np.testing.assert_allclose(model.embedding_, Z * signs, atol=1e-7)
    assert model.sigma_ is None


def test_sle_ml_at_balance_one_is_the_laplacian_eigenmap_of_its_graph_not_of_gaussian_weights():
    X, Y = multi_label()
    model = SLEML(balance=1.0, n_neighbors=9).fit(X, Y)
    same = LaplacianEigenmaps().fit(X, Y, affinity=build_half_knn_graph(X, 9))
    np.testing.assert_allclose(model.embedding_, same.embedding_, atol=1e-10)
    gaussian = LaplacianEigenmaps(n_neighbors=9).fit(X, Y)
    assert np.abs(gaussian.eigenvalues_ - model.eigenvalues_).max() > 1e-3


# CCDR


def literal_ccdr(X, Y, k, sigma, balance):
    """W of Eq. 2 on items and class centers, from the cost of one pair at a time."""
    W, (n, K) = literal_heat(X, k, sigma), Y.shape
    both = np.zeros((n + K, n + K))
    for i in range(n):
        for j in range(n):
            both[i, j] += balance * W[i, j]
        for c in range(K):
            if Y[i, c] == 1:
                both[i, n + c] += (1 - balance) / 2
                both[n + c, i] += (1 - balance) / 2
    return both


@FORMS
@pytest.mark.parametrize("make", [overlapping, multi_label])
@pytest.mark.parametrize("balance", [0.01, 0.5])
def test_ccdr_is_the_literal_one(form, make, balance):
    X, Y = partly_labeled(make)
    model = CCDR(balance=balance, n_neighbors=9).fit(form(X), Y)
    X = np.asarray(form(X) if form is np.float32 else X, dtype=np.float64)
    nearest = np.sort(literal_squares(X), axis=1)[:, 1]
    np.testing.assert_allclose(model.sigma_, 10 * nearest.mean())
    W = literal_ccdr(X, as_indicator(Y).Y, 9, model.sigma_, balance)
    Z = np.vstack([model.embedding_, model.class_centers_])
    check_laplacian_pairs(Z, model.eigenvalues_, W)
    np.testing.assert_allclose(model.degree_, W.sum(axis=1)[:60])


def test_ccdr_minimizes_the_printed_cost():
    X, y = overlapping()
    model = CCDR(balance=0.3, n_neighbors=9).fit(X, y)
    W, Z, centers = literal_heat(X, 9, model.sigma_), model.embedding_, model.class_centers_
    cost = 0.3 * (W[:, :, None] * (Z[:, None] - Z) ** 2).sum(axis=(0, 1))
    cost += 0.7 * ((centers[y] - Z) ** 2).sum(axis=0)
    np.testing.assert_allclose(cost, 2 * model.eigenvalues_, atol=1e-10)


def test_ccdr_at_balance_one_is_the_laplacian_eigenmap():
    X, Y = multi_label()
    model = CCDR(balance=1.0, n_neighbors=9, sigma=6.0).fit(X, Y)
    same = LaplacianEigenmaps(n_neighbors=9, sigma=6.0).fit(X, Y)
    np.testing.assert_allclose(model.embedding_, same.embedding_, atol=1e-10)
    np.testing.assert_array_equal(model.class_centers_, 0)


def test_ccdr_at_balance_zero_puts_each_class_on_its_center():
    X, y = overlapping()
    model = CCDR(balance=0.0).fit(X, y)
    np.testing.assert_array_equal(model.eigenvalues_, 0)
    np.testing.assert_allclose(model.embedding_, model.class_centers_[y], atol=1e-12)
    assert len(np.unique(model.class_centers_.round(9), axis=0)) == 4
    with pytest.warns(UserWarning, match="20 of 60 items have no link"):
        CCDR(balance=0.0).fit(*partly_labeled(overlapping))


def test_a_small_balance_of_ccdr_shows_classes_that_one_half_does_not():
    X, y = load_iris(return_X_y=True)
    spread = {}
    for balance in (0.5, 1e-3):
        Z = CCDR(balance=balance).fit(X, y).embedding_
        within = sum(((Z[y == c] - Z[y == c].mean(axis=0)) ** 2).sum() for c in range(3))
        spread[balance] = within / ((Z - Z.mean(axis=0)) ** 2).sum()
    assert spread[1e-3] < 0.05 < 0.2 < spread[0.5]


def test_ccdr_with_duplicate_items_and_unused_labels():
    X, Y = multi_label(30)
    X, Y = np.vstack([X, X]), np.vstack([Y, Y])
    Y = np.hstack([Y, np.zeros((60, 1), dtype=np.int8)])
    model = CCDR(n_neighbors=9).fit(X, Y)
    assert model.sigma_ > 0
    assert np.isfinite(model.embedding_).all()
    np.testing.assert_array_equal(model.class_centers_[4], 0)


# Constraint Score


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 50.0])
def test_constraint_score_solves_its_eigenproblem_and_does_not_depend_on_beta(beta):
    X, y = single_label()
    model = ConstraintScore(beta=beta).fit(X, y)
    same = (y[:, None] == y).astype(float)
    W = same - beta * (1 - same)
    L = np.diag(W.sum(axis=1)) - W
    Z = model.embedding_
    np.testing.assert_allclose(Z.T @ Z, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(L @ Z, Z * model.eigenvalues_, atol=1e-9)
    np.testing.assert_allclose(Z.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(model.eigenvalues_, -beta * 60)
    besides_constant = L + 1e6 * np.ones((60, 60))
    np.testing.assert_allclose(np.linalg.eigvalsh(besides_constant)[:3], model.eigenvalues_, atol=1e-6)
    assert len(np.unique(Z, axis=0)) == 4
    assert ConstraintScore(beta=7.0).fit(X, y).embedding_.tobytes() == Z.tobytes()


def test_constraint_score_is_sle_ml_with_only_balanced_labels():
    X, y = single_label()
    model = ConstraintScore().fit(X, y)
    same = SLEML(balance=0.0, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(model.embedding_, same.embedding_ * np.sqrt(60 / 4), atol=1e-12)


def test_constraint_score_places_unlabeled_items_by_the_map():
    X, y = partly_labeled(overlapping)
    model = ConstraintScore().fit(X, y)
    known = y >= 0
    np.testing.assert_allclose(model.embedding_[~known], model.transform(X[~known]))
    alone = ConstraintScore().fit(X[known], y[known])
    np.testing.assert_array_equal(model.embedding_[known], alone.embedding_)
    np.testing.assert_array_equal(model.degree_, known)
    np.testing.assert_array_equal(model.eigenvalues_, -40.0)
    with pytest.raises(InvalidInput, match="n_components=4 exceeds the 3 dimensions that 4 classes span"):
        ConstraintScore(n_components=4).fit(X, y)


@pytest.mark.parametrize("method", [ConstraintScore, SLapEig, SLE])
def test_methods_for_one_class_per_item_refuse_several_labels(method):
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match=rf"Row \d+ of y has \d labels .*{method.__name__} takes exactly"):
        method().fit(X, Y)


ALL_EQUAL = "All 20 items have the same features.*give features that vary"


@pytest.mark.parametrize("method", [ConstraintScore, SLapEig, CCDR, LaplacianEigenmaps])
def test_items_that_all_coincide_give_no_nan(method):
    X, y = np.ones((20, 3)), np.arange(20) % 2
    with pytest.warns(UserWarning, match=ALL_EQUAL):
        model = method().fit(X, y)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.transform(X[:1])).all()


def test_items_that_all_coincide_have_no_links_in_sle():
    X, y = np.ones((20, 3)), np.arange(20) % 2
    with (
        pytest.warns(UserWarning, match=ALL_EQUAL),
        pytest.raises(InvalidInput, match="links no two items"),
    ):
        SLE().fit(X, y)


@pytest.mark.parametrize("method", [SLapEig, CCDR, LaplacianEigenmaps])
def test_components_of_a_supplied_graph_are_separated_with_a_warning(method):
    X, y = overlapping(60, K=2)
    W = np.zeros((60, 60))
    for rows in (slice(0, 25), slice(25, 55)):
        W[rows, rows] = build_knn_graph(X[rows], 12, "heat").toarray()
    y[::3] = -1
    if method is CCDR:  # a class center links the items of its class
        y = np.where(np.arange(60) < 25, 0, 1)
    with pytest.warns(UserWarning) as caught:
        model = method(n_components=2).fit(X, y, affinity=sp.csr_array(W))
    messages = " ".join(str(warning.message) for warning in caught)
    assert "2 components" in messages
    assert ("5 of 60 items have no link" in messages) == (method is not CCDR)
    assert np.ptp(model.embedding_[:25, 0]) == np.ptp(model.embedding_[25:55, 0]) == 0
