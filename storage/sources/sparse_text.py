"""Sparse text: `<name>_X.npz` (a SciPy sparse matrix) and `<name>_labels.parquet` in the same row order."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from storage.errors import SourceError
from storage.sources.base import Collection, SourceOptions, combine_digests
from storage.sources.columns import CSV_SUFFIXES, column_names, read_columns
from storage.sources.labeling import settle_labels
from storage.sources.listing import digest_files, index_path
from storage.sources.table import LABEL_PREFIX, ignored_note, read_ids, read_labeling, read_split

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MATRIX_SUFFIX = "_X"
LABELS_SUFFIX = "_labels"


def set_name(path: Path) -> str:
    """Name of the set to which a matrix or a label table belongs."""
    return path.stem.removesuffix(MATRIX_SUFFIX).removesuffix(LABELS_SUFFIX)


def find_labels(matrix: Path) -> Path | None:
    """The table of labels beside a matrix."""
    candidates = [matrix.with_name(f"{set_name(matrix)}{LABELS_SUFFIX}{suffix}") for suffix in _SUFFIXES]
    return next((path for path in candidates if path.is_file()), None)


def find_matrix(labels: Path) -> Path | None:
    """The matrix beside a table of labels."""
    if not labels.stem.endswith(LABELS_SUFFIX):
        return None
    candidates = [labels.with_name(f"{set_name(labels)}{end}.npz") for end in (MATRIX_SUFFIX, "")]
    return next((path for path in candidates if path.is_file()), None)


_SUFFIXES = (".parquet", *CSV_SUFFIXES)
# What zipfile, zlib, NumPy and SciPy raise at one flipped byte or another.
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
    """A sparse matrix as canonical CSR of float32; nothing is unpickled."""
    from scipy import sparse

    try:
        with path.open("rb") as file:  # NumPy leaves a damaged archive open
            X = sparse.csr_array(sparse.load_npz(file))
        X.check_format(full_check=True)
    except _DAMAGE as error:
        raise SourceError(
            f"{path} holds no SciPy sparse matrix ({type(error).__name__}: {error}). "
            "Write it with scipy.sparse.save_npz."
        ) from error
    if X.dtype.kind not in "biuf":
        raise SourceError(f"{path} holds {X.dtype} values; real numbers are expected.")
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    X.sum_duplicates()
    X.eliminate_zeros()
    _check_finite(X, path)
    return X


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
    """Digest of each row's columns and values."""
    digests = []
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        state = hashlib.blake2b(X.indices[start:stop].astype(np.int64).tobytes(), digest_size=16)
        state.update(X.data[start:stop].tobytes())
        digests.append(state.hexdigest())
    return digests


@dataclass(frozen=True)
class SparseSource:
    """A sparse matrix of features and the table of its labels."""

    path: Path
    labels_path: Path
    options: SourceOptions
    kind: str = "sparse"

    @property
    def name(self) -> str:
        return set_name(self.path)

    def digest(self, cache_dir: Path) -> str:
        files = [self.path, self.labels_path]
        return combine_digests(["sparse", *digest_files(files, index_path(cache_dir, self.path))])

    def read(self, cache_dir: Path) -> Collection:
        """Read the matrix and its labels."""
        X = load_matrix(self.path)
        names = column_names(self.labels_path)
        table = read_columns(self.labels_path, _is_wanted, lambda name: name.startswith(LABEL_PREFIX))
        labeling = read_labeling(table, self.labels_path)
        if len(labeling.Y) != X.shape[0]:
            raise SourceError(
                f"{self.path} has {X.shape[0]} rows, {self.labels_path} has {len(labeling.Y)}. "
                "Both must list the same items in the same order."
            )
        labeling, notes = settle_labels(labeling, self.options, self.labels_path.name)
        return Collection(
            kind=self.kind,
            ids=read_ids(table, self.labels_path),
            digests=digest_sparse_rows(X),
            labels=labeling.Y,
            label_names=labeling.names,
            split=read_split(table),
            single_label=labeling.single_label,
            paths=None,
            X=X,
            feature_names=None,
            notes=[*notes, *ignored_note(self.labels_path, names, table.column_names)],
        )


def _is_wanted(name: str) -> bool:
    return name.startswith(LABEL_PREFIX) or name in ("class", "split", "id")
