"""Annotation: labels and scores for new items from a fitted model, with the features of its recipe."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedding_core.registry import method_modules
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Annotations, Features, pack_annotations, unpack_annotations
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceError
from storage.sources import OpenedSource
from tasks.dataset import load_blocks, side_by_side
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.feature_blocks import BlockPlan, blocks_of_recipe
from tasks.stages.features import FILES, GIVEN, TABLE, extractor_recipe, supplied_part
from tasks.stages.learning import LEARNED

if TYPE_CHECKING:
    from embedding_core.annotator import Annotator

# Column names that only count: such features are matched by position.
_NUMBERED = re.compile(r"f\d+")
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model that annotates.

    Attributes
    ----------
    annotator : Annotator
    digest : str
        Digest of the stored bytes of the model.
    run, method : str
        The tracked run it belongs to, and its name in that run.
    """

    annotator: "Annotator"
    digest: str
    run: str
    method: str

    @property
    def facts(self) -> dict[str, str]:
        """The run and the method, as the annotations record them."""
        return {"run": self.run, "method": self.method}

    @property
    def recipe(self) -> dict[str, Any]:
        """How the features that the model was fitted to were computed."""
        return dict(self.annotator.recipe or {})

    @property
    def blocks(self) -> list[BlockPlan]:
        """The blocks of features that the model was fitted to."""
        return blocks_of_recipe(self.recipe)

    @property
    def supplied_names(self) -> tuple[str, ...]:
        """Names of the features that the source supplied."""
        given = [block.recipe for block in self.blocks if block.recipe.get("extractor", GIVEN) == GIVEN]
        return tuple(name for recipe in given for name in recipe.get("feature_names") or ())


def stage(model: FittedModel, path: str, features: ArtifactRef | None, workspace: Workspace) -> Stage:
    """Labels and scores of all readable items.

    Raises
    ------
    SourceError
        The supplied features are not those of the model.
    """
    annotator = model.annotator
    return Stage(
        name="annotation",
        code=(*method_modules(annotator.method, annotator.params or {}), "embedding_core.annotator"),
        params=model.facts,
        inputs={"features": digest_of(features), "model": model.digest},
        produce=lambda: _annotate(model, path, features, workspace),
    )


def load_annotations(store: ArtifactStore, ref: ArtifactRef) -> Annotations:
    """Load the labels and scores that the stage stored."""
    return unpack_annotations(store.read(ref))


def _annotate(model: FittedModel, path: str, features: ArtifactRef | None, workspace: Workspace) -> Artifact:
    assert features is not None
    annotator, (found, _) = model.annotator, load_blocks(workspace.store, features)
    readable = np.logical_and.reduce([one.readable for one in found])
    X = _match_blocks(found, model, path)[readable]
    return pack_annotations(
        Annotations(
            ids=[name for name, fine in zip(found[0].ids, readable, strict=True) if fine],
            label_names=[str(name) for name in annotator.classes_],
            labels=annotator.predict(X),
            scores=annotator.predict_scores(X),
        )
    )


def _match_blocks(found: list[Features], model: FittedModel, path: str) -> Any:
    """The feature matrix with the columns of the model, block by block."""
    matched = [
        match_columns(
            one,
            block.recipe,
            block.preparation.get("width", model.annotator.n_features_in_),
            path if block.recipe.get("extractor") != TABLE else block.name,
        )
        for one, block in zip(found, model.blocks, strict=True)
    ]
    return side_by_side(matched)


def check_recipe(recipe: Mapping[str, Any], source: OpenedSource) -> None:
    """Reject a source of another kind, and a recipe that this installation computes differently."""
    from embedding_core.features.registry import EXTRACTORS, extractor_class

    path, extractor = source.options.path, recipe.get("extractor", GIVEN)
    if extractor == TABLE:  # its columns are matched by name
        return
    contents = " and ".join(source.contents)
    if extractor == GIVEN:
        if "features" not in source.contents:
            raise SourceError(
                f"{path} contains {contents}, but the model was trained on a table of features. "
                "Give a source with the same features."
            )
        part = supplied_part(recipe, source.part_names)
        if part not in source.part_names:
            raise SourceError(
                f"{path} has no block of features {part!r}, which the model was trained on, but "
                f"{', '.join(source.part_names)}. Give a source with the same columns."
            )
        return
    if extractor not in EXTRACTORS:
        raise SourceError(
            f"the model's features come from the extractor {extractor!r}, which this version does not have. "
            "Use the version that trained the model, or train again with `labelscape run`."
        )
    reads = extractor_class(extractor).reads
    if reads not in source.contents:
        raise SourceError(
            f"{path} contains {contents}, but the model was trained on {reads}. Give a source of new {reads}."
        )
    now = extractor_recipe(extractor, recipe[extractor])
    if now.get(FILES) != recipe.get(FILES):
        raise SourceError(
            f"the model's features were computed with another content of {_changed_files(now, recipe)}. "
            "Restore it, or train again with `labelscape run`."
        )
    if now != {name: value for name, value in recipe.items() if name != LEARNED}:
        raise SourceError(
            "the model's features were computed by another version of the extractor, so features of this "
            "version do not fit it. Train again with `labelscape run`, or use the version of the model."
        )


def _changed_files(now: Mapping[str, Any], recipe: Mapping[str, Any]) -> str:
    """The files of the extractor that are not those of the recipe, with the path of the model."""
    before, after = recipe.get(FILES, {}), now.get(FILES, {})
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return f"{', '.join(names)} (model {recipe[recipe['extractor']].get('path')})"


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
