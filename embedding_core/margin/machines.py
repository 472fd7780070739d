"""Support vector machines on the same items, to working precision: small ones by `dual`, others by LibSVM.

LibSVM's multipliers are good to about 1e-3, and which ones it finds within that depends on the last digits of
the items, so on their order and on the number of threads. `active_set.settle` ends what it began.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from embedding_core.linalg.eigen import pivoted_cholesky
from embedding_core.linalg.kernel_space import Kernel
from embedding_core.margin.active_set import settle
from embedding_core.margin.dual import make_dual, solve_dual

EXACT_SIZE = 500
"""Up to so many items or dimensions, whichever are fewer, no LibSVM is needed."""
# LibSVM keeps kernel values in single precision: with a large C its steps may never reach the tolerance
LIBSVM_STEPS = 5_000_000
GRAM_BYTES = 1e9
_MATRICES = 4  # a kernel, its factor, a copy while that is made, and the factor times signs

Vector = NDArray[np.float64]
Train = Callable[[NDArray[np.int8], float, Vector], tuple[Vector, float]]
"""Signs (l,), C and weights (l,) to F = (alpha_i y_i) and b."""


def svm_trainer(E: Vector) -> Train:
    """A trainer for items E (l, r) with the kernel x^T z; of several optima the middle."""
    if min(E.shape) <= EXACT_SIZE:
        return lambda sign, C, weight: solve_dual(E, sign, C, weight)
    return libsvm_trainer(E, E @ E.T if 8.0 * len(E) ** 2 <= GRAM_BYTES else None)


def kernel_svm_trainer(kernel: Kernel, items: Vector) -> Train:
    """A trainer for items (l, r) with any kernel; where items repeat, decisions alone are unique."""
    if kernel.name == "linear":
        return svm_trainer(items)
    if _MATRICES * 8.0 * len(items) ** 2 > GRAM_BYTES:
        return _by_libsvm_alone(kernel, items)
    K = kernel.columns(items, items)
    K = (K + K.T) / 2
    C, order = pivoted_cholesky(K.copy())
    E = np.empty(C.shape)
    E[order] = C  # K = E E^T
    return libsvm_trainer(E, K)


def libsvm_trainer(E: Vector, gram: Vector | None) -> Train:
    """A trainer for items E (l, r) by LibSVM, from their inner products where they fit into memory.

    Where its result cannot be brought to working precision (too many multipliers between their bounds) it
    stands as it is, unless the problem is small.
    """

    def train(sign: NDArray[np.int8], C: float, weight: Vector) -> tuple[Vector, float]:
        machine = SVC(C=C, kernel="linear" if gram is None else "precomputed", max_iter=LIBSVM_STEPS)
        machine.fit(E if gram is None else gram, sign, sample_weight=weight)
        F, bias = _multipliers(machine, len(E))
        dual = make_dual(E, sign, C, weight)
        share = F * sign / (C * weight)
        found = settle(dual, np.where(share > 1 - 1e-12, 1.0, share), bias)
        if found is not None:
            return C * dual.v * found[0], found[1]
        return solve_dual(E, sign, C, weight) if min(E.shape) <= EXACT_SIZE else (F, bias)

    return train


def _by_libsvm_alone(kernel: Kernel, items: Vector) -> Train:
    def train(sign: NDArray[np.int8], C: float, weight: Vector) -> tuple[Vector, float]:
        machine = SVC(C=C, kernel=kernel.name, gamma=kernel.theta, max_iter=LIBSVM_STEPS)
        return _multipliers(machine.fit(items, sign, sample_weight=weight), len(items))

    return train


def _multipliers(machine: SVC, n: int) -> tuple[Vector, float]:
    F = np.zeros(n)
    F[machine.support_] = machine.dual_coef_[0]
    return F, float(machine.intercept_[0])
