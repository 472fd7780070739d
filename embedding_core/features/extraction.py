"""Extract features of many files, with one function per file and any `map`."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from stat import S_ISREG

import numpy as np
from scipy.sparse import csr_array

from embedding_core.errors import InvalidInput, UnreadableItem
from embedding_core.features.base import FeatureExtractor

# The features of a file, or the reason why it has none.
Row = tuple[np.ndarray | csr_array | None, str | None]
# A path, or the content itself, and the digest of the content that is expected there, if known.
File = tuple[Path | bytes, str | None]
MapFiles = Callable[[Callable[[File], Row], Iterable[File]], Iterable[Row]]

MAX_FILE_BYTES = 512 * 2**20
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class FileChanged(InvalidInput):
    """The content of a file does not match its digest."""


def extract_file(
    path: Path | bytes, extractor: FeatureExtractor, digest: str | None = None
) -> np.ndarray | csr_array:
    """Extract the features of one file.

    Parameters
    ----------
    path : Path or bytes
        A file, or its content.
    extractor : FeatureExtractor
    digest : str, optional
        BLAKE2b digest (16 bytes, hexadecimal) of the expected content.

    Raises
    ------
    UnreadableItem
        The file cannot be decoded.
    FileChanged
        A digest is given, and the file cannot be read or has another content, or no file handle is left. This
        is not a property of the item, so the caller should retry instead of recording it.
    """
    return extractor.extract_bytes(read_content(path, digest))


def read_content(path: Path | bytes, digest: str | None = None) -> bytes:
    """Read a regular file and check its digest; given content is returned. Raises like `extract_file`."""
    if isinstance(path, bytes):
        return path
    data = _read_file(path, digest)
    if digest is not None and hashlib.blake2b(data, digest_size=16).hexdigest() != digest:
        raise FileChanged(f"{path} changed while it was being read; run again.")
    return data


def _read_file(path: Path, digest: str | None) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without waiting for the writer of a FIFO
        try:
            _check_status(os.fstat(descriptor))
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except OSError as error:
        reason = f"the file cannot be read ({error.strerror or error})"
        if digest is not None or error.errno in _EXHAUSTED:
            raise FileChanged(f"{path}: {reason}; run again when it is readable.") from error
        raise UnreadableItem(reason) from error


def _check_status(status: os.stat_result) -> None:
    if not S_ISREG(status.st_mode):
        raise UnreadableItem("not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        raise UnreadableItem(f"the file has {status.st_size} bytes (limit {MAX_FILE_BYTES}); make it smaller")


def extract_many(
    paths: Sequence[Path | bytes],
    extractor: FeatureExtractor,
    digests: Sequence[str] | None = None,
    map_files: MapFiles = map,
) -> Iterator[Row]:
    """Extract the features of many files, in the order given.

    Parameters
    ----------
    paths : sequence of Path or bytes
    extractor : FeatureExtractor
    digests : sequence of str, optional
        Expected content of the files, see `extract_file`.
    map_files : callable, default `map`
        Applies a function to every file and yields the results in order. Pass `ThreadPoolExecutor.map` to use
        several threads: decoding and the kernels release the GIL.

    Yields
    ------
    (float32 array, CSR array or None; str or None)
        The features of a file, or the reason why it has none.
    """
    extractor.warm_up(len(paths))
    files = zip(paths, [None] * len(paths) if digests is None else digests, strict=True)
    yield from map_files(partial(_extract_or_reason, extractor), files)


def _extract_or_reason(extractor: FeatureExtractor, file: File) -> Row:
    path, digest = file
    try:
        return extract_file(path, extractor, digest), None
    except UnreadableItem as error:
        return None, str(error)
