"""What the comparison projections share: labels that may be missing, and as many columns as there are."""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import Tags

from embedding_core.base import LinearEmbedding, Solution
from embedding_core.errors import InvalidInput, TooManyComponents
from embedding_core.labels import UNLABELED, Indicator, as_indicator, check_one_row_each
from embedding_core.linalg.eigen import fix_signs
from embedding_core.linalg.row_blocks import RowBlocks, load_rows, project_rows

COLUMNS_WITHOUT_LABELS = 2


def optional_labels(y: Any, n: int) -> Indicator:
    """Labels in one form, also where there are none: y is None or holds -1 alone."""
    if y is None:
        return _without_labels(n, 0)
    values: NDArray[Any] = np.zeros(0) if sp.issparse(y) else np.asarray(y)
    if values.dtype.kind == "O":
        bare = all(value is None or value == UNLABELED for value in values.flat)
    else:
        bare = values.dtype.kind in "if" and bool((values == UNLABELED).all())
    if values.size and bare:
        return _without_labels(len(values), values.shape[1] if values.ndim == 2 else 0)
    return as_indicator(y)


def labeled_part(X: Any, target: Indicator) -> tuple[Any, NDArray[np.float64]]:
    """Labeled items and their labels (l, K) in float64; of RowBlocks they are brought into memory."""
    labeled = target.labeled
    if not labeled.all():
        X = load_rows(X, labeled) if isinstance(X, RowBlocks) else X[labeled]
    return X, target.Y[labeled].astype(np.float64)


def _without_labels(n: int, K: int) -> Indicator:
    return Indicator(np.full((n, K), UNLABELED, dtype=np.int8), np.zeros(n, dtype=bool), np.arange(K))


class SubspaceEmbedding(LinearEmbedding):
    """A linear embedding whose columns may outnumber the K-1 of a discriminant.

    `_supervised` says whether `fit` needs labels, `_directions` what its directions are, for messages;
    `_flags` names the parameters that are True or False.
    """

    _supervised: ClassVar[bool] = True
    _directions: ClassVar[str] = "in which features and labels vary together"
    _flags: ClassVar[tuple[str, ...]] = ()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in self._flags:
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise InvalidInput(f"{name}={value!r} is not legal; give True or False.")

    def _check_inputs(self, X: Any, y: Any) -> tuple[Any, Indicator]:
        if self._supervised:
            return super()._check_inputs(X, y)
        self._check_parameters()
        X = self._check_items(X, reset=True)
        target = optional_labels(y, X.shape[0])
        check_one_row_each(X, target)
        return X, target

    def _check_classes(self, target: Indicator) -> None:
        """Any labels will do; whether they tell anything, the rank says."""

    def _n_columns(self, target: Indicator, rank: int) -> int:
        """Columns to keep of the `rank` there are."""
        if rank == 0:
            raise InvalidInput(
                f"{type(self).__name__} finds no direction {self._directions} (n_samples={len(target.Y)}); "
                "add items, features or labels that vary."
            )
        r = self.n_components
        if r is None:
            return min(max(target.n_classes - 1, 1) if target.n_classes else COLUMNS_WITHOUT_LABELS, rank)
        if r > rank:
            raise TooManyComponents(
                f"n_components={r} exceeds the {rank} directions {self._directions}; lower it, or leave it "
                "at None.",
                rank,
            )
        return r

    def _store(self, X: Any, target: Indicator, solution: Solution) -> Self:
        """Fix the signs and set the fitted attributes; the columns are those to keep."""
        self.projection_ = fix_signs(solution.projection)
        self.eigenvalues_ = solution.eigenvalues.copy()
        self.embedding_ = project_rows(X, self.projection_)
        self.classes_ = target.classes
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._supervised
        return tags
