"""How many threads, and blocks of rows by several of them."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

BLOCK_PAIRS = 2**18
"""Pairs of rows that a thread works on at a time: few enough for the cache, enough to be worth the call."""


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_row_blocks(n: int, m: int, work: Callable[[slice], None], threads: int | None = None) -> None:
    """Call `work` with slices that cut n rows into blocks of some `BLOCK_PAIRS` pairs with m others.

    `threads` is one a core where not given. An error of `work` is raised when the calls before it are done.
    """
    size = max(1, BLOCK_PAIRS // max(m, 1))
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    workers = min(threads or count_cores(), len(blocks))
    if workers < 2:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="kernel") as pool:
        for _ in pool.map(work, blocks):
            pass
