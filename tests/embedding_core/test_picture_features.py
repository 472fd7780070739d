"""Gabor texture, edge directions and the preset of the LPSSVM paper, each against a literal version."""

from itertools import pairwise
from math import cos, pi, sin

import numpy as np
import pytest
from PIL import Image

from embedding_core.errors import InvalidInput
from embedding_core.features.color_moments import ColorMoments
from embedding_core.features.edge_histogram import EdgeHistogram
from embedding_core.features.gabor import Gabor, filter_bank, periodic_spectrum
from embedding_core.features.gray import gray_pixels
from embedding_core.features.lpssvm_visual import LpssvmVisual

SIZES = [(1, 1), (5, 7), (48, 40), (61, 47)]


def drawing(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Smooth noise with some grain, as in photographs."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 6 + 2, width // 6 + 2, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), 3)).astype(float)
    return np.clip(smooth + rng.normal(scale=6, size=smooth.shape), 0, 255).astype(np.uint8)


def wave(frequency: float, angle: float, side: int = 240) -> np.ndarray:
    """A sine wave of amplitude 100 in the direction of an angle."""
    y, x = np.mgrid[:side, :side]
    gray = 128 + 100 * np.sin(2 * pi * frequency * (x * cos(angle) + y * sin(angle)))
    return np.repeat(np.rint(gray)[:, :, np.newaxis], 3, axis=2).astype(np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_gray_values_are_those_of_pillow(size):
    rgb = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    np.testing.assert_array_equal(gray_pixels(rgb), np.asarray(Image.fromarray(rgb).convert("L")))


def literal_luv(red: int, green: int, blue: int) -> tuple[float, float, float]:
    """CIE 1976 from sRGB, with the white point of the matrix."""
    matrix = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750]])
    matrix = np.vstack([matrix, [0.0193339, 0.1191920, 0.9503041]])
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in np.array([red, green, blue]) / 255
    ]
    (x, y, z), (xn, yn, zn) = matrix @ linear, matrix.sum(axis=1)
    if y == 0:
        return 0.0, 0.0, 0.0
    L = 116 * np.cbrt(y / yn) - 16 if y / yn > (6 / 29) ** 3 else y / yn * (29 / 3) ** 3
    u, un = 4 * x / (x + 15 * y + 3 * z), 4 * xn / (xn + 15 * yn + 3 * zn)
    v, vn = 9 * y / (x + 15 * y + 3 * z), 9 * yn / (xn + 15 * yn + 3 * zn)
    return L, 13 * L * (u - un), 13 * L * (v - vn)


def test_moments_of_luv_are_those_of_its_definition():
    """Also in the dark, where L is linear, and in a uniform block."""
    from embedding_core.features.luv_kernels import luv_moments

    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (24, 30, 3), dtype=np.uint8)
    rgb[:8] //= 12
    rgb[16:, :15] = (9, 200, 40)
    rgb[0, 0] = 0
    found = np.empty((3, 2, 3, 3))
    luv_moments(rgb, found)
    for i in range(3):
        for j in range(2):
            block = rgb[8 * i : 8 * i + 8, 15 * j : 15 * j + 15].reshape(-1, 3)
            values = np.array([literal_luv(*map(int, pixel)) for pixel in block])
            mean = values.mean(axis=0)
            expected = [mean, ((values - mean) ** 2).mean(axis=0), ((values - mean) ** 3).mean(axis=0)]
            np.testing.assert_allclose(found[i, j], np.transpose(expected), rtol=1e-10, atol=1e-9)
    assert not found[2, 0, :, 1:].any()


class TestGabor:
    @staticmethod
    def periodic_part(u: np.ndarray) -> np.ndarray:
        """Moisan's decomposition as he writes it: the jumps as an image, a division in the Fourier plane."""
        v = np.zeros_like(u)
        v[0] += u[-1] - u[0]
        v[-1] += u[0] - u[-1]
        v[:, 0] += u[:, -1] - u[:, 0]
        v[:, -1] += u[:, 0] - u[:, -1]
        q, r = (np.arange(side) / side for side in u.shape)
        below = 2 * np.cos(2 * pi * q)[:, None] + 2 * np.cos(2 * pi * r) - 4
        below[0, 0] = 1
        s = np.fft.fft2(v) / below
        s[0, 0] = 0
        p = u - np.fft.ifft2(s).real
        return p - p.mean()

    @staticmethod
    def spatial_kernel(one, reach: int) -> np.ndarray:
        """The filter in the plane: a complex wave under a Gaussian, the inverse transform of its Gaussian."""
        y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
        forward, sideward = (
            x * cos(one.angle) + y * sin(one.angle),
            y * cos(one.angle) - x * sin(one.angle),
        )
        envelope = np.exp(-2 * pi**2 * ((one.along * forward) ** 2 + (one.across * sideward) ** 2))
        return 2 * pi * one.along * one.across * envelope * np.exp(2j * pi * one.frequency * forward)

    def literal(self, gray: np.ndarray, bank) -> np.ndarray:
        """Convolution in the plane, pixel by pixel where the response is sampled."""
        multiple = bank[-1][0].stride
        extended = np.pad(gray, [(0, -side % multiple) for side in gray.shape], mode="edge").astype(float)
        image = self.periodic_part(extended)
        features = []
        for one in (one for filters in bank for one in filters):
            reach = int(4 / (2 * pi * min(one.along, one.across))) + 1
            kernel = self.spatial_kernel(one, reach)
            around = np.arange(-reach, reach + 1)
            magnitudes = [
                abs((image[np.ix_((y - around) % len(image), (x - around) % image.shape[1])] * kernel).sum())
                for y in range(0, gray.shape[0], one.stride)
                for x in range(0, gray.shape[1], one.stride)
            ]
            features += [np.mean(magnitudes), np.std(magnitudes)]
        return np.array(features)

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("parameters", [{}, {"scales": 2, "orientations": 3, "lowest": 0.1}])
    def test_it_is_the_convolution_in_the_plane(self, size, parameters):
        gabor, rgb = Gabor(**parameters), drawing(*size)
        bank = filter_bank(gabor.scales, gabor.orientations, gabor.lowest, gabor.highest)
        expected = self.literal(gray_pixels(rgb), bank)
        found = gabor.extract(rgb)
        assert found.dtype == np.float32
        # the filters end at four standard deviations, in the plane and in the Fourier plane
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3 * max(expected.max(), 0.1))

    def test_frequencies_and_touching_half_peak_contours_are_those_of_manjunath_and_ma(self):
        bank = filter_bank(4, 6, 0.05, 0.4)
        assert [filters[0].frequency for filters in bank] == pytest.approx([0.4, 0.2, 0.1, 0.05])
        half = np.sqrt(2 * np.log(2))  # half of the peak, in standard deviations
        for fine, coarse in pairwise(bank):
            reached = fine[0].frequency - half * fine[0].along
            assert reached == pytest.approx(coarse[0].frequency + half * coarse[0].along)
        one = bank[1][0]
        line = np.linspace(0, 1, 200_001)  # along the bisector of two directions the contours touch
        u, v = line * cos(pi / 12), line * sin(pi / 12)
        values = np.exp(-0.5 * (((u - one.frequency) / one.along) ** 2 + (v / one.across) ** 2))
        assert values.max() == pytest.approx(0.5, abs=1e-4)

    @pytest.mark.parametrize("scale", range(4))
    @pytest.mark.parametrize("angle", range(6))
    def test_a_wave_is_found_at_its_scale_and_direction(self, scale, angle):
        row = Gabor().extract(wave(0.4 / 2**scale, angle * pi / 6)).reshape(4, 6, 2)
        assert np.unravel_index(row[:, :, 0].argmax(), (4, 6)) == (scale, angle)
        assert row[scale, angle, 0] == pytest.approx(50, rel=0.1)  # a sine is two waves of half its amplitude

    def test_a_uniform_picture_has_no_texture(self):
        assert np.abs(Gabor().extract(np.full((50, 60, 3), 77, np.uint8))).max() < 1e-4

    def test_brightness_does_not_matter_and_contrast_is_a_factor(self):
        rgb = drawing(64, 80) // 4
        row = Gabor().extract(rgb)
        np.testing.assert_allclose(Gabor().extract(rgb + np.uint8(50)), row, rtol=1e-3, atol=1e-3)
        gray = np.repeat(gray_pixels(rgb)[:, :, np.newaxis], 3, axis=2)
        np.testing.assert_allclose(Gabor().extract(3 * gray), 3 * Gabor().extract(gray), rtol=1e-4, atol=1e-3)

    def test_the_seam_of_the_periodic_image_is_no_edge(self):
        ramp = np.repeat(np.arange(0, 256, 2, dtype=np.uint8)[np.newaxis, :, np.newaxis], 3, axis=2)
        ramp = np.repeat(ramp, 128, axis=0)
        smooth = np.abs(periodic_spectrum(gray_pixels(ramp), 8)).max()
        assert smooth < 0.1 * np.abs(np.fft.fft2(gray_pixels(ramp) - 127.0)).max()
        assert Gabor().extract(ramp).max() < 1

    def test_a_large_image_whose_filters_are_not_kept_has_the_same_row(self, monkeypatch):
        rgb = drawing(48, 40)
        kept = Gabor().extract(rgb)
        monkeypatch.setattr("embedding_core.features.gabor._KEPT_PIXELS", 0)
        np.testing.assert_array_equal(Gabor().extract(rgb), kept)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"scales": 0}, "scales=0: give a whole number from 1 to 8"),
            ({"orientations": 2.5}, "orientations=2.5: give a whole number"),
            ({"lowest": 0.4, "highest": 0.1}, r"lowest=0\.4 is not below highest=0\.1"),
            ({"highest": 0.7}, r"highest=0\.7: give a number from 0\.01 to 0\.5"),
        ],
    )
    def test_bad_parameters_are_refused(self, parameters, message):
        with pytest.raises(InvalidInput, match=message):
            Gabor(**parameters)


def literal_edges(gray: np.ndarray, directions: int, threshold: float, grid: tuple[int, int]) -> np.ndarray:
    """Sobel filters, arctan2 and np.bincount."""
    a = np.pad(gray.astype(float), 1, mode="edge")
    smooth, change = a[:-2] + 2 * a[1:-1] + a[2:], a[2:] - a[:-2]
    across, down = smooth[:, 2:] - smooth[:, :-2], change[:, :-2] + 2 * change[:, 1:-1] + change[:, 2:]
    codes = np.rint(np.degrees(np.arctan2(down, across)) * directions / 360).astype(int) % directions
    codes[np.hypot(across, down) < 8 * threshold] = directions
    rows = []
    for i in range(grid[0]):
        top = i * gray.shape[0] // grid[0]
        for j in range(grid[1]):
            left = j * gray.shape[1] // grid[1]
            bottom = max((i + 1) * gray.shape[0] // grid[0], top + 1)
            block = codes[top:bottom, left : max((j + 1) * gray.shape[1] // grid[1], left + 1)]
            rows.append(np.bincount(block.ravel(), minlength=directions + 1) / block.size)
    return np.concatenate(rows)


class TestEdges:
    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize(
        "parameters", [{}, {"directions": 8, "threshold": 3.0}, {"grid": (3, 4)}, {"directions": 360}]
    )
    def test_they_are_sobel_gradients_counted_by_direction(self, size, parameters):
        edges, rgb = EdgeHistogram(**parameters), drawing(*size)
        expected = literal_edges(gray_pixels(rgb), edges.directions, edges.threshold, edges.grid)
        np.testing.assert_allclose(edges.extract(rgb), expected, rtol=1e-6, atol=1e-7)

    @pytest.mark.slow
    def test_every_gradient_gets_the_bin_of_its_angle(self):
        """All integer gradients up to 60, and those closest to the border between two bins."""
        from embedding_core.features.edge_kernels import _direction_row

        span = np.arange(-1020, 1021, 17, dtype=np.float32)
        tangents = np.tan((np.arange(9) + 0.5) * pi / 36).astype(np.float32)
        for down in span:
            across = np.concatenate([np.arange(-60, 61, dtype=np.float32), span])
            smooth = np.zeros(3 * len(across) + 2, np.float32)
            change = np.zeros_like(smooth)
            smooth[2::3], change[1:-1] = across, down / 4
            codes = np.empty(3 * len(across), np.int32)
            _direction_row(smooth, change, np.float32(0.5), tangents, codes)
            angle = np.degrees(np.arctan2(down, across.astype(float)))
            expected = np.where((across == 0) & (down == 0), 72, np.rint(angle / 5).astype(int) % 72)
            keep = slice(3, len(codes) - 3, 3)
            np.testing.assert_array_equal(codes[keep], expected[1:-1])

    def test_a_histogram_sums_to_one_and_a_uniform_picture_has_no_edge(self):
        assert EdgeHistogram().extract(drawing(60, 70)).sum() == pytest.approx(1)
        row = EdgeHistogram().extract(np.full((9, 9, 3), 200, np.uint8))
        assert row[-1] == 1
        assert row[:-1].sum() == 0

    def test_a_turned_picture_turns_the_directions(self):
        rgb = drawing(60, 70)
        row, turned = (EdgeHistogram().extract(np.ascontiguousarray(one)) for one in (rgb, np.rot90(rgb)))
        np.testing.assert_allclose(turned[:-1], np.roll(row[:-1], -18), atol=1e-7)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"directions": 12}, "directions=12 is not a multiple of 8"),
            ({"directions": 0}, "directions=0: give a whole number from 8 to 360"),
            ({"threshold": 0.0}, r"threshold=0\.0: give a number"),
            ({"grid": (0, 1)}, r"grid=\(0, 1\) is not a pair"),
        ],
    )
    def test_bad_parameters_are_refused(self, parameters, message):
        with pytest.raises(InvalidInput, match=message):
            EdgeHistogram(**parameters)


class TestPreset:
    def test_it_has_the_346_numbers_of_its_parts(self):
        preset, rgb = LpssvmVisual(), drawing(61, 47)
        parts = [
            ColorMoments(grid=(5, 5), moments=("mean", "std", "skewness"), color_space="luv"),
            Gabor(),
            EdgeHistogram(),
        ]
        assert [part.n_features for part in parts] == [225, 48, 73]
        expected = np.concatenate([part.extract(rgb) for part in parts])
        np.testing.assert_array_equal(preset.extract(rgb), expected)
        assert preset.n_features == len(preset.feature_names()) == 346
        assert preset.feature_names()[225] == "gabor_scale0_angle0_mean"

    def test_a_picture_is_decoded_once(self, monkeypatch, tmp_path):
        calls = []
        from embedding_core.features import images

        real = images.decode_image
        monkeypatch.setattr(images, "decode_image", lambda *a, **k: calls.append(1) or real(*a, **k))
        Image.fromarray(drawing(40, 40)).save(tmp_path / "a.png")
        LpssvmVisual().extract_bytes((tmp_path / "a.png").read_bytes())
        assert calls == [1]
