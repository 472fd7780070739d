"""Literal versions of the eigenmaps, and problems to compare them on."""

import numpy as np
import scipy.linalg

from tests.synthetic import single_label

MAPS = ["linear", "nystrom", "kernel_ridge"]


def overlapping(n=60, p=7, K=4):
    """Overlapping classes, so that the nearest-neighbor graph is connected."""
    X, y = single_label(n, p, K)
    return X + np.random.default_rng(1).normal(scale=2, size=X.shape), y


def partly_labeled(make, n=60):
    X, Y = make(n)
    Y[1::3] = -1
    return X, Y


def literal_squares(X):
    return ((X[:, None] - X) ** 2).sum(axis=2)


def literal_neighbors(distance, k):
    """1 if the column is among the k nearest of the row, not counting itself."""
    near = np.zeros(distance.shape)
    order = np.argsort(distance + np.diag(np.full(len(distance), np.inf)), axis=1)
    np.put_along_axis(near, order[:, :k], 1.0, axis=1)
    return near


def literal_weights(X, Y, k, balance):
    """w of Eq. 3 pair by pair; rows of -1 and of 0 have no label links."""
    near = literal_neighbors(literal_squares(X), k)
    common = np.array([[((a == 1) & (b == 1)).sum() for b in Y] for a in Y])
    union = np.array([[((a == 1) | (b == 1)).sum() for b in Y] for a in Y])
    return balance * (near + near.T) / 2 + (1 - balance) * common / np.maximum(union, 1)


def literal_heat(X, k, sigma):
    """W of Sect. 2.1."""
    squared = literal_squares(X)
    near = literal_neighbors(squared, k)
    return np.exp(-squared / sigma) * np.maximum(near, near.T)


def literal_eigenmap(W, r):
    D = np.diag(W.sum(axis=1))
    mu, Z = scipy.linalg.eigh(D - W, D)
    return mu[1 : r + 1], Z[:, 1 : r + 1]


def same_span(Z, expected, D, atol=1e-7):
    np.testing.assert_allclose(np.linalg.svd(Z.T @ (D[:, None] * expected), compute_uv=False), 1, atol=atol)


def check_laplacian_pairs(Z, eigenvalues, W):
    """L Z = D Z Λ, Z^T D Z = I, and orthogonal to the constant vector."""
    D = np.diag(W.sum(axis=1))
    np.testing.assert_allclose(Z.T @ D @ Z, np.eye(Z.shape[1]), atol=1e-9)
    np.testing.assert_allclose((D - W) @ Z, D @ Z * eigenvalues, atol=1e-9)
    np.testing.assert_allclose(D.sum(axis=0) @ Z, 0, atol=1e-9)
    np.testing.assert_allclose(eigenvalues, literal_eigenmap(W, Z.shape[1])[0], atol=1e-9)


def literal_mean_square(X):
    """Mean squared distance over all pairs."""
    squared = literal_squares(X)
    return squared.sum() / (len(X) * (len(X) - 1))
