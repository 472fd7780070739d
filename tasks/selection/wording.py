"""A choice among candidates in words, for the terminal and the report page."""

from tasks.budget import TimeSpent, format_duration
from tasks.report.ranking import describe_lead, format_score, group_scores, metric_title
from tasks.selection.choice import CandidateResult, Choice
from tasks.selection.links import worth_of_links
from tasks.selection.out_of_fold import THRESHOLDS

STATES = {"stopped": "stopped", "skipped": "not scored", "failed": "failed"}
"""States of candidates that were not scored on all folds, in words."""


def decision_lines(choice: Choice) -> list[str]:
    """Say how labels were decided, unless the threshold is 0.5."""
    if choice.tune_for not in THRESHOLDS:
        return []
    how = THRESHOLDS[choice.tune_for] + (", one per label," if choice.tune_for == "macro_f1" else "")
    return [f"labels are decided by {how} chosen for {metric_title(choice.tune_for)} on the other folds"]


def left_out(choice: Choice) -> list[str]:
    """List the candidates that were not scored on all folds, and why."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for one in choice.results:
        if one.state != "scored" and one is not choice.winner:
            grouped.setdefault((STATES[one.state], one.reason), []).append(one.candidate.label)
    return [f"{state:<12}{'; '.join(labels)}: {reason}" for (state, reason), labels in grouped.items()]


def verdict_lines(choice: Choice) -> list[str]:
    """Say which candidate won, and how it compares with the best plain baseline."""
    winner = choice.winner
    if winner.state != "scored":
        why = f"{winner.reason} before any candidate was scored, so the cheapest plain model is fitted"
        return [f"model       {winner.candidate.label}, not scored: {why}"]
    said = [f"winner      {winner.candidate.label}, {_score(winner, choice.metric)}", *_closed_lines(choice)]
    if winner.candidate.plain:
        return [*said, "            a plain baseline: no other candidate scored better"]
    return [*said, *_lead_lines(choice)]


def copies_lines(choice: Choice) -> list[str]:
    """Say how much of the winner's score is due to items that the fits have seen a copy of."""
    copies, metric = choice.copies, metric_title(choice.metric)
    if copies is None or not copies.many:
        return []
    lines = [
        f"copies      {copies.items:,} of {copies.labeled:,} labeled items have the same features as one in "
        "another fold"
    ]
    if copies.score is None:
        return [*lines, "            these are all items, so the scores say nothing about items that are new"]
    without = f"without them the winner has {format_score(copies.score)} in {metric}"
    return [*lines, f"            {without}: expect that for new items that are no copies"]


def _score(one: CandidateResult, metric: str) -> str:
    (entry,) = group_scores(one.rows)
    return f"{format_score(entry.mean(metric), entry.spread(metric))} in {metric_title(metric)}"


def _closed_lines(choice: Choice) -> list[str]:
    """Say what the score of a closed collection means, and what it would be for new items."""
    if not choice.closed:
        return []
    lines = ["            for items of this collection, whose features the fit may use (auto.closed)"]
    if choice.open_result:
        lines.append(f"            for new items: {_score(choice.open_result, choice.metric)}")
    return lines


def _lead_lines(choice: Choice) -> list[str]:
    lead, base = choice.lead, choice.baseline
    if base is None or lead is None:
        return []
    ahead = f"            ahead of the best plain baseline, {base.candidate.label}, on {lead.won} of"
    lines = [f"{ahead} {lead.folds} folds by {describe_lead(lead)}"]
    if lead.picked_among < 2:
        return lines
    best = f"the best of {lead.picked_among}"
    rule = f"noise: the lead by which {best} candidates without a true lead is ahead in at most 1 of 20 cases"
    bias = f"it is {best} on the same folds, so its score is slightly optimistic"
    return [*lines, f"            {rule}", f"            {bias}"]


def links_lines(choice: Choice) -> list[str]:
    """Say how much given links are worth, and what the scores assume about links."""
    worth = worth_of_links(choice)
    if worth is None:
        return []
    gains = ", ".join(f"{gain:+.3f} {metric_title(metric)}" for metric, gain in worth.gains.items())
    return [
        f"links       {gains}: {worth.with_links} over {worth.without}, the best that ignores links",
        "            scores assume that new items arrive with links (annotate --set source.edges=FILE)",
    ]


def time_lines(time: TimeSpent | None) -> list[str]:
    """Say where the time of the budget went, and how long tracking took after it."""
    if time is None:
        return []
    named = {"data and features": time.data, "candidates": time.candidates, "fit": time.fit}
    parts = ", ".join(f"{name} {format_duration(seconds)}" for name, seconds in named.items())
    after = f"; then {format_duration(time.tracking)} to track it" if time.tracking else ""
    total, budget = format_duration(time.covered), format_duration(time.budget)
    return [f"time        {total} of the budget of {budget}: {parts}{after}"]
