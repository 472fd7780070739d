"""Whether new items fit the recipe of a model, and which of their columns are its features."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from storage.artifacts.schemas import Features
from storage.errors import SourceError
from storage.sources import OpenedSource
from tasks.annotation.model import FittedModel
from tasks.dataset import side_by_side
from tasks.stages.features import FILES, GIVEN, TABLE, extractor_recipe, supplied_part
from tasks.stages.learning import LEARNED
from tasks.stages.links import LINKS

# Column names that only count: such features are matched by position.
_NUMBERED = re.compile(r"f\d+")
_SHOWN = 3


def match_blocks(found: list[Features], model: FittedModel, path: str) -> Any:
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


def column_names(found: list[Features], model: FittedModel) -> list[str] | None:
    """Names of the columns of the feature matrix; None if they have none, such as hashed terms."""
    names: list[str] = []
    for one, block in zip(found, model.blocks, strict=True):
        known = block.recipe.get("feature_names") or one.feature_names
        if known is None and not isinstance(one.X, np.ndarray):
            return None
        own = known or [f"feature {number}" for number in range(one.X.shape[1])]
        names += own if len(found) == 1 else [f"{block.name}: {name}" for name in own]
    return names


def check_recipe(recipe: Mapping[str, Any], source: OpenedSource) -> None:
    """Reject a source of another kind, and a recipe that this installation computes differently."""
    from embedding_core.features.registry import EXTRACTORS, extractor_class

    path, extractor = source.options.path, recipe.get("extractor", GIVEN)
    if extractor == TABLE:  # its columns are matched by name
        return
    if extractor == LINKS:
        raise SourceError(
            "the model was trained on features propagated along links (links:ppr), which belong to the items "
            "of its collection. Run the pipeline on a collection with the new items and their links, or "
            "train on plain features with source.edges: `labelscape auto` offers methods that use links."
        )
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
    check_extractor(recipe)


def check_extractor(recipe: Mapping[str, Any]) -> None:
    """Reject a recipe that this installation computes differently."""
    extractor = recipe["extractor"]
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
    parameters = recipe[recipe["extractor"]]
    places = [f" ({what} {path})" for what, path in _places(parameters) if path]
    return ", ".join(names) + "".join(places)


def _places(parameters: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    return [("model", parameters.get("path")), ("codebook", parameters.get("codebook"))]


def match_columns(found: Features, recipe: Mapping[str, Any], n_features: int, path: str) -> Any:
    """The feature matrix with the columns of the model, matched by name where both have names.

    Columns that the model does not know are ignored. Without names, or with names that only count (f0, f1,
    ...), the number of columns must be equal.
    """
    wanted, names = recipe.get("feature_names"), found.feature_names
    if wanted and names and wanted != names and not is_numbered(wanted) and not is_numbered(names):
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


def is_numbered(names: list[str]) -> bool:
    """Whether names only count."""
    return all(_NUMBERED.fullmatch(name) for name in names)
