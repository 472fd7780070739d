"""S-LapEig and S-LE, which distinguish pairs within a class from others: literal versions, limits."""

import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from embedding_core.eigenmaps.laplacian_eigenmaps import LaplacianEigenmaps
from embedding_core.eigenmaps.slapeig import SLapEig, mean_distance
from embedding_core.eigenmaps.sle import SLE
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from tests.literal_eigenmaps import (
    check_laplacian_pairs,
    literal_eigenmap,
    literal_mean_square,
    literal_neighbors,
    literal_squares,
    overlapping,
    partly_labeled,
    same_span,
)
from tests.synthetic import single_label

FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.float32])


# S-LapEig


def literal_slapeig(X, y, k, sigma, tau):
    """W of Sect. 2.4 pair by pair; d² = t = |x_i - x_j|² / τ² if a class is unknown."""
    n = len(X)
    d = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            t = ((X[i] - X[j]) ** 2).sum() / tau
            known = y[i] >= 0 and y[j] >= 0
            d[i, j] = (1 - np.exp(-t) if y[i] == y[j] else np.exp(t)) if known else t
    near = literal_neighbors(d, k)
    return np.exp(-d / sigma) * np.maximum(near, near.T)


@FORMS
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("k", "sigma", "tau"), [(25, 1.0, "auto"), (45, 0.4, 30.0)])
def test_slapeig_is_the_literal_one(form, hidden, k, sigma, tau):
    X, y = partly_labeled(overlapping) if hidden else overlapping()
    model = SLapEig(n_neighbors=k, sigma=sigma, tau=tau, n_components=4).fit(form(X), y)
    X = np.asarray(form(X) if form is np.float32 else X, dtype=np.float64)
    mean = np.sqrt(literal_squares(X)).sum() / (60 * 59)
    np.testing.assert_allclose(model.tau_, mean**2 if tau == "auto" else tau, rtol=1e-6)
    W = literal_slapeig(X, y, k, sigma, model.tau_)
    np.testing.assert_allclose(model.degree_, W.sum(axis=1), rtol=1e-6)
    mu, Z = literal_eigenmap(W, 4)
    np.testing.assert_allclose(model.eigenvalues_, mu, atol=1e-6)
    same_span(model.embedding_, Z, model.degree_, atol=1e-5)
    if form is np.asarray:
        check_laplacian_pairs(model.embedding_, model.eigenvalues_, W)


def test_slapeig_reads_a_supplied_graph_as_exp_minus_t():
    X, y = partly_labeled(overlapping)
    tau = mean_distance(X) ** 2
    affinity = np.exp(-literal_squares(X) / tau)
    given = SLapEig().fit(X, y, affinity=affinity)
    own = SLapEig(n_neighbors=59).fit(X, y)
    np.testing.assert_allclose(given.eigenvalues_, own.eigenvalues_, atol=1e-9)
    same_span(given.embedding_, own.embedding_, own.degree_)
    assert given.tau_ is None


def test_slapeig_divides_a_supplied_graph_by_its_largest_entry_if_above_one():
    X, y = partly_labeled(overlapping)
    W = build_knn_graph(X, 15, "heat")
    W /= W.max()
    small, large = (SLapEig().fit(X, y, affinity=sp.csr_array(factor * W)) for factor in (1.0, 5.0))
    np.testing.assert_allclose(large.embedding_, small.embedding_, atol=1e-9)


def test_slapeig_of_unlabeled_items_is_the_laplacian_eigenmap():
    """Only two items have a class, and they are not neighbors: all pairs have d² = t."""
    X, _ = overlapping()
    y = np.full(60, -1)
    y[[0, np.argmax(literal_squares(X)[0])]] = 0, 1
    model = SLapEig(n_neighbors=9, sigma=0.5, tau=20.0, n_components=2).fit(X, y)
    same = LaplacianEigenmaps(n_neighbors=9, sigma=10.0, n_components=2).fit(X, y)
    np.testing.assert_allclose(model.eigenvalues_, same.eigenvalues_, atol=1e-9)
    same_span(model.embedding_, same.embedding_, same.degree_)


def test_slapeig_with_fewer_neighbors_than_the_class_size_separates_classes():
    X, y = single_label(80, K=2)
    with pytest.warns(UserWarning, match=r"has 2 components .*A larger n_neighbors may join them"):
        model = SLapEig(n_neighbors=12, n_components=1).fit(X, y)
    assert np.ptp(model.embedding_[y == 0]) == np.ptp(model.embedding_[y == 1]) == 0


def test_slapeig_with_weights_that_underflow():
    X, y = single_label(60, K=2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The graph of neighbors")
        model = SLapEig(tau=1e-3, sigma=1e-2).fit(X, y)
        assert np.isfinite(model.embedding_).all()
        W = build_knn_graph(X, 12, "heat").toarray()
        one, other = np.argmin(y), np.argmax(y)
        W[one, other] = W[other, one] = 1e-306
        model = SLapEig(sigma=1e-3).fit(X, y, affinity=W)
        assert np.isfinite(model.embedding_).all()


def test_slapeig_far_from_the_origin_is_the_same():
    X, y = overlapping(
        60, 20
    )  # with up to 15 features scikit-learn searches a tree, which does not have this problem
    near, far = (SLapEig(n_neighbors=30, tau=50.0).fit(items, y) for items in (X, X + 2.0**24))
    np.testing.assert_allclose(far.degree_, near.degree_, rtol=1e-6)


# S-LE


def literal_sle(X, y, sigma):
    """W^W and W^B of Sect. 2.5 pair by pair."""
    n = len(X)
    s = np.exp(-literal_squares(X) / sigma)
    W_w, W_b = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            near = s[i, j] > s[i].mean() or s[i, j] > s[j].mean()
            if near and y[i] >= 0 and y[j] >= 0:
                W_w[i, j] = s[i, j] * (y[i] == y[j])
                W_b[i, j] = y[i] != y[j]
    return W_w, W_b


@FORMS
@pytest.mark.parametrize("beta", [0.0, 0.1, 0.7, 1.0])
def test_sle_is_the_literal_one(form, beta):
    X, y = partly_labeled(overlapping)
    model = SLE(beta=beta, n_components=4).fit(form(X), y)
    X = np.asarray(form(X) if form is np.float32 else X, dtype=np.float64)
    np.testing.assert_allclose(model.sigma_, literal_mean_square(X))
    W_w, W_b = literal_sle(X, y, model.sigma_)
    np.testing.assert_allclose(model.degree_, W_w.sum(axis=1))
    known = y >= 0
    W_w, W_b, Z = W_w[known][:, known], W_b[known][:, known], model.embedding_[known]
    D = np.diag(W_w.sum(axis=1))
    B = beta * (np.diag(W_b.sum(axis=1)) - W_b) - (1 - beta) * (D - W_w)
    np.testing.assert_allclose(Z.T @ D @ Z, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(B @ Z, D @ Z * model.eigenvalues_, atol=1e-8)
    np.testing.assert_allclose(D.sum(axis=0) @ Z, 0, atol=1e-9)
    d = D.sum(axis=0)
    nu = scipy.linalg.eigh(B - 1e6 * np.outer(d, d) / d.sum(), D, eigvals_only=True)[::-1]
    np.testing.assert_allclose(model.eigenvalues_, nu[:4], atol=1e-7)
    np.testing.assert_allclose(model.embedding_[~known], model.transform(form(X)[~known]), atol=1e-6)


def test_sle_without_push_is_the_laplacian_eigenmap_of_the_same_class_pairs():
    X, y = overlapping()
    model = SLE(beta=0.0).fit(X, y)
    W_w, _ = literal_sle(X, y, model.sigma_)
    with pytest.warns(UserWarning, match="4 components"):
        same = LaplacianEigenmaps().fit(X, y, affinity=W_w - np.diag(np.diag(W_w)))
    np.testing.assert_allclose(model.eigenvalues_, -same.eigenvalues_, atol=1e-10)
    assert max(np.ptp(model.embedding_[y == c], axis=0).max() for c in range(4)) < 1e-9


def test_push_of_sle_exceeds_pull():
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    score = {}
    for beta in (0.01, 0.9):
        model = SLE(beta=beta).fit(X[::2], y[::2])
        classifier = KNeighborsClassifier(1).fit(model.transform(X[::2]), y[::2])
        score[beta] = classifier.score(model.transform(X[1::2]), y[1::2])
    assert score[0.01] > 0.9 > 0.7 > score[0.9]


def test_sle_refuses_data_over_the_memory_budget(monkeypatch):
    monkeypatch.setattr("embedding_core.eigenmaps.sle.BUDGET_BYTES", 1e4)
    with pytest.raises(InvalidInput, match=r"all pairs of 60 items needs 0.0 GB, .* SLEML or SLapEig"):
        SLE().fit(*overlapping())
