"""Annotation: labels and scores for new items, by a fitted model and its own feature recipe."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import SourceError
from storage.sources.image_files import list_images
from storage.sources.table import read_features
from tasks.executor import Executor
from tasks.reporter import Reporter
from tasks.stages.features import feature_code, make_moments

if TYPE_CHECKING:
    from embedding_core.annotator import Annotator


@dataclass(frozen=True, eq=False)
class Annotations:
    """What a model says of new items.

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
        """How many items got each label."""
        return dict(zip(self.label_names, self.labels.sum(axis=0).tolist(), strict=True))


def annotate_images(folder: Path, model: "Annotator", reporter: Reporter, executor: Executor) -> Annotations:
    """Label the images below a folder, their features made exactly as the model's were."""
    from embedding_core.features.extraction import extract_many

    recipe = dict(model.recipe or {})
    check_recipe(recipe)
    listing = list_images(folder)
    if not listing.images:
        raise SourceError(f"{folder} holds no images; give the folder of the new images.")
    names, paths = list(listing.images), list(listing.images.values())
    rows: list[NDArray[np.float32]] = []
    ids: list[str] = []
    skipped: dict[str, str] = {}
    with reporter.progress("features", len(paths)) as advance:
        for index, vector, error in extract_many(paths, make_moments(recipe), executor.map, on_done=advance):
            if vector is None:
                skipped[names[index]] = str(error)
            else:
                ids.append(names[index])
                rows.append(vector)
    if not rows:
        name, why = next(iter(skipped.items()))
        raise SourceError(f"{folder}: none of {len(paths)} images is readable; the first is {name}: {why}.")
    return _annotate(model, ids, np.stack(rows), skipped)


def annotate_table(file: Path, model: "Annotator") -> Annotations:
    """Label the rows of a table that has the feature columns of the model's own table."""
    if dict(model.recipe or {}).get("kind") != "given":
        raise SourceError(
            f"{file} is a file, but the model was trained on images; give the folder of the new images."
        )
    ids, X = read_features(file)
    if X.shape[1] != model.n_features_in_:
        raise SourceError(
            f"{file} has {X.shape[1]} feature columns; the model was trained on {model.n_features_in_}. "
            "Give the same columns f0, f1, ... in the same order."
        )
    return _annotate(model, ids, X, {})


def check_recipe(recipe: Mapping[str, Any]) -> None:
    """Refuse a model whose features this installation would make in another way."""
    if recipe.get("kind") != "color_moments":
        raise SourceError(
            "the model was trained on given features, not on images; annotate a table with the same columns."
        )
    if recipe.get("code") != feature_code():
        raise SourceError(
            "the model's features were made by another version of the extraction than this one, so its "
            "coordinates would not fit. Train again with `labelscape run`, or use the version it came from."
        )


def _annotate(model: "Annotator", ids: list[str], X: Any, skipped: dict[str, str]) -> Annotations:
    scores = model.predict_scores(X)
    return Annotations(ids, [str(name) for name in model.classes_], model.predict(X), scores, skipped)


def write_annotations(found: Annotations, out: Path, facts: Mapping[str, str]) -> list[Path]:
    """Write one row an item as Parquet and CSV: id, labels joined by |, and a score a label."""
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
