"""What the columns of a table contain, by its header or its first rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from storage.sources.columns import CSV_SUFFIXES, column_names, csv_schema, table_schema

if TYPE_CHECKING:
    import pyarrow as pa

# "flag": true and false; "vector": lists of numbers; "texts": lists of texts.
ColumnKind = Literal["number", "flag", "text", "vector", "texts", "date", "empty", "other"]
LABEL_PREFIX = "label:"
_FEATURE = re.compile(r"f[0-9]{1,9}")


def is_feature_name(name: str) -> bool:
    """Whether a column name is that of a feature by itself: f0, f1, ..."""
    return _FEATURE.fullmatch(name) is not None


def is_numeric_name(name: str) -> bool:
    """Whether a column must contain numbers by its name: f0, f1, ... and label:<name>."""
    return is_feature_name(name) or name.startswith(LABEL_PREFIX)


def column_kinds(path: Path) -> dict[str, ColumnKind]:
    """Kind of each column, in the order of the file."""
    if path.suffix.lower() not in CSV_SUFFIXES:
        column_names(path)  # refuses repeated names
        schema = table_schema(path)
        return {name: arrow_kind(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
    schema = csv_schema(path, is_numeric_name)
    found: dict[str, ColumnKind] = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        found[name] = "number" if is_numeric_name(name) else arrow_kind(kind)
    return found


def arrow_kind(kind: pa.DataType) -> ColumnKind:
    """Kind of an Arrow type."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return arrow_kind(kind.value_type)
    if types.is_boolean(kind):
        return "flag"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = arrow_kind(kind.value_type)
        return "vector" if inner in ("number", "flag") else "texts" if inner == "text" else "other"
    if types.is_temporal(kind):
        return "date"
    return "empty" if types.is_null(kind) else "other"
