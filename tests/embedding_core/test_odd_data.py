"""Odd data in all public estimators: what says nothing changes nothing, and rounding is no signal."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.graph.graphs import build_knn_graph
from tests.core_estimators import (
    LINEAR,
    NAMES,
    SEVERAL_LABELS,
    fresh,
    label_columns,
    partly_labeled,
)

pytestmark = pytest.mark.slow

# widths of kernels that do not depend on the number of features
WIDTHS = {"DiscriminativeProjections-rbf": {"gamma": 0.05}, "LPSSVM-rbf": {"theta": 0.05}}
MOVES_ALONG = [name for name in NAMES if name != "LPSSVM-linear"]
"""A move of all items does not change these; X D X^T of LPSSVM is not centered, in the paper either."""


def distances(Q):
    return np.sqrt(((Q[:, None] - Q[None]) ** 2).sum(axis=2))


def same_places(model, expected, atol=1e-6):
    """Both place their items alike, up to a move of all."""
    assert model.embedding_.shape == expected.embedding_.shape
    theirs = distances(expected.embedding_)
    np.testing.assert_allclose(distances(model.embedding_), theirs, atol=atol * theirs.max())


def seeds(name):
    """How rounding falls is a matter of chance: several problems, fewer for what is slow."""
    return range(2 if name.startswith("LPSSVM") else 6)


@pytest.mark.parametrize("name", MOVES_ALONG)
@pytest.mark.parametrize("value", [0.1, 7.7])
def test_a_constant_feature_changes_nothing(name, value):
    for seed in seeds(name):
        X, y = partly_labeled(seed=seed)
        W = build_knn_graph(X, 8)
        plain = fresh(name, **WIDTHS.get(name, {})).fit(X, y, W)
        wider = fresh(name, **WIDTHS.get(name, {})).fit(np.column_stack([X, np.full(60, value)]), y, W)
        same_places(wider, plain)
        if name in LINEAR:
            assert np.abs(wider.projection_[7]).max() <= 1e-6 * np.abs(wider.projection_).max()


@pytest.mark.parametrize("name", MOVES_ALONG)
def test_a_constant_feature_of_sparse_items_changes_nothing(name):
    X, y = partly_labeled()
    W = build_knn_graph(X, 8)
    plain = fresh(name, **WIDTHS.get(name, {})).fit(X, y, W)
    items = sp.csr_array(np.column_stack([X, np.full(60, 1 / 3)]))
    same_places(fresh(name, **WIDTHS.get(name, {})).fit(items, y, W), plain)


@pytest.mark.parametrize("name", NAMES)
def test_features_that_others_determine_add_no_dimension(name):
    more = {"n_components": 2} | WIDTHS.get(name, {})
    for seed in seeds(name):
        X, y = partly_labeled(100, 3, seed=seed)
        W = build_knn_graph(X, 8)
        M = np.random.default_rng(seed).normal(size=(3, 1))
        basis = np.linalg.qr(np.vstack([np.eye(3), M.T]))[0]
        items = np.hstack([X, X @ M]) + 3  # in three coordinates: items @ basis
        if name == "LPSSVM-linear":
            items -= 3
        plain, model = fresh(name, **more).fit(items @ basis, y, W), fresh(name, **more).fit(items, y, W)
        np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-5, atol=1e-8)


@pytest.mark.filterwarnings("ignore:.* no link to any other")
@pytest.mark.parametrize(
    "name", ["DLE", "DLE-balanced", "MultiLabelDLE", "DiscriminativeProjections", "LPSSVM-linear"]
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_feature_that_no_link_crosses_does_not_make_rounding_a_direction(name, form):
    # two groups that a 0/1 feature tells apart, linked only inside: X^T L X is zero along it
    for seed in seeds(name):
        X, y = partly_labeled(150, 4, seed=seed)
        rng = np.random.default_rng(seed)
        group, rows = rng.random(150) < 0.3 + 0.1 * y, rng.permutation(150)
        items = np.column_stack([X / 100, group])
        W = np.where(group[:, None] == group, build_knn_graph(X, 10).toarray(), 0.0)
        plain = fresh(name, n_components=2).fit(items, y, form(W))
        turned = fresh(name, n_components=2).fit(items[rows], y[rows], form(W[np.ix_(rows, rows)]))
        np.testing.assert_allclose(turned.eigenvalues_, plain.eigenvalues_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_repeated_items_lie_on_one_point(name):
    X, y = partly_labeled()
    X, y = np.vstack([X, X[:20]]), np.append(y, y[:20])
    W = build_knn_graph(X, 12, sigma=5.0)
    W = sp.csr_array(W)
    model = fresh(name).fit(X, y, W)
    assert np.isfinite(model.embedding_).all()
    found = model.transform(X)
    np.testing.assert_allclose(found[60:], found[:20], atol=1e-9 * np.abs(found).max())


@pytest.mark.parametrize("name", SEVERAL_LABELS)
def test_labels_that_no_item_or_every_item_has(name):
    X, Y = partly_labeled()[0], label_columns(name)
    hidden = Y[:, :1] < 0
    columns = np.hstack([Y, np.where(hidden, -1, 0), np.where(hidden, -1, 1)])
    model = fresh(name).fit(X, columns)
    assert np.isfinite(model.embedding_).all()
    assert model.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    assert model.embedding_.shape[1] >= 3


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("LPSSVM")])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scale_of_the_items_as_a_whole_does_not_matter(name, scale):
    # that of LPSSVM does: C weighs errors against margins in units of the items
    X, y = partly_labeled()
    W = build_knn_graph(X, 8)
    plain, scaled = (fresh(name).fit(items, y, W).embedding_ for items in (X, scale * X))
    unit = np.abs(scaled).max() / np.abs(plain).max()
    np.testing.assert_allclose(scaled, unit * plain, atol=1e-6 * np.abs(scaled).max())
