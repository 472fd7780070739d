"""The labeled items that a model was fitted on, as a file beside the model: `annotate` needs no other.

An .npz archive of plain arrays; the texts are JSON in arrays of bytes. Nothing in it is ever unpickled.

| array | shape | content |
|---|---|---|
| facts | bytes | JSON: label_names, single_label, tune_for, total, source, unreadable |
| ids | bytes | JSON: ids of n labeled items |
| item_ids | bytes | JSON: ids of all items of the fit in its order; missing if no links were given |
| labels | (n, K) int8 | their labels |
| positions | (n,) int64 | their places among all labeled items, ascending |
| folds, scores | (n,), (n, K) | out-of-fold scores and the fold of each item; missing if there are none |
| rows | (m,) int64 | items with features |
| X, or data, indices, indptr and shape | (m, p) float32 | features before they are prepared, dense or CSR |
| apart, or apart_data, ... | (r, p) float32 | the same of items of classes that the model does not have |
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.artifacts.keys import canonical_json
from storage.errors import LabelscapeError, StoreError
from storage.limits import check_memory
from storage.npz import inspect_npz
from storage.quoting import shorten

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_SPARSE = ("data", "indices", "indptr", "shape")


@dataclass(frozen=True, eq=False)
class LabeledItems:
    """Labeled items of a model: labels (n, K), out-of-fold scores (n, K) and features of some of them.

    Attributes
    ----------
    ids : list of n str
    label_names : list of K str
    labels : (n, K) array of 0/1
    positions : (n,) array
        Places of the items among all labeled items, in the order of the fit.
    total : int
        Number of all labeled items.
    single_label : bool
    folds, scores : (n,) and (n, K) arrays, or None
        Scores by models that were not fitted on the item.
    tune_for : str
        What the thresholds of the model are tuned for.
    rows : (m,) array
        Items whose features are in X, a random part if there are many.
    X : (m, p) array or CSR array of float32
    source : mapping
        The settings with which the collection was read.
    item_ids : list of str, or None
        Ids of all items of the fit, labeled or not, in its order, if links between them were given: new items
        may link to them.
    unreadable : int
        Number of items of the collection that the fit left out.
    apart : (r, p) array or CSR array of float32, or None
        Features of labeled items whose class the model does not have: any class that it gives them is wrong.
    """

    ids: list[str]
    label_names: list[str]
    labels: np.ndarray
    positions: np.ndarray
    total: int
    single_label: bool
    folds: np.ndarray | None
    scores: np.ndarray | None
    tune_for: str
    rows: np.ndarray
    X: np.ndarray | csr_array
    source: Mapping[str, Any] = field(default_factory=dict)
    item_ids: list[str] | None = None
    unreadable: int = 0
    apart: np.ndarray | csr_array | None = None

    def __post_init__(self) -> None:
        n, shape = len(self.ids), (len(self.ids), len(self.label_names))
        _require(self.labels.shape == shape, f"labels of shape {self.labels.shape}, expected {shape}")
        _require(np.isin(self.labels, (0, 1)).all(), "labels other than 0 and 1")
        _require(n <= self.total and self.positions.shape == (n,), f"{self.positions.shape} positions")
        _require(_are_places(self.positions, self.total), "positions that are not ascending places")
        _require(
            (self.folds is None) == (self.scores is None), "scores without folds, or folds without scores"
        )
        if self.scores is not None and self.folds is not None:
            _require(self.scores.shape == shape, f"scores of shape {self.scores.shape}, expected {shape}")
            _require(self.folds.shape == (n,), f"folds of shape {self.folds.shape}, expected {(n,)}")
        _require(_are_places(self.rows, n), "rows that are not ascending places")
        _require(self.X.ndim == 2 and self.X.shape[0] == len(self.rows), f"features of shape {self.X.shape}")
        for one in (self.X, self.apart):
            if one is not None:
                _require(one.ndim == 2 and one.shape[1] == self.X.shape[1], f"features of shape {one.shape}")
                values = one if isinstance(one, np.ndarray) else one.data
                _require(not np.isinf(values).any(), "infinite features")


def dump_labeled_items(items: LabeledItems) -> bytes:
    """Return the bytes of the file; equal items give equal bytes."""
    facts = {
        "label_names": items.label_names,
        "single_label": items.single_label,
        "tune_for": items.tune_for,
        "total": items.total,
        "source": dict(items.source),
        **({"unreadable": items.unreadable} if items.unreadable else {}),
    }
    arrays = {
        "facts": _as_bytes(facts),
        "ids": _as_bytes(items.ids),
        "labels": items.labels.astype(np.int8),
        "positions": items.positions.astype(np.int64),
        "rows": items.rows.astype(np.int64),
    }
    if items.item_ids is not None:
        arrays["item_ids"] = _as_bytes(items.item_ids)
    if items.scores is not None and items.folds is not None:
        arrays |= {"folds": items.folds.astype(np.int32), "scores": items.scores.astype(np.float64)}
    arrays |= _feature_arrays(items.X, "X", "")
    if items.apart is not None:
        arrays |= _feature_arrays(items.apart, "apart", "apart_")
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy")  # its date is fixed
            archive.writestr(info, member.getvalue(), zipfile.ZIP_DEFLATED)
    return target.getvalue()


def _feature_arrays(X: np.ndarray | csr_array, dense: str, prefix: str) -> dict[str, np.ndarray]:
    """The arrays of dense or sparse features."""
    if isinstance(X, np.ndarray):
        return {dense: X.astype(np.float32)}
    csr = X.tocsr()
    parts = (csr.data.astype(np.float32), csr.indices, csr.indptr, np.array(csr.shape, dtype=np.int64))
    return {f"{prefix}{name}": part for name, part in zip(_SPARSE, parts, strict=True)}


def load_labeled_items(payload: bytes) -> LabeledItems:
    """Read the bytes of the file; StoreError if they are anything else."""
    try:
        claims = inspect_npz(io.BytesIO(payload))
        check_memory(2 * sum(one.bytes for one in claims.values()), "The file", len(payload), StoreError)
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            return _unpack({name: archive[name] for name in archive.files})
    except LabelscapeError as error:
        raise _refused(str(error)) from error
    except Exception as error:  # damaged or malicious bytes may raise anything
        raise _refused(f"{type(error).__name__}: {shorten(str(error), 200)}") from error


def _unpack(arrays: Mapping[str, np.ndarray]) -> LabeledItems:
    facts = _from_bytes(arrays["facts"])
    total = facts["total"]
    _require(isinstance(total, int) and 0 <= total < 2**53, "an odd number of items")
    return LabeledItems(
        ids=[str(name) for name in _from_bytes(arrays["ids"])],
        label_names=[str(name) for name in facts["label_names"]],
        labels=arrays["labels"],
        positions=arrays["positions"],
        total=total,
        single_label=bool(facts["single_label"]),
        folds=arrays.get("folds"),
        scores=arrays.get("scores"),
        tune_for=str(facts["tune_for"]),
        rows=arrays["rows"],
        X=arrays["X"] if "X" in arrays else _csr(arrays, ""),
        source=dict(facts["source"]),
        item_ids=[str(name) for name in _from_bytes(arrays["item_ids"])] if "item_ids" in arrays else None,
        unreadable=int(facts.get("unreadable", 0)),
        apart=_csr(arrays, "apart_") if "apart_data" in arrays else arrays.get("apart"),
    )


def _csr(arrays: Mapping[str, np.ndarray], prefix: str) -> csr_array:
    from scipy.sparse import csr_array

    data, indices, indptr, shape = (arrays[f"{prefix}{name}"] for name in _SPARSE)
    made = csr_array((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
    made.check_format()  # indices outside the matrix would crash the process
    return made


def _are_places(values: np.ndarray, count: int) -> bool:
    """Whether integers are different numbers below a count, in ascending order."""
    if values.ndim != 1 or values.dtype.kind != "i":
        return False
    if not len(values):
        return True
    return bool(values[0] >= 0 and values[-1] < count and (np.diff(values) > 0).all())


def _as_bytes(value: Any) -> np.ndarray:
    return np.frombuffer(canonical_json(value).encode("utf-8", "surrogatepass"), dtype=np.uint8)


def _from_bytes(array: np.ndarray) -> Any:
    return json.loads(array.tobytes().decode("utf-8", "surrogatepass"))


def _require(fulfilled: Any, what: str) -> None:
    if not fulfilled:
        raise StoreError(f"it has {what}")


def _refused(why: str) -> StoreError:
    return StoreError(
        f"The file with the labeled items of a model cannot be used: {why.rstrip('.')}. Train the model "
        "again, or name another run with --run."
    )
