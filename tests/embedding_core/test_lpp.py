"""LPP: its eigenproblem, the kernel form, limits, invariances, graphs, odd data, errors."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier

from embedding_core.discriminant.mlda import MLDA
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import SIGMA_FACTORS, build_gaussian_graph, build_knn_graph
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.labels import as_indicator
from embedding_core.margin.lpssvm_solver import solve_locality
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.subspace.lpp import LPP
from tests.synthetic import literal_laplacian, multi_label, projector, single_label

SHAPES = [(60, 7), (25, 40)]
FORMS = {"dense": np.asarray, "sparse": sp.csr_array}


def graph(X: np.ndarray) -> np.ndarray:
    return build_gaussian_graph(X)


def literal_matrices(X: np.ndarray, W: np.ndarray, center: bool) -> tuple[np.ndarray, np.ndarray]:
    """X L X^T and X D X^T of He and Niyogi, items in the rows of X."""
    d = W.sum(axis=1)
    moved = X - d @ X / d.sum() if center else X
    return X.T @ literal_laplacian(W) @ X, moved.T @ np.diag(d) @ moved


def literal_eigenvalues(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Eigenvalues of A a = lambda B a in the range of B, ascending."""
    values, vectors = np.linalg.eigh(B)
    keep = values > 1e-10 * values[-1]
    T = vectors[:, keep] / np.sqrt(values[keep])
    return np.linalg.eigvalsh(T.T @ A @ T)


def distances(Q: np.ndarray) -> np.ndarray:
    return np.linalg.norm(Q[:, None] - Q, axis=2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scaling", ["unit", "natural"])
def test_columns_solve_the_eigenproblem(shape, form, center, scaling):
    X, _ = multi_label(*shape)
    X += 0.5
    W = graph(X)
    A, B = literal_matrices(X, W, center)
    model = LPP(center=center, scaling=scaling, n_components=6)
    G = model.fit(FORMS[form](X), affinity=FORMS[form](W)).projection_
    values = model.eigenvalues_
    np.testing.assert_allclose(A @ G, B @ G * values, atol=1e-8 * np.abs(B @ G).max())
    np.testing.assert_allclose(values, literal_eigenvalues(A, B)[:6], atol=1e-9)
    np.testing.assert_allclose(np.diag(np.diag(G.T @ B @ G)), G.T @ B @ G, atol=1e-8 * np.abs(B).max())
    length = np.linalg.norm(G, axis=0) if scaling == "unit" else np.diag(G.T @ B @ G)
    np.testing.assert_allclose(length, 1.0)


def test_without_centering_it_is_the_graph_part_of_lpssvm():
    X, _ = multi_label()
    W = graph(X)
    model = LPP(center=False, scaling="natural", n_components=7).fit(X, affinity=W)
    other = solve_locality(X, GraphLaplacian(W))
    np.testing.assert_allclose(model.eigenvalues_, other.values, atol=1e-12)
    np.testing.assert_allclose(np.abs(model.projection_), np.abs(other.basis), atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("center", [True, False])
def test_sparse_items_without_a_zero_are_placed_as_dense_ones(shape, center):
    X, _ = multi_label(*shape)
    W = graph(X)
    dense, sparse = (
        LPP(center=center, n_components=4).fit(form(X), affinity=W) for form in (np.asarray, sp.csr_array)
    )
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(
        sparse.embedding_, dense.embedding_, atol=1e-7 * np.abs(dense.embedding_).max()
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scaling", ["unit", "natural"])
def test_the_kernel_of_inner_products_gives_the_linear_form(shape, center, scaling):
    X, _ = multi_label(*shape)
    W = graph(X)
    parameters = {"center": center, "scaling": scaling, "n_components": 5}
    linear = LPP(**parameters).fit(X, affinity=W)
    model = LPP(kernel="precomputed", **parameters).fit(X @ X.T, affinity=W)
    np.testing.assert_allclose(model.eigenvalues_, linear.eigenvalues_, atol=1e-9)
    signs = np.sign((model.embedding_ * linear.embedding_).sum(axis=0))
    np.testing.assert_allclose(model.embedding_ * signs, linear.embedding_, atol=1e-7)
    new = X[:9] + 1
    np.testing.assert_allclose(model.transform(new @ X.T) * signs, linear.transform(new), atol=1e-7)
    assert not hasattr(model, "projection_")


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("gamma", ["scale", 0.3])
def test_rbf_solves_the_eigenproblem_in_coefficients_of_the_items(center, gamma):
    # K L K alpha = lambda K D K alpha; centered: the rows of K are shifted by their weighted mean
    X, _ = multi_label()
    W = graph(X)
    model = LPP(kernel="rbf", gamma=gamma, center=center, scaling="natural", n_components=4)
    model.fit(X, affinity=W)
    K = rbf_kernel(X, gamma=1 / (7 * X.var()) if gamma == "scale" else gamma)
    A, B = literal_matrices(K, W, center)
    rows = np.array([np.flatnonzero((item == X).all(axis=1))[0] for item in model.basis_items_])
    alpha = np.zeros((60, 4))
    alpha[rows] = model.dual_coef_
    np.testing.assert_allclose(alpha.T @ B @ alpha, np.eye(4), atol=1e-7)
    np.testing.assert_allclose(A @ alpha, B @ alpha * model.eigenvalues_, atol=1e-6 * np.abs(B @ alpha).max())
    np.testing.assert_allclose(K @ alpha, model.embedding_, atol=1e-9)
    unit = LPP(kernel="rbf", gamma=gamma, center=center, n_components=4).fit(X, affinity=W)
    np.testing.assert_allclose(np.einsum("ij,ij->j", alpha, K @ alpha) ** -0.5 * alpha[rows], unit.dual_coef_)


def test_a_kernel_of_full_rank_gives_laplacian_eigenmaps():
    X, _ = multi_label(40)
    W = graph(X)
    model = LPP(kernel="rbf", gamma=5.0, scaling="natural", n_components=3).fit(X, affinity=W)
    D = np.diag(W.sum(axis=1))
    values, Z = scipy.linalg.eigh(literal_laplacian(W), D)
    np.testing.assert_allclose(model.eigenvalues_, values[1:4], atol=1e-9)
    signs = np.sign(np.diag(model.embedding_.T @ D @ Z[:, 1:4]))
    Q = model.embedding_ - model.embedding_.T @ D.sum(axis=0) / D.sum()
    np.testing.assert_allclose(Q * signs, Z[:, 1:4], atol=1e-7)
    printed = LPP(kernel="rbf", gamma=5.0, center=False, n_components=3).fit(X, affinity=W)
    np.testing.assert_allclose(printed.eigenvalues_[0], 0.0, atol=1e-9)
    assert printed.embedding_[:, 0].std() < 1e-7 * np.abs(printed.embedding_[:, 0]).mean()


def test_links_of_equal_classes_give_lda():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 4
    X = rng.normal(size=(4, 7))[y] * 2 + rng.normal(size=(60, 7))
    W = (y[:, None] == y) / 15
    model = LPP(n_components=3).fit(X, affinity=W)
    lda = MLDA().fit(X, y)
    np.testing.assert_allclose(projector(model.projection_), projector(lda.projection_), atol=1e-9)
    # S_w v = mu S_t v with mu = 1 / (1 + lambda); self-loops are dropped, which scales D by 14/15
    np.testing.assert_allclose(model.eigenvalues_ * 14 / 15, 1 / (1 + lda.eigenvalues_), rtol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_shift_of_the_items_changes_no_distance(kernel):
    X, _ = multi_label()
    W = graph(X)
    here, there = (
        LPP(kernel=kernel, n_components=3).fit(items, affinity=W).embedding_ for items in (X, X + 1e4)
    )
    np.testing.assert_allclose(distances(there), distances(here), atol=1e-6)


def test_rotation_and_scale_of_features_and_graph():
    X, _ = multi_label()
    W = graph(X)
    Q = LPP(scaling="natural", n_components=3).fit(X, affinity=W)
    R = np.linalg.qr(np.random.default_rng(2).normal(size=(7, 7)))[0]
    rotated = LPP(scaling="natural", n_components=3).fit(X @ R, affinity=W)
    np.testing.assert_allclose(distances(rotated.embedding_), distances(Q.embedding_), atol=1e-9)
    scaled = LPP(scaling="natural", n_components=3).fit(X * 10.0 ** np.linspace(-9, 9, 7), affinity=4 * W)
    np.testing.assert_allclose(scaled.eigenvalues_, Q.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(2 * distances(scaled.embedding_), distances(Q.embedding_), atol=1e-7)


@pytest.mark.parametrize("name", ["knn", "gaussian"])
@pytest.mark.parametrize("form", FORMS)
def test_the_graph_is_built_if_none_is_supplied(name, form):
    X, y = single_label()
    W = build_knn_graph(X, 8) if name == "knn" else build_gaussian_graph(X)
    model = LPP(graph=name, n_neighbors=8).fit(FORMS[form](X), y)
    given = LPP().fit(X, y, affinity=W)
    np.testing.assert_allclose(model.projection_, given.projection_, atol=1e-8)
    assert given.sigma_ is None
    assert model.sigma_ > 0
    assert model.projection_.shape == (7, 3)


def test_a_precomputed_kernel_defines_the_distances_of_the_graph():
    X, _ = multi_label()
    linear = LPP(n_neighbors=8).fit(X)
    model = LPP(kernel="precomputed", n_neighbors=8).fit(X @ X.T)
    np.testing.assert_allclose(model.sigma_, linear.sigma_)
    np.testing.assert_allclose(model.eigenvalues_, linear.eigenvalues_, atol=1e-9)


def test_sigma_is_chosen_by_neighbors_of_the_labeled_items():
    X, y = single_label()
    y[::4] = -1
    model = LPP(sigma="cv", n_components=2).fit(X, y)
    scale = LPP(n_components=2).fit(X, y).sigma_
    scores = {}
    for factor in sorted(SIGMA_FACTORS, key=lambda factor: abs(np.log(factor))):
        Q = LPP(sigma=factor * scale, n_components=2).fit(X).embedding_
        folds = [
            KNeighborsClassifier(1).fit(Q[train], y[train]).score(Q[test], y[test])
            for train, test in stratified_folds(as_indicator(y).Y, 5)
        ]
        scores[factor] = np.mean(folds)
    np.testing.assert_allclose(model.sigma_, max(scores, key=scores.__getitem__) * scale)


def test_labels_only_determine_the_number_of_columns():
    X, y = single_label()
    plain = LPP(n_components=3).fit(X)
    assert plain.classes_.tolist() == []
    np.testing.assert_array_equal(LPP().fit(X, y).projection_, plain.projection_)
    y[:50] = -1
    np.testing.assert_array_equal(LPP().fit(X, y).projection_, plain.projection_)
    for without in (None, np.full(60, -1)):
        assert LPP().fit(X, without).embedding_.shape == (60, 2)
    model = LPP().fit(X, np.full((60, 5), -1))
    assert model.embedding_.shape == (60, 4)
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    assert LPP().fit(X[:, :2], np.arange(60) % 9).embedding_.shape == (60, 2)  # the rank is 2


@pytest.mark.filterwarnings("ignore:.* no link to any other")
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.filterwarnings("ignore:The graph has 11 components")
def test_items_without_links_are_embedded_but_not_used_in_the_fit(kernel):
    X, _ = multi_label()
    W = graph(X)
    W[50:], W[:, 50:] = 0.0, 0.0
    model = LPP(kernel=kernel, gamma=0.2, n_components=3, scaling="natural")
    alone = model.fit(X[:50], affinity=W[:50, :50]).eigenvalues_
    beside = model.fit(X, affinity=W + np.eye(60))  # self-loops are ignored
    np.testing.assert_allclose(beside.eigenvalues_, alone, atol=1e-8)
    np.testing.assert_allclose(beside.transform(X), beside.embedding_)


def test_landmarks_span_the_directions():
    X, _ = multi_label()
    W = graph(X)
    exact = LPP(kernel="rbf", n_components=3, scaling="natural").fit(X, affinity=W)
    all_rows = LPP(kernel="rbf", n_components=3, scaling="natural", landmarks=60).fit(X, affinity=W)
    np.testing.assert_array_equal(all_rows.embedding_, exact.embedding_)
    some = LPP(kernel="rbf", n_components=3, scaling="natural", landmarks=range(20)).fit(X, affinity=W)
    assert some.dual_coef_.shape == (20, 3)
    assert (some.eigenvalues_ >= exact.eigenvalues_ - 1e-9).all()  # a smaller space cannot do better
    np.testing.assert_allclose(some.transform(X), some.embedding_)


@pytest.mark.parametrize("form", FORMS)
def test_degenerate_features_give_finite_results_of_the_actual_rank(form):
    X, _ = multi_label()
    X[:, 2], X[:, 3] = 1e6 / 3, X[:, 0]
    X = np.vstack([X, X[:10]])
    model = LPP(n_components=5, scaling="natural").fit(FORMS[form](X))
    assert np.isfinite(model.embedding_).all()
    np.testing.assert_allclose(model.projection_[2], 0.0, atol=1e-12)
    with pytest.raises(InvalidInput, match="n_components=6 exceeds the 5 directions in which linked items"):
        LPP(n_components=6).fit(FORMS[form](X))


def test_float32_is_fitted_in_float64():
    X, _ = multi_label()
    X = X.astype(np.float32)
    np.testing.assert_allclose(
        LPP().fit(X).projection_, LPP().fit(X.astype(np.float64)).projection_, atol=1e-10
    )


def test_a_disconnected_graph_warns_only_if_it_affects_the_result():
    X, _ = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match=r"2 components \(sizes 100, 50\).*Raise n_neighbors"):
        LPP(kernel="rbf").fit(X)
    LPP().fit(X)  # four features cannot separate the components


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"kernel": "poly"},
            "kernel='poly' is not legal; choose one of linear, rbf, intersection, precomputed",
        ),
        ({"gamma": 0}, "gamma=0 is not legal"),
        ({"center": 1}, "center=1 is not legal; give True or False"),
        ({"scaling": "long"}, "scaling='long' is not legal"),
        ({"graph": "tree"}, "graph='tree' is not legal"),
        ({"n_neighbors": 0}, "n_neighbors=0 is not legal"),
        ({"sigma": -1.0}, "sigma=-1.0"),
        ({"sigma": "cv"}, 'sigma="cv" chooses by labels, and 0 items are labeled'),
        ({"n_components": 0}, "n_components=0 is not legal"),
        ({"n_components": 8}, "n_components=8 exceeds the 7 directions"),
        ({"kernel": "rbf", "landmarks": 99}, "landmarks=99 with 60 items"),
    ],
)
def test_bad_parameters_raise_clear_errors(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        LPP(**parameters).fit(multi_label()[0])


def test_bad_data_raise_clear_errors():
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match="inconsistent numbers of samples"):
        LPP().fit(X, Y[:-1])
    with pytest.raises(InvalidInput, match="contains NaN"):
        LPP().fit(np.where(X > 1, np.nan, X))
    with pytest.raises(InvalidInput, match="links no two items"):
        LPP().fit(X, affinity=np.zeros((60, 60)))
    with pytest.raises(InvalidInput, match="affinity is not symmetric"):
        LPP().fit(X, affinity=np.triu(np.ones((60, 60))))
    with pytest.raises(InvalidInput, match="no direction in which linked items vary"):
        LPP(graph="gaussian").fit(np.ones((60, 3)))
    with pytest.raises(InvalidInput, match="square matrix of all items"):
        LPP(kernel="precomputed").fit(X)
    with pytest.raises(InvalidInput, match="not positive semidefinite"):
        LPP(kernel="precomputed").fit(-np.eye(60) + 1)
    with pytest.raises(InvalidInput, match=r"pass X.toarray\(\)"):
        LPP(kernel="precomputed").fit(sp.csr_array(X @ X.T))
