"""Number of available cores, and blocks of rows processed by several threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

BLOCK_PAIRS = 2**18
"""Pairs of rows per block: few enough to fit in the cache, enough to outweigh the cost of a call."""


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_row_blocks(n: int, m: int, work: Callable[[slice], None], threads: int | None = None) -> None:
    """Call `work` on slices that cut n rows into blocks of about `BLOCK_PAIRS` pairs with m other rows.

    Parameters
    ----------
    n, m : int
        Numbers of rows and of the rows they are paired with.
    work : callable
        Receives one slice at a time, possibly from several threads.
    threads : int, optional
        Number of threads; one per core if None.

    Notes
    -----
    An exception in `work` is raised after the earlier blocks have finished.
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
