"""The comparison projections follow scikit-learn's contract and run in comparisons."""

import tracemalloc
import types
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine

from embedding_core import annotator, registry
from embedding_core.errors import InvalidInput
from embedding_core.evaluation import evaluate_fold
from embedding_core.graph.affinity import build_gaussian_graph
from embedding_core.labels import as_indicator
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.registry.catalog import SUBSPACE
from embedding_core.subspace.cca import CCA
from embedding_core.subspace.eigenfaces import Eigenfaces
from embedding_core.subspace.fisherfaces import Fisherfaces
from embedding_core.subspace.laplacianfaces import Laplacianfaces
from embedding_core.subspace.lda import LDA
from embedding_core.subspace.lpp import LPP
from embedding_core.subspace.mddm import MDDM
from embedding_core.subspace.mlsi import MLSI
from embedding_core.subspace.pca import PCA
from tests.synthetic import multi_label, single_label, sparse_items

UNSUPERVISED = [PCA(), LPP(n_neighbors=8), LPP(graph="gaussian", kernel="rbf"), Laplacianfaces(n_neighbors=8)]
SUPERVISED = [LDA(), CCA(), MLSI(), MDDM(), MDDM(kernel="rbf"), Fisherfaces()]
ESTIMATORS = [*UNSUPERVISED, *SUPERVISED]
LINEAR = [estimator for estimator in ESTIMATORS if getattr(estimator, "kernel", "linear") == "linear"]
ENTRIES = {method.name: method for method in SUBSPACE}


@pytest.fixture
def registered(monkeypatch):
    """Return the registry including these methods."""
    methods = types.MappingProxyType({**registry.METHODS, **ENTRIES})
    for module in (registry, annotator):
        monkeypatch.setattr(module, "METHODS", methods)


class InBlocks:
    """Items that are read one block of rows at a time."""

    dtype = np.dtype(np.float64)

    def __init__(self, X):
        self.X, self.shape = X, X.shape

    def iter_blocks(self):
        for start in range(0, len(self.X), 17):
            yield start, self.X[start : start + 17]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_fitted_attributes(estimator):
    X, y = single_label()
    y[::3] = -1
    fitted = clone(estimator).fit(X, y)
    assert fitted.eigenvalues_.shape == (3,)
    assert fitted.embedding_.shape == (60, 3)
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    assert fitted.n_features_in_ == 7
    np.testing.assert_allclose(fitted.transform(X), fitted.embedding_, atol=1e-12)
    again = clone(estimator).fit(X, as_indicator(y).Y)
    assert again.embedding_.tobytes() == fitted.embedding_.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("shape", [(60, 20), (40, 90)])
def test_sparse_items_give_the_dense_result(estimator, shape):
    X, (_, y) = sparse_items(*shape, density=0.4), single_label(shape[0])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The graph has . components")
        sparse, dense = clone(estimator).fit(X, y), clone(estimator).fit(X.toarray(), y)
    signs = np.sign((sparse.embedding_ * dense.embedding_).sum(axis=0))
    scale = np.abs(dense.embedding_).max()
    np.testing.assert_allclose(sparse.embedding_ * signs, dense.embedding_, atol=1e-6 * scale)
    np.testing.assert_allclose(sparse.transform(X), sparse.embedding_, atol=1e-9 * scale)


@pytest.mark.parametrize("estimator", SUPERVISED, ids=repr)
def test_unlabeled_items_are_embedded_but_not_used_in_the_fit(estimator):
    X, y = single_label()
    y[40:] = -1
    X_moved = X.copy()
    X_moved[40:] *= 100
    alone, beside = clone(estimator).fit(X[:40], y[:40]), clone(estimator).fit(X_moved, y)
    np.testing.assert_allclose(beside.embedding_, alone.transform(X_moved), atol=1e-9)


@pytest.mark.parametrize("estimator", LINEAR, ids=repr)
def test_items_in_blocks_of_rows(estimator):
    X, y = single_label()
    y[::4] = -1
    graph = {"affinity": build_gaussian_graph(X)} if hasattr(estimator, "graph") else {}
    blocked = clone(estimator).fit(InBlocks(X), y, **graph)
    np.testing.assert_allclose(
        blocked.projection_, clone(estimator).fit(X, y, **graph).projection_, atol=1e-9
    )


@pytest.mark.parametrize("estimator", [*LINEAR, Eigenfaces()], ids=repr)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_wide_items_never_need_a_matrix_of_all_features(estimator, form):
    (X, y), p = single_label(30, 3000), 3000
    X = form(np.where(X > 1, X, 0.0))
    tracemalloc.start()
    clone(estimator).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * p**2 / 4


def test_kernels_and_graphs_need_the_items_in_memory():
    X, y = single_label()
    for estimator in (LPP(kernel="rbf"), MDDM(kernel="rbf")):
        with pytest.raises(InvalidInput, match="X is a InBlocks; a kernel needs the items in memory"):
            estimator.fit(InBlocks(X), y)
    with pytest.raises(InvalidInput, match="is read in blocks of rows and no affinity is given"):
        LPP().fit(InBlocks(X))


def test_refit_with_another_kernel_removes_old_attributes():
    X, y = single_label()
    for estimator in (LPP(graph="gaussian"), MDDM()):
        estimator.fit(X, y).set_params(kernel="rbf").fit(X, y)
        assert not hasattr(estimator, "projection_")
        estimator.set_params(kernel="linear").fit(X, y)
        assert not hasattr(estimator, "dual_coef_")


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_describe_the_estimators(name):
    method = ENTRIES[name]
    assert method.estimator_class().__module__ == method.module
    assert type(method.build()).__name__ == method.attribute
    assert method.uses_graph == hasattr(method.build(), "graph")
    assert method.paper
    X, Y = multi_label()
    if method.multi_label:
        assert method.build().fit(X, Y).transform(X).shape[0] == 60
    else:
        with pytest.raises(InvalidInput, match="exactly one class per item"):
            method.build().fit(X, Y)


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("scale", ["none", "zscore"])
def test_comparisons_on_wine_run_without_a_warning(registered, name, scale):
    X, y = load_wine(return_X_y=True)
    train, test = stratified_folds(y, 3)[0]
    scores = evaluate_fold(name, None, X, y, train, test, scale=scale, single_label=True)
    f1 = {score.metric: score.value for score in scores if score.classifier == "1nn"}["micro_f1"]
    assert f1 > (0.9 if scale == "zscore" else 0.5)


@pytest.mark.parametrize("name", [name for name, method in ENTRIES.items() if method.multi_label])
def test_comparisons_on_several_labels_run_without_a_warning(registered, name):
    X, Y = multi_label(150, 30, 6)
    train, test = stratified_folds(Y, 3)[0]
    scores = evaluate_fold(name, None, X * np.linspace(0.01, 100, 30), Y, train, test, scale="zscore")
    assert {score.classifier for score in scores} == {"1nn", "10nn"}
    assert all(np.isfinite(score.value) for score in scores)
