"""Support vector machines on the same items: exact in few dimensions or for few items, else by LibSVM."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from embedding_core.margin.dual import solve_dual

EXACT_SIZE = 500
"""Up to so many items or dimensions, whichever are fewer, a machine is solved to working precision."""
# LibSVM keeps kernel values in single precision: with a large C its steps may never reach the tolerance
LIBSVM_STEPS = 5_000_000
GRAM_BYTES = 1e9

Train = Callable[[NDArray[np.int8], float], tuple[NDArray[np.float64], float]]


def svm_trainer(E: NDArray[np.float64]) -> Train:
    """A function that gives F = (alpha_i y_i) and b for signs (l,) of items E (l, r), and C.

    LibSVM gets the inner products of the items, made once for all signs, where they fit into memory.
    """
    if min(E.shape) <= EXACT_SIZE:
        return lambda sign, C: solve_dual(E, sign, C)
    small = 8.0 * len(E) ** 2 <= GRAM_BYTES
    items = E @ E.T if small else E

    def train(sign: NDArray[np.int8], C: float) -> tuple[NDArray[np.float64], float]:
        machine = SVC(C=C, kernel="precomputed" if small else "linear", max_iter=LIBSVM_STEPS)
        machine.fit(items, sign)
        F = np.zeros(len(E))
        F[machine.support_] = machine.dual_coef_[0]
        return F, float(machine.intercept_[0])

    return train
