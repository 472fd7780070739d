"""Tracked runs as rows that can be filtered, sorted, grouped and tabulated; one row per classifier."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from storage.errors import ConfigError
from storage.quoting import count_of
from storage.tracking.client import ComparedRun
from tasks.report.ranking import (
    LOWER_IS_BETTER,
    METRIC_TITLES,
    Entry,
    format_score,
    metric_arrow,
    metric_title,
)
from tasks.report.tables import Table
from tasks.stages.tracking import BASELINE_TAG, CHANGES_TAG, DIGEST_TAG, SCORES_TAG, SETTINGS_TAG

# Columns besides metrics and settings.
_PLAIN = ("method", "classifier", "run", "name", "differs", "started", "settings", "changes", "data")
# The digest of the items and their labels; model selections have the second tag only.
_DATA_TAGS = (f"{DIGEST_TAG}manifest", f"{DIGEST_TAG}ingest")
_SHOWN_DIGITS = 12
_OTHER_DATA = "*"
_DEFAULTS = "defaults"
_TITLES = {"data.items": "items", "data.labels": "labels", "differs": "what differs", "method": "method id"}


@dataclass(frozen=True)
class MethodRow:
    """One method with one classifier in one run."""

    run: ComparedRun
    classifier: str
    metrics: Mapping[str, float]
    spreads: Mapping[str, float]

    @property
    def title(self) -> str:
        """Title of the method with its classifier, as in the table of a run."""
        mark = " (baseline)" if self.is_baseline else ""
        return Entry(self.run.method, self.classifier, {}).title({self.run.method: self.run.title}) + mark

    @property
    def is_baseline(self) -> bool:
        """Whether the method is a plain baseline."""
        return self.run.tags.get(BASELINE_TAG) == "true"

    @property
    def data(self) -> str:
        """The beginning of the digest of the items and their labels."""
        return next((self.run.run_tags[tag] for tag in _DATA_TAGS if tag in self.run.run_tags), "")[
            :_SHOWN_DIGITS
        ]

    def text(self, column: str) -> str:
        """The cell of a column: a metric, a setting by its dotted name, or one of the plain columns."""
        if column in self.metrics:
            return format_score(self.metrics[column], self.spreads.get(column))
        plain = {
            "method": self.run.method,
            "classifier": self.classifier,
            "run": self.run.parent_id[:8],
            "name": self.run.run_name,
            "differs": self._differs(),
            "started": self.run.started.strftime("%Y-%m-%d %H:%M"),
            "settings": self.run.run_tags.get(SETTINGS_TAG, ""),
            "changes": self.run.run_tags.get(CHANGES_TAG, ""),
            "data": self.data,
        }
        return plain[column] if column in plain else self.run.params.get(column, "")

    def _differs(self) -> str:
        """The configured name, else what the run's own name says besides its source and its methods."""
        given = self.run.run_params.get("name", "null")
        parts = self.run.run_name.split(" · ")
        if given != "null" or not parts[1:]:
            return self.run.run_name if given != "null" else _DEFAULTS
        methods = re.findall(r"\w+", self.run.run_params.get("embedding.methods", ""))
        own = [one for one in parts[1:] if one not in ("+".join(methods), f"{len(methods)} methods")]
        return " · ".join(own) or _DEFAULTS


def make_rows(runs: Sequence[ComparedRun]) -> list[MethodRow]:
    """One row per method and classifier; metrics of further classifiers are named `10nn/macro_f1`."""
    rows = []
    for run in runs:
        found: dict[str, tuple[dict[str, float], dict[str, float]]] = {run.classifier: ({}, {})}
        for place, values in enumerate((run.metrics, run.metrics_std)):
            for name, value in values.items():
                prefix, _, metric = name.rpartition("/")
                classifier = prefix if metric in METRIC_TITLES and prefix else run.classifier
                key = metric if classifier == prefix else name
                found.setdefault(classifier, ({}, {}))[place][key] = value
        rows += [MethodRow(run, classifier, *values) for classifier, values in found.items()]
    return rows


def sort_rows(rows: Sequence[MethodRow], metric: str) -> list[MethodRow]:
    """Sort rows best first; rows without the metric come last."""
    sign = 1.0 if metric in LOWER_IS_BETTER else -1.0
    return sorted(rows, key=lambda row: sign * row.metrics[metric] if metric in row.metrics else float("inf"))


def newest_of_each(rows: Sequence[MethodRow]) -> list[MethodRow]:
    """Of rows with identical scores keep only those of the run that started last, in the given order."""
    newest: dict[tuple[str, str], datetime] = {}
    for row in rows:
        key = _scores(row)
        newest[key] = max(row.run.started, newest.get(key, row.run.started))
    return [row for row in rows if row.run.started == newest[_scores(row)]]


def _scores(row: MethodRow) -> tuple[str, str]:
    return row.run.method, row.run.tags.get(SCORES_TAG, row.run.run_id)


def known_columns(rows: Sequence[MethodRow]) -> list[str]:
    """Every column that some row has: metrics, plain columns, settings."""
    metrics = {name for row in rows for name in row.metrics}
    settings = sorted({name for row in rows for name in row.run.params})
    return [*(name for name in METRIC_TITLES if name in metrics), *_PLAIN, *settings]


def check_columns(names: Sequence[str], rows: Sequence[MethodRow], option: str) -> None:
    """Refuse a column that no row has."""
    known = known_columns(rows)
    for name in names:
        if rows and name not in known and name not in METRIC_TITLES:
            near = difflib.get_close_matches(name, known, n=1) or [
                one for one in known if one.endswith(f".{name}")
            ]
            hint = f"did you mean {near[0]}?" if near else _describe_columns(known, rows)
            raise ConfigError(f"{option} {name}: no run has such a metric or setting; {hint}")


def _describe_columns(known: Sequence[str], rows: Sequence[MethodRow]) -> str:
    """What can be chosen; of the settings, which are many, only those that differ."""
    own = [name for name in known if name in METRIC_TITLES or name in _PLAIN]
    names = ", ".join(dict.fromkeys([*own, *varying_settings(rows)]))
    return f"choose from {names}, or another setting by its full name (`labelscape config --show`)."


def parse_conditions(texts: Sequence[str]) -> dict[str, str]:
    """Read conditions such as `affinity.n_neighbors=15` or `method=mlda`."""
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise ConfigError(f"--where {text}: give a condition as KEY=VALUE, for instance method=mlda.")
        found[name.strip()] = value.strip()
    return found


def parse_day(text: str, option: str) -> datetime:
    """Read a day or a time in ISO 8601; without a time zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} {text}: give a day such as 2026-11-18, or a time in ISO 8601.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def select_rows(
    rows: Sequence[MethodRow],
    conditions: Mapping[str, str],
    since: datetime | None = None,
    before: datetime | None = None,
) -> list[MethodRow]:
    """The rows that meet every condition, of runs that started from `since` until before `before`."""
    check_columns(list(conditions), rows, "--where")
    return [
        row
        for row in rows
        if all(_equal(row.text(name), value) for name, value in conditions.items())
        and (since is None or row.run.started >= since)
        and (before is None or row.run.started < before)
    ]


def _equal(found: str, wanted: str) -> bool:
    try:
        return float(found) == float(wanted)
    except ValueError:
        return found == wanted


def varying_settings(rows: Sequence[MethodRow]) -> list[str]:
    """Settings whose values differ between the rows of one method."""
    shared = sorted(set.intersection(*(set(row.run.params) for row in rows))) if rows else []
    return [name for name in shared if len({row.run.params[name] for row in rows}) > 1 and "." in name]


def comparison_table(
    rows: Sequence[MethodRow], sort_by: str, columns: Sequence[str], hidden: int = 0
) -> Table:
    """Tabulate rows, best first; narrow terminals drop columns from the right.

    `hidden` is the number of results that are left out because a newer run has the same scores.
    """
    header = ("method", *(_column_title(name) for name in columns))
    titles, note = _mark_other_data(rows)
    cells = tuple(
        (title, *(row.text(name) for name in columns)) for title, row in zip(titles, rows, strict=True)
    )
    texts = frozenset(place for place, name in enumerate(columns, start=1) if name not in METRIC_TITLES)
    caption = f"mean ± standard deviation over folds; best {metric_title(sort_by)} first"
    if hidden:
        caption += (
            f"; {count_of(hidden, 'result', 'results')} of older runs with the same scores left out (--all)"
        )
    caption += note
    last = [place for place, name in enumerate(columns, start=1) if name in ("settings", "changes")]
    rest = [place for place in range(len(columns), 1, -1) if place not in last]
    return Table(header, cells, caption, texts=texts, optional=(*last, *rest))


def _mark_other_data(rows: Sequence[MethodRow]) -> tuple[list[str], str]:
    """Titles, marked where the data are not those of the newest run, and what the mark means."""
    newest = max(rows, key=lambda row: row.run.started).data if rows else ""
    other = [bool(newest and row.data and row.data != newest) for row in rows]
    titles = [
        f"{row.title} {_OTHER_DATA}" if is_other else row.title
        for row, is_other in zip(rows, other, strict=True)
    ]
    return titles, f"; {_OTHER_DATA}: other items or labels than in the newest run" if any(other) else ""


def group_rows(rows: Sequence[MethodRow], key: str) -> dict[str, list[MethodRow]]:
    """Rows by their value of a setting or column, in the given order.

    Baselines are left out where a setting is compared: most settings do not change them.
    """
    groups: dict[str, list[MethodRow]] = {}
    methods = [row for row in rows if not row.is_baseline] if key not in _PLAIN else []
    for row in methods or rows:
        groups.setdefault(row.text(key), []).append(row)
    return groups


def group_table(rows: Sequence[MethodRow], key: str, sort_by: str) -> Table:
    """One row per value of a setting: how many results it has, and the best one. `rows` are best first."""
    groups = group_rows(rows, key)
    titles, note = _mark_other_data([found[0] for found in groups.values()])
    own_run = key != "run"
    cells = tuple(
        (
            value or "–",
            str(len(found)),
            title,
            found[0].text(sort_by),
            *([found[0].text("run")] if own_run else []),
        )
        for title, (value, found) in zip(titles, groups.items(), strict=True)
    )
    header = (key, "results", "best", _column_title(sort_by), *(["run"] if own_run else []))
    caption = f"best {metric_title(sort_by)} of each value, best first"
    caption += note + ("; without plain baselines" if sum(map(len, groups.values())) < len(rows) else "")
    return Table(header, cells, caption, texts=frozenset({2, 4}), optional=(4, 1) if own_run else (1,))


def group_records(rows: Sequence[MethodRow], key: str, sort_by: str) -> list[dict[str, object]]:
    """The groups of `group_table` as plain data, with numbers in full."""
    return [
        {
            key: value,
            "results": len(found),
            "best": found[0].title,
            "method": found[0].run.method,
            "classifier": found[0].classifier,
            sort_by: found[0].metrics.get(sort_by),
            f"{sort_by}_std": found[0].spreads.get(sort_by),
            "run": found[0].text("run"),
        }
        for value, found in group_rows(rows, key).items()
    ]


def _column_title(name: str) -> str:
    if name in METRIC_TITLES:
        return f"{metric_title(name)} {metric_arrow(name)}"
    return _TITLES.get(name, name)


def as_records(rows: Sequence[MethodRow]) -> list[dict[str, object]]:
    """Rows as plain data, with every metric, setting and tag."""
    return [
        {
            "title": row.run.title,
            "method": row.run.method,
            "classifier": row.classifier,
            "metrics": dict(row.metrics),
            "metrics_std": dict(row.spreads),
            "baseline": row.is_baseline,
            "params": row.run.params,
            "run_id": row.run.run_id,
            "parent_id": row.run.parent_id,
            "run_name": row.run.run_name,
            "started": row.run.started.isoformat(),
            "tags": row.run.tags,
            "run_tags": row.run.run_tags,
        }
        for row in rows
    ]


def as_cells(rows: Sequence[MethodRow], columns: Sequence[str]) -> list[list[object]]:
    """A header and rows for CSV: numbers in full, mean and standard deviation in two columns."""
    metrics = [name for name in columns if name in METRIC_TITLES]
    others = [name for name in columns if name not in METRIC_TITLES and name not in ("method", "classifier")]
    header: list[object] = ["method", "classifier", "baseline"]
    header += [part for name in metrics for part in (name, f"{name}_std")]
    cells: list[list[object]] = [
        [
            row.run.method,
            row.classifier,
            row.is_baseline,
            *(part for name in metrics for part in (row.metrics.get(name, ""), row.spreads.get(name, ""))),
            *(row.text(name) for name in others),
        ]
        for row in rows
    ]
    return [[*header, *others], *cells]
