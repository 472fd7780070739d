"""Labels: the 0/1 matrix Y, the label correlation C and the class weights Z of the papers.

Y is (n, K) with entries 0 and 1; a row of -1 is an unlabeled item. A labeled item may have no label at all (a
row of zeros), which means "none of these" and contributes to no class.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.checks import check_choice
from embedding_core.errors import InvalidInput
from embedding_core.linalg.row_blocks import row_blocks

UNLABELED = -1

LABEL_WEIGHTS: Mapping[str, str] = {
    "binary": "Z = Y",
    "correlated": "Z = YC (Eq. 14)",
    "l1": "z_i = y_i C / |y_i|_1 (Eq. 15)",
    "l1_correlated": "z_i = y_i C / |y_i C|_1 (Eq. 16)",
}
"""Legal class weights and their formulas; the equations are those of the MLDA paper."""


@dataclass(frozen=True)
class Indicator:
    """Labels in one form: `Y` (n, K) int8 with rows of -1, `labeled` (n,) bool, `classes` (K,)."""

    Y: NDArray[np.int8]
    labeled: NDArray[np.bool_]
    classes: NDArray[Any]

    @property
    def n_classes(self) -> int:
        """Number of columns K."""
        return int(self.Y.shape[1])

    def counts(self, sample_weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the weight (n,) of each item: its sample weight (default 1), 0 if it is unlabeled."""
        return np.where(self.labeled, 1.0 if sample_weight is None else sample_weight, 0.0)

    def hide(self, rows: NDArray[np.integer[Any]]) -> "Indicator":
        """Return the same labels with `rows` made unlabeled."""
        Y, labeled = self.Y.copy(), self.labeled.copy()
        Y[rows] = UNLABELED
        labeled[rows] = False
        return Indicator(Y, labeled, self.classes)


def rows_without_one_label(Y: NDArray[np.int8]) -> NDArray[np.intp]:
    """Return the labeled rows of Y (n, K) that have no label or several. Rows of -1 are ignored."""
    counts = Y.sum(axis=1)
    return np.flatnonzero((counts >= 0) & (counts != 1))


def one_label_each(Y: NDArray[np.int8]) -> bool:
    """Return whether every labeled row of Y (n, K) has exactly one label.

    Rows of -1 are ignored; the result is True if no row is labeled.
    """
    return not rows_without_one_label(Y).size


def check_one_row_each(X: Any, target: Indicator) -> None:
    """Raise InvalidInput unless items and labels have the same number of rows."""
    if X.shape[0] != len(target.Y):
        raise InvalidInput(
            f"Found input variables with inconsistent numbers of samples: X has {X.shape[0]} rows and Y has "
            f"{len(target.Y)}; give one row of labels per item (-1 for unlabeled items)."
        )


def check_one_class_per_item(target: Indicator, name: str, otherwise: str) -> None:
    """Raise InvalidInput if a labeled item has no label or several.

    `otherwise` names the methods that accept such items.
    """
    odd = rows_without_one_label(target.Y)
    if odd.size:
        count = target.Y[odd[0]].sum()
        raise InvalidInput(
            f"Row {odd[0]} of y has {count} labels ({odd.size} such rows); {name} takes exactly "
            f"one class per item. Use {otherwise} for several labels, -1 for unlabeled items."
        )


def check_labels_differ(target: Indicator, name: str, multi_label: bool) -> None:
    """Raise InvalidInput if all labeled items have the same labels.

    `multi_label` tells whether the labels were given as columns; it only changes the message.
    """
    Y = target.Y[target.labeled]
    if (Y.min(axis=0) == Y.max(axis=0)).all():
        agreed = "no label on which they differ" if multi_label else f"one class, {target.classes[0]}"
        alone = "Only one item is labeled" + ("" if multi_label else f", with {agreed}")
        found = f"The {len(Y)} labeled items have {agreed}" if len(Y) > 1 else alone
        raise InvalidInput(
            f"{found}; {name} separates classes and needs items inside and outside at least one class. Label "
            "items of another class."
        )


def as_indicator(y: Any) -> Indicator:
    """Convert classes or label columns to an `Indicator`.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, K)
        Classes (integers or strings) with -1 for unlabeled items (in an object array also None), or 0/1
        columns with rows of -1 for unlabeled items. Sparse 0/1 columns are accepted.

    Returns
    -------
    Indicator
        For (n,) input the columns are the sorted classes. For (n, K) input `classes` is 0..K-1, or the column
        names of a DataFrame if all of them are strings.

    Examples
    --------
    >>> as_indicator(["cat", "dog", "cat"]).Y.tolist()
    [[1, 0], [0, 1], [1, 0]]
    """
    if y is None:
        raise InvalidInput(
            "The method requires y to be passed, but the target y is None; give classes (n,) or 0/1 columns."
        )
    array = y.toarray() if sp.issparse(y) else _as_array(y)
    if np.iscomplexobj(array):
        raise InvalidInput(
            "Complex data not supported: y contains complex numbers; give classes or 0/1 columns."
        )
    if array.ndim == 1:
        return _from_classes(array)
    if array.ndim == 2:
        return _from_columns(array, _column_names(y))
    raise InvalidInput(f"y has {array.ndim} dimensions; expected (n,) classes or (n, K) columns of 0/1.")


def given_as_columns(y: Any) -> bool:
    """Return whether labels are columns (n, K) rather than classes (n,)."""
    return sp.issparse(y) or _as_array(y).ndim == 2


def in_given_form(labels: NDArray[Any], classes: NDArray[Any], as_columns: bool) -> NDArray[Any]:
    """Convert 0/1 labels (m, K) to the user's form: integer columns, or the class (m,) of each row."""
    return labels.astype(np.int64) if as_columns else classes[labels.argmax(axis=1)]


def _as_array(y: Any) -> NDArray[Any]:
    try:
        array = np.asarray(y)
    except ValueError as error:
        raise InvalidInput(
            f"y is not an array ({error}); give classes (n,), or 0/1 columns (n, K) of equal length."
        ) from error
    if array.dtype.kind not in "US":
        return array
    if not isinstance(y, np.ndarray):  # numpy converted the number -1 to the string "-1"
        array = np.asarray(y, dtype=object)
    if (array == "-1").any():
        raise InvalidInput(
            'y contains the string "-1" among its classes; mark unlabeled items by None or the number -1, in '
            "a list or an object array."
        )
    return array


def check_columns(given: Indicator, classes: NDArray[Any]) -> None:
    """Raise InvalidInput unless the label columns match those of `fit`.

    Names are compared if both sides have names.
    """
    if given.n_classes != len(classes):
        raise InvalidInput(f"y has {given.n_classes} columns; expected the {len(classes)} labels of fit.")
    named = given.classes.dtype.kind == classes.dtype.kind == "U"
    if named and (given.classes != classes).any():
        k = int(np.argmax(given.classes != classes))
        raise InvalidInput(
            f"Column {k} of y is '{given.classes[k]}' where fit had '{classes[k]}'; give the same labels in "
            "the same order."
        )


def label_shares(y: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return rows (m, K) that average over a label set: 1/c at each of its c labels.

    Parameters
    ----------
    y : array-like of shape (m,) or (m, K)
        Classes among `classes`, or 0/1 columns, with at least one label per row.
    classes : ndarray of shape (K,)
        Distinct classes.
    """
    if np.ndim(y) == 1 and not _labeled_classes(_as_array(y)).any():
        raise InvalidInput("y contains no class; only labels have a position. Leave out unlabeled rows.")
    given = as_indicator(y)
    bare = np.flatnonzero((given.Y <= 0).all(axis=1))
    if bare.size:
        raise InvalidInput(
            f"Row {bare[0]} of y has no label ({bare.size} such rows); only labels have a position. "
            "Leave out these rows."
        )
    if given_as_columns(y):
        check_columns(given, classes)
        shares: NDArray[np.float64] = given.Y / given.Y.sum(axis=1, keepdims=True)
        return shares
    unknown = given.classes[~np.isin(given.classes, classes)]
    if unknown.size:
        raise InvalidInput(
            f"y contains {unknown.tolist()[0]!r}, which was not seen in fit; choose among {classes.tolist()}."
        )
    shares = np.zeros((len(given.Y), len(classes)))
    order = np.argsort(classes)  # column names are not sorted
    shares[:, order[np.searchsorted(classes, given.classes, sorter=order)]] = given.Y
    return shares


def label_correlation(Y: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Cosine correlation of the labels, Eq. 13 of MLDA and Eq. 19 of DLE.

    Parameters
    ----------
    Y : ndarray of shape (n, K)
        0/1 labels; rows of -1 are ignored.
    sample_weight : ndarray of shape (n,), optional
        A weight of s is equivalent to s copies of the row.

    Returns
    -------
    ndarray of shape (K, K)
        Symmetric, positive semidefinite, with unit diagonal. The cosine with a label that no item has is
        undefined; such a label gets 1 on the diagonal and 0 elsewhere, which preserves these properties.

    Notes
    -----
    The sum runs over blocks of rows. For a million items and fifty labels Y takes 50 MB; a float64 copy would
    take 400 MB.
    """
    Y = np.asarray(Y)
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    counts = np.zeros((Y.shape[1], Y.shape[1]))
    for rows, block in row_blocks(Y):
        labels = np.maximum(block.astype(np.float64), 0.0)
        counts += labels.T @ (labels if weight is None else labels * weight[rows, None])
    length = np.sqrt(np.diag(counts))
    length[length == 0] = 1.0
    # In place: with 5,000 labels each copy takes 200 MB.
    counts /= np.outer(length, length)
    C: NDArray[np.float64] = counts + counts.T
    C /= 2
    np.minimum(C, 1.0, out=C)
    np.fill_diagonal(C, 1.0)
    return C


def label_weights(
    Y: NDArray[Any], kind: str = "l1", correlation: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Weight of every item in every class: the matrix Z of the scatter matrices.

    Parameters
    ----------
    Y : ndarray of shape (n, K)
        0/1 labels; rows of -1 and rows without a label get zero weights.
    kind : {"binary", "correlated", "l1", "l1_correlated"}
        Y; YC (Eq. 14); YC divided by the number of labels (Eq. 15); YC divided by its row sum (Eq. 16).
    correlation : ndarray of shape (K, K), optional
        C. Computed from `Y` if not given.
    """
    check_choice("weights", kind, tuple(LABEL_WEIGHTS))
    Y_f = np.maximum(np.asarray(Y, dtype=np.float64), 0.0)
    if kind == "binary":
        return Y_f
    Z = Y_f @ (label_correlation(Y) if correlation is None else correlation)
    if kind == "correlated":
        return Z
    size = (Y_f if kind == "l1" else Z).sum(axis=1, keepdims=True)
    weights: NDArray[np.float64] = np.divide(Z, size, out=np.zeros_like(Z), where=size > 0)
    return weights


def _from_classes(y: NDArray[Any]) -> Indicator:
    labeled = _labeled_classes(y)
    if not labeled.any():
        raise InvalidInput(f"All {len(y)} items are unlabeled (-1); label at least one item of two classes.")
    values = y[labeled]
    if values.dtype == object:
        values = _plain(values)
    classes, column = np.unique(values, return_inverse=True)
    Y = np.zeros((len(y), len(classes)), dtype=np.int8)
    Y[~labeled] = UNLABELED
    Y[np.flatnonzero(labeled), column] = 1
    return Indicator(Y, labeled, classes)


def _labeled_classes(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind == "f":
        _require_finite(y)
        odd = np.flatnonzero(y != np.round(y))
        if odd.size:
            raise InvalidInput(
                f"Unknown label type: y[{odd[0]}] = {y[odd[0]]} is not a class; expected integers or strings "
                "with -1 for unlabeled. Bin a continuous target first."
            )
    if y.dtype == object:
        return np.array([v is not None and not (_is_number(v) and v == UNLABELED) for v in y], dtype=bool)
    if y.dtype.kind in "US":
        return np.ones(len(y), dtype=bool)
    labeled: NDArray[np.bool_] = y != UNLABELED
    return labeled


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Convert the classes of an object array to a plain dtype: all strings or all integers."""
    if all(isinstance(v, str) for v in values):
        return np.array([str(v) for v in values])
    if all(_is_number(v) and np.isfinite(v) and v == int(v) for v in values):
        return np.array([int(v) for v in values])
    kinds = sorted({type(v).__name__ for v in values})
    raise InvalidInput(
        f"Unknown label type: y contains {', '.join(kinds)}; expected all strings or all integers, "
        "with -1 or None for unlabeled (no NaN)."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating | np.bool_)


def _column_names(y: Any) -> NDArray[Any] | None:
    """Return the column names of a DataFrame, or None if y has none or not all of them are strings."""
    names = list(getattr(y, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        return None
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise InvalidInput(f"y has two columns named {twice!r}; give every label a unique name.")
    return np.array(names)


def _from_columns(y: NDArray[Any], names: NDArray[Any] | None) -> Indicator:
    if y.dtype.kind not in "biuf":
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(f"Label columns contain {y.dtype}; expected numbers 0, 1 and -1.") from None
    if y.dtype.kind == "f":
        _require_finite(y)
    _require_legal(y)
    Y = y.astype(np.int8)
    hidden = Y == UNLABELED
    mixed = np.flatnonzero(hidden.any(axis=1) & ~hidden.all(axis=1))
    if mixed.size:
        raise InvalidInput(
            f"Row {mixed[0]} of y mixes -1 with 0/1: {Y[mixed[0]].tolist()} ({mixed.size} such rows); an "
            "item is either labeled (0/1 throughout) or unlabeled (-1 throughout)."
        )
    labeled = ~hidden.any(axis=1)
    if not labeled.any():
        raise InvalidInput(f"All {len(Y)} items are unlabeled (-1); label at least one item of two labels.")
    return Indicator(Y, labeled, np.arange(Y.shape[1]) if names is None else names)


def _require_legal(y: NDArray[Any]) -> None:
    legal = (y == 0) | (y == 1) | (y == UNLABELED)
    if not legal.all():
        row, column = np.argwhere(~legal)[0]
        raise InvalidInput(
            f"y[{row}, {column}] = {y[row, column]} is not a label; expected 0, 1, or a whole row of -1 for "
            "unlabeled."
        )


def _require_finite(y: NDArray[Any]) -> None:
    if not np.isfinite(y).all():
        row = np.argwhere(~np.isfinite(y))[0]
        found = "NaN" if np.isnan(y[tuple(row)]) else "infinity"
        raise InvalidInput(f"Input y contains {found} in row {row[0]}; use -1 for unlabeled items.")


@dataclass(frozen=True)
class LabelWeights:
    """The class weights Z (n, K) of `label_weights`, computed on demand for some rows: `weights[rows]`.

    `Y` (n, K) contains 0/1 with rows of -1, `correlation` is C (K, K), `sample_weight` (n,) or None
    multiplies the rows. For a million items and fifty labels a full float64 Z would take 400 MB, Y takes 50
    MB.
    """

    Y: NDArray[np.int8]
    kind: str
    correlation: NDArray[np.float64]
    sample_weight: NDArray[np.float64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Items and labels."""
        return self.Y.shape[0], self.Y.shape[1]

    def __getitem__(self, rows: Any) -> NDArray[np.float64]:
        Z = label_weights(self.Y[rows], self.kind, self.correlation)
        return Z if self.sample_weight is None else Z * self.sample_weight[rows, None]
