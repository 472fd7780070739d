"""Arrays of .npy and .npz files: what they claim to contain, and their values. Nothing is unpickled."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np

from storage.artifacts.regular_files import open_regular
from storage.errors import SourceError
from storage.npz import ClaimedArray, inspect_npz, read_claim
from storage.quoting import list_names, shorten
from storage.sources.base import SourceOptions
from storage.sources.columns import cell_text
from storage.sources.labeling import Labeling, label_classes
from storage.sources.roles import match_names
from storage.sources.table_labels import check_classes
from storage.sources.vectors import check_vectors

LABEL_ARRAYS = ("y", "Y", "labels", "label", "target", "targets", "classes")
# Members of a sparse matrix of SciPy, which another reader opens.
_SPARSE = {"format", "indptr", "indices"}
_DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, OverflowError, RuntimeError, NotImplementedError),
    *(MemoryError, SyntaxError, BadZipFile, zlib.error),
)


def inspect_arrays(path: Path) -> dict[str, ClaimedArray]:
    """Headers of the arrays in a file; the array of an .npy file has the name "X"."""
    try:
        with open_regular(path) as file:
            if path.suffix.lower() == ".npz":
                return inspect_npz(file)
            return {"X": read_claim(file, path.stat().st_size)}
    except _DAMAGE as error:
        raise SourceError(
            f"{path} contains no readable arrays ({type(error).__name__}: {shorten(str(error))}). "
            "Write it with numpy.save or numpy.savez; arrays of Python objects are not loaded."
        ) from error


def is_sparse(path: Path) -> bool:
    """Whether an .npz file contains a sparse matrix, or is no archive: the reader of those reports that."""
    try:
        with open_regular(path) as file, ZipFile(file) as archive:
            return any(name.removesuffix(".npy") in _SPARSE for name in archive.namelist())
    except _DAMAGE:
        return True


def describe_arrays(claims: Mapping[str, ClaimedArray]) -> str:
    """Names and shapes of arrays for a message."""
    return list_names(f"{name} {one.shape}" for name, one in claims.items())


def feature_arrays(claims: Mapping[str, ClaimedArray], path: Path, options: SourceOptions) -> list[str]:
    """Names of the arrays of features: those of `source.features`, else all of two dimensions but labels."""
    usable = [name for name, one in claims.items() if len(one.shape) == 2]
    if options.features:
        return match_names(options.features, usable, path, "source.features", what="array (items, features)")
    found = [name for name in usable if name not in (*LABEL_ARRAYS, options.labels)]
    if found:
        return found
    raise SourceError(
        f"{path} has no array of shape (items, features), but {describe_arrays(claims) or 'no array'}. Save "
        "one row per item; reshape arrays with more dimensions."
    )


def find_label_array(
    claims: Mapping[str, ClaimedArray] | Mapping[str, np.ndarray], options: SourceOptions
) -> str | None:
    """The array with labels in an archive: the one that `source.labels` names, or one with a usual name."""
    names = [options.labels] if options.labels is not None else LABEL_ARRAYS
    return next((name for name in names if name in claims), None)


def load_arrays(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Load some arrays. Nothing is unpickled."""
    try:
        with open_regular(path) as file:
            if path.suffix.lower() == ".npy":
                return {"X": np.lib.format.read_array(file, allow_pickle=False)}
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in names}
    except _DAMAGE as error:
        raise SourceError(
            f"{path} is damaged ({type(error).__name__}: {shorten(str(error))}). Write it again."
        ) from error


def to_float32(array: np.ndarray, where: str, allow_missing: bool) -> np.ndarray:
    """An array of features as float32; SourceError unless it contains finite numbers."""
    if array.dtype.kind not in "biuf":
        raise SourceError(f"{where} contains {array.dtype} values; expected real numbers. Convert them.")
    with np.errstate(over="ignore"):
        X = np.ascontiguousarray(array, dtype=np.float32)
    check_vectors(X, np.ones(len(X), dtype=bool), where, allow_missing)
    return X


def text_array(array: np.ndarray, where: str) -> list[str | None]:
    """The values of an array of numbers or texts as texts."""
    if array.dtype.kind not in "biufUS":
        raise SourceError(f"{where} contains {array.dtype} values; expected numbers or texts.")
    return [cell_text(value) for value in array.tolist()]


def label_array(array: np.ndarray, names: list[str] | None, where: str) -> Labeling:
    """Labels of an array: one class per item, or a matrix (n, K) of 0/1; rows of -1 are unlabeled."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 1:
        texts = text_array(array, where)
        check_classes(texts, where)
        return label_classes(texts)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not np.isin(array, (-1, 0, 1)).all():
        raise SourceError(
            f"{where} has the shape {array.shape} and type {array.dtype}; expected one class per item, or a "
            "matrix of 0 and 1 with one column per label."
        )
    Y = array.astype(np.int8)
    mixed = (Y < 0).any(axis=1) & ~(Y < 0).all(axis=1)
    if mixed.any():
        raise SourceError(
            f"{where}, row {int(np.argmax(mixed)) + 1}: -1 marks an unlabeled item; set the whole row to -1."
        )
    known = names if names is not None and len(names) == Y.shape[1] else list(map(str, range(Y.shape[1])))
    return Labeling(Y, known, single_label=False)
