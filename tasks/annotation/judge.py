"""Judge new items: labels, scores and evidence of a portion, and what can be said about all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.annotations import Annotations, count_given, pack_annotations
from storage.artifacts.artifact import Artifact
from storage.artifacts.columns import strings
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Features
from storage.limits import check_memory
from storage.sources.base import combine_digests
from tasks.annotation.evidence import Evidence
from tasks.annotation.findings import (
    decide,
    describe_drift,
    describe_labels,
    describe_promise,
    expect,
    make_promise,
)
from tasks.annotation.model import FittedModel
from tasks.annotation.portions import Portion
from tasks.annotation.recipes import column_names, match_blocks
from tasks.stage import Workspace

if TYPE_CHECKING:
    from embedding_core.annotation.precision_promise import PrecisionPromise

DRIFT_ROWS = 2_000
"""New items that are compared with the labeled ones; of more, a sample."""


@dataclass(eq=False)
class Judge:
    """Predicts portions of new items, and describes the labels of all of them.

    Attributes
    ----------
    model : FittedModel
    path : str
        The source, for messages.
    precision, confidence
        The promise that is asked for, see `tasks.annotation.Request`.
    links : sparse array or None
        Links of the new items, which must then be judged in one portion.
    compares : bool
        Whether evidence is asked for, see `tasks.annotation.Request`.
    """

    model: FittedModel
    path: str
    precision: float | None
    confidence: float
    workspace: Workspace
    links: Any = None
    compares: bool = True

    @cached_property
    def promise(self) -> "PrecisionPromise | None":
        """The promise that is asked for."""
        labeled = self.model.labeled
        if labeled is None or not self.precision:
            return None
        return make_promise(labeled, self.precision, self.confidence, self.apart_scores)

    @cached_property
    def apart_scores(self) -> "NDArray[np.float64] | None":
        """Scores (r, K) of labeled items whose class the model does not have; None if there are none."""
        labeled = self.model.labeled
        if labeled is None or labeled.apart is None or labeled.scores is None:
            return None
        return self.model.annotator.predict_scores(labeled.apart)

    @cached_property
    def evidence(self) -> Evidence | None:
        """The labeled items, if they are known."""
        model = self.model
        return None if model.labeled is None else Evidence(model.annotator, model.labeled)

    def judge(self, portion: Portion, asked: NDArray[np.bool_] | None) -> Artifact:
        """Labels, scores and evidence of the readable items of a portion."""
        found = portion.load(self.workspace.store)
        chosen = readable_rows(found) if asked is None else readable_rows(found) & asked
        annotator = self.model.annotator
        names = [str(name) for name in annotator.classes_]
        ids = [name for name, here in zip(found[0].ids, chosen, strict=True) if here]
        X = self._features(found, chosen)
        if not ids:
            nothing = np.empty((0, len(names)))
            return pack_annotations(Annotations([], names, nothing, nothing))
        scores = annotator.predict_scores(X, self.links)
        decision = decide(annotator, scores, self.promise)
        made = Annotations(ids, names, decision.labels, scores, decision.thresholds)
        if self.evidence is not None and self.compares:
            made = replace(
                made,
                novelty=self.evidence.find_novelty(X),
                nearest=self.evidence.find_nearest(X, decision.labels),
            )
        return pack_annotations(made)

    def _features(self, found: list[Features], chosen: NDArray[np.bool_]) -> Any:
        return stored_alike(match_blocks(found, self.model, self.path)[chosen], self.model)

    def describe(
        self, portions: Sequence[Portion], refs: Sequence[ArtifactRef], asked: NDArray[np.bool_] | None
    ) -> dict[str, Any]:
        """What is known about the labels as a whole."""
        model, labeled, promise = self.model, self.model.labeled, self.promise
        names = [str(name) for name in model.annotator.classes_]
        given, thresholds = count_given(self.workspace.store, refs)
        items = sum(ref.rows for ref in refs)
        expected = expect(labeled, promise, self.apart_scores)
        findings: dict[str, Any] = {
            "labels": describe_labels(names, given, items, thresholds, labeled, expected),
            "labeled_items": labeled.total if labeled else None,
            "items_apart": 0 if self.apart_scores is None else len(self.apart_scores),
            "expectations": None
            if model.has_scores
            else f"{model.lacking} to see expected precision and recall.",
            "promise": None,
            "drift": None,
        }
        if labeled is not None and self.compares:
            findings["drift"] = self._describe_drift(portions, refs, asked)
        if labeled is not None and promise is not None:
            findings["promise"] = describe_promise(promise, labeled, findings["drift"], self.apart_scores)
        return findings

    def _describe_drift(
        self, portions: Sequence[Portion], refs: Sequence[ArtifactRef], asked: NDArray[np.bool_] | None
    ) -> dict[str, Any]:
        """Compare the labeled items with the new ones, of many with a sample by a digest of their ids."""
        assert self.evidence is not None
        store, annotator = self.workspace.store, self.model.annotator
        judged = [strings(store.read(ref, ["id"]), "id") for ref in refs]
        sample = sample_ids([name for ids in judged for name in ids], DRIFT_ROWS)
        rows, columns = [], None
        for portion, ids in zip(portions, judged, strict=True):
            if sample.isdisjoint(ids):
                continue
            found = portion.load(store)
            columns = column_names(found, self.model)
            rows.append(self._features(found, np.array([name in sample for name in found[0].ids])))
        new = annotator.prepare_features(stack_portions(rows))
        return describe_drift(annotator, self.evidence.everyone, new, columns)


def sample_ids(ids: Sequence[str], most: int) -> frozenset[str]:
    """All ids, or those with the smallest digests: a choice that does not depend on portions or order."""
    return frozenset(ids if len(ids) <= most else sorted(ids, key=lambda one: combine_digests([one]))[:most])


def stack_portions(parts: Sequence[Any]) -> Any:
    """One matrix of the rows of several, dense or sparse."""
    if len(parts) == 1 or isinstance(parts[0], np.ndarray):
        return np.concatenate(parts) if len(parts) > 1 else parts[0]
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


def readable_rows(found: Sequence[Features]) -> NDArray[np.bool_]:
    """Mask of the items that have every block of features."""
    mask: NDArray[np.bool_] = np.logical_and.reduce([one.readable for one in found])
    return mask


def stored_alike(X: Any, model: FittedModel) -> Any:
    """New features dense or sparse as those of the labeled items: a table may follow a sparse matrix."""
    if model.labeled is None or isinstance(X, np.ndarray) == isinstance(model.labeled.X, np.ndarray):
        return X
    if not isinstance(X, np.ndarray):
        check_memory(4 * X.shape[0] * X.shape[1], f"A dense table of {X.shape[0]:,} items")
        return X.toarray()
    from scipy.sparse import csr_array

    return csr_array(X)
