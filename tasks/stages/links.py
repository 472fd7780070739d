"""Features propagated along given links: the block `links:ppr`, which every method can use."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Features, pack_features
from storage.errors import ConfigError
from tasks.dataset import load_features
from tasks.settings import SourceSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.affinity import digest_edges, given_edges

LINKS = "links"
"""Name of the extractor in recipes and settings."""
KINDS: Mapping[str, str] = {"ppr": "symmetric", "ppr-both": "both"}
"""What may follow `links:`, and the direction that it means."""


def links_recipe(kind: str, base: str, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """How a block of propagated features is computed: from the block `base` and its recipe."""
    if kind not in KINDS:
        raise ConfigError(
            f"features.extractors: {LINKS}:{kind} is not known; choose from "
            f"{', '.join(f'{LINKS}:{name}' for name in KINDS)} (both directions as separate columns)."
        )
    return {"extractor": LINKS, LINKS: {"kind": kind, "base": base, "recipe": dict(recipe)}}


def stage(
    recipe: Mapping[str, Any],
    base: ArtifactRef | None,
    place: SourceSettings,
    variant: str,
    workspace: Workspace,
) -> Stage:
    """The features of one block, propagated along the links of `source.edges`.

    A changed link makes this stage stale and leaves the block that it starts from fresh.
    """
    if place.edges is None:
        raise ConfigError(
            f"features.extractors names {LINKS}:{recipe[LINKS]['kind']}, but source.edges is not set; name "
            "the links there."
        )
    edges = digest_edges(place, workspace)
    return Stage(
        name="features",
        variant=variant,
        code=("embedding_core.graph.propagation", "storage.sources.edges"),
        params=dict(recipe),
        inputs={"features": digest_of(base), "edges": edges},
        produce=lambda: _propagate(recipe, base, edges, place, workspace),
    )


def _propagate(
    recipe: Mapping[str, Any],
    base: ArtifactRef | None,
    edges: str,
    place: SourceSettings,
    workspace: Workspace,
) -> Artifact:
    from embedding_core.graph.propagation import LinkPropagation
    from embedding_core.graph.supplied import directed_from_edges

    assert base is not None
    found = load_features(workspace.store, base)
    links = directed_from_edges(*given_edges(place, edges, found.ids, workspace), len(found.ids))
    fine = np.flatnonzero(found.readable)
    spread = LinkPropagation(direction=KINDS[recipe[LINKS]["kind"]])
    made = spread.fit_transform(found.X[fine], links[fine][:, fine])
    X = np.full((len(found.ids), made.shape[1]), np.nan, dtype=np.float32)
    X[fine] = made
    return pack_features(Features(found.ids, found.digests, X, found.errors, dict(recipe)))
