"""Out-of-sample maps of the eigenmaps: what they minimize, and the positions of new items."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier

from embedding_core.eigenmaps import eigenmap
from embedding_core.eigenmaps.ccdr import CCDR
from embedding_core.eigenmaps.constraint_score import ConstraintScore
from embedding_core.eigenmaps.laplacian_eigenmaps import LaplacianEigenmaps
from embedding_core.eigenmaps.slapeig import SLapEig
from embedding_core.eigenmaps.sle import SLE
from embedding_core.eigenmaps.sle_ml import SLEML
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.linalg.kernel_space import Kernel, place_by_kernel
from tests.literal_eigenmaps import MAPS, overlapping
from tests.synthetic import sparse_items

EIGENMAPS = [SLEML, LaplacianEigenmaps, CCDR, ConstraintScore, SLapEig, SLE]


@pytest.mark.parametrize("shape", [(60, 7), (40, 90)])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_linear_map_is_ridge_regression(shape, form, alpha):
    X = sparse_items(*shape, density=0.4)
    Z = np.random.default_rng(0).normal(size=(shape[0], 3))
    dense = X.toarray()
    P, b = eigenmap.fit_linear_map(X if form == "sparse" else dense + 5.0, Z, alpha)
    scale = ((dense - dense.mean(axis=0)) ** 2).sum() / len(dense)
    literal = Ridge(max(alpha * scale, 1e-12), solver="svd").fit(dense, Z)
    items = dense if form == "sparse" else dense + 5.0
    np.testing.assert_allclose(items @ P + b, literal.predict(dense), atol=1e-7)
    np.testing.assert_allclose(P, literal.coef_.T, atol=1e-6)


def singular_items(shape, seed):
    """Duplicated rows, a constant feature not exact in float64, and one that depends on two others."""
    X = np.random.default_rng(seed).normal(size=shape)
    X[:, 2], X[:, 3] = 0.1, X[:, 0] + X[:, 1]
    X[-10:] = X[:10]
    return X


@pytest.mark.parametrize("shape", [(60, 7), (200, 6), (40, 41), (40, 100)])
@pytest.mark.parametrize(
    "form", [np.asarray, sp.csr_array, lambda X: X + 5.0], ids=["dense", "sparse", "far"]
)
def test_without_a_ridge_the_linear_map_is_the_pseudo_inverse(shape, form):
    for seed in range(5):  # rounding errors vary by chance
        X = singular_items(shape, seed)
        Z = np.random.default_rng(seed).normal(size=(shape[0], 2))
        centered = X - X.mean(axis=0)
        centered[:, 2] = 0.0
        expected = np.linalg.pinv(centered, rcond=1e-10) @ (Z - Z.mean(axis=0))
        P, b = eigenmap.fit_linear_map(form(X), Z, 0.0)
        np.testing.assert_allclose(P, expected, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose((form(X) @ P + b).mean(axis=0), Z.mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-3])
@pytest.mark.parametrize("value", [0.1, 1e7 / 3])
def test_a_constant_feature_does_not_affect_the_linear_map(alpha, value):
    X, Z = np.random.default_rng(0).normal(size=(300, 5)), np.random.default_rng(1).normal(size=(300, 2))
    expected, offset = eigenmap.fit_linear_map(X, Z, alpha)
    P, b = eigenmap.fit_linear_map(np.insert(X, 2, value, axis=1), Z, alpha)
    np.testing.assert_allclose(value * P[2], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.delete(P, 2, axis=0), expected, rtol=1e-9)
    np.testing.assert_allclose(b, offset, rtol=1e-9)


@pytest.mark.parametrize("method", [LaplacianEigenmaps, SLEML])
@pytest.mark.parametrize("shape", [(60, 7), (40, 100)])
def test_without_a_ridge_similar_items_are_placed_close_together(method, shape):
    X, y = singular_items(shape, 0), np.arange(shape[0]) % 3
    y[-10:] = y[:10]
    model = method(alpha=0.0, n_components=2, n_neighbors=8).fit(X, y)
    moved = X + 1e-3 * np.random.default_rng(1).normal(size=shape)
    np.testing.assert_allclose(model.transform(moved), model.transform(X), atol=1e-2)


def test_linear_map_of_many_sparse_features_far_from_0(monkeypatch):
    near, Z = sparse_items(60, 20, density=0.4).toarray(), np.random.default_rng(0).normal(size=(60, 2))
    far = near + 2.0**20 * (np.arange(20) > 4)
    expected = eigenmap.fit_linear_map(far, Z, 1e-3)[0]
    monkeypatch.setattr(eigenmap, "GRAM_SIZE", 10)
    P, _ = eigenmap.fit_linear_map(sp.csr_array(far), Z, 1e-3)
    np.testing.assert_allclose(P, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(60, 20), (40, 90)])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.1])
def test_linear_map_of_many_sparse_features_is_the_same_without_a_square_matrix(
    shape, alpha, dtype, monkeypatch
):
    X = sparse_items(*shape, density=0.4).astype(dtype)
    X.data[X.indices == 3] *= 1000
    Z = np.random.default_rng(0).normal(size=(shape[0], 3))
    Z[:, 2] = 1.0
    expected = eigenmap.fit_linear_map(X, Z, alpha)
    monkeypatch.setattr(eigenmap, "GRAM_SIZE", 10)
    for name in ("center_items", "whitening"):
        monkeypatch.delattr(eigenmap, name)
    P, b = eigenmap.fit_linear_map(X, Z, alpha)
    np.testing.assert_allclose(X @ P + b, X @ expected[0] + expected[1], atol=1e-6)
    np.testing.assert_allclose(P, expected[0], atol=1e-5 * np.abs(expected[0]).max())
    monkeypatch.setattr(eigenmap, "_MAX_STEPS", 2)
    with pytest.warns(UserWarning, match="did not converge in 2 steps; use a larger alpha"):
        eigenmap.fit_linear_map(X, Z, alpha)


NYSTROM = [
    (SLEML(balance=0.9, n_neighbors=8), lambda model: np.inf),
    (LaplacianEigenmaps(n_neighbors=8), lambda model: model.sigma_),
    (CCDR(balance=0.2, n_neighbors=8), lambda model: model.sigma_),
    (SLapEig(n_neighbors=30, sigma=0.7), lambda model: 0.7 * model.tau_),
]


@pytest.mark.parametrize(("model", "width"), NYSTROM, ids=lambda case: type(case).__name__)
def test_nystrom_is_the_equation_of_the_eigenproblem_for_a_new_node(model, width):
    X, y = overlapping()
    model = model.set_params(out_of_sample="nystrom").fit(X[:50], y[:50])
    k = model.n_neighbors_
    for x, z in zip(X[50:], model.transform(X[50:]), strict=True):
        squared = ((X[:50] - x) ** 2).sum(axis=1)
        near = np.argsort(squared)[:k]
        w = np.exp(-squared[near] / width(model))
        left = sum(w_j * (z - model.embedding_[j]) for w_j, j in zip(w, near, strict=True))
        np.testing.assert_allclose(left, model.eigenvalues_ * w.sum() * z, atol=1e-12)


@pytest.mark.parametrize("model", [ConstraintScore(n_neighbors=8), SLE(n_neighbors=8)], ids=repr)
def test_nystrom_is_the_mean_of_the_nearest_items_if_there_is_no_equation(model):
    X, y = overlapping()
    model = model.set_params(out_of_sample="nystrom").fit(X[:50], y[:50])
    for x, z in zip(X[50:], model.transform(X[50:]), strict=True):
        near = np.argsort(((X[:50] - x) ** 2).sum(axis=1))[:8]
        np.testing.assert_allclose(z, model.embedding_[near].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("method", [LaplacianEigenmaps, CCDR, SLapEig])
def test_nystrom_gives_neighbors_equal_weights_for_a_supplied_graph(method):
    X, y = overlapping()
    W = build_knn_graph(X, 9)
    model = method(out_of_sample="nystrom", n_neighbors=9).fit(X, y, affinity=W)
    near = np.argsort(((X - X[0] - 0.1) ** 2).sum(axis=1))[:9]
    expected = model.embedding_[near].mean(axis=0) / (1 - model.eigenvalues_)
    np.testing.assert_allclose(model.transform(X[:1] + 0.1)[0], expected, atol=1e-12)


def test_nystrom_far_from_all_items_uses_the_nearest():
    X, y = overlapping()
    model = LaplacianEigenmaps(out_of_sample="nystrom", n_neighbors=9).fit(X, y)
    far = X[:1] + 1e4
    nearest = model.embedding_[np.argmin(((X - far) ** 2).sum(axis=1))]
    np.testing.assert_allclose(model.transform(far)[0], nearest / (1 - model.eigenvalues_))


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_kernel_map_is_kernel_ridge_regression(form, monkeypatch):
    X = sparse_items(60, 9, density=0.5)
    X = X if form == "sparse" else X.toarray()
    Z = np.random.default_rng(0).normal(size=(60, 2))
    literal = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.2).fit(X, Z - Z.mean(axis=0))
    a, b = eigenmap.fit_kernel_map(X, Z, X, 0.2, 0.1)
    placed = place_by_kernel(Kernel("rbf", 0.2), X[:20], X, a) + b
    np.testing.assert_allclose(placed, literal.predict(X[:20]) + Z.mean(axis=0), atol=1e-10)
    monkeypatch.setattr(eigenmap, "LANDMARKS", 15)
    chosen = eigenmap.spread_landmarks(X)
    assert chosen.shape == (15, 9)
    a, b = eigenmap.fit_kernel_map(X, Z, chosen, 0.2, 0.1)
    K_nm, K_mm = rbf_kernel(X, chosen, gamma=0.2), rbf_kernel(chosen, chosen, gamma=0.2)
    literal_a = np.linalg.solve(K_nm.T @ K_nm + 0.1 * K_mm, K_nm.T @ (Z - Z.mean(axis=0)))
    np.testing.assert_allclose(K_nm @ a, K_nm @ literal_a, atol=1e-6)


def test_default_gamma_is_one_over_the_mean_squared_distance():
    X = sparse_items(40, 6).toarray() + 3.0
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    for items in (X, sp.csr_array(X)):
        np.testing.assert_allclose(eigenmap.default_gamma(items), 1 / squared.mean())
    assert eigenmap.default_gamma(np.ones((4, 2))) == 1.0


@pytest.mark.parametrize("method", EIGENMAPS)
@pytest.mark.parametrize("kind", MAPS)
def test_new_items_are_placed_near_their_class(method, kind):
    X, y = overlapping(200, K=3)
    model = method(n_neighbors=75, out_of_sample=kind).fit(X[:150], y[:150])
    classifier = KNeighborsClassifier(5).fit(model.transform(X[:150]), y[:150])
    assert classifier.score(model.transform(X[150:]), y[150:]) > 0.75


@pytest.mark.parametrize("method", EIGENMAPS)
@pytest.mark.parametrize("kind", MAPS)
def test_dense_and_sparse_items_agree(method, kind):
    X, y = overlapping()
    same = method(out_of_sample=kind, n_neighbors=40).fit(X, y).transform(X[:9])
    for fitted_on, asked in ((X, sp.csr_array(X[:9])), (sp.csr_array(X), X[:9])):
        model = method(out_of_sample=kind, n_neighbors=40).fit(fitted_on, y)
        np.testing.assert_allclose(model.transform(asked), same, atol=1e-8)


def test_nystrom_does_not_suggest_zero_components():
    X, y = np.array([[0.0], [1.0]]), [0, 1]
    with pytest.raises(InvalidInput, match=r"component 0 has μ = 2; use another out_of_sample\.$"):
        SLEML(balance=1.0, n_neighbors=1, out_of_sample="nystrom").fit(X, y)
