"""How scores moved between two refreshes of a collection."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from storage.artifacts.schemas import Score
from tasks.report.ranking import (
    LOWER_IS_BETTER,
    Entry,
    describe_drop,
    format_score,
    group_scores,
    metric_arrow,
    metric_title,
)
from tasks.report.tables import Table
from tasks.selection.choice import Choice

# Mean of each metric by title of the method.
Scores = dict[str, dict[str, float]]


@dataclass(frozen=True)
class ScoreMove:
    """The scores of one method before and after; empty if it was not scored then.

    `kind` is "run" or "auto": the two measure differently, so their scores are not compared.
    """

    kind: str
    method: str
    before: Mapping[str, float]
    now: Mapping[str, float]

    def amount(self, metric: str) -> float | None:
        """How much better a metric is now, negative if it is worse; None if it was not measured twice."""
        if metric not in self.before or metric not in self.now:
            return None
        change = self.now[metric] - self.before[metric]
        return -change if metric in LOWER_IS_BETTER else change


def run_scores(rows: Iterable[Score], titles: Mapping[str, str]) -> Scores:
    """The mean of each metric over the folds, by title of the method."""
    return {entry.title(titles): _means(entry) for entry in group_scores(list(rows))}


def choice_scores(choice: Choice) -> Scores:
    """The mean scores of the candidates that were scored on all folds."""
    return {one.candidate.label: _means(group_scores(one.rows)[0]) for one in choice.scored if one.rows}


def _means(entry: Entry) -> dict[str, float]:
    return {name: mean for name in entry.values if (mean := entry.mean(name)) is not None}


def compare_scores(
    before: Mapping[str, Mapping[str, Mapping[str, float]]], now: Mapping[str, Scores]
) -> list[ScoreMove]:
    """Every method of both, in the order of `now`; methods that are gone come last in their kind."""
    moves = []
    for kind in now:
        known = before.get(kind, {})
        names = [*now[kind], *(name for name in known if name not in now[kind])]
        moves += [ScoreMove(kind, name, known.get(name, {}), now[kind].get(name, {})) for name in names]
    return moves


def find_drop(moves: Sequence[ScoreMove], metric: str, tolerance: float) -> str:
    """How far the best score fell, of the methods that were scored both times; empty within the tolerance."""
    pairs = [(one.before[metric], one.now[metric]) for one in moves if one.amount(metric) is not None]
    if not pairs:
        return ""
    best = min if metric in LOWER_IS_BETTER else max
    before, now = (best(values) for values in zip(*pairs, strict=True))
    return describe_drop(metric, before, now, tolerance)


def moves_table(moves: Sequence[ScoreMove], metric: str) -> Table:
    """The moves of one metric, best first."""
    arrow = metric_arrow(metric)
    sign = 1.0 if metric in LOWER_IS_BETTER else -1.0
    ordered = sorted(moves, key=lambda one: (one.kind, metric not in one.now, sign * one.now.get(metric, 0)))
    rows = tuple((*_cells(one, metric), one.kind) for one in ordered)
    header = ("method", "before", "now", "moved", "by")
    caption = f"{metric_title(metric)} {arrow}; moved: better (+) or worse (-) than at the last refresh"
    return Table(header, rows, caption, texts=frozenset({4}), optional=(4, 1))


def _cells(move: ScoreMove, metric: str) -> tuple[str, ...]:
    amount = move.amount(metric)
    moved = "new" if not move.before else "gone" if not move.now else "–"
    return (
        move.method,
        format_score(move.before.get(metric)),
        format_score(move.now.get(metric)),
        moved if amount is None else f"{amount:+.3f}" if amount else "same",
    )
