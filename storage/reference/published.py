"""What the papers print, as data: one row a number, with table and row, or a claim that can be checked.

Columns of `published.csv`: `experiment`; `table`, where the paper prints it; `dataset`, `method`, `metric`
and `condition` (empty: any), which name the cell; `value` as printed and `unit` (percent or fraction);
`status`: empty; `ambiguous` where the paper does not say what was measured, so that a difference proves
nothing; `licensed` for a set that a user may have; `unavailable` where the data, or the thing itself, cannot
be had; `figure` for a data set (method empty) that the paper shows in a figure without numbers; or `claim`.
`remark`: why a difference says little; for a claim, what the paper says.

A claim is an order: its `method` or its `condition` has two sides, `A > B` (A is better) or `A ~ B` (they are
alike). A condition `9-D` stands for all that begin with it, such as `9-D, K=1`, and an empty one for all; the
two sides are compared where the rest is the same. `value` is the lead of A that the paper prints, if it does.
A claim without a sign says that there is such a thing: its cells are above 0.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LIST = Path(__file__).with_name("published.csv")
AMBIGUOUS, LICENSED, UNAVAILABLE = "ambiguous", "licensed", "unavailable"
FIGURE, CLAIM = "figure", "claim"
_UNITS = {"percent": 100.0, "fraction": 1.0}


@dataclass(frozen=True)
class PublishedCell:
    """One row; `value` is a fraction whatever the paper's unit is, None where nothing is printed."""

    experiment: str
    table: str
    dataset: str
    method: str
    metric: str
    condition: str
    value: float | None
    status: str = ""
    remark: str = ""


@cache
def published_cells(experiment: str) -> tuple[PublishedCell, ...]:
    """Every printed number of one experiment, in the order of the paper."""
    return tuple(cell for cell in published_rows(experiment) if cell.status not in (FIGURE, CLAIM))


def published_claims(experiment: str) -> tuple[PublishedCell, ...]:
    """What a paper says of one experiment that can be checked without a number."""
    return tuple(cell for cell in published_rows(experiment) if cell.status == CLAIM)


def find_figure(experiment: str, dataset: str, condition: str) -> PublishedCell | None:
    """The row that says that the paper shows a data set in a figure without numbers."""
    for cell in published_rows(experiment):
        if (cell.status, cell.dataset) == (FIGURE, dataset) and cell.condition in ("", condition):
            return cell
    return None


@cache
def published_rows(experiment: str) -> tuple[PublishedCell, ...]:
    """Every row of one experiment."""
    return tuple(cell for cell in read_published() if cell.experiment == experiment)


@cache
def read_published() -> tuple[PublishedCell, ...]:
    """Every row of the list."""
    with _LIST.open(encoding="utf-8", newline="") as file:
        return tuple(_as_cell(row) for row in csv.DictReader(file))


def _as_cell(row: dict[str, str]) -> PublishedCell:
    value = float(row["value"]) / _UNITS[row["unit"]] if row["value"] else None
    texts = {name: text for name, text in row.items() if name not in ("value", "unit")}
    return PublishedCell(value=value, **texts)


def find_published(
    experiment: str, dataset: str, method: str, metric: str, condition: str
) -> PublishedCell | None:
    """The printed number of a cell, or None where the paper has none."""
    for cell in published_cells(experiment):
        same = (cell.dataset, cell.method, cell.metric) == (dataset, method, metric)
        if same and cell.condition in ("", condition):
            return cell
    return None
