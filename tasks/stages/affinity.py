"""Affinity: a sparse graph of the items, built from features or read from an edge list."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import pack_edges
from storage.errors import ConfigError, SourceError
from storage.sources import read_edges
from storage.sources.edges import Edges
from storage.sources.listing import digest_files, index_path
from tasks.dataset import load_features
from tasks.settings import AffinitySettings, SourceSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.graph import INTERSECTION, build_graph
from tasks.stages.ingest import changed_meanwhile
from tasks.stages.neighbors import limit_neighbors

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
    edges = digest_edges(source, workspace) if kind == "given" else None
    if edges is not None:
        inputs["edges"] = edges
    return Stage(
        name="affinity",
        code=_CODE[kind],
        params=graph_params(settings, kind, scale),
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


def graph_params(settings: AffinitySettings, kind: str, scale: str) -> dict[str, Any]:
    """The settings that this kind of graph uses; changes of other settings leave it fresh."""
    searched = () if settings.weights == INTERSECTION else ("sigma", "exact_items", "recall")
    used = {"given": (), "knn": ("n_neighbors", "weights", *searched), "gaussian": ("sigma",)}[kind]
    own = {name: getattr(settings, name) for name in used}
    return {"graph": kind, **own} if kind == "given" else {"graph": kind, "scale": scale, **own}


def digest_edges(source: SourceSettings, workspace: Workspace) -> str:
    """Digest of the bytes of the file of links."""
    edges = Path(str(source.edges))
    return digest_files([edges], index_path(workspace.cache_dir, edges))[0]


def _take_given(
    source: SourceSettings, digest: str, features: ArtifactRef | None, workspace: Workspace
) -> Artifact:
    from embedding_core.graph.supplied import graph_from_edges

    assert features is not None
    found = load_features(workspace.store, features)
    edges = given_edges(source, digest, found.ids, workspace)
    # Edges may refer to positions in the whole collection, so drop unreadable items afterwards.
    graph = graph_from_edges(*edges, len(found.ids))
    if not graph.nnz:
        raise SourceError(
            f"{source.edges}: no link between two items ({len(edges[0]):,} links are listed); give links "
            "with positive weights between different items, or leave out source.edges."
        )
    return pack_edges(graph[found.readable][:, found.readable])


def given_edges(source: SourceSettings, digest: str, ids: Sequence[str], workspace: Workspace) -> Edges:
    """Read the given links and report what is left out; `digest` is that of the stage's key."""
    path, reporter = Path(str(source.edges)), workspace.reporter
    edges = read_edges(
        path,
        ids,
        lambda line: reporter.say(f"  {path.name}: {line}"),
        source.strict,
        source.label_separator,
    )
    if digest_edges(source, workspace) != digest:
        raise changed_meanwhile(str(source.edges))
    return edges


def _build(
    settings: AffinitySettings, kind: str, scale: str, features: ArtifactRef | None, workspace: Workspace
) -> Artifact:
    assert features is not None
    found = load_features(workspace.store, features)
    X = found.X if found.readable.all() else found.X[found.readable]
    if kind == "knn":
        limit_neighbors("affinity.n_neighbors", settings.n_neighbors, X.shape[0] - 1, workspace.reporter)
    graph = build_graph(settings, scale, found.recipe, X, copy=False)
    packed = pack_edges(graph.W)
    if graph.recall == 1:
        return packed
    workspace.reporter.say_once(f"  {describe_recall(X.shape[0], graph.recall, settings)}")
    return replace(packed, metadata={**packed.metadata, "recall": f"{graph.recall:.4f}"})


def describe_recall(n: int, recall: float, settings: AffinitySettings) -> str:
    """How many of the true neighbors a graph contains that was built by an index."""
    said = f"graph of {n:,} items by an index: recall {recall:.3f}, measured on a sample"
    if recall >= settings.recall:
        return said
    return f"{said}, below affinity.recall={settings.recall:g}: these items have no clear neighbors"
