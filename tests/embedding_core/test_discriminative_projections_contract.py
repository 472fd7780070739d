"""Discriminative projections: scikit-learn's contract, odd data, bytes and threads, errors."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from embedding_core.discriminant import discriminative_projections
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from tests.literal_projections import (
    DP,
    FORMS,
    SHAPES,
    distances,
    eigenvalues_in_range,
    partly_labeled,
    printed_matrices,
)
from tests.synthetic import multi_label, single_label, sparse_items


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [single_label, multi_label])
@pytest.mark.parametrize("offset", [0.1, 1e6 / 3])
def test_constant_and_repeated_features_repeated_rows_full_labels(form, make, offset):
    X, Y, _ = partly_labeled(make)
    X[:, 3] = offset
    X = np.column_stack([X, X[:, 0]])
    X, Y = np.concatenate([X, X[:10]]), np.concatenate([Y, Y[:10]])
    if Y.ndim == 2:
        Y[:, 2] = np.where(Y[:, 2] < 0, -1, 1)
    W = build_knn_graph(X, 3).toarray()
    model = DP(n_components=6).fit(FORMS[form](X), Y, W)
    np.testing.assert_array_equal(model.projection_[3], 0.0)
    np.testing.assert_allclose(model.projection_[0], model.projection_[-1], atol=1e-8)
    without = DP(n_components=6, scaling="natural").fit(np.delete(X, [3, 7], axis=1), Y, W)
    natural = DP(n_components=6, scaling="natural").fit(FORMS[form](X), Y, W)
    np.testing.assert_allclose(natural.eigenvalues_, without.eigenvalues_, atol=1e-8)
    np.testing.assert_allclose(distances(natural.embedding_), distances(without.embedding_), atol=1e-6)
    with pytest.raises(InvalidInput, match="n_components=7 exceeds the 6 directions"):
        DP(n_components=7).fit(FORMS[form](X), Y, W)


@pytest.mark.filterwarnings("ignore:.* no link to any other")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_disconnected_graphs_isolated_nodes_and_unlabeled_components(shape, kernel):
    X, y, W = partly_labeled(shape=shape)
    half = shape[0] // 2
    W[:half, half:], W[half:, :half] = 0, 0
    W[0], W[:, 0] = 0, 0
    y[half:] = -1
    X[half:] += 50
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DP(kernel=kernel, mu=0.3, n_components=4).fit(X, y, W)
    said = [str(one.message) for one in caught]
    assert sum("contain no labeled item" in text for text in said) == (kernel == "rbf")
    assert sum("no link to any other" in text for text in said) == 1
    assert np.isfinite(model.embedding_).all()
    if kernel == "linear":
        A, B, C = printed_matrices(X, y, W, 0.3)
        np.testing.assert_allclose(model.eigenvalues_, eigenvalues_in_range(A + C, B + C)[:4], atol=1e-7)


def test_few_labeled_items_and_coinciding_means():
    X, _, _ = partly_labeled()
    few = np.full(60, -1)
    few[:4] = [0, 0, 1, 1]
    assert np.isfinite(DP(n_components=7).fit(X, few).embedding_).all()
    assert DP(mu=0.0).fit(X, few).embedding_.shape == (60, 1)
    same = DP(n_components=3).fit(np.vstack([X, X]), np.repeat([0, 1], 60))
    assert np.isfinite(same.embedding_).all()
    np.testing.assert_allclose(same.label_projection_[0], same.label_projection_[1], atol=1e-8)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(5))
def test_rounding_errors_of_constant_features_give_no_direction(form, seed):
    X, y, W = partly_labeled(seed=seed)
    constant = np.random.default_rng(seed).normal(size=5) * 10.0 ** np.arange(-4, 6, 2)
    X = np.column_stack([X, np.tile(constant, (60, 1))])
    model = DP(n_components=7).fit(FORMS[form](X), y, W)
    np.testing.assert_array_equal(model.projection_[7:], 0.0)
    with pytest.raises(InvalidInput, match="n_components=8 exceeds the 7 directions"):
        DP(n_components=8).fit(FORMS[form](X), y, W)


def test_wide_sparse_items():
    X = sparse_items(40, 150, density=0.3)
    _, y, _ = partly_labeled(shape=(40, 3))
    sparse, dense = (DP(n_neighbors=5, n_components=8).fit(Z, y) for Z in (X, X.toarray()))
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, atol=1e-9)
    np.testing.assert_allclose(sparse.projection_, dense.projection_, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_float32_is_fitted_in_float64(form):
    X, y, W = partly_labeled()
    X = X.astype(np.float32)
    single, double = (DP(n_components=5).fit(FORMS[form](Z), y, W) for Z in (X, X.astype(np.float64)))
    np.testing.assert_allclose(single.projection_, double.projection_, atol=1e-10)


def test_signs_are_fixed():
    X, y, W = partly_labeled()
    model, mirrored = DP(n_components=5).fit(X, y, W), DP(n_components=5).fit(-X, y, W)
    F = model.projection_
    assert (F[np.abs(F).argmax(axis=0), np.arange(5)] > 0).all()
    np.testing.assert_allclose(mirrored.projection_, F, atol=1e-9)
    np.testing.assert_allclose(mirrored.label_projection_, -model.label_projection_, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_clone_pipeline_grid_search_and_frames(kernel):
    X, y = single_label(90)
    model = DP(kernel=kernel, ridge=1e-3, n_components=2).fit(X, y)
    with pytest.raises(NotFittedError):
        clone(model).transform(X)
    with pytest.raises(NotFittedError):
        clone(model).transform_labels(y)
    pipeline = make_pipeline(StandardScaler(), clone(model), KNeighborsClassifier(1))
    name = "discriminativeprojections"
    search = GridSearchCV(pipeline, {f"{name}__n_components": [1, 5]}, cv=StratifiedKFold(3)).fit(X, y)
    assert search.best_params_ == {f"{name}__n_components": 5}
    assert search.best_score_ > 0.6
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(7)])
    framed = clone(model).set_output(transform="pandas").fit(frame, pd.Series(y))
    assert list(framed.transform(frame).columns) == [f"{name}0", f"{name}1"]
    np.testing.assert_allclose(framed.transform(frame), model.transform(X))


def test_grid_search_slices_a_precomputed_kernel_on_both_axes():
    X, y = single_label(90)
    search = GridSearchCV(
        make_pipeline(DP(kernel="precomputed", ridge=1e-3), KNeighborsClassifier(1)),
        {"discriminativeprojections__n_components": [1, 4]},
        cv=StratifiedKFold(3),
    )
    assert search.fit(X @ X.T, y).best_score_ > 0.6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mu": -1.0}, 'mu=-1.0 is not legal; give a number >= 0 or "auto"'),
        ({"mu": "big"}, "mu='big' is not legal"),
        ({"mu": np.inf}, "mu=inf is not legal"),
        ({"ridge": -1}, "ridge=-1 is not legal; give a number >= 0."),
        ({"ridge": "auto"}, "ridge='auto' is not legal"),
        (
            {"kernel": "poly"},
            "kernel='poly' is not legal; choose one of linear, rbf, intersection, precomputed",
        ),
        ({"gamma": 0}, 'gamma=0 is not legal; give a positive number or "scale"'),
        ({"gamma": "auto"}, "gamma='auto' is not legal"),
        ({"scaling": "within"}, "scaling='within' is not legal; choose one of unit, natural"),
        ({"graph": "ring"}, "graph='ring' is not legal"),
        ({"sigma": -1.0}, "sigma=-1.0 is not a positive number"),
        ({"n_neighbors": 0}, "n_neighbors=0 is not legal"),
        ({"n_components": 0}, "n_components=0 is not legal"),
        ({"n_components": 8}, r"n_components=8 exceeds the 7 directions .* \(60 items, 7 features\)"),
        ({"n_components": 60, "kernel": "rbf"}, r"n_components=60 exceeds the 59 directions .* \(60 items\)"),
    ],
)
def test_bad_parameters_raise_clear_errors(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        DP(**parameters).fit(*multi_label())


def test_bad_data_raise_clear_errors(monkeypatch):
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match=r"1 class with labeled items \(5\)"):
        DP().fit(X, np.full(60, 5))
    with pytest.raises(InvalidInput, match="y has no labeled item"):
        DP().fit(X, np.zeros((60, 3)))
    with pytest.raises(InvalidInput, match="All 60 items are unlabeled"):
        DP().fit(X, np.full(60, -1))
    with pytest.raises(InvalidInput, match="contains NaN"):
        DP().fit(np.where(X > 1, np.nan, X), Y)
    with pytest.raises(InvalidInput, match="graph has no edge"):
        DP().fit(X, Y, affinity=np.zeros((60, 60)))
    assert DP(mu=0.0).fit(X, Y, affinity=np.zeros((60, 60))).mu_ == 0.0
    with pytest.raises(InvalidInput, match="not symmetric"):
        DP().fit(X, Y, affinity=np.triu(np.ones((60, 60))))
    with pytest.raises(InvalidInput, match="finds no direction: the labeled items coincide"):
        DP().fit(np.ones((60, 3)), Y)
    with pytest.raises(InvalidInput, match=r"shape \(60, 7\); it should be a square matrix"):
        DP(kernel="precomputed").fit(X, Y)
    with pytest.raises(InvalidInput, match="kernel is not symmetric"):
        DP(kernel="precomputed").fit(X @ X.T + np.triu(np.ones((60, 60))), Y)
    with pytest.raises(InvalidInput, match="not positive semidefinite"):
        DP(kernel="precomputed").fit(-X @ X.T, Y)
    monkeypatch.setattr(discriminative_projections, "MEMORY_BUDGET_BYTES", 1e5)
    with pytest.raises(InvalidInput, match=r"60 items needs 0.0 GB, the budget is 0.0 GB; pass landmarks"):
        DP(kernel="rbf").fit(X, Y)


def test_bad_labels_raise_clear_errors():
    X, y, W = partly_labeled()
    model = DP().fit(X, y, W)
    with pytest.raises(
        InvalidInput, match=r"y contains 7, which was not seen in fit; choose among \[0, 1, 2, 3\]"
    ):
        model.transform_labels([0, 7])
    with pytest.raises(InvalidInput, match="y has 2 columns; expected the 4 labels"):
        model.transform_labels([[0, 1]])
    with pytest.raises(InvalidInput, match=r"Row 1 of y has no label \(2 such rows\)"):
        model.transform_labels([[1, 0, 0, 0], [0, 0, 0, 0], [-1, -1, -1, -1]])
    with pytest.raises(InvalidInput, match="Row 0 of y has no label"):
        model.transform_labels([-1, 2])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_labels_on_which_all_labeled_items_agree_raise_an_error(kernel):
    X, Y, W = partly_labeled(multi_label)
    agreed = "items have no label on which they differ; DiscriminativeProjections separates"
    alone = "^Only one item is labeled; DiscriminativeProjections separates"
    for rows, labels in [(slice(None, 9), [1, 1, 0, 0]), (slice(5, 6), [1, 1, 0, 1]), (slice(None), [1] * 4)]:
        same = np.full_like(Y, -1)
        same[rows] = labels
        with pytest.raises(InvalidInput, match=alone if rows == slice(5, 6) else agreed):
            DP(kernel=kernel).fit(X, same, W)
    weight = (Y[0] == Y).all(axis=1).astype(float)
    with pytest.raises(InvalidInput, match=agreed):
        DP(kernel=kernel).fit(X, Y, W, sample_weight=weight)
    weight[1 + np.flatnonzero((Y[1:] != Y[0]).any(axis=1) & (Y[1:, 0] >= 0))[0]] = 1.0
    DP(kernel=kernel).fit(X, Y, W, sample_weight=weight)
