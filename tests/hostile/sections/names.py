"""Names of files, labels, folders and outputs that a terminal, a shell, CSV or a spreadsheet may misread."""

import csv
from collections.abc import Iterator
from pathlib import Path

from tests.hostile.case import SKIPPED, SURVIVED, Case, Place, run_until, settings
from tests.hostile.samples import LABELS, encode, picture, pictures, write_csv
from tests.hostile.templates import copy_model_home, train_model

INGEST = run_until("ingest")
# Names without "/" and NUL, at most 250 bytes with their ending.
NAMES: dict[str, str] = {
    "newline": "a\nb",
    "carriage return": "a\rb",
    "tab": "a\tb",
    "escape": "\x1b[31mred\x1b[0m",
    "clear screen": "\x1b[2J\x1b[H",
    "window title": "\x1b]0;owned\x07",
    "device attributes": "\x1b[c\x05",
    "bell": "\a\a\a",
    "backspaces": "good\b\b\b\bevil",
    "delete": "a\x7fb",
    "c1 control": "a\x9b31mb",
    "next line": "a\x85b",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "right-to-left override": "a\u202egnp.exe",
    "isolate": "a\u2066b\u2069",
    "right-to-left mark": "a\u200fb",
    "hebrew": "שלום",
    "arabic": "مرحبا",
    "chinese": "图片",
    "emoji": "👩‍👩‍👧‍👦",
    "combining marks": "a" + "\u0301" * 40,
    "decomposed": "e\u0301",
    "composed": "\u00e9",
    "zero width": "a\u200bb\ufeffc",
    "byte-order mark": "\ufeffa",
    "non-character": "a\ufffeb\uffff",
    "private use": "\ue000\uf8ff",
    "beyond the first plane": "\U0001d400\U0010ffff",
    "leading dash": "-rf",
    "double dash": "--home",
    "leading space": " a",
    "trailing space": "a ",
    "only spaces": "   ",
    "dots": "...",
    "leading tilde": "~root",
    "variable": "$HOME",
    "command": "$(touch owned)`touch owned`;touch owned|touch owned&",
    "single quote": "it's",
    "double quote": 'a"b',
    "backslash": "a\\b\\",
    "comma": "a,b",
    "semicolon": "a;b",
    "percent": "%s%n%x{0}{name}",
    "template": "{{7*7}}{%raw%}${7*7}",
    "markup": "<script>alert(1)</script>".replace("/", "_"),
    "image markup": "<img src=x onerror=alert(1)>",
    "entity": "&lt;&amp;",
    "rich markup": "[bold red]x[_bold red]",
    "glob": "*?[a-z]",
    "hash": "#a",
    "question mark": "a?b=c",
    "equals": "a=b",
    "formula": "=1+1",
    "formula with command": "=cmd|' _C calc'!A0",
    "hyperlink": '=HYPERLINK("http:evil","x")',
    "plus": "+1+1",
    "minus formula": "-1+1",
    "at": "@SUM(A1)",
    "tab formula": "\t=1+1",
    "carriage return formula": "\r=1+1",
    "full-width equals": "＝1+1",
    "number": "1e400",
    "integer of many digits": "9" * 200,
    "nan": "nan",
    "null": "null",
    "none": "None",
    "true": "True",
    "windows device": "CON",
    "double dot": "..a",
    "long": "x" * 240,
    "long in bytes": "ü" * 120,
}
SURROGATES = {
    "latin-1 byte": b"caf\xe9",
    "lone bytes": b"\xff\xfe\x80",
    "utf-8 cut": "ü".encode()[:1],
    "overlong": b"\xc0\xaf",
}
FORMULAS = [name for name in NAMES if NAMES[name][:1] in "=+-@\t\r"]


def file_name(title: str, text: str) -> Case:
    """A good picture with a hostile name, listed in the label file."""

    def make(place: Place) -> None:
        pictures(place.source, {f"{text}.png": "red"})
        (place.source / f"{text}.png").write_bytes(encode(picture(5), "PNG"))

    return Case(
        f"file: {title}", make, INGEST, expect=f"{SURVIVED}|{SKIPPED}", items=4 if text.startswith(".") else 5
    )


def unreadable_name(title: str, text: str) -> Case:
    """A bad picture with a hostile name, which the output must show without its control characters."""

    def make(place: Place) -> None:
        pictures(place.source)
        (place.source / f"{text}.png").write_bytes(b"no picture")

    return Case(f"unreadable file: {title}", make, run_until("features"), expect=SKIPPED)


def label_name(title: str, text: str) -> Case:
    """A hostile label."""

    def make(place: Place) -> None:
        pictures(place.source)
        names = (f"p{number}.png" for number in range(4))
        labels = [label.replace("red", text) for label in LABELS]
        write_csv(place.source / "labels.csv", [("filename", "labels"), *zip(names, labels, strict=True)])

    # A name of separators or spaces is no name; then one label is left, and the run says so.
    return Case(f"label: {title}", make, INGEST, expect=f"{SURVIVED}|refused", says=(), silent=())


def missing_entry(title: str, text: str) -> Case:
    """A label file that names a file which does not exist; strict makes it an error that shows the name."""

    def make(place: Place) -> None:
        pictures(place.source, {f"{text}.png": "red"})

    return Case(
        f"missing file: {title}", make, (*INGEST, *settings("source.strict=true")), says=("labels.csv",)
    )


def class_folder(title: str, text: str) -> Case:
    """Sub-folders as classes, one of them with a hostile name."""

    def make(place: Place) -> None:
        for number, name in enumerate((text, "other")):
            (place.source / name).mkdir(parents=True)
            for k in range(2):
                (place.source / name / f"{k}.png").write_bytes(encode(picture(number * 2 + k), "PNG"))

    return Case(f"folder: {title}", make, INGEST, expect=f"{SURVIVED}|{SKIPPED}|refused")


def raw_bytes(title: str, name: bytes) -> Case:
    """A file name that is not UTF-8: skipped and listed."""

    def make(place: Place) -> None:
        pictures(place.source)
        (Path(str(place.source)) / (name + b".png").decode("utf-8", "surrogateescape")).write_bytes(
            encode(picture(5), "PNG")
        )

    return Case(f"file: {title}", make, INGEST, expect=SKIPPED, says=("UTF-8",), items=4)


def source_name(title: str, text: str) -> Case:
    """A source with a hostile path."""

    def make(place: Place) -> None:
        pictures(place.folder / text)

    command = ("run", f"{{here}}/{text}", *INGEST[2:])
    return Case(f"source: {title}", make, command, expect=SURVIVED, items=4)


def neutral(place: Place, output: str) -> str | None:
    """No cell of the written CSV file begins like a formula, unless it is a number."""
    with (place.folder / "out.csv").open(encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    bad = [cell for cell in cells if cell[:1] in set("=+-@\t\r") and not _is_number(cell)]
    return f"cells that a spreadsheet executes: {bad[:3]!r}" if bad else None


def _is_number(cell: str) -> bool:
    try:
        return float(cell) is not None
    except ValueError:
        return False


def annotated(title: str, text: str) -> Case:
    """Annotations of a file with a hostile name, written as CSV."""

    def make(place: Place) -> None:
        copy_model_home(place)
        place.source.mkdir()
        for number in range(2):
            (place.source / f"{text}{number}.png").write_bytes(encode(picture(number), "PNG"))

    command = ("annotate", "{source}", "--out", "{out}")
    return Case(f"annotate: {title}", make, command, expect=SURVIVED, check=neutral)


def prepare(shared: Path) -> None:
    """Train the model that annotates."""
    train_model(shared)


def cases() -> list[Case]:
    """The cases of this section."""
    return list(_cases())


def _cases() -> Iterator[Case]:
    for title, text in NAMES.items():
        yield file_name(title, text)
    for title in (
        "newline",
        "escape",
        "clear screen",
        "window title",
        "c1 control",
        "right-to-left override",
        "long",
    ):
        yield unreadable_name(title, NAMES[title])
        yield missing_entry(title, NAMES[title])
        yield class_folder(title, NAMES[title])
    for title in list(NAMES)[::2]:
        yield label_name(title, NAMES[title])
    for title, name in SURROGATES.items():
        yield raw_bytes(title, name)
    for title in (
        "newline",
        "escape",
        "emoji",
        "leading dash",
        "command",
        "percent",
        "glob",
        "single quote",
        "rich markup",
    ):
        yield source_name(title, NAMES[title])
    for title in FORMULAS:
        yield annotated(title, NAMES[title])
