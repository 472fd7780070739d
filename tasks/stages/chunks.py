"""Content-defined chunks: ranges of items whose bounds are stable when items are added or removed."""

from collections.abc import Iterator, Sequence
from zlib import crc32

# Stage name of the features of one chunk.
PART_STAGE = "features_part"
MEAN_ITEMS = 256
MAX_ITEMS = 1024


def split_items(ids: Sequence[str]) -> Iterator[range]:
    """Cut a sequence of ids into consecutive ranges.

    A range ends after an id whose hash is divisible by `MEAN_ITEMS`, or after `MAX_ITEMS` items. An added or
    removed item therefore changes only its own range, or splits or joins one neighbor.
    """
    start = 0
    for position, name in enumerate(ids, start=1):
        if position - start == MAX_ITEMS or _ends_chunk(name):
            yield range(start, position)
            start = position
    if start < len(ids):
        yield range(start, len(ids))


def _ends_chunk(name: str) -> bool:
    return crc32(name.encode("utf-8", "surrogateescape")) % MEAN_ITEMS == 0
