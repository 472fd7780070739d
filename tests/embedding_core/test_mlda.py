"""MLDA: eigenproblem, reduction to LDA, invariances, degenerate data, errors, and the Gram matrix form."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from threadpoolctl import threadpool_limits

from embedding_core import MLDA
from embedding_core.discriminant.mlda import solve_by_gram
from embedding_core.errors import InvalidInput
from embedding_core.labels import LABEL_WEIGHTS, as_indicator, label_weights
from embedding_core.linalg import row_blocks
from tests.synthetic import (
    literal_scatter,
    multi_label,
    positive_power,
    projector,
    single_label,
    sparse_items,
)


def within_metric(model: MLDA) -> np.ndarray:
    """G G^T: with scaling="within" it determines all distances in the embedding."""
    return model.projection_ @ model.projection_.T


@pytest.mark.parametrize("weights", LABEL_WEIGHTS)
@pytest.mark.parametrize("scaling", ["unit", "within"])
@pytest.mark.parametrize("shape", [(60, 7), (25, 40)])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_columns_solve_the_eigenproblem(weights, scaling, shape, form):
    # S_w^+ S_b v = lambda v, below Eq. 20
    X, Y = multi_label(*shape)
    model = MLDA(weights=weights, scaling=scaling).fit(X if form == "dense" else sp.csr_array(X), Y)
    S_b, S_w, _ = literal_scatter(X, label_weights(Y, weights))
    M = positive_power(S_w, -1) @ S_b
    G, values = model.projection_, model.eigenvalues_
    assert G.shape == (shape[1], 3)
    np.testing.assert_allclose(M @ G, G * values, atol=1e-8 * np.abs(G * values).max())
    expected = np.sort(np.linalg.eigvals(M).real)[::-1][:3]
    np.testing.assert_allclose(values, expected, rtol=1e-8)
    if scaling == "unit":
        np.testing.assert_allclose(np.linalg.norm(G, axis=0), 1.0)
    else:
        np.testing.assert_allclose(G.T @ S_w @ G, np.eye(3), atol=1e-8)


@pytest.mark.parametrize("weights", LABEL_WEIGHTS)
def test_on_classes_it_is_classical_lda(weights):
    X, y = single_label()
    model = MLDA(weights=weights, scaling="within").fit(X, y)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    G = lda.scalings_[:, :3]
    np.testing.assert_allclose(projector(model.projection_), projector(G), atol=1e-9)
    ratio = model.eigenvalues_ / model.eigenvalues_.sum()
    np.testing.assert_allclose(ratio, lda.explained_variance_ratio_[:3], rtol=1e-8)
    # same distances up to the common factor by which the two scale S_w
    np.testing.assert_allclose(within_metric(model) * len(X), G @ G.T, rtol=1e-6, atol=1e-9)


def test_classes_and_their_columns_are_the_same():
    X, y = single_label()
    y[::5] = -1
    np.testing.assert_array_equal(MLDA().fit(X, y).projection_, MLDA().fit(X, as_indicator(y).Y).projection_)


@pytest.mark.parametrize("p", [80, 300])
def test_sparse_wide_data_never_need_a_p_by_p_matrix(p):
    X = sparse_items(40, p, density=0.3)
    _, Y = multi_label(40)
    sparse, dense = MLDA(scaling="within").fit(X, Y), MLDA(scaling="within").fit(X.toarray(), Y)
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, rtol=1e-7)
    np.testing.assert_allclose(within_metric(sparse), within_metric(dense), atol=1e-7)
    np.testing.assert_allclose(sparse.embedding_, X @ sparse.projection_)


def test_unlabeled_items_are_embedded_but_not_used_in_the_fit():
    X, Y = multi_label()
    hidden = Y.copy()
    hidden[40:] = -1
    X_moved = X.copy()
    X_moved[40:] *= 100
    alone, beside = MLDA().fit(X[:40], Y[:40]), MLDA().fit(X_moved, hidden)
    np.testing.assert_allclose(beside.projection_, alone.projection_)
    np.testing.assert_allclose(beside.embedding_, X_moved @ alone.projection_)
    assert beside.embedding_.shape == (60, 3)


def test_items_without_any_label_add_nothing():
    X, Y = multi_label()
    more_X, more_Y = np.vstack([X, X[:5] + 50]), np.vstack([Y, np.zeros((5, 4), dtype=np.int8)])
    np.testing.assert_allclose(MLDA().fit(more_X, more_Y).projection_, MLDA().fit(X, Y).projection_)


def test_order_of_rows_and_labels_does_not_matter():
    X, Y = multi_label()
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(60), rng.permutation(4)
    model = MLDA().fit(X, Y)
    np.testing.assert_allclose(MLDA().fit(X[rows], Y[rows]).projection_, model.projection_, atol=1e-10)
    np.testing.assert_allclose(MLDA().fit(X, Y[:, columns]).projection_, model.projection_, atol=1e-10)


@pytest.mark.parametrize("shape", [(60, 7), (25, 40)])
def test_rotation_and_translation_leave_the_distances(shape):
    X, Y = multi_label(*shape)
    R = np.linalg.qr(np.random.default_rng(2).normal(size=(shape[1], shape[1])))[0]
    moved = MLDA(scaling="within").fit(X @ R + 30, Y)
    np.testing.assert_allclose(
        R @ within_metric(moved) @ R.T, within_metric(MLDA(scaling="within").fit(X, Y)), atol=1e-9
    )


def test_scale_of_the_features_does_not_matter():
    X, Y = multi_label()
    d = 10.0 ** np.linspace(-9, 9, 7)
    scaled, plain = MLDA(scaling="within").fit(X * d, Y), MLDA(scaling="within").fit(X, Y)
    np.testing.assert_allclose(scaled.eigenvalues_, plain.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(scaled.embedding_), np.abs(plain.embedding_), rtol=1e-6, atol=1e-9)


def test_fewer_components_are_the_first_ones():
    X, Y = multi_label()
    full, first = MLDA().fit(X, Y), MLDA(n_components=2).fit(X, Y)
    np.testing.assert_array_equal(first.projection_, full.projection_[:, :2])
    np.testing.assert_array_equal(first.eigenvalues_, full.eigenvalues_[:2])
    assert (np.diff(full.eigenvalues_) <= 0).all()


@pytest.mark.parametrize("shape", [(60, 7), (25, 40)])
def test_weights_count_copies(shape):
    X, Y = multi_label(*shape)
    s = np.random.default_rng(0).integers(0, 4, shape[0])
    weighted = MLDA(scaling="within").fit(X, Y, sample_weight=s)
    copied = MLDA(scaling="within").fit(np.repeat(X, s, axis=0), np.repeat(Y, s, axis=0))
    np.testing.assert_allclose(within_metric(weighted), within_metric(copied), atol=1e-9)
    np.testing.assert_allclose(weighted.mean_, copied.mean_)


def test_mean_is_weighted_by_z():
    for shape in [(60, 7), (25, 40)]:
        X, Y = multi_label(*shape)
        l = label_weights(Y, "l1").sum(axis=1)  # noqa: E741
        np.testing.assert_allclose(MLDA().fit(X, Y).mean_, l @ X / l.sum(), atol=1e-12)


@pytest.mark.parametrize("weights", LABEL_WEIGHTS)
def test_degenerate_data_give_finite_results_of_the_actual_rank(weights):
    X, Y = multi_label(K=6)
    X[:, 2], X[:, 3] = 4.0, X[:, 0]  # constant, repeated feature
    X, Y = np.vstack([X, X[:10]]), np.vstack([Y, Y[:10]])  # repeated rows
    Y[:, 1], Y[:, 3], Y[:, 5] = 0, 1, Y[:, 0]  # empty, full, repeated label
    model = MLDA(weights=weights).fit(X, Y)
    assert np.isfinite(model.embedding_).all()
    assert model.projection_.shape[1] <= 4
    S_b, S_w, _ = literal_scatter(X, label_weights(Y, weights))
    M = positive_power(S_w, -1) @ S_b
    np.testing.assert_allclose(M @ model.projection_, model.projection_ * model.eigenvalues_, atol=1e-8)
    np.testing.assert_allclose(model.projection_[2], 0.0, atol=1e-12)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_float32_is_fitted_in_float64(form):
    X, Y = multi_label()
    X = X.astype(np.float32)
    convert = np.asarray if form == "dense" else sp.csr_array
    single, double = MLDA().fit(convert(X), Y), MLDA().fit(convert(X.astype(np.float64)), Y)
    np.testing.assert_allclose(single.projection_, double.projection_, atol=1e-12)


def test_same_input_same_bytes_and_threads_agree():
    X, Y = multi_label(400, 50, 8)
    with threadpool_limits(1):
        one, again = MLDA().fit(X, Y), MLDA().fit(X, Y)
    with threadpool_limits(2):
        two = MLDA().fit(X, Y)
    assert one.projection_.tobytes() == again.projection_.tobytes()
    np.testing.assert_allclose(two.projection_, one.projection_, atol=1e-10)


def test_signs_are_fixed():
    X, Y = multi_label()
    G = MLDA().fit(X, Y).projection_
    assert (G[np.abs(G).argmax(axis=0), np.arange(3)] > 0).all()
    np.testing.assert_allclose(MLDA().fit(-X, Y).projection_, G, atol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weights": "cosine"}, "weights='cosine' is not legal; choose one of binary"),
        ({"scaling": 1}, "scaling=1 is not legal; choose one of unit, within"),
        ({"n_components": 0}, "n_components=0 is not legal"),
        ({"n_components": 1.5}, "n_components=1.5 is not legal"),
        ({"n_components": 4}, "n_components=4 exceeds K-1=3 for MLDA; lower it or add labels"),
    ],
)
def test_bad_parameters_raise_clear_errors(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        MLDA(**parameters).fit(*multi_label())


def test_bad_data_raise_clear_errors():
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match="inconsistent numbers of samples"):
        MLDA().fit(X[:-1], Y)
    with pytest.raises(InvalidInput, match=r"1 class with labeled items \(5\)"):
        MLDA().fit(X, np.full(60, 5))
    with pytest.raises(InvalidInput, match="y has no labeled item"):
        MLDA().fit(X, np.zeros((60, 3)))
    with pytest.raises(InvalidInput, match="contains NaN"):
        MLDA().fit(np.where(X > 1, np.nan, X), Y)
    with pytest.raises(InvalidInput, match="n_components=3 exceeds the 2 directions"):
        MLDA(n_components=3).fit(X[:, :2], Y)
    with pytest.raises(InvalidInput, match="no direction that separates"):
        MLDA().fit(np.ones((60, 3)), Y)
    with pytest.raises(InvalidInput, match="no direction that separates"):
        MLDA().fit(np.vstack([X, X]), np.repeat([0, 1], 60))
    with pytest.raises(InvalidInput, match=r"sample_weight has shape \(2,\)"):
        MLDA().fit(X, Y, sample_weight=[1, 2])
    with pytest.raises(InvalidInput, match="sample_weight contains negative"):
        MLDA().fit(X, Y, sample_weight=-np.ones(60))
    with pytest.raises(InvalidInput, match="sample_weight is zero"):
        MLDA().fit(X, Y, sample_weight=np.zeros(60))


@pytest.mark.parametrize("p", [2, 7])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_one_item_per_class_has_no_within_scatter(p, form):
    with pytest.raises(InvalidInput, match="no direction that separates"):
        MLDA().fit(form(multi_label(p=p)[0][:4]), [0, 1, 2, 3])


def test_a_feature_constant_within_classes_is_outside_the_range_of_s_w():
    # the pseudo-inverse of the paper ignores it; rounding errors must not reintroduce it
    X, y = single_label()
    X = np.column_stack([X, np.array([0.1, 1 / 3, 7.7, 2**0.5])[y]])
    model = MLDA(scaling="within").fit(X, y)
    np.testing.assert_array_equal(model.projection_[-1], 0.0)
    np.testing.assert_allclose(model.eigenvalues_, MLDA().fit(X[:, :-1], y).eigenvalues_)


def assert_solves(X, Z, rank):
    """S_w^+ S_b v = lambda v with v^T S_w v = 1, and no eigenvalue is missing."""
    solution = solve_by_gram(X, Z)
    G, values = solution.projection, solution.eigenvalues
    S_b, S_w, _ = literal_scatter(X.toarray().astype(np.float64), Z)
    M = positive_power(S_w, -1) @ S_b
    assert G.shape == (X.shape[1], rank)
    np.testing.assert_allclose(M @ G, G * values, atol=1e-7 * np.abs(G * values).max())
    np.testing.assert_allclose(G.T @ S_w @ G, np.eye(rank), atol=1e-7)
    np.testing.assert_allclose(values, np.sort(np.linalg.eigvals(M).real)[::-1][:rank], rtol=1e-6)


@pytest.mark.parametrize("weights", LABEL_WEIGHTS)
@pytest.mark.parametrize("p", [41, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_form_solves_the_eigenproblem(monkeypatch, weights, p, dtype):
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 7)
    _, Y = multi_label(40)
    assert_solves(sparse_items(40, p, density=0.3).astype(dtype), label_weights(Y, weights), 3)


def test_gram_form_with_single_labels_has_s_w_of_rank_n_minus_k():
    _, y = single_label(40)
    assert_solves(sparse_items(40, 150, density=0.3), label_weights(as_indicator(y).Y), 3)


def test_gram_form_with_repeated_rows_equal_labels_and_empty_items():
    X = sparse_items(40, 150, density=0.3)
    _, Y = multi_label(40, K=5)
    Y[:, 4] = Y[:, 0]
    X = sp.csr_array(sp.vstack([X, X[:9], 0 * X[:2]]))
    assert_solves(X, label_weights(np.vstack([Y, Y[:9], Y[:2]]), "binary"), 3)


def test_gram_form_of_items_in_few_dimensions():
    X = sp.csr_array(sparse_items(40, 3, density=0.8) @ sparse_items(3, 90, seed=1, density=0.5))
    assert_solves(X, label_weights(multi_label(40)[1]), 3)
    X = sp.csr_array(sparse_items(40, 2, density=0.8) @ sparse_items(2, 90, seed=1, density=0.5))
    assert_solves(X, label_weights(multi_label(40)[1]), 2)


@pytest.mark.parametrize("factor", [1.0, 1e-12, 1e12])
def test_gram_form_without_scatter_within_classes_has_no_direction(factor):
    X, y = sparse_items(4, 90, density=0.5) * factor, np.arange(4)
    assert solve_by_gram(X, label_weights(as_indicator(y).Y)).projection.shape == (90, 0)
    twice = sp.csr_array(sp.vstack([X, X]))
    assert solve_by_gram(twice, label_weights(as_indicator(np.r_[y, y]).Y)).projection.shape == (90, 0)


def test_gram_form_with_weights_and_unlabeled_items_is_deterministic():
    X, (_, Y) = sparse_items(60, 150, density=0.3), multi_label(60)
    Y[::5] = -1
    s = np.random.default_rng(0).integers(0, 3, 60)
    sparse = MLDA(scaling="within").fit(X, Y, sample_weight=s)
    dense = MLDA(scaling="within").fit(X.toarray(), Y, sample_weight=s)
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(sparse.projection_, dense.projection_, atol=1e-8)
    np.testing.assert_allclose(sparse.mean_, dense.mean_)
    again = MLDA(scaling="within").fit(X, Y, sample_weight=s)
    assert again.projection_.tobytes() == sparse.projection_.tobytes()


def test_gram_form_makes_no_p_by_p_matrix():
    p = 6000
    X, (_, Y) = sparse_items(50, p, density=0.01), multi_label(50)
    MLDA().fit(X, Y)  # imports
    tracemalloc.start()
    MLDA().fit(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < p * p / 8
