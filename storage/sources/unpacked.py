"""Folders below the cache folder of the home with files that were taken out of others, each written once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from storage.artifacts.disk import remove_tree, store_errors
from storage.errors import SourceChanged

Content = TypeVar("Content")


def unpack_once(
    folder: Path, recall: Callable[[Path], Content | None], write: Callable[[Path], None], name: str
) -> Content:
    """What a folder contains, written first unless it is complete. A kill leaves no half of it.

    Parameters
    ----------
    folder : Path
    recall : callable
        Returns the content of a folder; None if it is missing or incomplete.
    write : callable
        Writes the content into an empty folder.
    name : str
        The file that is unpacked, for messages.
    """
    known = recall(folder)
    if known is not None:
        return known
    with store_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=".") as temporary:
            fresh = Path(temporary) / "new"
            fresh.mkdir()
            write(fresh)
            _put_in_place(fresh, folder, recall)
    made = recall(folder)
    if made is None:
        raise SourceChanged(f"{folder} was removed while {name} was being read", "run again")
    return made


def _put_in_place(fresh: Path, folder: Path, recall: Callable[[Path], object]) -> None:
    """Rename the finished folder. Another process may have written the same one first."""
    try:
        fresh.rename(folder)
    except OSError:
        if recall(folder) is None:
            remove_tree(folder)
            fresh.rename(folder)
