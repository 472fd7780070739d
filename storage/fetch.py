"""Public copies of data sets, from OpenML or an address, checked by their content before they are kept."""

import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.errors import ServiceDown, SourceError
from storage.exports import write_npz, write_parquet
from storage.reference_sets import ReferenceSet
from storage.sources.sparse_text import LABELS_SUFFIX, digest_sparse_rows, set_name

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_TRUE = ("TRUE", "True", "true", "1", "1.0")


@dataclass(frozen=True, eq=False)
class PublicTable:
    """What a public copy holds.

    Attributes
    ----------
    X : (n, p) array or CSR
    labels : mapping
        `label:<name>` to 0 or 1, or `class` to one value a row.
    split : (n,) array or None
        "train" or "test".
    """

    X: "np.ndarray | csr_array"
    labels: dict[str, np.ndarray]
    split: np.ndarray | None = None


def fetch_set(wanted: ReferenceSet, folder: Path) -> str:
    """Get a set and put it where it is expected; says where.

    Raises
    ------
    ServiceDown
        There is no network.
    SourceError
        What came is not the set that the experiments were made with.
    """
    table = _read_copy(wanted)
    if content_digest(table.X, table.labels) != wanted.content:
        raise SourceError(
            f"what {wanted.copy} holds is not the set that the experiments were made with "
            f"({wanted.origin}); nothing was written."
        )
    return f"written to {_write(table, folder / wanted.path)}"


def _read_copy(wanted: ReferenceSet) -> PublicTable:
    if wanted.addresses:
        from storage.fetch_files import read_addresses

        return read_addresses(wanted)
    return _read_openml(wanted)


def _write(table: PublicTable, file: Path) -> Path:
    """Labels and dense features as one table, a sparse matrix beside its labels."""
    import pyarrow as pa

    file.parent.mkdir(parents=True, exist_ok=True)
    columns: dict[str, np.ndarray] = {}
    place = file
    if isinstance(table.X, np.ndarray):
        columns = {f"f{j}": np.ascontiguousarray(table.X[:, j]) for j in range(table.X.shape[1])}
    else:
        place = file.with_name(f"{set_name(file)}{LABELS_SUFFIX}.parquet")
    split = {} if table.split is None else {"split": table.split}
    write_parquet(pa.table({**columns, **table.labels, **split}), place)
    # The matrix last: it is the file by which a set is known to be there.
    return file if isinstance(table.X, np.ndarray) else write_npz(table.X, file)


def content_digest(X: "np.ndarray | csr_array", labels: dict[str, np.ndarray]) -> str:
    """Digest of the rows of features, in any order, and of how many rows each label or class has."""
    if isinstance(X, np.ndarray):
        rows = sorted(row.tobytes() for row in np.ascontiguousarray(X, dtype=np.float32) + np.float32(0))
    else:
        rows = sorted(digest.encode() for digest in digest_sparse_rows(X.astype(np.float32)))
    sizes = [size for column in labels.values() for size in np.unique(column, return_counts=True)[1].tolist()]
    return hashlib.sha256(b"".join(rows) + repr(sorted(sizes)).encode()).hexdigest()


def _read_openml(wanted: ReferenceSet) -> PublicTable:
    from sklearn.datasets import fetch_openml

    name, version = wanted.openml["name"], wanted.openml["version"]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="A network error occurred")  # told below, once
            bunch = fetch_openml(name, version=version, as_frame=False, parser="liac-arff", n_retries=1)
    except OSError as error:
        raise ServiceDown(
            f"OpenML does not answer ({error}). Try again with a network, or put the files into the data "
            f"folder yourself, for instance {wanted.path} ({wanted.origin})."
        ) from error
    except ValueError as error:
        raise SourceError(f"OpenML has no {name} of version {version} ({error}).") from error
    return _as_table(np.asarray(bunch.data, dtype=float), bunch.target, wanted.openml, bunch)


def _as_table(X: np.ndarray, target: Any, recipe: Any, bunch: Any) -> PublicTable:
    """Features and labels as the experiments have them."""
    if recipe.get("labels"):
        names = [str(name) for name in bunch.target_names]
        columns = np.asarray(target).reshape(len(X), -1)
        yes = np.isin(columns.astype(str), _TRUE)
        return PublicTable(X, {f"label:{name}": yes[:, k].astype(np.int8) for k, name in enumerate(names)})
    if recipe.get("terciles"):
        values = np.asarray(target, dtype=float)
        target = np.searchsorted(np.quantile(values, (1 / 3, 2 / 3)), values)
    keep = ~np.isnan(X).any(axis=1) if recipe.get("drop_incomplete") else np.ones(len(X), dtype=bool)
    return PublicTable(X[keep], {"class": np.asarray(target).astype(str)[keep]})
