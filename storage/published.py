"""The numbers that the papers print, as data: one row a cell, with table and row.

Columns of `published.csv`: `experiment`; `table`, where the paper prints it; `dataset`, `method`, `metric`
and `condition` (empty: any), which name the cell; `value` as printed and `unit` (percent or fraction);
`status`: empty, or `unavailable` where the data cannot be had; `remark`, why a difference says little.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LIST = Path(__file__).with_name("published.csv")
_UNITS = {"percent": 100.0, "fraction": 1.0}


@dataclass(frozen=True)
class PublishedCell:
    """One printed number; `value` is a fraction whatever the paper's unit is."""

    experiment: str
    table: str
    dataset: str
    method: str
    metric: str
    condition: str
    value: float
    status: str = ""
    remark: str = ""


@cache
def published_cells(experiment: str) -> tuple[PublishedCell, ...]:
    """Every printed number of one experiment, in the order of the paper."""
    return tuple(cell for cell in read_published() if cell.experiment == experiment)


@cache
def read_published() -> tuple[PublishedCell, ...]:
    """Every printed number."""
    with _LIST.open(encoding="utf-8", newline="") as file:
        return tuple(_as_cell(row) for row in csv.DictReader(file))


def _as_cell(row: dict[str, str]) -> PublishedCell:
    value = float(row["value"]) / _UNITS[row["unit"]]
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
