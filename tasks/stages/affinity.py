"""Affinity: a sparse graph of the items, built from features or read from an edge list."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import pack_edges
from storage.errors import ConfigError
from storage.sources import read_edges
from storage.sources.listing import digest_files, index_path
from tasks.dataset import load_features, prepared_blocks
from tasks.settings import AffinitySettings, SourceSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.ingest import changed_meanwhile
from tasks.stages.neighbors import limit_neighbors

_GIGABYTE = 1e9
# Storing the edges and checking symmetry takes a multiple of the memory of the graph.
_DENSE_MATRICES = 6
_DENSE_ADVICE = "set affinity.graph to knn, or raise affinity.memory_budget_gb"
_CODE = {
    "given": ("storage.sources.edges", "embedding_core.graph.supplied"),
    "knn": ("embedding_core.graph.affinity", "embedding_core.preprocessing"),
    "gaussian": ("embedding_core.graph.affinity", "embedding_core.preprocessing"),
}


def stage(
    settings: AffinitySettings,
    source: SourceSettings,
    scale: str,
    features: ArtifactRef | None,
    workspace: Workspace,
) -> Stage:
    """The graph of the readable items, in the order of their features."""
    kind = resolve_graph(settings, source)
    inputs = {"features": digest_of(features)}
    edges = _digest_edges(source, workspace) if kind == "given" else None
    if edges is not None:
        inputs["edges"] = edges
    return Stage(
        name="affinity",
        code=_CODE[kind],
        params=_params(settings, kind, scale),
        inputs=inputs,
        produce=lambda: (
            _take_given(source, edges, features, workspace)
            if edges is not None
            else _build(settings, kind, scale, features, workspace)
        ),
    )


def resolve_graph(settings: AffinitySettings, source: SourceSettings) -> str:
    """The kind of graph; `auto` selects the given edges if there are any, else kNN."""
    if settings.graph == "given" and source.edges is None:
        raise ConfigError("affinity.graph is 'given', but source.edges is not set; name an edge list there.")
    if settings.graph == "auto":
        return "given" if source.edges else "knn"
    return settings.graph


def _params(settings: AffinitySettings, kind: str, scale: str) -> dict[str, Any]:
    """The settings that this kind of graph uses; changes of other settings leave it fresh."""
    used = {
        "given": (),
        "knn": ("n_neighbors", "weights", "sigma"),
        "gaussian": ("sigma",),
    }[kind]
    own = {name: getattr(settings, name) for name in used}
    return {"graph": kind, **own} if kind == "given" else {"graph": kind, "scale": scale, **own}


def _digest_edges(source: SourceSettings, workspace: Workspace) -> str:
    edges = Path(str(source.edges))
    return digest_files([edges], index_path(workspace.cache_dir, edges))[0]


def _take_given(
    source: SourceSettings, digest: str, features: ArtifactRef | None, workspace: Workspace
) -> Artifact:
    from embedding_core.graph.supplied import graph_from_edges

    assert features is not None
    found = load_features(workspace.store, features)
    edges = read_edges(Path(str(source.edges)), found.ids)
    if _digest_edges(source, workspace) != digest:
        raise changed_meanwhile(str(source.edges))
    # Edges may refer to positions in the whole collection, so drop unreadable items afterwards.
    graph = graph_from_edges(*edges, len(found.ids))
    return pack_edges(graph[found.readable][:, found.readable])


def _build(
    settings: AffinitySettings, kind: str, scale: str, features: ArtifactRef | None, workspace: Workspace
) -> Artifact:
    from embedding_core.graph.affinity import build_gaussian_graph, build_knn_graph, check_dense_size

    assert features is not None
    found = load_features(workspace.store, features)
    X = found.X[found.readable]
    X = _scaler(found.recipe, scale).fit(X).transform(X)
    if kind == "knn":
        n_neighbors = limit_neighbors(
            "affinity.n_neighbors", settings.n_neighbors, X.shape[0] - 1, workspace.reporter
        )
        return pack_edges(build_knn_graph(X, n_neighbors, settings.weights, settings.sigma))
    budget = settings.memory_budget_gb * _GIGABYTE
    check_dense_size(X.shape[0], budget, _DENSE_ADVICE, _DENSE_MATRICES)
    return pack_edges(build_gaussian_graph(X, settings.sigma, memory_budget_bytes=budget))


def _scaler(recipe: Mapping[str, Any], scale: str) -> Any:
    """What prepares the features: their blocks if several are joined, else the scale of the run."""
    from embedding_core.preprocessing import Preprocessor
    from embedding_core.scaling import Scaler

    blocks = prepared_blocks(recipe)
    return Preprocessor(blocks) if blocks else Scaler(scale)
