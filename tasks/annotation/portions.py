"""Portions of new items, those of their features: a changed item is judged again with its portion only.

What is judged of a portion is an artifact of its own. A stopped annotation continues after the last portion,
and an annotation of a changed collection reuses the portions that did not change.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.artifact import Artifact
from storage.artifacts.columns import read_metadata
from storage.artifacts.keys import ArtifactRef, Recipe
from storage.artifacts.schemas import Features, unpack_blocks, unpack_features
from storage.artifacts.store import ArtifactStore
from storage.sources.base import combine_digests
from tasks.dataset import join_features, load_blocks, part_refs
from tasks.reporter import Reporter

PORTION_STAGE = "annotation_part"
JOINED = 8_192
"""Items that are judged together where predictions alone are asked for: storing them costs more."""


@dataclass(frozen=True, eq=False)
class Portion:
    """Some consecutive items: their rows, and the references of their features, one or several per block."""

    rows: range
    blocks: tuple[tuple[ArtifactRef, ...], ...]

    @property
    def refs(self) -> list[ArtifactRef]:
        """References of all blocks."""
        return [ref for block in self.blocks for ref in block]

    def load(self, store: ArtifactStore) -> list[Features]:
        """Load the features of each block."""
        first = self.blocks[0][0]
        if first.kind in ("blocks", "parts"):  # everything in one portion
            return load_blocks(store, first)[0]
        return [
            join_features((unpack_features(store.read(ref)) for ref in block), len(self.rows))
            for block in self.blocks
        ]

    def __add__(self, following: "Portion") -> "Portion":
        blocks = tuple(mine + theirs for mine, theirs in zip(self.blocks, following.blocks, strict=True))
        return Portion(range(self.rows.start, following.rows.stop), blocks)


def split_portions(store: ArtifactStore, features: ArtifactRef) -> list[Portion]:
    """The portions of some features; a single one if a block was computed as a whole."""
    blocks = unpack_blocks(store.read(features))[0] if features.kind == "blocks" else [features]
    if any(read_metadata(store.read(block))["kind"] != "parts" for block in blocks):
        return [whole_portion(store, features)]
    by_block = [part_refs(store, block) for block in blocks]
    sizes = [[ref.rows for ref in refs] for refs in by_block]
    if any(one != sizes[0] for one in sizes):
        return [whole_portion(store, features)]
    ends = np.cumsum(sizes[0]).tolist()
    rows = [range(end - size, end) for end, size in zip(ends, sizes[0], strict=True)]
    return [
        Portion(one, tuple((ref,) for ref in refs))
        for one, refs in zip(rows, zip(*by_block, strict=True), strict=True)
    ]


def join_portions(portions: list[Portion], most: int) -> list[Portion]:
    """Join consecutive portions as long as they have at most this many items."""
    joined: list[Portion] = []
    for one in portions:
        if joined and len(joined[-1].rows) + len(one.rows) <= most:
            joined[-1] += one
        else:
            joined.append(one)
    return joined


def whole_portion(store: ArtifactStore, features: ArtifactRef) -> Portion:
    """All items in one portion."""
    found, _ = load_blocks(store, features)
    return Portion(range(len(found[0].ids)), ((features,),))


def judge_portions(
    recipe: Recipe,
    portions: list[Portion],
    asked: NDArray[np.bool_] | None,
    judge: Callable[[Portion, NDArray[np.bool_] | None], Artifact],
    store: ArtifactStore,
    reporter: Reporter,
) -> list[ArtifactRef]:
    """Judge and store each portion that the store does not have.

    Parameters
    ----------
    recipe : Recipe
        That of the whole; of its inputs the features, and the labels that decide which items are asked for,
        are replaced by those of a portion.
    portions : list of Portion
    asked : (n,) mask, optional
        Items to judge; all if None.
    judge : callable
        Makes the artifact of a portion from it and its part of `asked`.
    """
    refs = []
    with reporter.progress("annotation", portions[-1].rows.stop if portions else 0) as advance:
        for portion in portions:
            chosen = None if asked is None else asked[portion.rows.start : portion.rows.stop]
            one = replace(recipe, stage=PORTION_STAGE, inputs=_inputs(recipe.inputs, portion, chosen))
            refs.append(store.compute(one, partial(judge, portion, chosen)).ref)
            advance(portion.rows.stop)
    return refs


def _inputs(inputs: Mapping[str, Any], portion: Portion, chosen: NDArray[np.bool_] | None) -> dict[str, str]:
    kept = {name: digest for name, digest in inputs.items() if name not in ("features", "labels")}
    asked = {} if chosen is None else {"asked": combine_digests([np.packbits(chosen).tobytes().hex()])}
    return {**kept, **asked, "features": combine_digests(ref.digest for ref in portion.refs)}
