"""The report page of `labelscape auto`: why this model, and what the others scored."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.models import load_model
from storage.artifacts.store import ArtifactStore
from storage.tracking.registry import REGISTERED_AS, Version
from tasks.report.content import score_content
from tasks.report.page import page_environment
from tasks.report.ranking import format_score, metric_title, rank_entries
from tasks.report.tables import Table, format_time
from tasks.selection.choice import Choice, TitleDecision, leaderboard
from tasks.selection.tags import METRIC_TAG, RECIPE_TAG, SCORE_TAG
from tasks.selection.wording import STATES, copies_lines, decision_lines, links_lines, verdict_lines
from tasks.stages.embedding import load_model_payload

# Width of the first column of the lines for the terminal.
_INDENT = 12


@dataclass(frozen=True)
class SelectionStory:
    """What the page tells.

    Attributes
    ----------
    name : str
        Name of the run.
    choice : Choice
    verdict : TitleDecision
    thresholds : sequence of (label, threshold), or None
        Those of the fitted winner; None if the highest score decides.
    history : sequence of Version
        Registered models of the collection, newest first.
    """

    name: str
    choice: Choice
    verdict: TitleDecision
    thresholds: Sequence[tuple[str, float]] | None
    history: Sequence[Version] = ()


def render_selection(story: SelectionStory, run: str = "", links: Mapping[str, str] | None = None) -> bytes:
    """Render the page.

    `run` is the id of the run, for the commands that repeat it; `links` are addresses of its other pages.
    """
    choice = story.choice
    sections: dict[str, Table | None] = {
        "Folds": _folds(choice),
        "Not scored on all folds": _left_out(choice),
        "Thresholds of the winner": _thresholds(story.thresholds),
        "Registered models": _history(story.history),
    }
    page = page_environment().get_template("selection.html.j2")
    text = page.render(
        title=story.name,
        said=_sentences(story),
        scores=score_content(leaderboard(choice)) if choice.scored else None,
        decided=decision_lines(choice),
        sections={name: table for name, table in sections.items() if table},
        run=run,
        links=links or {},
    )
    return text.encode()


def find_thresholds(model: ArtifactRef | None, store: ArtifactStore) -> list[tuple[str, float]] | None:
    """The threshold of each label of a fitted model; None if the highest score decides."""
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES

    payload = load_model_payload(model, store) if model else None
    if payload is None:
        return None
    annotator: Any = load_model(payload, SKOPS_TRUSTED_TYPES)
    found = annotator.decision_thresholds()
    if found is None:
        return None
    return [(str(label), float(value)) for label, value in zip(annotator.classes_, found, strict=True)]


def _sentences(story: SelectionStory) -> list[str]:
    """The winner, its lead and its title, one sentence each."""
    lines = [*verdict_lines(story.choice), *copies_lines(story.choice), *links_lines(story.choice)]
    rare = [story.choice.rare.describe()] if story.choice.rare.items else []
    title = f"{story.verdict.title}: {story.verdict.reason}"
    said = [f"{line[:_INDENT].strip()} {line[_INDENT:]}".strip() for line in lines]
    return [f"{line[:1].upper()}{line[1:]}." for line in (*said, title, *rare)]


def _folds(choice: Choice) -> Table | None:
    """The deciding metric of every candidate by fold, in the order of the leaderboard."""
    if not choice.tried:
        return None
    ranked = rank_entries([row for one in choice.tried for row in one.rows], choice.metric)
    place = {entry.method: number for number, entry in enumerate(ranked)}
    tried = sorted(choice.tried, key=lambda one: (one.state != "scored", place[one.name]))
    most = max(len(one.values(choice.metric)) for one in tried)
    rows = []
    for one in tried:
        values = [format_score(value) for value in one.values(choice.metric)]
        rows.append((one.candidate.label, *values, *["not scored"] * (most - len(values))))
    header = ("candidate", *(f"fold {number}" for number in range(1, most + 1)))
    return Table(header, tuple(rows), f"{metric_title(choice.metric)} on each fold")


def _left_out(choice: Choice) -> Table | None:
    rows = tuple(
        (one.candidate.label, "yes" if one.candidate.plain else "no", STATES[one.state], one.reason)
        for one in choice.results
        if one.state != "scored"
    )
    caption = "Nothing becomes champion while a plain baseline is among these"
    return Table(("candidate", "plain baseline", "state", "reason"), rows, caption) if rows else None


def _thresholds(found: Sequence[tuple[str, float]] | None) -> Table | None:
    if found is None:
        return None
    rows = tuple((label, f"{value:.3f}") for label, value in found)
    return Table(
        ("label", "threshold"), rows, "A label is given to an item whose score is above its threshold"
    )


def _history(found: Sequence[Version]) -> Table | None:
    rows = tuple(_history_row(one) for one in found)
    header = ("version", "registered as", "model", "score", "metric", "time", "run")
    return Table(header, rows, "Scores of versions on other data cannot be compared") if rows else None


def _history_row(one: Version) -> tuple[str, ...]:
    metric, when = one.tags.get(METRIC_TAG), datetime.fromtimestamp(one.created, UTC).isoformat()
    return (
        one.version,
        _tag(one.tags, REGISTERED_AS),
        _model(one.tags),
        _tag(one.tags, SCORE_TAG),
        metric_title(metric) if metric else "–",
        format_time(when),
        one.run_id[:8],
    )


def _tag(tags: Mapping[str, str], name: str) -> str:
    return tags.get(name) or "–"


def _model(tags: Mapping[str, str]) -> str:
    try:
        recipe = json.loads(tags.get(RECIPE_TAG, "{}"))
        return str(recipe.get("title") or recipe.get("name") or "–")
    except (ValueError, AttributeError):
        return "–"
