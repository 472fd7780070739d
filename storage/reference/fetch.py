"""Download public copies of data sets from OpenML or a URL, and verify their content before writing them."""

import hashlib
import warnings
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.artifacts.disk import store_errors
from storage.errors import ServiceDown, SourceError
from storage.exports import write_npz, write_parquet
from storage.permissions import make_users_folder
from storage.reference.sets import DATA_VARIABLE, ReferenceSet
from storage.sources.sparse_text import LABELS_SUFFIX, digest_sparse_rows, set_name

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CLASS = "class"
_CHOSEN_BY = f"--data or {DATA_VARIABLE}"


@dataclass(frozen=True, eq=False)
class PublicTable:
    """The content of a public copy.

    Attributes
    ----------
    X : (n, p) array or CSR
    labels : mapping
        `label:<name>` to 0 or 1, or `class` to one value per row.
    split : (n,) array or None
        "train" or "test".
    """

    X: "np.ndarray | csr_array"
    labels: dict[str, np.ndarray]
    split: np.ndarray | None = None


def fetch_set(wanted: ReferenceSet, folder: Path) -> str:
    """Download a set to the path where experiments expect it; return a message that names the path.

    Raises
    ------
    ServiceDown
        The server does not answer.
    SourceError
        The download is incomplete, or not the data that the published results were computed from.
    StoreError
        The files cannot be written.
    """
    table = _read_copy(wanted)
    if content_digest(table.X, table.labels) != wanted.content:
        raise SourceError(
            f"{wanted.copy} is not the data set that the published results were computed from "
            f"({wanted.origin}); nothing was written."
        )
    return f"written to {_write(table, folder / wanted.path)}"


def _read_copy(wanted: ReferenceSet) -> PublicTable:
    if wanted.addresses:
        from storage.reference.fetch_files import read_addresses

        return read_addresses(wanted)
    return _read_openml(wanted)


def _write(table: PublicTable, file: Path) -> Path:
    """Write dense features and labels as one table, or a sparse matrix with a label table beside it."""
    import pyarrow as pa

    with store_errors(file.parent, _CHOSEN_BY):
        make_users_folder(file.parent)
    columns: dict[str, np.ndarray] = {}
    place = file
    if isinstance(table.X, np.ndarray):
        columns = {f"f{j}": np.ascontiguousarray(table.X[:, j]) for j in range(table.X.shape[1])}
    else:
        place = file.with_name(f"{set_name(file)}{LABELS_SUFFIX}.parquet")
    split = {} if table.split is None else {"split": table.split}
    write_parquet(pa.table({**columns, **table.labels, **split}), place, _CHOSEN_BY)
    # Write the matrix last: its presence marks the set as complete.
    return file if isinstance(table.X, np.ndarray) else write_npz(table.X, file, _CHOSEN_BY)


def content_digest(X: "np.ndarray | csr_array", labels: dict[str, np.ndarray]) -> str:
    """Digest of the feature rows, and of which rows share a label or class.

    It does not depend on the order of the rows or on the names of labels and classes: copies differ in both.
    """
    if isinstance(X, np.ndarray):
        rows = [row.tobytes() for row in np.ascontiguousarray(X, dtype=np.float32) + np.float32(0)]
    else:
        rows = [digest.encode() for digest in digest_sparse_rows(X.astype(np.float32))]
    groups = [_digest_rows(rows)]
    for name, column in labels.items():
        values = np.unique(column) if name == CLASS else [1]
        groups += [_digest_rows(rows[row] for row in np.flatnonzero(column == value)) for value in values]
    return hashlib.sha256(b"".join([groups[0], *sorted(groups[1:])])).hexdigest()


def _digest_rows(rows: Iterable[bytes]) -> bytes:
    return hashlib.sha256(b"".join(sorted(rows))).digest()


def _read_openml(wanted: ReferenceSet) -> PublicTable:
    from sklearn.datasets import fetch_openml

    name, version = wanted.openml["name"], wanted.openml["version"]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="A network error occurred")  # reported below
            # Without a cache on disk, every OSError is a network error.
            bunch = fetch_openml(
                name, version=version, as_frame=False, parser="liac-arff", n_retries=1, cache=False
            )
    except OSError as error:
        raise ServiceDown(
            f"OpenML does not answer ({error}). Check the network connection, or put the files into the data "
            f"folder yourself, for instance {wanted.path} ({wanted.origin})."
        ) from error
    except (HTTPException, EOFError, zlib.error) as error:
        raise SourceError(
            f"the download of {name} from OpenML is incomplete ({error!r}); nothing was written. "
            "Try again later."
        ) from error
    except ValueError as error:
        raise SourceError(f"OpenML has no version {version} of {name} ({error}).") from error
    return _as_table(_numbers(bunch), bunch.target, wanted.openml)


def _numbers(bunch: Any) -> np.ndarray:
    """Features (n, p); nominal attributes whose values are all numeric become these numbers."""
    X = np.array(bunch.data, dtype=float)
    for name, values in (getattr(bunch, "categories", None) or {}).items():
        if name in bunch.feature_names and all(_is_number(value) for value in values):
            column = X[:, bunch.feature_names.index(name)]
            known = ~np.isnan(column)
            column[known] = np.array([float(value) for value in values])[column[known].astype(int)]
    return X


def _is_number(text: Any) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except (TypeError, ValueError):
        return False


def _as_table(X: np.ndarray, target: Any, recipe: Mapping[str, Any]) -> PublicTable:
    """Features and classes as the experiments use them."""
    if recipe.get("terciles"):
        values = np.asarray(target, dtype=float)
        target = np.searchsorted(np.quantile(values, (1 / 3, 2 / 3)), values)
    keep = ~np.isnan(X).any(axis=1) if recipe.get("drop_incomplete") else np.ones(len(X), dtype=bool)
    return PublicTable(X[keep], {CLASS: np.asarray(target).astype(str)[keep]})
