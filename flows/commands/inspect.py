"""`inspect`: what is recognized in a source before anything runs."""

import argparse
import json

from flows.commands.options import Subparsers, add_command, add_configuration, read_config
from flows.source_summary import PartSummary, SourceSummary, summarize_source
from flows.terminal import show
from storage.quoting import count_of, list_names
from storage.sources.hygiene import FEW
from tasks.report.tables import Table
from tasks.safe_text import join_words

_COLUMNS, _LABELS, _NOTES, _NAMES = 30, 30, 20, 8
_REFUSED = 2
_SPLIT = "scores do not use it: run cross-validates all labeled items"


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    add_configuration(add_command(commands, "inspect", inspect, json=True), methods=False)


def inspect(options: argparse.Namespace) -> int:
    """Print items, features, labels, and what is not used; exit code 2 if a run would be refused."""
    found = summarize_source(read_config(options))
    if options.json:
        show(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
        return _REFUSED if found.problem else 0
    show("\n".join(_lines(found)))
    for table in _tables(found):
        show("")
        show(table)
    show("\n".join(["", *_ending(found, options)]))
    return _REFUSED if found.problem else 0


def _lines(found: SourceSummary) -> list[str]:
    lines = [f"source     {found.path}", f"reader     {found.kind}"]
    lines += [f"file       {file}" for file in found.files if file != found.path]
    unlabeled = found.items - found.labeled
    lines.append(f"items      {found.items:,}: {found.labeled:,} labeled, {unlabeled:,} unlabeled")
    lines.append(f"ids        {found.recognized.get('id', _default_ids(found))}")
    lines += [_part_line(part) for part in found.parts]
    if found.labels:
        how = "one per item" if found.single_label else "several per item possible"
        where = f", {found.recognized['labels']}" if "labels" in found.recognized else ""
        lines.append(f"labels     {len(found.labels)}, {how}{where}")
    if found.links:
        lines.append(f"links      {found.links}")
    if found.split:
        counts = ", ".join(f"{name} {count:,}" for name, count in list(found.split.items())[:_NAMES])
        lines.append(f"split      {counts}; {_SPLIT}")
    return lines


def _default_ids(found: SourceSummary) -> str:
    return "file names" if any(part.formats for part in found.parts) else "row numbers"


def _part_line(part: PartSummary) -> str:
    if part.features is None:
        formats = ", ".join(f"{count:,} {name}" for name, count in part.formats.items())
        details = "; ".join(text for text in (formats, part.sizes, part.where) if text)
        return f"{part.content:<10} {count_of(part.items, 'item')}{f': {details}' if details else ''}"
    block = "" if part.name == "given" else f" in the block {part.name}"
    named = bool(part.feature_names) and not part.feature_names[0].endswith("[0]")
    names = f": {list_names(part.feature_names, _NAMES)}" if named else ""
    missing = f"; {part.missing:,} missing values" if part.missing else ""
    return f"features   {part.features:,}{block}{names}{missing}"


def _tables(found: SourceSummary) -> list[Table]:
    tables = []
    if found.columns:
        columns = tuple((one.name or "(no name)", one.content, one.use) for one in found.columns[:_COLUMNS])
        more = _more(len(found.columns), _COLUMNS, "columns")
        tables.append(Table(("column", "content", "use"), columns, more, texts=frozenset({1, 2})))
    if found.labels:
        total = max(found.labeled, 1)
        rows = tuple(
            (name, f"{count:,}", f"{100 * count / total:.1f} %", "rare" if count < FEW else "")
            for name, count in list(found.labels.items())[:_LABELS]
        )
        more = _more(len(found.labels), _LABELS, "labels")
        tables.append(Table(("label", "items", "share", "note"), rows, more, texts=frozenset({3})))
    return tables


def _more(total: int, shown: int, what: str) -> str:
    return f"and {total - shown} more {what} (--json lists all)" if total > shown else ""


def _ending(found: SourceSummary, options: argparse.Namespace) -> list[str]:
    from storage.urls import redact_argument

    lines = [f"note       {note}" for note in found.notes[:_NOTES]]
    if len(found.notes) > _NOTES:
        lines.append(f"note       and {len(found.notes) - _NOTES} more (--json lists all)")
    if found.problem:
        return [*lines, f"problem    {found.problem}"]
    given = [word for setting in options.set for word in ("--set", redact_argument(setting))]
    source = [options.source] if options.source else []
    return [*lines, f"run        {join_words(['labelscape', 'run', *source, *given])}"]
