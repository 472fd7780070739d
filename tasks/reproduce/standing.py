"""Where the papers' own methods stand against plain baselines under one fixed protocol: z-scored features."""

from collections.abc import Sequence

from tasks.reproduce.comparison import BETTER, REPRODUCED, Row, judge_cell
from tasks.reproduce.experiment import BASELINES, TUNED_BASELINES, Experiment

FIXED = "zscore"
"""The preprocessing of the fixed protocol; everything else is chosen on the training part anyway."""

_PLAIN = (*BASELINES, *TUNED_BASELINES)
_WORDS = {BETTER: "ahead", REPRODUCED: "level"}


def standing(experiment: Experiment, rows: Sequence[Row]) -> dict[str, int]:
    """In how many cells the proposed method is ahead of the best baseline, level (2 points) or behind."""
    counted = {"ahead": 0, "level": 0, "behind": 0}
    for row in rows:
        plain = [row.baselines[arm.title] for arm in _PLAIN if arm.title in row.baselines]
        if (
            row.method == experiment.proposed
            and experiment.judged_by in ("", row.metric)
            and row.preprocessing == FIXED
            and row.mean is not None
            and plain
        ):
            counted[_WORDS.get(judge_cell(_best(plain, row.metric), row.mean, row.metric), "behind")] += 1
    return counted


def _best(values: Sequence[float], metric: str) -> float:
    """The value that no other betters."""
    rising = judge_cell(0.0, 1.0, metric) == BETTER
    return max(values) if rising else min(values)
