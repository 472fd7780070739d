"""Compare each method with the best plain baseline, trial by trial."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from embedding_core.model_selection.significance import INDEPENDENT, best_of, paired_lead
from tasks.reproduce.comparison import LOWER, Measured, Row
from tasks.reproduce.experiment import Experiment

AHEAD, LEVEL, BEHIND = "ahead", "level", "behind"
OUTCOMES = (AHEAD, LEVEL, BEHIND)
ALL_SETS = "all sets"


def judge_against_plain(
    experiment: Experiment, rows: Sequence[Row], measured: Measured, quick: bool
) -> list[Row]:
    """The rows with a verdict against the best plain baseline, then one summary row per method."""
    judged = [_judged(experiment, row, measured, quick) for row in rows]
    return [*judged, *_summary_rows(experiment, judged)]


def count_outcomes(experiment: Experiment, rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """By method: on how many data sets it is ahead of, level with, or behind the best plain baseline."""
    return {
        method: {verdict: len(sets) for verdict, sets in found.items()}
        for method, found in _sets_by_verdict(experiment, rows).items()
    }


def _judged(experiment: Experiment, row: Row, measured: Measured, quick: bool) -> Row:
    ours = _by_trial(row, row.method, measured)
    plain = {arm.title: _by_trial(row, arm.title, measured) for arm in experiment.baselines}
    best = best_of({title: list(values.values()) for title, values in plain.items()})
    shared = sorted(ours.keys() & plain[best].keys())
    lists = [ours[trial] for trial in shared], [plain[best][trial] for trial in shared]
    folds = experiment.settings(row.dataset, quick)["folds"] or INDEPENDENT
    lead, lag = paired_lead(*lists, folds), paired_lead(*lists[::-1], folds)
    verdict = AHEAD if lead.beyond_noise else BEHIND if lag.beyond_noise else LEVEL
    reason = f"{lead.mean:+.3f} against {best}; noise up to {lead.needed:.3f}"
    return replace(row, verdict=verdict, reason=reason)


def _by_trial(row: Row, title: str, measured: Measured) -> dict[int, float]:
    """Values of a method in the cell of the row, negated if smaller is better."""
    sign = -1.0 if row.metric in LOWER else 1.0
    return {
        cell.trial: sign * cell.value
        for cell in measured[row.dataset, title]
        if (cell.condition, cell.preprocessing, cell.metric) == (row.condition, row.preprocessing, row.metric)
    }


def _sets_by_verdict(experiment: Experiment, rows: Sequence[Row]) -> dict[str, dict[str, list[str]]]:
    """Data sets by method and verdict, for the rows that tables list."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.verdict in OUTCOMES and experiment.lists(row.condition):
            own = found.setdefault(row.method, {verdict: [] for verdict in OUTCOMES})
            own[row.verdict].append(row.dataset)
    return found


def _summary_rows(experiment: Experiment, rows: Sequence[Row]) -> list[Row]:
    return [
        Row(
            dataset=ALL_SETS,
            method=method,
            condition="",
            preprocessing="",
            metric="",
            verdict=", ".join(f"{len(sets)} {verdict}" for verdict, sets in found.items()),
            reason=_where(found),
        )
        for method, found in _sets_by_verdict(experiment, rows).items()
    ]


def _where(found: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(
        f"{verdict}: {', '.join(found[verdict])}" for verdict in (AHEAD, BEHIND) if found[verdict]
    )
