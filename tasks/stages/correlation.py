"""Label correlation: the cosine between label columns (DLE paper Eq. 19, MLDA paper Eq. 13)."""

from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Matrix, pack_matrix, unpack_manifest
from tasks.stage import Stage, Workspace
from tasks.stages.ingest import part_digest


def stage(manifest: ArtifactRef | None, workspace: Workspace) -> Stage:
    """The K x K correlation matrix of the labels."""
    return Stage(
        name="correlation",
        code=("embedding_core.labels",),
        params={},
        inputs={"labels": part_digest(manifest, "labels", workspace.store)},
        produce=lambda: _correlate(manifest, workspace),
    )


def _correlate(ref: ArtifactRef | None, workspace: Workspace) -> Artifact:
    from embedding_core.labels import label_correlation

    assert ref is not None
    manifest = unpack_manifest(workspace.store.read(ref))
    labeled = manifest.labels[(manifest.labels >= 0).all(axis=1)]
    names = manifest.label_names
    return pack_matrix(Matrix(values=label_correlation(labeled), row_names=names, column_names=names))
