"""Bad input of MLDA, DLE, MultiLabelDLE and discriminative projections gives clear errors, never NaN."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core import DLE, MLDA, MultiLabelDLE
from embedding_core.errors import InvalidInput
from embedding_core.graph.laplacian import GraphLaplacian
from embedding_core.linalg import eigen
from embedding_core.linalg.scatter import class_scatter
from embedding_core.model_selection import inner_choice
from tests.literal_discriminant import connected_graph
from tests.literal_projections import DP
from tests.synthetic import single_label

GRAPH_METHODS = [
    DLE(),
    DLE(projection="g"),
    DLE(objective="balanced"),
    MultiLabelDLE(),
    DP(),
    DP(kernel="rbf"),
    DP(kernel="rbf", landmarks=range(4)),
]
METHODS = [MLDA(), *GRAPH_METHODS]
FORMS = [np.asarray, sp.csr_array]

every_method = pytest.mark.parametrize("model", METHODS, ids=repr)
every_graph_method = pytest.mark.parametrize("model", GRAPH_METHODS, ids=repr)


def changed(array, where, value):
    array = np.array(array, dtype=float)
    array[where] = value
    return array


def problem():
    X, y = single_label()
    y[::5] = -1
    return X, y, connected_graph(X)


@every_method
@pytest.mark.parametrize("form", FORMS)
def test_non_finite_items_raise_an_error(model, form):
    X, y, W = problem()
    for value, found in ((np.nan, "contains NaN"), (np.inf, "contains infinity")):
        with pytest.raises(InvalidInput, match=found):
            model.fit(form(changed(X, (3, 2), value)), y, W)
        with pytest.raises(InvalidInput, match=found):
            model.fit(X, changed(y, 4, value), W)
    with pytest.raises(InvalidInput, match="contains NaN"):
        model.fit(X, y, W).transform(form(changed(X, (3, 2), np.nan)))


@every_method
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full(60, -1), "All 60 items are unlabeled"),
        (np.full((60, 2), -1), "All 60 items are unlabeled"),
        (np.full(60, 7), r"1 class with labeled items \(7\)"),
        (np.r_[np.zeros(30, int), np.full(30, -1)], r"1 class with labeled items \(0\)"),
        (np.tile([1, 2], (60, 1)), r"y\[0, 1\] = 2 is not a label; expected 0, 1, or a whole row of -1"),
        (np.tile([1, -1], (60, 1)), "Row 0 of y mixes -1 with 0/1"),
        (np.linspace(0, 1, 60), "Unknown label type"),
        (np.arange(59) % 3, "give one row of labels per item"),
        (None, "requires y to be passed"),
    ],
)
def test_uninformative_labels_raise_an_error(model, labels, message):
    X, _, W = problem()
    with pytest.raises(InvalidInput, match=message):
        model.fit(X, labels, W)


@every_graph_method
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ((1, 2), -0.5, r"affinity\[1, 2\] = -0.5 is negative; similarities must be >= 0"),
        ((1, 2), 9.0, r"affinity is not symmetric: \[1, 2\] = 9.0 but .*; pass \(W \+ W.T\) / 2"),
        ((1, 2), np.nan, "affinity contains NaN"),
        ((1, 2), np.inf, "affinity contains infinity"),
        (slice(None), 0.0, "graph has no edge|links no two different items"),
    ],
)
def test_invalid_graphs_raise_an_error(model, form, where, value, message):
    X, y, W = problem()
    with pytest.raises(InvalidInput, match=message):
        model.fit(X, y, form(changed(W, where, value)))


@every_graph_method
def test_graphs_of_wrong_shape_or_without_edges_raise_an_error(model):
    X, y, W = problem()
    with pytest.raises(InvalidInput, match=r"shape \(59, 59\); expected \(60, 60\)"):
        model.fit(X, y, W[:59, :59])
    with pytest.raises(InvalidInput, match="needs at least two"):
        model.fit(X[:1], y[1:2])


@pytest.mark.filterwarnings("ignore:.* no link to any other")
@every_graph_method
@pytest.mark.parametrize("form", FORMS)
def test_isolated_items_are_placed_by_the_projection(model, form):
    X, y, W = problem()
    alone = [1, 31, 42]
    W[alone], W[:, alone] = 0, 0
    fitted = model.fit(form(X), y, form(W))
    assert np.isfinite(fitted.embedding_).all()
    np.testing.assert_allclose(fitted.transform(form(X[alone])), fitted.embedding_[alone], atol=1e-9)


@every_method
@pytest.mark.parametrize("form", FORMS)
def test_too_many_components_raise_an_error(model, form):
    X, y, W = problem()
    allowed = 3 if not isinstance(model, DP) else 7 if model.kernel == "linear" else 60
    with pytest.raises(InvalidInput, match=f"n_components={allowed + 1} exceeds .*; lower it"):
        type(model)(**{**model.get_params(), "n_components": allowed + 1}).fit(form(X), y, W)
    with pytest.raises(InvalidInput, match="n_components=True is not legal; give an integer >= 1 or None"):
        type(model)(**{**model.get_params(), "n_components": True}).fit(form(X), y, W)


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("p", [3, 80])
@pytest.mark.parametrize("value", [0.0, 1 / 3, 1e9 / 7])
def test_items_that_all_coincide(model, form, p, value):
    _, y, W = problem()
    with pytest.raises(InvalidInput, match=r"finds no direction|links no two different items"):
        model.fit(form(np.full((60, p), value)), y, W)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("p", [3, 40])
@pytest.mark.parametrize("model", [MLDA(), DLE(), DLE(projection="g"), MultiLabelDLE()], ids=repr)
def test_classes_without_spread_or_with_identical_items(model, form, p):
    X, _ = single_label(20, p)
    y = np.arange(20) % 4
    for items, labels in ((X[y], y), (np.vstack([X, X]), np.repeat([0, 1], 20)), (X[:4], np.arange(4))):
        affinity = np.ones((len(items), len(items)))
        with pytest.raises(InvalidInput, match="finds no direction that separates the classes"):
            model.fit(form(items), labels, affinity)


def test_numbers_that_underflow_float64():
    X, y = single_label(12, 30)
    with pytest.raises(InvalidInput, match=r"overflows: the features vary too little or too much.*Scale X"):
        DLE(projection="g").fit(sp.csr_array(X * 1e-152), y, np.ones((12, 12)))


@pytest.mark.parametrize("model", [DLE(sigma="cv", n_neighbors=5), DP(sigma="cv", n_neighbors=5)], ids=repr)
def test_a_fold_with_one_remaining_class_scores_zero(model, monkeypatch):
    X, _, _ = problem()
    y = np.full(60, -1)
    y[:4] = [0, 0, 0, 1]
    placed = []
    score = inner_choice._neighbor_score
    monkeypatch.setattr(
        inner_choice, "_neighbor_score", lambda Q, *rest: placed.append(Q.shape[1]) or score(Q, *rest)
    )
    assert model.fit(X, y).sigma_ > 0
    assert 0 in placed
    assert max(placed) > 0


def test_a_fold_without_remaining_labels_scores_zero():
    X, _, _ = problem()
    Y = np.full((60, 2), -1)
    Y[0], Y[1] = 1, 0
    assert DP(sigma="cv").fit(X, Y).sigma_ == DP().fit(X, Y).sigma_


@pytest.mark.parametrize("shape", [(50_000, 40_000), (60_000, 80_000)])
@pytest.mark.parametrize("model", [MLDA(), DLE(), MultiLabelDLE(), DP()], ids=repr)
def test_matrices_over_the_memory_budget_are_refused_before_allocation(model, shape):
    n, p = shape
    X = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n) % p)), shape=shape)
    y = np.arange(n) % 3
    W = sp.csr_array(sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1]))
    d = min(n, p)
    tracemalloc.start()
    with pytest.raises(
        InvalidInput,
        match=rf"4 matrices of {d} x {d}, .* the budget is 8.0 GB; first reduce X to 15811 features",
    ):
        model.fit(X, y, W)
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()


def test_the_memory_budget_counts_the_smaller_side(monkeypatch):
    monkeypatch.setattr(eigen, "SQUARE_BUDGET_BYTES", 4 * 8 * 30**2)
    for shape in [(60, 30), (30, 60)]:
        X, y = single_label(*shape)
        for form in (np.asarray, sp.csr_array):
            MLDA().fit(form(X), y)
    for shape in [(60, 31), (31, 60)]:
        X, y = single_label(*shape)
        for form in (np.asarray, sp.csr_array):
            with pytest.raises(InvalidInput, match="4 matrices of 31 x 31"):
                MLDA().fit(form(X), y)
    X, y = single_label(60, 31)
    with pytest.raises(InvalidInput, match="4 matrices of 31 x 31"):
        class_scatter(X, np.eye(4)[y])
    with pytest.raises(InvalidInput, match="4 matrices of 31 x 31"):
        GraphLaplacian(np.ones((60, 60))).quadratic(X)


def test_a_single_labeled_item_cannot_choose_sigma():
    X, _, _ = problem()
    Y = np.full((60, 2), -1)
    Y[0] = 1
    reported = 'sigma="cv" chooses by labels, and 1 item is labeled; label two or more, or take sigma="auto"'
    with pytest.raises(InvalidInput, match=reported):
        MultiLabelDLE(sigma="cv").fit(X, Y)
