"""The ONNX file format: what is written is valid, and files with external data are found."""

from pathlib import Path

import numpy as np
import pytest

from embedding_core.errors import InvalidInput
from embedding_core.features import onnx_format
from tests.onnx_models import write_model


def small_model() -> bytes:
    """y = x * 2 with a large and a scalar constant, and attributes of both kinds."""
    nodes = [
        onnx_format.node("Mul", ["x", "two"], "doubled"),
        onnx_format.node("MaxPool", ["doubled"], "pooled", kernel_shape=[2, 2], strides=[2, 2]),
        onnx_format.node("Flatten", ["pooled"], "y", axis=1),
    ]
    tensors = [onnx_format.tensor("two", np.full((1, 300, 1, 1), 2, np.float32))]
    return onnx_format.model(nodes, tensors, ("x", ["n", 300, 4, 4]), ("y", ["n", 1200]))


def test_a_written_model_is_valid_and_computes() -> None:
    onnx = pytest.importorskip("onnx", exc_type=ImportError)
    from onnx.reference import ReferenceEvaluator

    model = onnx.load_from_string(small_model())
    onnx.checker.check_model(model, full_check=True)
    x = np.random.default_rng(0).normal(size=(2, 300, 4, 4)).astype(np.float32)
    expected = 2 * x.reshape(2, 300, 2, 2, 2, 2).max(axis=(3, 5)).reshape(2, -1)
    np.testing.assert_array_equal(ReferenceEvaluator(model).run(None, {"x": x})[0], expected)


def test_external_files_are_found_in_initializers_and_in_nested_graphs(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", exc_type=ImportError)
    assert onnx_format.external_files(small_model()) == []
    assert onnx_format.external_files(write_model(tmp_path / "a.onnx").read_bytes()) == []
    outside = write_model(tmp_path / "b.onnx", external=True).read_bytes()
    assert onnx_format.external_files(outside) == ["b.onnx_data"]

    graph = onnx.load_from_string(small_model()).graph
    (tensor,) = graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "deep.bin"), ("offset", "0"), ("length", "1200")):
        tensor.external_data.add(key=key, value=value)
    other = onnx.TensorProto()
    other.CopyFrom(tensor)
    other.external_data[0].value = "constant.bin"
    helper = onnx.helper
    nested = helper.make_node("If", ["c"], ["z"], then_branch=graph, else_branch=graph)
    constant = helper.make_node("Constant", [], ["k"], value=other)
    model = helper.make_model(helper.make_graph([nested, constant], "outer", [], []))
    assert onnx_format.external_files(model.SerializeToString()) == ["constant.bin", "deep.bin"]


def test_every_message_that_can_hold_a_tensor_is_searched() -> None:
    """The table of nested messages against the definition of the format."""
    onnx = pytest.importorskip("onnx", exc_type=ImportError)
    names = {
        "ModelProto": "model",
        "TrainingInfoProto": "training",
        "FunctionProto": "function",
        "GraphProto": "graph",
        "NodeProto": "node",
        "AttributeProto": "attribute",
        "SparseTensorProto": "sparse",
        "TensorProto": "tensor",
    }
    pending, found = [onnx.ModelProto.DESCRIPTOR], {}
    while pending:
        message = pending.pop()
        inside = [(field.number, field.message_type) for field in message.fields if field.message_type]
        found[message.name] = {number: inner.name for number, inner in inside if inner.name in names}
        pending += [inner for _, inner in inside if inner.name not in found]
    expected = {names[name]: {k: names[v] for k, v in found[name].items()} for name in names}
    location = onnx.TensorProto.DESCRIPTOR.fields_by_name["external_data"].number
    assert {**expected, "tensor": {location: "external"}} == onnx_format._INSIDE


def test_damage_never_raises_anything_else() -> None:
    data, rng = small_model(), np.random.default_rng(0)
    for cut in range(1, len(data), 7):
        with pytest.raises(InvalidInput, match="truncated, damaged or not an ONNX file"):
            onnx_format.external_files(data[:cut])
    for _ in range(300):
        damaged = np.frombuffer(data, np.uint8).copy()
        damaged[rng.integers(len(data), size=3)] = rng.integers(256, size=3)
        try:
            onnx_format.external_files(damaged.tobytes())
        except InvalidInput:
            continue
