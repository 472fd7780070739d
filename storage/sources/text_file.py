"""Read text files given by users: UTF-8, with errors that say what the file is instead."""

from __future__ import annotations

import codecs
from pathlib import Path

from storage.errors import SourceError
from storage.limits import MEGABYTE, check_memory

# Longer lines are not tables: a header of a million columns, or a record of one item, is shorter.
LONGEST_LINE = 16 * MEGABYTE
_OTHER_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def read_text(path: Path) -> str:
    """Read a UTF-8 file with or without byte-order mark."""
    try:
        size = path.stat().st_size
        check_memory(6 * size, f"{path}: a text of {size:,} bytes")
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error.object, error.start) from error
    if "\0" in text:
        raise SourceError(f"{path} contains NUL characters: it is not a text file, or it is damaged.")
    return text


def _not_utf8(path: Path, content: bytes, start: int) -> SourceError:
    for mark, name in _OTHER_ENCODINGS.items():
        if content.startswith(mark):
            return SourceError(f"{path} is not UTF-8 text but {name}. Save it as UTF-8.")
    return SourceError(f"{path} is not UTF-8 text (byte {start} is {content[start]:#04x}). Save it as UTF-8.")
