"""Read what an .npz archive or .npy file claims to contain, before its arrays are loaded."""

from __future__ import annotations

import math
import zipfile
from dataclasses import dataclass
from tokenize import TokenError
from typing import IO, Any

import numpy as np

# Arrays that are read at once: the shape and the format of a sparse matrix.
_SMALL_BYTES = 1024


@dataclass(frozen=True, eq=False)
class ClaimedArray:
    """Header of an array in an archive: its shape, type and size; `small` is its content if it is small."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bytes: int
    small: np.ndarray | None


def inspect_npz(file: IO[bytes]) -> dict[str, ClaimedArray]:
    """Read the headers of all arrays; little memory is used, whatever the file claims.

    Raises
    ------
    ValueError, OSError, zipfile.BadZipFile, zlib.error and others
        The file is not an archive of arrays, or an array has another size than its header says.
    """
    found = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                found[member.filename.removesuffix(".npy")] = read_claim(stream, member.file_size)
    return found


def read_claim(stream: IO[bytes], size: int) -> ClaimedArray:
    """Read the header of an array file of some size, alone or the member of an archive."""
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(stream)
    if version not in read:
        raise ValueError(f"an array has the unknown version {version}")
    try:
        shape, _, dtype = read[version](stream)
    except (SyntaxError, TokenError) as error:  # NumPy parses the header as Python text
        raise ValueError("the header of an array is damaged") from error
    count = math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise ValueError("it contains Python objects, which are not loaded")
    if min(shape, default=0) < 0 or count != size - stream.tell():
        raise ValueError(f"an array of shape {shape} and type {dtype} has {size} bytes")
    small = None
    if count <= _SMALL_BYTES:
        content = stream.read(count)
        small = np.frombuffer(content, dtype).reshape(shape) if dtype.itemsize else np.empty(shape, dtype)
    return ClaimedArray(shape, dtype, count, small)
