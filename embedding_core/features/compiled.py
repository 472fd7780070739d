"""Compilation of kernels, at import and kept on disk where that is possible."""

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Read-only is the wider type: numba passes a writable array to it, but not the other way round.
PIXELS = numba.types.Array(numba.types.uint8, 3, "C", readonly=True)
MOMENTS = numba.types.Array(numba.types.float64, 4, "C")


def compile_kernel(*arguments: Any, reorder_sums: bool = False) -> Callable[[F], F]:
    """Compile a kernel for one list of argument types, without the interpreter's lock.

    Machine code is kept beside the source, or in the user's cache folder, so that only the first
    import after an installation pays for the compiler. Where neither can be written the kernel is
    compiled for this process alone.

    All functions that a kernel calls belong in its own file: the kept code is thrown away when that
    file changes, and only then.

    `reorder_sums` allows sums in another order than written, which several numbers at once need; NaN and
    infinity stay what they are.
    """
    signature = numba.types.void(*arguments)
    fastmath = {"reassoc", "nsz"} if reorder_sums else False

    def compile_now(function: F) -> F:
        try:
            return numba.njit(signature, nogil=True, cache=True, fastmath=fastmath)(function)
        except (RuntimeError, OSError, EOFError, pickle.UnpicklingError):
            # No folder that numba may write to; a full disk; a kept file torn by a power failure.
            return numba.njit(signature, nogil=True, fastmath=fastmath)(function)

    return compile_now
