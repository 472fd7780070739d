"""The table of scores: one row per method and classifier, one column per metric."""

from collections.abc import Mapping, Sequence, Set

from tasks.report.data import ScoreRow
from tasks.report.ranking import (
    LOWER_IS_BETTER,
    Entry,
    available_metrics,
    format_score,
    metric_arrow,
    metric_title,
    rank_entries,
)
from tasks.report.tables import Table
from tasks.safe_text import printable

DEFAULT_METRICS = ("macro_f1", "micro_f1", "macro_precision", "micro_precision", "lrap", "hamming_loss")
BASELINE_MARK = " (baseline)"


def score_table(
    scores: Sequence[ScoreRow],
    metrics: Sequence[str] = DEFAULT_METRICS,
    sort_by: str = "macro_f1",
    *,
    titles: Mapping[str, str] | None = None,
    baselines: Set[str] = frozenset(),
    note: str = "",
) -> Table:
    """Tabulate mean ± spread over folds of each method and classifier, best first, baselines marked.

    Parameters
    ----------
    scores : sequence of (method, classifier, fold, metric, value)
    metrics : metrics to show as columns; metrics that were not measured are left out.
    sort_by : metric to sort by; ConfigError if it was not measured.
    titles : display titles of the methods.
    baselines : names of the methods that are marked as baselines.
    note : what the caption adds, for instance that a sample was tested.
    """
    known = available_metrics(scores)
    shown = [metric for metric in dict.fromkeys((*metrics, sort_by)) if metric in known]
    entries = rank_entries(scores, sort_by)
    rows = tuple(_score_row(entry, shown, titles, baselines) for entry in entries)
    header = ("method", *(f"{metric_title(metric)} {metric_arrow(metric)}" for metric in shown))
    marked = frozenset(row for row, entry in enumerate(entries) if entry.method in baselines)
    caption = _caption(entries, sort_by) + (f"; {note}" if note else "")
    return Table(header, rows, caption, _best_cells(entries, shown), marked)


def _score_row(
    entry: Entry, metrics: Sequence[str], titles: Mapping[str, str] | None, baselines: Set[str]
) -> tuple[str, ...]:
    mark = BASELINE_MARK if entry.method in baselines else ""
    cells = (format_score(entry.mean(metric), entry.spread(metric)) for metric in metrics)
    return (printable(entry.title(titles)) + mark, *cells)


def _caption(entries: Sequence[Entry], sort_by: str) -> str:
    folds = {fold for entry in entries for values in entry.values.values() for fold in values}
    how = f"mean ± standard deviation over {len(folds)} folds" if len(folds) > 1 else "one fold, no spread"
    return f"{how}; best {metric_title(sort_by)} first; ↑ higher is better, ↓ lower is better"


def _best_cells(entries: Sequence[Entry], metrics: Sequence[str]) -> frozenset[tuple[int, int]]:
    """Best cell of each column, with ties at the three decimals shown."""
    best: set[tuple[int, int]] = set()
    for column, metric in enumerate(metrics, start=1):
        means = {
            row: round(mean, 3)
            for row, entry in enumerate(entries)
            if (mean := entry.mean(metric)) is not None
        }
        if means:
            target = min(means.values()) if metric in LOWER_IS_BETTER else max(means.values())
            best.update((row, column) for row, mean in means.items() if mean == target)
    return frozenset(best)
