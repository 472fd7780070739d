"""Literal DLE for the tests: the printed p x p and n x n matrices, item by item, and test graphs."""

import itertools

import numpy as np

from embedding_core.graph.affinity import build_knn_graph
from embedding_core.labels import label_correlation
from tests.synthetic import literal_laplacian, literal_scatter, positive_power


def connected_graph(X):
    """Four nearest neighbors, and a weak chain that connects all items."""
    chain = np.diag(np.full(len(X) - 1, 0.05), 1)
    return build_knn_graph(X, 4).toarray() + chain + chain.T


def half_labeled(make, shape, **kwargs):
    """Items with every second label hidden, and a connected graph."""
    X, Y = make(*shape, **kwargs)
    Y[1::2] = -1
    return X, Y, connected_graph(X)


def literal_dle(X, Z, W):
    """U, F, G and eigenvalues of Eq. 1-2, and the matrix of Eq. 2; Z is zero for unlabeled items."""
    S_b, S_w, _ = literal_scatter(X, Z)
    A_root, S_root = positive_power(X.T @ literal_laplacian(W) @ X, -0.5), positive_power(S_w, -0.5)
    M = A_root @ S_root @ S_b @ S_root @ A_root
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    U = vectors[:, ::-1][:, : Z.shape[1] - 1]
    return {"u": U, "f": A_root @ U, "g": S_root @ A_root @ U}, values[::-1][: U.shape[1]], M


def literal_label_graph(X, Y, correlation, weight=None):
    """W_L of Eq. 18 and 19 as an n x n matrix, unlabeled items initialized by 1NN, and these labels."""
    labeled, filled = Y[:, 0] >= 0, Y.copy()
    for i in np.flatnonzero(~labeled):
        nearest = min(np.flatnonzero(labeled), key=lambda j: ((X[i] - X[j]) ** 2).sum())
        filled[i] = Y[nearest]
    C = label_correlation(Y if correlation == "train" else filled, weight)
    unit = filled / np.maximum(np.linalg.norm(filled, axis=1, keepdims=True), 1)
    return unit @ C @ unit.T, filled


def jacobi(S):
    """Eigenpairs of S, largest first, by rotations in long double; small ones are accurate too."""
    A, V = np.array(S, dtype=np.longdouble), np.eye(len(S), dtype=np.longdouble)
    for _ in range(12):
        for i, j in itertools.combinations(range(len(A)), 2):
            if abs(A[i, j]) > 1e-18 * np.sqrt(abs(A[i, i] * A[j, j])):
                z = (A[j, j] - A[i, i]) / (2 * A[i, j])
                t = (1 if z >= 0 else -1) / (abs(z) + np.sqrt(1 + z * z))
                R = np.array([[1, t], [-t, 1]]) / np.sqrt(1 + t * t)
                A[:, [i, j]] = A[:, [i, j]] @ R
                A[[i, j]] = R.T @ A[[i, j]]
                V[:, [i, j]] = V[:, [i, j]] @ R
    order = np.argsort(-np.diag(A))
    return np.diag(A)[order], V[:, order]


def inverse_root(S):
    """S^(-1/2) of a regular S, in long double."""
    values, V = jacobi(S)
    return (V / np.sqrt(values)) @ V.T
