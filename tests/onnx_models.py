"""Small ONNX models for tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NORMALIZED = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
OPEN = ("n", "c", "h", "w")
WEIGHTS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
"""The tiny model multiplies the mean color by these."""


def build(
    nodes: Sequence[Any],
    shape: Sequence[int | str] | None = ("n", 3, 8, 8),
    outputs: Sequence[str] = ("y",),
    kind: str = "FLOAT",
    more_inputs: Sequence[str] = (),
) -> Any:
    """A model with the input `x`, the constants `weights` (3, 5) and `axes`, and the given operations."""
    onnx = pytest.importorskip("onnx", exc_type=ImportError)
    helper, types = onnx.helper, onnx.TensorProto
    sources = [helper.make_tensor_value_info("x", getattr(types, kind), shape)]
    sources += [helper.make_tensor_value_info(name, types.FLOAT, ["n", 7]) for name in more_inputs]
    graph = helper.make_graph(
        [helper.make_node(*operation[:3], **operation[3]) for operation in nodes],
        "tiny",
        sources,
        [helper.make_tensor_value_info(name, types.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(WEIGHTS.T.copy(), "weights")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


MEAN_COLOR = [
    ("GlobalAveragePool", ["x"], ["means"], {}),
    ("Flatten", ["means"], ["flat"], {"axis": 1}),
    ("MatMul", ["flat", "weights"], ["y"], {}),
]
"""Operations from an image (n, 3, height, width) to five features (n, 5)."""


def write_model(file: Path, model: Any = None, external: bool = False) -> Path:
    """Write a model, by default five features of the mean color; its weights may go to `NAME.onnx_data`."""
    onnx = pytest.importorskip("onnx", exc_type=ImportError)
    pytest.importorskip("onnxruntime", exc_type=ImportError)
    onnx.save_model(
        build(MEAN_COLOR) if model is None else model,
        file,
        save_as_external_data=external,
        location=f"{file.name}_data" if external else None,
        size_threshold=0,
    )
    return file
