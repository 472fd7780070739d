"""Read the tensors of a PyTorch weight file without PyTorch and without unpickling.

The old format of `torch.save` is five pickles (a magic number, a version, facts about the machine, the
tensors by name, the order of the storages) followed by the raw storages. Unpickling runs whatever code a file
names. Here the instructions of the pickles are read as data instead: only those that plain values and tensors
need are understood, and every other one is an error.
"""

import io
import pickletools
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from embedding_core.errors import InvalidInput

_MAGIC = 0x1950A86A20F9469CFC6C
_DTYPES: dict[str, np.dtype[Any]] = {
    "torch FloatStorage": np.dtype("<f4"),
    "torch LongStorage": np.dtype("<i8"),
}
_DICT, _TENSOR = "collections OrderedDict", "torch._utils _rebuild_tensor_v2"
_NAMES = {*_DTYPES, _DICT, _TENSOR}
_CONSTANTS = {"NEWTRUE": True, "NEWFALSE": False, "NONE": None}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_EMPTY = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}
_LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "BINFLOAT"}
_MARK = object()
# Characters of a damaged value that a message shows.
_SHOWN = 80


class _Name(str):
    """A function or class that a pickle refers to; it is never imported."""


def read_torch_weights(data: bytes) -> dict[str, np.ndarray]:
    """Return the tensors of a weight file by name.

    Parameters
    ----------
    data : bytes
        The whole file, in the format that `torch.save` wrote before version 1.6.

    Returns
    -------
    dict of str to ndarray
        Read-only arrays of float32 or int64.

    Raises
    ------
    InvalidInput
        The file is truncated, has another format, or names anything but tensors.
    """
    file = io.BytesIO(data)
    try:
        if _read_pickle(file) != _MAGIC:
            raise InvalidInput("the file does not begin like a PyTorch weight file of the old format.")
        _read_pickle(file), _read_pickle(file)
        tensors, order = _read_pickle(file), _read_pickle(file)
        storages = dict(_read_storages(data, file.tell(), tensors, order))
        return {name: _tensor(storages, *facts) for name, facts in tensors.items()}
    except InvalidInput:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error) as error:
        raise InvalidInput(
            f"the weight file is truncated or damaged ({str(error)[:_SHOWN]}); install it again."
        ) from error


def _read_pickle(file: io.BytesIO) -> Any:
    """Rebuild the plain value of one pickle; a tensor becomes the tuple of arguments of its constructor."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for instruction, argument, _ in pickletools.genops(file):
        _follow(instruction.name, argument, stack, memo)
    return stack.pop()


def _follow(name: str, argument: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    """Carry out one instruction on the stack."""
    if name in _LITERALS:
        stack.append(argument)
    elif name in _CONSTANTS:
        stack.append(_CONSTANTS[name])
    elif name in _EMPTY:
        stack.append(_EMPTY[name]())
    elif name == "MARK":
        stack.append(_MARK)
    elif name in ("BINPUT", "LONG_BINPUT"):
        memo[argument] = stack[-1]
    elif name in ("BINGET", "LONG_BINGET"):
        stack.append(memo[argument])
    elif name == "GLOBAL":
        if argument not in _NAMES:
            raise InvalidInput(
                f"the weight file refers to {argument[:_SHOWN]!r}, which is not part of a tensor."
            )
        stack.append(_Name(argument))
    elif name == "TUPLE":
        stack.append(tuple(_above_mark(stack)))
    elif name in _TUPLES:
        stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
    elif name in ("SETITEM", "SETITEMS"):
        found = _above_mark(stack) if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
        stack[-1].update(zip(found[::2], found[1::2], strict=True))
    elif name in ("APPEND", "APPENDS"):
        found = _above_mark(stack) if name == "APPENDS" else [stack.pop()]
        stack[-1].extend(found)
    elif name == "REDUCE":
        called, arguments = stack[-2:]
        stack[-2:] = [_call(called, arguments)]
    elif name == "BUILD":
        stack.pop()  # attributes of the dict of tensors
    elif name not in ("PROTO", "STOP", "BINPERSID"):
        raise InvalidInput(f"the weight file has the instruction {name}, which no tensor needs.")


def _above_mark(stack: list[Any]) -> list[Any]:
    start = max(place for place, value in enumerate(stack) if value is _MARK)
    found = stack[start + 1 :]
    del stack[start:]
    return found


def _call(called: Any, arguments: Any) -> Any:
    if isinstance(called, _Name) and called == _DICT and arguments == ():
        return {}
    if isinstance(called, _Name) and called == _TENSOR:
        storage, offset, shape, strides, *_ = arguments
        return storage, offset, shape, strides
    raise InvalidInput(f"the weight file calls {str(called)[:_SHOWN]!r}, which makes no tensor.")


def _read_storages(
    data: bytes, at: int, tensors: dict[str, Any], order: list[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """The storages lie behind the pickles, in this order: a count, then the values."""
    kinds = {storage[2]: _DTYPES[storage[1]] for storage, *_ in tensors.values()}
    for key in order:
        (count,) = struct.unpack_from("<q", data, at)
        if count < 0:
            raise ValueError(f"a storage has {count} values")
        yield key, np.frombuffer(data, kinds[key], count, at + 8)
        at += 8 + count * kinds[key].itemsize


def _tensor(
    storages: dict[str, np.ndarray],
    storage: Any,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> np.ndarray:
    values = storages[storage[2]]
    size = values.itemsize
    # NumPy raises a ValueError if the shape and the strides lead outside the storage.
    return np.ndarray(shape, values.dtype, values, offset * size, tuple(size * step for step in strides))
