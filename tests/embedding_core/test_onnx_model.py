"""Features by a vision model in an ONNX file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_core.errors import InvalidInput
from embedding_core.features import network
from embedding_core.features.onnx_model import OnnxModel
from tests.onnx_models import MEAN_COLOR, NORMALIZED, OPEN, WEIGHTS, build, write_model

RED = np.full((6, 9, 3), (255, 0, 0), np.uint8)
EXPECTED = WEIGHTS @ np.array([1, -1, -1], np.float32)
"""Features of `RED` with mean .5 and std .5."""


def tile(shape: tuple[int, ...]) -> list[Any]:
    """Operations that repeat the mean color at several positions."""
    onnx = pytest.importorskip("onnx", exc_type=ImportError)
    sizes = onnx.numpy_helper.from_array(np.array(shape, np.int64), "sizes")
    return [
        ("GlobalAveragePool", ["x"], ["means"], {}),
        ("Constant", [], ["sizes"], {"value": sizes}),
        ("Expand", ["means", "sizes"], ["y"], {}),
    ]


@pytest.mark.slow
def test_the_row_is_the_output_of_the_model(tmp_path: Path) -> None:
    extractor = OnnxModel(str(write_model(tmp_path / "m.onnx")), **NORMALIZED)
    np.testing.assert_allclose(extractor.extract(RED), EXPECTED, rtol=1e-5)
    assert (extractor.n_features, extractor.feature_names()[-1]) == (5, "onnx_4")


@pytest.mark.parametrize(
    ("nodes", "shape", "kind", "parameters"),
    [
        (MEAN_COLOR, OPEN, "FLOAT", {"size": 4, "layout": "nchw"}),
        (MEAN_COLOR, (1, 3, 8, 4), "FLOAT", {}),
        (MEAN_COLOR, ("n", 3, "h", "w"), "FLOAT", {"size": 4, "interpolation": "bicubic"}),
        ([("Transpose", ["x"], ["z"], {"perm": [0, 3, 1, 2]})], ("n", 8, 8, 3), "FLOAT", {}),
        ([("Cast", ["x"], ["z"], {"to": 1})], ("n", 3, 8, 8), "FLOAT16", {}),
    ],
    ids=["open sizes", "batch of one", "open side", "bands last", "half precision"],
)
def test_inputs_of_many_kinds(
    tmp_path: Path, nodes: Any, shape: Any, kind: str, parameters: dict[str, Any]
) -> None:
    if nodes is not MEAN_COLOR:
        nodes = [*nodes, ("GlobalAveragePool", ["z"], ["means"], {}), *MEAN_COLOR[1:]]
    file = write_model(tmp_path / "m.onnx", build(nodes, shape, kind=kind))
    model = OnnxModel(str(file), **NORMALIZED, **parameters)
    np.testing.assert_allclose(model.extract(RED), EXPECTED, rtol=2e-3)
    batch = np.stack([model.network.preprocessing.apply(pixels) for pixels in (RED, RED // 2, RED)])
    single = np.concatenate([model.network.run(batch[place : place + 1]) for place in range(3)])
    np.testing.assert_allclose(model.network.run(batch), single, atol=1e-5)


def test_a_model_of_bytes_gets_the_pixels(tmp_path: Path) -> None:
    nodes = [("Cast", ["x"], ["z"], {"to": 1}), ("Flatten", ["z"], ["y"], {"axis": 1})]
    file = write_model(tmp_path / "m.onnx", build(nodes, ("n", 3, 16, 16), kind="UINT8"))
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    row = OnnxModel(str(file)).extract(np.stack([every, every.T, every], axis=2))
    np.testing.assert_array_equal(row.reshape(3, 16, 16), [every, every.T, every])


@pytest.mark.parametrize(
    ("shape", "pool", "expected"),
    [
        ((1, 3, 1, 1), "none", [1, -1, -1]),
        ((1, 3, 2, 2), "mean", [1, -1, -1]),
    ],
)
def test_outputs_with_positions(tmp_path: Path, shape: Any, pool: Any, expected: list[float]) -> None:
    file = write_model(tmp_path / "m.onnx", build(tile(shape)))
    assert OnnxModel(str(file), pool=pool, **NORMALIZED).extract(RED).tolist() == expected


def test_the_first_position_or_the_mean_of_tokens(tmp_path: Path) -> None:
    """Columns of an image as tokens: (n, 3, 1, 8) to (n, 8, 3)."""
    nodes = [
        ("ReduceMean", ["x"], ["m"], {"axes": [2], "keepdims": 0}),
        ("Transpose", ["m"], ["y"], {"perm": [0, 2, 1]}),
    ]
    file = str(write_model(tmp_path / "m.onnx", build(nodes)))
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:, 0] = 255
    assert OnnxModel(file, pool="first", **NORMALIZED).extract(pixels).tolist() == [1, 1, 1]
    assert OnnxModel(file, pool="mean", **NORMALIZED).extract(pixels).tolist() == [-0.75] * 3
    with pytest.raises(InvalidInput, match=r"shape \(1, 8, 3\).*features\.onnx\.pool=mean.*pool=first"):
        OnnxModel(file, **NORMALIZED).extract(pixels)


TWO_OUTPUTS = [*MEAN_COLOR, ("Relu", ["y"], ["z"], {})]
BROKEN: dict[str, tuple[Any, dict[str, Any], str]] = {
    "wrong rank": (([("Relu", ["x"], ["y"], {})], ("n", 77)), {}, r"input x \(n, 77\) .* not take images"),
    "wrong type": (
        ([("Cast", ["x"], ["y"], {"to": 1})], ("n", 3, 8, 8), ("y",), "INT64"),
        {},
        r"tensor\(int64\) does not take images",
    ),
    "gray": ((MEAN_COLOR[:1], ("n", 1, 8, 8), ("means",)), {}, r"\(n, 1, 8, 8\).* three bands"),
    "gray by layout": ((MEAN_COLOR[:1], ("n", 1, 8, 8), ("means",)), {"layout": "nchw"}, "three bands"),
    "several images": ((MEAN_COLOR, (4, 3, 8, 8)), {}, r"4 images at once; export .* batch size of 1"),
    "two inputs": (
        ([*MEAN_COLOR, ("Relu", ["t"], ["u"], {})], ("n", 3, 8, 8), ("y", "u"), "FLOAT", ("t",)),
        {},
        r"2 inputs \(x \(n, 3, 8, 8\), t \(n, 7\)\); export only",
    ),
    "two outputs": (
        (TWO_OUTPUTS, ("n", 3, 8, 8), ("y", "z")),
        {},
        r"2 outputs: y \(n, 5\), z \(n, 5\); choose one with features\.onnx\.output=NAME",
    ),
    "no such output": ((MEAN_COLOR,), {"output": "q"}, r"no output 'q'; features\.onnx\.output can be y"),
    "open layout": ((MEAN_COLOR, OPEN), {}, r"\(n, c, h, w\) .*add features\.onnx\.layout=nchw"),
    "open size": ((MEAN_COLOR, ("n", 3, "h", "w")), {}, r"leaves the size .*add features\.onnx\.size"),
    "fixed size": ((MEAN_COLOR,), {"size": 9}, r"\(n, 3, 8, 8\) .*remove features\.onnx\.size=9"),
    "huge": ((MEAN_COLOR, ("n", 3, 8, 99999)), {}, "8 x 99999 pixels are not from 1 to 4096"),
    "a map": (([("Relu", ["x"], ["y"], {})],), {}, r"shape \(1, 3, 8, 8\).*features\.onnx\.pool=mean"),
    "other rows": (
        ([("Flatten", ["x"], ["y"], {"axis": 2})],),
        {},
        r"shape \(3, 64\), not one row per image",
    ),
    "no rows": (
        ([("ReduceMean", ["x"], ["y"], {"axes": [0, 2, 3], "keepdims": 0})],),
        {},
        r"shape \(3\), not one row per image",
    ),
    "fails": (
        ([("Reshape", ["x", "s"], ["y"], {})], ("n", 3, "h", "w")),
        {"size": 5},
        r"fails on images of 5 x 5 pixels .*set features\.onnx\.size",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_does_not_fit_is_explained(tmp_path: Path, name: str) -> None:
    arguments, parameters, message = BROKEN[name]
    if name == "fails":
        onnx = pytest.importorskip("onnx", exc_type=ImportError)
        sizes = onnx.numpy_helper.from_array(np.array([1, 48], np.int64), "s")
        arguments = ([("Constant", [], ["s"], {"value": sizes}), *arguments[0]], arguments[1])
    file = write_model(tmp_path / "m.onnx", build(*arguments))
    extractor = OnnxModel(str(file), **NORMALIZED, **parameters)
    with pytest.raises(InvalidInput, match=message) as found:
        extractor.warm_up(1)
    assert str(found.value).startswith(f"{file}: ")
    assert "\n" not in str(found.value)


def test_a_chosen_output(tmp_path: Path) -> None:
    file = write_model(tmp_path / "m.onnx", build(TWO_OUTPUTS, outputs=("y", "z")))
    row = OnnxModel(str(file), output="z", **NORMALIZED).extract(RED)
    np.testing.assert_allclose(row, np.maximum(EXPECTED, 0), rtol=1e-5)


def test_missing_and_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_model(tmp_path / "m.onnx")
    with pytest.raises(InvalidInput, match=r"set features\.extractors=onnx:PATH"):
        OnnxModel().warm_up(1)
    with pytest.raises(InvalidInput, match=r"none\.onnx does not exist"):
        OnnxModel(str(tmp_path / "none.onnx")).warm_up(1)
    with pytest.raises(InvalidInput, match=r"is a folder; give the \.onnx file"):
        OnnxModel(str(tmp_path)).file_digests()
    whole = file.read_bytes()
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(InvalidInput, match=r"m\.onnx: (it is truncated|onnxruntime cannot open)"):
            OnnxModel(str(file), **NORMALIZED).warm_up(1)
    file.write_bytes(whole)
    monkeypatch.setattr(network, "has_onnxruntime", lambda: False)
    with pytest.raises(InvalidInput, match=r"pip install 'labelscape\[onnx\]'"):
        OnnxModel(str(file), **NORMALIZED).warm_up(1)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_model(tmp_path / "m.onnx")

    def refuse(self: Path, *arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InvalidInput, match=r"m\.onnx cannot be read \(Permission denied\)"):
        OnnxModel(str(file)).file_digests()


def test_the_normalization_is_never_guessed(tmp_path: Path) -> None:
    file = write_model(tmp_path / "m.onnx")
    with pytest.raises(InvalidInput, match=r"Add features\.onnx\.mean and features\.onnx\.std"):
        OnnxModel(str(file)).warm_up(1)
    settings = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    np.testing.assert_allclose(OnnxModel(str(file)).extract(RED), EXPECTED, rtol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"size": 0}, "size=0: give a number of pixels from 1 to 4096"),
        ({"mean": [1, 2]}, r"mean=\[1, 2\]: give three numbers\."),
        ({"mean": [1, 2, float("nan")]}, "give three numbers"),
        ({"std": [1, 0, 1]}, r"std=\[1, 0, 1\]: give three numbers above 0"),
        ({"pool": "max"}, "pool='max' is unknown"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        OnnxModel("m.onnx", **parameters)


class TestDigests:
    """Every byte that a row depends on changes a digest."""

    def test_weights_external_data_and_preprocessing(self, tmp_path: Path) -> None:
        file = write_model(tmp_path / "m.onnx", external=True)
        extractor = OnnxModel(str(file), **NORMALIZED)
        before, row = extractor.file_digests(), extractor.extract(RED)
        assert set(before) == {"m.onnx", "m.onnx_data"}
        np.testing.assert_allclose(row, EXPECTED, rtol=1e-5)

        data = tmp_path / "m.onnx_data"
        data.write_bytes((2 * np.frombuffer(data.read_bytes(), np.float32)).tobytes())
        assert extractor.file_digests()["m.onnx_data"] != before["m.onnx_data"]
        np.testing.assert_allclose(extractor.extract(RED), 2 * EXPECTED, rtol=1e-5)

        (tmp_path / "preprocessor_config.json").write_text("{}")
        assert set(extractor.file_digests()) == {"m.onnx", "m.onnx_data", "preprocessor_config.json"}
        write_model(file)
        assert extractor.file_digests()["m.onnx"] != before["m.onnx"]

    def test_external_data_must_lie_beside_the_model(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        file = write_model(tmp_path / "in" / "m.onnx", external=True)
        (tmp_path / "in" / "m.onnx_data").rename(tmp_path / "m.onnx_data")
        with pytest.raises(InvalidInput, match=r"m\.onnx needs the file m\.onnx_data beside it"):
            OnnxModel(str(file), **NORMALIZED).warm_up(1)
        # The name has 11 letters; another one of the same length keeps the lengths in the file.
        file.write_bytes(file.read_bytes().replace(b"m.onnx_data", b"../onnx_dat"))
        with pytest.raises(InvalidInput, match=r"outside its folder \(\.\./onnx_dat\)"):
            OnnxModel(str(file), **NORMALIZED).file_digests()
