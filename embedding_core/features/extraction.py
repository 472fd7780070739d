"""Features of many image files, with memory for a few of them at a time."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features.color_moments import ColorMoments
from embedding_core.features.images import UnreadableImage

_Result = tuple[np.ndarray | None, str | None]
_File = tuple[Path, str | None]
MapChunks = Callable[[Callable[[Sequence[_File]], list[_Result]], Iterable[Sequence[_File]]], Iterable[Any]]
Extracted = tuple[int, np.ndarray | None, str | None]

MAX_FILE_BYTES = 512 * 2**20
# Files of one job, so that small images do not wait for the hand-over.
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
    map_chunks: MapChunks = map,
    on_done: Callable[[int], None] | None = None,
    digests: Sequence[str] | None = None,
) -> Iterator[Extracted]:
    """Features of many files, one after the other in the order given.

    Parameters
    ----------
    paths : sequence of Path
    moments : ColorMoments
    map_chunks : callable
        Applies a function to chunks of files and yields the results in order, as the built-in `map` does.
        Several threads may do it: decoding and the kernels release the interpreter's lock.
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
    Chunks are made one after another, so that a lazy `map_chunks` bounds the memory.
    """
    if len(paths) <= _FEW:
        moments, map_chunks = replace(moments, compiled=False), map
    else:
        moments.warm_up()
    files = list(zip(paths, [None] * len(paths) if digests is None else digests, strict=True))
    chunks = (files[start : start + _CHUNK] for start in range(0, len(files), _CHUNK))
    index = 0
    for results in map_chunks(partial(_extract_chunk, moments=moments), chunks):
        for features, error in results:
            index += 1
            if on_done is not None:
                on_done(index)
            yield index - 1, features, error


def _extract_chunk(files: Sequence[_File], moments: ColorMoments) -> list[_Result]:
    return [_extract_or_reason(file, moments) for file in files]


def _extract_or_reason(file: _File, moments: ColorMoments) -> _Result:
    path, digest = file
    try:
        return extract_file(path, moments, digest), None
    except UnreadableImage as error:
        return None, str(error)
