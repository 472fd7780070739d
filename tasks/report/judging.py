"""Load the predictions of a run's best method for its items."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.registry import get_method
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.models import load_model
from storage.artifacts.predictions import Predictions
from storage.artifacts.schemas import unpack_embedding
from storage.artifacts.store import ArtifactStore
from tasks.dataset import Dataset
from tasks.report.data import ScoreRow
from tasks.report.judged import JudgedItems
from tasks.report.ranking import Entry, rank_entries
from tasks.stages.embedding import load_model_payload
from tasks.stages.evaluation import load_predictions, load_scores

Refs = Mapping[str, ArtifactRef | None]


def load_judged(
    dataset: Dataset,
    evaluations: Refs,
    sort_by: str,
    store: ArtifactStore,
    embeddings: Refs | None = None,
    models: Refs | None = None,
) -> JudgedItems | None:
    """Load the predictions of the best method; None if nothing was evaluated.

    With `embeddings` and `models`, unlabeled items are predicted too; a method that can only place the items
    of its fit is then passed over.
    """
    from embedding_core.knn_classifier import decide_labels  # imports scikit-learn

    rows = [row for ref in evaluations.values() if ref for row in load_scores(store, ref)]
    fitted = {**(models or {}), **(embeddings or {})}
    best = _best_method(rows, sort_by, fitted if embeddings is not None else evaluations)
    ref = evaluations.get(best) if best else None
    if best is None or ref is None:
        return None
    classifier, found = load_predictions(store, ref)
    scores = _spread(found, dataset)
    unlabeled = np.flatnonzero((dataset.Y < 0).any(axis=1))
    if embeddings is not None and len(unlabeled):
        scores[unlabeled] = _predict(best, classifier, dataset, unlabeled, embeddings, models or {}, store)
    decided = np.zeros(scores.shape, dtype=np.int8)
    known = np.isfinite(scores).all(axis=1)
    decided[known] = decide_labels(scores[known], dataset.single_label)
    title = Entry(best, classifier, {}).title({best: get_method(best).title})
    return JudgedItems(best, title, scores, decided, dataset.single_label)


def _best_method(rows: Sequence[ScoreRow], sort_by: str, usable: Refs) -> str | None:
    ranked = rank_entries(rows, sort_by) if rows else []
    return next((one.method for one in ranked if usable.get(one.method)), None)


def _spread(found: Predictions, dataset: Dataset) -> NDArray[np.float64]:
    """Scores (n, K) in the order of the items."""
    place = {name: row for row, name in enumerate(dataset.ids)}
    scores = np.full(dataset.Y.shape, np.nan)
    scores[[place[name] for name in found.ids]] = found.scores
    return scores


def _predict(
    method: str,
    classifier: str,
    dataset: Dataset,
    rows: NDArray[np.intp],
    embeddings: Refs,
    models: Refs,
    store: ArtifactStore,
) -> NDArray[np.float64]:
    """Scores of unlabeled items: by neighbors in the embedding, or by the fitted classifier."""
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES
    from embedding_core.knn_classifier import nearest_rows, vote

    placed = embeddings.get(method)
    if placed is not None:
        Z: Any = unpack_embedding(store.read(placed)).coordinates
        labeled = np.flatnonzero((dataset.Y >= 0).all(axis=1))
        k = min(int(classifier.removesuffix("nn")), len(labeled))
        return vote(dataset.Y[labeled], *nearest_rows(Z[labeled], Z[rows], k))
    fitted = models.get(method)
    payload = load_model_payload(fitted, store) if fitted else None
    if payload is None:
        return np.full((len(rows), dataset.Y.shape[1]), np.nan)
    scores: NDArray[np.float64] = load_model(payload, SKOPS_TRUSTED_TYPES).predict_scores(dataset.X[rows])
    return scores
