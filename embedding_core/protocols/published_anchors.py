"""Random parts of 60 % and ten folds, as in published tables of multi-label methods; a trial has one of each.

Every method fits one model per split. Its decisions follow one rule per metric, as in `tuned_split`: one half
for the Hamming loss, one threshold for micro-F1, one threshold per label for macro-F1, all tuned on
out-of-sample scores of the training rows. The same decisions under one rule for all metrics are measured too.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedding_core.annotator import Annotator
from embedding_core.classifiers.composed import mean_of_scores
from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.threshold_tuning import tune_thresholds
from embedding_core.protocols.trial import Arm, Cell, TrialData, draw_rows, prepare, trial_rng
from embedding_core.protocols.tuned_split import FIGURES, SplitScores, score_split, split_figures

DRAWS, FOLDS = "60/40 draws", "ten folds"
SPLITS = (DRAWS, FOLDS)
CHOSEN = "chosen inside training"
"""Not a method: the candidate with the best out-of-sample figure of the training rows, for each metric."""
ONE_RULE: Mapping[str, str] = {"one half": "hamming", "one threshold": "micro_f1"}
"""Rules that decide for all metrics at once; a candidate is chosen for the metric that the rule serves."""
_SERVED = {"hamming": "hamming_loss", "micro_f1": "micro_f1"}
_DECIDED = ("hamming_loss", "micro_f1", "macro_f1")

Rows = NDArray[np.intp]


def split_rows(data: TrialData, split: str, settings: Mapping[str, Any], number: int) -> tuple[Rows, Rows]:
    """Return the training and test rows of one draw or one fold."""
    if split == FOLDS:
        return stratified_folds(data.Y, settings["folds"], settings["seed"])[number]
    return draw_rows(len(data.Y), settings["train"], trial_rng(settings["seed"], number))


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Compute `FIGURES` of one draw and of one fold, then the decisions under one rule for all metrics.

    Settings
    --------
    train : float
        Fraction of the training rows in a draw.
    folds, seed : int
    methods : mapping of str to (str, mapping)
        Members of the candidates by name: method and parameters.
    candidates : sequence of sequences of str
        The candidates of `CHOSEN`: a member alone, or several whose scores are averaged.
    """
    cells = []
    for split in SPLITS:
        train, test = split_rows(data, split, settings, number)
        found = _candidate_scores(data, arm, settings, preprocessing, split, number)
        Y_train, Y_test = data.Y[train], data.Y[test]
        for metric in FIGURES:
            best = choose_scores(found, Y_train, metric)
            cells.append(Cell(split, metric, split_figures(best, Y_train, Y_test)[metric]))
        for name, rule in ONE_RULE.items():
            best = choose_scores(found, Y_train, _SERVED[rule])
            values = decided_figures(best, Y_train, Y_test, rule)
            cells += [Cell(f"{split}, {name}", metric, value) for metric, value in values.items()]
    return cells


def decided_figures(
    scores: SplitScores, Y_train: NDArray[np.int8], Y_test: NDArray[np.int8], rule: str
) -> dict[str, float]:
    """Compute the metrics of decisions by one rule of `tune_thresholds` on the test rows."""
    decided = (scores.test > tune_thresholds(scores.left_out, Y_train, rule)).astype(np.int8)
    found = multilabel_metrics(Y_test, decided, scores.test)
    return {metric: found[metric] for metric in _DECIDED}


def choose_scores(found: Sequence[SplitScores], Y: NDArray[np.int8], metric: str) -> SplitScores:
    """Return the candidate with the best figure of the left-out training rows, the first on ties.

    Thresholds are tuned on the same scores, for all candidates alike.
    """
    sign = -1.0 if metric == "hamming_loss" else 1.0
    own = [sign * split_figures(SplitScores(one.left_out, one.left_out), Y, Y)[metric] for one in found]
    return found[int(np.argmax(own))]


def _candidate_scores(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, split: str, number: int
) -> list[SplitScores]:
    """Return the scores of an arm: a single element unless it is `CHOSEN`."""
    rows = {name: settings[name] for name in ("train", "folds", "seed")}

    def fitted(method: str, params: Mapping[str, Any]) -> SplitScores:
        recipe = json.dumps([method, dict(params), rows], sort_keys=True)
        return _fit_split(data, recipe, preprocessing, split, number)

    if arm.method != CHOSEN:
        return [fitted(arm.method, arm.params)]
    members = {name: fitted(*settings["methods"][name]) for name in settings["methods"]}
    return [_mean([members[name] for name in names]) for names in settings["candidates"]]


def _mean(scores: Sequence[SplitScores]) -> SplitScores:
    return SplitScores(
        mean_of_scores([one.left_out for one in scores]), mean_of_scores([one.test for one in scores])
    )


# The members of the candidates are arms of their own: in one process their fits are used twice.
@lru_cache(maxsize=512)
def _fit_split(data: TrialData, recipe: str, preprocessing: str, split: str, number: int) -> SplitScores:
    method, params, settings = json.loads(recipe)
    train, test = split_rows(data, split, settings, number)
    X = prepare(data.X, preprocessing, train)
    return score_split(Annotator(method, params), X, data.Y, train, test, settings["seed"])
