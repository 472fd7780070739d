"""Gray values of RGB pixels."""

import numba
import numpy as np

from embedding_core.compiled import compile_kernel
from embedding_core.features.pixels import check_pixels

_PIXELS = numba.types.Array(numba.types.uint8, 3, "C", readonly=True)
_GRAY = numba.types.Array(numba.types.uint8, 2, "C")


def gray_pixels(rgb: np.ndarray) -> np.ndarray:
    """Return the luma .299 R + .587 G + .114 B of RGB pixels, rounded to bytes as Pillow does.

    Parameters
    ----------
    rgb : uint8 array (height, width, 3)

    Returns
    -------
    uint8 array (height, width)
    """
    pixels = check_pixels(rgb)
    gray = np.empty(pixels.shape[:2], np.uint8)
    _luma(pixels, gray)
    return gray


@compile_kernel(_PIXELS, _GRAY)
def _luma(rgb: np.ndarray, gray: np.ndarray) -> None:
    pixels, target = rgb.reshape(-1), gray.reshape(-1)
    for index in range(len(target)):
        # 32-bit numbers throughout: numba computes with 64 bits otherwise, which is five times slower
        total = np.uint32(np.uint32(pixels[3 * index]) * np.uint32(19595) + np.uint32(0x8000))
        total = np.uint32(total + np.uint32(pixels[3 * index + 1]) * np.uint32(38470))
        total = np.uint32(total + np.uint32(pixels[3 * index + 2]) * np.uint32(7471))
        target[index] = np.uint8(total >> np.uint32(16))
