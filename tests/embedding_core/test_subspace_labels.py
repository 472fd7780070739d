"""LDA, CCA, MLSI and MDDM: their equations, identities between them, wide data, errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import cross_decomposition
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import rbf_kernel

from embedding_core.discriminant.mlda import MLDA
from embedding_core.errors import InvalidInput
from embedding_core.subspace.cca import CCA
from embedding_core.subspace.lda import LDA
from embedding_core.subspace.mddm import MDDM
from embedding_core.subspace.mlsi import MLSI
from embedding_core.subspace.pca import PCA
from tests.synthetic import literal_scatter, multi_label, positive_power, projector, single_label

SHAPES = [(60, 7), (25, 40)]
FORMS = {"dense": np.asarray, "sparse": sp.csr_array}


def centered(M: np.ndarray) -> np.ndarray:
    return M - M.mean(axis=0)


def test_lda_is_that_of_scikit_learn():
    X, y = single_label()
    model, other = LDA(scaling="within").fit(X, y), LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    G = other.scalings_[:, :3]
    np.testing.assert_allclose(60 * model.projection_ @ model.projection_.T, G @ G.T, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    np.testing.assert_allclose(np.linalg.norm(LDA().fit(X, y).projection_, axis=0), 1.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_lda_solves_its_eigenproblem_and_is_mlda_of_classes(shape, form):
    X, y = single_label(*shape)
    model = LDA().fit(FORMS[form](X), y)
    S_b, S_w, _ = literal_scatter(X, np.eye(4)[y])
    G = model.projection_
    residual = positive_power(S_w, -1) @ S_b @ G - G * model.eigenvalues_
    assert np.abs(residual).max() < 1e-7 * model.eigenvalues_.max()
    np.testing.assert_allclose(MLDA().fit(FORMS[form](X), y).projection_, G, atol=1e-9)


def test_lda_takes_one_class_per_item_and_at_most_k_minus_one_columns():
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match=r"Row \d+ of y has \d labels .* LDA takes exactly one class"):
        LDA().fit(X, Y)
    with pytest.raises(InvalidInput, match="n_components=4 exceeds K-1=3 for LDA"):
        LDA(n_components=4).fit(*single_label())


def test_cca_has_the_correlations_of_scikit_learn():
    X, Y = multi_label(200)
    model = CCA(n_components=4).fit(X, Y)
    other = cross_decomposition.CCA(4, scale=False, max_iter=5000, tol=1e-12).fit(X, Y.astype(float))
    U, V = other.transform(X, Y.astype(float))
    correlations = [np.corrcoef(U[:, j], V[:, j])[0, 1] for j in range(4)]
    np.testing.assert_allclose(np.sqrt(model.eigenvalues_), correlations, atol=1e-6)
    for j in range(4):
        assert abs(np.corrcoef(U[:, j], model.embedding_[:, j])[0, 1]) > 1 - 1e-6


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
def test_cca_solves_its_eigenproblem(form, ridge, shape):
    X, Y = multi_label(*shape)
    model = CCA(n_components=4, ridge=ridge, scaling="natural").fit(FORMS[form](X), Y)
    S_xx, S_xy, S_yy = centered(X).T @ centered(X), centered(X).T @ centered(Y), centered(Y).T @ centered(Y)
    S_xx += ridge * np.trace(S_xx) / shape[1] * np.eye(shape[1])
    A = model.projection_
    M = positive_power(S_xx, -1) @ S_xy @ positive_power(S_yy, -1) @ S_xy.T
    np.testing.assert_allclose(M @ A, A * model.eigenvalues_, atol=1e-8 * np.abs(A).max())
    np.testing.assert_allclose(A.T @ S_xx @ A, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(model.eigenvalues_, np.sort(np.linalg.eigvals(M).real)[::-1][:4], atol=1e-9)
    if ridge == 0 and shape[1] > shape[0]:
        np.testing.assert_allclose(model.eigenvalues_, 1.0)


def test_equally_correlated_directions_of_cca_are_unique():
    X, Y = multi_label(25, 40)
    model = CCA(n_components=4).fit(X, Y)
    np.testing.assert_allclose(model.projection_.T @ model.projection_, np.eye(4), atol=1e-8)
    spread = centered(model.embedding_).std(axis=0)
    assert (np.diff(spread) < 0).all()
    np.testing.assert_allclose(CCA().fit(X, Y).projection_, model.projection_[:, :3], atol=1e-10)
    # together they are the least-squares solution of minimum norm
    shortest = np.linalg.pinv(centered(X)) @ centered(Y)
    np.testing.assert_allclose(projector(model.projection_), projector(shortest), atol=1e-8)


def test_cca_of_classes_is_lda():
    X, y = single_label()
    cca, lda = CCA().fit(X, y), LDA().fit(X, y)
    np.testing.assert_allclose(cca.projection_, lda.projection_, atol=1e-8)
    np.testing.assert_allclose(cca.eigenvalues_, lda.eigenvalues_ / (1 + lda.eigenvalues_))


@pytest.mark.parametrize("seed", range(8))
def test_columns_of_classes_have_rank_k_minus_one_for_all_class_sizes(seed):
    # they sum to 1: rounding errors must not become a direction
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(3), rng.choice(3, rng.integers(50, 3000), p=rng.dirichlet(np.ones(3)))]
    X = rng.normal(size=(len(y), 5)) + y[:, None]
    for estimator in (CCA(n_components=3), MDDM(n_components=3)):
        with pytest.raises(InvalidInput, match="n_components=3 exceeds the 2 directions"):
            estimator.fit(X, y)


@pytest.mark.parametrize("estimator", [CCA(), MDDM(), MLSI(center=True), LDA()], ids=repr)
def test_results_are_accurate_far_from_the_origin(estimator):
    X, y = single_label()
    near, far = estimator.fit(X, y).projection_, estimator.fit(X + 1e7, y).projection_
    np.testing.assert_allclose(far, near, atol=1e-7)


def test_cca_does_not_depend_on_scales_and_constant_labels():
    X, Y = multi_label()
    plain = CCA(scaling="natural").fit(X, Y)
    more = np.column_stack([Y, np.zeros(60), np.ones(60), Y[:, 0]])
    scaled = CCA(scaling="natural", n_components=3).fit((X + 5) * 10.0 ** np.linspace(-9, 9, 7), more)
    np.testing.assert_allclose(scaled.eigenvalues_, plain.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(
        np.abs(centered(scaled.embedding_)), np.abs(centered(plain.embedding_)), atol=1e-7
    )
    with pytest.raises(InvalidInput, match="n_components=5 exceeds the 4 directions in which features and"):
        CCA(n_components=5).fit(X, more)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("center", [True, False])
def test_mlsi_solves_eq_22(shape, form, beta, center):
    X, Y = multi_label(*shape)
    X += 1
    items = centered(X) if center else X
    model = MLSI(beta=beta, center=center, n_components=4).fit(FORMS[form](X), Y)
    G, moment = model.projection_, items.T @ items
    M = (1 - beta) * moment @ moment + beta * items.T @ Y @ Y.T @ items
    np.testing.assert_allclose(G.T @ moment @ G, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(M @ G, moment @ G * model.eigenvalues_, atol=1e-8 * np.abs(M @ G).max())
    root = positive_power(moment, -0.5)
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(root @ M @ root)[::-1][:4], rtol=1e-8)


def test_mlsi_without_labels_is_latent_semantic_indexing():
    X, Y = multi_label()
    _, s, V = np.linalg.svd(X)
    model = MLSI(beta=0).fit(X, Y)
    np.testing.assert_allclose(model.eigenvalues_, s[:3] ** 2)
    np.testing.assert_allclose(np.abs(model.projection_), np.abs(V[:3].T / s[:3]), atol=1e-9)
    axes = PCA(n_components=3).fit(X).projection_
    np.testing.assert_allclose(
        projector(MLSI(beta=0, center=True).fit(X, Y).projection_), projector(axes), atol=1e-9
    )


def test_mlsi_of_only_labels_has_at_most_as_many_columns_as_labels():
    X, Y = multi_label()
    fitted = centered(X) @ np.linalg.lstsq(centered(X), centered(Y), rcond=None)[0]
    model = MLSI(beta=1, center=True, n_components=4).fit(X, Y)
    np.testing.assert_allclose(
        model.eigenvalues_, np.linalg.svd(fitted, compute_uv=False)[:4] ** 2, rtol=1e-9
    )
    with pytest.raises(InvalidInput, match="n_components=5 exceeds the 4 directions"):
        MLSI(beta=1, n_components=5).fit(X, Y)
    assert MLSI(beta=0.999, n_components=7).fit(X, Y).embedding_.shape == (60, 7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_mddm_solves_eq_23(shape, form):
    X, Y = multi_label(*shape)
    model = MDDM(n_components=4).fit(FORMS[form](X + 1), Y)
    n = shape[0]
    H = np.eye(n) - np.ones((n, n)) / n
    M = X.T @ H @ Y @ Y.T @ H @ X
    G = model.projection_
    np.testing.assert_allclose(G.T @ G, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(M @ G, G * model.eigenvalues_, atol=1e-8 * np.abs(M).max())
    np.testing.assert_allclose(model.eigenvalues_.sum(), np.trace(M))  # all of the dependence


def test_mddm_of_classes_depends_on_their_means():
    X, y = single_label()
    model = MDDM().fit(X, y)
    counts = np.bincount(y)
    means = np.array([X[y == k].mean(axis=0) for k in range(4)]) - X.mean(axis=0)
    M = (means.T * counts**2) @ means  # Eq. 21
    np.testing.assert_allclose(M @ model.projection_, model.projection_ * model.eigenvalues_, atol=1e-7)
    with pytest.raises(InvalidInput, match="n_components=4 exceeds the 3 directions"):
        MDDM(n_components=4).fit(X, y)
    # two classes: the line through their means
    two = MDDM().fit(X[y < 2], y[y < 2]).projection_[:, 0]
    line = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    np.testing.assert_allclose(abs(two @ line), np.linalg.norm(line))


@pytest.mark.parametrize("shape", SHAPES)
def test_mddm_by_the_kernel_of_inner_products_is_the_linear_form(shape):
    X, Y = multi_label(*shape)
    hidden = Y.copy()
    hidden[::6] = -1
    linear = MDDM(n_components=4).fit(X, hidden)
    model = MDDM(kernel="precomputed", n_components=4).fit(X @ X.T, hidden)
    np.testing.assert_allclose(model.eigenvalues_, linear.eigenvalues_)
    signs = np.sign((model.embedding_ * linear.embedding_).sum(axis=0))
    np.testing.assert_allclose(model.embedding_ * signs, linear.embedding_, atol=1e-8)
    new = X[:9] + 1
    np.testing.assert_allclose(model.transform(new @ X.T) * signs, linear.transform(new), atol=1e-8)


@pytest.mark.parametrize("gamma", ["scale", 0.3])
def test_mddm_by_rbf_maximizes_dependence_in_feature_space(gamma):
    # K H Y Y^T H K alpha = lambda K alpha, alpha^T K alpha = 1
    X, Y = multi_label()
    K = rbf_kernel(X, gamma=1 / (7 * X.var()) if gamma == "scale" else gamma)
    H = np.eye(60) - 1 / 60
    model = MDDM(kernel="rbf", gamma=gamma, n_components=4).fit(X, Y)
    rows = np.array([np.flatnonzero((item == X).all(axis=1))[0] for item in model.basis_items_])
    alpha = np.zeros((60, 4))
    alpha[rows] = model.dual_coef_
    np.testing.assert_allclose(alpha.T @ K @ alpha, np.eye(4), atol=1e-8)
    left, right = K @ H @ Y @ Y.T @ H @ K @ alpha, K @ alpha * model.eigenvalues_
    np.testing.assert_allclose(left, right, atol=1e-6 * np.abs(right).max())
    np.testing.assert_allclose(model.eigenvalues_.sum(), np.trace(K @ H @ Y @ Y.T @ H), rtol=1e-7)


def test_landmarks_of_mddm_are_labeled_items():
    X, Y = multi_label()
    Y[:20] = -1
    exact = MDDM(kernel="rbf").fit(X, Y)
    some = MDDM(kernel="rbf", landmarks=15, random_state=3).fit(X, Y)
    assert some.dual_coef_.shape == (15, 3)
    kept = [np.flatnonzero((item == X).all(axis=1))[0] for item in some.basis_items_]
    assert min(kept) >= 20
    assert (some.eigenvalues_ <= exact.eigenvalues_ + 1e-9).all()


def test_a_single_label_is_enough():
    X, Y = multi_label()
    for estimator in (CCA(), MDDM(), MDDM(kernel="rbf"), MLSI()):
        assert estimator.fit(X, Y[:, :1]).embedding_.shape == (60, 1)


@pytest.mark.parametrize(
    "estimator", [CCA(), MDDM(), MDDM(kernel="rbf"), MLSI(beta=1, center=True)], ids=repr
)
def test_constant_labels_raise_an_error(estimator):
    X, _ = multi_label()
    for y in (np.full(60, 5), np.zeros((60, 3))):
        with pytest.raises(InvalidInput, match=r"finds no direction .*\(n_samples=60\)"):
            estimator.fit(X, y)


@pytest.mark.parametrize("estimator", [CCA(), MDDM(), MDDM(kernel="rbf")], ids=repr)
def test_classes_that_do_not_differ_have_no_direction(estimator):
    X, _ = multi_label()
    with pytest.raises(InvalidInput, match=r"finds no direction in which features and labels vary together"):
        estimator.fit(np.vstack([X, X]), np.repeat([0, 1], 60))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (CCA(ridge=-1), "ridge=-1 is not legal"),
        (CCA(scaling="within"), "scaling='within' is not legal; choose one of unit, natural"),
        (MLSI(beta=1.5), "beta=1.5 is not legal; give a number from 0 to 1"),
        (MLSI(center="yes"), "center='yes' is not legal; give True or False"),
        (MLSI(n_components=8), "n_components=8 exceeds the 7 directions of the labeled items"),
        (MDDM(kernel="poly"), "kernel='poly' is not legal"),
        (MDDM(kernel="rbf", gamma="auto"), "gamma='auto' is not legal"),
        (LDA(scaling="natural"), "scaling='natural' is not legal"),
    ],
    ids=repr,
)
def test_bad_parameters_raise_clear_errors(estimator, message):
    with pytest.raises(InvalidInput, match=message):
        estimator.fit(*single_label())
