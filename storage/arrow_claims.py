"""How much memory the record batches of an Arrow IPC stream need, before any of them is decompressed.

Each message has a small description (a FlatBuffers table) and a body. A compressed buffer starts with the
size that it claims to have. Only the fields that lead to these sizes are read.
"""

import struct
from typing import Any

# Numbers of the fields of Message, DictionaryBatch and RecordBatch.
_HEADER_TYPE, _HEADER, _DATA, _BUFFERS, _COMPRESSION = 1, 2, 1, 2, 3
# Types of the header of a message.
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
# Size of an entry of the list of buffers: offset and length.
_ENTRY = 16


def claimed_buffers(description: bytes, body: Any) -> int:
    """Bytes of all buffers of a message after decompression.

    Parameters
    ----------
    description : bytes
        The metadata of the message.
    body : buffer
        Its body, which need not be in memory: only the first bytes of each buffer are read.

    Raises
    ------
    ValueError
        The description is damaged.
    """
    try:
        return _claimed(description, memoryview(body))
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError("the description of a record batch is damaged") from error


def _claimed(data: bytes, body: memoryview) -> int:
    message = _read("<I", data, 0)
    kind, header = _field(data, message, _HEADER_TYPE), _field(data, message, _HEADER)
    if kind is None or header is None or data[kind] not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return 0
    batch = _follow(data, header)
    if data[kind] == _DICTIONARY_BATCH:
        inner = _field(data, batch, _DATA)
        if inner is None:
            return 0
        batch = _follow(data, inner)
    listed = _field(data, batch, _BUFFERS)
    if listed is None:
        return 0
    packed = _field(data, batch, _COMPRESSION) is not None
    start = _follow(data, listed)
    count = _read("<I", data, start)
    if count * _ENTRY > len(data):
        raise ValueError("the list of buffers is damaged")
    return sum(_size(data, start + 4 + k * _ENTRY, body, packed) for k in range(count))


def _size(data: bytes, at: int, body: memoryview, packed: bool) -> int:
    offset, length = struct.unpack_from("<qq", data, at)
    if offset < 0 or length < 0 or offset + length > len(body):
        raise ValueError("a buffer is outside its record batch")
    if not packed or length < 8:
        return int(length)
    (claimed,) = struct.unpack_from("<q", body, offset)
    return int(length) if claimed == -1 else max(int(claimed), 0)


def _read(layout: str, data: bytes, at: int) -> int:
    if at < 0:
        raise ValueError("a position is negative")
    return int(struct.unpack_from(layout, data, at)[0])


def _follow(data: bytes, at: int) -> int:
    return at + _read("<I", data, at)


def _field(data: bytes, table: int, number: int) -> int | None:
    """Position of a field of a FlatBuffers table; None if it is left out."""
    layout = table - _read("<i", data, table)
    entry = 4 + 2 * number
    if layout < 0 or entry + 2 > _read("<H", data, layout):
        return None
    offset = _read("<H", data, layout + entry)
    return table + offset if offset else None
