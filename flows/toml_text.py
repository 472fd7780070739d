"""Parse TOML given by users: what tomllib reads slowly or fails on is refused with its own error."""

import re
import tomllib
from typing import Any

# The largest configuration that `config --show` prints has 20 KB and keys of four parts.
_LARGEST = 256_000
MAX_BYTES = 4 * _LARGEST
DEEPEST = 32
# TOML's own range of integers.
_INTEGERS = range(-(2**63), 2**63)
_TOKEN = re.compile(r'"[^"\n]*+"|' r"'[^'\n]*+'|[A-Za-z0-9_-]++|[ \t]++|.", re.DOTALL)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML like `tomllib.loads`, in bounded time and memory.

    Raises
    ------
    tomllib.TOMLDecodeError
        The text is not TOML, or too large or too deep for a configuration.
    """
    if len(text) > _LARGEST:
        raise tomllib.TOMLDecodeError(f"{len(text):,} characters, a configuration has at most {_LARGEST:,}")
    if _key_depth(text) > DEEPEST:
        raise tomllib.TOMLDecodeError(f"a key of more than {DEEPEST} parts")
    try:
        values = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError("values are nested too deeply") from None
    except ValueError:  # int() refuses thousands of digits
        raise tomllib.TOMLDecodeError("a number has too many digits") from None
    if not _in_range(values):  # a hexadecimal number may have any number of digits
        raise tomllib.TOMLDecodeError("a number has too many digits")
    return values


def _in_range(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_in_range, value.values()))
    if isinstance(value, list):
        return all(map(_in_range, value))
    return not isinstance(value, int) or value in _INTEGERS


def _key_depth(text: str) -> int:
    """Return the largest number of parts joined by dots, in keys or elsewhere."""
    deepest = depth = 0
    joined = False
    for part in _TOKEN.findall(text):
        if part == ".":
            joined = True
        elif part[0] not in " \t":
            is_part = part[0].isalnum() or part[0] in "\"'_-"
            depth = depth + 1 if is_part and joined else int(is_part)
            joined = False
            deepest = max(deepest, depth)
    return deepest
