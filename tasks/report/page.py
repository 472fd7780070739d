"""The report: one self-contained page, its figures as files beside it, and the scores as tables."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from tasks.report import page_parts as parts
from tasks.report.data import ReportData
from tasks.report.embedding_figure import Drawing, draw_embedding
from tasks.report.figures import draw_correlation, draw_metrics, draw_spectrum
from tasks.report.ranking import available_metrics, judge
from tasks.report.tables import DEFAULT_METRICS, Table, notes_csv, render_markdown, score_table, scores_csv

SORT_BY = "macro_f1"
_STRONGEST = 10


def render_report(data: ReportData, *, sort_by: str | None = None) -> dict[str, bytes]:
    """Draw everything and write the page.

    Parameters
    ----------
    data : ReportData
    sort_by : str, optional
        Metric that ranks and judges; macro F1 by default, or the first there is without it.

    Returns
    -------
    dict
        File name to bytes: ``index.html`` (figures inside it, so that it can be mailed or shown
        by a tracker alone), each figure as PNG, ``scores.csv``, ``scores.md`` and, where there
        are notes, ``notes.csv``. The same data give the same bytes.
    """
    metric = sort_by or sort_metric(data)
    figures = _draw_all(data, metric)
    files = {"index.html": _page(data, figures, metric)}
    files |= {name: figure.png for name, figure in figures.items()}
    files["scores.csv"] = scores_csv(data.scores).encode()
    files["scores.md"] = render_markdown(_results(data, metric)).encode()
    if data.notes:
        files["notes.csv"] = notes_csv(data.notes).encode()
    return files


def sort_metric(data: ReportData) -> str:
    """Macro F1, or the first metric there is when that was not measured."""
    known = available_metrics(data.scores)
    return SORT_BY if SORT_BY in known or not known else known[0]


def figure_names(methods: Iterable[str]) -> dict[str, str]:
    """File name of each method's embedding: safe on any file system, never twice the same."""
    names: dict[str, str] = {}
    for method in methods:
        stem = "embedding_" + re.sub(r"[^A-Za-z0-9_.-]+", "_", method)
        taken, number = {name.casefold() for name in names.values()}, 2
        unique = stem
        while f"{unique}.png".casefold() in taken:
            unique, number = f"{stem}_{number}", number + 1
        names[method] = f"{unique}.png"
    return names


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


def _results(data: ReportData, metric: str, metrics: Sequence[str] = DEFAULT_METRICS) -> Table:
    return score_table(data.scores, metrics, metric, titles=data.method_titles, baselines=data.baselines)


def _page(data: ReportData, figures: dict[str, Drawing], metric: str) -> bytes:
    sections = [
        ("results", "Results", _results_part(data, metric)),
        ("sample", "A sample of the items", _sample_part(data)),
        ("embedding", "Embedding", _embedding_part(data, figures)),
        ("metrics", "Scores, metric by metric", _plot_part(figures, "metrics.png", "Bars of each metric")),
        ("correlation", "Label correlation", _correlation_part(data, figures)),
        ("spectrum", "Spectrum", _plot_part(figures, "spectrum.png", "Eigenvalues of each method")),
        ("notes", "Notes on the data", parts.note_list(data.notes)),
        ("facts", "Facts", parts.fact_list(data.facts) if data.facts else ""),
    ]
    filled = [(anchor, title, body) for anchor, title, body in sections if body]
    links = "".join(f'<a href="#{anchor}">{parts.esc(title)}</a>' for anchor, title, _ in filled)
    body = "\n".join(parts.section(anchor, title, body) for anchor, title, body in filled)
    return parts.document(data.title, f"{_opening(data)}\n<nav>{links}</nav>\n{body}")


def _opening(data: ReportData) -> str:
    counts = (data.Y == 1).sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    each = counts.sum() / data.n_labeled if data.n_labeled else 0.0
    numbers = {
        "items": f"{data.n_items:,}",
        "labeled": f"{data.n_labeled:,}",
        "unlabeled": f"{data.n_items - data.n_labeled:,}",
        "labels": f"{len(data.label_names):,}",
        "labels per labeled item": f"{each:.2f}",
    }
    chips = parts.chips([(data.label_names[label], int(counts[label])) for label in order])
    return (
        f"<header><h1>{parts.esc(data.title)}</h1>\n<p>{parts.esc(_what_was_run(data))}</p>\n"
        f"{parts.tiles(numbers)}\n{chips}</header>"
    )


def _what_was_run(data: ReportData) -> str:
    used = dict.fromkeys([*data.embeddings, *(row[0] for row in data.scores)])
    titles = {method: view.title for method, view in data.embeddings.items()} | dict(data.method_titles)
    named = [titles.get(method, method) for method in used if method not in data.baselines]
    plain = [titles.get(method, method) for method in used if method in data.baselines]
    text = f"Source: {data.source}."
    if named:
        text += f" Run: {'; '.join(named)}."
    if plain:
        text += f" Plain baselines beside: {'; '.join(plain)}."
    folds = len({row[2] for row in data.scores})
    if folds:
        text += f" Evaluated on {folds} {'folds' if folds > 1 else 'fold'} of the labeled items."
    return text


def _results_part(data: ReportData, metric: str) -> str:
    if not data.scores:
        return "<p>Nothing was evaluated in this run.</p>"
    verdict = judge(data.scores, metric, data.baselines, data.method_titles)
    table, known = _results(data, metric), available_metrics(data.scores)
    body = f'<p class="verdict {verdict.kind}">{parts.esc(verdict.text)}</p>{parts.score_grid(table)}'
    if len(known) > len(table.header) - 1:
        body += parts.folded(f"All {len(known)} metrics", parts.score_grid(_results(data, metric, known)))
    return body


def _sample_part(data: ReportData) -> str:
    return parts.gallery(data.thumbnails) if data.thumbnails else ""


def _plot_part(figures: dict[str, Drawing], name: str, alt: str) -> str:
    return parts.plot(figures[name], alt) if name in figures else ""


def _embedding_part(data: ReportData, figures: dict[str, Drawing]) -> str:
    pieces = []
    for method, name in figure_names(data.embeddings).items():
        view = data.embeddings[method]
        r = view.coordinates.shape[1]
        extent = f"{r} {'dimension' if r == 1 else 'dimensions'}"
        pieces.append(f'<h3>{parts.esc(view.title)} <span class="muted">{extent}</span></h3>')
        pieces.append(parts.plot(figures[name], f"Embedding of the items by {view.title}"))
    return "\n".join(pieces)


def _correlation_part(data: ReportData, figures: dict[str, Drawing]) -> str:
    if "correlation.png" not in figures:
        return ""
    pairs = strongest_pairs(data)
    if not pairs:
        return "<p>No two labels occur together: every correlation is 0.</p>"
    body = parts.plot(figures["correlation.png"], "Heat map of the label correlation")
    table = parts.word_table(("label", "with", "correlation", "items with both"), pairs)
    return body + parts.folded(
        f"The {len(pairs)} strongest pairs" if len(pairs) > 1 else "The one pair", table
    )


def strongest_pairs(data: ReportData) -> list[tuple[str, str, str, str]]:
    """Most correlated pairs of labels: names, correlation, number of items that carry both."""
    upper = np.triu(data.correlation, k=1)
    rows, columns = np.nonzero(upper > 0)
    order = np.argsort(-upper[rows, columns], kind="stable")[:_STRONGEST]
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
