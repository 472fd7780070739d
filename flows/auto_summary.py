"""The summary of `auto`: a record for scripts, a leaderboard for people."""

from dataclasses import asdict
from typing import Any

from flows.config import RunConfig
from flows.runner import RunResult
from flows.selection import SelectionResult
from flows.summary import closing_lines, find_tracked, summarize_stages
from storage.artifacts.run_log import LoggedRun
from storage.tracking.registry import Version
from tasks.report.tables import Table
from tasks.selection.choice import describe, leaderboard
from tasks.selection.links import worth_of_links
from tasks.selection.wording import (
    copies_lines,
    decision_lines,
    left_out,
    links_lines,
    time_lines,
    verdict_lines,
)

_REMEDY = "repeat the command to track and register them."


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
        "links": asdict(worth) if (worth := worth_of_links(done.choice)) else None,
        "time": asdict(done.time) if done.time else None,
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
    table: list[str | Table] = (
        ["", leaderboard(choice), *decision_lines(choice), ""] if choice.scored else [""]
    )
    rare = [f"{'rare':<12}{choice.rare.describe()}"] if choice.rare.items else []
    verdict = [*rare, *left_out(choice), *verdict_lines(choice), *copies_lines(choice), *links_lines(choice)]
    verdict += [*_title_lines(config, result), *time_lines(result.products.time), ""]
    return [*table, *verdict, *closing_lines(config, summary, _REMEDY)]


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
