"""Compare measured results with the numbers that a paper prints: one row per cell, with a verdict."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from embedding_core.protocols.trial import classifies_by_neighbors
from storage.artifacts.schemas import TrialCell
from storage.reference.published import (
    AMBIGUOUS,
    LICENSED,
    UNAVAILABLE,
    PublishedCell,
    find_figure,
    find_published,
    published_cells,
)
from tasks.report.ranking import LOWER_IS_BETTER
from tasks.reproduce.experiment import TRIALS, Experiment

POINTS = 0.02
"""A printed number counts as reproduced if ours is within 2 points of it."""

REPRODUCED, BETTER, WORSE = "reproduced", "better", "worse"
NOT_COMPARABLE, IMPOSSIBLE = "not comparable", "impossible"
NOT_RUN, UNPUBLISHED = "not in this run", "not printed"
COUNTED = (REPRODUCED, BETTER, WORSE, NOT_COMPARABLE)
VERDICTS = (*COUNTED, IMPOSSIBLE, NOT_RUN, UNPUBLISHED)
CEILING_TITLE = "1NN ceiling"
"""Title of the arm that bounds the accuracy of 1NN from above."""

LOWER = LOWER_IS_BETTER | {"error"}
ROUNDING = 1e-9
_HOLDS = ("does not hold", "holds")

Measured = Mapping[tuple[str, str], Sequence[TrialCell]]
"""Cells by data set and arm title."""


@dataclass(frozen=True)
class Row:
    """One cell of the comparison.

    Attributes
    ----------
    dataset, method, condition, preprocessing, metric : str
        What the cell measures; the method is named as in the paper.
    paper, mean, spread : float or None
        The printed number; mean and standard deviation (n - 1) of our trials.
    trials : int
        Number of our trials.
    baselines, baseline_spreads : mapping
        Mean of each plain baseline by title, and its standard deviation if it has several trials.
    verdict, reason : str
        One of `VERDICTS`, and a remark on how far it can be trusted.
    primary : bool
        Whether the row follows the paper's own protocol and is counted in the summary of verdicts.
    claim : bool
        Whether the row checks a statement of the paper about the order of methods; `mean` is then the lead.
    """

    dataset: str
    method: str
    condition: str
    preprocessing: str
    metric: str
    paper: float | None = None
    mean: float | None = None
    spread: float | None = None
    trials: int = 0
    baselines: Mapping[str, float] = field(default_factory=dict)
    baseline_spreads: Mapping[str, float] = field(default_factory=dict)
    verdict: str = UNPUBLISHED
    reason: str = ""
    primary: bool = False
    claim: bool = False


def compare(experiment: Experiment, measured: Measured, quick: bool = False) -> list[Row]:
    """One row per measured cell, then one per printed cell that was not measured."""
    rows = []
    columns = {arm.title: _values(experiment, arm.title, measured) for arm in experiment.baselines}
    for dataset in experiment.datasets:
        for arm in experiment.arms:
            if arm.role == "baseline":
                continue
            by_neighbors = classifies_by_neighbors(arm)
            for key, values in _group(measured[dataset, arm.title]).items():
                beside = _beside(columns, dataset, key)
                row = _judged_row(experiment, dataset, arm.title, key, values, beside, by_neighbors)
                rows.append(of_sample(row, experiment.sample(dataset, quick)))
    return [*rows, *_unmeasured(experiment)]


def judge_cell(paper: float, mean: float, metric: str) -> str:
    """Whether a mean reproduces a printed number, is better, or is worse.

    >>> judge_cell(0.60, 0.58, "accuracy"), judge_cell(0.60, 0.63, "accuracy")
    ('reproduced', 'better')
    >>> judge_cell(0.60, 0.63, "error")
    'worse'
    """
    gain = paper - mean if metric in LOWER else mean - paper
    if abs(gain) <= POINTS + ROUNDING:
        return REPRODUCED
    return BETTER if gain > 0 else WORSE


def count_verdicts(rows: Iterable[Row]) -> dict[str, int]:
    """Number of printed cells with each verdict, under the paper's own protocol."""
    counted = dict.fromkeys(COUNTED, 0)
    for row in rows:
        if row.primary and row.paper is not None:
            counted[NOT_COMPARABLE if row.verdict == IMPOSSIBLE else row.verdict] += 1
    return counted


def count_impossible(rows: Iterable[Row]) -> int:
    """Number of printed cells that are impossible under one reading of the paper's text."""
    return len({(row.dataset, row.method, row.metric) for row in rows if row.verdict == IMPOSSIBLE})


_Key = tuple[str, str, str]  # condition, preprocessing, metric


def _group(cells: Iterable[TrialCell]) -> dict[_Key, list[float]]:
    found: dict[_Key, list[float]] = {}
    for cell in cells:
        found.setdefault((cell.condition, cell.preprocessing, cell.metric), []).append(cell.value)
    return found


def spread_of(values: Sequence[float]) -> float | None:
    """Standard deviation (n - 1); None for a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def _values(experiment: Experiment, title: str, measured: Measured) -> dict[tuple[str, _Key], list[float]]:
    return {
        (dataset, key): values
        for dataset in experiment.datasets
        for key, values in _group(measured[dataset, title]).items()
    }


def _beside(
    columns: Mapping[str, Mapping[tuple[str, _Key], list[float]]], dataset: str, key: _Key
) -> dict[str, list[float]]:
    """Each baseline under the preprocessing of the row, or under its own if it has only one."""
    condition, _, metric = key
    found = {}
    for title, column in columns.items():
        same = {
            k: one for k, one in column.items() if (k[0], k[1][0], k[1][2]) == (dataset, condition, metric)
        }
        if same:
            found[title] = same.get((dataset, key), next(iter(same.values())))
    return found


def _judged_row(
    experiment: Experiment,
    dataset: str,
    method: str,
    key: _Key,
    values: Sequence[float],
    beside: Mapping[str, Sequence[float]],
    by_neighbors: bool,
) -> Row:
    condition, preprocessing, metric = key
    printed = find_published(experiment.name, dataset, method, metric, condition)
    mean = float(np.mean(values))
    baselines = {title: float(np.mean(column)) for title, column in beside.items()}
    if printed is None or printed.value is None:
        shown = find_figure(experiment.name, dataset, condition)
        verdict, reason = (NOT_COMPARABLE, shown.remark) if shown else (UNPUBLISHED, "")
    else:
        ceiling = baselines.get(CEILING_TITLE) if by_neighbors else None
        verdict, reason = _judge(printed, printed.value, mean, ceiling)
    return Row(
        dataset=dataset,
        method=method,
        condition=condition,
        preprocessing=preprocessing,
        metric=metric,
        paper=printed.value if printed else None,
        mean=mean,
        spread=spread_of(values),
        trials=len(values),
        baselines=baselines,
        baseline_spreads={
            title: spread for title, column in beside.items() if (spread := spread_of(column)) is not None
        },
        verdict=verdict,
        reason=reason,
        primary=preprocessing == experiment.primary and experiment.primary_condition in ("", condition),
    )


def of_sample(row: Row, part: str) -> Row:
    """Mark a row as not comparable if it was measured on a part of the data set."""
    if row.paper is None or not part:
        return row
    return replace(row, verdict=NOT_COMPARABLE, reason=f"a quick run uses {part} of this set")


def _judge(printed: PublishedCell, value: float, mean: float, ceiling: float | None) -> tuple[str, str]:
    if ceiling is not None and value > ceiling + POINTS:
        return IMPOSSIBLE, f"with these wrong labels 1NN reaches at most {ceiling:.3f}"
    if printed.status == AMBIGUOUS:
        return NOT_COMPARABLE, f"ambiguous: {printed.remark}"
    # The remark on a licensed data set is for readers who do not have it.
    return judge_cell(value, mean, printed.metric), "" if printed.status == LICENSED else printed.remark


def _unmeasured(experiment: Experiment) -> list[Row]:
    """Printed cells of data sets that are unavailable, or not in this run."""
    return [
        _left_out(cell)
        for cell in published_cells(experiment.name)
        if cell.dataset not in experiment.datasets or cell.status == UNAVAILABLE
    ]


def _left_out(cell: PublishedCell) -> Row:
    """Row of a printed cell that was not measured; it is counted if the data set is not public."""
    lacking = cell.status in (LICENSED, UNAVAILABLE)
    return Row(
        dataset=cell.dataset,
        method=cell.method,
        condition=cell.condition,
        preprocessing="",
        metric=cell.metric,
        paper=cell.value,
        verdict=NOT_COMPARABLE if lacking else NOT_RUN,
        reason=cell.remark if lacking else "the data set was not requested, or not found",
        primary=lacking,
    )


def verdict_line(experiment: Experiment, rows: Sequence[Row]) -> str:
    """The verdicts of an experiment in one line; for a quick run it starts with the number of trials."""
    impossible = count_impossible(rows)
    left_out = sum(row.verdict == NOT_RUN for row in rows)
    parts = [
        _printed(experiment, rows),
        f"{impossible} of them impossible under one reading of the paper's words" if impossible else "",
        f"{left_out} printed cells belong to data sets that are not in this run" if left_out else "",
        _said(experiment, rows),
    ]
    line = "; ".join(part for part in parts if part)
    if not line and not experiment.against_plain:
        line = "the paper prints no number here"
    return ": ".join(part for part in (_how_quick(experiment, rows), line) if part)


def _printed(experiment: Experiment, rows: Sequence[Row]) -> str:
    counted = count_verdicts(rows)
    total = sum(counted.values())
    counts = ", ".join(f"{count} {verdict}" for verdict, count in counted.items())
    under = " and ".join(part for part in (experiment.primary, experiment.primary_condition) if part)
    return f"of {total} printed cells ({under}): {counts}" if total else ""


def _said(experiment: Experiment, rows: Sequence[Row]) -> str:
    claims = [row for row in rows if row.claim and row.primary and row.paper is None]
    held = sum(row.verdict == REPRODUCED for row in claims)
    if not claims:
        return ""
    many = f"{held} of {len(claims)} claims in words hold ({experiment.primary})"
    return many if len(claims) > 1 else f"the claim in words {_HOLDS[held]} ({experiment.primary})"


def _how_quick(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Number of trials of a quick run: means of few trials vary by many points."""
    done: dict[str, int] = {}
    for row in rows:
        if row.trials:
            done[row.dataset] = max(row.trials, done.get(row.dataset, 0))
    short = {
        (count, full)
        for dataset, count in done.items()
        if count < (full := experiment.settings(dataset, quick=False)[TRIALS])
    }
    counts = " or ".join(f"{count} of {full}" for count, full in sorted(short))
    return f"quick, {counts} trials" if counts else ""
