"""Kernel DLE taken literally: the equations as they are printed, dense and slow."""

import numpy as np
from scipy.spatial.distance import cdist


def literal_kernel(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The mixture kernel between all rows of X, scaled and measured by `rows` of it alone."""
    Z = (X - X[rows].mean(axis=0)) / X[rows].std(axis=0)
    pairs = np.triu_indices(len(Z[rows]), 1)
    K = np.zeros((len(X), len(X)))
    for name in ("sqeuclidean", "cityblock"):
        median = np.median(cdist(Z[rows], Z[rows], name)[pairs])
        K += sum(np.exp(-s * cdist(Z, Z, name) / median) for s in (1 / 4, 1 / 2, 1, 2, 4)) / 10
    return K


def literal_laplacian(X: np.ndarray, k: int = 10) -> np.ndarray:
    """I - D^(-1/2) W D^(-1/2) of the locally scaled graph on z-scored rows."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    D = cdist(Z, Z)
    order = np.argsort(D, axis=1)[:, 1 : k + 1]
    radius = D[np.arange(len(D)), order[:, -1]]
    near = np.zeros(D.shape, dtype=bool)
    near[np.arange(len(D))[:, None], order] = True
    W = np.where(near | near.T, np.exp(-(D**2) / np.outer(radius, radius)), 0.0)
    root = 1 / np.sqrt(W.sum(axis=1))
    return np.eye(len(D)) - root[:, None] * W * root


def deformed(K: np.ndarray, L: np.ndarray, mu: float) -> np.ndarray:
    """K (I + mu L K)^(-1) over the rows of L, which come first in K; and its values for all other rows."""
    n = len(L)
    middle = np.linalg.inv(np.eye(n) + mu * L @ K[:n, :n])
    return K[:, :n] @ middle


def centered_trace(K: np.ndarray) -> float:
    """tr(K_c)."""
    return float(np.trace(K) - K.mean(axis=0).sum())


def ridge_scores(K: np.ndarray, Y: np.ndarray, k: np.ndarray, penalty: float) -> np.ndarray:
    """Scores of rows with kernel values k (m, l), by the system of ridge regression with a free intercept."""
    l = len(K)  # noqa: E741
    system = np.block([[K + penalty * np.eye(l), np.ones((l, 1))], [np.ones((1, l)), np.zeros((1, 1))]])
    solution = np.linalg.solve(system, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return k @ solution[:l] + solution[l]


def literal_embedding(
    K: np.ndarray, L: np.ndarray, labeled: np.ndarray, Y: np.ndarray, mu: float, lam: float
) -> tuple[np.ndarray, np.ndarray]:
    """V^T (phi(x) - mean) of all rows of K by the objective itself, and its eigenvalues."""
    Phi = np.linalg.cholesky(K)
    Phi_l, n = Phi[: len(L)][labeled], len(L)
    mean = Phi_l.mean(axis=0)
    T = Y - Y.mean(axis=0)
    H = Phi_l.T @ T
    S_t = (Phi_l - mean).T @ (Phi_l - mean)
    A = Phi[:n].T @ L @ Phi[:n]
    B = np.eye(len(K)) + mu * A
    tau = centered_trace(Phi_l @ np.linalg.solve(B, Phi_l.T)) / len(Y)
    values, vectors = np.linalg.eigh(S_t + lam * tau * B)
    root = (vectors / np.sqrt(values)) @ vectors.T
    U, sigma, _ = np.linalg.svd(root @ H, full_matrices=False)
    V = root @ U * sigma
    return (Phi - mean) @ V, sigma**2
