"""Annotation: labels and scores for new items from a fitted model and its feature recipe."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.schemas import Features
from storage.errors import SourceError
from storage.sources import Collection, Source
from tasks.dataset import join_features
from tasks.executor import Executor
from tasks.reporter import Reporter
from tasks.stages.chunks import split_items
from tasks.stages.features import GIVEN, advance_after, compute_features, extractor_recipe

if TYPE_CHECKING:
    from embedding_core.annotator import Annotator

# Column names that only count: such features are matched by position.
_NUMBERED = re.compile(r"f\d+")
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Annotations:
    """Labels and scores of new items.

    Attributes
    ----------
    ids : list of n str
    label_names : list of K str
    labels : (n, K) int8 array of 0/1
    scores : (n, K) array in [0, 1]
    skipped : dict
        Reason by id, for items that could not be read.
    """

    ids: list[str]
    label_names: list[str]
    labels: NDArray[np.int8]
    scores: NDArray[np.float64]
    skipped: dict[str, str] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Number of items with each label."""
        return dict(zip(self.label_names, self.labels.sum(axis=0).tolist(), strict=True))


def annotate_source(
    source: Source, model: "Annotator", cache_dir: Path, reporter: Reporter, executor: Executor
) -> Annotations:
    """Label every item of a source; its features are computed exactly as those of the model.

    Raises
    ------
    SourceError
        The items are of another kind than those of the model, no item is readable, or this installation
        computes the model's features differently.
    """
    recipe = dict(model.recipe or {})
    check_recipe(recipe, source)
    collection = source.read(cache_dir)
    if not collection.ids:
        raise SourceError(f"{source.options.path} has no items. Give a source with items to annotate.")
    found = _compute_all(collection, recipe, reporter, executor)
    readable = found.readable
    errors = found.errors or [None] * len(found.ids)
    skipped = {name: why for name, why in zip(found.ids, errors, strict=True) if why is not None}
    if not readable.any():
        name, why = next(iter(skipped.items()))
        raise SourceError(
            f"{source.options.path}: none of {len(found.ids)} items is readable; the first is {name}: {why}."
        )
    X = match_columns(found, recipe, model.n_features_in_, source.options.path)[readable]
    ids = [name for name, fine in zip(found.ids, readable, strict=True) if fine]
    return Annotations(
        ids, [str(name) for name in model.classes_], model.predict(X), model.predict_scores(X), skipped
    )


def _compute_all(
    collection: Collection, recipe: Mapping[str, Any], reporter: Reporter, executor: Executor
) -> Features:
    """Features of all items, computed in portions to limit the number of files in flight."""
    parts: list[Features] = []
    with reporter.progress("features", len(collection.ids)) as advance:
        for rows in split_items(collection.ids):
            parts.append(
                compute_features(collection, rows, recipe, executor, advance_after(rows.start, advance))
            )
            advance(rows.stop)
    return join_features(parts)


def check_recipe(recipe: Mapping[str, Any], source: Source) -> None:
    """Reject a source of another kind, and a recipe that this installation computes differently."""
    from embedding_core.features.registry import EXTRACTORS

    path, extractor = source.options.path, recipe.get("extractor", GIVEN)
    if extractor == GIVEN:
        if source.content != "features":
            raise SourceError(
                f"{path} contains {source.content}, but the model was trained on a table of features. "
                "Give a source with the same features."
            )
        return
    if source.content == "features":
        raise SourceError(
            f"{path} contains features, but the model was trained on images. Give a folder of new images."
        )
    if extractor not in EXTRACTORS:
        raise SourceError(
            f"the model's features come from the extractor {extractor!r}, which this version does not have. "
            "Use the version that trained the model, or train again with `labelscape run`."
        )
    if extractor_recipe(extractor, recipe[extractor]) != recipe:
        raise SourceError(
            "the model's features were computed by another version of the extractor, so features of this "
            "version do not fit it. Train again with `labelscape run`, or use the version of the model."
        )


def match_columns(found: Features, recipe: Mapping[str, Any], n_features: int, path: str) -> Any:
    """The feature matrix with the columns of the model, matched by name where both have names.

    Columns that the model does not know are ignored. Without names, or with names that only count (f0, f1,
    ...), the number of columns must be equal.
    """
    wanted, names = recipe.get("feature_names"), found.feature_names
    if wanted and names and wanted != names and not _is_numbered(wanted) and not _is_numbered(names):
        missing = [name for name in wanted if name not in set(names)]
        if missing:
            shown = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
            raise SourceError(
                f"{path} lacks {len(missing)} of the {len(wanted)} features of the model: {shown}. "
                "Give a source with the same features."
            )
        position = {name: number for number, name in enumerate(names)}
        return found.X[:, [position[name] for name in wanted]]
    if found.X.shape[1] != n_features:
        raise SourceError(
            f"{path} has {found.X.shape[1]} features; the model was trained on {n_features}. "
            "Give the same features in the same order."
        )
    return found.X


def _is_numbered(names: list[str]) -> bool:
    return all(_NUMBERED.fullmatch(name) for name in names)


def write_annotations(found: Annotations, out: Path, facts: Mapping[str, str]) -> list[Path]:
    """Write one row per item as Parquet and CSV: id, labels joined by |, and one score per label."""
    import pyarrow as pa

    from storage.exports import write_csv, write_parquet

    joined = ["|".join(np.array(found.label_names)[row > 0]) for row in found.labels]
    columns: dict[str, Any] = {"id": found.ids, "labels": joined}
    columns |= {f"score:{name}": found.scores[:, k] for k, name in enumerate(found.label_names)}
    table = pa.table(columns).replace_schema_metadata(dict(facts))
    return [
        write_parquet(table, out.with_name(out.name + ".parquet"), "--out"),
        write_csv(table, out.with_name(out.name + ".csv"), "--out"),
    ]
