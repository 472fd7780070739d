"""Rank methods by their scores, and say whether the best one beats the best baseline by more than noise."""

import difflib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from embedding_core.metrics import METRICS
from embedding_core.model_selection.significance import Lead, paired_lead
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
    """Metrics that occur: known ones in the order of METRIC_TITLES, then others in order of appearance."""
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


def describe_drop(metric: str, before: float, now: float, tolerance: float, holder: str = "") -> str:
    """How far the best score fell; empty within the tolerance. `holder` says whose score was before."""
    fall = now - before if metric in LOWER_IS_BETTER else before - now
    if fall <= tolerance:
        return ""
    start = f"{before:.3f}, {holder}," if holder else f"{before:.3f}"
    return f"{metric_title(metric)} went from {start} to {now:.3f}, more than the tolerance of {tolerance:g}"


def describe_lead(lead: Lead) -> str:
    """A lead in words, as every table and summary states it.

    >>> describe_lead(paired_lead([0.80, 0.82, 0.81], [0.75, 0.78, 0.77]))
    '0.043 ± 0.006, more than noise (0.015)'

    The best of several has to lead by more:

    >>> describe_lead(paired_lead([0.80, 0.82, 0.81], [0.75, 0.78, 0.77], picked_among=4))
    '0.043 ± 0.006, more than noise (0.033 for the best of 4)'
    """
    amount = f"{abs(lead.mean):.3f} ± {lead.spread:.3f}"
    picked = f" for the best of {lead.picked_among}" if lead.picked_among > 1 else ""
    return f"{amount}, {'more than' if lead.beyond_noise else 'within'} noise ({lead.needed:.3f}{picked})"


def judge(
    scores: Sequence[ScoreRow],
    sort_by: str,
    baselines: Set[str],
    titles: Mapping[str, str] | None = None,
) -> Verdict:
    """Say whether the best method beats the best plain baseline by more than noise.

    The two are compared fold by fold, on the same folds, with the test that `auto` uses too
    (`embedding_core.model_selection.significance`).
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
    best, base, title = methods[0], plain[0], metric_title(metric)
    ours, theirs = (
        f"{entry.title(titles)} ({format_score(entry.mean(metric), entry.spread(metric))})"
        for entry in (best, base)
    )
    lead = compare_entries(best, base, metric, len(methods))
    lag = compare_entries(base, best, metric, len(plain))
    if lead.folds < 2:
        text = (
            f"{ours} and the best plain baseline, {theirs}, have fewer than two folds of {title} in common, "
            "so they cannot be ranked."
        )
        return Verdict("unknown", text)
    if lag.beyond_noise:
        text = (
            f"No method beats the plain baselines here: {theirs} is ahead of the best method, {ours}, in "
            f"{title} on {lag.won} of {lag.folds} folds, by {describe_lead(lag)}."
        )
        return Verdict("behind", text)
    if not lead.beyond_noise:
        text = (
            f"{ours} and the best plain baseline, {theirs}, cannot be distinguished in {title}: "
            f"fold by fold they differ by {describe_lead(lead)}."
        )
        return Verdict("level", text)
    text = (
        f"{ours} beats the best plain baseline, {theirs}, in {title} on {lead.won} of {lead.folds} folds, "
        f"by {describe_lead(lead)}."
    )
    if len(methods) > 1:
        text += f" It is the best of {len(methods)} on the same folds, so its score is slightly optimistic."
    return Verdict("ahead", text)


def compare_entries(ours: Entry, theirs: Entry, metric: str, picked_among: int = 1) -> Lead:
    """Lead of one method over another on the folds that both have; positive if the first is better.

    `picked_among` is the number of methods that the first one is the best of.
    """
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    first, second = ours.values.get(metric, {}), theirs.values.get(metric, {})
    shared = sorted(first.keys() & second.keys())
    if not shared:
        return Lead(0.0, 0.0, np.inf, np.inf, 0, 0, picked_among)
    return paired_lead(
        [sign * first[fold] for fold in shared],
        [sign * second[fold] for fold in shared],
        n_folds=len(first.keys() | second.keys()),
        picked_among=picked_among,
    )
