"""ARFF files and the XML files that list their labels."""

from collections.abc import Iterator
from typing import Any

from tests.hostile.case import REFUSED, SURVIVED, Case, Place, run_until, settings

INGEST = run_until("ingest")
WARM_UP = "ingest"
ANY = f"{REFUSED}|{SURVIVED}"
HEAD = "@relation r\n@attribute a numeric\n@attribute b numeric\n@attribute class {x,y}\n@data\n"
ROWS = "1,2,x\n3,4,y\n5,6,x\n7,8,y\n"
MULTI = (
    "@relation r\n@attribute a numeric\n@attribute p {0,1}\n@attribute q {0,1}\n@data\n"
    "1,0,1\n2,1,0\n3,1,1\n4,0,1\n"
)
LABELS = '<labels><label name="p"/><label name="q"/></labels>'


def one(
    name: str, text: str | bytes, expect: str, xml: str | bytes | None = None, *more: str, **options: Any
) -> Case:
    """An ARFF file, with an XML file if it is given."""

    def make(place: Place) -> None:
        place.source.mkdir()
        (place.source / "t.arff").write_bytes(text if isinstance(text, bytes) else text.encode())
        if xml is not None:
            (place.source / "t.xml").write_bytes(xml if isinstance(xml, bytes) else xml.encode())

    return Case(name, make, (*INGEST, *more), expect=expect, **options)


# What stands in place of a number, and whether it is one.
NUMBERS: dict[str, str] = {
    "1": SURVIVED,
    "+1": SURVIVED,
    "-0": SURVIVED,
    ".5": SURVIVED,
    "5.": SURVIVED,
    "1e5": SURVIVED,
    "1E-5": SURVIVED,
    " 7 ": SURVIVED,
    "'7'": ANY,
    '"7"': ANY,
    "1_0": REFUSED,
    "1_000.5": REFUSED,
    "0x10": REFUSED,
    "1d5": REFUSED,
    "1e400": REFUSED,
    "-1e400": REFUSED,
    "1e39": REFUSED,
    "inf": REFUSED,
    "-Infinity": REFUSED,
    "nan": REFUSED,
    "NaN": REFUSED,
    "?": REFUSED,
    "": REFUSED,
    "--1": REFUSED,
    "1 2": REFUSED,
    "1;2": REFUSED,
    "abc": REFUSED,
    "١٢": REFUSED,
    "１２": REFUSED,
    "²": REFUSED,
    "½": REFUSED,
    "None": REFUSED,
    "true": REFUSED,
    "1j": REFUSED,
    "\u200b1": REFUSED,
    "\x1b[31m1": REFUSED,
    "1" * 5000: REFUSED,
    "0." + "1" * 5000: ANY,
    "x" * 100_000: REFUSED,
    "'unclosed": REFUSED,
    "{1}": REFUSED,
    "%": ANY,
}


def numbers() -> Iterator[Case]:
    """Dense and sparse cells."""
    for text, expect in NUMBERS.items():
        shown = ascii(text)[:20]
        yield one(f"dense cell {shown}", HEAD + f"{text},2,x\n" + ROWS, expect)
        sparse = HEAD + f"{{0 {text}, 2 x}}\n{{1 4, 2 y}}\n{{0 5, 1 6}}\n{{0 7, 2 y}}\n"
        if text.strip():
            # Spaces inside a pair belong to the separator.
            yield one(f"sparse cell {shown}", sparse, ANY if text in ("1 2", "1;2") else expect)


SPARSE: dict[str, tuple[str, str]] = {
    "good": ("{0 1, 2 y}\n{1 2}\n", SURVIVED),
    "empty row": ("{}\n{2 y}\n{0 1}\n", SURVIVED),
    "spaces": ("{ 0   1 ,  2   y }\n{1 2}\n", SURVIVED),
    "tabs": ("{0\t1,\t2\ty}\n{1 2}\n", SURVIVED),
    "unsorted": ("{2 y, 0 1}\n{1 2}\n", SURVIVED),
    "trailing comma": ("{0 1, 2 y,}\n{1 2}\n", ANY),
    "repeated index": ("{0 1, 0 2}\n{2 y}\n", REFUSED),
    "index too large": ("{3 1}\n{2 y}\n", REFUSED),
    "negative index": ("{-1 1}\n{2 y}\n", REFUSED),
    "index of 5,000 digits": ("{" + "9" * 5000 + " 1}\n{2 y}\n", REFUSED),
    "index with underscore": ("{0_1 1}\n{2 y}\n", REFUSED),
    "arabic index": ("{١ 1}\n{2 y}\n", REFUSED),
    "fractional index": ("{0.5 1}\n{2 y}\n", REFUSED),
    "no value": ("{0}\n{2 y}\n", REFUSED),
    "unclosed": ("{0 1\n{2 y}\n", REFUSED),
    "closed twice": ("{0 1}}\n{2 y}\n", REFUSED),
    "nested": ("{{0 1}}\n{2 y}\n", REFUSED),
    "mixed with dense": ("{0 1}\n1,2,y\n", REFUSED),
    "unknown class": ("{2 z}\n{2 y}\n", REFUSED),
    "quoted class": ("{2 'y'}\n{0 1}\n", SURVIVED),
    "missing class": ("{2 ?}\n{2 y}\n{0 1}\n", SURVIVED),
    "60,000 spaces": ("{0" + " " * 60_000 + "1, 2 y}\n{1 2}\n", ANY),
    "60,000 spaces before the comma": ("{0 1" + " " * 60_000 + ", 2 y}\n{1 2}\n", ANY),
    "60,000 spaces without end": ("{0 1" + " " * 60_000 + "\n", REFUSED),
    "60,000 commas": ("{" + "," * 60_000 + "}\n", REFUSED),
    "60,000 quotes": ("{0 " + "'" * 60_000 + "}\n", REFUSED),
    "60,000 backslashes": ("{0 '" + "\\" * 60_000 + "}\n", REFUSED),
    "one quote of 1 MB": ("{0 '" + "x" * 1_000_000 + "}\n", REFUSED),
}
DENSE: dict[str, tuple[str, str]] = {
    "good": (ROWS, SURVIVED),
    "400 spaces": (ROWS + "1" + " " * 400 + ",2,x\n", SURVIVED),
    "60,000 spaces": (ROWS + "1" + " " * 60_000 + ",2,x\n", SURVIVED),
    "60,000 spaces and quotes": (ROWS + "1" + " " * 60_000 + ",2,'x'\n", SURVIVED),
    "60,000 spaces before a quote": (ROWS + "1,2," + " " * 60_000 + "'x\n", REFUSED),
    "60,000 quotes": (ROWS + "'" * 60_000 + "\n", REFUSED),
    "60,000 escaped quotes": (ROWS + "1,2,'" + "\\'" * 60_000 + "\n", REFUSED),
    "60,000 cells": (ROWS + "1," * 60_000 + "x\n", REFUSED),
    "too few cells": (ROWS + "1,x\n", REFUSED),
    "too many cells": (ROWS + "1,2,3,x\n", REFUSED),
    "empty cells": (ROWS + ",,\n", REFUSED),
    "unknown class": (ROWS + "1,2,z\n", REFUSED),
    "missing class": (ROWS + "1,2,?\n", SURVIVED),
    "every class missing": (ROWS.replace("x", "?").replace("y", "?"), REFUSED),
    "one class": (ROWS.replace("y", "x"), ANY),
    "quoted class": (ROWS + "1,2,'x'\n", SURVIVED),
    "class in double quotes": (ROWS + '1,2,"x"\n', SURVIVED),
    "spaces around cells": (ROWS.replace(",", " , "), SURVIVED),
    "tabs as delimiters": (ROWS.replace(",", "\t"), REFUSED),
    "semicolons": (ROWS.replace(",", ";"), REFUSED),
    "comments": ("% a\n" + ROWS + "% b\n", SURVIVED),
    "comment after a row": (ROWS + "1,2,x % c\n", ANY),
    "instance weight": (ROWS + "1,2,x,{5}\n", ANY),
    "old mac line ends": (ROWS.replace("\n", "\r"), SURVIVED),
    "windows line ends": (ROWS.replace("\n", "\r\n"), SURVIVED),
    "no rows": ("", REFUSED),
    "only comments": ("% a\n% b\n", REFUSED),
    "one row": ("1,2,x\n", ANY),
    "nul byte": (ROWS + "1\0,2,x\n", REFUSED),
    "escape": (ROWS + "\x1b[2J,2,x\n", REFUSED),
    "line separator": (ROWS + "1\u2028,2,x\n", ANY),
    "row of 5 MB": (ROWS + "1" * 5_000_000 + ",2,x\n", REFUSED),
    "@data again": (ROWS + "@data\n" + ROWS, REFUSED),
    "@attribute among rows": (ROWS + "@attribute z numeric\n", REFUSED),
}
HEADERS: dict[str, tuple[str, str]] = {
    "capital keywords": (HEAD.upper().replace("{X,Y}", "{x,y}") + ROWS, SURVIVED),
    "no relation": (HEAD.replace("@relation r\n", "") + ROWS, SURVIVED),
    "no attributes": ("@relation r\n@data\n" + ROWS, REFUSED),
    "no data": (HEAD.replace("@data\n", ""), REFUSED),
    "only a relation": ("@relation r\n", REFUSED),
    "empty file": ("", REFUSED),
    "only a comment": ("% nothing\n", REFUSED),
    "unknown keyword": (HEAD.replace("@relation", "@relationship") + ROWS, REFUSED),
    "attribute without type": (HEAD.replace("a numeric", "a") + ROWS, REFUSED),
    "attribute without name": (HEAD.replace("a numeric", "") + ROWS, REFUSED),
    "repeated attribute": (HEAD.replace("b numeric", "a numeric") + ROWS, REFUSED),
    "string attribute": (HEAD.replace("a numeric", "a string") + ROWS, ANY),
    "date attribute": (HEAD.replace("a numeric", 'a date "yyyy"') + ROWS, REFUSED),
    "relational attribute": (HEAD.replace("a numeric", "a relational") + ROWS, REFUSED),
    "unknown type": (HEAD.replace("a numeric", "a complex") + ROWS, REFUSED),
    "integer attribute": (HEAD.replace("a numeric", "a integer") + ROWS, SURVIVED),
    "real with a range": (HEAD.replace("a numeric", "a real [0,10]") + ROWS, ANY),
    "quoted name": (HEAD.replace("@attribute a ", "@attribute 'a b' ") + ROWS, SURVIVED),
    "unclosed name": (HEAD.replace("@attribute a ", "@attribute 'a ") + ROWS, ANY),
    "empty name": (HEAD.replace("@attribute a ", "@attribute '' ") + ROWS, ANY),
    "name with escape": (HEAD.replace("@attribute a numeric", "@attribute \x1b[2J strange") + ROWS, REFUSED),
    "unclosed values": (HEAD.replace("{x,y}", "{x,y") + ROWS, REFUSED),
    "no values": (HEAD.replace("{x,y}", "{}") + ROWS, REFUSED),
    "repeated value": (HEAD.replace("{x,y}", "{x,x,y}") + ROWS, ANY),
    "quoted values": (HEAD.replace("{x,y}", "{'x',\"y\"}") + ROWS, SURVIVED),
    "value with comma": (HEAD.replace("{x,y}", "{x,y,'a,b'}") + ROWS, SURVIVED),
    "numeric class": (HEAD.replace("{x,y}", "numeric") + ROWS.replace("x", "0").replace("y", "1"), REFUSED),
    "no class": (HEAD.replace("class", "other") + ROWS, REFUSED),
    "class twice in other case": (HEAD.replace("b numeric", "CLASS {x,y}") + ROWS, REFUSED),
    "byte-order mark": ("\ufeff" + HEAD + ROWS, SURVIVED),
    "60,000 spaces in an attribute": (
        HEAD.replace("a numeric", "a" + " " * 60_000 + "numeric") + ROWS,
        SURVIVED,
    ),
    "60,000 spaces and no type": (HEAD.replace("a numeric", "a" + " " * 60_000) + ROWS, REFUSED),
    "60,000 quotes in an attribute": (HEAD.replace("a numeric", "'" * 60_000) + ROWS, REFUSED),
    "60,000 escapes in a name": (HEAD.replace("a numeric", "'" + "\\a" * 60_000) + ROWS, REFUSED),
    "name of 1 MB": (HEAD.replace("@attribute a", "@attribute " + "a" * 1_000_000) + ROWS, ANY),
    "type of 1 MB": (HEAD.replace("a numeric", "a " + "t" * 1_000_000) + ROWS, REFUSED),
    "line of 1 MB": ("x" * 1_000_000 + "\n" + HEAD + ROWS, REFUSED),
    "30,000 values": (
        HEAD.replace("{x,y}", "{x,y," + ",".join(f"v{k}" for k in range(30_000)) + "}") + ROWS,
        ANY,
    ),
    "20,000 attributes": (
        "@relation r\n"
        + "".join(f"@attribute a{k} numeric\n" for k in range(20_000))
        + "@attribute class {x,y}\n@data\n{0 1, 20000 y}\n{1 2}\n{3 4, 20000 y}\n",
        ANY,
    ),
    "an html page": ("<!DOCTYPE html><html><body>404</body></html>\n", REFUSED),
}
BYTES: dict[str, tuple[bytes, str]] = {
    "utf-16": ((HEAD + ROWS).encode("utf-16"), REFUSED),
    "latin-1": ((HEAD.replace("@attribute a", "@attribute \u00e9") + ROWS).encode("latin-1"), REFUSED),
    "nul bytes": (bytes(1000), REFUSED),
    "binary": (bytes(range(256)) * 10, REFUSED),
    "gzip": (b"\x1f\x8b\x08" + bytes(100), REFUSED),
}
LAUGHS = (
    "<!DOCTYPE l ["
    + '<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10))
)
XML: dict[str, tuple[str | bytes, str]] = {
    "good": (LABELS, SURVIVED),
    "namespace": (
        LABELS.replace("labels", 'l:labels xmlns:l="http://mulan"', 1).replace("</labels", "</l:labels"),
        SURVIVED,
    ),
    "hierarchy": ('<labels><label name="p"><label name="q"/></label></labels>', SURVIVED),
    "declaration": ('<?xml version="1.0" encoding="utf-8"?>' + LABELS, SURVIVED),
    "comment": ("<!-- x -->" + LABELS, SURVIVED),
    "external entity": (
        '<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><labels><label name="&x;"/></labels>',
        REFUSED,
    ),
    "external text": ('<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><labels>&x;</labels>', REFUSED),
    "internal entity": ('<!DOCTYPE l [<!ENTITY x "p">]><labels><label name="&x;"/></labels>', REFUSED),
    "parameter entity": ('<!DOCTYPE l [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x"> %x;]>' + LABELS, REFUSED),
    "external document type": ('<!DOCTYPE l SYSTEM "http://127.0.0.1:9/x.dtd">' + LABELS, ANY),
    "undeclared entity": ('<labels><label name="&evil;"/></labels>', REFUSED),
    "a billion laughs": (LAUGHS + ']><labels><label name="&a9;"/></labels>', REFUSED),
    "quadratic entity": (
        f'<!DOCTYPE l [<!ENTITY a "{"x" * 50_000}">]><labels>{"&a;" * 20_000}</labels>',
        REFUSED,
    ),
    "attribute bomb": (
        '<labels><label name="p" '
        + " ".join(f'a{k}="1"' for k in range(50_000))
        + '/><label name="q"/></labels>',
        ANY,
    ),
    "repeated attribute": ('<labels><label name="p" name="q"/></labels>', REFUSED),
    "100,000 nested elements": (
        "<labels>" + '<label name="p">' * 100_000 + "</label>" * 100_000 + "</labels>",
        ANY,
    ),
    "100,000 unclosed elements": ("<labels>" + '<label name="p">' * 100_000, REFUSED),
    "name of 1 MB": (f'<labels><label name="{"p" * 1_000_000}"/></labels>', REFUSED),
    "token of 5 MB": ("<labels " + "x" * 5_000_000, REFUSED),
    "comment of 5 MB": ("<!--" + "-" * 5_000_000, REFUSED),
    "unknown label": ('<labels><label name="z"/></labels>', REFUSED),
    "unknown label with an escape": ('<labels><label name="&#155;2J"/></labels>', REFUSED),
    "100,000 unknown labels": (
        "<labels>" + "".join(f'<label name="z{k}"/>' for k in range(100_000)) + "</labels>",
        REFUSED,
    ),
    "label twice": ('<labels><label name="p"/><label name="p"/><label name="q"/></labels>', ANY),
    "one label": ('<labels><label name="p"/></labels>', REFUSED),
    "every attribute a label": (
        '<labels><label name="a"/><label name="p"/><label name="q"/></labels>',
        REFUSED,
    ),
    "label without name": ("<labels><label/></labels>", REFUSED),
    "no labels": ("<labels/>", REFUSED),
    "empty file": ("", REFUSED),
    "not closed": (LABELS[:-5], REFUSED),
    "text after the end": (LABELS + "more", REFUSED),
    "two roots": (LABELS + LABELS, REFUSED),
    "nul byte": (LABELS.replace("p", "p\0"), REFUSED),
    "control character": (LABELS.replace("p", "&#1;"), REFUSED),
    "html": ("<!DOCTYPE html><html><br></html>", REFUSED),
    "unknown encoding": ('<?xml version="1.0" encoding="evil"?>' + LABELS, ANY),
    "utf-16 declared": ('<?xml version="1.0" encoding="utf-16"?>' + LABELS, ANY),
    "utf-16": (('<?xml version="1.0" encoding="utf-16"?>' + LABELS).encode("utf-16"), ANY),
    "latin-1": (LABELS.replace("p", "\u00e9").encode("latin-1"), REFUSED),
    "binary": (bytes(range(256)), REFUSED),
    "processing instruction": ('<?php system("id"); ?>' + LABELS, ANY),
    "include": (
        '<labels xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="/etc/passwd"/></labels>',
        REFUSED,
    ),
}


def _others() -> Iterator[Case]:
    yield one("missing label", MULTI + "5,?,?\n", SURVIVED, LABELS)
    yield one("partly missing label", MULTI + "5,?,1\n", REFUSED, LABELS)
    yield one("label of 2", MULTI.replace("{0,1}", "numeric") + "5,2,1\n", REFUSED, LABELS)
    yield one("label of half", MULTI.replace("{0,1}", "numeric") + "5,0.5,1\n", REFUSED, LABELS)
    yield one(
        "label of yes and no",
        MULTI.replace("{0,1}", "{no,yes}").replace("0", "no").replace(",1", ",yes"),
        REFUSED,
        LABELS,
    )
    yield one("class attribute by name", HEAD + ROWS, SURVIVED, None, *settings("source.labels=class"))
    yield one(
        "class attribute that is missing", HEAD + ROWS, REFUSED, None, *settings("source.labels=\x1b[2Jgone")
    )
    yield one(
        "label file that is missing",
        MULTI,
        REFUSED,
        None,
        *settings("source.labels=gone.xml"),
        says=("gone.xml",),
    )
    secret = one("secret file is not shown", MULTI, REFUSED, XML["external text"][0], silent=("root:",))
    yield secret


def cases() -> list[Case]:
    """The cases of this section."""
    return [
        *numbers(),
        *(
            one(f"sparse: {title}", HEAD + text, expect, seconds=20)
            for title, (text, expect) in SPARSE.items()
        ),
        *(one(f"dense: {title}", HEAD + text, expect, seconds=20) for title, (text, expect) in DENSE.items()),
        *(one(f"header: {title}", text, expect, seconds=20) for title, (text, expect) in HEADERS.items()),
        *(one(f"bytes: {title}", data, expect) for title, (data, expect) in BYTES.items()),
        *(
            one(f"xml: {title}", MULTI, expect, xml, silent=("root:x",))
            for title, (xml, expect) in XML.items()
        ),
        *_others(),
    ]
