"""Weights of a PyTorch file, read without unpickling."""

import io
import os
import pickle
import struct
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_core.errors import InvalidInput
from embedding_core.features.torch_weights import read_torch_weights


class FloatStorage:
    """Stands for torch.FloatStorage in a pickle."""


class LongStorage:
    """Stands for torch.LongStorage in a pickle."""


def _rebuild_tensor_v2(*arguments: Any) -> None:
    """Stands for torch._utils._rebuild_tensor_v2 in a pickle."""


class Tensor:
    """An array that is pickled as PyTorch pickles a tensor."""

    def __init__(self, key: str, values: np.ndarray) -> None:
        self.key, self.values = key, values

    def __reduce__(self) -> Any:
        strides = tuple(step // self.values.itemsize for step in self.values.strides)
        return _rebuild_tensor_v2, (self, 0, self.values.shape, strides, False, {})


class TensorPickler(pickle.Pickler):
    """Writes a tensor's first mention inside its own arguments as a reference to its storage."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=2)
        self.seen: set[int] = set()

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return None
        if id(value) not in self.seen:
            self.seen.add(id(value))
            return None
        kind = FloatStorage if value.values.dtype == np.float32 else LongStorage
        return "storage", kind, value.key, "cpu", value.values.size, None


@pytest.fixture
def write_weights(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write arrays in the format of `torch.save` before version 1.6, without PyTorch."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for module, value in ((torch, FloatStorage), (torch, LongStorage), (utils, _rebuild_tensor_v2)):
        monkeypatch.setattr(value, "__module__", module.__name__)
        setattr(module, value.__name__, value)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def write(arrays: dict[str, np.ndarray]) -> bytes:
        file = io.BytesIO()
        for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True, "type_sizes": {"int": 4}}):
            pickle.dump(value, file, protocol=2)
        tensors = {name: Tensor(str(number), values) for number, (name, values) in enumerate(arrays.items())}
        TensorPickler(file).dump(tensors)
        keys = [tensor.key for tensor in tensors.values()]
        pickle.dump(keys, file, protocol=2)
        for values in arrays.values():
            file.write(struct.pack("<q", values.size) + values.tobytes(order="A"))
        return file.getvalue()

    return write


def example() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "weight": rng.normal(size=(2, 3, 4)).astype(np.float32),
        "turned": np.asfortranarray(rng.normal(size=(3, 5)).astype(np.float32)),
        "count": np.array(7, np.int64),
    }


def test_every_tensor_is_read(write_weights: Any) -> None:
    arrays = example()
    found = read_torch_weights(write_weights(arrays))
    assert list(found) == list(arrays)
    for name, values in arrays.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


def test_every_truncation_is_an_error(write_weights: Any) -> None:
    data = write_weights(example())
    for cut in range(len(data)):
        with pytest.raises(InvalidInput):
            read_torch_weights(data[:cut])


def test_flipped_bytes_never_raise_anything_else(write_weights: Any) -> None:
    data, rng = write_weights(example()), np.random.default_rng(1)
    for _ in range(500):
        damaged = np.frombuffer(data, np.uint8).copy()
        damaged[rng.integers(len(data), size=3)] = rng.integers(256, size=3)
        try:
            read_torch_weights(damaged.tobytes())
        except InvalidInput as error:
            assert len(str(error)) < 300


def test_a_message_does_not_show_the_whole_file() -> None:
    with pytest.raises(InvalidInput, match="truncated or damaged") as found:
        read_torch_weights(b"\x80\x02F" + b"x" * 5000 + b"\n.")
    assert len(str(found.value)) < 300


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.called = function, arguments

    def __reduce__(self) -> Any:
        return self.called


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_a_file_that_names_other_code_is_refused(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "made"
    data = pickle.dumps(Hostile(os.mkdir, str(target)), protocol=protocol)
    with pytest.raises(InvalidInput, match=r"refers to|has the instruction"):
        read_torch_weights(data)
    assert not target.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04", pickle.dumps(5, protocol=2), b"\x80\x02.", b"\x80\x02}e."]
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        read_torch_weights(data)
