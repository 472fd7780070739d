"""From images of any size to the numbers that a network expects."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from embedding_core.errors import InvalidInput
from embedding_core.features.images import PixelBuffer, decode_image
from embedding_core.features.preprocessing import Preprocessing
from embedding_core.features.preprocessor_config import PreprocessorConfig, find_config, read_config

HALF = (0.5, 0.5, 0.5)


def stripes() -> np.ndarray:
    """Four rows of eight pixels: two black columns, four white ones, two black ones."""
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, 2:6] = 255
    return pixels


@pytest.mark.parametrize(
    ("fit", "kept", "expected"),
    [
        ("squash", 1.0, [[-1, 1, 1, -1]] * 4),
        ("crop", 1.0, [[1, 1, 1, 1]] * 4),
        ("pad", 1.0, [[0, 0, 0, 0], [-1, 1, 1, -1], [-1, 1, 1, -1], [0, 0, 0, 0]]),
    ],
)
def test_images_of_another_shape(fit: Any, kept: float, expected: list[list[float]]) -> None:
    found = Preprocessing(4, 4, HALF, HALF, fit, kept).apply(stripes())
    np.testing.assert_allclose(found, [expected] * 3, atol=0.3)  # resizing blurs the edges
    assert found.dtype == np.float32


def test_crop_keeps_a_share_of_the_center() -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[2:6, 2:6] = 255
    assert (Preprocessing(4, 4, HALF, HALF, "crop", 0.5).apply(pixels) == 1).all()
    assert Preprocessing(4, 4, HALF, HALF, "crop", 1.0).apply(pixels).min() < 0


def test_each_band_has_its_own_mean_and_deviation() -> None:
    mean, std = (0.2, 0.4, 0.6), (0.1, 0.2, 0.4)
    found = Preprocessing(2, 3, mean, std).apply(np.full((2, 3, 3), (51, 0, 255), np.uint8))
    np.testing.assert_allclose(found[:, 0, 0], [0, -2, 1], atol=1e-6)


@pytest.mark.parametrize("fit", ["squash", "crop", "pad"])
@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (31, 17), (17, 31), (239, 320), (320, 239)])
def test_any_shape_fits(fit: Any, size: tuple[int, int]) -> None:
    white = np.full((*size, 3), 255, np.uint8)
    for height, width, kept in ((7, 5, 1.0), (7, 5, 0.875), (224, 224, 1.0)):
        found = Preprocessing(height, width, HALF, HALF, fit, kept if fit == "crop" else 1.0).apply(white)
        assert found.shape == (3, height, width)
        assert set(found.ravel().tolist()) <= {0.0, 1.0}


def test_what_is_cropped_keeps_the_size_of_the_network() -> None:
    assert Preprocessing(224, 192, HALF, HALF).least_side == 224
    assert Preprocessing(224, 192, HALF, HALF, "crop", 0.875).least_side == 256


class TestReducedDecoding:
    """Large JPEG files are decoded at a fraction of their size."""

    @pytest.mark.parametrize(
        ("least_side", "shape"),
        [
            (None, (300, 401)),
            (301, (300, 401)),
            (151, (300, 401)),
            (150, (150, 201)),
            (75, (75, 101)),
            (9, (38, 51)),
        ],
    )
    def test_both_sides_keep_enough_pixels(self, least_side: int | None, shape: tuple[int, int]) -> None:
        y, x = np.mgrid[:300, :401]
        pixels = np.stack([x * 255 // 401, y * 255 // 300, (x + y) * 255 // 701], axis=2).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=95)
        for buffer in (None, PixelBuffer()):
            found = decode_image(file.getvalue(), buffer=buffer, least_side=least_side)
            assert found.shape == (*shape, 3)
            expected = Image.fromarray(pixels).resize(shape[::-1], Image.Resampling.BOX)
            assert np.abs(found.astype(int) - np.asarray(expected)).mean() < 3

    def test_other_formats_keep_their_size(self) -> None:
        file = io.BytesIO()
        Image.fromarray(stripes()).save(file, "PNG")
        assert decode_image(file.getvalue(), least_side=1).shape == (4, 8, 3)


class TestPreprocessorConfig:
    """The file beside models of Hugging Face."""

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({}, PreprocessorConfig(fit="squash", interpolation="bilinear")),
            (
                {"size": {"height": 224, "width": 192}, "image_mean": HALF, "image_std": HALF, "resample": 3},
                PreprocessorConfig((224, 192), HALF, HALF, "squash", 1.0, "bicubic"),
            ),
            (
                {
                    "size": {"shortest_edge": 256},
                    "crop_size": {"height": 224, "width": 224},
                    "do_center_crop": True,
                },
                PreprocessorConfig((224, 224), fit="crop", kept=0.875, interpolation="bilinear"),
            ),
            (
                {"size": 224, "do_center_crop": False, "crop_size": 192, "resample": 0},
                PreprocessorConfig((224, 224), fit="squash"),
            ),
            (
                {"size": {"shortest_edge": 224}, "crop_pct": 0.875},
                PreprocessorConfig((224, 224), fit="crop", kept=0.875, interpolation="bilinear"),
            ),
            (
                {"do_normalize": False},
                PreprocessorConfig(None, (0, 0, 0), (1, 1, 1), "squash", 1.0, "bilinear"),
            ),
        ],
    )
    def test_what_the_file_says(self, tmp_path: Path, given: Any, expected: PreprocessorConfig) -> None:
        (tmp_path / "c.json").write_text(json.dumps(given))
        assert read_config(tmp_path / "c.json") == expected

    @pytest.mark.parametrize(
        ("given", "black", "white"),
        [
            ({"rescale_factor": 1 / 127.5, "rescale_offset": True}, -1, 1),
            ({"do_rescale": False}, 0, 255),
            ({}, 0, 1),
        ],
    )
    def test_other_scales_of_pixels(self, tmp_path: Path, given: Any, black: float, white: float) -> None:
        (tmp_path / "c.json").write_text(
            json.dumps({"image_mean": [0, 0, 0], "image_std": [1, 1, 1], **given})
        )
        found = read_config(tmp_path / "c.json")
        assert found.mean is not None and found.std is not None
        apply = Preprocessing(1, 1, found.mean, found.std).apply
        assert apply(np.zeros((1, 1, 3), np.uint8)).ravel() == pytest.approx([black] * 3, abs=1e-4)
        assert apply(np.full((1, 1, 3), 255, np.uint8)).ravel() == pytest.approx([white] * 3, rel=1e-4)

    @pytest.mark.parametrize(
        "text",
        [
            *("", "{", "[]", "3", '{"size": "x"}', '{"size": {}}', '{"image_mean": 3, "image_std": 3}'),
            '{"image_mean": [0.5], "image_std": [0.5]}',
            '{"image_mean": [0, 0, NaN], "image_std": [1, 1, 1]}',
            '{"image_mean": [0, 0, 0], "image_std": [1, 1, 0]}',
            '{"image_mean": [0, 0, 0], "image_std": [1, 1, 1], "rescale_factor": 0}',
            '{"size": {"shortest_edge": 224}, "crop_pct": 1.5}',
            '{"size": 0, "crop_size": 224}',
        ],
    )
    def test_damage_is_named(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "c.json").write_text(text)
        with pytest.raises(InvalidInput, match=r"c\.json cannot be read as the preprocessing of a model"):
            read_config(tmp_path / "c.json")

    def test_it_lies_beside_the_model_or_one_folder_above(self, tmp_path: Path) -> None:
        model = tmp_path / "onnx" / "m.onnx"
        assert find_config(model) is None
        (tmp_path / "preprocessor_config.json").write_text("{}")
        assert find_config(model) == tmp_path / "preprocessor_config.json"
