"""Label files: delimiters, encodings, quotes, sizes and contents that a reader may stumble over."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.hostile.case import REFUSED, SKIPPED, SURVIVED, Case, Place, run_until, settings
from tests.hostile.samples import pictures

INGEST = run_until("ingest")
WARM_UP = "ingest"
ANY = f"{REFUSED}|{SKIPPED}|{SURVIVED}"
BODY = "p0.png,red\np1.png,blue\np2.png,red|blue\np3.png,blue\n"
GOOD = "filename,labels\n" + BODY
DEEP = 100_000


def one(
    name: str,
    content: bytes | Callable[[], bytes],
    expect: str,
    *more: str,
    file: str = "labels.csv",
    **options: Any,
) -> Case:
    """Four good pictures with this label file."""

    def make(place: Place) -> None:
        pictures(place.source)
        (place.source / "labels.csv").unlink()
        (place.source / file).write_bytes(content() if callable(content) else content)

    return Case(name, make, (*INGEST, *more), expect=expect, **options)


# Content and expected class.
TEXTS: dict[str, tuple[str, str]] = {
    "as written by us": (GOOD, SURVIVED),
    "no header": (BODY, SURVIVED),
    "semicolons": (GOOD.replace(",", ";"), SURVIVED),
    "tabs": (GOOD.replace(",", "\t"), SURVIVED),
    "windows line ends": (GOOD.replace("\n", "\r\n"), SURVIVED),
    "old mac line ends": (GOOD.replace("\n", "\r"), f"{SURVIVED}|{REFUSED}"),
    "mixed line ends": (GOOD.replace("\n", "\r\n", 2), SURVIVED),
    "no last line end": (GOOD.rstrip("\n"), SURVIVED),
    "blank lines": (GOOD.replace("\n", "\n\n"), SURVIVED),
    "lines of spaces": (GOOD.replace("\n", "\n  \n"), SURVIVED),
    "lines of commas": (GOOD + ",\n,\n", SURVIVED),
    "spaces around cells": (GOOD.replace(",", " , "), SURVIVED),
    "capital header": (GOOD.replace("filename,labels", "FileName,Labels"), SURVIVED),
    "byte-order mark": ("\ufeff" + GOOD, SURVIVED),
    "two byte-order marks": ("\ufeff\ufeff" + GOOD, ANY),
    "quoted cells": (GOOD.replace("red", '"red"'), SURVIVED),
    "quoted delimiter": (GOOD.replace("red", '"re,d"'), SURVIVED),
    "quoted line end": (GOOD.replace("red", '"re\nd"'), REFUSED),
    "doubled quotes": (GOOD.replace("red", '"re""d"'), SURVIVED),
    "unbalanced quote": (GOOD.replace("red", '"red', 1), ANY),
    "quote at the end": (GOOD + '"', ANY),
    "quote inside": (GOOD.replace("red", 're"d'), SURVIVED),
    "empty file": ("", REFUSED),
    "only spaces": ("   \n  \n", REFUSED),
    "only a header": ("filename,labels\n", REFUSED),
    "header twice": ("filename,labels\n" + GOOD, ANY),
    "one column": ("filename\np0.png\n", REFUSED),
    "other columns": ("a,b,c\np0.png,red,x\n", REFUSED),
    "column twice": (
        GOOD.replace("filename,labels", "filename,labels,labels").replace("red\n", "red,blue\n"),
        ANY,
    ),
    "too many cells": (GOOD.replace("p1.png,blue", "p1.png,blue,red,green"), REFUSED),
    "too few cells": (GOOD.replace("p1.png,blue", "p1.png"), SURVIVED),
    "file twice": (GOOD + "p0.png,blue\n", REFUSED),
    "same line twice": (GOOD + "p0.png,red\n", SURVIVED),
    "unknown file": (GOOD + "gone.png,blue\n", SURVIVED),
    "unknown files only": ("filename,labels\nq.png,red\nr.png,blue\n", REFUSED),
    "absolute path": (GOOD + "/etc/passwd,blue\n", ANY),
    "path upward": (GOOD + "../../etc/passwd,blue\n", ANY),
    "path with dot": (GOOD.replace("p0.png", "./p0.png"), ANY),
    "empty name": (GOOD + ",blue\n", REFUSED),
    "no labels": ("filename,labels\np0.png,\np1.png,\n", REFUSED),
    "one label": (GOOD.replace("blue", "red"), REFUSED),
    "only separators": ("filename,labels\np0.png,|||\np1.png,|\n", REFUSED),
    "repeated label": (GOOD.replace("red|blue", "red|red|blue"), SURVIVED),
    "labels that differ in case": (GOOD.replace("blue", "Red"), SURVIVED),
    "labels that differ in spaces": (GOOD.replace("blue", "red "), REFUSED),
    "composed and decomposed": (GOOD.replace("red", "\u00e9").replace("blue", "e\u0301"), ANY),
    "formula labels": (GOOD.replace("red", "=1+1").replace("blue", "@x"), SURVIVED),
    "integer labels": (GOOD.replace("red", "1").replace("blue", "2"), SURVIVED),
    "integer labels of 5,000 digits": (GOOD.replace("red", "1" * 5000).replace("blue", "2"), ANY),
    "integer labels with underscores": (GOOD.replace("red", "1_0").replace("blue", "10"), SURVIVED),
    "arabic digits": (GOOD.replace("red", "١").replace("blue", "1"), SURVIVED),
    "nan labels": (GOOD.replace("red", "nan").replace("blue", "null"), SURVIVED),
    "nul byte": (GOOD.replace("red", "re\0d"), ANY),
    "nul bytes only": ("\0" * 1000, REFUSED),
    "escapes": (GOOD.replace("red", "\x1b[31mred\x1b[0m"), ANY),
    "escape in the header": ("\x1b[2Jfile,\x1b]0;x\a,more\n1,2,3\n", REFUSED),
    "escape in an unknown name": (GOOD + "\x1b[2J.png,red\n", ANY),
    "vertical tab": (GOOD.replace("red", "re\vd"), ANY),
    "form feed": (GOOD.replace("\n", "\f\n"), ANY),
    "unit separator": (GOOD.replace("|", "\x1f"), ANY),
    "line separator": (GOOD.replace("red", "re\u2028d"), SURVIVED),
    "next line": (GOOD.replace("red", "re\x85d"), ANY),
    "cell of 131,073 characters": (GOOD.replace("red", "r" * 131_073), ANY),
    "cell of 1 MB": (GOOD.replace("red", "r" * 1_000_000), ANY),
    "name of 1 MB": (GOOD + "n" * 1_000_000 + ".png,red\n", ANY),
    "header of 1 MB": ("h" * 1_000_000 + "\n" + BODY, ANY),
    "header of 100,000 columns": (",".join(f"c{k}" for k in range(100_000)) + "\n" + BODY, REFUSED),
    "line of 100,000 commas": (GOOD + "," * 100_000 + "\n", ANY),
    "label of 100,000 separators": (GOOD + "p9.png," + "|" * 100_000 + "\n", ANY),
    "json in csv": ('{"filename": "p0.png", "labels": ["red"]}\n', REFUSED),
    "xml in csv": ("<labels><label name='red'/></labels>\n", REFUSED),
    "comment lines": ("# made by hand\n" + GOOD, ANY),
    "sep line of excel": ("sep=,\n" + GOOD, ANY),
    "split column": ("filename,labels,split\np0.png,red,train\np1.png,blue,test\n", SURVIVED),
    "strange splits": ("filename,labels,split\np0.png,red,\x1b[2J\np1.png,blue,=1+1\n", ANY),
}
BYTES: dict[str, tuple[bytes, str]] = {
    "utf-16 with mark": (GOOD.encode("utf-16"), REFUSED),
    "utf-16 little endian": (GOOD.encode("utf-16-le"), REFUSED),
    "utf-16 big endian": (GOOD.encode("utf-16-be"), REFUSED),
    "utf-32": (GOOD.encode("utf-32"), REFUSED),
    "latin-1": (GOOD.replace("red", "r\u00e9d").encode("latin-1"), REFUSED),
    "utf-7": (GOOD.encode("utf-7"), ANY),
    "shift-jis": (GOOD.replace("red", "\u8d64").encode("shift-jis"), REFUSED),
    "overlong utf-8": (GOOD.encode().replace(b"red", b"\xc0\xaf"), REFUSED),
    "surrogate in utf-8": (GOOD.encode().replace(b"red", b"\xed\xa0\x80"), REFUSED),
    "truncated utf-8": (GOOD.encode() + b"\xe2\x82", REFUSED),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), REFUSED),
    "gzip": (b"\x1f\x8b\x08" + bytes(100), REFUSED),
    "sqlite": (b"SQLite format 3\x00" + bytes(100), REFUSED),
}


def record(**values: object) -> str:
    """One JSON line."""
    return json.dumps(values) + "\n"


LINES = "".join(record(file_name=f"p{k}.png", labels=["red"] if k % 2 else ["blue"]) for k in range(4))
JSON_LINES: dict[str, tuple[str | bytes, str]] = {
    "good": (LINES, SURVIVED),
    "strings": (LINES.replace("[", "").replace("]", ""), SURVIVED),
    "blank lines": (LINES.replace("\n", "\n\n"), SURVIVED),
    "windows line ends": (LINES.replace("\n", "\r\n"), SURVIVED),
    "byte-order mark": ("\ufeff" + LINES, SURVIVED),
    "line separator in a label": (LINES.replace("red", "r\u2028d"), SURVIVED),
    "empty": ("", REFUSED),
    "array": ("[1, 2]\n", REFUSED),
    "number": ("7\n", REFUSED),
    "string": ('"x"\n', REFUSED),
    "null": ("null\n", REFUSED),
    "not json": ("{'file_name': 'p0.png'}\n", REFUSED),
    "cut": (LINES[:-10], REFUSED),
    "two objects in a line": (LINES.replace("\n", ""), REFUSED),
    "repeated key": ('{"file_name": "p0.png", "file_name": "p1.png", "labels": "a"}\n' + LINES, ANY),
    "labels as an object": (record(file_name="p0.png", labels={"a": 1}) + LINES, REFUSED),
    "nested labels": (record(file_name="p0.png", labels=[["a"]]), REFUSED),
    "labels as a number": (
        record(file_name="p0.png", labels=1) + record(file_name="p1.png", labels=2),
        SURVIVED,
    ),
    "labels as true": (
        record(file_name="p0.png", labels=True) + record(file_name="p1.png", labels=False),
        ANY,
    ),
    "labels null": (LINES + record(file_name="p9.png", labels=None), ANY),
    "name null": (record(file_name=None, labels=["a"]), REFUSED),
    "name a list": (record(file_name=["p0.png"], labels=["a"]), REFUSED),
    "nan": ('{"file_name": "p0.png", "labels": NaN}\n' + LINES.replace("p0", "p4"), ANY),
    "infinity": ('{"file_name": "p0.png", "labels": [1e999]}\n' + LINES.replace("p0", "p4"), ANY),
    "integer of 5,000 digits": ('{"file_name": "p0.png", "labels": ' + "1" * 5000 + "}\n", REFUSED),
    "lone surrogate": ('{"file_name": "p0.png", "labels": ["\\ud800"]}\n' + LINES.replace("p0", "p4"), ANY),
    "lone surrogate in a name": ('{"file_name": "\\ud800.png", "labels": ["a"]}\n' + LINES, ANY),
    "escape in a label": (
        '{"file_name": "p0.png", "labels": ["\\u001b[2J"]}\n' + LINES.replace("p0", "p4"),
        ANY,
    ),
    "nul in a label": ('{"file_name": "p0.png", "labels": ["a\\u0000b"]}\n' + LINES.replace("p0", "p4"), ANY),
    "deep arrays": ('{"file_name": "p0.png", "labels": ' + "[" * DEEP + "]" * DEEP + "}\n", REFUSED),
    "deep objects": ('{"a":' * DEEP + "1" + "}" * DEEP + "\n", REFUSED),
    "deep arrays, unclosed": ("[" * DEEP, REFUSED),
    "key of 1 MB": ("{" + '"' + "k" * 1_000_000 + '": 1}\n', REFUSED),
    "latin-1": (LINES.replace("red", "r\u00e9d").encode("latin-1"), REFUSED),
    "utf-16": (LINES.encode("utf-16"), REFUSED),
}


def parquet(columns: dict[str, Any]) -> Callable[[], bytes]:
    """A Parquet label file."""

    def write() -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        target = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), target)
        return bytes(target.getvalue())

    return write


FILES = [f"p{k}.png" for k in range(4)]
PARQUET: dict[str, tuple[dict[str, Any], str]] = {
    "texts": ({"file_name": FILES, "label": ["a", "b", "a", "b"]}, SURVIVED),
    "lists": ({"file_name": FILES, "labels": [["a"], ["b"], ["a", "b"], []]}, SURVIVED),
    "integers": ({"file_name": FILES, "label": [1, 2, 1, 2]}, SURVIVED),
    "floats": ({"file_name": FILES, "label": [1.0, 2.5, float("nan"), float("inf")]}, ANY),
    "booleans": ({"file_name": FILES, "label": [True, False, True, None]}, ANY),
    "bytes": ({"file_name": FILES, "label": [b"a", b"\xff", b"a", b"b"]}, ANY),
    "structs": ({"file_name": FILES, "labels": [{"x": 1}] * 4}, REFUSED),
    "lists of lists": ({"file_name": FILES, "labels": [[["a"]]] * 4}, REFUSED),
    "lists of structs": ({"file_name": FILES, "labels": [[{"x": 1}]] * 4}, REFUSED),
    "nulls": ({"file_name": FILES, "labels": [None] * 4}, REFUSED),
    "names as bytes": ({"file_name": [b"p0.png"] * 4, "label": list("abab")}, REFUSED),
    "names as numbers": ({"file_name": [1, 2, 3, 4], "label": list("abab")}, REFUSED),
    "no rows": ({"file_name": FILES[:0], "label": FILES[:0]}, REFUSED),
    "other columns": ({"a": FILES, "b": FILES}, REFUSED),
}


def many() -> Iterator[Case]:
    """Many labels, many rows, many files."""

    def rows(count: int, per_row: int) -> bytes:
        names = ["|".join(f"label{(row + k) % count}" for k in range(per_row)) for row in range(4)]
        return ("filename,labels\n" + "".join(f"p{k}.png,{text}\n" for k, text in enumerate(names))).encode()

    yield one("5,000 labels", lambda: rows(5000, 1250), f"{SURVIVED}|{REFUSED}", seconds=60)
    yield one("50,000 labels", lambda: rows(50_000, 12_500), f"{SURVIVED}|{REFUSED}", seconds=60)
    yield one(
        "200,000 unknown files",
        lambda: (GOOD + "".join(f"q{k}.png,red\n" for k in range(200_000))).encode(),
        ANY,
    )
    yield one("20 MB line", lambda: GOOD.encode() + b"x" * 20_000_000, ANY)

    def several(place: Place) -> None:
        pictures(place.source)
        (place.source / "metadata.csv").write_text(GOOD, encoding="utf-8")

    yield Case("two label files", several, INGEST, says=("several label files",))

    def five_thousand(place: Place) -> None:
        pictures(place.source)
        labels = "|".join(f"l{k}" for k in range(5000))
        text = "filename,labels\n" + "".join(f"p{k}.png,{labels}|own{k}\n" for k in range(4))
        (place.source / "labels.csv").write_text(text, encoding="utf-8")

    correlate = run_until("correlation")
    yield Case(
        "5,000 labels and their correlation",
        five_thousand,
        correlate,
        expect=f"{SURVIVED}|{REFUSED}",
        seconds=60,
    )


def options() -> Iterator[Case]:
    """Settings that choose and drop labels."""
    content = GOOD.encode()
    for title, pair in {
        "separator that is a delimiter": "source.label_separator=,",
        "separator that is a letter": "source.label_separator=e",
        "separator that is a regular expression": "source.label_separator=.",
        "separator that is a null byte": "source.label_separator=\0",
    }.items():
        yield one(title, content, ANY, *settings(pair))
    for title, pair, words in (
        ("empty separator", "source.label_separator=''", "label_separator"),
        ("long separator", "source.label_separator='||'", "label_separator"),
        ("label file that is missing", "source.labels=gone.csv", "gone.csv"),
        ("label file that is a picture", "source.labels=p0.png", "p0.png"),
        ("label file with an escape", "source.labels=\x1b[2J", "labels"),
        ("dropped label that is unknown", 'source.drop_labels=["purple"]', "purple"),
        ("every label dropped", 'source.drop_labels=["red", "blue"]', "no label is left"),
        ("one label left", 'source.drop_labels=["red"]', "one label only"),
        ("too large min_label_count", "source.min_label_count=1000", "min_label_count"),
        ("negative min_label_count", "source.min_label_count=-1", "min_label_count"),
    ):
        yield one(title, content, REFUSED, *settings(pair), says=(words,))


def cases() -> list[Case]:
    """The cases of this section."""
    return [
        *(one(f"csv: {title}", text.encode(), expect) for title, (text, expect) in TEXTS.items()),
        *(one(f"csv: {title}", data, expect) for title, (data, expect) in BYTES.items()),
        *(
            one(
                f"jsonl: {title}",
                text if isinstance(text, bytes) else text.encode(),
                expect,
                file="metadata.jsonl",
            )
            for title, (text, expect) in JSON_LINES.items()
        ),
        *(
            one(f"parquet: {title}", parquet(columns), expect, file="metadata.parquet")
            for title, (columns, expect) in PARQUET.items()
        ),
        *many(),
        *options(),
    ]
