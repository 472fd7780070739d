"""The ONNX file format, as far as the feature extractors need it: write a graph, find external data files.

ONNX files are Protocol Buffers messages. A message is a sequence of fields; each has a number and is a varint
or a block of bytes (a text, a nested message, packed values). The field numbers are those of `onnx.proto`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from embedding_core.errors import InvalidInput

_FLOAT = 1
_IR_VERSION, _OPSET = 8, 13

# Nested messages that can contain tensors: message → field → message inside.
_INSIDE = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "external"},
}


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _field(number: int, value: int | str | bytes) -> bytes:
    """One field: a varint for an integer, else a block of bytes."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    block = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(block)) + block


def tensor(name: str, values: np.ndarray) -> bytes:
    """A constant float32 array (TensorProto)."""
    dims = b"".join(_field(1, size) for size in values.shape)
    return dims + _field(2, _FLOAT) + _field(8, name) + _field(9, values.astype("<f4").tobytes())


def node(operator: str, inputs: Sequence[str], output: str, **integers: int | Sequence[int]) -> bytes:
    """One operation (NodeProto) with integers or lists of integers as attributes."""
    found = b"".join(_field(1, name) for name in inputs) + _field(2, output) + _field(4, operator)
    for name, value in integers.items():
        if isinstance(value, int):
            found += _field(5, _field(1, name) + _field(3, value) + _field(20, 2))
        else:
            items = b"".join(_field(8, item) for item in value)
            found += _field(5, _field(1, name) + items + _field(20, 7))
    return found


def _value(name: str, shape: Sequence[int | str]) -> bytes:
    """Name, type and shape of an input or output; a text is a size that each call may choose."""
    dims = b"".join(_field(1, _field(1 if isinstance(size, int) else 2, size)) for size in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, _FLOAT) + _field(2, dims)))


def model(
    nodes: Sequence[bytes],
    tensors: Sequence[bytes],
    source: tuple[str, Sequence[int | str]],
    result: tuple[str, Sequence[int | str]],
) -> bytes:
    """A whole file (ModelProto) with one input and one output, each given by name and shape."""
    graph = b"".join(_field(1, one) for one in nodes) + _field(2, "graph")
    graph += b"".join(_field(5, one) for one in tensors)
    graph += _field(11, _value(*source)) + _field(12, _value(*result))
    return _field(1, _IR_VERSION) + _field(7, graph) + _field(8, _field(1, "") + _field(2, _OPSET))


def external_files(data: bytes) -> list[str]:
    """Names of the files beside a model that hold some of its tensors, each once.

    Parameters
    ----------
    data : bytes
        The content of an ONNX file.

    Raises
    ------
    InvalidInput
        The bytes are not a Protocol Buffers message.
    """
    try:
        return sorted(set(_locations(memoryview(data), "model")))
    except (IndexError, UnicodeDecodeError) as error:
        raise InvalidInput("it is truncated, damaged or not an ONNX file") from error


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    for number, block in _blocks(message):
        inside = _INSIDE[kind].get(number)
        if inside == "external":
            texts = {field: bytes(text).decode() for field, text in _blocks(block)}
            if texts.get(1) == "location":
                yield texts.get(2, "")
        elif inside is not None:
            yield from _locations(block, inside)


def _blocks(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The number and the bytes of each field that is a block; other fields are skipped."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        wire = key & 7
        if wire == 0:
            _, at = _read_varint(message, at)
            continue
        if wire == 2:
            size, at = _read_varint(message, at)
        else:
            size = {1: 8, 5: 4}.get(wire, len(message) + 1)
        if at + size > len(message):
            raise IndexError("a field ends behind its message")
        if wire == 2:
            yield key >> 3, message[at : at + size]
        at += size


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """The value of a varint and the position behind it."""
    value = 0
    for shift in range(0, 64, 7):
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise IndexError("a number is too long")
