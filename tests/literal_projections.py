"""Literal discriminative projections for the tests: full matrices as printed, pair by pair."""

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from embedding_core.discriminant.discriminative_projections import DiscriminativeProjections
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.labels import as_indicator
from tests.synthetic import literal_laplacian, single_label

DP = DiscriminativeProjections
SHAPES = [(60, 7), (30, 45)]
FORMS = {"dense": np.asarray, "sparse": sp.csr_array}


def partly_labeled(make=single_label, shape=(60, 7), **kwargs):
    """Items with every third label hidden, and a graph."""
    X, Y = make(*shape, **kwargs)
    Y[1::3] = -1
    return X, Y, build_knn_graph(X, 4).toarray()


def printed_matrices(X, y, W, mu):
    """A, B and C of step 1 with items as columns and the labeled ones first, every product as printed."""
    order = np.argsort(y < 0, kind="stable")
    X, Y, L = (
        X[order].T,
        as_indicator(y).Y[y >= 0].T.astype(float),
        literal_laplacian(W[np.ix_(order, order)]),
    )
    m, (c, l) = X.shape[1], Y.shape  # noqa: E741
    U1, U2 = np.diag(np.arange(m) < l).astype(float), np.eye(m, l)
    U = np.block([[U1, -U2], [-U2.T, np.eye(l)]])
    A = scipy.linalg.block_diag(X, Y) @ U @ scipy.linalg.block_diag(X, Y).T
    B = np.zeros_like(A)
    for k in range(c):
        S_k = np.zeros((c, l))
        S_k[k] = 1
        B += scipy.linalg.block_diag(X, S_k) @ U @ scipy.linalg.block_diag(X, S_k).T
    middle = scipy.linalg.block_diag(mu * L, np.zeros((l, l)))
    return A, B, scipy.linalg.block_diag(X, Y) @ middle @ scipy.linalg.block_diag(X, Y).T


def paired_matrices(X, Y, W, mu, weight=None):
    """A, B and C of reading 4, one pair of a labeled item and a label at a time."""
    p, K = X.shape[1], Y.shape[1]
    s = np.ones(len(X)) if weight is None else weight
    A, B = np.zeros((p + K, p + K)), np.zeros((p + K, p + K))
    for i in np.flatnonzero(Y[:, 0] >= 0):
        for k in range(K):
            v = np.concatenate([X[i], -np.eye(K)[k]])
            B += s[i] * np.outer(v, v)
            A += s[i] * Y[i, k] * np.outer(v, v)
    return A, B, scipy.linalg.block_diag(mu * X.T @ literal_laplacian(W) @ X, np.zeros((K, K)))


def eigenvalues_in_range(near, spread, cut=1e-10):
    """Eigenvalues of near v = lambda spread v in the range of `spread`, ascending."""
    values, vectors = np.linalg.eigh(spread)
    T = vectors[:, values > cut * values.max()] / np.sqrt(values[values > cut * values.max()])
    return np.linalg.eigvalsh(T.T @ near @ T)


def columns(model):
    return np.vstack([model.projection_, model.label_projection_])


def distances(Q):
    return ((Q[:, None] - Q[None]) ** 2).sum(axis=2)
