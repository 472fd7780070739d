"""Tables: CSV and Parquet files with unusual types, contents, sizes and damage, and files of other kinds."""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tests.hostile.case import REFUSED, SURVIVED, Case, Place, run_until, settings
from tests.hostile.samples import flip, positions, table_text

WARM_UP = "ingest"
ANY = f"{REFUSED}|{SURVIVED}"
GOOD = table_text()
ROWS = 12
Content = Callable[[], bytes]


def one(
    name: str, content: str | bytes | Content, expect: str, *more: str, file: str = "t.csv", **options: Any
) -> Case:
    """A table given by its path."""

    def make(place: Place) -> None:
        place.source.mkdir()
        data = content() if callable(content) else content
        (place.source / file).write_bytes(data if isinstance(data, bytes) else data.encode())

    command = ("run", f"{{source}}/{file}", *run_until("ingest")[2:], *more)
    return Case(name, make, command, expect=expect, **options)


CELLS: dict[str, str] = {
    "1": SURVIVED,
    "-1.5e-3": SURVIVED,
    '"2"': SURVIVED,
    " 3": ANY,
    "1_0": REFUSED,
    "0x1F": REFUSED,
    "1e400": REFUSED,
    "1e39": REFUSED,
    "inf": REFUSED,
    "-inf": REFUSED,
    "nan": REFUSED,
    "": REFUSED,
    "NA": REFUSED,
    "null": REFUSED,
    "abc": REFUSED,
    "1,5": REFUSED,
    "1;5": REFUSED,
    "١": REFUSED,
    "１": REFUSED,
    "true": REFUSED,
    "=1+1": REFUSED,
    "\x1b[2J": REFUSED,
    "\0": REFUSED,
    "2026-11-17": REFUSED,
    "1" * 5000: REFUSED,
    "x" * 200_000: REFUSED,
    '"unclosed': REFUSED,
    '"a""b"': REFUSED,
}
CSV: dict[str, tuple[str, str]] = {
    "good": (GOOD, SURVIVED),
    "semicolons": (GOOD.replace(",", ";"), SURVIVED),
    "tabs": (GOOD.replace(",", "\t"), SURVIVED),
    "windows line ends": (GOOD.replace("\n", "\r\n"), SURVIVED),
    "old mac line ends": (GOOD.replace("\n", "\r"), ANY),
    "byte-order mark": ("\ufeff" + GOOD, SURVIVED),
    "empty": ("", REFUSED),
    "blank": ("\n\n\n", REFUSED),
    "only a header": (GOOD.splitlines()[0] + "\n", REFUSED),
    "no header": (GOOD.partition("\n")[2], REFUSED),
    "no features": (GOOD.replace("f0,f1,f2", "a,b,c"), ANY),
    "feature twice": (GOOD.replace("f1", "f0"), REFUSED),
    "class twice": (GOOD.replace("f2,class", "class,class"), REFUSED),
    "no class": (GOOD.replace("class", "kind"), REFUSED),
    "one class": (GOOD.replace(",b", ",a"), REFUSED),
    "no classes given": (GOOD.replace(",b", ",").replace(",a", ","), REFUSED),
    "too many cells": (GOOD + "1,2,3,a,5\n", REFUSED),
    "too few cells": (GOOD + "1,2\n", REFUSED),
    "blank lines": (GOOD.replace("\n", "\n\n"), SURVIVED),
    "trailing commas": (GOOD.replace("\n", ",\n"), ANY),
    "one row": ("\n".join(GOOD.splitlines()[:2]) + "\n", REFUSED),
    "two rows": ("\n".join(GOOD.splitlines()[:3]) + "\n", SURVIVED),
    "feature number of 5,000 digits": (GOOD.replace("f2", "f" + "9" * 5000), ANY),
    "feature with arabic number": (GOOD.replace("f2", "f٢"), ANY),
    "header with escapes": ("\x1b[2J,\x1b]0;x\a\n1,2\n", REFUSED),
    "header of 1 MB": ("h" * 1_000_000 + "\n1\n", REFUSED),
    "20,000 columns": (",".join(f"x{k}" for k in range(20_000)) + "\n", REFUSED),
    "20,000 features": (
        ",".join([*(f"f{k}" for k in range(20_000)), "class"])
        + "\n"
        + ("1," * 20_000 + "a\n") * 3
        + "2," * 20_000
        + "b\n",
        ANY,
    ),
    "mixed label columns": ("f0,label:a,class\n1,0,x\n2,1,y\n", REFUSED),
    "label columns": ("f0,label:a,label:b\n1,0,1\n2,1,0\n3,1,1\n", SURVIVED),
    "label column of 2": ("f0,label:a,label:b\n1,0,2\n2,1,0\n", REFUSED),
    "label column of text": ("f0,label:a,label:b\n1,yes,1\n2,no,0\n", REFUSED),
    "label column partly empty": ("f0,label:a,label:b\n1,,1\n2,1,0\n", REFUSED),
    "label column without name": ("f0,label:,label:b\n1,0,1\n2,1,0\n", ANY),
    "repeated id": ("id,f0,class\nx,1,a\nx,2,b\n", REFUSED),
    "empty id": ("id,f0,class\n,1,a\nx,2,b\n", REFUSED),
    "ids with escapes": ("id,f0,class\n\x1b[2J,1,a\n\x1b[2J,2,b\n", REFUSED),
    "ids with formulas": ("id,f0,class\n=1+1,1,a\n@x,2,b\n", SURVIVED),
    "id of 1 MB": ("id,f0,class\n" + "i" * 1_000_000 + ",1,a\n" + "i" * 1_000_000 + ",2,b\n", REFUSED),
    "classes with escapes": ("f0,class\n1,\x1b[2J\n2,b\n3,b\n", REFUSED),
    "class of 1 MB": ("f0,class\n1," + "c" * 1_000_000 + "\n2,b\n3,b\n", ANY),
    "unbalanced quote": (GOOD + '1,"2,3,a\n', REFUSED),
    "quoted line end": (GOOD + '1,2,3,"a\nb"\n', ANY),
    "constant feature": ("f0,class\n" + "1,a\n1,b\n" * 5, SURVIVED),
    "only a split": ("f0,class,split\n1,a,train\n2,b,=1+1\n", SURVIVED),
}
CSV_BYTES: dict[str, tuple[bytes | Content, str]] = {
    "utf-16": (GOOD.encode("utf-16"), REFUSED),
    "latin-1 class": (GOOD.replace(",a", ",\u00e9").encode("latin-1"), REFUSED),
    "latin-1 header": (GOOD.replace("f2", "\u00e9").encode("latin-1"), REFUSED),
    "nul bytes": (bytes(5000), REFUSED),
    "binary": (bytes(range(256)) * 20, REFUSED),
    "line of 30 MB": (lambda: b"f0,class\n" + b"1" * 30_000_000, REFUSED),
    "header of 30 MB": (lambda: b"f0," * 10_000_000, REFUSED),
    "parquet named csv": (lambda: parquet({"f0": [1.0, 2.0], "class": ["a", "b"]}), REFUSED),
}


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    """A Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = pa.BufferOutputStream()
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), target, **options)
    return bytes(target.getvalue())


def typed(name: str) -> Content:
    """A table whose feature f0 has a type of Arrow."""

    def write() -> bytes:
        import pyarrow as pa

        numbers = list(range(ROWS))
        decimal = {"decimal128": pa.decimal128(30, 2), "decimal256": pa.decimal256(50, 2)}
        nested = {
            "list": pa.array([[1.0]] * ROWS),
            "fixed size list": pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float32(), 2)),
            "struct": pa.array([{"x": 1.0}] * ROWS),
            "map": pa.array([[("k", 1.0)]] * ROWS, pa.map_(pa.string(), pa.float64())),
            "null": pa.nulls(ROWS),
            "bool": pa.array([k % 2 == 0 for k in numbers]),
            "string": pa.array(["x"] * ROWS),
            "large_string": pa.array(["x"] * ROWS, pa.large_string()),
            "binary": pa.array([b"\xff"] * ROWS),
            "dictionary": pa.array(["x", "y"] * (ROWS // 2)).dictionary_encode(),
            "numeric dictionary": pa.array([1.0, 2.0] * (ROWS // 2)).dictionary_encode(),
            "float16": pa.array(np.arange(ROWS, dtype=np.float16)),
        }
        if name in nested:
            column = nested[name]
        elif name in decimal:
            column = pa.array(numbers).cast(decimal[name])
        elif name in ("date32", "timestamp", "duration", "time32"):
            kind = {"timestamp": pa.timestamp("us"), "duration": pa.duration("s"), "time32": pa.time32("s")}
            column = pa.array(numbers, pa.int32() if name in ("date32", "time32") else pa.int64())
            column = column.cast(kind.get(name, pa.date32()))
        else:
            column = pa.array(numbers).cast(getattr(pa, name)())
        return parquet(
            pa.table({"f0": column, "f1": [float(k) for k in numbers], "class": list("ab") * (ROWS // 2)})
        )

    return write


NUMERIC = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "bool",
)
TEXTUAL = (
    "string",
    "large_string",
    "binary",
    "date32",
    "timestamp",
    "duration",
    "time32",
    "list",
    "struct",
    "map",
    "dictionary",
)
OTHERS = ("null", "float16", "decimal128", "decimal256", "fixed size list", "numeric dictionary")


def columns(**changes: Any) -> dict[str, Any]:
    """Columns of a good table with changes; None removes a column."""
    found = {
        "f0": [float(k) for k in range(ROWS)],
        "f1": [float(k % 5) for k in range(ROWS)],
        "class": list("ab") * (ROWS // 2),
    }
    return {name: values for name, values in {**found, **changes}.items() if values is not None}


PARQUET: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "snappy": (columns(), {"compression": "snappy"}, SURVIVED),
    "gzip": (columns(), {"compression": "gzip"}, SURVIVED),
    "zstd": (columns(), {"compression": "zstd"}, SURVIVED),
    "brotli": (columns(), {"compression": "brotli"}, SURVIVED),
    "lz4": (columns(), {"compression": "lz4"}, SURVIVED),
    "version 1.0": (columns(), {"version": "1.0"}, SURVIVED),
    "data page 2": (columns(), {"data_page_version": "2.0"}, SURVIVED),
    "no dictionary": (columns(), {"use_dictionary": False}, SURVIVED),
    "row groups of one": (columns(), {"row_group_size": 1}, SURVIVED),
    "byte stream split": (columns(), {"use_dictionary": False, "use_byte_stream_split": ["f0"]}, SURVIVED),
    "nan": (columns(f0=[float("nan")] * ROWS), {}, REFUSED),
    "infinite": (columns(f0=[float("inf")] * ROWS), {}, REFUSED),
    "too large for 32 bits": (columns(f0=[1e300] * ROWS), {}, REFUSED),
    "null feature": (columns(f0=[None] * ROWS), {}, REFUSED),
    "null class": (columns(**{"class": [None] * ROWS}), {}, REFUSED),
    "some null classes": (columns(**{"class": ["a", "b", None, "a"] * 3}), {}, SURVIVED),
    "integer class": (columns(**{"class": [1, 2] * (ROWS // 2)}), {}, SURVIVED),
    "float class": (columns(**{"class": [1.0, 2.5] * (ROWS // 2)}), {}, SURVIVED),
    "list class": (columns(**{"class": [["a"]] * ROWS}), {}, ANY),
    "bytes class": (columns(**{"class": [b"\xff", b"b"] * (ROWS // 2)}), {}, SURVIVED),
    "no features": ({"class": list("ab") * (ROWS // 2)}, {}, REFUSED),
    "no class": (columns(**{"class": None}), {}, REFUSED),
    "no rows": ({"f0": np.zeros(0), "class": np.zeros(0, dtype="U1")}, {}, REFUSED),
    "no columns": ({}, {}, REFUSED),
    "hostile column name": (columns(**{"\x1b[2J": [1] * ROWS}), {}, SURVIVED),
    "column name of 1 MB": (columns(**{"n" * 1_000_000: [1] * ROWS}), {}, ANY),
    "5,000 ignored columns": (columns(**{f"x{k}": [1] * ROWS for k in range(5000)}), {}, ANY),
    "label columns": (
        {"f0": [1.0, 2.0, 3.0], "label:a": [1, 0, 1], "label:b": [True, True, False]},
        {},
        SURVIVED,
    ),
    "label column with nan": (
        {"f0": [1.0, 2.0, 3.0], "label:a": [1, 0, float("nan")], "label:b": [0, 1, 1]},
        {},
        REFUSED,
    ),
    "label column of lists": ({"f0": [1.0, 2.0], "label:a": [[1], [0]], "label:b": [0, 1]}, {}, REFUSED),
    "ids that are numbers": (columns(id=list(range(ROWS))), {}, SURVIVED),
    "ids that are null": (columns(id=[None] * ROWS), {}, REFUSED),
    "ids that repeat": (columns(id=["x"] * ROWS), {}, REFUSED),
    "ids that are lists": (columns(id=[[k] for k in range(ROWS)]), {}, ANY),
}


def twice() -> bytes:
    """Two columns with one name."""
    import pyarrow as pa

    return parquet(
        pa.Table.from_arrays([pa.array([1.0, 2.0])] * 2 + [pa.array(["a", "b"])], ["f0", "f0", "class"])
    )


def metadata(text: bytes) -> Content:
    """A table with feature names in its metadata."""

    def write() -> bytes:
        import pyarrow as pa

        return parquet(pa.table(columns()).replace_schema_metadata({b"feature_names": text}))

    return write


def footer(length: int) -> bytes:
    """A file whose footer claims a length."""
    return b"PAR1" + bytes(100) + struct.pack("<i", length) + b"PAR1"


def many_rows(rows: int, features: int) -> Content:
    """A small file with very many equal rows."""

    def write() -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        portion = 5_000_000
        table = pa.table({f"f{k}": np.zeros(portion, dtype=np.float32) for k in range(features)})
        target = pa.BufferOutputStream()
        with pq.ParquetWriter(target, table.schema, compression="zstd", use_dictionary=False) as writer:
            for _ in range(rows // portion):
                writer.write_table(table)
        return bytes(target.getvalue())

    return write


def long_text(characters: int) -> Content:
    """A small file with one enormous class name."""

    def write() -> bytes:
        return parquet({"f0": [1.0, 2.0], "class": ["x" * characters, "y"]}, compression="zstd")

    return write


def damaged() -> Iterator[Case]:
    """Parquet files cut and with one byte changed, and files that only begin like one."""
    good = parquet(columns(), compression="none")
    for percent in (0, 1, 5, 25, 50, 75, 90, 99):
        yield one(
            f"parquet cut to {percent} %", good[: len(good) * percent // 100], REFUSED, file="t.parquet"
        )
    for position in positions(7, len(good), 30):
        yield one(f"parquet flipped at {position}", flip(good, position, 0xFF), ANY, file="t.parquet")
    for title, data in {
        "only magic": b"PAR1PAR1",
        "footer of 0": footer(0),
        "footer of 2 GB": footer(0x7FFFFFFF),
        "footer of -1": footer(-1),
        "footer of garbage": b"PAR1" + b"\xff" * 100 + struct.pack("<i", 100) + b"PAR1",
        "footer of zeros": b"PAR1" + bytes(100) + struct.pack("<i", 100) + b"PAR1",
        "encrypted": b"PARE" + bytes(100) + struct.pack("<i", 90) + b"PARE",
        "nested structures in the footer": b"PAR1" + b"\x1c" * 100_000 + struct.pack("<i", 100_000) + b"PAR1",
        "lists in the footer": b"PAR1"
        + b"\x19\xfc\xff\xff\xff\xff\x07" * 10
        + struct.pack("<i", 70)
        + b"PAR1",
        "text": b"hello\n",
    }.items():
        yield one(f"parquet: {title}", data, REFUSED, file="t.parquet")


def bombs() -> Iterator[Case]:
    """Small files that become large in memory."""
    yield one("parquet of 400 million rows", many_rows(400_000_000, 1), REFUSED, file="t.parquet")
    yield one(
        "parquet of 30 million rows and 10 columns", many_rows(30_000_000, 10), REFUSED, file="t.parquet"
    )
    yield one("parquet text of 300 MB", long_text(300_000_000), ANY, file="t.parquet")


OTHER_FILES = {
    "t.feather": b"ARROW1\x00\x00" + bytes(200),
    "t.arrow": b"ARROW1\x00\x00" + bytes(200),
    "t.xlsx": b"PK\x03\x04" + bytes(200),
    "t.json": b'[{"f0": 1}]',
    "t.pkl": b"\x80\x04cposix\nsystem\n(S'touch owned'\ntR.",
    "t.joblib": b"\x80\x04cposix\nsystem\n",
    "t.h5": b"\x89HDF\r\n\x1a\n" + bytes(200),
    "t.mat": b"MATLAB 5.0 MAT-file" + bytes(200),
    "t.db": b"SQLite format 3\x00" + bytes(200),
    "t.csv.gz": b"\x1f\x8b\x08" + bytes(200),
    "t.zip": b"PK\x05\x06" + bytes(18),
    "t.tar": bytes(10240),
    "t.py": b"raise SystemExit\n",
    "t.txt": b"hello\n",
    "t": b"hello\n",
    "t.\x1b[2J": b"hello\n",
    "t.xml": b"<labels/>",
    "t.png": b"no picture",
}


def cases() -> list[Case]:
    """The cases of this section."""
    texts = [one(f"csv: {title}", text, expect) for title, (text, expect) in CSV.items()]
    cells = [
        one(f"csv cell {ascii(cell)[:24]}", GOOD + f"{cell},2,3,a\n", expect)
        for cell, expect in CELLS.items()
    ]
    raw = [one(f"csv: {title}", data, expect) for title, (data, expect) in CSV_BYTES.items()]
    kinds = {
        **dict.fromkeys(NUMERIC, SURVIVED),
        **dict.fromkeys(TEXTUAL, REFUSED),
        **dict.fromkeys(OTHERS, ANY),
    }
    types = [
        one(f"parquet type {kind}", typed(kind), expect, file="t.parquet") for kind, expect in kinds.items()
    ]
    tables = [
        one(f"parquet: {title}", partial(parquet, content, **options), expect, file="t.parquet")
        for title, (content, options, expect) in PARQUET.items()
    ]
    named = [
        one(
            f"parquet metadata: {ascii(text)[:30]}", metadata(text), f"{SURVIVED}|{REFUSED}", file="t.parquet"
        )
        for text in (b"", b"[]", b"not json", b"\xff", b'["a", 1]', b"[" * 100_000, b'["\\ud800", "b"]')
    ]
    others = [one(f"file {name!r}", data, REFUSED, file=name) for name, data in OTHER_FILES.items()]
    column = one("label column that is missing", GOOD, REFUSED, *settings("source.labels=\x1b[2Jgone"))
    twin = one("parquet: feature twice", twice, REFUSED, file="t.parquet")
    return [*texts, *cells, *raw, *types, *tables, *named, *damaged(), *bombs(), *others, column, twin]
