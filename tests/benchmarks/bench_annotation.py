"""Thresholds, the promise on precision and the test for drift on small labeled parts of real sets.

    python -m tests.benchmarks.bench_annotation [--draws 10] [--data FOLDER]

Training parts of 60 to 400 rows of seven sets, scores by ridge regression and by Kernel DLE. See
`tests.annotation_splits` for the sets and the columns; `tasks/reproduce/RESULTS.md` has published figures.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from embedding_core.annotation.drift import detect_drift
from embedding_core.annotation.precision_promise import PrecisionPromise, expect_labels, promise_precision
from embedding_core.features.color_moments import ColorMoments
from embedding_core.features.images import decode_image
from embedding_core.model_selection.threshold_tuning import decide_out_of_fold, tune_thresholds
from embedding_core.model_selection.thresholds import shrunk_share_thresholds
from tests.annotation_splits import MODELS, SETS, SIZES, Split, draw_splits, rate_decisions
from tests.benchmarks.table import Row
from tests.conftest import REPOSITORY
from tests.real_sets import read_table

DATA = Path(os.environ.get("LABELSCAPE_DATA", REPOSITORY.parent / "shared" / "data"))
LEVEL = 0.005
"""Differences in macro F1 below this are ties."""
TARGET = CONFIDENCE = 0.9
RULES: dict[str, Callable[[Split], np.ndarray]] = {
    "best F1 of each label (`label_f1`)": lambda one: tune_thresholds(one.scores, one.Y, "label_f1"),
    "one threshold (`micro_f1`)": lambda one: tune_thresholds(one.scores, one.Y, "micro_f1"),
    "share of the labeled rows": lambda one: shrunk_share_thresholds(one.scores, one.Y, prior_carriers=1e9),
    "share shrunk to it (`macro_f1`)": lambda one: tune_thresholds(one.scores, one.Y, "macro_f1"),
}
OLD, NEW = "best F1 of each label (`label_f1`)", "share shrunk to it (`macro_f1`)"
SHIFTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda rgb: rgb,
    "brightness x .85": lambda rgb: rgb * 0.85,
    "brightness + 40": lambda rgb: rgb + 40.0,
    "brightness x .5": lambda rgb: rgb * 0.5,
    "gray": lambda rgb: np.repeat(rgb.mean(axis=2, keepdims=True), 3, axis=2),
    "contrast x .6": lambda rgb: 0.6 * rgb + 0.4 * rgb.mean(axis=(0, 1)),
}


def compare_rules(splits: Sequence[Split]) -> dict[str, list[dict[str, float]]]:
    """Rate every rule on every split."""
    return {name: [rate_decisions(one, rule(one)) for one in splits] for name, rule in RULES.items()}


def wins(rated: dict[str, list[dict[str, float]]], name: str) -> tuple[int, int, int]:
    """Splits on which the macro F1 of a rule is higher than that of `OLD`, equal, and lower."""
    ours, theirs = ([one["macro F1"] for one in rated[rule]] for rule in (name, OLD))
    lead = np.subtract(ours, theirs)
    return int((lead > LEVEL).sum()), int((np.abs(lead) <= LEVEL).sum()), int((lead < -LEVEL).sum())


def print_rules(title: str, rated: dict[str, list[dict[str, float]]]) -> None:
    columns = list(rated[OLD][0])
    print(f"\n| {title} | {' | '.join(columns)} | win-tie-loss |\n|{'---|' * (len(columns) + 2)}")
    for name, found in rated.items():
        cells = [f"{np.mean([one[column] for one in found]):.3f}" for column in columns]
        print(f"| {name} | {' | '.join(cells)} | {'-'.join(map(str, wins(rated, name)))} |")


def print_sets(splits: Sequence[Split], rated: dict[str, list[dict[str, float]]]) -> None:
    """Macro F1 and absurd labels by set and by size, old against new rule."""
    groups = [(name, [one.name == name for one in splits]) for name in SETS]
    groups += [(f"{size} rows", [one.size == size for one in splits]) for size in SIZES]
    print("\n| part | splits | macro F1, old | new | absurd, old | new |\n|---|---|---|---|---|---|")
    for title, chosen in groups:
        if any(chosen):
            cells = [
                f"{np.mean([one[column] for one, here in zip(rated[rule], chosen, strict=True) if here]):.3f}"
                for column in ("macro F1", "absurd")
                for rule in (OLD, NEW)
            ]
            print(f"| {title} | {sum(chosen)} | {' | '.join(cells)} |")


def rate_promise(split: Split, promise: PrecisionPromise) -> tuple[float, float] | None:
    """Precision and recall of what is written for the test rows; None if nothing is written."""
    if promise.threshold is None:
        return None
    written = promise.threshold < split.test_scores
    right = (written & (split.Y_test == 1)).sum()
    return float(right / max(1, written.sum())), float(right / split.Y_test.sum())


def naive_promise(split: Split) -> float | None:
    """The lowest threshold with the target precision on the labeled rows."""
    order = np.argsort(-split.scores, axis=None)
    right = split.Y.ravel()[order].cumsum() / np.arange(1, split.Y.size + 1)
    reached = np.flatnonzero(right >= TARGET)
    return float(split.scores.ravel()[order[reached[-1]]]) - 1e-9 if len(reached) else None


def judge_promises(splits: Sequence[Split]) -> dict[str, float]:
    """Share of splits that abstain, violations, and mean precision and recall."""
    promises = [promise_precision(one.scores, one.Y, TARGET, CONFIDENCE) for one in splits]
    found = [rate_promise(one, promise) for one, promise in zip(splits, promises, strict=True)]
    return summarize(found)


def judge_naive(splits: Sequence[Split]) -> dict[str, float]:
    found: list[tuple[float, float] | None] = []
    for one in splits:
        cut = naive_promise(one)
        written = one.test_scores > (np.inf if cut is None else cut)
        right = (written & (one.Y_test == 1)).sum()
        found.append(
            (float(right / written.sum()), float(right / one.Y_test.sum())) if written.any() else None
        )
    return summarize(found)


def summarize(found: Sequence[tuple[float, float] | None]) -> dict[str, float]:
    written = [one for one in found if one is not None]
    broken = sum(precision < TARGET for precision, _ in written)
    return {
        "runs": len(found),
        "abstains": 1 - len(written) / len(found),
        "broken, of those written": broken / max(1, len(written)),
        "broken, of all runs": broken / len(found),
        "precision": float(np.mean([one[0] for one in written])) if written else float("nan"),
        "recall over all runs": sum(one[1] for one in written) / len(found),
    }


def print_promises(rows: dict[str, dict[str, float]]) -> None:
    columns = list(next(iter(rows.values())))
    print(f"\n| promise .9, confidence .9 | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, found in rows.items():
        cells = [f"{found[column]:.3f}".replace(".000", "") for column in columns]
        print(f"| {name} | {' | '.join(cells)} |")


def print_expectations(splits: Sequence[Split]) -> None:
    """Expected against true precision of the labels that were given to test rows, by number of carriers."""
    rows: list[tuple[int, float, float, float]] = []
    for one in splits:
        thresholds = tune_thresholds(one.scores, one.Y, "macro_f1")
        out = expect_labels(decide_out_of_fold(one.scores, one.Y, one.folds, "macro_f1"), one.Y)
        same = expect_labels(one.scores > thresholds, one.Y)
        true = expect_labels(one.test_scores > thresholds, one.Y_test).precision
        rows += zip(out.carriers.tolist(), out.precision, same.precision, true, strict=True)
    table = np.array(rows, dtype=float)
    table = table[~np.isnan(table).any(axis=1)]
    columns = ("carriers", "labels", "true precision", "expected, other folds", "same rows", "error", "error")
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for low, high in ((1, 5), (6, 20), (21, 1000)):
        part = table[(table[:, 0] >= low) & (table[:, 0] <= high)]
        if len(part):
            _, out, same, true = part.T
            errors = [f"{np.abs(expected - true).mean():.3f}" for expected in (out, same)]
            means = " | ".join(f"{column.mean():.3f}" for column in (true, out, same))
            print(f"| {low} to {high} | {len(part)} | {means} | {' | '.join(errors)} |")


def print_false_alarms(folder: Path, draws: int) -> tuple[float, float]:
    """Share of alarms between two random parts of a table, at .01 and .05."""
    p = []
    for name in ("emotions", "scene", "yeast", "mediamill_reduced"):
        X = read_table(folder, name)[0]
        for seed in range(draws):
            order = np.random.default_rng(seed).permutation(len(X))
            p.append(detect_drift(X[order[:150]], X[order[150:300]], random_state=seed).p_value)
    rates = float(np.mean(np.array(p) <= 0.01)), float(np.mean(np.array(p) <= 0.05))
    print(f"\nfalse alarms in {len(p)} draws: {rates[0]:.3f} at .01, {rates[1]:.3f} at .05")
    return rates


def print_shifts(folder: Path, draws: int, photos: int = 591) -> float:
    """Photos of MSRC v2: 400 labeled, the rest changed. Return the share of changes that were detected."""
    files = sorted((folder / "msrc_v2" / "images").iterdir())[:photos]
    pixels = [decode_image(file.read_bytes()).astype(np.float64) for file in files]
    extractor = ColorMoments()
    detected = []
    print("\n| photos changed | AUC | detected at .01 |\n|---|---|---|")
    blocks: dict[str, np.ndarray] = {}
    for name, change in SHIFTS.items():
        changed = [np.clip(change(rgb), 0, 255).astype(np.uint8) for rgb in pixels]
        blocks[name] = np.array([extractor.extract(rgb) for rgb in changed], dtype=np.float64)
        found = []
        for seed in range(draws):
            order = np.random.default_rng(seed).permutation(len(files))
            cut = 2 * len(files) // 3
            sides = blocks["none"][order[:cut]], blocks[name][order[cut:]]
            found.append(detect_drift(*sides, random_state=seed))
        hits = sum(one.verdict == "void" for one in found)
        print(f"| {name} | {np.mean([one.auc for one in found]):.2f} | {hits}/{draws} |")
        if name != "none":
            detected.append(hits / draws)
    return float(np.mean(detected))


def measure(quick: bool = False, draws: int = 10, data: Path = DATA) -> list[Row]:
    """Print every table and return the rows of the benchmark table."""
    names, sizes, draws = (["emotions", "yeast"], (60,), 2) if quick else (list(SETS), SIZES, draws)
    rows: list[Row] = []
    promises = {}
    for model, scores in MODELS.items():
        count = draws if model != "ridge" else 2 * draws
        splits = list(draw_splits(data, names, sizes, count, scores))
        rated = compare_rules(splits)
        print_rules(f"{model}, {len(splits)} splits", rated)
        print_sets(splits, rated)
        print_expectations(splits)
        promises[f"{model}, naive"] = judge_naive(splits)
        promises[f"{model}, fixed sequence"] = kept = judge_promises(splits)
        old, new = (np.mean([one["absurd"] for one in rated[rule]]) for rule in (OLD, NEW))
        gain = np.mean([one["macro F1"] for one in rated[NEW]]) - np.mean(
            [one["macro F1"] for one in rated[OLD]]
        )
        title = f"{model}, {len(splits)} splits of 60 to 400 rows"
        rows += [
            (
                f"labels given to more than 5 times their share, {title}",
                "at most 0.1",
                f"{new:.3f} (best F1: {old:.3f})",
                "",
            ),
            (f"gain in macro F1 over the best F1 of each label, {title}", "at least 0", f"{gain:.3f}", ""),
            (
                f"promises of 90 % that were broken, {title}",
                "at most 0.1",
                f"{kept['broken, of all runs']:.3f}",
                "",
            ),
        ]
    print_promises(promises)
    alarms = print_false_alarms(data, 2 if quick else 40)
    found = print_shifts(data, 1 if quick else 5, 60 if quick else 591)
    rows += [
        ("false alarms of drift at p <= .01, 160 draws", "at most 0.02", f"{alarms[0]:.3f}", ""),
        ("changed photos (brightness, gray, contrast) detected", "at least 0.9", f"{found:.2f}", ""),
    ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=10, help="draws of each size; twice as many for ridge")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    measure(given.quick, given.draws, given.data)


if __name__ == "__main__":
    main()
