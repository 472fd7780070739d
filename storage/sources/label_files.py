"""Tables with the labels of images: labels.csv, metadata.csv/.jsonl/.parquet, also with nested objects."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from storage.csv_cells import unguard_cell
from storage.errors import SourceError
from storage.limits import ITEM_BYTES, check_memory
from storage.quoting import count_of, list_names, quote, shorten
from storage.sources.base import LONGEST_NAME, Note, check_texts
from storage.sources.class_names import ClassNames, find_class_names, names_in_schema
from storage.sources.columns import (
    CSV_SUFFIXES,
    cell_text,
    column_names,
    column_values,
    guess_delimiter,
    read_columns,
)
from storage.sources.label_entries import LabelEntry, LabelFile, check_file_name
from storage.sources.media import is_media_name
from storage.sources.numbers import is_whole
from storage.sources.text_file import LONGEST_LINE, read_text

if TYPE_CHECKING:
    import pyarrow as pa

LABEL_FILE_NAMES = tuple(
    f"{stem}{suffix}" for stem in ("labels", "metadata") for suffix in (*CSV_SUFFIXES, ".jsonl", ".parquet")
)
NAME_COLUMNS = ("filename", "file_name")
ID_COLUMN = "id"
# Objects that were detected in an image, with the members that may contain their categories.
OBJECTS = "objects"
_CATEGORIES = ("categories", "category", "category_id", "labels", "label", "classes", "class")
LABEL_COLUMNS = ("labels", "label", OBJECTS)
_WANTED = (*NAME_COLUMNS, ID_COLUMN, *LABEL_COLUMNS, "split")
_EXPECTED = (
    "Expected: columns filename (or file_name) and labels (or label, or objects with categories), or two "
    "columns, the name of the file and its labels joined by {separator!r}."
)


def is_label_file_name(name: str) -> bool:
    """Whether a file name is that of a label file."""
    return name.lower() in LABEL_FILE_NAMES


def read_label_file(path: Path, separator: str, name_files: Sequence[Path] = ()) -> LabelFile:
    """Read a label file.

    Parameters
    ----------
    path : Path
        A .csv or .tsv file with or without header, a .jsonl or a .parquet file.
    separator : str
        Separates the labels of a cell.
    name_files : sequence of Path
        Files that may name the classes, if the labels are numbers (see `class_name_files`).
    """
    suffix = path.suffix.lower()
    if suffix in CSV_SUFFIXES:
        return _name_classes(_read_csv(path, separator), find_class_names(name_files), path)
    if suffix == ".jsonl":
        return _name_classes(_read_jsonl(path, separator), find_class_names(name_files), path)
    if suffix == ".parquet":
        found, names = _read_parquet(path, separator)
        return _name_classes(found, {**find_class_names(name_files), **names}, path)
    raise SourceError(f"{path} is not a label file; supported: {', '.join(LABEL_FILE_NAMES)}.")


def _name_classes(found: LabelFile, known: ClassNames, path: Path) -> LabelFile:
    """Replace the numbers of classes by their names; a number without a name stays as it is."""
    names = next((known[column] for column in (*LABEL_COLUMNS, *_CATEGORIES) if column in known), None)
    if not names:
        return found
    entries, notes = [], list(found.notes)
    for entry in found.entries:
        labels = entry.labels and tuple(dict.fromkeys(names.get(one, one) for one in entry.labels))
        for one in entry.labels or ():
            if is_whole(one) and one not in names:
                text = f"class {quote(one)} is not among the {len(names)} classes"
                notes.append(Note(path.name, entry.row, text))
        entries.append(replace(entry, labels=labels))
    return replace(found, entries=entries, notes=notes)


def label_positions(first: Sequence[str], path: Path, separator: str) -> tuple[bool, int, int]:
    """Whether the first row of a CSV label file is a header, and the positions of file names and labels."""
    if is_media_name(unguard_cell(first[0].strip())):
        return False, 0, 1
    columns = _choose_columns([cell.strip().lower() for cell in first], path, separator)
    return True, columns.name, columns.labels


def _read_csv(path: Path, separator: str) -> LabelFile:
    rows = _csv_rows(path)
    first = next(rows, None)
    if first is None:
        raise SourceError(f"{path} is empty. {_EXPECTED.format(separator=separator)}")
    if is_media_name(unguard_cell(first[1][0].strip())):
        width, columns = 2, _Columns(0, 1, None, "")
        rows = chain([first], rows)
    else:
        header = [cell.strip().lower() for cell in first[1]]
        width, columns = len(header), _choose_columns(header, path, separator)
    entries = []
    for line, row in rows:
        if len(row) > width:
            raise SourceError(
                f"{path}, line {line}: {len(row)} cells, expected {width}. Join the labels of a file "
                f"by {separator!r}, and quote names that contain the delimiter."
            )
        entries.append(_csv_entry(line, row, columns, path, separator))
    return _label_file(entries, columns)


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row that is not empty."""
    text = _read_lines(path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=guess_delimiter(text.partition("\n")[0]))
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise SourceError(f"{path}, line {reader.line_num}: {error}. Fix the line.") from error


def _read_lines(path: Path) -> str:
    """Read a file with one line per item, if their number is plausible."""
    text = read_text(path)
    lines = max(text.count("\n"), text.count("\r"))
    check_memory(2 * lines * ITEM_BYTES, f"{path}: a file of {lines:,} lines", len(text))
    return text


@dataclass(frozen=True)
class _Columns:
    """Positions of the relevant columns, and the name of the label column."""

    name: int
    labels: int
    split: int | None
    title: str


def _name_column(names: Container[str], title: str | None) -> str | None:
    """The column with the names of the files; `id` beside labels, as `labelscape annotate` writes them."""
    found = next((column for column in NAME_COLUMNS if column in names), None)
    return found or (ID_COLUMN if title and ID_COLUMN in names else None)


def _choose_columns(header: Sequence[str], path: Path, separator: str) -> _Columns:
    title = next((column for column in LABEL_COLUMNS if column in header), None)
    name = _name_column(header, title)
    split = header.index("split") if "split" in header else None
    if name is not None and title is not None:
        return _Columns(header.index(name), header.index(title), split, title)
    if len(header) == 2:
        # One of the two columns may have its usual name, in either position.
        first = header.index(name) if name else 1 - header.index(title) if title else 0
        return _Columns(first, 1 - first, None, title or "")
    raise SourceError(f"{path} has the columns {list_names(header)}. {_EXPECTED.format(separator=separator)}")


def _csv_entry(line: int, row: list[str], columns: _Columns, path: Path, separator: str) -> LabelEntry:
    def cell(position: int | None) -> str:
        return unguard_cell(row[position]) if position is not None and position < len(row) else ""

    return _entry(cell(columns.name), cell(columns.labels), line, cell(columns.split), path, separator)


def _read_jsonl(path: Path, separator: str) -> LabelFile:
    return _from_records(json_records(path), path, separator)


def json_records(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """The line number and the object of each line of a JSONL file."""
    for line, text in enumerate(io.StringIO(_read_lines(path), newline="\n"), start=1):
        if not text.strip():
            continue
        if len(text) > LONGEST_LINE:
            raise SourceError(
                f"{path}, line {line} has {len(text):,} characters; at most {LONGEST_LINE:,} are allowed. "
                "Write one object per line."
            )
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SourceError(
                f"{path}, line {line}: not JSON ({shorten(str(error))}). Write one object per line."
            ) from error
        if not isinstance(record, dict):
            found = quote(text.strip(), 40)
            raise SourceError(f"{path}, line {line}: {found} found; write one JSON object per line.")
        yield line, record


def _read_parquet(path: Path, separator: str) -> tuple[LabelFile, ClassNames]:
    found = [name for name in column_names(path) if name in _WANTED]
    _choose_columns(found if len(found) > 1 else [*column_names(path), ""], path, separator)
    table = read_columns(path, lambda name: name in _WANTED, lambda name: False)
    columns = [
        column_values(_categories_only(table.column(name)) if name == OBJECTS else table.column(name))
        for name in table.column_names
    ]
    rows = (dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True))
    names = names_in_schema(table.schema.metadata)
    return _from_records(enumerate(rows, start=1), path, separator), names


def _categories_only(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The categories of a column of objects, so that boxes and masks do not become Python objects."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    def member(kind: pa.DataType) -> str | None:
        return next((name for name in _CATEGORIES if kind.get_field_index(name) >= 0), None)

    if types.is_struct(column.type) and (name := member(column.type)):
        return pc.struct_field(column, name)
    inner = column.type.value_type if types.is_list(column.type) else None
    if inner is None or not types.is_struct(inner) or not (name := member(inner)):
        return column
    chunks = [
        pa.ListArray.from_arrays(chunk.offsets, pc.struct_field(chunk.values, name), mask=chunk.is_null())
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.list_(inner.field(name).type))


def _from_records(
    records: Iterable[tuple[int, Mapping[str, object]]], path: Path, separator: str
) -> LabelFile:
    keys: set[str] = set()
    kept = []
    for row, record in records:
        if len(keys) < 100:  # the others are only shown in a message
            keys.update(islice(record, 100))
        kept.append((row, {key: record[key] for key in _WANTED if key in record}))
    keys.update(key for _, record in kept for key in record)
    title = next((column for column in LABEL_COLUMNS if column in keys), None)
    name = _name_column(keys, title)
    if name is None or title is None:
        found = list_names(sorted(keys))
        raise SourceError(f"{path} has the columns {found}. {_EXPECTED.format(separator=separator)}")
    columns = _Columns(0, 1, 2 if "split" in keys else None, title)
    values = [
        _categories(record.get(title), f"{path}, line {row}") if title == OBJECTS else record.get(title)
        for row, record in kept
    ]
    entries = [
        _entry(record.get(name), value, row, record.get("split"), path, separator)
        for (row, record), value in zip(kept, values, strict=True)
    ]
    if title == OBJECTS:  # an image without objects has no label
        pairs = zip(entries, values, strict=True)
        entries = [replace(entry, labels=()) if value == [] else entry for entry, value in pairs]
    # Lists mean multi-label data even if each contains one label.
    listed = title == OBJECTS or any(isinstance(value, list) for value in values)
    return replace(_label_file(entries, columns, several=listed), remarks=_spaces(values, path))


def _categories(objects: object, where: str) -> object:
    """The categories of the objects of one image: an object with lists, or a list of objects."""
    if objects is None:
        return None
    found = objects if isinstance(objects, list) else [objects]
    labels: list[object] = []
    for one in found:
        if not isinstance(one, dict):
            labels.append(one)  # the categories themselves, in a Parquet file
            continue
        name = next((name for name in _CATEGORIES if name in one), None)
        if name is None:
            raise SourceError(
                f"{where}: objects have the members {list_names(one)}; expected one of "
                f"{', '.join(_CATEGORIES)}."
            )
        labels += one[name] if isinstance(one[name], list) else [one[name]]
    return labels


def _spaces(values: Sequence[object], path: Path) -> list[Note]:
    """A note if labels are written with spaces around them, which do not count."""
    parts = (part for value in values for part in (value if isinstance(value, list) else [value]))
    spaced = [part for part in parts if isinstance(part, str) and part != part.strip()]
    if not spaced:
        return []
    names = list_names(map(quote, dict.fromkeys(spaced)), 5)
    found = count_of(len(spaced), "label has spaces around it", "labels have spaces around them")
    text = f"{found}, which do not count: {names}"
    return [Note(path.name, None, text)]


def _label_file(entries: list[LabelEntry], columns: _Columns, several: bool = False) -> LabelFile:
    single = not several and columns.title != "labels"
    single = single and all(entry.labels is None or len(entry.labels) <= 1 for entry in entries)
    return LabelFile(entries, single, columns.split is not None)


def _entry(name: object, labels: object, row: int, split: object, path: Path, separator: str) -> LabelEntry:
    where = f"{path}, line {row}"
    found = split_labels(labels, separator, where)
    return LabelEntry(check_file_name(name, where), found or None, row, cell_text(split) or "")


def split_labels(value: object, separator: str, where: str) -> tuple[str, ...]:
    """The labels in a cell: a text, a list or a single value."""
    parts: list[object]
    if isinstance(value, str):
        parts = list(value.split(separator))
    elif isinstance(value, list):
        parts = value
    else:
        parts = [value]
    if any(isinstance(part, list | dict) for part in parts):
        raise SourceError(f"{where}: the labels are nested; expected text or a list of texts.")
    names = tuple(dict.fromkeys(name for part in parts if (name := cell_text(part)) is not None))
    check_texts(names, f"{where}: the label", LONGEST_NAME)
    return names
