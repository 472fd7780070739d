"""The last answer of `status`, given again while nothing that it rests on has changed.

An answer rests on the words of the command and where they were given, on the project's code, on the items,
and on what the store holds: all of it is looked at again, none of it opened. Only the lightest modules are
imported here: the usual ones take longer to load than ten thousand images to look at.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
import zlib
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from storage.artifacts.file_stats import is_settled, newest, pack, state_of, states_below
from storage.errors import SourceError

_VERSION = "1"
_KEPT = 16
_HOME = "LABELSCAPE_HOME"
_PACKAGES = ("embedding_core", "flows", "storage", "tasks")
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_CHECKSUM_BYTES = 4


def recall(arguments: Sequence[str]) -> str | None:
    """What `status` printed for these words; None where it must look anew."""
    try:
        with open(find_memo(arguments), "rb") as file:
            data = file.read()
        content = data[_CHECKSUM_BYTES:]
        if data[:_CHECKSUM_BYTES] != _checksum(content):
            return None
        facts, files, states, folder, skipped, code, items, answer = marshal.loads(content)  # noqa: S302
        holds = (
            facts == _circumstances(arguments)
            and states == [state_of(file) for file in files]
            and code == _look_at_code().content
            and items == _Look([folder], skipped).content
        )
    except (OSError, ValueError, EOFError, TypeError, SourceError):
        return None
    return str(answer) if holds else None


def find_memo(arguments: Sequence[str]) -> str:
    """Where the answer to a command is kept: in its home folder, as far as its words tell which."""
    home = os.environ.get(_HOME) or ".labelscape"
    for place, word in enumerate(arguments):
        if word == "--home":
            home = "".join(arguments[place + 1 : place + 2])
        elif word.startswith("--home="):
            home = word.partition("=")[2]
    name = zlib.crc32(_encode([os.getcwd(), *arguments]))
    return os.path.join(home, "cache", "status", f"{name:08x}.memo")


class Watch:
    """What an answer rests on, looked at before the answer is sought, so that it can be kept.

    Parameters
    ----------
    arguments : sequence of str
        The words of the command.
    folder : str
        The items.
    skipped : collection of str
        Folders inside it that are ours, by real path.
    """

    def __init__(self, arguments: Sequence[str], folder: str, skipped: Collection[str]) -> None:
        self._begun = time.time_ns()
        self._arguments = arguments
        self._facts = _circumstances(arguments)
        self._folder, self._skipped = folder, sorted(skipped)
        self._code, self._items = _look_at_code(), _Look([folder], self._skipped)

    def keep(
        self, answer: str, needed: Iterable[str | os.PathLike[str]], others: Iterable[str | os.PathLike[str]]
    ) -> None:
        """Keep an answer for `recall`, unless a file may have changed since it was looked at.

        Parameters
        ----------
        answer : str
        needed : iterable of paths
            Files that the answer counts on.
        others : iterable of paths
            Files that count if they are there: should one appear, the answer is sought anew.
        """
        files = [os.path.abspath(file) for file in needed]
        states = [state_of(file) for file in files]
        if None in states:
            return
        files += (more := [os.path.abspath(file) for file in others])
        states += [state_of(file) for file in more]
        times = [newest(state) for state in states if state]
        if is_settled(self._begun, self._code.newest, self._items.newest, *times):
            found = (self._facts, files, states, self._folder, self._skipped)
            self._write(marshal.dumps((*found, self._code.content, self._items.content, answer), 2))

    def _write(self, content: bytes) -> None:
        place = find_memo(self._arguments)
        # It only saves time: where it cannot be written, the next answer takes as long as this one.
        with suppress(OSError):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(f"{place}.tmp", "wb") as file:
                file.write(_checksum(content) + content)
            os.replace(f"{place}.tmp", place)
            _tidy(os.path.dirname(place))


class _Look:
    """Names and states of all files below some folders, and the newest of their times."""

    def __init__(self, folders: Iterable[str], skipped: Collection[str] = ()) -> None:
        found = [states_below(folder, skipped) for folder in folders]
        self.content = [(names, pack(states)) for names, states in found]
        self._states = [states for _, states in found]

    @property
    def newest(self) -> int:
        return max(newest(states) for states in self._states)


def _look_at_code() -> _Look:
    return _Look(os.path.join(_ROOT, package) for package in _PACKAGES)


def _circumstances(arguments: Sequence[str]) -> list[str]:
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if _is_heeded(name)]
    return [_VERSION, sys.version, _ROOT, os.getcwd(), *settings, *arguments]


def _is_heeded(name: str) -> bool:
    """Whether the command goes by this variable of the environment."""
    return name == "HOME" or name.startswith("LABELSCAPE_")


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "little")


def _encode(words: Iterable[str]) -> bytes:
    return "\0".join(words).encode("utf-8", "surrogateescape")


def _tidy(folder: str) -> None:
    """Keep the newest answers alone."""
    with os.scandir(folder) as entries:
        known = sorted(entries, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
    for entry in known[_KEPT:]:
        os.unlink(entry.path)
