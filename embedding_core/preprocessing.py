"""Prepare features before a method: fill gaps, weigh terms, scale each block and balance the blocks.

Everything is learned on the rows of the fit, so in a cross-validation on the training rows of a fold.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from embedding_core.alternatives import choose_alternative
from embedding_core.blocks import FeatureBlock
from embedding_core.errors import InvalidInput
from embedding_core.scaling import Features, Scaler, as_features

MAX_DENSE = 20_000
"""Columns of a block that may be made dense."""


class Preprocessor(TransformerMixin, BaseEstimator):
    """Prepare the blocks of a feature matrix.

    Parameters
    ----------
    blocks : sequence of mappings
        The blocks from left to right as plain data, see `FeatureBlock`.

    Attributes
    ----------
    scalers_ : list of Scaler
        One per block.
    fillings_ : list of (width,) arrays
        Replacement of missing values by block and column; empty if the block is not filled.
    terms_ : list of arrays of int
        Columns of the terms that the rows of the fit contain, by block; empty for blocks that are not terms.
        Other terms say nothing about the labels and are dropped, so hashed counts may have many columns.
    idf_ : list of arrays
        Inverse document frequencies of these terms.
    choices_ : list of int
        The alternative that was kept, by block; -1 where all columns are kept.
    factors_ : (number of blocks,) array
        Last factor of each block. It gives each of B blocks the total variance weight² p / B, where p is the
        number of all prepared columns: a wide block does not drown a narrow one. A single block is not
        multiplied.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> blocks = [FeatureBlock("wide", 3).to_json(), FeatureBlock("narrow", 1).to_json()]
    >>> X = np.array([[1.0, 1.0, 1.0, 5.0], [-1.0, -1.0, -1.0, -5.0]])
    >>> prepared = Preprocessor(blocks).fit_transform(X)
    >>> float((prepared[:, :3] ** 2).sum()) == float((prepared[:, 3:] ** 2).sum())
    True
    """

    def __init__(self, blocks: Sequence[Mapping[str, Any]] = ()) -> None:
        self.blocks = blocks

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn fillings, frequencies, scales, choices and factors.

        Parameters
        ----------
        X : (n, p) array or sparse array
        y : (n, K) array in 0/1, rows of -1 for unlabeled rows, optional
            Needed only to choose among the alternatives of a block.
        """
        X = as_features(X, missing=True)
        parts = self._split(X)
        self.scalers_, self.fillings_, self.terms_, self.idf_, self.choices_ = [], [], [], [], []
        variances, widths = [], []
        for block, part in zip(self._checked(), parts, strict=True):
            self.fillings_.append(_learn_filling(block, part))
            part = _filled(block, part, self.fillings_[-1])
            terms, idf = _learn_terms(block, part)
            self.terms_.append(terms)
            self.idf_.append(idf)
            part = _weighed(part, terms, idf)
            self.scalers_.append(Scaler(block.scale).fit(part))
            self.choices_.append(_choose(block, part, y))
            kept = _kept(block, self.scalers_[-1].transform(part), self.choices_[-1])
            variances.append(_total_variance(kept))
            widths.append(kept.shape[1])
        self.factors_ = self._factors(np.array(variances), sum(widths))
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Features:
        """Return the prepared rows; sparse if X is sparse."""
        X = as_features(X, self.n_features_in_, missing=True)
        made = []
        for number, (block, part) in enumerate(zip(self._checked(), self._split(X), strict=True)):
            part = _filled(block, part, self.fillings_[number])
            part = _weighed(part, self.terms_[number], self.idf_[number])
            scaled = _kept(block, self.scalers_[number].transform(part), self.choices_[number])
            factor = self.factors_[number]
            made.append(scaled if factor == 1.0 else (scaled * factor).astype(scaled.dtype))
        if len(made) == 1:
            return made[0]
        return sp.hstack(made, format="csr") if sp.issparse(X) else np.hstack(made)

    def describe_choices(self) -> list[str]:
        """Say which alternative of each block was kept, for blocks whose alternatives have names."""
        named = [
            (block.name, block.alternative_names, choice)
            for block, choice in zip(self._checked(), self.choices_, strict=True)
            if block.alternative_names and choice >= 0
        ]
        return [f"{block}: {names[choice]} is chosen of {', '.join(names)}" for block, names, choice in named]

    def kept_columns(self) -> list[NDArray[np.intp]]:
        """Return for each block the columns of X that its prepared columns come from."""
        found, start = [], 0
        for number, block in enumerate(self._checked()):
            width, choice = block.width // block.alternatives, self.choices_[number]
            columns = self.terms_[number] if block.terms != "none" else np.arange(block.width)
            kept = columns if choice < 0 else columns[choice * width : (choice + 1) * width]
            found.append(start + kept)
            start += block.width
        return found

    def _checked(self) -> list[FeatureBlock]:
        return [FeatureBlock(**block) for block in self.blocks]

    def _split(self, X: Features) -> list[Features]:
        ends = np.cumsum([block.width for block in self._checked()])
        if not len(ends) or ends[-1] != X.shape[1]:
            total = int(ends[-1]) if len(ends) else 0
            raise InvalidInput(f"the blocks have {total} columns in all, X has {X.shape[1]}.")
        parts = [X[:, start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        if len(parts) == 1:
            return parts
        return [_dense_beside_terms(*pair) for pair in zip(self._checked(), parts, strict=True)]

    def _factors(self, variances: NDArray[np.float64], n_features: int) -> NDArray[np.float64]:
        if len(variances) == 1:
            return np.ones(1)
        weights = np.array([block.weight for block in self._checked()])
        share = n_features / len(variances)
        # A block that is constant in the rows of the fit keeps its scale.
        factors: NDArray[np.float64] = weights * np.sqrt(share / np.where(variances > 0, variances, share))
        return factors


def _choose(block: FeatureBlock, part: Features, y: Any) -> int:
    """The alternative of a block that describes the labels best; -1 without alternatives or labels.

    Columns are z-scored for the choice, also for a method that scales them itself later.
    """
    if block.alternatives == 1 or y is None:
        return -1
    dense = Scaler("zscore").fit_transform(part.toarray() if sp.issparse(part) else part)
    return choose_alternative(np.split(dense, block.alternatives, axis=1), np.asarray(y))


def _kept(block: FeatureBlock, scaled: Features, choice: int) -> Features:
    if choice < 0:
        return scaled
    width = block.width // block.alternatives
    return scaled[:, choice * width : (choice + 1) * width]


def _dense_beside_terms(block: FeatureBlock, part: Features) -> Features:
    """Make a narrow block dense that stands beside terms: it may have missing values, and is centered."""
    if block.terms != "none" or not sp.issparse(part) or block.width > MAX_DENSE:
        return part
    if block.fill == "none" and not np.isnan(part.data).any() and block.scale != "zscore":
        return part
    return part.toarray()


def _learn_filling(block: FeatureBlock, part: Features) -> NDArray[np.float64]:
    if block.fill == "none":
        return np.empty(0)
    if sp.issparse(part):
        return np.empty(0)  # sparse features have no missing values
    empty = np.isnan(part).all(axis=0)
    if empty.all():
        raise InvalidInput(f"block {block.name}: no row of the fit has any value; leave the block out.")
    if empty.any():
        warnings.warn(
            f"block {block.name}: {int(empty.sum())} columns have no value in the training rows and are "
            "filled with 0",
            stacklevel=2,
        )
    middle = np.nanmean if block.fill == "mean" else np.nanmedian
    found = np.zeros(part.shape[1])
    found[~empty] = middle(part[:, ~empty].astype(np.float64), axis=0)
    return found


def _filled(block: FeatureBlock, part: Features, filling: NDArray[np.float64]) -> Features:
    if sp.issparse(part):
        return part
    missing = np.isnan(part)
    if not missing.any():
        return part
    if not len(filling):
        raise InvalidInput(
            f"block {block.name}: {int(missing.any(axis=1).sum())} rows have missing values; "
            "set features.fill to mean or median, or drop these rows."
        )
    filled: NDArray[Any] = np.where(missing, filling.astype(part.dtype), part)
    return filled


def _learn_terms(block: FeatureBlock, counts: Features) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Columns that occur in the rows of the fit, and their inverse document frequencies."""
    if block.terms == "none":
        return np.empty(0, dtype=np.intp), np.empty(0)
    n = counts.shape[0]
    in_rows = np.asarray((counts != 0).sum(axis=0), dtype=np.float64).ravel()
    terms = np.flatnonzero(in_rows)
    if not len(terms):
        raise InvalidInput(f"block {block.name}: no row of the fit contains a term; give texts with words.")
    idf: NDArray[np.float64] = np.log((1 + n) / (1 + in_rows[terms])) + 1
    return terms, idf


def _weighed(counts: Features, terms: NDArray[np.intp], idf: NDArray[np.float64]) -> Features:
    if not len(idf):
        return counts
    known = counts[:, terms]
    weighed = (known @ sp.diags_array(idf)).tocsr() if sp.issparse(known) else known * idf
    return Scaler("unit").fit(weighed).transform(weighed.astype(counts.dtype))


def _total_variance(rows: Features) -> float:
    """Mean squared distance of the rows from their mean."""
    squares = rows.multiply(rows).sum() if sp.issparse(rows) else np.square(rows, dtype=np.float64).sum()
    mean = np.asarray(rows.mean(axis=0, dtype=np.float64)).ravel()
    variance = float(squares) / float(rows.shape[0]) - float(mean @ mean)
    return max(variance, 0.0)
