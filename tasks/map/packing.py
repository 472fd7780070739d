"""The content of a map as files: facts and ids as JSON, one binary array per column.

The page decodes the arrays as they are, so that 100,000 items need no parsing.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.map.data import MapData, MapView, sample_rows
from tasks.report.limits import robust_limits

FACTS = "map.json"
"""Names, numbers and the list of arrays."""
# At most this many coordinates are stored, so that the page stays small; two axes of each view always are.
_MOST_NUMBERS = 1_500_000
_MOST_AXES = 8
# Cells of the density grid per axis.
_CELLS = 256
_SUPPORT = 3
# Supporting items are searched among at most this many labeled items.
_MOST_LABELED = 20_000
_UNKNOWN_SCORE, _UNKNOWN_DOUBT = 65_535, 255
_GIVEN, _PREDICTED = 1, 2


def pack_map(data: MapData, points: int) -> dict[str, bytes]:
    """Pack a map.

    Parameters
    ----------
    data : MapData
    points : int
        Largest number of items that are drawn one by one. Of a larger collection a random sample is drawn
        over the density of all items.

    Returns
    -------
    dict
        File name to bytes. The same data give the same bytes.
    """
    rows = sample_rows(len(data.ids), points)
    sampled = len(rows) < len(data.ids)
    arrays: dict[str, NDArray[Any]] = {}
    views = [
        _pack_view(number, view, rows, _axes(view, len(rows), len(data.views)), sampled, arrays)
        for number, view in enumerate(data.views)
    ]
    arrays |= _pack_labels(data, rows)
    facts = {
        "title": data.title,
        "source": data.source,
        "items": len(data.ids),
        "labels": list(data.label_names),
        "ids": [data.ids[row] for row in rows],
        "views": views,
        "predictor": data.judged.title if data.judged else "",
        "first": data.first,
        "supporter": data.views[data.support].title if data.views else "",
        **_pack_split(data, rows, arrays),
        "arrays": {name: array.dtype.str for name, array in arrays.items()},
    }
    files = {FACTS: json.dumps(facts, separators=(",", ":")).encode()}
    return files | {name: np.ascontiguousarray(array).tobytes() for name, array in arrays.items()}


def _axes(view: MapView, n: int, n_views: int) -> int:
    most = _MOST_NUMBERS // max(n * n_views, 1)
    return min(int(view.coordinates.shape[1]), max(2, min(most, _MOST_AXES)))


def _pack_view(
    number: int,
    view: MapView,
    rows: NDArray[np.intp],
    axes: int,
    sampled: bool,
    arrays: dict[str, NDArray[Any]],
) -> dict[str, Any]:
    for axis in range(axes):
        arrays[f"axis_{number}_{axis}"] = view.coordinates[rows, axis].astype("<f4")
    facts: dict[str, Any] = {
        "title": view.title,
        "remark": view.remark,
        "group": view.group,
        "axes": axes,
    }
    if sampled and axes > 1:
        facts["density"] = _pack_density(number, view, arrays)
    return facts


def _pack_density(number: int, view: MapView, arrays: dict[str, NDArray[Any]]) -> list[float]:
    """Store how many items are in each cell, on a logarithmic scale; return the limits of the grid."""
    x, y = view.coordinates[:, 0], view.coordinates[:, 1]
    limits = [*robust_limits(x), *robust_limits(y)]
    finite = np.isfinite(x) & np.isfinite(y)
    counts, _, _ = np.histogram2d(
        y[finite], x[finite], bins=_CELLS, range=[_widen(*limits[2:]), _widen(*limits[:2])]
    )
    shade = np.log1p(counts) / max(float(np.log1p(counts.max())), 1e-9)
    arrays[f"density_{number}"] = np.round(255 * shade).astype(np.uint8).ravel()
    return limits


def _widen(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _pack_split(data: MapData, rows: NDArray[np.intp], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Store the split of each item as a number; return the names."""
    if data.split is None:
        return {"splits": []}
    given = [data.split[row] or "" for row in rows]
    names = sorted(set(given))
    place = {name: number for number, name in enumerate(names)}
    arrays["split"] = np.array([place[name] for name in given], dtype="<u2")
    return {"splits": names}


def _pack_labels(data: MapData, rows: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """Given and predicted labels of each item with their scores, the items that support them, and doubt."""
    Y = data.Y[rows]
    given = Y == 1
    decided = np.zeros(Y.shape, dtype=bool)
    scores, doubt = np.full(Y.shape, np.nan), np.full(len(rows), np.nan)
    if data.judged:
        decided, scores = data.judged.decided[rows] == 1, data.judged.scores[rows]
        doubt = data.judged.doubt()[rows]
    items, labels = np.nonzero(given | decided)
    flags = _GIVEN * given[items, labels] + _PREDICTED * decided[items, labels]
    known = scores[items, labels]
    labeled = np.asarray((Y >= 0).all(axis=1))
    return {
        "start": np.concatenate([[0], np.cumsum(np.bincount(items, minlength=len(rows)))]).astype("<u4"),
        "label": labels.astype("<u2"),
        "flag": flags.astype(np.uint8),
        "score": np.where(np.isfinite(known), np.round(1000 * known), _UNKNOWN_SCORE).astype("<u2"),
        "doubt": np.where(np.isfinite(doubt), np.round(100 * doubt), _UNKNOWN_DOUBT).astype(np.uint8),
        "labeled": labeled.astype(np.uint8),
        "judged": np.asarray(np.isfinite(scores).all(axis=1)).astype(np.uint8),
        "support": _support(data, rows, Y, labeled, decided),
    }


def _support(
    data: MapData,
    rows: NDArray[np.intp],
    Y: NDArray[np.int8],
    labeled: NDArray[np.bool_],
    decided: NDArray[np.bool_],
) -> NDArray[Any]:
    """The nearest labeled items that carry each predicted label, other than the item itself; -1 for none."""
    from embedding_core.annotation.evidence import nearest_carriers  # imports scikit-learn

    carriers = np.flatnonzero(labeled)
    carriers = carriers[sample_rows(len(carriers), _MOST_LABELED)]
    if not data.views or not decided.any() or not len(carriers):
        return np.empty((0, _SUPPORT), dtype="<i4")
    Z = data.views[data.support].coordinates[rows]
    found = nearest_carriers(Z[carriers], Y[carriers], Z, decided, _SUPPORT + 1)
    near = np.where(found.indices >= 0, carriers[found.indices], -1)
    # The item itself is last, and then cut off.
    itself = near == found.rows[:, None]
    order = np.argsort(itself, axis=1, kind="stable")
    near = np.take_along_axis(np.where(itself, -1, near), order, axis=1)
    return near[:, :_SUPPORT].astype("<i4")
