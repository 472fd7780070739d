"""Write changed labels back: into a CSV file of labels, into the label columns of a CSV table, or a new file.

Lines that do not change stay as they are, byte for byte. What was changed by whom is added to a log beside
the file (`labels.corrections.jsonl`).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from storage.artifacts.disk import replace_atomically, store_errors
from storage.csv_cells import guard_cell
from storage.errors import SourceError
from storage.permissions import users_file_mode
from storage.quoting import list_names, quote
from storage.sources import OpenedSource
from storage.sources.annotation_files import read_labels
from storage.sources.builtin import DemoSource
from storage.sources.columns import CSV_SUFFIXES, guess_delimiter
from storage.sources.image_folder import ImageFolder
from storage.sources.label_files import label_positions
from storage.sources.table import TableSource
from storage.sources.text_file import read_text
from storage.sources.text_table import TextTable

LOG_ENDING = ".corrections.jsonl"
_LABEL_PREFIX = "label:"
Labels = tuple[str, ...]


@dataclass(frozen=True)
class LabelPlace:
    """A file whose labels can be changed.

    Attributes
    ----------
    path : Path
    edit : callable
        Returns the new content of the file for changed items by id, with all their labels: also those that
        `source.min_label_count` and `source.drop_labels` hide.
    words : str
        What it is, for messages.
    """

    path: Path
    edit: Callable[[Mapping[str, Labels]], bytes]
    words: str


def find_label_place(source: OpenedSource, ids: Sequence[str]) -> LabelPlace | None:
    """The file that holds the labels of a source and can be edited; None for all other forms of labels.

    Files that can be edited are CSV and TSV files: the label file of a folder, and a table with labels.
    """
    inner, separator = source.inner, source.options.label_separator
    if isinstance(inner, DemoSource) and (given := inner.with_given_labels()):
        inner = given
    if isinstance(inner, ImageFolder):
        if len(inner.label_parts) != 1 or inner.label_parts[0].path.suffix.lower() not in CSV_SUFFIXES:
            return None
        path = inner.label_parts[0].path
        return LabelPlace(path, lambda new: _edit_entries(inner, list(ids), new), f"label file {path}")
    if isinstance(inner, TableSource | TextTable):
        if inner.labels_path is None and inner.path.suffix.lower() in CSV_SUFFIXES:
            columns = inner.roles(inner.kinds())
            return LabelPlace(
                inner.path,
                lambda new: _edit_columns(inner.path, ids, columns.labels, columns.several, new, separator),
                f"label columns of {inner.path}",
            )
        if inner.labels_path is not None and inner.labels_path.suffix.lower() in CSV_SUFFIXES:
            path = inner.labels_path
            return LabelPlace(path, lambda new: _edit_table(path, new, separator), f"label table {path}")
    return None


def log_path(labels: Path) -> Path:
    """The log of the changes of a label file, beside it."""
    return labels.with_name(labels.stem + LOG_ENDING)


def read_log(path: Path) -> list[dict[str, object]]:
    """The changes that were made to a label file, oldest first; damaged lines are skipped."""
    if not path.is_file():
        return []
    found = []
    for line in read_text(path).splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("id"), str):
            found.append(record)
    return found


def add_to_log(path: Path, records: Sequence[Mapping[str, object]]) -> None:
    """Append changes to a log; the file is replaced as a whole."""
    before = path.read_bytes() if path.is_file() else b""
    lines = "".join(json.dumps(dict(one), ensure_ascii=True) + "\n" for one in records)
    replace_content(path, before + lines.encode())


def replace_content(path: Path, content: bytes) -> None:
    """Replace a file of the user completely or not at all; it keeps its mode."""
    with store_errors(path, "SOURCE"):
        mode = path.stat().st_mode & 0o777 if path.exists() else users_file_mode()
        with replace_atomically(path.resolve(), mode) as temporary:
            temporary.write_bytes(content)


@contextmanager
def undone_on_error(*paths: Path) -> Iterator[None]:
    """Give files their content back, or remove new ones, if the block ends with any error or Ctrl-C."""
    before = {path: path.read_bytes() if path.is_file() else None for path in paths}
    try:
        yield
    except BaseException:
        for path, content in before.items():
            is_there = path.is_file()
            if content is None and is_there:
                path.resolve().unlink()
            elif content is not None and not (is_there and path.read_bytes() == content):
                replace_content(path, content)
        raise


def _edit_entries(source: ImageFolder, ids: list[str], new: Mapping[str, Labels]) -> bytes:
    """Change the entries of a label file of a folder; items without an entry get one at the end."""
    part, separator = source.label_parts[0], source.options.label_separator
    names = source.resolver(ids, part, read_labels(part.path, separator))
    rows = _CsvRows(part.path)
    has_header, name_at, labels_at = label_positions(rows.first, part.path, separator)
    left = dict(new)
    for row in rows.data(has_header):
        found = names.resolve(row.cell(name_at))
        if found is not None and found in new:
            left.pop(found, None)
            row.put(labels_at, separator.join(new[found]))
    width = len(rows.first)
    for name, labels in left.items():
        cells = [""] * width
        cells[name_at], cells[labels_at] = name, separator.join(labels)
        rows.append(cells)
    return rows.content()


def _edit_table(path: Path, new: Mapping[str, Labels], separator: str) -> bytes:
    """Change the rows of a table of ids and labels joined by a separator."""
    rows = _CsvRows(path)
    header = [cell.strip().lower() for cell in rows.first]
    title = next((name for name in ("labels", "label", "class") if name in header), None)
    if "id" not in header or title is None:
        raise SourceError(
            f"{path} has the columns {list_names(header)}; labels can be changed in a table with the columns "
            "id and labels. Name another file with --labels."
        )
    name_at, labels_at, left = header.index("id"), header.index(title), dict(new)
    for row in rows.data(True):
        if (name := row.cell(name_at)) in new:
            left.pop(name, None)
            row.put(labels_at, separator.join(new[name]))
    for name, labels in left.items():
        cells = [""] * len(header)
        cells[name_at], cells[labels_at] = name, separator.join(labels)
        rows.append(cells)
    return rows.content()


def _edit_columns(
    path: Path,
    ids: Sequence[str],
    columns: Sequence[str],
    several: bool,
    new: Mapping[str, Labels],
    separator: str,
) -> bytes:
    """Change the label columns of a table with one row per item, in the order of `ids`."""
    rows = _CsvRows(path)
    header = [cell.strip() for cell in rows.first]
    places = {name.removeprefix(_LABEL_PREFIX): header.index(name) for name in columns}
    unknown = sorted({one for labels in new.values() for one in labels} - places.keys()) if several else []
    if unknown:
        raise SourceError(
            f"{path} has no column for the label {quote(unknown[0])}. Add a column "
            f"{quote(_LABEL_PREFIX + unknown[0])} with 0 and 1, or leave the label out."
        )
    data = list(rows.data(True))
    if len(data) != len(ids):
        raise SourceError(
            f"{path} has {len(data)} rows for {len(ids)} items; it changed while it was read. Try again."
        )
    for name, row in zip(ids, data, strict=True):
        if name not in new:
            continue
        if several:
            for label, place in places.items():
                row.put(place, "1" if label in new[name] else "0")
        else:
            row.put(header.index(columns[0]), separator.join(new[name]))
    return rows.content()


class _CsvRow:
    """One row of a CSV file: the text of its lines, and its cells once one of them changes."""

    def __init__(self, text: str, cells: list[str]) -> None:
        self.text, self.cells, self.is_changed = text, cells, False

    def cell(self, place: int) -> str:
        from storage.csv_cells import unguard_cell

        return unguard_cell(self.cells[place]) if place < len(self.cells) else ""

    def put(self, place: int, value: str) -> None:
        self.cells += [""] * (place + 1 - len(self.cells))
        if self.cell(place) != value:
            self.cells[place], self.is_changed = guard_cell(value), True


class _CsvRows:
    """A CSV file as rows that can be changed; the others keep their text."""

    def __init__(self, path: Path) -> None:
        self._has_mark = path.read_bytes()[:3] == b"\xef\xbb\xbf"
        text = read_text(path)
        lines = io.StringIO(text, newline="").readlines()
        self._delimiter = guess_delimiter(text.partition("\n")[0])
        self._end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
        self._rows: list[_CsvRow] = []
        reader, begun = csv.reader(lines, delimiter=self._delimiter), 0
        for cells in reader:
            self._rows.append(_CsvRow("".join(lines[begun : reader.line_num]), cells))
            begun = reader.line_num
        if not self._filled():
            raise SourceError(f"{path} is empty. Give a file with labels.")

    def _filled(self) -> list[_CsvRow]:
        return [row for row in self._rows if any(cell.strip() for cell in row.cells)]

    @property
    def first(self) -> list[str]:
        """Cells of the first row that is not empty."""
        return self._filled()[0].cells

    def data(self, has_header: bool) -> Iterator[_CsvRow]:
        """The rows after the header."""
        yield from self._filled()[1 if has_header else 0 :]

    def append(self, cells: Sequence[str]) -> None:
        """Add a row at the end."""
        if self._rows and not self._rows[-1].text.endswith(("\n", "\r")):
            self._rows[-1].text += self._end
        row = _CsvRow("", [guard_cell(cell) for cell in cells])
        row.is_changed = True
        self._rows.append(row)

    def content(self) -> bytes:
        """The bytes of the file."""
        target = io.StringIO(newline="")
        writer = csv.writer(target, delimiter=self._delimiter, lineterminator=self._end)
        for row in self._rows:
            if row.is_changed:
                writer.writerow(row.cells)
            else:
                target.write(row.text)
        return (b"\xef\xbb\xbf" if self._has_mark else b"") + target.getvalue().encode()
