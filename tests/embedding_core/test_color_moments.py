"""Block color moments: exact against plain Python, defined for every size and color space."""

import colorsys
import io
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from embedding_core.errors import InvalidInput
from embedding_core.features import moment_kernels
from embedding_core.features.color_moments import BANDS, ColorMoments
from embedding_core.features.images import UnreadableImage

REPOSITORY = Path(__file__).resolve().parents[2]
SIZES = [(1, 1), (1, 9), (7, 1), (8, 8), (5, 13), (61, 47), (64, 96)]


def random_pixels(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def jpeg(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


def blocks(pixels: np.ndarray, grid: tuple[int, int]):
    """Blocks as the definition says: floor(i h / g) up to floor((i + 1) h / g), one pixel at least."""
    (height, width), (n_rows, n_columns) = pixels.shape[:2], grid
    for i in range(n_rows):
        top = i * height // n_rows
        bottom = max((i + 1) * height // n_rows, top + 1)
        for j in range(n_columns):
            left = j * width // n_columns
            yield pixels[top:bottom, left : max((j + 1) * width // n_columns, left + 1)]


def naive_rgb(pixels: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Mean and variance in rational arithmetic, rounded once."""
    features = []
    for block in blocks(pixels, grid):
        for band in range(3):
            values = [int(value) for value in block[:, :, band].reshape(-1)]
            n, total = len(values), sum(values)
            variance = Fraction(sum((n * value - total) ** 2 for value in values), n**3)
            features += [Fraction(total, n), variance]
    return np.array([float(value) for value in features]).astype(np.float32)


def naive_converted(pixels: np.ndarray, grid: tuple[int, int], convert) -> np.ndarray:
    """Mean, variance, std and skewness of converted pixels, two passes in float64."""
    features = []
    for block in blocks(pixels, grid):
        values = np.array([convert(*map(int, pixel)) for pixel in block.reshape(-1, 3)])
        mean = values.mean(axis=0)
        variance, third = ((values - mean) ** 2).mean(axis=0), ((values - mean) ** 3).mean(axis=0)
        variance[np.ptp(values, axis=0) == 0] = 0
        skewness = [m3 / m2**1.5 if m2 > 0 else 0.0 for m2, m3 in zip(variance, third, strict=True)]
        features.append(np.stack([mean, variance, np.sqrt(variance), skewness], axis=1).reshape(-1))
    return np.concatenate(features)


def ycbcr(r, g, b):
    y = 0.299 * r + 0.587 * g + 0.114 * b
    return y, 128 - 0.168736 * r - 0.331264 * g + 0.5 * b, 128 + 0.5 * r - 0.418688 * g - 0.081312 * b


def hsv(r, g, b):
    return tuple(255 * value for value in colorsys.rgb_to_hsv(r / 255, g / 255, b / 255))


@pytest.mark.parametrize("grid", [(8, 8), (1, 1), (3, 5)])
@pytest.mark.parametrize("size", SIZES)
def test_rgb_moments_are_the_exact_values_rounded(size, grid):
    pixels = random_pixels(*size)
    np.testing.assert_array_equal(ColorMoments(grid=grid).extract(pixels), naive_rgb(pixels, grid))


def test_nearly_constant_bright_blocks_keep_their_variance():
    pixels = np.full((200, 200, 3), 255, dtype=np.uint8)
    pixels[0, 0, 0] = 254
    np.testing.assert_array_equal(ColorMoments(grid=(1, 1)).extract(pixels), naive_rgb(pixels, (1, 1)))


@pytest.mark.parametrize("value", [0, 255])
def test_a_long_band_of_rows_does_not_overflow(value):
    # Squares of more than 66,051 white rows exceed 32 bits.
    pixels = np.full((150_000, 1, 3), value, dtype=np.uint8)
    features = ColorMoments(grid=(1, 1)).extract(pixels)
    assert features.tolist() == [value, 0] * 3


def test_blocks_beyond_exact_integers_still_agree():
    height = 2**12
    pixels = np.zeros((height, 2**12 + 1, 3), dtype=np.uint8)  # more than 2**24 pixels
    pixels[: height // 2] = 255
    mean, variance = ColorMoments(grid=(1, 1)).extract(pixels)[:2]
    assert mean == 127.5
    assert variance == pytest.approx(127.5**2, rel=1e-6)
    assert pixels.shape[0] * pixels.shape[1] > moment_kernels._MAX_EXACT_PIXELS


def test_default_has_384_features_in_documented_order():
    moments = ColorMoments()
    names = moments.feature_names()
    assert moments.n_features == len(names) == len(set(names)) == 384
    assert names[:7] == [
        "block0_0_red_mean",
        "block0_0_red_variance",
        "block0_0_green_mean",
        "block0_0_green_variance",
        "block0_0_blue_mean",
        "block0_0_blue_variance",
        "block0_1_red_mean",
    ]
    pixels = np.zeros((80, 80, 3), dtype=np.uint8)
    pixels[20:30, 70:, 1] = 9  # block row 2, block column 7, green
    features = moments.extract(pixels)
    assert features.dtype == np.float32
    assert [names[i] for i in np.flatnonzero(features)] == ["block2_7_green_mean"]


def test_one_pixel_fills_every_block():
    features = ColorMoments().extract(np.array([[[3, 5, 7]]], dtype=np.uint8)).reshape(64, 3, 2)
    assert (features[:, :, 0] == [3, 5, 7]).all()
    assert (features[:, :, 1] == 0).all()


@pytest.mark.parametrize("size", [(1, 1), (5, 13), (33, 20)])
@pytest.mark.parametrize(
    ("color_space", "convert"), [("ycbcr", ycbcr), ("hsv", hsv), ("rgb", lambda *rgb: rgb)]
)
def test_other_spaces_agree_with_two_plain_passes(color_space, convert, size):
    moments = ColorMoments((2, 3), ("mean", "variance", "std", "skewness"), color_space)
    pixels = random_pixels(*size)
    np.testing.assert_allclose(
        moments.extract(pixels), naive_converted(pixels, (2, 3), convert), rtol=2e-6, atol=2e-4
    )


# Published conversions of the sRGB primaries with the D65 white.
@pytest.mark.parametrize(
    ("rgb", "luv"),
    [
        ((255, 0, 0), (53.2408, 175.0151, 37.7564)),
        ((0, 255, 0), (87.7347, -83.0776, 107.3985)),
        ((0, 0, 255), (32.2970, -9.4054, -130.3423)),
        ((255, 255, 255), (100, 0, 0)),
        ((119, 119, 119), (50.0344, 0, 0)),
        ((0, 0, 0), (0, 0, 0)),
        ((2, 2, 2), (0.5483, 0, 0)),
    ],
)
def test_luv_of_known_colors(rgb, luv):
    pixels = np.full((4, 4, 3), rgb, dtype=np.uint8)
    mean_variance = ColorMoments((1, 1), color_space="luv").extract(pixels).reshape(3, 2)
    np.testing.assert_allclose(mean_variance[:, 0], luv, atol=0.02)
    assert (mean_variance[:, 1] == 0).all()


def test_ycbcr_and_hsv_agree_with_pillow_to_its_rounding():
    pixels = random_pixels(40, 40)
    for color_space, mode in (("ycbcr", "YCbCr"), ("hsv", "HSV")):
        expected = np.asarray(Image.fromarray(pixels).convert(mode)).reshape(-1, 3).mean(axis=0)
        found = ColorMoments((1, 1), ("mean",), color_space).extract(pixels)
        assert np.abs(found - expected).max() < 1.1


@pytest.mark.parametrize("color_space", BANDS)
def test_constant_image_has_zero_spread_in_every_space(color_space):
    moments = ColorMoments((3, 3), ("variance", "std", "skewness"), color_space)
    assert (moments.extract(np.full((31, 17, 3), (201, 77, 13), dtype=np.uint8)) == 0).all()


def test_std_is_the_root_of_the_variance():
    pixels = random_pixels(30, 30)
    variance = ColorMoments(moments=("variance",)).extract(pixels)
    np.testing.assert_allclose(ColorMoments(moments=("std",)).extract(pixels), np.sqrt(variance), rtol=1e-6)


def test_moments_are_taken_in_the_order_asked():
    pixels = random_pixels(30, 30)
    forward = ColorMoments((2, 2), ("mean", "variance")).extract(pixels).reshape(-1, 2)
    backward = ColorMoments((2, 2), ("variance", "mean")).extract(pixels).reshape(-1, 2)
    np.testing.assert_array_equal(forward, backward[:, ::-1])


@pytest.mark.parametrize("color_space", BANDS)
def test_views_and_read_only_arrays_are_accepted(color_space):
    moments = ColorMoments(color_space=color_space)
    pixels = random_pixels(50, 60)
    frozen = pixels.copy()
    frozen.setflags(write=False)
    expected = moments.extract(pixels)
    np.testing.assert_array_equal(moments.extract(frozen), expected)
    np.testing.assert_array_equal(moments.extract(pixels[::-1, ::-1][::-1, ::-1]), expected)
    np.testing.assert_array_equal(moments.extract(np.asfortranarray(pixels)), expected)


def test_rows_exchanged_within_a_block_change_nothing():
    pixels = random_pixels(16, 16)
    shuffled = pixels.copy()
    shuffled[[0, 1]] = shuffled[[1, 0]]
    np.testing.assert_array_equal(ColorMoments().extract(pixels), ColorMoments().extract(shuffled))


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3)),
        np.zeros((0, 4, 3), np.uint8),
        [[[1, 2, 3]]],
    ],
    ids=["gray", "rgba", "float", "empty", "list"],
)
def test_other_arrays_are_rejected(pixels):
    with pytest.raises(InvalidInput, match=r"expected a uint8 array|no pixels"):
        ColorMoments().extract(pixels)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"grid": (0, 8)}, "grid="),
        ({"grid": (8,)}, "grid="),
        ({"grid": 8}, "grid="),
        ({"grid": (8, True)}, "grid="),
        ({"grid": (8.0, 8)}, "grid="),
        ({"grid": (257, 1)}, "from 1 to 256"),
        ({"moments": ()}, "moments="),
        ({"moments": "mean"}, "moments="),
        ({"moments": ("mean", "mean")}, "each once"),
        ({"moments": ("median",)}, "mean, variance, std, skewness"),
        ({"color_space": "lab"}, "rgb, ycbcr, hsv, luv"),
        ({"color_space": ["rgb"]}, "rgb, ycbcr, hsv, luv"),
    ],
)
def test_invalid_parameters_are_rejected_with_the_valid_ones(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        ColorMoments(**parameters)


def test_lists_from_a_configuration_are_accepted():
    assert ColorMoments(grid=[4, 4], moments=["mean"]) == ColorMoments(grid=(4, 4), moments=("mean",))


def test_bytes_give_what_their_pixels_give():
    data = jpeg(random_pixels(48, 64))
    with Image.open(io.BytesIO(data)) as image:
        expected = naive_rgb(np.asarray(image), (8, 8))
    np.testing.assert_array_equal(ColorMoments().extract_bytes(data), expected)


def test_features_outlive_the_buffer_they_were_made_in():
    moments = ColorMoments()
    first = moments.extract_bytes(jpeg(random_pixels(48, 64, seed=1)))
    kept = first.copy()
    moments.extract_bytes(jpeg(random_pixels(48, 64, seed=2)))
    np.testing.assert_array_equal(first, kept)


def test_unreadable_bytes_are_refused():
    with pytest.raises(UnreadableImage, match="not an image"):
        ColorMoments().extract_bytes(b"plain text")
