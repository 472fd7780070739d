"""Features of images that are learned from the training rows of each trial, and kernels of all rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Features, pack_features, unpack_features
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceError
from storage.sources.base import Part, combine_digests
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.ingest import explain_change
from tasks.stages.learning import training_contents

if TYPE_CHECKING:
    from embedding_core.features.bow_sift import FittedBowSift

WORDS = "bow_sift"
"""The extractor that learns its words from training rows."""
# Above this width rows of words are stored sparse: most words do not occur in most cells of an image.
_WIDEST_DENSE = 10_000


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images of the rows of a data set.

    Attributes
    ----------
    ids : list of n str
    part : Part
        The files of the whole collection.
    positions : ndarray of shape (n,)
        Where the rows are in the collection.
    classes : ndarray of shape (n,)
        Number of the first label of each row.
    """

    ids: list[str]
    part: Part
    positions: NDArray[np.intp]
    classes: NDArray[np.intp]

    @property
    def digests(self) -> list[str]:
        """Content of the files."""
        return [self.part.digests[position] for position in self.positions]


def words_stage(
    pictures: Pictures,
    train: NDArray[np.intp],
    parameters: Mapping[str, Any],
    items: str | None,
    variant: str,
    workspace: Workspace,
) -> Stage:
    """Bags of visual words of all rows, with the codebook of some training rows.

    Parameters
    ----------
    train : ndarray of int
        The rows that the codebook is learned from.
    parameters : mapping
        Parameters of `BowSift`.
    items : str or None
        Digest of the images of the collection.
    """
    known = {"rows": combine_digests(pictures.ids), "train": combine_digests(map(str, train))}
    if parameters.get("per_class"):
        known["classes"] = combine_digests(str(pictures.classes[row]) for row in train)
    return Stage(
        name="visual_words",
        variant=variant,
        code=("embedding_core.features.extraction", "embedding_core.features.bow_sift"),
        params={WORDS: dict(parameters), **known},
        inputs={"items": items},
        produce=lambda: _count_words(pictures, train, parameters, workspace),
    )


def _count_words(
    pictures: Pictures, train: NDArray[np.intp], parameters: Mapping[str, Any], workspace: Workspace
) -> Artifact:
    extractor = _learn_words(pictures, train, parameters)
    rows = list(_histograms(pictures, extractor, workspace))
    X: Any
    if extractor.n_features <= _WIDEST_DENSE:
        X = np.stack([row.toarray()[0] for row in rows])
    else:
        from scipy.sparse import csr_array, vstack

        X = csr_array(vstack(rows, format="csr"))
    return pack_features(Features(pictures.ids, pictures.digests, X, None, {WORDS: dict(parameters)}))


def _learn_words(
    pictures: Pictures, train: NDArray[np.intp], parameters: Mapping[str, Any]
) -> "FittedBowSift":
    from embedding_core.features.bow_sift import BowSift
    from embedding_core.features.extraction import FileChanged

    choice = BowSift(**parameters)
    classes = [[int(pictures.classes[row])] for row in train]
    contents = training_contents(pictures.part, pictures.positions[train].tolist())
    try:
        return choice.with_learned(choice.learn(contents, classes))
    except FileChanged as error:
        raise explain_change(error) from error


def _histograms(pictures: Pictures, extractor: "FittedBowSift", workspace: Workspace) -> Iterator[Any]:
    """One sparse row per image, in order; the dense rows of only a few images exist at a time."""
    from scipy.sparse import csr_array

    from embedding_core.features.extraction import extract_many

    assert pictures.part.paths is not None
    paths = [path for position in pictures.positions if (path := pictures.part.paths[position]) is not None]
    made = extract_many(paths, extractor, pictures.digests, workspace.executor.map)
    with workspace.reporter.progress("visual words", len(paths)) as advance:
        for done, (name, (row, reason)) in enumerate(zip(pictures.ids, made, strict=True), start=1):
            if row is None:
                raise _unreadable(name, reason)
            advance(done)
            yield csr_array(row[np.newaxis])


def _unreadable(name: str, reason: str | None) -> SourceError:
    return SourceError(f"{name}: {reason}. Replace the image; all images of this set are needed.")


def kernel_stage(
    features: ArtifactRef | None,
    kernel: str,
    positions: Sequence[int] | NDArray[np.intp],
    variant: str,
    workspace: Workspace,
) -> Stage:
    """Kernel matrix of all rows of a data set.

    Parameters
    ----------
    features : ArtifactRef or None
        The stored features.
    kernel : {"intersection", "cosine"}
    positions : sequence of int
        The used rows of the features.
    """
    return Stage(
        name="kernel",
        variant=variant,
        code=("embedding_core.linalg.l1", "embedding_core.scaling"),
        params={"kernel": kernel, "rows": combine_digests(map(str, positions))},
        inputs={"features": digest_of(features)},
        produce=lambda: _compute_kernel(features, kernel, positions, workspace.store),
    )


def _compute_kernel(
    ref: ArtifactRef | None, kernel: str, positions: Sequence[int] | NDArray[np.intp], store: ArtifactStore
) -> Artifact:
    assert ref is not None
    found = load_block(store, ref)
    X = readable_rows(found, positions)
    ids, digests = ([given[row] for row in positions] for given in (found.ids, found.digests))
    return pack_features(Features(ids, digests, kernel_matrix(X, kernel).astype(np.float32)))


def kernel_matrix(X: Any, kernel: str) -> NDArray[np.float64]:
    """Return the kernel of all pairs of rows."""
    if kernel == "intersection":
        from embedding_core.linalg.l1 import intersection_kernel

        return np.asarray(intersection_kernel(X))
    from embedding_core.scaling import Scaler

    rows = np.asarray(Scaler("unit").fit(X).transform(X), dtype=np.float64)
    return rows @ rows.T


def readable_rows(found: Features, rows: Sequence[int] | NDArray[np.intp]) -> Any:
    """Return some rows of features; SourceError if an image of these rows could not be read."""
    for row in rows:
        reason = found.errors[row] if found.errors else None
        if reason is not None:
            raise _unreadable(found.ids[row], reason)
    return found.X[np.asarray(rows)]


def load_block(store: ArtifactStore, ref: ArtifactRef) -> Features:
    """Load a block of features that an extractor, `words_stage` or `kernel_stage` has made."""
    from tasks.dataset import load_features

    return load_features(store, ref) if ref.kind == "parts" else unpack_features(store.read(ref))
