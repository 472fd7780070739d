"""Degenerate data for the exactness tests: repeated rows, constant features, empty labels, two components."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.literal_discriminant import connected_graph
from tests.synthetic import multi_label

SHAPES = [(40, 7), (24, 33)]
FORMS = {"dense": np.asarray, "sparse": sp.csr_array}
ODD = ["plain", "repeated rows", "constant and repeated features", "empty and full labels", "two components"]

CASES = [(k, s, d, f) for k in ODD for s in SHAPES for d in (np.float32, np.float64) for f in FORMS]

over_all_data = pytest.mark.parametrize(("kind", "shape", "dtype", "form"), CASES)

mostly_slowly_over_all_data = pytest.mark.parametrize(
    ("kind", "shape", "dtype", "form"),
    [
        case if case[2:] == (np.float64, "dense") else pytest.param(*case, marks=pytest.mark.slow)
        for case in CASES
    ],
)
"""For slower methods: forms other than dense float64 are tested only by the slow tests."""


def odd_data(kind, shape, dtype):
    """Return items, label columns with a third hidden, and a graph."""
    X, Y = multi_label(*shape, K=5)
    if kind == "repeated rows":
        X, Y = np.vstack([X, X[:6]]), np.vstack([Y, Y[:6]])
    if kind == "constant and repeated features":
        X[:, 2], X[:, 3] = 1 / 3, X[:, 0]
    if kind == "empty and full labels":
        Y[:, 1], Y[:, 3] = 0, 1
    X = X.astype(dtype)
    Y[2::3] = -1
    W = connected_graph(X)
    if kind == "two components":
        half = len(X) // 2
        W[:half, half:], W[half:, :half] = 0, 0
    return X, Y, W
