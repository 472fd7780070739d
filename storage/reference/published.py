"""The papers' published numbers and claims as data: one row per printed number or claim.

Columns of `published.csv`:

- `experiment`, and `table`: the table or figure of the paper.
- `dataset`, `method`, `metric`, `condition` (empty: any): identify the cell.
- `value` as printed, and its `unit` (percent or fraction).
- `status`: empty, or one of: `ambiguous`, the paper does not say exactly what was measured, so a difference
  proves nothing; `licensed`, the data set needs a license; `unavailable`, the data, the feature or the method
  is not available; `figure`, the paper shows the data set (method empty) in a figure without numbers; or
  `claim`.
- `remark`: why a difference means little; for a claim, the paper's words.

A claim compares two sides in its `method` or its `condition`: `A > B` (A is better) or `A ~ B` (they are
similar). A condition such as `9-D` covers every condition that begins with it, such as `9-D, K=1`; an empty
one covers all. The two sides are compared where the rest of the condition is the same. `value` is the printed
lead of A, if there is one. A claim without a sign states that something exists: its cells must be above 0.
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
    """One row; `value` is always a fraction, or None if the paper prints no number."""

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
    """The paper's claims in words about one experiment."""
    return tuple(cell for cell in published_rows(experiment) if cell.status == CLAIM)


def find_figure(experiment: str, dataset: str, condition: str) -> PublishedCell | None:
    """The row for a data set that the paper shows in a figure without numbers; None if there is none."""
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
    """The printed number of a cell, or None if the paper has none."""
    for cell in published_cells(experiment):
        same = (cell.dataset, cell.method, cell.metric) == (dataset, method, metric)
        if same and cell.condition in ("", condition):
            return cell
    return None
