"""Propagation of features along links against the literal dense power iteration."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.errors import InvalidInput
from embedding_core.graph import propagation
from embedding_core.graph.propagation import RESTARTS, LinkPropagation, link_operator

EXACT = {"rtol": 0, "atol": 1e-12}


def unit(Z):
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    return Z / np.where(lengths > 0, lengths, 1)


def literal_kernel(A, X, restarts=RESTARTS, steps=10):
    """Mean of Z Z^T over the restarts, dense; A may be directed."""
    looped = A / (A[A > 0].mean() if (A > 0).any() else 1) + np.eye(len(A))
    S = looped / np.sqrt(np.outer(looped.sum(axis=1), looped.sum(axis=0)))
    kernels = []
    for a in restarts:
        Z = X
        for _ in range(steps):
            Z = (1 - a) * S @ Z + a * X
        kernels.append(unit(Z) @ unit(Z).T)
    return np.mean(kernels, axis=0)


def collection(n=40, p=12, seed=0, weighted=True):
    """Words of items and links between most of them; the last three have no link, the first no word."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, p)) < 0.3) * rng.integers(1, 4, (n, p)).astype(float)
    X[0] = 0
    A = np.triu(rng.random((n, n)) < 0.1, 1) * (rng.random((n, n)) + 0.5 if weighted else 1.0)
    A[-3:] = A[:, -3:] = 0
    return X, A + A.T


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_inner_products_are_the_mean_of_the_literal_kernels(form, weighted):
    X, A = collection(weighted=weighted)
    P = LinkPropagation().fit_transform(form(X), form(A))
    np.testing.assert_allclose(P @ P.T, literal_kernel(A, unit(X)), **EXACT)


def test_dense_features_are_z_scored_first():
    X, A = np.random.default_rng(3).normal(2, 5, (40, 6)), collection()[1]
    P = LinkPropagation().fit_transform(X, A)
    np.testing.assert_allclose(
        P @ P.T, literal_kernel(A, unit((X - X.mean(axis=0)) / X.std(axis=0))), **EXACT
    )


def test_blocks_of_columns_change_nothing():
    X, A = collection()
    S = [link_operator(sp.csr_array(A))]
    whole = propagation.propagate_rows(S, X, RESTARTS, 10, 1e9)
    by_column = propagation.propagate_rows(S, sp.csr_array(X), RESTARTS, 10, 1.0)
    np.testing.assert_allclose(by_column, whole, **EXACT)


def test_both_directions_are_the_mean_of_two_kernels():
    X, A = collection()
    A = np.triu(A) + np.tril(A) * (np.random.default_rng(1).random(A.shape) < 0.5)
    P = LinkPropagation(direction="both").fit_transform(X, A)
    expected = (literal_kernel(A, unit(X)) + literal_kernel(A.T, unit(X))) / 2
    np.testing.assert_allclose(P @ P.T, expected, **EXACT)
    assert np.abs(P @ P.T - literal_kernel(np.maximum(A, A.T), unit(X))).max() > 0.01


def test_without_direction_the_larger_weight_counts():
    X, A = collection(weighted=False)
    P = LinkPropagation().fit_transform(X, np.triu(A))
    np.testing.assert_allclose(P, LinkPropagation().fit_transform(X, A), **EXACT)


def test_rows_follow_a_permutation_of_the_items():
    X, A = collection()
    order = np.random.default_rng(2).permutation(len(X))
    P = LinkPropagation().fit_transform(X, A)
    np.testing.assert_allclose(
        LinkPropagation().fit_transform(X[order], A[np.ix_(order, order)]), P[order], **EXACT
    )


def test_the_unit_of_the_weights_does_not_matter():
    X, A = collection()
    P = LinkPropagation().fit_transform(X, A)
    np.testing.assert_allclose(LinkPropagation().fit_transform(X, 1e6 * A), P, **EXACT)


def test_items_without_links_keep_their_attributes():
    X, A = collection()
    P = LinkPropagation().fit_transform(X, A)
    own = np.hstack([unit(X)] * len(RESTARTS)) / np.sqrt(len(RESTARTS))
    np.testing.assert_allclose(P[-3:], own[-3:], **EXACT)
    np.testing.assert_allclose(LinkPropagation().fit_transform(X, 0 * A), own, **EXACT)


def test_links_of_an_item_to_itself_change_nothing():
    X, A = collection()
    P = LinkPropagation().fit_transform(X, A)
    np.testing.assert_array_equal(LinkPropagation().fit_transform(X, A + 7 * np.eye(len(A))), P)


def test_components_of_the_graph_do_not_mix():
    X, A = collection()
    A[:20, 20:] = A[20:, :20] = 0
    other = X.copy()
    other[20:] = np.random.default_rng(5).permutation(other[20:])
    before, after = (LinkPropagation().fit_transform(one, A) for one in (X, other))
    np.testing.assert_array_equal(before[:20], after[:20])


def test_no_restart_averages_over_links():
    X, A = collection(weighted=False)
    P = LinkPropagation(restarts=(0.0,), steps=2, scale="none").fit_transform(X, A)
    np.testing.assert_allclose(P @ P.T, literal_kernel(A, X, (0.0,), 2), **EXACT)


@pytest.mark.parametrize("direction", ["symmetric", "both"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_new_items_are_placed_as_in_a_propagation_of_all(form, direction):
    X, A = collection(weighted=False)
    known, new = slice(0, 30), slice(30, 40)
    if direction == "both":
        A[known, new] = 0  # known items do not link to new ones
    whole = LinkPropagation(direction=direction).fit(form(X), form(A))
    part = LinkPropagation(direction=direction).fit(form(X[known]), form(A[known, known]))
    placed = part.transform(form(X[new]), form(A[new]))
    np.testing.assert_allclose(placed, whole.propagated()[new], **EXACT)
    alone = A.copy()
    alone[new, new] = 0
    whole = LinkPropagation(direction=direction).fit(form(X), form(alone))
    placed = part.transform(form(X[new]), form(A[new, known]))
    np.testing.assert_allclose(placed, whole.propagated()[new], **EXACT)


def test_new_items_without_links_are_placed_by_their_attributes():
    X, A = collection(weighted=False)
    part = LinkPropagation().fit(X[:30], A[:30, :30])
    own = np.hstack([unit(X[30:])] * 3) / np.sqrt(3)
    np.testing.assert_allclose(part.transform(X[30:]), own, **EXACT)
    np.testing.assert_allclose(part.transform(X[30:], np.zeros((10, 30))), own, **EXACT)


def test_all_principal_components_give_the_same_kernel():
    """Features of rank 5 are 16 columns wide; a budget too small for them leaves 15 components."""
    rng = np.random.default_rng(4)
    X, A = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 17)), collection(60)[1]
    wide = LinkPropagation(scale="unit").fit(X, A)
    narrow = LinkPropagation(scale="unit", memory_budget_bytes=1000).fit(X, A)
    assert wide.axes_ is None
    assert narrow.axes_ is not None and narrow.axes_.shape == (17, 16)
    P, Q = wide.propagated(), narrow.propagated()
    np.testing.assert_allclose(P @ P.T, Q @ Q.T, atol=1e-8)
    P, Q = (one.transform(X[:7], A[:7]) for one in (wide, narrow))
    np.testing.assert_allclose(P @ P.T, Q @ Q.T, atol=1e-8)
    np.testing.assert_array_equal(
        narrow.rows_, LinkPropagation(scale="unit", memory_budget_bytes=1000).fit(X, A).rows_
    )


@pytest.mark.parametrize(
    ("links", "says"),
    [
        (np.zeros((3, 4)), "expected"),
        (np.array([[0, -1, 0, 0]] * 4), "the weight -1"),
        (np.full((4, 4), np.nan), "not a matrix of weights"),
        (np.full((4, 4), 1e300), "Divide the weights"),
        ("abc", "not a matrix of weights"),
    ],
)
def test_bad_links_are_refused(links, says):
    with pytest.raises(InvalidInput, match=says):
        LinkPropagation().fit(np.eye(4), links)


@pytest.mark.parametrize(
    "params",
    [{"restarts": ()}, {"restarts": (1.5,)}, {"steps": 0}, {"direction": "up"}, {"scale": "log"}],
)
def test_bad_parameters_are_refused(params):
    with pytest.raises(InvalidInput, match=next(iter(params))):
        LinkPropagation(**params).fit(np.eye(4), np.zeros((4, 4)))
