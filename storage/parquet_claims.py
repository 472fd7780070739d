"""How much memory the columns of a Parquet file need, by its footer."""

from collections.abc import Mapping, Sequence
from typing import Any

# Bytes of one value. A text is dictionary-encoded: its position, and once its bytes.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 16}
_OTHER = 16
# A column of numbers is copied once, as float32.
_COPY = 4
# Texts of a row group are decoded in pages, so large files are not copied as a whole.
_MOST_COPIED = 10**9


def has_lists(file: Any, names: Sequence[str]) -> bool:
    """Whether one of the columns contains lists, so that it may have any number of values per row."""
    roots = set(names)
    return any(column.max_repetition_level and _root(column) in roots for column in file.schema)


def _root(column: Any) -> str:
    return str(column.path.partition(".")[0])


def claimed_bytes(
    file: Any, names: Sequence[str] | None = None, values: Mapping[str, int] | None = None
) -> int:
    """Estimate the bytes of some columns in memory; nothing is decompressed.

    Only numbers of rows and sizes of row groups are used: pyarrow aborts the process when the description of
    a column (`RowGroupMetaData.column`) is damaged.

    Parameters
    ----------
    file : pyarrow.parquet.ParquetFile
    names : sequence of str, optional
        The columns; all if None.
    values : mapping, optional
        Number of values of each column with lists, by its path (see `count_values`).
    """
    footer = file.metadata
    groups = [footer.row_group(k) for k in range(footer.num_row_groups)]
    rows = max(footer.num_rows, sum(group.num_rows for group in groups))
    chosen = None if names is None else set(names)
    needed, is_fixed, has_texts = 0, True, False
    for column in file.schema:
        if chosen is None or column.path in chosen or _root(column) in chosen:
            count = max(rows, (values or {}).get(column.path, 0))
            needed += count * (_WIDTHS.get(column.physical_type, _OTHER) + _COPY)
            has_texts |= column.physical_type == "BYTE_ARRAY"
            is_fixed &= column.max_repetition_level == 0
    # Texts and lists have the encoded size in addition; texts are copied twice while they are decoded.
    encoded = sum(max(group.total_byte_size, 0) for group in groups)
    copies = min(2 * encoded, _MOST_COPIED) if has_texts else 0
    return int(needed) + copies + (0 if is_fixed and not has_texts else encoded)
