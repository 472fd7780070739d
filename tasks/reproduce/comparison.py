"""Measured beside printed: one row a cell, with a verdict."""

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
from tasks.reproduce.experiment import Experiment

POINTS = 0.02
"""A printed number counts as reproduced where ours lies within 2 points of it."""

REPRODUCED, BETTER, WORSE = "reproduced", "better", "worse"
NOT_COMPARABLE, IMPOSSIBLE = "not comparable", "impossible"
NOT_RUN, UNPUBLISHED = "not in this run", "not printed"
COUNTED = (REPRODUCED, BETTER, WORSE, NOT_COMPARABLE)
VERDICTS = (*COUNTED, IMPOSSIBLE, NOT_RUN, UNPUBLISHED)
CEILING_TITLE = "1NN ceiling"
"""Title of the arm whose mean no 1NN can be expected to pass."""

LOWER = LOWER_IS_BETTER | {"error"}
ROUNDING = 1e-9

Measured = Mapping[tuple[str, str], Sequence[TrialCell]]
"""Cells by data set and title of the arm."""


@dataclass(frozen=True)
class Row:
    """One cell of the comparison.

    Attributes
    ----------
    dataset, method, condition, preprocessing, metric : str
        What the cell is of; the method as the paper names it.
    paper, mean, spread : float or None
        The printed number; mean and standard deviation (n - 1) of ours over the trials.
    trials : int
    baselines, baseline_spreads : mapping
        Mean of each plain baseline by its title, and its standard deviation where it had several trials.
    verdict, reason : str
        One of `VERDICTS`, and why it says little where that is so.
    primary : bool
        Whether the row stands for the paper's protocol in the count of verdicts.
    claim : bool
        The row is of an order of methods that the paper states; `mean` is the lead of the first.
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
    """Every measured cell beside the printed one, then the printed ones that cannot be measured."""
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
    """Whether a mean reproduces a printed number, betters it or misses it.

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
    """How many printed cells have each verdict, under the paper's own protocol."""
    counted = dict.fromkeys(COUNTED, 0)
    for row in rows:
        if row.primary and row.paper is not None:
            counted[NOT_COMPARABLE if row.verdict == IMPOSSIBLE else row.verdict] += 1
    return counted


def count_impossible(rows: Iterable[Row]) -> int:
    """How many printed cells cannot be under one of the readings of the paper's words."""
    return len({(row.dataset, row.method, row.metric) for row in rows if row.verdict == IMPOSSIBLE})


_Key = tuple[str, str, str]  # condition, preprocessing, metric


def _group(cells: Iterable[TrialCell]) -> dict[_Key, list[float]]:
    found: dict[_Key, list[float]] = {}
    for cell in cells:
        found.setdefault((cell.condition, cell.preprocessing, cell.metric), []).append(cell.value)
    return found


def spread_of(values: Sequence[float]) -> float | None:
    """Standard deviation (n - 1); None of a single value."""
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
    """Each baseline under the row's preprocessing, or under its own where it has one alone."""
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
    """A row that was measured on fewer rows than the paper had proves nothing either way."""
    if row.paper is None or not part:
        return row
    return replace(row, verdict=NOT_COMPARABLE, reason=f"a quick run takes {part} of this set")


def _judge(printed: PublishedCell, value: float, mean: float, ceiling: float | None) -> tuple[str, str]:
    if ceiling is not None and value > ceiling + POINTS:
        return IMPOSSIBLE, f"with these wrong labels 1NN reaches {ceiling:.3f} at best"
    if printed.status == AMBIGUOUS:
        return NOT_COMPARABLE, f"ambiguous: {printed.remark}"
    # The remark on a licensed set is for those who do not have it.
    return judge_cell(value, mean, printed.metric), "" if printed.status == LICENSED else printed.remark


def _unmeasured(experiment: Experiment) -> list[Row]:
    """Printed cells of data sets that cannot be had, or that this run leaves out."""
    return [
        _left_out(cell)
        for cell in published_cells(experiment.name)
        if cell.dataset not in experiment.datasets or cell.status == UNAVAILABLE
    ]


def _left_out(cell: PublishedCell) -> Row:
    """A printed cell without ours; it counts where nobody, or no one without a license, could measure it."""
    lacking = cell.status in (LICENSED, UNAVAILABLE)
    return Row(
        dataset=cell.dataset,
        method=cell.method,
        condition=cell.condition,
        preprocessing="",
        metric=cell.metric,
        paper=cell.value,
        verdict=NOT_COMPARABLE if lacking else NOT_RUN,
        reason=cell.remark if lacking else "the data set was not asked for, or not there",
        primary=lacking,
    )
