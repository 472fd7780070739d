"""Content-defined chunks: runs of items whose bounds move little when items come and go."""

from collections.abc import Iterator, Sequence
from zlib import crc32

# The features of the items of one chunk.
PART_STAGE = "features_part"
MEAN_ITEMS = 256
MAX_ITEMS = 1024


def split_items(ids: Sequence[str]) -> Iterator[range]:
    """Cut a sequence of ids into consecutive ranges.

    A range ends after an id whose own hash says so (one in `MEAN_ITEMS`), or at `MAX_ITEMS`. So an
    item added or removed changes the range it falls in, and at most splits or joins its neighbor.
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
