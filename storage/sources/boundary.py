"""The boundary of the readers: what a parser raises for bad input becomes a SourceError with advice.

Errors of the program itself (AttributeError, NameError, AssertionError, TypeError, LookupError) pass.
"""

from __future__ import annotations

import csv
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat

from storage.artifacts.regular_files import is_exhausted
from storage.errors import LabelscapeError, SourceError
from storage.quoting import shorten
from storage.sources.base import Collection, Content, PartName, Source, SourceOptions

if TYPE_CHECKING:
    from types import ModuleType

_DAMAGE = (
    OSError,
    ValueError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    NotImplementedError,
    EOFError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    csv.Error,
    expat.ExpatError,
)


@contextmanager
def reading(where: object) -> Iterator[None]:
    """Turn the errors of parsers into a SourceError that names the input.

    Parameters
    ----------
    where : Path or str
        The file or folder that is read.
    """
    try:
        yield
    except LabelscapeError:
        raise
    except Exception as error:
        if isinstance(error, _DAMAGE) or _is_arrow_error(error):
            raise SourceError(f"{where} cannot be read: {explain(error)}") from error
        raise


def explain(error: BaseException) -> str:
    """Say in one sentence what a parser's error means, and what to do."""
    if isinstance(error, MemoryError):
        return "it needs more memory than is available. Use a smaller file, or more memory."
    if isinstance(error, RecursionError):
        return "its content is nested too deeply. Flatten it."
    if isinstance(error, UnicodeError):
        return "it contains text that is not valid Unicode. Save it as UTF-8."
    if isinstance(error, OSError) and is_exhausted(error):
        return f"this machine is short of resources ({error.strerror}). Close programs or raise `ulimit -n`."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}. Check the file and its permissions."
    text = shorten((str(error).strip() or "no details").splitlines()[0], 200).rstrip(".")
    return f"{type(error).__name__}: {text}. Check that the file is complete and in the stated format."


def _is_arrow_error(error: Exception) -> bool:
    import sys

    arrow: ModuleType | None = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(error, arrow.ArrowException)


@dataclass(frozen=True)
class OpenedSource:
    """A source whose errors pass the boundary; `inner` is the reader's own object."""

    inner: Source

    @property
    def kind(self) -> str:
        return self.inner.kind

    @property
    def parts(self) -> tuple[PartName, ...]:
        with reading(self.options.path):
            return self.inner.parts

    @property
    def contents(self) -> tuple[Content, ...]:
        """What the items consist of, without repetition."""
        return tuple(dict.fromkeys(part.content for part in self.parts))

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def options(self) -> SourceOptions:
        return self.inner.options

    @property
    def module(self) -> str:
        """Name of the module that reads the source, for fingerprints."""
        return type(self.inner).__module__

    def digest(self, cache_dir: Path) -> str:
        """Digest of everything that `read` reads."""
        with reading(self.options.path):
            return self.inner.digest(cache_dir)

    def read(self, cache_dir: Path) -> Collection:
        """Read the items and their labels."""
        with reading(self.options.path):
            return self.inner.read(cache_dir)
