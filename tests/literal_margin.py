"""Small problems for the margin methods, and their equations taken literally, as n x n matrices."""

import numpy as np
import scipy.linalg
from sklearn.svm import SVC

from embedding_core.graph.affinity import build_gaussian_graph
from embedding_core.margin.svm import solve_dual
from tests.synthetic import literal_laplacian, single_label

SIGNS = {"printed": 1.0, "gradient": -1.0}


def two_classes(n=60, p=7):
    """Items of two classes, every second label hidden, and a connected graph."""
    X, y = single_label(n, p, K=2)
    for k in (0, 1):
        X[y == k] -= 0.6 * X[y == k].mean(axis=0)  # nearer to each other: kNN graphs link them
    hidden = y.copy()
    hidden[1::2] = -1
    return X, hidden, build_gaussian_graph(X)


def literal_svm(G, s, C=1.0):
    """Multipliers times signs, and bias, of the SVM with kernel matrix G."""
    svm = SVC(C=C, kernel="precomputed", tol=1e-8).fit(G, s)
    return np.bincount(svm.support_, svm.dual_coef_[0], len(s)), svm.intercept_[0]


def central_svm(G, s, C=1.0):
    """The same by the solver in use: where multipliers are not unique, LibSVM's are others."""
    values, vectors = np.linalg.eigh(G)
    return solve_dual(vectors * np.sqrt(np.maximum(values, 0.0)), s.astype(np.int8), C)


def literal_lpssvm(K, W, y, r, gamma=1.0, sign=1.0, C=1.0, max_iter=1, basis=None, svm=literal_svm, ridge=0):
    """Fig. 1 with Eq. 11 and 12, for n x m kernel columns `basis` where given.

    `ridge` adds |a|² = v^T K v to both sides, in units of the mean of D_ii K_ii.
    """
    labeled, K_b = y >= 0, K if basis is None else K[:, basis]
    D, L = np.diag(W.sum(axis=1)), literal_laplacian(W)
    s = np.where(y[labeled] == 1, 1, -1)
    K_m = K if basis is None else K_b @ np.linalg.inv(K[np.ix_(basis, basis)]) @ K_b.T
    F, _ = svm(K_m[np.ix_(labeled, labeled)], s, C)
    for _ in range(max_iter):
        z = K_b[labeled].T @ F
        penalty = ridge * (D.diagonal() * K.diagonal()).mean() * (K if ridge else 0)
        values, v = scipy.linalg.eigh(
            K_b.T @ L @ K_b + sign * gamma / 2 * np.outer(z, z) + penalty,
            K_b.T @ D @ K_b + penalty,
            subset_by_index=[0, r - 1],
        )
        E = K_b @ v
        F, bias = svm(E[labeled] @ E[labeled].T, s, C)
    return values, E, E @ (E[labeled].T @ F) + bias


def literal_laprls(K, W, y, gamma_A, gamma_I):
    """alpha of (J K + gamma_A l I + gamma_I l / n² L K) alpha = J y for classes 0 and 1."""
    n, labeled = len(y), y >= 0
    J, l = np.diag(labeled.astype(float)), labeled.sum()  # noqa: E741
    s = np.where(y == 1, 1.0, -1.0) * labeled
    L = literal_laplacian(W)
    return np.linalg.solve(J @ K + gamma_A * l * np.eye(n) + gamma_I * l / n**2 * L @ K, s)


def literal_lapsvm(K, W, y, gamma_A, gamma_I):
    """alpha = (2 gamma_A I + 2 gamma_I / n² L K)^-1 J^T Y beta, and the bias; beta by LibSVM with Q."""
    n, rows = len(y), np.flatnonzero(y >= 0)
    M = np.linalg.inv(2 * gamma_A * np.eye(n) + 2 * gamma_I / n**2 * literal_laplacian(W) @ K)[:, rows]
    s = np.where(y[rows] == 1, 1, -1)
    y_beta, bias = literal_svm(K[rows] @ M, s, C=1 / len(rows))
    return M @ y_beta, bias
