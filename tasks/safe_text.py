"""Text from outside (file names, labels, settings, other programs' errors) made safe to show to a person.

A terminal obeys control characters, and invisible or direction-changing characters disguise a name.
"""

import re
import shlex
from collections.abc import Iterable

# Control characters (C0, C1), lone surrogates, line separators, and characters that are invisible or change
# the direction of text. The two joiners are needed by scripts and emoji; they are unsafe after ASCII.
_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|(?:(?<=[\x00-\x7f])|^)[\u200c\u200d]"
)
_REPLACEMENT = "\ufffd"


def printable(text: str) -> str:
    """Replace unsafe characters by U+FFFD, so that any name can be shown.

    >>> printable("red\\x1b[31m")
    'red�[31m'
    """
    return _UNSAFE.sub(_REPLACEMENT, text)


def printable_lines(text: str) -> str:
    """Replace unsafe characters by U+FFFD, except line breaks; a tab becomes a space."""
    return "\n".join(printable(line) for line in text.replace("\t", " ").split("\n"))


def escape_json(text: str) -> str:
    r"""Escape unsafe characters of JSON, except line breaks; it reads back as the same values.

    >>> escape_json('"a\u202eb"')
    '"a\\u202eb"'
    """
    return "\n".join(_UNSAFE.sub(_json_escape, line) for line in text.split("\n"))


def escape_toml(text: str) -> str:
    """Escape unsafe characters of TOML, except line breaks; it reads back as the same values."""
    return "\n".join(_UNSAFE.sub(lambda found: f"\\U{ord(found[0]):08x}", line) for line in text.split("\n"))


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def join_words(words: Iterable[str]) -> str:
    r"""Join words to a command to paste; a word with unsafe characters is quoted as `$'...'`.

    >>> join_words(["run", "my photos", "a\x1bb"])
    "run 'my photos' $'a\\x1bb'"
    """
    return " ".join(_quote(word) for word in words)


def _quote(word: str) -> str:
    if not _UNSAFE.search(word):
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_UNSAFE.sub(_bytes, plain)}'"


def _bytes(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogateescape"))


def cut_text(text: str, most: int) -> str:
    """Cut the middle of a text of more than `most` characters, and say how much is missing.

    The end stays, because the advice of a message stands there.

    >>> cut_text("x" * 20 + " is too long.", 16)
    'xxxxxxxxxx... (17 more characters) ... long.'
    """
    if len(text) <= most:
        return text
    head = most * 2 // 3
    tail = most - head
    return f"{text[:head]}... ({len(text) - most} more characters) ...{text[-tail:]}"
