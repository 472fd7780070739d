"""The labeling loop simulated: `closest` against `random`, and how often a forecast covers what happened.

    python -m tests.benchmarks.bench_label_loop [--seeds 8] [--data FOLDER]

From 40 random labels to 240 in batches of 20; macro F1 on at most 1,000 rows that are never labeled.
`closest` takes the items whose nearest label is closest to its threshold, spread out as `labelscape next`
does. Forecasts of 100 more labels are made at 100 and 140 random labels. The model is ridge regression with
thresholds from exact leave-one-out scores, the one that forecasts use.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from embedding_core.annotation.evidence import margins, rank_by_doubt
from embedding_core.label_care.forecast import METRICS, SEEN, GainForecast, forecast_gains, ridge_learner
from embedding_core.label_care.spread import spread_out
from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.thresholds import exceed_thresholds
from tests.annotation_splits import MOST_TEST_ROWS, SETS
from tests.benchmarks.bench_annotation import DATA

NAMES = ("scene", "yeast", "emotions", "msrc_v2")
FIRST, LAST, BATCH, MORE = 40, 240, 20, 100
FORECAST_AT = (100, 140)


def rate(X: Any, Y: np.ndarray, train: np.ndarray, test: np.ndarray, seen: np.ndarray) -> dict[str, float]:
    scores, cuts = ridge_learner(X[train], Y[train], X[test])
    decided = exceed_thresholds(scores, cuts)
    whole = multilabel_metrics(Y[test], decided, scores)
    macro = multilabel_metrics(Y[test][:, seen], decided[:, seen], scores[:, seen], skip_absent=True)
    return {**{name: whole[name] for name in METRICS}, "macro_f1": macro["macro_f1"]}


def closest(X: Any, Y: np.ndarray, labeled: np.ndarray, rest: np.ndarray) -> np.ndarray:
    scores, cuts = ridge_learner(X[labeled], Y[labeled], X[rest])
    order, _ = rank_by_doubt(margins(scores, cuts))
    return rest[spread_out(order, X[rest], BATCH)]


def simulate(
    X: Any, Y: np.ndarray, kind: str, seed: int
) -> tuple[list[float], list[tuple[str, GainForecast, float]]]:
    """Macro F1 after each batch, and each forecast with the gain that happened."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(Y))
    count = min(MOST_TEST_ROWS, len(Y) - LAST - 60)
    test, pool = order[:count], order[count:]
    every = np.ones(Y.shape[1], dtype=bool)
    labeled, curve, checked = pool[:FIRST], [], []
    pending: list[tuple[int, np.ndarray, dict[str, float], dict[str, GainForecast]]] = []
    while True:
        curve.append(rate(X, Y, labeled, test, every)["macro_f1"])
        for target, seen, before, made in pending:
            if len(labeled) == target:
                now = rate(X, Y, labeled, test, seen)
                checked += [(name, made[name], now[name] - before[name]) for name in METRICS]
        if kind == "random" and len(labeled) in FORECAST_AT:
            seen = Y[labeled].sum(axis=0) >= SEEN
            before = rate(X, Y, labeled, test, seen)
            pending.append(
                (len(labeled) + MORE, seen, before, forecast_gains(X[labeled], Y[labeled], MORE, seed=seed))
            )
        if len(labeled) >= LAST:
            return curve, checked
        rest = np.setdiff1d(pool, labeled)
        chosen = rng.choice(rest, BATCH, replace=False) if kind == "random" else closest(X, Y, labeled, rest)
        labeled = np.concatenate([labeled, chosen])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    forecasts: list[tuple[str, str, GainForecast, float]] = []
    print("| set | labels | random | closest | closest - random |\n|---|---|---|---|---|")
    for name in NAMES:
        X, Y = SETS[name](options.data)
        curves: dict[str, np.ndarray] = {}
        for kind in ("random", "closest"):
            runs = [simulate(X, Y, kind, seed) for seed in range(options.seeds)]
            curves[kind] = np.array([curve for curve, _ in runs])
            forecasts += [(name, *one) for _, checked in runs for one in checked]
        lead = curves["closest"] - curves["random"]
        for place in (0, 2, 5, 10):
            cells = [
                f"{one[:, place].mean():.3f} ± {one[:, place].std():.3f}" for one in (*curves.values(), lead)
            ]
            print(f"| {name} | {FIRST + BATCH * place} | {' | '.join(cells)} |")
        mean = lead.mean(axis=1)
        found = f"{mean.mean():+.3f} ± {mean.std():.3f}, up in {(mean > 0).sum()} of {len(mean)}"
        print(f"| {name} | mean of the curve | | | {found} |", flush=True)
    header = "set | metric | forecasts | true gain | forecast | error | covered"
    print(f"\n| {header} |\n|{'---|' * 7}")
    for name in (*NAMES, "all"):
        for metric in METRICS:
            print_coverage(name, metric, forecasts)


def print_coverage(name: str, metric: str, forecasts: list[tuple[str, str, GainForecast, float]]) -> None:
    chosen = [
        (made, true) for place, one, made, true in forecasts if one == metric and name in (place, "all")
    ]
    true, said = np.array([one for _, one in chosen]), np.array([made.gain for made, _ in chosen])
    covered = np.mean([made.covers(one) for made, one in chosen])
    cells = " | ".join(f"{value:.3f}" for value in (true.mean(), said.mean(), np.abs(true - said).mean()))
    print(f"| {name} | {metric} | {len(chosen)} | {cells} | {covered:.0%} |", flush=True)


if __name__ == "__main__":
    main()
