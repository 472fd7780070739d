"""How much given links are worth: the best candidate with links against the best that ignores them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tasks.selection.choice import CandidateResult, Choice, leading

# With one class per item, micro F1 is the accuracy.
_SHOWN = ("macro_f1", "micro_f1")


@dataclass(frozen=True)
class LinksWorth:
    """Gain in each metric, higher is better, and the titles of the two candidates."""

    gains: Mapping[str, float]
    with_links: str
    without: str


def worth_of_links(choice: Choice) -> LinksWorth | None:
    """Compare the best candidate that uses links with the best that ignores them.

    A candidate that was stopped early is compared on its first folds, otherwise the links would seem to be
    worth more than they are.

    Returns
    -------
    LinksWorth or None
        None if no links are given, or nothing was scored with or without them.
    """
    best = leading([one for one in choice.results if one.candidate.links], choice.metric)
    others = [one for one in choice.results if one.candidate.ignores_links and one.rows]
    if best is None or not others:
        return None
    rival = min(others, key=lambda one: _gain(best, one, choice.metric))
    metrics = dict.fromkeys((choice.metric, *_SHOWN))
    gains = {metric: _gain(best, rival, metric) for metric in metrics}
    return LinksWorth(gains, best.candidate.label, rival.candidate.label)


def _gain(best: CandidateResult, other: CandidateResult, metric: str) -> float:
    """Mean lead on the folds that both were scored on; the first folds are those of a stopped candidate."""
    theirs = other.values(metric)
    return float(np.mean(np.subtract(best.values(metric)[: len(theirs)], theirs)))
