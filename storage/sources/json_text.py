"""Read annotation files in JSON element by element, so that polygons and masks are not kept in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from storage.artifacts.regular_files import open_regular
from storage.errors import SourceError
from storage.limits import check_memory
from storage.quoting import quote, shorten
from storage.sources.text_file import read_text

# Enough for the keys of the top level, which come before long lists or begin them.
HEAD = 64 * 1024
# Memory of a dict or list without its content.
_CONTAINER_BYTES = 72
_SPACE = re.compile(r"[ \t\n\r]*")
# A text that does not end is one token: searching for an end from each quote in it takes quadratic time.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*+"?|[\[\]{}]', re.DOTALL)
_VALUE = re.compile(r"\s*:\s*(\[\s*[\[{\]]?|\S)?")

Found = Generator[tuple[str, "str | int", object], None, int]


@dataclass(frozen=True)
class Outline:
    """The beginning of a JSON file.

    Attributes
    ----------
    opening : str
        "{" for an object, "[" for a list of objects, "" for anything else.
    keys : dict of str to str
        Keys of the object, or of the first object of the list, with the first characters of their values,
        for instance "[{" for a list of objects.
    is_whole : bool
        Whether the file is not longer than its beginning.
    """

    opening: str
    keys: dict[str, str]
    is_whole: bool


def outline(path: Path) -> Outline:
    """The keys at the beginning of a JSON file. Nothing is checked but the order of brackets."""
    with open_regular(path) as file:
        content = file.read(HEAD + 1)
    text = content[:HEAD].decode("utf-8-sig", "replace").lstrip()
    opening = text[:1] if text[:1] in ("{", "[") else ""
    wanted, depth = (1 if opening == "{" else 2), 0
    keys: dict[str, str] = {}
    for token in _TOKEN.finditer(text) if opening else ():
        if token[0] in ("{", "["):
            depth += 1
        elif token[0] in ("}", "]"):
            depth -= 1
            if depth < wanted:
                break
        elif depth == wanted and (value := _VALUE.match(text, token.end())):
            keys.setdefault(token[0][1:-1], re.sub(r"\s", "", value[1] or ""))
    return Outline(opening, keys, len(content) <= HEAD)


class JsonFile:
    """A JSON file whose second level is read one value after the other.

    Parameters
    ----------
    path : Path
        Needs up to six times its size in memory, and is refused before loading if that is not available.

    Attributes
    ----------
    members : list of str
        Keys of the top level that have been read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members: list[str] = []
        self._text = read_text(path)
        containers = self._text.count("{") + self._text.count("[")
        check_memory(
            _CONTAINER_BYTES * containers,
            f"{path}: JSON with {containers:,} lists and objects",
            len(self._text),
        )
        self._decoder = json.JSONDecoder()

    def values(self) -> Iterator[tuple[str, str | int, object]]:
        """Each value of the second level, with the name of its member and its key or position from 1.

        The members of a list at the top level have the name "". A value that is neither list nor object has
        the position 0.
        """
        try:
            start = self._skip(0)
            if self._text.startswith("[", start):
                end = yield from self._list("", start)
            elif self._text.startswith("{", start):
                end = yield from self._members(start)
            else:
                raise self._wrong(start, "an object or a list")
        except RecursionError as error:
            raise SourceError(f"{self.path}: not JSON (nested too deeply). Flatten it.") from error
        except ValueError as error:
            raise SourceError(
                f"{self.path}: not JSON ({shorten(str(error))}). Check that the file is complete, or export "
                "it again."
            ) from error
        if self._skip(end) < len(self._text):
            raise self._wrong(self._skip(end), "the end of the file")

    def _members(self, start: int) -> Found:
        """The values in the members of an object."""
        position = self._skip(start + 1)
        while not self._text.startswith("}", position):
            name, position = self._key(position)
            if name in self.members:
                raise SourceError(f"{self.path} has the key {quote(name)} more than once. Keep one.")
            self.members.append(name)
            if self._text.startswith("[", position):
                position = yield from self._list(name, position)
            elif self._text.startswith("{", position):
                position = yield from self._object(name, position)
            else:
                value, position = self._decoder.raw_decode(self._text, position)
                yield name, 0, value
            position = self._next(position, "}")
        return position + 1

    def _list(self, name: str, start: int) -> Found:
        position, number = self._skip(start + 1), 0
        while not self._text.startswith("]", position):
            value, position = self._decoder.raw_decode(self._text, position)
            number += 1
            yield name, number, value
            position = self._next(position, "]")
        return position + 1

    def _object(self, name: str, start: int) -> Found:
        position = self._skip(start + 1)
        while not self._text.startswith("}", position):
            key, position = self._key(position)
            value, position = self._decoder.raw_decode(self._text, position)
            yield name, key, value
            position = self._next(position, "}")
        return position + 1

    def _key(self, position: int) -> tuple[str, int]:
        key, position = self._decoder.raw_decode(self._text, position)
        position = self._skip(position)
        if not isinstance(key, str) or not self._text.startswith(":", position):
            raise self._wrong(position, "a key and a colon")
        return key, self._skip(position + 1)

    def _next(self, position: int, closing: str) -> int:
        """Position of the next value, or of the closing bracket."""
        position = self._skip(position)
        if self._text.startswith(",", position):
            following = self._skip(position + 1)
            if not self._text.startswith(closing, following):
                return following
        elif self._text.startswith(closing, position):
            return position
        raise self._wrong(position, f"a comma and a value, or {closing!r}")

    def _skip(self, position: int) -> int:
        found = _SPACE.match(self._text, position)
        return found.end() if found else position

    def _wrong(self, position: int, expected: str) -> SourceError:
        found = quote(self._text[position : position + 20]) if position < len(self._text) else "the end"
        return SourceError(
            f"{self.path}: not JSON: {found} found at character {position + 1:,}, expected {expected}. Check "
            "that the file is complete, or export it again."
        )
