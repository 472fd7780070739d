"""The stage of `review`: what looks wrong with the labels of a collection, as plain data.

Labels are judged by the out-of-fold scores that are tracked with a model, near-duplicates and odd items by
the features of all items, pictures also by their signatures.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.features.picture_signature import PictureSignature
from embedding_core.label_care.duplicates import (
    Neighborhood,
    close_pairs,
    find_neighborhood,
    group_pairs,
    rate_flattery,
    signature_pairs,
)
from embedding_core.label_care.suspects import Suspects, find_suspects
from embedding_core.label_care.together import label_pairs
from embedding_core.model_selection.threshold_tuning import decide_out_of_fold
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.labeled_items import LabeledItems
from storage.artifacts.schemas import Manifest, pack_files, unpack_files, unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.sources.hygiene import similar_names
from tasks.annotation.model import FittedModel
from tasks.annotation.recipes import match_blocks
from tasks.dataset import load_blocks, load_features
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.ingest import part_digest

LEAST = 0.8
"""Labels are probable errors if this share of the items with such a score is labeled the other way."""
REACH = 0.3
"""Distance of picture signatures up to which pictures are near-duplicates; see RESULTS.md."""
# What is kept of each kind, the most suspect first; the counts are of all.
_SUSPECTS, _GROUPS, _UNLIKE, _PAIRS, _IN_GROUP, _EXCEPTIONS = 2_000, 500, 100, 50, 20, 20
# Items are unlike all others if they lie this many times as far from their neighbors as the median item.
_FAR = 2.0
_FILE = "findings.json"
_CODE = (
    "embedding_core.label_care.duplicates",
    "embedding_core.label_care.suspects",
    "embedding_core.label_care.together",
    "embedding_core.model_selection.threshold_tuning",
    "storage.sources.hygiene",
)


def stage(
    model: FittedModel,
    path: str,
    manifest: ArtifactRef | None,
    features: ArtifactRef | None,
    signatures: ArtifactRef | None,
    workspace: Workspace,
) -> Stage:
    """The findings about a collection."""
    pictures = {} if signatures is None else {"signatures": digest_of(signatures)}
    return Stage(
        name="review",
        code=_CODE,
        params={**model.facts, "reach": REACH, "least": LEAST},
        inputs={
            "features": digest_of(features),
            "labels": part_digest(manifest, "labels", workspace.store),
            "model": model.digest,
            "labeled": model.labeled_digest,
            **pictures,
        },
        produce=lambda: _find(model, path, manifest, features, signatures, workspace.store),
    )


def load_findings(store: ArtifactStore, ref: ArtifactRef) -> dict[str, Any]:
    """Load what the stage stored."""
    found: dict[str, Any] = json.loads(unpack_files(store.read(ref))[_FILE])
    return found


def _find(
    model: FittedModel,
    path: str,
    manifest: ArtifactRef | None,
    features: ArtifactRef | None,
    signatures: ArtifactRef | None,
    store: ArtifactStore,
) -> Artifact:
    assert manifest is not None and features is not None
    items = unpack_manifest(store.read(manifest))
    found, _ = load_blocks(store, features)
    readable = np.logical_and.reduce([one.readable for one in found])
    rows = np.flatnonzero(readable)
    X = model.annotator.prepare_features(match_blocks(found, model, path)[readable])
    near = find_neighborhood(X) if len(rows) > 1 else None
    pairs = _near_duplicates(near, rows, signatures, store)
    labeled = np.asarray((items.labels >= 0).all(axis=1))
    made = {
        "items": len(items.ids),
        "labeled": int(labeled.sum()),
        "label_names": items.label_names,
        **_suspects(items, model.labeled),
        **_duplicates(items, pairs),
        "flattery": _flattery(items, model.labeled, pairs),
        **_unlike(items, near, rows),
        "pairs": _label_pairs(items, labeled),
        "names": _names(items),
    }
    return pack_files({_FILE: canonical_json(made).encode()})


def _scored(items: Manifest, known: LabeledItems | None) -> tuple[NDArray[np.intp], NDArray[np.int8], Any]:
    """Rows of `items` with out-of-fold scores, their present labels by the model's names, and the scores."""
    if known is None or known.scores is None:
        return np.zeros(0, dtype=np.intp), np.zeros((0, 0), dtype=np.int8), None
    place = {name: row for row, name in enumerate(items.ids)}
    column = {name: k for k, name in enumerate(items.label_names)}
    labeled = np.asarray((items.labels >= 0).all(axis=1))
    kept = [(place[name], at) for at, name in enumerate(known.ids) if name in place and labeled[place[name]]]
    rows = np.array([row for row, _ in kept], dtype=np.intp)
    Y = np.zeros((len(rows), len(known.label_names)), dtype=np.int8)
    for k, name in enumerate(known.label_names):
        if name in column:
            Y[:, k] = items.labels[rows, column[name]]
    return rows, Y, known.scores[[at for _, at in kept]]


def rank_suspects(
    items: Manifest, known: LabeledItems | None
) -> tuple[NDArray[np.intp], Suspects | None, Any]:
    """Rows with scores, their suspect labels, and the scores; no suspects without scores."""
    rows, Y, scores = _scored(items, known)
    return rows, (find_suspects(scores, Y, LEAST) if len(rows) else None), scores


def _suspects(items: Manifest, known: LabeledItems | None) -> dict[str, Any]:
    rows, suspects, scores = rank_suspects(items, known)
    if suspects is None or known is None:
        return {"scored": 0, "suspects": [], "suspects_total": 0, "suspects_by_label": {}}
    counts: dict[str, list[int]] = {}
    for label, missing in zip(suspects.labels.tolist(), suspects.missing.tolist(), strict=True):
        counts.setdefault(known.label_names[label], [0, 0])[int(missing)] += 1
    head = suspects.head(_SUSPECTS)
    listed = [
        {
            "id": items.ids[rows[row]],
            "label": known.label_names[label],
            "missing": missing,
            "opposite": round(wrong, 4),
            "score": round(float(scores[row, label]), 4),
        }
        for row, label, wrong, missing in zip(
            head.rows.tolist(), head.labels.tolist(), head.wrong.tolist(), head.missing.tolist(), strict=True
        )
    ]
    return {
        "scored": len(rows),
        "suspects": listed,
        "suspects_total": len(suspects),
        "suspects_by_label": counts,
    }


def _near_duplicates(
    near: Neighborhood | None, rows: NDArray[np.intp], signatures: ArtifactRef | None, store: ArtifactStore
) -> NDArray[np.intp]:
    """Pairs (e, 2) of items that are nearly equal: by signature for pictures, else by features."""
    if signatures is None:
        return np.zeros((0, 2), dtype=np.intp) if near is None else rows[close_pairs(near)]
    found = load_features(store, signatures)
    seen = np.flatnonzero(found.readable)
    if len(seen) < 2:
        return np.zeros((0, 2), dtype=np.intp)
    half = PictureSignature().n_features // 2
    values = np.asarray(found.X[seen], dtype=np.float32)
    return seen[signature_pairs(values[:, :half], values[:, half:], REACH)]


def _duplicates(items: Manifest, pairs: NDArray[np.intp]) -> dict[str, Any]:
    groups = group_pairs(pairs, len(items.ids))
    described = [_group(items, group) for group in groups]
    described.sort(key=lambda one: not one["differ"])  # stable: contradictions first, then the largest
    return {
        "duplicates": described[:_GROUPS],
        "duplicates_total": len(groups),
        "duplicates_items": int(sum(map(len, groups))),
        "duplicates_differ": sum(one["differ"] for one in described),
    }


def _group(items: Manifest, group: NDArray[np.intp]) -> dict[str, Any]:
    labels = items.labels[group]
    given = labels[(labels >= 0).all(axis=1)]
    return {
        "ids": [items.ids[row] for row in group[:_IN_GROUP].tolist()],
        "size": len(group),
        "labeled": len(given),
        "differ": bool(len(given) > 1 and (given != given[0]).any()),
        "exact": len({items.digests[row] for row in group.tolist()}) == 1,
    }


def _flattery(items: Manifest, known: LabeledItems | None, pairs: NDArray[np.intp]) -> dict[str, Any] | None:
    """How much near-duplicates in other folds flatter the scores; None without scores or duplicates."""
    rows, Y, scores = _scored(items, known)
    if known is None or known.folds is None or not len(rows) or not len(pairs):
        return None
    place = np.full(len(items.ids), -1)
    place[rows] = np.arange(len(rows))
    own = place[pairs]
    own = own[(own >= 0).all(axis=1)]
    at = {name: row for row, name in enumerate(known.ids)}
    folds = known.folds[[at[items.ids[row]] for row in rows]]
    decided = decide_out_of_fold(scores, Y, folds, known.tune_for, known.single_label)
    found = rate_flattery(Y, decided, scores, folds, own)
    if not found.rows:
        return None
    without = None if np.isnan(found.without) else round(found.without, 4)
    return {"items": found.rows, "macro_f1": round(found.all, 4), "macro_f1_without": without}


def _unlike(items: Manifest, near: Neighborhood | None, rows: NDArray[np.intp]) -> dict[str, Any]:
    if near is None:
        return {"unlike": [], "unlike_total": 0}
    isolation = near.isolation
    typical = float(np.median(isolation)) or 1.0
    far = np.flatnonzero(isolation > _FAR * typical)
    order = far[np.argsort(-isolation[far], kind="stable")]
    listed = [
        {"id": items.ids[rows[row]], "times": round(float(isolation[row] / typical), 2)}
        for row in order[:_UNLIKE].tolist()
    ]
    return {"unlike": listed, "unlike_total": len(order)}


def _label_pairs(items: Manifest, labeled: NDArray[np.bool_]) -> list[dict[str, Any]]:
    if items.single_label:
        return []  # no two classes occur together
    rows = np.flatnonzero(labeled)
    return [
        {
            "kind": pair.kind,
            "first": items.label_names[pair.first],
            "second": items.label_names[pair.second],
            "both": pair.both,
            "expected": round(pair.expected, 1),
            "exceptions": [items.ids[rows[row]] for row in pair.exceptions[:_EXCEPTIONS]],
        }
        for pair in label_pairs(items.labels[rows], _PAIRS)
    ]


def _names(items: Manifest) -> list[dict[str, Any]]:
    counts = (items.labels == 1).sum(axis=0).tolist()
    known = dict(zip(items.label_names, counts, strict=True))
    alike, typos = similar_names(known)
    groups: Iterable[tuple[Sequence[str], str]] = [
        *((names, "differ only by case or spaces") for names in alike),
        *(((rare, usual), "the first may be a typo of the second") for rare, usual in typos),
    ]
    return [
        {"names": list(names), "counts": [known[name] for name in names], "why": why} for names, why in groups
    ]
