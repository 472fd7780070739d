"""Decide whether a case ended as it must."""

import json
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.case import REFUSED, SKIPPED, SURVIVED, Case, Place

MAX_OUTPUT = 8 * 1024
_CRASH = re.compile(
    r"Traceback \(most recent call last\)|labelscape: unexpected|^\s+File \".*\", line \d+", re.M
)
_SKIPPED = re.compile(r"\bskipped\b", re.IGNORECASE)
_BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
_LEFT = ("*.tmp", "*.part", "crash-*")
_SEARCHED = 64 * 1024 * 1024


@dataclass(frozen=True)
class Ended:
    """How the process of a case ended; `code` is minus the signal, or None if it was killed for its time."""

    code: int | None
    out: bytes
    err: bytes
    memory_mb: float
    seconds: float


def find_class(ended: Ended, case: Case) -> str:
    """The class that the exit code and the output belong to."""
    if ended.code == 2 or ended.code in case.codes:
        return REFUSED
    if ended.code != 0:
        return "bad"
    return SKIPPED if _SKIPPED.search(_text(ended)) and SKIPPED in case.expect else SURVIVED


def find_problems(case: Case, place: Place, ended: Ended) -> list[str]:
    """Everything that is wrong with the outcome of a case; empty if nothing is."""
    found, output = find_class(ended, case), _text(ended)
    problems = _process_problems(case, ended)
    if found != "bad" and found not in case.expect.split("|"):
        problems.append(f"was {found}, not {case.expect}")
    if match := _CRASH.search(output):
        problems.append(f"a traceback or internal error: {match[0]!r}")
    problems += [f"does not say {words!r}" for words in case.says if words.lower() not in output.lower()]
    problems += [f"says {words!r}" for words in case.silent if words.lower() in output.lower()]
    problems += _output_problems(case, ended)
    problems += _file_problems(case, place, found, output)
    if case.check and not problems and (problem := case.check(place, output)):
        problems.append(problem)
    return problems


def _text(ended: Ended) -> str:
    return (ended.out + b"\n" + ended.err).decode("utf-8", "replace")


def _process_problems(case: Case, ended: Ended) -> list[str]:
    problems = []
    if ended.code is None:
        problems.append(f"did not end within {case.seconds:.0f} s")
    elif ended.code not in (0, 2, *case.codes):
        problems.append(f"exit code {ended.code}")
    if ended.memory_mb > case.memory_mb:
        problems.append(f"{ended.memory_mb:.0f} MB of memory, more than {case.memory_mb}")
    return problems


def _output_problems(case: Case, ended: Ended) -> list[str]:
    problems, output = [], _text(ended)
    raw = {c for c in output if (unicodedata.category(c) == "Cc" and c not in "\n\t") or c in _BIDI}
    if raw:
        problems.append(f"raw control characters {sorted(raw)!r}")
    size = len(ended.err) if case.long_output else len(ended.out) + len(ended.err)
    if size > MAX_OUTPUT:
        problems.append(f"{size} bytes of output")
    problems += [f"prints the secret {secret!r}" for secret in case.secrets if secret in output]
    if ended.code == 2 and len(output.strip()) < 20:
        problems.append("a refusal without a message")
    return problems


def _file_problems(case: Case, place: Place, found: str, output: str) -> list[str]:
    problems = []
    left = (
        [path.name for pattern in _LEFT for path in place.home.rglob(pattern)] if place.home.is_dir() else []
    )
    if left and found == REFUSED:
        problems.append(f"left behind {', '.join(left[:3])}")
    if case.secrets:
        problems += _secret_problems(case, place)
    if case.items is not None and found != REFUSED and (rows := _ingested(place.home)) != case.items:
        problems.append(f"{rows} items, not {case.items}")
    return problems


def _secret_problems(case: Case, place: Place) -> list[str]:
    """Search every file that the command wrote."""
    problems = []
    written = [path for path in place.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in written:
        if path.is_relative_to(place.source) or path.name.startswith("given"):
            continue
        content = path.read_bytes()[:_SEARCHED]
        names = [secret for secret in case.secrets if secret.encode() in content]
        problems += [
            f"wrote the secret {secret!r} to {path.name}" for secret in names if not _is_private(path)
        ]
    return problems


def _is_private(path: Path) -> bool:
    """Whether this is the file of credentials, which only its owner may read."""
    return "credential" in path.name and path.stat().st_mode & 0o077 == 0


def _ingested(home: Path) -> int | None:
    """Number of rows of the newest manifest of items."""
    found = sorted(home.glob("store/ingest/*/*.json"), key=lambda path: path.stat().st_mtime_ns)
    return int(json.loads(found[-1].read_bytes())["rows"]) if found else None
