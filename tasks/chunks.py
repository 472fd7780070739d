"""Content-defined chunks: runs of items whose bounds move little when items come and go."""

import hashlib
from collections.abc import Iterator, Sequence

MEAN_ITEMS = 256
MAX_ITEMS = 1024


def split_items(ids: Sequence[str]) -> Iterator[range]:
    """Cut a sequence of ids into consecutive ranges.

    A range ends after an id whose own hash says so (one in `MEAN_ITEMS`), or at `MAX_ITEMS`. So an
    item added or removed changes the range it falls in, and at most splits or joins its neighbour.
    """
    start = 0
    for position, name in enumerate(ids, start=1):
        if position - start == MAX_ITEMS or _ends_chunk(name):
            yield range(start, position)
            start = position
    if start < len(ids):
        yield range(start, len(ids))


def _ends_chunk(name: str) -> bool:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=4).digest()
    return int.from_bytes(digest, "little") % MEAN_ITEMS == 0
