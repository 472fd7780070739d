"""Blocks of columns of a feature matrix, and how each is prepared; see `embedding_core.preprocessing`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Literal

from embedding_core.errors import InvalidInput

Fill = Literal["none", "mean", "median"]
Terms = Literal["none", "tfidf"]
FILLS: tuple[Fill, ...] = ("none", "mean", "median")
TERMS: tuple[Terms, ...] = ("none", "tfidf")


@dataclass(frozen=True)
class FeatureBlock:
    """Consecutive columns of a feature matrix that belong together, and how they are prepared.

    Attributes
    ----------
    name : str
        Name for messages, for instance that of the extractor.
    width : int
        Number of columns.
    scale : {"none", "zscore", "unit"}
        Scaling of the block, see `Scaler`.
    weight : float
        Relative weight of the block if there are several.
    fill : {"none", "mean", "median"}
        What replaces a missing value (NaN): the mean or median of its column in the rows of the fit.
    terms : {"none", "tfidf"}
        "tfidf" turns counts of terms into TF-IDF: count · (ln((1 + n) / (1 + n_t)) + 1), rows of length 1.
    alternatives : int
        The block consists of this many alternatives of equal width, for instance color spaces. A fit with
        labels keeps the one that describes the labels of its rows best, see `choose_alternative`; a fit
        without labels keeps all.
    alternative_names : sequence of str
        Names of the alternatives for messages; may be empty.
    """

    name: str
    width: int
    scale: str = "none"
    weight: float = 1.0
    fill: Fill = "none"
    terms: Terms = "none"
    alternatives: int = 1
    alternative_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.width < 1:
            raise InvalidInput(f"block {self.name}: width={self.width}; expected at least one column.")
        if self.alternatives < 1 or self.width % self.alternatives:
            raise InvalidInput(
                f"block {self.name}: {self.width} columns are not {self.alternatives} alternatives of equal "
                "width."
            )
        if not (self.weight > 0 and isfinite(self.weight)):
            raise InvalidInput(f"block {self.name}: weight={self.weight}; expected a positive number.")
        for what, value, known in (("fill", self.fill, FILLS), ("terms", self.terms, TERMS)):
            if value not in known:
                raise InvalidInput(f"block {self.name}: {what}={value!r}; choose one of {', '.join(known)}.")

    def to_json(self) -> dict[str, Any]:
        """The block as plain data."""
        known = asdict(self)
        names = list(known.pop("alternative_names"))
        return {**known, "alternative_names": names} if names else known


def replaces_own_scaling(blocks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether methods must not scale prepared features again: that would undo weights and TF-IDF."""
    return len(blocks) > 1 or any(block.get("terms", "none") != "none" for block in blocks)
