"""Small random problems and literal linear algebra for the tests of the mathematics."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def multi_label(n: int = 60, p: int = 7, K: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Items whose features depend on correlated labels; every label occurs."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, K)) < 0.35).astype(np.int8)
    Y[:, 1] |= Y[:, 0] & (rng.random(n) < 0.7)
    Y[np.arange(n), np.arange(n) % K] = 1
    return Y @ rng.normal(size=(K, p)) + rng.normal(size=(n, p)), Y


def single_label(n: int = 60, p: int = 7, K: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Items of K classes of different sizes."""
    rng = np.random.default_rng(seed)
    y = np.concatenate(
        [np.arange(K), np.arange(K), rng.choice(K, n - 2 * K, p=np.arange(1, K + 1) / (K * (K + 1) / 2))]
    )
    return rng.normal(size=(K, p))[y] * 2 + rng.normal(size=(n, p)), y


def sparse_items(n: int, p: int, seed: int = 0, density: float = 0.15) -> Any:
    """Sparse counts-like items as CSR."""
    rng = np.random.default_rng(seed)
    return sp.csr_array(
        sp.random_array((n, p), density=density, rng=rng, data_sampler=rng.exponential).tocsr()
    )


def positive_power(S: np.ndarray, power: float, cut: float = 1e-10) -> np.ndarray:
    """Power of the positive part of a symmetric matrix, a literal Eq. 10-11 of DLE."""
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    keep = values > cut * max(values.max(), 1e-300)
    return (vectors[:, keep] * values[keep] ** power) @ vectors[:, keep].T


def projector(V: np.ndarray) -> np.ndarray:
    """Orthogonal projector on the span of the columns."""
    Q = np.linalg.qr(V)[0]
    return Q @ Q.T


def literal_scatter(X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S_b, S_w, S_t of Eq. 6-9 of MLDA, item by item and class by class."""
    p, w = X.shape[1], Z.sum(axis=0)
    m = sum(Z[i, k] * X[i] for i in range(len(X)) for k in range(Z.shape[1])) / w.sum()
    S_b, S_w, S_t = np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p))
    for k in np.flatnonzero(w):
        m_k = Z[:, k] @ X / w[k]
        S_b += w[k] * np.outer(m_k - m, m_k - m)
        for i in range(len(X)):
            S_w += Z[i, k] * np.outer(X[i] - m_k, X[i] - m_k)
            S_t += Z[i, k] * np.outer(X[i] - m, X[i] - m)
    return S_b, S_w, S_t


def literal_laplacian(W: np.ndarray) -> np.ndarray:
    """D - W."""
    return np.diag(W.sum(axis=1)) - W
