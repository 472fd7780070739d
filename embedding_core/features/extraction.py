"""Features of many image files, by several threads, with memory for a few of them at a time."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from stat import S_ISREG

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features.color_moments import ColorMoments
from embedding_core.features.images import UnreadableImage

Extracted = tuple[int, np.ndarray | None, str | None]

MAX_FILE_BYTES = 512 * 2**20
# Files handed to a thread at once, so that small images do not wait for the hand-over.
_CHUNK = 8


def extract_file(path: Path, moments: ColorMoments) -> np.ndarray:
    """Features of one file; raises `UnreadableImage` whatever is wrong with it."""
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            raise UnreadableImage("not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise UnreadableImage(
                f"the file has {status.st_size} bytes (limit {MAX_FILE_BYTES}); scale the image down"
            )
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableImage(f"the file cannot be read ({error.strerror or error})") from error
    return moments.extract_bytes(data)


def extract_many(
    paths: Sequence[Path],
    moments: ColorMoments,
    workers: int,
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Extracted]:
    """Features of many files, one after the other in the order given.

    Parameters
    ----------
    paths : sequence of Path
    moments : ColorMoments
    workers : int
        Threads that read and decode. Decoding and the kernels leave the interpreter's lock free.
    on_done : callable, optional
        Called in the consumer's thread with the number of files done so far, after each file.

    Yields
    ------
    (int, float32 array or None, str or None)
        The file's index, and either its features or the reason why it has none.

    Notes
    -----
    Threads run ahead of the consumer by a fixed number of files, so that memory depends on `workers`
    and the size of one image, not on the number of files. Closing the iterator stops them.
    """
    if workers < 1:
        raise InvalidInput(f"workers={workers} is not positive; give 1 or more threads.")
    moments.warm_up()
    for index, (features, error) in enumerate(_results(paths, moments, workers)):
        if on_done is not None:
            on_done(index + 1)
        yield index, features, error


_Result = tuple[np.ndarray | None, str | None]


def _results(paths: Sequence[Path], moments: ColorMoments, workers: int) -> Iterator[_Result]:
    if workers == 1:
        for path in paths:
            yield _extract_or_reason(path, moments)
        return
    chunks = (paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK))
    pool = ThreadPoolExecutor(workers, thread_name_prefix="features")
    pending: deque[Future[list[_Result]]] = deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(_extract_chunk, chunk, moments))
            if len(pending) > 2 * workers:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _extract_chunk(paths: Sequence[Path], moments: ColorMoments) -> list[_Result]:
    return [_extract_or_reason(path, moments) for path in paths]


def _extract_or_reason(path: Path, moments: ColorMoments) -> _Result:
    try:
        return extract_file(path, moments), None
    except UnreadableImage as error:
        return None, str(error)
