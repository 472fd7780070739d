"""Data sets as others publish them: MATLAB, ARFF or HDF5 files behind an address, read into one table."""

import shutil
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import numpy as np

from storage.errors import ServiceDown, SourceError
from storage.fetch import CLASS, PublicTable
from storage.reference_sets import ReferenceSet
from storage.sources.arff import feature_matrix, read_multi_labels
from storage.sources.arff_text import parse_arff

_SECONDS = 60.0
_PARTS = ("train", "test")


def read_addresses(wanted: ReferenceSet) -> PublicTable:
    """Download the files of a set; the first of two is the training part, the second the test part."""
    with tempfile.TemporaryDirectory() as folder:
        tables = []
        for number, address in enumerate(wanted.addresses):
            file = Path(folder) / f"{number}{Path(urlsplit(address).path).suffix}"
            _download(address, file, wanted)
            tables.append(_read_file(file, address, wanted.reading))
    return _stack(tables) if len(tables) > 1 else tables[0]


def _download(address: str, file: Path, wanted: ReferenceSet) -> None:
    try:
        # S310: addresses come from reference_sets.toml alone.
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer, file.open("wb") as kept:  # noqa: S310
            shutil.copyfileobj(answer, kept)
    except HTTPError as error:
        raise SourceError(
            f"{address} answers {error.code} {error.reason}. Try again later, {_by_hand(wanted)}"
        ) from error
    except OSError as error:
        host = urlsplit(address).netloc
        raise ServiceDown(
            f"{host} does not answer ({error}). Try again with a network, {_by_hand(wanted)}"
        ) from error


def _by_hand(wanted: ReferenceSet) -> str:
    return f"or put the file at {wanted.path} of the data folder yourself ({wanted.origin})."


def _read_file(file: Path, address: str, reading: Mapping[str, Any]) -> PublicTable:
    reader = READERS[file.suffix]
    try:
        return reader(file, reading)
    except (ValueError, KeyError, TypeError, IndexError, OSError, NotImplementedError) as error:
        raise SourceError(f"{address} cannot be read ({error}); nothing was written.") from error


def _read_matlab(file: Path, reading: Mapping[str, Any]) -> PublicTable:
    """`fea` (n, p), dense or sparse, and `gnd` (n, 1)."""
    from scipy import io, sparse

    try:
        held = io.loadmat(file, variable_names=("fea", "gnd"))
    except io.matlab.MatReadError as error:
        raise ValueError(f"not a MATLAB file: {error}") from error
    X: Any = held["fea"]
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        X.sum_duplicates()
    return PublicTable(X, {CLASS: np.asarray(held["gnd"]).ravel().astype(np.int16)})


def _read_arff(file: Path, reading: Mapping[str, Any]) -> PublicTable:
    """The last `labels` attributes are labels."""
    data = parse_arff(file)
    first = len(data.attributes) - reading["labels"]
    names = [attribute.name for attribute in data.attributes[first:]]
    labelling = read_multi_labels(data, names, file, file)
    X, _ = feature_matrix(data, list(range(first)), file)
    return PublicTable(X, {f"label:{name}": labelling.Y[:, k] for k, name in enumerate(labelling.names)})


def _read_hdf5(file: Path, reading: Mapping[str, Any]) -> PublicTable:
    """Groups `train` and `test` of `data` and `target`; values are stretched to `range` and rounded."""
    try:
        import h5py
    except ImportError as error:
        raise SourceError("HDF5 files need h5py; install it with pip install 'labelscape[fetch]'.") from error
    low, high = reading["range"]
    with h5py.File(file) as held:
        parts = [(np.asarray(held[part]["data"]), np.asarray(held[part]["target"])) for part in _PARTS]
    tables = []
    for data, target in parts:
        X = np.round(low + (high - low) * data.astype(float), reading["decimals"]).astype(np.float32)
        tables.append(PublicTable(X, {CLASS: target.ravel().astype(np.int16)}))
    return _stack(tables)


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
    ".h5": _read_hdf5,
}
