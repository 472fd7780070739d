"""The page of an experiment: its table as Markdown and Parquet, and its figures."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from embedding_core.protocols.trial import TrialData
from storage.artifacts.schemas import TrialCell
from storage.reference.sets import reference_sets
from tasks.report.ranking import format_score, metric_title
from tasks.report.tables import Table, render_markdown
from tasks.reproduce.claims import ALIKE, LEADS
from tasks.reproduce.comparison import Row, verdict_line
from tasks.reproduce.experiment import Experiment
from tasks.reproduce.provenance import Key, Provenance, provenance_section

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TABLE_FILE, CELLS_FILE = "table.md", "cells.parquet"


@dataclass(frozen=True)
class Story:
    """Everything a figure is drawn from.

    Attributes
    ----------
    experiment, quick
        The experiment, and whether it ran with fewer trials.
    rows : sequence of Row
        The comparison.
    cells : mapping of (data set, title of the arm) to cells
    load : callable
        Loads a data set by name, as the trials used it.
    picture : callable
        Loads the pixels of the image that a row of a data set was computed from.
    """

    experiment: Experiment
    quick: bool
    rows: Sequence[Row]
    cells: dict[tuple[str, str], list[TrialCell]]
    load: Callable[[str], TrialData]
    picture: Callable[[str, int], "NDArray[np.uint8]"]


def title_of(experiment: Experiment, quick: bool) -> str:
    """Title of an experiment in one line."""
    return f"{experiment.name}: {experiment.where}, {experiment.title}{' (quick)' if quick else ''}"


def comparison_table(experiment: Experiment, rows: Sequence[Row]) -> Table:
    """Tabulate the rows; facts that are the same for all rows are stated in the caption instead."""
    rows = [row for row in rows if experiment.lists(row.condition)]
    varied = [(heading, get) for heading, get in _FACTS if len({get(row) for row in rows if row.trials}) > 1]
    beside = [arm.title for arm in experiment.baselines]
    header = ("data", "method", *(name for name, _ in varied), "paper", "ours", *beside, "verdict", "why")
    lines = tuple(
        (
            _dataset_title(row.dataset),
            row.method,
            *(get(row) for _, get in varied),
            format_score(row.paper),
            format_score(row.mean, row.spread),
            *(format_score(row.baselines.get(title), row.baseline_spreads.get(title)) for title in beside),
            row.verdict,
            row.reason,
        )
        for row in rows
    )
    texts = {1, *range(2, 2 + len(varied)), len(header) - 2, len(header) - 1}
    last = len(header) - 1
    baselines = range(last - 2, last - 2 - len(beside), -1)
    optional = (*baselines, last, *range(1 + len(varied), 1, -1))
    return Table(header, lines, caption_of(experiment, rows), texts=frozenset(texts), optional=optional)


# With one class per item, every metric of whole rows is the accuracy.
_METRIC_TITLES = {
    "accuracy": "accuracy",
    "accuracy_class_mean": "recognition rate",
    "accuracy_class_mean_lead": "recognition rate lead",
    "found_alone": "unique correct",
    "wrong_alone": "unique wrong",
}
_FACTS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("condition", lambda row: row.condition),
    ("preprocessing", lambda row: row.preprocessing),
    ("metric", lambda row: _METRIC_TITLES.get(row.metric) or metric_title(row.metric)),
)


def _dataset_title(name: str) -> str:
    known = reference_sets().get(name)
    return known.title if known else name


def caption_of(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Say how the numbers were computed, and count the verdicts."""
    measured = [row for row in rows if row.trials]
    same = [
        f"{heading} {values.pop()}"
        for heading, get in _FACTS
        if len(values := {get(row) for row in measured if get(row)}) == 1
    ]
    trials = sorted({row.trials for row in measured})
    counted = f"{' or '.join(map(str, trials))} trial{'s' if trials != [1] else ''}"
    spread = f"mean ± standard deviation over {counted}" if trials else ""
    return "; ".join(
        part for part in (*same, spread, experiment.note, verdict_line(experiment, rows)) if part
    )


def markdown_page(
    experiment: Experiment,
    quick: bool,
    command: str,
    rows: Sequence[Row],
    figures: Sequence[str],
    made: Mapping[Key, Provenance],
) -> str:
    """Render the experiment as a Markdown page; `command` is the command that made it."""
    parts = [f"# {title_of(experiment, quick)}", experiment.paper]
    parts.append(render_markdown(comparison_table(experiment, rows)))
    parts += [f"![{name}]({name})" for name in figures]
    parts.append(provenance_section(experiment, quick, command, made))
    return "\n\n".join(part for part in parts if part) + "\n"


_BESIDE: Mapping[str, Callable[[Row], Mapping[str, float]]] = {
    "baseline": lambda row: row.baselines,
    "baseline_spread": lambda row: row.baseline_spreads,
}


def _made(row: Row, made: Mapping[Key, Provenance]) -> Provenance | None:
    method = row.method.split(LEADS)[0].split(ALIKE)[0] if row.claim else row.method
    return made.get((row.dataset, method))


def cells_parquet(
    experiment: Experiment, quick: bool, rows: Sequence[Row], made: Mapping[Key, Provenance]
) -> bytes:
    """Write one row per cell, with the data, settings and code that it was computed from.

    A claim compares two methods; its code is that of the first.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = ("dataset", "method", "condition", "preprocessing", "metric", "verdict", "reason")
    columns: dict[str, pa.Array] = {
        "experiment": pa.array([experiment.name] * len(rows), pa.string()),
        "table": pa.array([experiment.where] * len(rows), pa.string()),
        **{name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in texts},
        **{
            name: pa.array([getattr(row, name) for row in rows], pa.float64())
            for name in ("paper", "mean", "spread")
        },
        "trials": pa.array([row.trials for row in rows], pa.int32()),
        "primary": pa.array([row.primary for row in rows], pa.bool_()),
        "claim": pa.array([row.claim for row in rows], pa.bool_()),
        "quick": pa.array([quick] * len(rows), pa.bool_()),
        **{
            f"{name}:{arm.title}": pa.array([get(row).get(arm.title) for row in rows], pa.float64())
            for arm in experiment.baselines
            for name, get in _BESIDE.items()
        },
        **{
            item.name: pa.array(
                [getattr(_made(row, made), item.name, None) for row in rows],
                pa.int64() if item.name == "seed" else pa.string(),
            )
            for item in fields(Provenance)
        },
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, compression="zstd")
    return buffer.getvalue()
