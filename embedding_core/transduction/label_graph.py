"""The graph of the labels: linked are those that items have together."""

import numpy as np
from numpy.typing import NDArray

from embedding_core.labels import Indicator, label_correlation


def label_laplacian(target: Indicator, normalized: bool = False) -> NDArray[np.float64]:
    """H = D_C - C (K, K) of the cosine correlation C of the labels, Eq. 19 of DLE, its diagonal left out.

    With `normalized` D_C^(-1/2) H D_C^(-1/2). Rows of labels that occur with no other are 0.
    """
    C = label_correlation(target.Y)
    np.fill_diagonal(C, 0.0)
    degree = C.sum(axis=1)
    H = np.diag(degree) - C
    if normalized:
        root = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
        H *= root[:, None] * root
    return H


def rotate_labels(H: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues (K,) >= 0 and eigenvectors (K, K): in their basis A F + F H = B falls into columns.

    With F' = F Q and B' = B Q column k is (A + h_k I) f'_k = b'_k.
    """
    values, Q = np.linalg.eigh(H)
    return np.maximum(values, 0.0), Q
