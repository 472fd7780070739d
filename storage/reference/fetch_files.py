"""Download published MATLAB, ARFF or HDF5 files and read them into one table."""

import math
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import numpy as np

from storage.artifacts.disk import store_errors
from storage.errors import ServiceDown, SourceError, StoreError
from storage.limits import GIGABYTE, check_memory
from storage.reference.fetch import CLASS, PublicTable
from storage.reference.sets import ReferenceSet
from storage.sources.arff import feature_matrix, read_multi_labels
from storage.sources.arff_text import parse_arff

_SECONDS = 60.0
_PIECE = 1 << 20
_HDF5 = ".h5"
_TEMPORARY_BY = "TMPDIR"
# The largest of the published files has 60 MB.
_LARGEST = GIGABYTE
_PARTS = ("train", "test")


def read_addresses(wanted: ReferenceSet) -> PublicTable:
    """Download the files of a set; two files are its training part and its test part."""
    suffixes = [Path(urlsplit(address).path).suffix for address in wanted.addresses]
    if _HDF5 in suffixes:
        _load_h5py()  # fail before the download if h5py is missing
    tables = []
    with _temporary_folder() as folder:
        for number, (address, suffix) in enumerate(zip(wanted.addresses, suffixes, strict=True)):
            file = Path(folder) / f"{number}{suffix}"
            _download(address, file, wanted)
            tables.append(_read_file(file, address, wanted.reading))
    return _stack(tables) if len(tables) > 1 else tables[0]


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory()
    except OSError as error:
        raise StoreError(
            f"No room for a temporary file ({error.strerror}); free some space, or choose another temporary "
            f"folder with {_TEMPORARY_BY}, and run again."
        ) from error


def _download(address: str, file: Path, wanted: ReferenceSet) -> None:
    """Write the content of a URL to a file. `_ask` translates network errors; others come from the disk."""
    with store_errors(file, _TEMPORARY_BY), file.open("wb") as kept:
        for piece in _ask(address, wanted):
            kept.write(piece)


def _ask(address: str, wanted: ReferenceSet) -> Iterator[bytes]:
    """Yield the content of a URL in pieces."""
    try:
        # S310: addresses come from sets.toml alone.
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:  # noqa: S310
            received = 0
            while piece := answer.read(_PIECE):
                received += len(piece)
                if received > _LARGEST:
                    raise SourceError(
                        f"{address} sends more than {_LARGEST:,} bytes, which is not the published file; "
                        f"nothing was written. Try again later, {_by_hand(wanted)}"
                    )
                yield piece
    except HTTPError as error:
        raise SourceError(
            f"{address} answers {error.code} {error.reason}. Try again later, {_by_hand(wanted)}"
        ) from error
    except HTTPException as error:
        raise SourceError(
            f"the download of {address} is incomplete ({error!r}). Try again later, {_by_hand(wanted)}"
        ) from error
    except OSError as error:
        host = urlsplit(address).netloc
        raise ServiceDown(
            f"{host} does not answer ({error}). Check the network connection, {_by_hand(wanted)}"
        ) from error


def _by_hand(wanted: ReferenceSet) -> str:
    return f"or put the file into the data folder yourself, as {wanted.path} ({wanted.origin})."


def _read_file(file: Path, address: str, reading: Mapping[str, Any]) -> PublicTable:
    reader = READERS[file.suffix]
    try:
        return reader(file, reading)
    except (ValueError, KeyError, TypeError, IndexError, OSError, NotImplementedError, zlib.error) as error:
        raise SourceError(f"{address} cannot be read ({error}); nothing was written.") from error
    except SourceError as error:  # it names the temporary file
        raise SourceError(f"{str(error).replace(str(file), address)} Nothing was written.") from error


def _read_matlab(file: Path, reading: Mapping[str, Any]) -> PublicTable:
    """`fea` (n, p), dense or sparse, and `gnd` (n, 1)."""
    from scipy import io, sparse

    try:
        for name, shape, kind in io.whosmat(file):
            if name in ("fea", "gnd") and kind != "sparse":
                check_memory(2 * 8 * math.prod(shape), f"{file}: {name}", file.stat().st_size)
        held = io.loadmat(file, variable_names=("fea", "gnd"), spmatrix=False)
    except io.matlab.MatReadError as error:
        raise ValueError(f"not a MATLAB file: {error}") from error
    X: Any = held["fea"]
    if sparse.issparse(X):
        X.check_format()  # the conversion does not check the indices; damaged ones would crash the process
        X = sparse.csr_array(X)
        X.sum_duplicates()
    return PublicTable(X, {CLASS: np.asarray(held["gnd"]).ravel().astype(np.int16)})


def _read_arff(file: Path, reading: Mapping[str, Any]) -> PublicTable:
    """The last `labels` attributes are labels."""
    data = parse_arff(file)
    first = len(data.attributes) - reading["labels"]
    names = [attribute.name for attribute in data.attributes[first:]]
    labeling = read_multi_labels(data, names, file, file)
    X, _ = feature_matrix(data, list(range(first)), file)
    return PublicTable(X, {f"label:{name}": labeling.Y[:, k] for k, name in enumerate(labeling.names)})


def _read_hdf5(file: Path, reading: Mapping[str, Any]) -> PublicTable:
    """Groups `train` and `test`, each with `data` and `target`; values are scaled to `range` and rounded."""
    h5py = _load_h5py()
    low, high = reading["range"]
    with h5py.File(file) as held:
        claimed = sum(held[part]["data"].nbytes for part in _PARTS)
        check_memory(4 * claimed, f"{file}: the data", file.stat().st_size)
        parts = [(np.asarray(held[part]["data"]), np.asarray(held[part]["target"])) for part in _PARTS]
    tables = []
    for data, target in parts:
        X = np.round(low + (high - low) * data.astype(float), reading["decimals"]).astype(np.float32)
        tables.append(PublicTable(X, {CLASS: target.ravel().astype(np.int16)}))
    return _stack(tables)


def _load_h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise SourceError("HDF5 files need h5py; install it with pip install 'labelscape[fetch]'.") from error
    return h5py


def _stack(tables: list[PublicTable]) -> PublicTable:
    from scipy import sparse

    parts: list[Any] = [table.X for table in tables]
    X = np.vstack(parts) if isinstance(parts[0], np.ndarray) else sparse.vstack(parts, format="csr")
    labels = {name: np.concatenate([table.labels[name] for table in tables]) for name in tables[0].labels}
    sizes = [table.X.shape[0] for table in tables]
    return PublicTable(X, labels, np.repeat(_PARTS, sizes))


READERS: dict[str, Callable[[Path, Mapping[str, Any]], PublicTable]] = {
    ".mat": _read_matlab,
    ".arff": _read_arff,
    _HDF5: _read_hdf5,
}
