"""Sparse features: `<name>_X.npz` (a SciPy matrix) and `<name>_labels.parquet` in the same row order."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from storage.errors import SourceError
from storage.limits import ITEM_BYTES, check_memory
from storage.npz import ClaimedArray, inspect_npz
from storage.quoting import shorten
from storage.sources.array_files import is_sparse
from storage.sources.base import (
    FEATURE_PARTS,
    Collection,
    FileReader,
    Match,
    Note,
    PartName,
    SourceOptions,
    choose_label_file,
    combine_digests,
    given_features,
)
from storage.sources.columns import TABLE_SUFFIXES
from storage.sources.labeling import Labeling, no_labels, settle_labels
from storage.sources.listing import digest_files, index_path
from storage.sources.table_labels import join_labels, read_label_table

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MATRIX_SUFFIX = "_X"
LABELS_SUFFIX = "_labels"


def set_name(path: Path) -> str:
    """Name of the data set of a matrix or label table."""
    return path.stem.removesuffix(MATRIX_SUFFIX).removesuffix(LABELS_SUFFIX)


def find_labels(matrix: Path) -> Path | None:
    """Find the label table beside a matrix."""
    candidates = [matrix.with_name(f"{set_name(matrix)}{LABELS_SUFFIX}{suffix}") for suffix in _SUFFIXES]
    return next((path for path in candidates if path.is_file()), None)


def find_matrix(labels: Path) -> Path | None:
    """Find the matrix beside a label table."""
    if not labels.stem.endswith(LABELS_SUFFIX):
        return None
    candidates = [labels.with_name(f"{set_name(labels)}{end}.npz") for end in (MATRIX_SUFFIX, "")]
    return next((path for path in candidates if path.is_file()), None)


_SUFFIXES = (".parquet", *(suffix for suffix in TABLE_SUFFIXES if suffix != ".parquet"))
# Errors of zipfile, zlib, NumPy and SciPy for a file with a flipped byte.
_DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    EOFError,
    OverflowError,
    RuntimeError,
    MemoryError,
    BadZipFile,
    zlib.error,
)


def load_matrix(path: Path) -> csr_array:
    """Load a sparse matrix as canonical CSR of float32. Nothing is unpickled."""
    from scipy import sparse

    try:
        with path.open("rb") as file:  # NumPy leaves a damaged archive open
            _check_claims(inspect_npz(file), path)
            file.seek(0)
            X = sparse.csr_array(sparse.load_npz(file))
        X.check_format(full_check=True)
    except _DAMAGE as error:
        raise SourceError(
            f"{path} contains no SciPy sparse matrix ({type(error).__name__}: {shorten(str(error))}). "
            "Write it with scipy.sparse.save_npz."
        ) from error
    if X.dtype.kind not in "biuf":
        raise SourceError(f"{path} contains {X.dtype} values; expected real numbers. Convert them.")
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    X.sum_duplicates()
    X.eliminate_zeros()
    _check_finite(X, path)
    return X


def _check_claims(arrays: dict[str, ClaimedArray], path: Path) -> None:
    """Refuse a matrix whose arrays or shape need too much memory."""
    shape = arrays["shape"].small if "shape" in arrays else None
    if shape is None or shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise ValueError("there is no array `shape` of two integers")
    rows, columns = map(int, shape)
    stored = sum(array.bytes for array in arrays.values())
    # The arrays as stored, as CSR of float32 and once more while duplicates are added; 16 bytes per column
    # for statistics of the features.
    needed = 3 * stored + rows * ITEM_BYTES + columns * 16
    check_memory(needed, f"{path}: a matrix of {rows:,} x {columns:,}", path.stat().st_size)


def _check_finite(X: csr_array, path: Path) -> None:
    bad = ~np.isfinite(X.data)
    if bad.any():
        position = int(np.argmax(bad))
        row = int(np.searchsorted(X.indptr, position, side="right"))
        raise SourceError(
            f"{path}, row {row}, column {int(X.indices[position])}: {X.data[position]:g} "
            f"({int(bad.sum())} such cells). Fill or drop them."
        )


def digest_sparse_rows(X: csr_array) -> list[str]:
    """Digest of the columns and values of each row."""
    digests = []
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        state = hashlib.blake2b(X.indices[start:stop].astype(np.int64).tobytes(), digest_size=16)
        state.update(X.data[start:stop].tobytes())
        digests.append(state.hexdigest())
    return digests


@dataclass(frozen=True)
class SparseSource:
    """A sparse matrix of features and its label table, which may be None if no labels are wanted."""

    path: Path
    labels_path: Path | None
    options: SourceOptions
    kind: str = "sparse"
    parts: tuple[PartName, ...] = FEATURE_PARTS

    @property
    def name(self) -> str:
        return set_name(self.path)

    def digest(self, cache_dir: Path) -> str:
        files = [path for path in (self.path, self.labels_path) if path is not None]
        return combine_digests(["sparse", *digest_files(files, index_path(cache_dir, self.path))])

    def read(self, cache_dir: Path) -> Collection:
        """Read the matrix and its labels."""
        X = load_matrix(self.path)
        if self.labels_path is None:
            return self._collect(
                X, [str(row) for row in range(X.shape[0])], no_labels(X.shape[0]), None, [], {}
            )
        found = read_label_table(self.labels_path, self.options)
        joined, _ = join_labels(found, None, X.shape[0], self.path, self.options)
        labeling, notes = settle_labels(joined.labeling, self.options, self.labels_path.name)
        ids = found.ids or [str(row) for row in range(X.shape[0])]
        return self._collect(X, ids, labeling, found.split, [*notes, *found.notes], found.recognized)

    def _collect(
        self,
        X: csr_array,
        ids: list[str],
        labeling: Labeling,
        split: list[str] | None,
        notes: list[Note],
        recognized: dict[str, str],
    ) -> Collection:
        return Collection(
            kind=self.kind,
            ids=ids,
            parts=given_features(X, digest_sparse_rows(X), None),
            labels=labeling.Y,
            label_names=labeling.names,
            split=split,
            single_label=labeling.single_label,
            notes=notes,
            recognized=recognized,
        )


class SparseReader(FileReader):
    """Opens sparse matrices with their label tables."""

    kind = "sparse"
    supports = "a sparse .npz with *_labels.parquet beside it"

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """An .npz file, or the label table of one."""
        if not path.is_file():
            return Match.NO
        if path.suffix.lower() == ".npz":
            if not is_sparse(path):
                return Match.NO
            return Match.DATA_SET if find_labels(path) else Match.POSSIBLE
        return Match.POSSIBLE if path.suffix.lower() in _SUFFIXES and find_matrix(path) else Match.NO

    def open(self, path: Path, options: SourceOptions) -> SparseSource:
        """Open a matrix with its label table; either of the two may be given."""
        matrix = path if path.suffix.lower() == ".npz" else find_matrix(path)
        if matrix is None:
            raise SourceError(
                f"{path} is not an .npz file and has no <name>_X.npz beside it. Give the matrix."
            )
        expected = f"{set_name(matrix)}{LABELS_SUFFIX}.parquet"
        return SparseSource(
            matrix, choose_label_file(options, matrix, find_labels(matrix), expected), options
        )
