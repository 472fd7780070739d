"""Load the arrays that the stages after features work on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.columns import read_metadata
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.schemas import (
    Features,
    unpack_blocks,
    unpack_edges,
    unpack_features,
    unpack_manifest,
    unpack_parts,
)
from storage.artifacts.store import ArtifactStore
from storage.errors import ArtifactGone, SourceError
from storage.sources.base import combine_digests
from tasks.stages.chunks import PART_STAGE

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Dataset:
    """Items with readable features, one row per item.

    Attributes
    ----------
    ids : list of n str
    X : (n, p) float32 array or CSR array
    Y : (n, K) int8 array
        0/1; rows of -1 for unlabeled items.
    label_names : list of K str
    single_label : bool
    split : list of n str, or None
        Split of each item, if the source states one.
    errors : dict
        Reason by id, for items without features, which are not included.
    recipe : dict
        How the features were computed. For supplied features it includes their names, so that a model can
        check new items.
    """

    ids: list[str]
    X: Any
    Y: NDArray[np.int8]
    label_names: list[str]
    single_label: bool
    errors: dict[str, str]
    recipe: dict[str, Any]
    split: list[str | None] | None = None

    @property
    def blocks(self) -> list[dict[str, Any]] | None:
        """See `prepared_blocks`."""
        return prepared_blocks(self.recipe)


def describe_features(recipe: Mapping[str, Any]) -> str:
    """Name the extractors of features, with a digest of their parameters; code and files do not matter."""
    blocks = [one["recipe"] for one in recipe.get("blocks", ())] or [recipe]
    names = [str(one.get("extractor", "given")) for one in blocks]
    facts = [[name, one.get(name, {}), one.get("part", "")] for name, one in zip(names, blocks, strict=True)]
    return f"{'+'.join(names)} {combine_digests([canonical_json(facts)])[:8]}"


def prepared_blocks(recipe: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """How methods prepare the blocks of X; None for a single block that `scale` prepares."""
    if "blocks" not in recipe:
        return None
    return [{"name": one["name"], **one["preparation"]} for one in recipe["blocks"]]


def part_refs(store: ArtifactStore, features: ArtifactRef) -> list[ArtifactRef]:
    """References of the portions of a features artifact."""
    parts = unpack_parts(store.read(features))
    refs = [store.ref(PART_STAGE, key) for key in parts.keys]
    if [ref.digest for ref in refs] != parts.digests:
        raise ArtifactGone("A portion of the features was recomputed with another result", "run again")
    return refs


def load_features(store: ArtifactStore, features: ArtifactRef) -> Features:
    """Load all portions of all blocks, including unreadable items."""
    found, blocks = load_blocks(store, features)
    return join_blocks(found, blocks) if blocks else found[0]


def load_blocks(
    store: ArtifactStore, features: ArtifactRef
) -> tuple[list[Features], list[dict[str, Any]] | None]:
    """Load each block of features, and how it is prepared; None for a single block that is not joined."""
    if features.kind != "blocks":
        table = store.read(features)
        if read_metadata(table)["kind"] != "parts":  # features that are computed together, in one table
            return [unpack_features(table)], None
        refs = part_refs(store, features)
        return [join_features((unpack_features(store.read(ref)) for ref in refs), n=_row_count(refs))], None
    refs, blocks = unpack_blocks(store.read(features))
    return [load_features(store, ref) for ref in refs], blocks


def join_blocks(found: list[Features], blocks: list[dict[str, Any]]) -> Features:
    """Put blocks of features of the same items side by side."""
    made = [
        {
            "name": block["name"],
            "recipe": _named_recipe(one),
            "preparation": {name: value for name, value in block.items() if name != "name"},
        }
        for one, block in zip(found, blocks, strict=True)
    ]
    errors = zip(*(one.errors or [None] * len(one.ids) for one in found), strict=True)
    return Features(
        ids=found[0].ids,
        digests=found[0].digests,
        X=side_by_side([one.X for one in found]),
        errors=[next((error for error in row if error is not None), None) for row in errors],
        recipe={"extractor": "joined", "blocks": made},
        feature_names=_joined_names(found, blocks),
    )


def _joined_names(found: list[Features], blocks: list[dict[str, Any]]) -> list[str] | None:
    """Names of all columns; None beside hashed terms, whose columns are many and have no names."""
    if any(block.get("terms", "none") != "none" for block in blocks):
        return None
    return [
        f"{block['name']}:{name}"
        for one, block in zip(found, blocks, strict=True)
        for name in one.feature_names or map(str, range(one.X.shape[1]))
    ]


def side_by_side(parts: list[Any]) -> Any:
    """One matrix of several; sparse if one of them is."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.hstack(parts)
    from scipy.sparse import csr_array, hstack

    return hstack([csr_array(part) for part in parts], format="csr")


def _row_count(refs: Sequence[ArtifactRef]) -> int:
    return sum(ref.rows for ref in refs)


def join_features(parts: Iterable[Features], n: int) -> Features:
    """Concatenate portions of n rows in total; dense ones are in memory one at a time."""
    ids: list[str] = []
    digests: list[str] = []
    errors: list[str | None] = []
    sparse: list[Any] = []
    X: Any = None
    for part in parts:
        if isinstance(part.X, np.ndarray):
            if X is None:
                first, X = part, np.empty((n, part.X.shape[1]), dtype=part.X.dtype)
            X[len(ids) : len(ids) + len(part.ids)] = part.X
        else:
            first = part if not sparse else first
            sparse.append(part.X)
        ids += part.ids
        digests += part.digests
        errors += part.errors or [None] * len(part.ids)
    if sparse:
        from scipy.sparse import vstack

        X = vstack(sparse, format="csr")
    return Features(ids, digests, X, errors, first.recipe, first.feature_names)


@lru_cache(maxsize=2)
def load_dataset(store: ArtifactStore, manifest: ArtifactRef, features: ArtifactRef) -> Dataset:
    """Features and labels of the readable items. Stages share the arrays, which are read-only."""
    items, found = unpack_manifest(store.read(manifest)), load_features(store, features)
    readable = found.readable
    # a selection of all rows would be a second copy in memory
    X, Y = found.X if readable.all() else found.X[readable], items.labels[readable]
    if isinstance(X, np.ndarray):
        X.flags.writeable = False
    Y.flags.writeable = False
    _check_labeled(Y, items.label_names)
    return Dataset(
        ids=[name for name, fine in zip(found.ids, readable, strict=True) if fine],
        X=X,
        Y=Y,
        label_names=items.label_names,
        single_label=items.single_label,
        errors={n: e for n, e in zip(found.ids, found.errors or [], strict=True) if e is not None},
        recipe=_named_recipe(found),
        split=None if items.split is None else [items.split[i] for i in np.flatnonzero(readable)],
    )


def _named_recipe(found: Features) -> dict[str, Any]:
    """The recipe, with the names of supplied features."""
    given = found.recipe.get("extractor") in ("given", "table") and found.feature_names
    return {**found.recipe, "feature_names": list(found.feature_names or [])} if given else dict(found.recipe)


def load_graph(store: ArtifactStore, affinity: ArtifactRef | None) -> "csr_array":
    """Load the graph of the readable items."""
    assert affinity is not None
    return unpack_edges(store.read(affinity))


def _check_labeled(Y: NDArray[np.int8], label_names: list[str]) -> None:
    labeled = (Y >= 0).all(axis=1)
    used = int((Y[labeled] > 0).any(axis=0).sum())
    if used < 2:
        raise SourceError(
            f"{int(labeled.sum())} readable items are labeled and have {used} different label(s) of "
            f"{len(label_names)}; an embedding needs two or more. Label more items, or fix unreadable ones."
        )
