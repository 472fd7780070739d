"""Compiled kernel for the moments of image blocks in CIE 1976 L*u*v*.

L lies in 0..100. Bytes are sRGB (IEC 61966-2-1 transfer curve, BT.709 primaries). The white point is D65,
computed as the row sums of the sRGB matrix so that grays have u = v = 0. Black is (0, 0, 0).

The cube root is not called per pixel but computed for a row of pixels at once, which the compiler vectorizes:
with q the fourth root of y, the cube root is q^(4/3). A polynomial in q gives it to 5e-8, and one step of
Newton's method to rounding.
"""

from math import sqrt

import numba
import numpy as np

from embedding_core.compiled import compile_kernel
from embedding_core.features.moment_kernels import MOMENTS, PIXELS

_BYTES = np.arange(256) / 255
_LINEAR = np.where(_BYTES <= 0.04045, _BYTES / 12.92, ((_BYTES + 0.055) / 1.055) ** 2.4)
_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_XN, _YN, _ZN = (float(value) for value in _TO_XYZ.sum(axis=1))
_UN, _VN = 4 * _XN / (_XN + 15 * _YN + 3 * _ZN), 9 * _YN / (_XN + 15 * _YN + 3 * _ZN)
_TO_SUM = _TO_XYZ[0] + 15 * _TO_XYZ[1] + 3 * _TO_XYZ[2]
# Below this relative luminance L is linear.
_LINEAR_BELOW = (6 / 29) ** 3
_ROOT = tuple(
    float(value)
    for value in np.polynomial.Chebyshev.interpolate(
        lambda q: q ** (4 / 3), 8, domain=[0.99 * _LINEAR_BELOW**0.25, 1.01]
    )
    .convert(kind=np.polynomial.Polynomial, domain=[-1, 1])
    .coef
)


# error_model: a check for division by zero would prevent vectorization
@numba.njit(nogil=True, error_model="numpy")
def _cube_root(y: float) -> float:
    """Cube root of a relative luminance above `_LINEAR_BELOW`."""
    q = sqrt(sqrt(y))
    low = _ROOT[0] + q * (_ROOT[1] + q * (_ROOT[2] + q * (_ROOT[3] + q * _ROOT[4])))
    root = low + q * q * q * q * q * (_ROOT[5] + q * (_ROOT[6] + q * (_ROOT[7] + q * _ROOT[8])))
    return root - (root * root * root - y) / (3 * root * root)


@numba.njit(nogil=True, error_model="numpy")
def _convert_run(pixels: np.ndarray, linear: np.ndarray, luv: np.ndarray) -> None:
    """Convert neighboring pixels (n, 3) to linear RGB and to Luv, both (3, at least n)."""
    for index in range(pixels.shape[0]):
        linear[0, index] = _LINEAR[pixels[index, 0]]
        linear[1, index] = _LINEAR[pixels[index, 1]]
        linear[2, index] = _LINEAR[pixels[index, 2]]
    for index in range(pixels.shape[0]):
        r, g, b = linear[0, index], linear[1, index], linear[2, index]
        x = _TO_XYZ[0, 0] * r + _TO_XYZ[0, 1] * g + _TO_XYZ[0, 2] * b
        y = _TO_XYZ[1, 0] * r + _TO_XYZ[1, 1] * g + _TO_XYZ[1, 2] * b
        total = _TO_SUM[0] * r + _TO_SUM[1] * g + _TO_SUM[2] * b
        relative = y / _YN
        bright = 116 * _cube_root(relative) - 16
        lightness = bright if relative > _LINEAR_BELOW else relative * (29 / 3) ** 3
        scale = 1 / max(total, 1e-300)  # black has lightness 0
        luv[0, index] = lightness
        luv[1, index] = 13 * lightness * (4 * x * scale - _UN)
        luv[2, index] = 13 * lightness * (9 * y * scale - _VN)


@numba.njit(nogil=True, fastmath={"reassoc", "nsz"})
def _add_powers(values: np.ndarray, origin: float, sums: np.ndarray) -> None:
    """Add the first three powers of the distances from an origin."""
    first = second = third = 0.0
    for index in range(len(values)):
        distance = values[index] - origin
        square = distance * distance
        first += distance
        second += square
        third += square * distance
    sums[0] += first
    sums[1] += second
    sums[2] += third


@compile_kernel(PIXELS, MOMENTS)
def luv_moments(rgb: np.ndarray, out: np.ndarray) -> None:
    """Mean, second and third central moment of each block and band.

    Parameters
    ----------
    rgb : uint8 array (height, width, 3), C order
    out : float64 array (block rows, block columns, 3, 3), C order
    """
    height, width, _ = rgb.shape
    n_rows, n_columns = out.shape[0], out.shape[1]
    linear, luv, origin, sums = np.empty((3, width)), np.empty((3, width)), np.empty(3), np.empty((3, 3))
    for block_row in range(n_rows):
        top = block_row * height // n_rows
        bottom = max((block_row + 1) * height // n_rows, top + 1)
        for block_column in range(n_columns):
            left = block_column * width // n_columns
            right = max((block_column + 1) * width // n_columns, left + 1)
            sums[:] = 0
            for row in range(top, bottom):
                _convert_run(rgb[row, left:right], linear, luv)
                if row == top:
                    # distances from a pixel of the block: the variance of a uniform block is exactly 0
                    origin[:] = luv[:, 0]
                for band in range(3):
                    _add_powers(luv[band, : right - left], origin[band], sums[band])
            n = (bottom - top) * (right - left)
            for band in range(3):
                first, second, third = sums[band, 0] / n, sums[band, 1] / n, sums[band, 2] / n
                target = out[block_row, block_column, band]
                target[0] = origin[band] + first
                target[1] = max(second - first * first, 0.0)
                target[2] = third - 3 * first * second + 2 * first * first * first
