"""Features of many image files, by several threads, with memory for a few of them at a time."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
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
# Up to so many files the compiled kernel takes longer to load than it saves.
_FEW = 8


class FileChanged(InvalidInput):
    """A file that is not, or no longer, what it was when its digest was taken."""


def extract_file(path: Path, moments: ColorMoments, digest: str | None = None) -> np.ndarray:
    """Features of one file; raises `UnreadableImage` whatever is wrong with it.

    With `digest`, the BLAKE2b digest (16 bytes, hexadecimal) of the content that is meant, a file that
    cannot be read now or holds anything else raises `FileChanged`: that is no property of the image.
    """
    data = _read_file(path, digest)
    if digest is not None and hashlib.blake2b(data, digest_size=16).hexdigest() != digest:
        raise FileChanged(f"{path} changed while it was being read; run again.")
    return moments.extract_bytes(data)


def _read_file(path: Path, digest: str | None) -> bytes:
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            raise UnreadableImage("not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise UnreadableImage(
                f"the file has {status.st_size} bytes (limit {MAX_FILE_BYTES}); scale the image down"
            )
        return path.read_bytes()
    except OSError as error:
        reason = f"the file cannot be read ({error.strerror or error})"
        if digest is not None:
            raise FileChanged(f"{path}: {reason}; run again when it can.") from error
        raise UnreadableImage(reason) from error


def extract_many(
    paths: Sequence[Path],
    moments: ColorMoments,
    workers: int,
    on_done: Callable[[int], None] | None = None,
    digests: Sequence[str] | None = None,
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
    digests : sequence of str, optional
        What the files must hold, see `extract_file`.

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
    if len(paths) <= _FEW:
        moments, workers = replace(moments, compiled=False), 1
    else:
        moments.warm_up()
    files = list(zip(paths, [None] * len(paths) if digests is None else digests, strict=True))
    for index, (features, error) in enumerate(_results(files, moments, workers)):
        if on_done is not None:
            on_done(index + 1)
        yield index, features, error


_Result = tuple[np.ndarray | None, str | None]
_File = tuple[Path, str | None]


def _results(files: Sequence[_File], moments: ColorMoments, workers: int) -> Iterator[_Result]:
    if workers == 1:
        for file in files:
            yield _extract_or_reason(file, moments)
        return
    chunks = (files[start : start + _CHUNK] for start in range(0, len(files), _CHUNK))
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


def _extract_chunk(files: Sequence[_File], moments: ColorMoments) -> list[_Result]:
    return [_extract_or_reason(file, moments) for file in files]


def _extract_or_reason(file: _File, moments: ColorMoments) -> _Result:
    path, digest = file
    try:
        return extract_file(path, moments, digest), None
    except UnreadableImage as error:
        return None, str(error)
