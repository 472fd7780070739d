"""Rank methods by their scores, and compare the best method with the best baseline."""

import difflib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from embedding_core.metrics import METRICS
from storage.errors import ConfigError
from tasks.report.data import ScoreRow

LOWER_IS_BETTER = frozenset(metric.name for metric in METRICS if not metric.higher_is_better)
METRIC_TITLES = {metric.name: metric.title for metric in METRICS}


@dataclass(frozen=True)
class Entry:
    """One method with one classifier: the value of each metric on each fold."""

    method: str
    classifier: str
    values: Mapping[str, Mapping[int, float]]

    def mean(self, metric: str) -> float | None:
        """Mean over the folds; None if the metric was not measured."""
        folds = self.values.get(metric)
        return float(np.mean(list(folds.values()))) if folds else None

    def spread(self, metric: str) -> float | None:
        """Standard deviation over the folds (ddof=1); None for fewer than two folds."""
        folds = self.values.get(metric, {})
        return float(np.std(list(folds.values()), ddof=1)) if len(folds) > 1 else None

    def title(self, titles: Mapping[str, str] | None = None) -> str:
        """Title of the method, with the classifier unless that is the method itself."""
        name = (titles or {}).get(self.method, self.method)
        if self.classifier in ("", self.method):
            return name
        shown = self.classifier.upper() if self.classifier.endswith("nn") else self.classifier
        return f"{name}, {shown}"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison, and a sentence that states it with its numbers."""

    kind: Literal["ahead", "level", "behind", "unknown"]
    text: str


def metric_title(metric: str) -> str:
    """Display name of a metric; an unknown metric keeps its name."""
    return METRIC_TITLES.get(metric, metric.replace("_", " "))


def metric_arrow(metric: str) -> str:
    """Arrow that shows which direction is better."""
    return "↓" if metric in LOWER_IS_BETTER else "↑"


def available_metrics(scores: Iterable[ScoreRow]) -> list[str]:
    """Metrics that occur: known ones in the order of METRICS, then others as they come."""
    found = dict.fromkeys(row[3] for row in scores)
    return [m for m in METRIC_TITLES if m in found] + [m for m in found if m not in METRIC_TITLES]


def group_scores(scores: Iterable[ScoreRow]) -> list[Entry]:
    """Group scores by method and classifier; values that are not finite are ignored."""
    gathered: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for method, classifier, fold, metric, value in scores:
        metrics = gathered.setdefault((method, classifier), {})
        if np.isfinite(value):
            metrics.setdefault(metric, {})[int(fold)] = float(value)
    return [Entry(method, classifier, values) for (method, classifier), values in gathered.items()]


def rank_entries(scores: Sequence[ScoreRow], sort_by: str) -> list[Entry]:
    """Sort entries best first by the mean of `sort_by`; entries without it last; ties by name."""
    known = available_metrics(scores)
    if known and sort_by not in known:
        near = difflib.get_close_matches(sort_by, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"Unknown metric {sort_by!r}; available: {', '.join(known)}.{hint}")
    sign = 1.0 if sort_by in LOWER_IS_BETTER else -1.0

    def order(entry: Entry) -> tuple[bool, float, str, str]:
        mean = entry.mean(sort_by)
        return mean is None, sign * (mean or 0.0), entry.method, entry.classifier

    return sorted(group_scores(scores), key=order)


def format_score(mean: float | None, spread: float | None = None) -> str:
    """Format as ``0.601 ± 0.021``; without a spread only the mean, without a mean a dash."""
    if mean is None or not np.isfinite(mean):
        return "–"
    if spread is None or not np.isfinite(spread):
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {spread:.3f}"


def judge(
    scores: Sequence[ScoreRow],
    sort_by: str,
    baselines: Set[str],
    titles: Mapping[str, str] | None = None,
) -> Verdict:
    """Say whether the best method beats the best plain baseline by more than the spread.

    The two are compared fold by fold (they see the same folds): the mean of the differences
    against their standard deviation over the folds.
    """
    ranked = [entry for entry in rank_entries(scores, sort_by) if entry.mean(sort_by) is not None]
    methods = [entry for entry in ranked if entry.method not in baselines]
    plain = [entry for entry in ranked if entry.method in baselines]
    if not methods or not plain:
        missing = "scores" if not ranked else "plain baseline" if methods else "method beside the baselines"
        return Verdict("unknown", f"There is no {missing} here, so nothing can be compared.")
    return _compare(methods, plain, sort_by, titles)


def _compare(
    methods: list[Entry], plain: list[Entry], metric: str, titles: Mapping[str, str] | None
) -> Verdict:
    best, base = methods[0], plain[0]
    names = best.title(titles), base.title(titles)
    values = tuple(format_score(entry.mean(metric), entry.spread(metric)) for entry in (best, base))
    leads = _fold_leads(best, base, metric)
    if len(leads) < 2:
        text = (
            f"{names[0]} reaches {values[0]} in {metric_title(metric)}, the best plain baseline ({names[1]}) "
            f"{values[1]}. With fewer than two common folds there is no spread, so this is no ranking."
        )
        return Verdict("unknown", text)
    return _state(names, values, metric_title(metric), leads, n_methods=len(methods))


def _fold_leads(best: Entry, base: Entry, metric: str) -> list[float]:
    """Difference on each common fold, positive where `best` is better."""
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    ours, theirs = best.values[metric], base.values[metric]
    return [sign * (ours[fold] - theirs[fold]) for fold in sorted(ours.keys() & theirs.keys())]


def _state(
    names: tuple[str, str], values: tuple[str, ...], title: str, leads: list[float], n_methods: int
) -> Verdict:
    best, base = names
    lead, spread = float(np.mean(leads)), float(np.std(leads, ddof=1))
    amount = f"{abs(lead):.3f} ± {spread:.3f}"
    if abs(lead) <= spread:
        text = (
            f"{best} ({values[0]}) and the best plain baseline, {base} ({values[1]}), cannot be told apart "
            f"in {title}: fold by fold they differ by {amount}, which is within the spread."
        )
        return Verdict("level", text)
    if lead < 0:
        won = sum(value < 0 for value in leads)
        text = (
            f"No method beats the plain baselines here: {base} ({values[1]}) is ahead of the best method, "
            f"{best} ({values[0]}), in {title} on {won} of {len(leads)} folds, "
            f"by {amount}; more than the spread."
        )
        return Verdict("behind", text)
    won = sum(value > 0 for value in leads)
    text = (
        f"{best} ({values[0]}) beats the best plain baseline, {base} ({values[1]}), in {title} on {won} of "
        f"{len(leads)} folds, by {amount}; more than the spread."
    )
    if n_methods > 1:
        text += f" It is the best of {n_methods} picked on these same folds, which flatters it a little."
    return Verdict("ahead", text)
