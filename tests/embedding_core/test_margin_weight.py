"""Weights of items in LPSSVM, LapSVM, LapRLS and LPP + SVM: copies in the loss, not in the graph."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.svm import SVC

from embedding_core import LPPSVM, LPSSVM, InvalidInput, LapRLS, LapSVM
from embedding_core.graph.affinity import build_knn_graph
from tests.embedding_core.test_sample_weight import draw_weights, with_copies
from tests.synthetic import multi_label, single_label

pytestmark = pytest.mark.filterwarnings("ignore:.* no link to any other", "ignore:The graph has")

METHODS = [LPSSVM, LapSVM, LapRLS, LPPSVM]
EACH = pytest.mark.parametrize("method", METHODS)


def half_labeled(make=single_label):
    X, y = make()
    y[1::4] = -1
    return X, y, build_knn_graph(X, 10).toarray()


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "model",
    [
        LPSSVM(n_components=4, max_iter=1),  # later multipliers are not unique: as copies to some 1e-4
        LPSSVM(kernel="linear", n_components=4, C=10.0),
        LapSVM(theta=0.1, gamma_A=0.01, gamma_I=0.5),
        LapRLS(theta=0.1, gamma_A=0.01, gamma_I=0.5),
        LapRLS(kernel="linear", gamma_A=0.01, gamma_I=0.0),
    ],
    ids=repr,
)
def test_whole_weights_are_copies_in_the_loss(model, form):
    X, y, W = half_labeled()
    s = draw_weights(60)
    X_copies, y_copies, W_copies = with_copies(X, y, W, s)
    weighted = model.fit(form(X), y, W, sample_weight=s).decision_function(X)
    plain = model.fit(form(X), y, W).decision_function(X)
    if hasattr(model, "gamma_I"):  # its term is divided by the square of the number of items
        model.set_params(gamma_I=model.gamma_I * (len(X_copies) / 60) ** 2)
    copied = model.fit(form(X_copies), y_copies, W_copies).decision_function(X)
    if hasattr(model, "gamma_I"):
        model.set_params(gamma_I=model.gamma_I * (60 / len(X_copies)) ** 2)
    np.testing.assert_allclose(weighted, copied, atol=1e-6 * np.abs(copied).max())
    assert np.abs(plain - copied).max() > 1e-3 * np.abs(copied).max()


@pytest.mark.parametrize("svm_kernel", ["rbf", "linear"])
def test_machines_in_the_subspace_of_lpp_are_weighed_as_scikit_learn_does(svm_kernel):
    X, y, _ = half_labeled(lambda: single_label(60, 7, K=2))
    X = X + np.random.default_rng(1).normal(scale=4, size=X.shape)  # sides that overlap
    W, s = build_knn_graph(X, 10), draw_weights(60, low=1)
    plain = LPPSVM(kernel="linear", svm_kernel=svm_kernel, n_components=3, C=0.5)
    model = clone(plain).fit(X, y, W, sample_weight=s)
    labeled = y >= 0
    machine = SVC(C=0.5, kernel=svm_kernel, gamma=1 / 3, tol=1e-6)
    machine.fit(model.embedding_[labeled], y[labeled], sample_weight=s[labeled])
    expected = machine.decision_function(model.embedding_)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-5)
    assert np.abs(plain.fit(X, y, W).decision_function(X) - expected).max() > 1e-3


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("make", [single_label, multi_label])
def test_weights_of_one_change_no_byte_and_zero_is_unlabeled(method, make):
    X, y, W = half_labeled(make)
    plain = method().fit(X, y, W).decision_function(X)
    for ones in (np.ones(60), [1] * 60):
        assert method().fit(X, y, W, sample_weight=ones).decision_function(X).tobytes() == plain.tobytes()
    zero = np.arange(60) % 5 == 2
    hidden = y.copy()
    hidden[zero] = -1
    without = method().fit(X, hidden, W).decision_function(X)
    found = method().fit(X, y, W, sample_weight=np.where(zero, 0.0, 1.0)).decision_function(X)
    np.testing.assert_allclose(found, without, atol=1e-6)
    assert np.abs(without - plain).max() > 1e-3


@pytest.mark.slow
@EACH
def test_weights_count_where_settings_are_chosen(method):
    X, y, W = half_labeled()
    cv = {"LPSSVM": {"C": "cv", "n_components": "cv", "kernel": "linear"}, "LPPSVM": {"sigma": "cv"}}
    model = method(**cv.get(method.__name__, {"gamma_A": "cv", "gamma_I": "cv"}))
    given = None if method is LPPSVM else W
    weight = draw_weights(60, low=1)
    assert np.isfinite(model.fit(X, y, given, sample_weight=weight).decision_function(X)).all()


@EACH
def test_bad_weights_are_named(method):
    X, y, W = half_labeled()
    for bad, message in (
        (np.ones(59), r"sample_weight has shape \(59,\); expected \(60,\)"),
        (-np.ones(60), "sample_weight contains negative"),
        (np.zeros(60), "sample_weight is zero for all labeled items but 0 .* give items of two or more"),
        (np.where(y == 2, 1.0, 0.0), f"{method.__name__} separates classes: give items of two or more"),
    ):
        with pytest.raises(InvalidInput, match=message):
            method().fit(X, y, W, sample_weight=bad)
