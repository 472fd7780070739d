"""Quote values in messages: short, and without characters that a terminal would execute."""

from collections.abc import Iterable
from itertools import islice

LENGTH = 80


def quote(value: object, length: int = LENGTH) -> str:
    """Return the `repr` of a value, cut to a length; it names the number of characters that are left out.

    >>> quote("sky"), quote("a" * 1000, 8)
    ("'sky'", "'aaaaaaaa'... (1000 characters)")
    """
    if isinstance(value, str | bytes):
        whole = repr(value[:length])
        return whole if len(value) <= length else f"{whole}... ({len(value)} characters)"
    return shorten(repr(value), length)


def shorten(text: str, length: int = LENGTH) -> str:
    """Return a text in one line of printable characters, cut to a length.

    >>> shorten("a\\tb"), shorten("abcdef", 3)
    ('a\\\\tb', 'abc... (6 characters)')
    """
    plain = text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"
    return plain if plain.isprintable() else repr(plain)[1:-1]


def list_names(names: Iterable[object], count: int = 10, empty: str = "none") -> str:
    """Return the first names, separated by commas.

    >>> list_names(["a", "b", "c"], 2), list_names([])
    ('a, b, ...', 'none')
    """
    first = [shorten(str(name)) for name in islice(names, count + 1)]
    return ", ".join([*first[:count], *(["..."] if len(first) > count else [])]) or empty


def count_of(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun, or with the rest of the sentence.

    >>> count_of(1, "item"), count_of(2, "item"), count_of(1, "item has no label", "items have no label")
    ('1 item', '2 items', '1 item has no label')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
