"""PCA, and the pipelines that start with it: Eigenfaces, Fisherfaces, Laplacianfaces."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import decomposition
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from embedding_core.errors import InvalidInput
from embedding_core.labels import as_indicator
from embedding_core.linalg import eigen
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.subspace import eigenfaces, pca
from embedding_core.subspace.eigenfaces import Eigenfaces
from embedding_core.subspace.fisherfaces import Fisherfaces
from embedding_core.subspace.laplacianfaces import Laplacianfaces
from embedding_core.subspace.lda import LDA
from embedding_core.subspace.lpp import LPP
from embedding_core.subspace.pca import PCA
from embedding_core.subspace.principal import principal_space
from tests.synthetic import multi_label, projector, single_label, sparse_items

SHAPES = [(60, 7), (25, 40)]
FORMS = {"dense": np.asarray, "sparse": sp.csr_array}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_pca_is_that_of_scikit_learn(shape, form):
    X, _ = multi_label(*shape)
    model = PCA(n_components=5).fit(FORMS[form](X))
    other = decomposition.PCA(5, svd_solver="full").fit(X)
    np.testing.assert_allclose(np.abs(model.projection_), np.abs(other.components_.T), atol=1e-8)
    np.testing.assert_allclose(model.eigenvalues_, other.explained_variance_)
    np.testing.assert_allclose(model.explained_variance_ratio_, other.explained_variance_ratio_)
    np.testing.assert_allclose(model.mean_, other.mean_, atol=1e-12)
    centered = model.embedding_ - model.mean_ @ model.projection_
    np.testing.assert_allclose(np.abs(centered), np.abs(other.transform(X)), atol=1e-8)


@pytest.mark.parametrize("shape", [(120, 60), (50, 300)])
def test_few_axes_of_sparse_items_are_those_of_dense_ones(shape, monkeypatch):
    X = sparse_items(*shape)
    dense = PCA(n_components=4).fit(X.toarray())
    monkeypatch.setattr(pca, "principal_space", None)  # they come from Lanczos
    model = PCA(n_components=4).fit(X)
    np.testing.assert_allclose(model.projection_, dense.projection_, atol=1e-7)
    np.testing.assert_allclose(model.eigenvalues_, dense.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(model.explained_variance_ratio_, dense.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(model.mean_, dense.mean_, atol=1e-12)
    assert model.projection_.tobytes() == PCA(n_components=4).fit(X).projection_.tobytes()


def test_lanczos_and_decomposition_give_the_same_space():
    X, Y = sparse_items(50, 300), np.random.default_rng(0).normal(size=(50, 3))
    Y -= Y.mean(axis=0)
    few, all_axes = pca.leading_space(X, 4), principal_space(X)
    np.testing.assert_allclose(few.values, all_axes.values[:4])
    np.testing.assert_allclose(few.total, all_axes.total)
    np.testing.assert_allclose(np.abs(few.sums(Y)), np.abs(all_axes.sums(Y)[:4]), atol=1e-8)


def test_axes_missed_by_lanczos_are_detected(monkeypatch):
    X = sparse_items(120, 60)
    expected = PCA(n_components=3).fit(X.toarray())

    class Forgetful(decomposition.PCA):
        """Finds one more axis and drops the second."""

        def fit(self, X, y=None):
            self.set_params(n_components=4)
            super().fit(X)
            self.components_ = self.components_[[0, 2, 3]]
            self.singular_values_ = self.singular_values_[[0, 2, 3]]
            return self

    monkeypatch.setattr(pca.decomposition, "PCA", Forgetful)
    assert pca.leading_space(X, 3) is None
    np.testing.assert_allclose(PCA(n_components=3).fit(X).eigenvalues_, expected.eigenvalues_)


def test_repeated_singular_values_and_few_directions_of_sparse_items():
    blocks = np.kron(np.eye(40), np.ones((5, 1)))
    model = PCA(n_components=4).fit(sp.csr_array(blocks))
    np.testing.assert_allclose(model.eigenvalues_, 5 / 199)
    np.testing.assert_allclose(model.projection_.T @ model.projection_, np.eye(4), atol=1e-9)
    thin = sp.csr_array(np.outer(np.arange(200.0), np.arange(40.0)))
    assert PCA().fit(thin, np.arange(200) % 4).embedding_.shape == (200, 1)
    with pytest.raises(InvalidInput, match="n_components=2 exceeds the 1 directions in which items vary"):
        PCA(n_components=2).fit(thin)


def test_pca_is_accurate_far_from_the_origin():
    X, _ = multi_label()
    near, far = PCA(n_components=7).fit(X), PCA(n_components=7).fit(X + 1e6)
    np.testing.assert_allclose(far.eigenvalues_, near.eigenvalues_, rtol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("r", [2, 30])  # sparse items: by Lanczos, by a decomposition
def test_pca_of_wide_items_is_accurate_far_from_the_origin(form, r):
    far = np.random.default_rng(0).normal(size=(40, 90)) + 2.0**24
    near, found = PCA(n_components=r).fit(far - 2.0**24), PCA(n_components=r).fit(form(far))
    np.testing.assert_allclose(found.projection_, near.projection_, atol=1e-9)
    np.testing.assert_allclose(found.eigenvalues_, near.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(found.explained_variance_ratio_, near.explained_variance_ratio_, rtol=1e-10)
    np.testing.assert_allclose(found.mean_ - 2.0**24, near.mean_, atol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_pca_of_many_wide_items_is_refused_beyond_the_budget(form, monkeypatch):
    monkeypatch.setattr(eigen, "SQUARE_BUDGET_BYTES", 4 * 8 * 30**2)
    X = np.random.default_rng(0).normal(size=(31, 60))
    PCA(n_components=4).fit(form(X[:30]))
    with pytest.raises(
        InvalidInput, match=r"4 matrices of 31 x 31, .* first reduce X to 30 features or fewer"
    ):
        PCA(n_components=4).fit(form(X))


def test_pca_of_float32_is_summed_in_float64():
    X = (multi_label()[0] + 1000).astype(np.float32)
    np.testing.assert_allclose(PCA().fit(X).projection_, PCA().fit(X.astype(float)).projection_, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("make", [single_label, multi_label])
def test_eigenfaces_choose_the_dimension_with_the_best_neighbors(make):
    X, y = make()
    y[::4] = -1
    model = Eigenfaces().fit(X, y)
    Q = PCA(n_components=7).fit(X).embedding_
    scores = np.zeros(7)
    for train, test in stratified_folds(as_indicator(y).Y, 5):
        for d in range(7):
            Y = as_indicator(y).Y
            found = KNeighborsClassifier(1).fit(Q[train, : d + 1], Y[train]).predict(Q[test, : d + 1])
            hits = (found & Y[test]).sum()
            scores[d] += 2 * hits / (found.sum() + Y[test].sum()) / 5
    np.testing.assert_allclose(model.cv_scores_, scores)
    assert model.projection_.shape == (7, scores.argmax() + 1)
    expected = PCA(n_components=model.projection_.shape[1]).fit(X)
    np.testing.assert_allclose(model.projection_, expected.projection_, atol=1e-10)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_)


def test_eigenfaces_of_a_given_dimension_need_no_labels():
    X, _ = multi_label()
    model = Eigenfaces(n_components=3).fit(X)
    np.testing.assert_allclose(model.projection_, PCA(n_components=3).fit(X).projection_, atol=1e-10)
    assert model.cv_scores_ is None


def test_eigenfaces_of_many_items_are_scored_on_some(monkeypatch):
    X, y = single_label()
    monkeypatch.setattr(eigenfaces, "SCORED_ITEMS", 20)
    rows = np.linspace(0, 59, 20).round().astype(int)
    few = y.copy()
    few[np.setdiff1d(np.arange(60), rows)] = -1
    np.testing.assert_array_equal(Eigenfaces().fit(X, y).cv_scores_, Eigenfaces().fit(X, few).cv_scores_)


@pytest.mark.parametrize("form", FORMS)
def test_fisherfaces_are_pca_to_n_minus_c_and_lda(form):
    X, y = single_label(30, 50)
    model = Fisherfaces(scaling="within").fit(FORMS[form](X), y)
    front = decomposition.PCA(26, svd_solver="full").fit(X)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(front.transform(X), y)
    G = front.components_.T @ lda.scalings_[:, :3]
    assert model.n_principal_ == 26
    np.testing.assert_allclose(projector(model.projection_), projector(G), atol=1e-7)
    # the common factor by which the two scale S_w
    np.testing.assert_allclose(
        30 * model.projection_ @ model.projection_.T, G @ G.T, atol=1e-6 * np.abs(G @ G.T).max()
    )


def test_fisherfaces_of_few_features_are_lda():
    X, y = single_label()
    y[::5] = -1
    model, lda = Fisherfaces().fit(X, y), LDA().fit(X, y)
    assert model.n_principal_ == 7
    np.testing.assert_allclose(model.projection_, lda.projection_, atol=1e-9)
    np.testing.assert_allclose(model.eigenvalues_, lda.eigenvalues_)
    np.testing.assert_allclose(np.linalg.norm(Fisherfaces().fit(X, y).projection_, axis=0), 1.0)


def test_fisherfaces_need_two_items_of_some_class_and_one_class_per_item():
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match="Each of the 4 classes has one labeled item"):
        Fisherfaces().fit(X[:4], [0, 1, 2, 3])
    with pytest.raises(InvalidInput, match=r"Fisherfaces takes exactly one class per item\. Use MLDA"):
        Fisherfaces().fit(X, Y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variance", [0.98, 0.6])
def test_laplacianfaces_are_pca_with_a_share_of_the_variance_and_lpp(form, variance):
    X, _ = multi_label(25, 40)
    front = decomposition.PCA(variance, svd_solver="full").fit(X)
    Z = front.transform(X)
    model = Laplacianfaces(variance=variance, n_neighbors=5, n_components=2).fit(FORMS[form](X))
    local = LPP(n_neighbors=5, n_components=2).fit(Z)
    assert model.n_principal_ == Z.shape[1]
    np.testing.assert_allclose(model.eigenvalues_, local.eigenvalues_, rtol=1e-7)
    expected = front.components_.T @ local.projection_
    np.testing.assert_allclose(np.abs(model.projection_), np.abs(expected), atol=1e-7)
    assert model.sigma_ == pytest.approx(local.sigma_)


def test_laplacianfaces_with_all_the_variance_are_lpp():
    X, y = single_label()
    W = np.exp(-np.abs(np.subtract.outer(np.arange(60), np.arange(60))) / 3.0)
    model, local = Laplacianfaces(variance=1.0).fit(X, y, affinity=W), LPP().fit(X, y, affinity=W)
    assert model.n_principal_ == 7
    np.testing.assert_allclose(model.projection_, local.projection_, atol=1e-8)
    assert model.sigma_ is None


@pytest.mark.parametrize(
    "parameters", [{"scaling": "natural"}, {"graph": "gaussian"}, {"n_neighbors": 5}, {"sigma": 3.0}], ids=str
)
def test_laplacianfaces_pass_their_parameters_to_lpp(parameters):
    X, y = single_label()
    model, local = Laplacianfaces(variance=1.0, **parameters).fit(X, y), LPP(**parameters).fit(X, y)
    np.testing.assert_allclose(model.projection_, local.projection_, atol=1e-8)
    assert model.sigma_ == pytest.approx(local.sigma_)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Eigenfaces(), 'n_components="cv" chooses by labels, and 0 items are labeled'),
        (Eigenfaces(n_components=None), "n_components=None is not legal; give an integer >= 1"),
        (Eigenfaces(n_components=8), "n_components=8 exceeds the 7 directions in which items vary"),
        (Laplacianfaces(variance=0), "variance=0 is not legal"),
        (Laplacianfaces(variance=1.5), "variance=1.5 is not legal"),
        (Laplacianfaces(variance=0.5, n_components=7), "n_components=7 exceeds the . directions"),
        (Laplacianfaces(sigma="best"), "sigma='best' is not legal"),
        (PCA(n_components=0), "n_components=0 is not legal"),
    ],
    ids=repr,
)
def test_bad_parameters_raise_clear_errors(estimator, message):
    with pytest.raises(InvalidInput, match=message):
        estimator.fit(multi_label()[0])


@pytest.mark.parametrize("estimator", [PCA(), Eigenfaces(), Laplacianfaces()], ids=repr)
def test_constant_items_have_no_axes(estimator):
    with pytest.raises(InvalidInput, match=r"finds no direction in which items vary \(n_samples=9\)"):
        estimator.fit(np.ones((9, 3)), np.arange(9) % 2)
