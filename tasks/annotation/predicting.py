"""The stage of `annotate` that predicts: labels, scores, evidence, and what can be expected of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.registry import method_modules
from storage.artifacts.annotations import Annotations, pack_annotations, unpack_annotations
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError, SourceError
from storage.limits import check_memory
from tasks.annotation.evidence import find_nearest, find_novelty, prepare_rows
from tasks.annotation.findings import (
    decide,
    describe_drift,
    describe_labels,
    describe_promise,
    expect,
    make_promise,
)
from tasks.annotation.links import GivenLinks, check_promise, describe_links, links_of_place, read_links
from tasks.annotation.model import FittedModel
from tasks.annotation.recipes import column_names, match_blocks
from tasks.dataset import load_blocks
from tasks.settings import SourceSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.ingest import part_digest

CONFIDENCE = 0.9
_CODE = (
    "embedding_core.annotator",
    "embedding_core.annotation.drift",
    "embedding_core.annotation.evidence",
    "embedding_core.annotation.plausibility",
    "embedding_core.annotation.precision_promise",
    "embedding_core.model_selection.threshold_tuning",
    "tasks.annotation.evidence",
    "tasks.annotation.findings",
    "tasks.annotation.links",
    "tasks.annotation.recipes",
)


@dataclass(frozen=True)
class Request:
    """What the user asks for besides labels.

    Attributes
    ----------
    precision : float or None
        Share of the written labels that must be right; None: the model's own thresholds decide.
    confidence : float
        Confidence of that promise.
    unlabeled : bool
        Annotate only the items of the collection that have no labels.
    """

    precision: float | None = None
    confidence: float = CONFIDENCE
    unlabeled: bool = False

    def params(self) -> dict[str, Any]:
        """What differs from the default, as part of the key and of the recorded run."""
        promised = {"precision": self.precision, "confidence": self.confidence}
        return {**(promised if self.precision else {}), **({"unlabeled": True} if self.unlabeled else {})}

    def check_numbers(self) -> None:
        """Raise ConfigError for shares that are none."""
        for name, value in (("precision", self.precision), ("confidence", self.confidence)):
            if value is not None and not 0 < value < 1:
                raise ConfigError(f"--{name} {value:g}: give a number above 0 and below 1, such as 0.9.")

    def check_model(self, model: FittedModel) -> None:
        """Raise ConfigError if the model cannot give what is asked for."""
        if self.precision is not None and model.lacking:
            raise ConfigError(f"--precision needs out-of-fold scores of the labeled items. {model.lacking}.")


def stage(
    model: FittedModel,
    path: str,
    features: ArtifactRef | None,
    workspace: Workspace,
    request: Request | None = None,
    manifest: ArtifactRef | None = None,
    place: SourceSettings | None = None,
) -> Stage:
    """Labels and scores of all readable items, or of those without labels.

    `place` names the links with which the items arrive.

    Raises
    ------
    SourceError
        The supplied features are not those of the model.
    """
    annotator, request = model.annotator, request or Request()
    labels = {"labels": part_digest(manifest, "labels", workspace.store)} if request.unlabeled else {}
    labeled = {"labeled": model.labeled_digest} if model.labeled is not None else {}
    links = links_of_place(model, place, workspace)
    if request.precision is not None:
        check_promise(model, links)
    edges = {"edges": links.digest} if links else {}
    # the summary states links that the model does not use
    unused = {"edges": "unused"} if place and place.edges and not links else {}
    return Stage(
        name="annotation",
        code=(*method_modules(annotator.method, annotator.params or {}), *_CODE),
        params={**model.facts, **request.params(), **unused},
        inputs={"features": digest_of(features), "model": model.digest, **labeled, **labels, **edges},
        produce=lambda: _annotate(model, path, features, workspace, request, manifest, links, bool(unused)),
    )


def load_annotations(store: ArtifactStore, ref: ArtifactRef) -> Annotations:
    """Load what the stage stored."""
    return unpack_annotations(store.read(ref))


def _annotate(
    model: FittedModel,
    path: str,
    features: ArtifactRef | None,
    workspace: Workspace,
    request: Request,
    manifest: ArtifactRef | None,
    given: GivenLinks | None,
    unused: bool,
) -> Artifact:
    assert features is not None
    found, _ = load_blocks(workspace.store, features)
    chosen = np.logical_and.reduce([one.readable for one in found])
    if not chosen.any():
        raise _nothing_readable(path, [one.errors or [] for one in found], found[0].ids)
    if request.unlabeled:
        chosen &= _unlabeled(manifest, path, workspace.store)
        if not chosen.any():
            raise SourceError(f"{path}: none of the items without labels is readable. Fix or remove them.")
    X = _stored_alike(match_blocks(found, model, path)[chosen], model)
    ids = [name for name, here in zip(found[0].ids, chosen, strict=True) if here]
    links = None
    if given is not None and model.labeled is not None:
        links = read_links(given, model.labeled, found[0].ids, chosen, request.unlabeled, workspace)
    made = _predict(model, ids, X, column_names(found, model), request, links)
    about = describe_links(model, unused, links)
    return pack_annotations(replace(made, findings={**made.findings, "links": about}))


def _predict(
    model: FittedModel,
    ids: list[str],
    X: Any,
    names: Sequence[str] | None,
    request: Request,
    links: Any = None,
) -> Annotations:
    annotator, labeled = model.annotator, model.labeled
    scores = annotator.predict_scores(X, links)
    promise = (
        make_promise(labeled, request.precision, request.confidence)
        if labeled and request.precision
        else None
    )
    decision = decide(annotator, scores, promise)
    labels = [str(name) for name in annotator.classes_]
    findings: dict[str, Any] = {
        "labels": describe_labels(labels, decision, labeled, expect(labeled, promise)),
        "labeled_items": labeled.total if labeled else None,
        "expectations": None
        if model.has_scores
        else f"{model.lacking} to see expected precision and recall.",
        "promise": None,
        "drift": None,
    }
    if labeled is None:
        return Annotations(ids, labels, decision.labels, scores, decision.thresholds, findings=findings)
    rows = prepare_rows(annotator, labeled, X)
    findings["drift"] = describe_drift(annotator, rows, names)
    if promise is not None:
        findings["promise"] = describe_promise(promise, labeled, findings["drift"])
    nearest = find_nearest(annotator, labeled, rows, decision.labels)
    novelty = find_novelty(rows)
    return Annotations(ids, labels, decision.labels, scores, decision.thresholds, novelty, nearest, findings)


def _stored_alike(X: Any, model: FittedModel) -> Any:
    """New features dense or sparse as those of the labeled items: a table may follow a sparse matrix."""
    if model.labeled is None or isinstance(X, np.ndarray) == isinstance(model.labeled.X, np.ndarray):
        return X
    if not isinstance(X, np.ndarray):
        check_memory(4 * X.shape[0] * X.shape[1], f"A dense table of {X.shape[0]:,} items")
        return X.toarray()
    from scipy.sparse import csr_array

    return csr_array(X)


def _unlabeled(manifest: ArtifactRef | None, path: str, store: ArtifactStore) -> NDArray[np.bool_]:
    """Which items of a collection have no labels."""
    assert manifest is not None
    labels = unpack_manifest(store.read(manifest)).labels
    found: NDArray[np.bool_] = np.asarray((labels < 0).any(axis=1))
    if not found.any():
        raise SourceError(
            f"{path}: all {len(labels)} items have labels, so none is left for --unlabeled. Leave the option "
            "out to annotate all of them."
        )
    return found


def _nothing_readable(path: str, errors: Sequence[Sequence[str | None]], ids: Sequence[str]) -> SourceError:
    reasons = zip(ids, zip(*(one or [None] * len(ids) for one in errors), strict=True), strict=True)
    first, why = next((name, next(filter(None, row), "")) for name, row in reasons)
    return SourceError(
        f"{path}: none of {len(ids)} items is readable; the first is {first}: {why or 'it has no features'}. "
        "Fix or remove it."
    )
