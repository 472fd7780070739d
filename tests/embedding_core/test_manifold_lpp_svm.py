"""LPP + SVM is the machine of scikit-learn on the subspace of LPP, for classes, labels and any kernel."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_gaussian_graph
from embedding_core.margin.lpp_svm import LPPSVM
from embedding_core.subspace.lpp import LPP
from tests.literal_margin import two_classes
from tests.synthetic import multi_label, projector, single_label


@pytest.mark.parametrize("svm_kernel", ["rbf", "linear"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
def test_it_is_a_machine_on_the_subspace_of_lpp(kernel, svm_kernel, shape):
    X, y, W = two_classes(*shape)
    new = single_label(20, shape[1], K=2, seed=5)[0]
    if kernel == "precomputed":
        X, new = rbf_kernel(X, gamma=0.1), rbf_kernel(new, X, gamma=0.1)
    model = LPPSVM(kernel=kernel, theta=0.1, svm_kernel=svm_kernel, n_components=3, C=5.0).fit(X, y, W)
    lpp = LPP(kernel=kernel, gamma=0.1, n_components=3, scaling="natural").fit(X, y, W)
    labeled, mean = y >= 0, lpp.embedding_.mean(axis=0)
    length = np.sqrt(((lpp.embedding_ - mean) ** 2).mean())
    E, new_items = ((items - mean) / length for items in (lpp.embedding_, lpp.transform(new)))
    svm = SVC(C=5.0, kernel=svm_kernel, gamma=1 / 3, tol=1e-8).fit(E[labeled], y[labeled])
    np.testing.assert_allclose(model.embedding_, E, atol=1e-12)
    np.testing.assert_array_equal(model.eigenvalues_, lpp.eigenvalues_)
    np.testing.assert_allclose(model.decision_function(new), svm.decision_function(new_items), atol=1e-5)
    np.testing.assert_array_equal(model.predict(new), svm.predict(new_items))


def test_directions_spread_alike_and_the_items_have_mean_square_one():
    # Eq. 3: the same a^T X D X^T a for all, around the mean weighted by degrees
    X, y, W = two_classes()
    D = W.sum(axis=1)
    for kernel in ("rbf", "linear"):
        E = LPPSVM(kernel=kernel, n_components=3).fit(X, y, W).embedding_
        centered = E - D @ E / D.sum()
        G = centered.T @ (D[:, None] * centered)
        np.testing.assert_allclose(G, G[0, 0] * np.eye(3), atol=1e-6 * G[0, 0])
        np.testing.assert_allclose((E**2).mean(), 1.0)
        np.testing.assert_allclose(E.mean(axis=0), 0.0, atol=1e-9)


def test_labels_share_the_subspace_and_have_a_machine_each():
    X, Y = multi_label()
    Y[:, 1], Y[:, 3] = 0, 1
    Y[1::3] = -1
    W = build_gaussian_graph(X)
    model = LPPSVM(n_components=4).fit(X, Y, W)
    assert model.multipliers_.any(axis=0).tolist() == [True, False, True, False]
    assert model.intercept_[[1, 3]].tolist() == [-1.0, 1.0]
    decisions = model.decision_function(X)
    assert (decisions[:, 1] == -1).all()
    assert (decisions[:, 3] == 1).all()
    alone = LPPSVM(n_components=4).fit(X, Y[:, [2]], W)
    np.testing.assert_allclose(decisions[:, [2]], alone.decision_function(X), atol=1e-9)
    scores = model.predict_scores(X)
    np.testing.assert_array_equal(model.predict(X), scores > 0.5)


def test_dimensions_where_none_are_asked_for():
    X, y, W = two_classes()
    assert LPPSVM().fit(X, y, W).embedding_.shape == (60, 10)
    assert LPPSVM(kernel="linear").fit(X, y, W).embedding_.shape == (60, 7)
    Y = np.eye(15, dtype=int)[np.arange(60) % 15]
    assert LPPSVM().fit(X, Y, W).embedding_.shape == (60, 14)
    with pytest.raises(InvalidInput, match="n_components=8 exceeds the 7 directions"):
        LPPSVM(kernel="linear", n_components=8).fit(X, y, W)


def test_landmarks_and_sigma_reach_lpp():
    X, y, W = two_classes()
    model = LPPSVM(landmarks=20, n_components=3).fit(X, y, W)
    assert len(model.basis_items_) == 20
    lpp = LPP(kernel="rbf", gamma=1 / 7, landmarks=20, n_components=3, scaling="natural").fit(X, y, W)
    np.testing.assert_array_equal(model.eigenvalues_, lpp.eigenvalues_)
    centered = lpp.embedding_ - lpp.embedding_.mean(axis=0)
    np.testing.assert_allclose(projector(model.embedding_), projector(centered), atol=1e-9)
    own = LPPSVM(graph="gaussian", sigma=3.0, n_components=3).fit(X, y)
    given = LPPSVM(n_components=3).fit(X, y, build_gaussian_graph(X, 3.0))
    np.testing.assert_allclose(own.decision_function(X), given.decision_function(X), atol=1e-6)
    assert (own.sigma_, given.sigma_) == (3.0, None)


@pytest.mark.slow
def test_sparse_items_give_the_dense_result():
    X, y, W = two_classes()
    X = np.where(X > 0, X, 0.0)
    for kernel in ("rbf", "linear"):
        dense = LPPSVM(kernel=kernel, n_components=3).fit(X, y, W).decision_function(X)
        sparse = LPPSVM(kernel=kernel, n_components=3).fit(sp.csr_array(X), y, W)
        np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), dense, atol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0.0}, "C=0.0 is not legal; give a positive number"),
        ({"C": "cv"}, "C='cv' is not legal"),
        ({"svm_kernel": "poly"}, "svm_kernel='poly' is not legal; choose one of rbf, linear"),
        ({"graph": "kernel"}, "graph='kernel' is not legal; choose one of knn, gaussian"),
        ({"n_components": 0}, "n_components=0 is not legal"),
        ({"n_components": "cv"}, "n_components='cv' is not legal"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y, W = two_classes()
    with pytest.raises(InvalidInput, match=message):
        LPPSVM(**parameters).fit(X, y, W)
