"""Public copies of data sets from OpenML, turned into tables and checked by their content."""

import hashlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from storage.errors import ServiceDown, SourceError
from storage.exports import write_parquet
from storage.reference_sets import ReferenceSet


def fetch_set(wanted: ReferenceSet, folder: Path) -> str:
    """Get a set and put it where it is expected; says where.

    Raises
    ------
    ServiceDown
        There is no network.
    SourceError
        What came is not the set that the experiments were made with.
    """
    import pyarrow as pa

    X, labels = _read_openml(wanted)
    if content_digest(X, labels) != wanted.content:
        raise SourceError(
            f"OpenML's {wanted.openml['name']} (version {wanted.openml['version']}) is not the set that the "
            f"experiments were made with ({wanted.origin}); nothing was written."
        )
    file = folder / wanted.path
    file.parent.mkdir(parents=True, exist_ok=True)
    features = {f"f{j}": X[:, j] for j in range(X.shape[1])}
    return f"written to {write_parquet(pa.table({**features, **labels}), file)}"


def content_digest(X: np.ndarray, labels: dict[str, np.ndarray]) -> str:
    """Digest of the rows of features, in any order, and of how many rows each label or class has."""
    rows = sorted(row.tobytes() for row in np.ascontiguousarray(X, dtype=np.float32) + np.float32(0))
    sizes = [size for column in labels.values() for size in np.unique(column, return_counts=True)[1].tolist()]
    return hashlib.sha256(b"".join(rows) + repr(sorted(sizes)).encode()).hexdigest()


def _read_openml(wanted: ReferenceSet) -> tuple[np.ndarray, dict[str, np.ndarray]]:
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


def _as_table(
    X: np.ndarray, target: Any, recipe: Any, bunch: Any
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Features and labels as the experiments have them."""
    if recipe.get("labels"):
        names = [str(name) for name in bunch.target_names]
        columns = np.asarray(target).reshape(len(X), -1)
        yes = np.isin(columns.astype(str), ("TRUE", "True", "true", "1", "1.0"))
        return X, {f"label:{name}": yes[:, k].astype(np.int8) for k, name in enumerate(names)}
    if recipe.get("terciles"):
        values = np.asarray(target, dtype=float)
        target = np.searchsorted(np.quantile(values, (1 / 3, 2 / 3)), values)
    keep = ~np.isnan(X).any(axis=1) if recipe.get("drop_incomplete") else np.ones(len(X), dtype=bool)
    return X[keep], {"class": np.asarray(target).astype(str)[keep]}
