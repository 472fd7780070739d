"""All public estimators give the same result for every form of the same items, labels and graph."""

import inspect

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from embedding_core import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from tests.core_estimators import (
    ESTIMATORS,
    NAMES,
    SEVERAL_LABELS,
    WITH_GRAPH,
    fresh,
    label_columns,
    outputs,
    partly_labeled,
)

pytestmark = pytest.mark.slow

WEIGHTED = [name for name in NAMES if "sample_weight" in inspect.signature(ESTIMATORS[name].fit).parameters]
FORMS = {
    "frame": pd.DataFrame,
    "CSR": sp.csr_array,
    "CSC": sp.csc_array,
    "Fortran order": np.asfortranarray,
}


def same(model, expected, X, X_other=None, atol=1e-8):
    """Assert that both models give the same numbers, up to `atol` of the largest."""
    theirs = outputs(expected, X)
    for part, values in outputs(model, X if X_other is None else X_other).items():
        scale = np.abs(theirs[part]).max()
        np.testing.assert_allclose(values, theirs[part], rtol=0, atol=atol * scale, err_msg=part)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("shape", "graph"), [((60, 7), "own"), ((40, 55), "given")])
def test_items_in_any_form(name, shape, graph):
    X, y = partly_labeled(*shape)
    X = np.where(X > -1, X, 0.0)
    W = build_knn_graph(X, 8) if graph == "given" else None
    plain, before = fresh(name).fit(X, y, W), X.copy()
    for form in FORMS.values():
        same(fresh(name).fit(form(X), y, W), plain, X, form(X), atol=1e-6)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("name", NAMES)
def test_new_items_may_come_in_another_form_than_those_of_the_fit(name):
    X, y = partly_labeled()
    dense, sparse = fresh(name).fit(X, y), fresh(name).fit(sp.csr_array(X), y)
    new = partly_labeled(seed=5)[0][:9]
    expected = dense.transform(new)
    for model, items in ((dense, sp.csr_array(new)), (sparse, new), (sparse, sp.csr_array(new))):
        found = model.transform(items)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_float32_items_are_fitted_in_float64(name, form):
    X, y = partly_labeled()
    X = (X + 5).astype(np.float32)
    single, double = (fresh(name).fit(form(items), y) for items in (X, X.astype(np.float64)))
    same(single, double, form(X.astype(np.float64)), form(X), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_classes_and_their_columns_are_the_same(name):
    X, y = partly_labeled()
    columns = np.where(y[:, None] < 0, -1, y[:, None] == np.arange(4))
    np.testing.assert_array_equal(fresh(name).fit(X, columns).embedding_, fresh(name).fit(X, y).embedding_)


@pytest.mark.parametrize("name", WITH_GRAPH)
def test_affinity_in_any_form(name):
    X, y = partly_labeled()
    W = build_knn_graph(X, 8)
    dense, looped = W.toarray(), W.toarray() + np.diag(np.arange(60.0))
    plain = fresh(name).fit(X, y, W)
    atol = 1e-6 if name.startswith("LPSSVM") else 1e-8
    unsorted = sp.csr_array(W[:, ::-1].tocsr()[:, ::-1])
    for affinity in (dense, sp.csr_matrix(W), sp.coo_array(W), unsorted):
        same(fresh(name).fit(X, y, affinity=affinity), plain, X, atol=atol)
    for affinity in (looped, sp.csr_array(looped)):  # self-loops cancel in D - W
        same(fresh(name).fit(X, y, affinity=affinity), plain, X, atol=atol)
    np.testing.assert_array_equal(W.toarray(), dense)


@pytest.mark.parametrize("name", WITH_GRAPH)
def test_a_supplied_graph_replaces_the_default_one(name):
    X, y = partly_labeled()
    one, two = (fresh(name).fit(X, y, build_knn_graph(X, k)) for k in (8, 25))
    assert np.abs(one.embedding_ - two.embedding_).max() > 1e-4 * np.abs(two.embedding_).max()


@pytest.mark.parametrize("name", SEVERAL_LABELS)
def test_order_of_the_labels_does_not_matter(name):
    X, Y = partly_labeled()[0], label_columns(name)
    labels = np.array([2, 0, 3, 1])
    plain, turned = fresh(name).fit(X, Y), fresh(name).fit(X, Y[:, labels])
    expected = plain.embedding_
    if name.startswith("LPSSVM"):  # three dimensions per label, side by side
        expected = expected.reshape(60, 4, 3)[:, labels].reshape(60, 12)
        np.testing.assert_allclose(turned.decision_function(X), plain.decision_function(X)[:, labels])
    np.testing.assert_allclose(turned.embedding_, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("name", NAMES)
def test_the_position_of_an_item_does_not_depend_on_other_new_items(name):
    X, y = partly_labeled()
    model = fresh(name).fit(X, y)
    together = model.transform(X)
    alone = np.vstack([model.transform(X[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(alone, together[:5], atol=1e-10 * np.abs(together).max())


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_items(name):
    X, y = partly_labeled()
    plain = fresh(name).fit(X, y)
    for weight in ([1] * 60, pd.Series(np.ones(60))):
        same(fresh(name).fit(X, y, sample_weight=weight), plain, X, atol=1e-6)
    weight = np.where(np.arange(60) % 4 == 0, 0.0, 1.0)
    unlabeled = fresh(name).fit(X, np.where(weight == 0, -1, y))
    same(fresh(name).fit(X, y, sample_weight=weight), unlabeled, X, atol=1e-6)
    for bad, message in (
        (np.ones(59), r"sample_weight has shape \(59,\); expected \(60,\)"),
        (-np.ones(60), "sample_weight contains negative"),
        (np.full(60, np.nan), "sample_weight contains negative or non-finite"),
        (np.zeros(60), "sample_weight is zero for"),
    ):
        with pytest.raises(InvalidInput, match=message):
            fresh(name).fit(X, y, sample_weight=bad)
