"""Blocks of features: a stage for each extractor, and the stage that joins several blocks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from embedding_core.blocks import FeatureBlock
from embedding_core.features.registry import parse_choice
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef, canonical_json, stage_label
from storage.artifacts.schemas import Features, pack_blocks
from storage.errors import ConfigError, SourceError
from storage.sources import OpenedSource
from storage.sources.base import PartName
from storage.sources.feature_table import digest_table
from tasks.dataset import load_features
from tasks.settings import FeatureSettings, SourceSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.features import (
    COLUMNS,
    FILES,
    GIVEN,
    MISSING,
    TABLE,
    extractor_recipe,
    find_part,
    load_skipped,
    make_extractor,
    read_content,
    recipe_stage,
)
from tasks.stages.known_rows import SKIPPED
from tasks.stages.learning import LEARNED, learned_variant, learning_stage
from tasks.stages.links import LINKS, links_recipe
from tasks.stages.links import stage as links_stage
from tasks.stages.missing_parts import Lacking, left_out, load_lacking

# What `features.extractors = ["auto"]` means for each content of a source.
DEFAULT_EXTRACTORS: Mapping[str, str] = {
    "images": "color_moments",
    "sound": "mfcc",
    "text": "tfidf",
    "features": GIVEN,
}


@dataclass(frozen=True)
class BlockPlan:
    """One block before it is computed.

    Attributes
    ----------
    name : str
        Its extractor as the configuration names it.
    recipe : mapping
        How its rows are computed; see `tasks.stages.features.extractor_recipe`.
    preparation : mapping
        How methods prepare it: fields of `embedding_core.blocks.FeatureBlock`.
    """

    name: str
    recipe: Mapping[str, Any]
    preparation: Mapping[str, Any]

    @property
    def is_propagated(self) -> bool:
        """Whether its rows are those of another block, propagated along links."""
        return self.recipe.get("extractor") == LINKS

    @property
    def fills(self) -> bool:
        """Whether missing values are filled in."""
        return bool(self.preparation.get("fill", "none") != "none")

    @property
    def is_prepared(self) -> bool:
        """Whether methods do more than scale it, which only a joined artifact can state."""
        terms, alternatives = self.preparation.get("terms", "none"), self.preparation.get("alternatives", 1)
        return self.fills or bool(terms != "none" or alternatives > 1)


def plan_blocks(
    settings: FeatureSettings,
    source: OpenedSource,
    lacking: Mapping[str, Lacking] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[BlockPlan]:
    """The blocks that a configuration asks for, in its order.

    Parameters
    ----------
    lacking : mapping, optional
        Items without a part, by its name. The automatic choice leaves out a part that no item has.
    say : callable
        Reports what is left out.
    """
    names = settings.extractors
    if names == ("auto",):
        absent = left_out(source.parts, lacking or {})
        for part in absent:
            say(f"no item has {part.content}: {DEFAULT_EXTRACTORS[part.content]} is left out")
        names = tuple(_default_choice(part) for part in source.parts if part not in absent)
    choices = {_block_name(choice): choice for choice in names}
    if len(choices) < len(names):
        raise ConfigError("features.extractors: two models have the same file name; rename one of them.")
    for choice in names:
        _check_content(choice, source)
    _check_names("features.scales", settings.scales, choices)
    _check_names("features.weights", settings.weights, choices)
    spread = [choice for choice in names if choice.partition(":")[0] == LINKS]
    plain = [choice for choice in names if choice not in spread]
    base = plain[0] if plain else _default_choice(source.parts[0])
    return [_plan_block(name, choice, settings, base, len(choices) > 1) for name, choice in choices.items()]


def _plan_block(name: str, choice: str, settings: FeatureSettings, base: str, joined: bool) -> BlockPlan:
    kind, _, value = choice.partition(":")
    if kind == LINKS:
        recipe = links_recipe(value, _block_name(base), _recipe(base, settings))
    else:
        recipe = _recipe(choice, settings)
    preparation = {
        "scale": settings.scales.get(name, settings.resolve_scale(content_read(choice), joined)),
        "weight": settings.weights.get(name, 1.0),
        **_preparation(recipe, settings),
    }
    return BlockPlan(name, recipe, preparation)


def content_read(choice: str) -> str:
    """Content of the items that an extractor reads."""
    return read_content(choice.partition(":")[0])


def _preparation(recipe: Mapping[str, Any], settings: FeatureSettings) -> dict[str, Any]:
    """How missing values are filled in, how terms are weighed, and among how many alternatives to choose.

    A text without terms is never filled in.
    """
    if recipe["extractor"] == LINKS:
        return {"fill": "none"}
    if recipe["extractor"] in (GIVEN, TABLE):
        return {"fill": settings.fill}
    extractor = make_extractor(recipe)
    if extractor.terms != "none":
        return {"fill": "none", "terms": extractor.terms}
    several: dict[str, Any] = {"alternatives": extractor.alternatives} if extractor.alternatives > 1 else {}
    if extractor.alternative_names:
        several["alternative_names"] = list(extractor.alternative_names)
    return {"fill": settings.fill, **several}


def _default_choice(part: PartName) -> str:
    """What `auto` means for a part of the items; each of several supplied blocks is named."""
    choice = DEFAULT_EXTRACTORS[part.content]
    return f"{choice}:{part.name}" if choice == GIVEN and part.name != GIVEN else choice


def _block_name(choice: str) -> str:
    """Short name of a block: `onnx:clip.onnx` for a model in a folder."""
    extractor, colon, value = choice.partition(":")
    return choice if extractor == GIVEN else f"{extractor}{colon}{Path(value).name}"


def _recipe(choice: str, settings: FeatureSettings) -> dict[str, Any]:
    name, colon, part = choice.partition(":")
    if name == TABLE:
        return table_recipe(part, settings.fills)
    if name == GIVEN:
        # Without `missing` a table with gaps is refused, even if its manifest is known.
        filled = {MISSING: True} if settings.fills else {}
        return {"extractor": GIVEN, **({"part": part} if colon else {}), **filled}
    return extractor_recipe(parse_choice(choice)[0], settings.parameters(choice))


def table_recipe(path: str, fills: bool) -> dict[str, Any]:
    """How the features of `table:PATH` are read: the path, and the bytes of the table as they are now."""
    digest = digest_table(Path(path))
    return {"extractor": TABLE, TABLE: {"path": path}, MISSING: fills, FILES: {Path(path).name: digest}}


def use_tables(blocks: Sequence[BlockPlan], paths: Sequence[str]) -> list[BlockPlan]:
    """The blocks of a model for new items: its tables as they are now, or others in their place.

    Parameters
    ----------
    blocks : sequence of BlockPlan
    paths : sequence of str
        One table for each `table:PATH` of the model, in its order; empty: those of the model.
    """
    tables = [block for block in blocks if block.recipe.get("extractor") == TABLE]
    if paths and len(paths) != len(tables):
        names = ", ".join(block.name for block in tables) or "none"
        raise ConfigError(
            f"--table is given {len(paths)} times; the model uses {len(tables)} tables ({names})."
        )
    chosen = dict(zip((block.name for block in tables), paths, strict=False))
    made = []
    for block in blocks:
        if block.recipe.get("extractor") != TABLE:
            made.append(block)
            continue
        path = chosen.get(block.name, block.recipe[TABLE]["path"])
        if not Path(path).is_file():
            raise SourceError(
                f"the model uses the features of {block.name}, but there is no file {path}. Give the table "
                "with the features of the new items: --table PATH."
            )
        known = {COLUMNS: block.recipe["feature_names"]} if block.recipe.get("feature_names") else {}
        made.append(replace(block, recipe={**table_recipe(path, block.fills), **known}))
    return made


def _check_content(choice: str, source: OpenedSource) -> None:
    name, _, part = choice.partition(":")
    if name in (TABLE, LINKS):
        return
    reads = content_read(choice)
    contents = " and ".join(source.contents)
    if reads not in source.contents:
        raise ConfigError(
            f"features.extractors: {name} reads {reads}, but {source.options.path} contains "
            f"{contents}. Set features.extractors to auto, or name extractors that read {contents}."
        )
    given = [one.name for one in source.parts if one.content == "features"]
    if name == GIVEN and (part or GIVEN) not in given:
        choices = ", ".join(GIVEN if one == GIVEN else f"{GIVEN}:{one}" for one in given)
        raise ConfigError(
            f"features.extractors: {source.options.path} supplies no block {choice!r}; choose from {choices}."
        )


def _check_names(setting: str, given: Mapping[str, Any], names: Mapping[str, str]) -> None:
    odd = [name for name in given if name not in names]
    if odd:
        raise ConfigError(
            f"{setting} names {odd[0]!r}, which is not among the extractors: {', '.join(names)}."
        )


def blocks_of_recipe(recipe: Mapping[str, Any]) -> list[BlockPlan]:
    """The blocks that a model was trained on."""
    if "blocks" not in recipe:
        return [BlockPlan(recipe.get("extractor", GIVEN), recipe or {"extractor": GIVEN}, {})]
    return [BlockPlan(one["name"], one["recipe"], one["preparation"]) for one in recipe["blocks"]]


def _extraction(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe without the names of supplied features, which a new table may have in another order."""
    return {name: value for name, value in recipe.items() if name != "feature_names"}


def block_stages(
    blocks: Sequence[BlockPlan],
    place: SourceSettings,
    source: OpenedSource,
    manifest: ArtifactRef | None,
    made: Mapping[str, ArtifactRef | None],
    workspace: Workspace,
) -> Iterator[Stage]:
    """A stage for each block, then the stage that joins them; a single plain block needs no joining.

    Parameters
    ----------
    made : mapping
        Artifacts of the stages yielded before, by variant. The caller fills it between two stages.
    """

    def check() -> None:
        """Refuse missing parts of any block before the first file is read."""
        refuse_lacking(blocks, source.parts, load_lacking(manifest, workspace.store))

    def extract(name: str, given: Mapping[str, Any], variant: str) -> Iterator[Stage]:
        recipe = _extraction(given)
        if _must_learn(recipe):
            extractor, part = make_extractor(recipe), find_part(recipe, source.parts)
            yield learning_stage(extractor, name, recipe, part, place, source, manifest, workspace, check)
            ref = made[learned_variant(name)]
            recipe[LEARNED] = None if ref is None else {"key": ref.key, "digest": ref.digest}
        yield recipe_stage(recipe, place, source, manifest, workspace, variant, check)

    # Propagated features start from another block, which may be named after them or not at all.
    for block in sorted(blocks, key=lambda block: block.is_propagated):
        variant = block.name if _are_joined(blocks) else ""
        if not block.is_propagated:
            yield from extract(block.name, block.recipe, variant)
            continue
        base = block.recipe[LINKS]["base"]
        if base not in made:
            yield from extract(base, block.recipe[LINKS]["recipe"], base)
        yield links_stage(block.recipe, made[base], place, variant, workspace)
    if _are_joined(blocks):
        yield _join_stage(blocks, {block.name: made[block.name] for block in blocks}, workspace)


def refuse_lacking(
    blocks: Iterable[BlockPlan], parts: Sequence[PartName], lacking: Mapping[str, Lacking]
) -> None:
    """Raise SourceError for the first block that reads, and does not fill in, a part which items lack."""
    for block in blocks:
        extractor = block.recipe["extractor"]
        if extractor in (GIVEN, TABLE, LINKS) or block.fills:
            continue
        if found := lacking.get(find_part(block.recipe, parts)):
            found.refuse(extractor, read_content(extractor))


def _must_learn(recipe: Mapping[str, Any]) -> bool:
    """Whether the extractor of a recipe learns from the training items first; that of a model has learned."""
    extracted = recipe["extractor"] not in (GIVEN, TABLE, LINKS)
    return extracted and LEARNED not in recipe and make_extractor(recipe).learns


def find_block(blocks: Sequence[BlockPlan], label: str) -> BlockPlan | None:
    """The block that a stage with this label computes; None for stages that join blocks or learn."""
    if label in {stage_label("features", learned_variant(block.name)) for block in blocks}:
        return None
    extracted = [block for block in blocks if not block.is_propagated]
    if not _are_joined(blocks):
        return extracted[0] if extracted else None
    return next((block for block in extracted if label == stage_label("features", block.name)), None)


def _are_joined(blocks: Sequence[BlockPlan]) -> bool:
    return len(blocks) > 1 or any(block.is_prepared for block in blocks)


def _join_stage(
    blocks: Sequence[BlockPlan], refs: Mapping[str, ArtifactRef | None], workspace: Workspace
) -> Stage:
    return Stage(
        name="features",
        code=("embedding_core.preprocessing",),
        params={"blocks": [{"name": block.name, **block.preparation} for block in blocks]},
        inputs={name: digest_of(ref) for name, ref in refs.items()},
        produce=lambda: _join(blocks, refs, workspace),
    )


def _check_lacking(block: BlockPlan, features: Features, workspace: Workspace) -> None:
    """Report the items without this block; raise SourceError if their features are not filled in."""
    if not isinstance(features.X, np.ndarray):
        return
    rows = np.flatnonzero(features.readable & np.isnan(features.X).all(axis=1))
    lacking = Lacking.of([features.ids[row] for row in rows], len(features.ids))
    content = read_content(block.recipe["extractor"])
    if not block.fills:
        lacking.refuse(block.recipe["extractor"], content)
    elif lacking.count:
        filled = f"{block.name} is filled with the {block.preparation['fill']}"
        workspace.reporter.say(f"  {lacking.describe(content)}; {filled}")


def _join(
    blocks: Sequence[BlockPlan], refs: Mapping[str, ArtifactRef | None], workspace: Workspace
) -> Artifact:
    store, found = workspace.store, [ref for ref in refs.values() if ref is not None]
    prepared: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    ids: list[str] | None = None
    for block, ref in zip(blocks, found, strict=True):
        features = load_features(store, ref)
        if ids is not None and features.ids != ids:
            raise SourceError("the blocks of features describe different items; run again.")
        ids = features.ids
        _check_lacking(block, features, workspace)
        prepared.append(
            FeatureBlock(block.name, **{**block.preparation, "width": features.X.shape[1]}).to_json()
        )
        skipped |= {name: f"{block.name}: {why}" for name, why in load_skipped(store, ref).items()}
    packed = pack_blocks(found, prepared)
    return replace(packed, metadata={**packed.metadata, SKIPPED: canonical_json(skipped)}, links=tuple(found))
