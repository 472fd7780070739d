"""Secrets to plant, and a search for them in everything that was written or printed."""

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

# Passwords of ten kinds; each piece between separators can be recognized on its own.
PASSWORDS = {
    "plain": "Zqxj0plain7",
    "slash": "Zqxj1left/Zqxj1right",
    "at": "Zqxj2left@Zqxj2right",
    "colon": "Zqxj3left:Zqxj3right",
    "hash": "Zqxj4left#Zqxj4right",
    "question": "Zqxj5left?Zqxj5right=Zqxj5end",
    "encoded": "Zqxj6left%40Zqxj6right%2FZqxj6end",
    "unicode": "Zqxj7gehéim-Zqxj7パス",
    "quotes": "Zqxj8le\"ft'Zqxj8right\\Zqxj8end",
    "space": "Zqxj9left Zqxj9right",
    "percent": "Zqxj10left%Zqxj10right",
}
_PIECES = re.compile(r"Zqxj\d+[a-z]+")


def find_leaks(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Places that contain a piece of a planted secret, raw or encoded."""
    return [
        f"{place}: …{text[max(0, found.start() - 60) : found.end() + 20]!r}"
        for place, raw in texts
        for text in {raw, unquote(raw)}
        for found in [_PIECES.search(text)]
        if found
    ]


def read_everything(folder: Path, given: Iterable[Path] = ()) -> Iterator[tuple[str, str]]:
    """Names and contents of all files, also inside archives and tables, except those that the user wrote."""
    skipped = {path.resolve() for path in given}
    for path in folder.rglob("*"):
        if path.resolve() in skipped or not (path.is_file() or path.is_dir()):
            continue
        name = str(path.relative_to(folder))
        yield f"name of {name}", name
        if path.is_file():
            data = path.read_bytes()
            yield name, data.decode("latin-1")
            yield name, data.decode("utf-8", "replace")
            yield from ((f"{name}, unpacked", text) for text in _unpack(path, data))


def _unpack(path: Path, data: bytes) -> Iterator[str]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        yield f"{table.schema.metadata} {table.to_pydict()}"
    elif zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield archive.read(name).decode("latin-1")


def login_address(kind: str, place: str, scheme: str = "http") -> str:
    """An address with one of the passwords."""
    return f"{scheme}://me:{PASSWORDS[kind]}@{place}"


def as_toml(**tables: dict[str, str]) -> str:
    """A configuration file with texts only."""
    lines = [
        f"[{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
        for name, table in tables.items()
    ]
    return "\n".join(lines) + "\n"
