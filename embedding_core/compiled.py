"""Ahead-of-time compilation of numba kernels, cached on disk where possible."""

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compile_kernel(*arguments: Any, reorder_sums: bool = False) -> Callable[[F], F]:
    """Compile a function for one signature; the kernel releases the GIL.

    Parameters
    ----------
    *arguments : numba types
        Types of the arguments. The kernel returns nothing and writes into its last argument.
    reorder_sums : bool, default False
        Allow the compiler to reorder additions, which vectorization needs. NaN and infinity keep their
        meaning.

    Notes
    -----
    The machine code is cached beside the source or in the user's cache folder, so that only the first import
    after an installation pays for compilation. If neither folder is writable, the kernel is compiled for this
    process only. Every function that a kernel calls must be defined in the kernel's own file: numba
    invalidates the cache when that file changes, and only then.
    """
    signature = numba.types.void(*arguments)
    fastmath = {"reassoc", "nsz"} if reorder_sums else False

    def compile_now(function: F) -> F:
        try:
            compiled: F = numba.njit(signature, nogil=True, cache=True, fastmath=fastmath)(function)
        except (RuntimeError, OSError, EOFError, pickle.UnpicklingError):
            # No writable cache folder, a full disk, or a cache file torn by a power failure.
            compiled = numba.njit(signature, nogil=True, fastmath=fastmath)(function)
        return compiled

    return compile_now
