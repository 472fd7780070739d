"""The summary of `auto`: a record for scripts, a leaderboard for people."""

from dataclasses import asdict
from typing import Any

from flows.config import RunConfig
from flows.runner import RunResult
from flows.selection import SelectionResult
from flows.summary import closing_lines, find_tracked, summarize_stages
from storage.artifacts.run_log import LoggedRun
from storage.tracking.registry import Version
from tasks.report.ranking import describe_lead, format_score, group_scores, metric_title
from tasks.report.score_table import score_table
from tasks.report.tables import Table
from tasks.selection.choice import Choice, describe
from tasks.selection.out_of_fold import THRESHOLDS

_REMEDY = "repeat the command to track and register them."
_STATES = {"stopped": "stopped", "skipped": "not scored", "failed": "failed"}


def summarize_auto(
    config: RunConfig, result: RunResult[SelectionResult], earlier: LoggedRun | None = None
) -> dict[str, Any]:
    """Return the run as plain data: candidates with every metric per fold, choice, registry and stages."""
    done = result.products
    settled = done.settled
    return {
        **summarize_stages(config, result, find_tracked(result, done.tracked), earlier),
        **describe(done.choice),
        "title": done.verdict.title,
        "reason": done.verdict.reason,
        "lead_over_champion": asdict(done.verdict.lead) if done.verdict.lead else None,
        "plain_baseline_won": done.choice.winner.candidate.plain,
        "champion_is_plain": is_plain_champion(done),
        "registry": {
            "model": settled.name if settled else None,
            "champion": settled.champion.version if settled and settled.champion else None,
            "challenger": settled.challenger.version if settled and settled.challenger else None,
            "changed": bool(settled and settled.changed),
        },
    }


def is_plain_champion(done: SelectionResult) -> bool | None:
    """Whether the champion is a plain baseline; None if there is no champion or it is unknown."""
    if done.verdict.title == "champion":
        return done.choice.winner.candidate.plain
    return done.champion.candidate.plain if done.champion and done.champion.known else None


def auto_text(
    config: RunConfig, result: RunResult[SelectionResult], summary: dict[str, Any]
) -> list[str | Table]:
    """Return the leaderboard, the candidates left out and why, the winner, and where to find more."""
    choice = result.products.choice
    table: list[str | Table] = ["", leaderboard(choice), *decision_lines(choice), ""]
    verdict = [*left_out(choice), *verdict_lines(choice), *_title_lines(config, result), ""]
    return [*table, *verdict, *closing_lines(config, summary, _REMEDY)]


def leaderboard(choice: Choice) -> Table:
    """Tabulate the candidates that were scored on all folds, best first."""
    rows = [row for one in choice.scored for row in one.rows]
    titles = {one.name: one.candidate.label for one in choice.scored}
    baselines = {one.name for one in choice.scored if one.candidate.plain}
    return score_table(rows, sort_by=choice.metric, titles=titles, baselines=baselines)


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
        if one.state != "scored":
            grouped.setdefault((_STATES[one.state], one.reason), []).append(one.candidate.label)
    return [f"{state:<12}{'; '.join(labels)}: {reason}" for (state, reason), labels in grouped.items()]


def verdict_lines(choice: Choice) -> list[str]:
    """Say which candidate won, and how it compares with the best plain baseline."""
    metric, winner, base = choice.metric, choice.winner, choice.baseline
    (entry,) = group_scores(winner.rows)
    score = f"{format_score(entry.mean(metric), entry.spread(metric))} in {metric_title(metric)}"
    said = f"winner      {winner.candidate.label}, {score}"
    if winner.candidate.plain:
        return [said, "            a plain baseline: no other candidate scored better"]
    if base is None or choice.lead is None:
        return [said]
    lead = choice.lead
    ahead = f"            ahead of the best plain baseline, {base.candidate.label}, on {lead.won} of"
    lines = [said, f"{ahead} {lead.folds} folds by {describe_lead(lead)}"]
    others = sum(not one.candidate.plain for one in choice.scored)
    picked = (
        f"            it is the best of {others} candidates on the same folds, so its score is slightly "
        "optimistic"
    )
    return [*lines, picked] if others > 1 else lines


def _title_lines(config: RunConfig, result: RunResult[SelectionResult]) -> list[str]:
    done = result.products
    settled = done.settled
    plain = ", a plain baseline" if is_plain_champion(done) else ""
    own = plain if done.verdict.title == "champion" else ""
    if settled is None:
        why = "" if config.tracking.enabled else " (tracking.enabled is false)"
        return [f"title       {done.verdict.title}{own}: {done.verdict.reason}; not registered{why}"]
    held = settled.challenger or settled.champion
    lines = [f"{done.verdict.title:<12}{_place(held)}{own}: {done.verdict.reason}"]
    if settled.challenger and settled.champion and done.champion:
        refitted = settled.champion.version != done.champion.version
        news = ", refitted on the current data" if refitted else ""
        name = f"{done.champion.candidate.label}{plain}"
        lines.append(f"champion    stays {name}, {_place(settled.champion)}{news}")
    if not settled.changed:
        lines.append("            already registered; nothing was added")
    return lines


def _place(version: Version | None) -> str:
    return f"version {version.version} of {version.name}" if version else "none"
