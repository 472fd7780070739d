"""The stage of `annotate` that predicts: labels, scores, evidence, and what can be expected of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.registry import method_modules
from storage.artifacts.annotations import Annotations, join_annotations, unpack_annotations
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Features, unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError, SourceError
from tasks.annotation.judge import Judge, readable_rows
from tasks.annotation.links import GivenLinks, check_promise, describe_links, links_of_place, read_links
from tasks.annotation.model import FittedModel
from tasks.annotation.portions import JOINED, join_portions, judge_portions, split_portions, whole_portion
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
    "tasks.annotation.judge",
    "tasks.annotation.links",
    "tasks.annotation.recipes",
    "tasks.selection.rare_labels",
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
    evidence : bool
        Compare the items with the labeled ones: which support the labels of each, how unlike them it is, and
        whether all together are like them (drift).
    """

    precision: float | None = None
    confidence: float = CONFIDENCE
    unlabeled: bool = False
    evidence: bool = True

    def params(self) -> dict[str, Any]:
        """What differs from the default, as part of the key and of the recorded run."""
        promised = {"precision": self.precision, "confidence": self.confidence}
        return {
            **(promised if self.precision else {}),
            **({"unlabeled": True} if self.unlabeled else {}),
            **({} if self.evidence else {"evidence": False}),
        }

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
    made = Stage(
        name="annotation",
        code=(*method_modules(annotator.method, annotator.params or {}), *_CODE),
        params={**model.facts, **request.params(), **unused},
        inputs={"features": digest_of(features), "model": model.digest, **labeled, **labels, **edges},
        produce=lambda: _annotate(
            made, model, path, features, workspace, request, manifest, links, bool(unused)
        ),
    )
    return made


def load_annotations(store: ArtifactStore, ref: ArtifactRef) -> Annotations:
    """Load what the stage stored."""
    return unpack_annotations(store.read(ref))


def _annotate(
    made: Stage,
    model: FittedModel,
    path: str,
    features: ArtifactRef | None,
    workspace: Workspace,
    request: Request,
    manifest: ArtifactRef | None,
    given: GivenLinks | None,
    unused: bool,
) -> Artifact:
    """Judge the items portion by portion, then put the portions together.

    Items with links are judged together: links between new items may join any of them.
    """
    assert features is not None
    store = workspace.store
    asked = _unlabeled(manifest, path, store) if request.unlabeled else None
    links = _read_links(model, given, features, asked, workspace) if given else None
    judge = Judge(model, path, request.precision, request.confidence, workspace, links, request.evidence)
    portions = [whole_portion(store, features)] if given else split_portions(store, features)
    if not request.evidence:
        portions = join_portions(portions, JOINED)
    refs = judge_portions(made.recipe(), portions, asked, judge.judge, store, workspace.reporter)
    if not sum(ref.rows for ref in refs):
        raise _nothing_readable(path, load_blocks(store, features)[0], request.unlabeled)
    findings = judge.describe(portions, refs, asked)
    findings["links"] = describe_links(model, unused, links)
    return join_annotations(store, refs, findings)


def _read_links(
    model: FittedModel,
    given: GivenLinks,
    features: ArtifactRef,
    asked: NDArray[np.bool_] | None,
    workspace: Workspace,
) -> Any:
    """The links of the items to judge."""
    if model.labeled is None:
        return None
    found, _ = load_blocks(workspace.store, features)
    chosen = readable_rows(found) if asked is None else readable_rows(found) & asked
    if not chosen.any():
        return None
    return read_links(given, model.labeled, found[0].ids, chosen, asked is not None, workspace)


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


def _nothing_readable(path: str, found: Sequence[Features], unlabeled: bool) -> SourceError:
    """Why no item was judged."""
    if unlabeled and readable_rows(found).any():
        return SourceError(f"{path}: none of the items without labels is readable. Fix or remove them.")
    ids = found[0].ids
    reasons = zip(ids, zip(*(one.errors or [None] * len(ids) for one in found), strict=True), strict=True)
    first, why = next((name, next(filter(None, row), "")) for name, row in reasons)
    return SourceError(
        f"{path}: none of {len(ids)} items is readable; the first is {first}: {why or 'it has no features'}. "
        "Fix or remove it."
    )
