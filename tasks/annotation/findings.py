"""What can be said about predicted labels as a whole: expected precision, a promise, drift of the new items.

Everything is plain data, which the annotations keep and `labelscape annotate` prints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.labeled_items import LabeledItems
from tasks.selection.rare_labels import FEWEST

if TYPE_CHECKING:
    from embedding_core.annotation.precision_promise import LabelExpectation, PrecisionPromise
    from embedding_core.annotator import Annotator

LOW_PRECISION = 0.5
"""Labels with a lower expected precision are to be checked."""
# What is left of a promise after the test whether new items are like the labeled ones.
HOLDS, DOUBTFUL, VOID, NONE = "holds", "doubtful", "void", "none"
_STATES = {"same": HOLDS, "untested": HOLDS, "warn": DOUBTFUL, "void": VOID}


@dataclass(frozen=True, eq=False)
class Decision:
    """Labels (m, K) of new items and the thresholds (K,) that decided; None for the highest score."""

    labels: NDArray[np.int8]
    thresholds: NDArray[np.float64] | None


def make_promise(
    labeled: LabeledItems, precision: float, confidence: float, apart: NDArray[np.float64] | None = None
) -> "PrecisionPromise":
    """One threshold for all labels from the out-of-fold scores; of single labels only the best one counts.

    `apart` are the scores (r, K) of labeled items whose class the model does not have.
    """
    from embedding_core.annotation.precision_promise import promise_precision

    scores, labels = _promised(labeled, apart)
    return promise_precision(scores, _expect_unknown(labels, apart), precision, confidence)


def _expect_unknown(labels: NDArray[np.int8], apart: NDArray[np.float64] | None) -> NDArray[np.int8]:
    """Labels (n, K) in which classes of few items count as unknown, if the model leaves out others.

    More new items than labeled ones have a class that the model lacks: a class is left out because few of its
    items happened to be labeled. By the estimate of Good and Turing, as many have one as labeled items have a
    class that would be left out if one of its items were missing. So these count as wrong, too.
    """
    return labels if apart is None else labels * (labels.sum(axis=0) > FEWEST).astype(np.int8)


def _promised(
    labeled: LabeledItems, apart: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Scores and labels of the labeled items; those `apart` have no label that the model knows."""
    assert labeled.scores is not None
    scores, labels = labeled.scores, labeled.labels
    if apart is not None:
        scores, labels = np.vstack([scores, apart]), np.vstack([labels, np.zeros(apart.shape, np.int8)])
    return keep_best(scores) if labeled.single_label else scores, labels


def keep_best(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores in which all but the highest one of each row are -1, below every threshold."""
    from embedding_core.knn_classifier import decide_labels

    return np.where(decide_labels(scores, single_label=True) == 1, scores, -1.0)


def decide(
    annotator: "Annotator", scores: NDArray[np.float64], promise: "PrecisionPromise | None"
) -> Decision:
    """Decide labels by the thresholds of the model, or by that of a promise.

    A promise abstains from labels that no labeled item got, and from all labels if nothing can be promised.
    """
    from embedding_core.model_selection.thresholds import exceed_thresholds

    if promise is None:
        return Decision(annotator.decide(scores), annotator.decision_thresholds())
    cut = np.inf if promise.threshold is None else max(promise.threshold, 0.0)
    thresholds = np.where(promise.labels.given > 0, cut, np.inf)
    written = keep_best(scores) if annotator.single_label else scores
    return Decision(exceed_thresholds(written, thresholds), thresholds)


def expect(
    labeled: LabeledItems | None,
    promise: "PrecisionPromise | None",
    apart: NDArray[np.float64] | None = None,
) -> "LabelExpectation | None":
    """How often each label was given rightly to labeled items by models that had not seen them.

    `apart` are the scores (r, K) of labeled items whose class the model does not have.
    """
    from embedding_core.annotation.precision_promise import expect_labels
    from embedding_core.knn_classifier import decide_labels
    from embedding_core.model_selection.threshold_tuning import decide_out_of_fold

    if promise is not None:
        return promise.labels
    if labeled is None or labeled.scores is None or labeled.folds is None:
        return None
    decided = decide_out_of_fold(
        labeled.scores, labeled.labels, labeled.folds, labeled.tune_for, labeled.single_label
    )
    if apart is None:
        return expect_labels(decided, labeled.labels)
    others = decide_labels(apart, labeled.single_label)
    return expect_labels(np.vstack([decided, others]), np.vstack([labeled.labels, np.zeros_like(others)]))


def describe_labels(
    names: Sequence[str],
    given: NDArray[np.intp],
    items: int,
    thresholds: NDArray[np.float64] | None,
    labeled: LabeledItems | None,
    expected: "LabelExpectation | None",
) -> list[dict[str, Any]]:
    """One record per label: how often it was given to the items, what to expect, and whether to check it."""
    from embedding_core.annotation.plausibility import is_implausible, times_share

    unknown = np.full(len(names), np.nan)
    times, odd, carriers = unknown, np.zeros(len(names), dtype=bool), None
    if labeled is not None:
        carriers = labeled.labels.sum(axis=0)
        times = times_share(given, items, carriers, len(labeled.ids))
        odd = is_implausible(given, items, carriers, len(labeled.ids))
    precision = expected.precision if expected else unknown
    recall = expected.recall if expected else unknown
    return [
        {
            "label": name,
            "given": int(given[k]),
            "threshold": None if thresholds is None else finite(thresholds[k]),
            "carriers": None if carriers is None else int(carriers[k]),
            "expected_precision": finite(precision[k]),
            "expected_recall": finite(recall[k]),
            "times_share": finite(times[k]),
            "implausible": bool(odd[k]),
            "check": bool(given[k] and (odd[k] or (expected and not precision[k] >= LOW_PRECISION))),
        }
        for k, name in enumerate(names)
    ]


def describe_promise(
    promise: "PrecisionPromise",
    labeled: LabeledItems,
    drift: Mapping[str, Any] | None,
    apart: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """The promise, what is left of it after the test for drift, and the labels that it abstains from."""
    from embedding_core.annotation.precision_promise import rows_needed_per_label

    needed = rows_needed_per_label(*_promised(labeled, apart), promise.target, promise.confidence)
    rows = promise.labels.rows
    verdict = drift["verdict"] if drift else "untested"
    return {
        "precision": promise.target,
        "confidence": promise.confidence,
        "state": NONE if promise.threshold is None else _STATES[verdict],
        "sentence": promise.sentence,
        "threshold": promise.threshold,
        "checked": promise.checked,
        "wrong": promise.wrong,
        "expected_recall": promise.expected_recall,
        "suggestions_needed": promise.needed,
        "labeled_items": rows,
        "labeled_items_needed": promise.rows_needed,
        "abstained": [
            {"label": name, "more_labeled_items": None if count is None else max(0, count - rows)}
            for name, count, given in zip(labeled.label_names, needed, promise.labels.given, strict=True)
            if not given
        ],
    }


def describe_drift(
    annotator: "Annotator", known: Any, new: Any, names: Sequence[str] | None
) -> dict[str, Any]:
    """Whether the new items are like the labeled ones; if not, which blocks and features moved most.

    `known` and `new` are prepared features of labeled and new items.
    """
    from embedding_core.annotation.drift import detect_drift

    found = detect_drift(known, new)
    moved = _find_moved(annotator, known, new, names) if found.verdict in ("warn", "void") else {}
    return {
        "verdict": found.verdict,
        "sentence": found.sentence,
        "auc": finite(found.auc),
        "p_value": found.p_value,
        "labeled": found.labeled,
        "new": found.new,
        "blocks": moved.get("blocks", []),
        "features": moved.get("features", []),
    }


def _find_moved(
    annotator: "Annotator", known: Any, new: Any, names: Sequence[str] | None
) -> dict[str, list[Any]]:
    from embedding_core.annotation.drift import moved_blocks, moved_features
    from embedding_core.preprocessing import Preprocessor

    scaler = annotator.scaler_
    kept = [np.arange(known.shape[1])]
    blocks: list[Any] = []
    if isinstance(scaler, Preprocessor):
        kept = scaler.kept_columns()
        widths = [(str(block["name"]), len(one)) for block, one in zip(scaler.blocks, kept, strict=True)]
        blocks = list(moved_blocks(known, new, widths)) if len(widths) > 1 else []
    columns = np.concatenate(kept)
    features: list[Any] = []
    if names is not None and len(columns) == known.shape[1] and columns.max(initial=0) < len(names):
        features = list(moved_features(known, new, [names[column] for column in columns]))
    return {
        key: [{"name": one.name, "size": finite(one.size)} for one in found]
        for key, found in (("blocks", blocks), ("features", features))
    }


def finite(value: Any) -> float | None:
    """A number for JSON; None for NaN and infinite ones."""
    return float(value) if np.isfinite(value) else None
