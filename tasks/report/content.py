"""The content of a report: figures as PNG files, scores as tables, and what the page says as JSON."""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tasks.report.data import NoteRow, ReportData, ShownCase, Thumb
from tasks.report.embedding_figure import draw_embedding
from tasks.report.figure_style import Drawing
from tasks.report.figures import draw_correlation, draw_metrics, draw_spectrum
from tasks.report.quality import quality_content
from tasks.report.ranking import available_metrics, judge
from tasks.report.score_table import BASELINE_MARK, DEFAULT_METRICS, score_table
from tasks.report.tables import Table, notes_csv, render_markdown, scores_csv

SORT_BY = "macro_f1"
# Up to OPEN_NOTES notes are shown directly; if there are more, MAX_NOTES are listed in a folded section.
MAX_NOTES, OPEN_NOTES = 500, 8
_COMMON_MESSAGES = 5
_STRONGEST_PAIRS = 10
_ALT = {
    "metrics.png": "Bars of each metric",
    "correlation.png": "Heat map of the label correlation",
    "spectrum.png": "Eigenvalues of each method",
}


def draw_report(data: ReportData, *, sort_by: str | None = None) -> dict[str, bytes]:
    """Draw the figures and write the tables of a report.

    Parameters
    ----------
    data : ReportData
    sort_by : str, optional
        Metric that ranks the methods; default: macro F1, or the first metric if macro F1 was not measured.

    Returns
    -------
    dict
        File name to bytes: each figure as PNG, ``scores.csv``, ``scores.md``, ``notes.csv`` if there are
        notes, and ``content.json``, from which `tasks.report.page` renders the page. The same data give the
        same bytes.
    """
    metric = sort_by or sort_metric(data)
    figures = _draw_all(data, metric)
    files = {"content.json": json.dumps(_content(data, figures, metric), indent=1).encode()}
    files |= {name: figure.png for name, figure in figures.items()}
    files["scores.csv"] = scores_csv(data.scores).encode()
    files["scores.md"] = render_markdown(_scores(data, metric)).encode()
    if data.notes:
        files["notes.csv"] = notes_csv(data.notes).encode()
    return files


def sort_metric(data: ReportData) -> str:
    """Return macro F1, or the first metric if macro F1 was not measured."""
    known = available_metrics(data.scores)
    return SORT_BY if SORT_BY in known or not known else known[0]


def figure_names(methods: Iterable[str]) -> dict[str, str]:
    """Return a file name for each method's embedding: safe on any file system, all distinct."""
    names: dict[str, str] = {}
    for method in methods:
        stem = "embedding_" + re.sub(r"[^A-Za-z0-9_.-]+", "_", method)
        taken, number = {name.casefold() for name in names.values()}, 2
        unique = stem
        while f"{unique}.png".casefold() in taken:
            unique, number = f"{stem}_{number}", number + 1
        names[method] = f"{unique}.png"
    return names


def strongest_pairs(data: ReportData) -> list[tuple[str, str, str, str]]:
    """Return the most correlated pairs of labels: names, correlation, number of items with both."""
    upper = np.triu(data.correlation, k=1)
    rows, columns = np.nonzero(upper > 0)
    order = np.argsort(-upper[rows, columns], kind="stable")[:_STRONGEST_PAIRS]
    carries = data.Y == 1
    return [
        (
            data.label_names[i],
            data.label_names[j],
            f"{data.correlation[i, j]:.3f}",
            f"{int((carries[:, i] & carries[:, j]).sum()):,}",
        )
        for i, j in zip(rows[order], columns[order], strict=True)
    ]


def _draw_all(data: ReportData, metric: str) -> dict[str, Drawing]:
    figures = {
        file: draw_embedding(data.embeddings[method], data.Y, data.label_names)
        for method, file in figure_names(data.embeddings).items()
    }
    if data.scores:
        figures["metrics.png"] = draw_metrics(data.scores, metric, data.method_titles, data.baselines)
    if len(data.label_names) > 1:
        figures["correlation.png"] = draw_correlation(data.correlation, data.label_names)
    if any(np.size(view.eigenvalues) for view in data.embeddings.values()):
        figures["spectrum.png"] = draw_spectrum(data.embeddings)
    return figures


def _content(data: ReportData, figures: dict[str, Drawing], metric: str) -> dict[str, Any]:
    """Everything the page says, as plain data; figures are referred to by file name."""
    counts = (data.Y == 1).sum(axis=0)
    return {
        "title": data.title,
        "description": _description(data),
        "tiles": _tiles(data, int(counts.sum())),
        "labels": [
            (data.label_names[label], int(counts[label])) for label in np.argsort(-counts, kind="stable")
        ],
        **_results(data, metric),
        "quality": quality_content(data.Y, data.judged, data.label_names) if data.judged else None,
        "cases": [(title, [_case(one) for one in cases]) for title, cases in data.cases.items() if cases],
        "thumbnails": [_thumbnail(thumb) for thumb in data.thumbnails],
        "embeddings": [
            {
                "title": data.embeddings[method].title,
                "dimensions": data.embeddings[method].coordinates.shape[1],
                "figure": file,
            }
            for method, file in figure_names(data.embeddings).items()
        ],
        "figures": _figure_texts(data, figures),
        "pairs": strongest_pairs(data),
        "notes": _notes(data.notes),
        "facts": [(name, str(value)) for name, value in data.facts.items()],
    }


def _description(data: ReportData) -> str:
    used = dict.fromkeys([*data.embeddings, *(row[0] for row in data.scores)])
    titles = {method: view.title for method, view in data.embeddings.items()} | dict(data.method_titles)
    methods = [titles.get(method, method) for method in used if method not in data.baselines]
    baselines = [titles.get(method, method) for method in used if method in data.baselines]
    text = f"Source: {data.source}."
    if methods:
        text += f" Methods: {'; '.join(methods)}."
    if baselines:
        text += f" Baselines: {'; '.join(baselines)}."
    folds = len({row[2] for row in data.scores})
    if folds:
        text += f" Evaluated on {folds} {'folds' if folds > 1 else 'fold'} of the labeled items."
    return text


def _tiles(data: ReportData, n_given: int) -> list[tuple[str, str]]:
    mean = n_given / data.n_labeled if data.n_labeled else 0.0
    return [
        ("items", f"{data.n_items:,}"),
        ("labeled", f"{data.n_labeled:,}"),
        ("unlabeled", f"{data.n_items - data.n_labeled:,}"),
        ("labels", f"{len(data.label_names):,}"),
        ("labels per labeled item", f"{mean:.2f}"),
    ]


def _scores(data: ReportData, metric: str, metrics: Sequence[str] = DEFAULT_METRICS) -> Table:
    return score_table(
        data.scores,
        metrics,
        metric,
        titles=data.method_titles,
        baselines=data.baselines,
        note=data.sampled,
    )


def _results(data: ReportData, metric: str) -> dict[str, Any]:
    if not data.scores:
        return {"verdict": None, "scores": None, "all_scores": None}
    verdict = judge(data.scores, metric, data.baselines, data.method_titles)
    table, known = _scores(data, metric), available_metrics(data.scores)
    more = len(known) > len(table.header) - 1
    return {
        "verdict": {"kind": verdict.kind, "text": verdict.text},
        "scores": score_content(table),
        "all_scores": score_content(_scores(data, metric, known)) if more else None,
    }


def score_content(table: Table) -> dict[str, Any]:
    """A table of scores as plain data; scores are pairs of mean and spread."""
    return {
        "header": table.header,
        "rows": [
            (
                row[0].removesuffix(BASELINE_MARK) if number in table.marked else row[0],
                *(cell.partition(" ± ")[::2] for cell in row[1:]),
            )
            for number, row in enumerate(table.rows)
        ],
        "caption": table.caption,
        "best": [list(cell) for cell in sorted(table.best)],
        "marked": sorted(table.marked),
    }


def _thumbnail(thumb: Thumb) -> dict[str, Any]:
    jpeg = base64.b64encode(thumb.jpeg).decode("ascii")
    labels = None if thumb.labels is None else list(thumb.labels)
    return {"id": thumb.id, "jpeg": jpeg, "labels": labels}


def _case(one: ShownCase) -> dict[str, Any]:
    jpeg = base64.b64encode(one.jpeg).decode("ascii")
    return {"id": one.id, "jpeg": jpeg, "labels": list(one.labels), "reason": one.reason}


def _figure_texts(data: ReportData, figures: dict[str, Drawing]) -> dict[str, dict[str, str]]:
    alt = {
        file: f"Embedding of the items by {data.embeddings[method].title}"
        for method, file in figure_names(data.embeddings).items()
    }
    return {name: {"alt": (alt | _ALT)[name], "caption": one.caption} for name, one in figures.items()}


def _notes(notes: Sequence[NoteRow]) -> dict[str, Any]:
    """Notes on the data: the first ones, and how often the most common messages occur."""
    counts = Counter(message for _, _, message in notes)
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_COMMON_MESSAGES]
    rows = [(file, "" if row is None else str(row), message) for file, row, message in notes[:MAX_NOTES]]
    return {
        "count": len(notes),
        "messages": len(counts),
        "common": common,
        "rows": rows,
        "open": OPEN_NOTES,
    }
