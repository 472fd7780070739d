"""Planted label errors: how many of them `review` finds, beside a naive ranking and cleanlab's.

    python -m tests.benchmarks.bench_label_errors [--seeds 8] [--data FOLDER]

Five percent of the labels are flipped, out-of-fold scores are computed from the flipped labels, and as many
decisions are listed as were flipped; precision and recall are then equal. Two ways of planting: decisions
(item, label) drawn at random, most of which become labels that are wrong; and as many labels removed as
added, 5 % of the given ones each. cleanlab is used if it is installed.
"""

import argparse
from pathlib import Path

import numpy as np

from embedding_core.label_care.suspects import contradiction
from embedding_core.model_selection.folds import stratified_folds
from tests.annotation_splits import MODELS, SETS
from tests.benchmarks.bench_annotation import DATA

SHARE = 0.05
NAMES = ("msrc_v2", "scene")
WAYS = ("any", "balanced")


def plant(Y: np.ndarray, way: str, rng: np.random.Generator) -> np.ndarray:
    """Return which decisions (n, K) are flipped."""
    flipped = np.zeros(Y.size, dtype=bool)
    if way == "any":
        flipped[rng.choice(Y.size, round(SHARE * Y.size), replace=False)] = True
        return flipped.reshape(Y.shape)
    count = round(SHARE * int(Y.sum()))
    for value in (0, 1):
        flipped[rng.choice(np.flatnonzero(Y.ravel() == value), count, replace=False)] = True
    return flipped.reshape(Y.shape)


def out_of_fold(X: np.ndarray, Y: np.ndarray, model: str, seed: int) -> np.ndarray:
    scores = np.empty(Y.shape)
    for train, test in stratified_folds(Y, 5, seed):
        scores[test] = MODELS[model](X[train], Y[train], X[test])
    return scores


def cleanlab_ranking(scores: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
    """Self-confidence of each decision, adjusted by cleanlab's threshold of its class (lower is worse)."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        return None
    S = np.clip(scores, 1e-6, 1 - 1e-6)
    columns = [
        get_label_quality_scores(
            Y[:, k].astype(int), np.column_stack([1 - S[:, k], S[:, k]]), adjust_pred_probs=True
        )
        for k in range(Y.shape[1])
    ]
    return 1 - np.column_stack(columns)


def found_share(suspicion: np.ndarray, flipped: np.ndarray) -> float:
    """Share of the flipped decisions among as many most suspicious ones: precision and recall."""
    top = np.argsort(-suspicion, axis=None, kind="stable")[: int(flipped.sum())]
    return float(flipped.ravel()[top].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    print("| set | model | planted | flipped | review | naive | cleanlab | chance |")
    print("|---|---|---|---|---|---|---|---|")
    for name in NAMES:
        X, Y = SETS[name](options.data)
        for model in options.models:
            for way in WAYS:
                rows = []
                for seed in range(options.seeds):
                    flipped = plant(Y, way, np.random.default_rng(seed))
                    given = np.where(flipped, 1 - Y, Y).astype(np.int8)
                    scores = out_of_fold(X, given, model, seed)
                    ranked = cleanlab_ranking(scores, given)
                    rows.append(
                        [
                            flipped.sum(),
                            found_share(contradiction(scores, given), flipped),
                            found_share(np.abs(given - scores), flipped),
                            np.nan if ranked is None else found_share(ranked, flipped),
                            flipped.mean(),
                        ]
                    )
                mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
                cells = " | ".join(f"{mean[k]:.3f} ± {spread[k]:.3f}" for k in (1, 2, 3))
                print(f"| {name} | {model} | {way} | {mean[0]:.0f} | {cells} | {mean[4]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
