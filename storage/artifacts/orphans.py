"""What nobody needs in the folder of a store: what killed processes left, and artifacts set aside.

Records of runs and notes that were set aside are no leftovers, see `storage.artifacts.quarantine`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from storage.artifacts.disk import TEMPORARY, store_errors
from storage.artifacts.keys import DAMAGED, RESERVED_FOLDERS
from storage.artifacts.layout import Layout
from storage.artifacts.locks import is_free, try_lock


def list_leftovers(layout: Layout) -> list[Path]:
    """What `sweep` would remove."""
    return [path for path, lock in _leftovers(layout) if is_free(lock)]


def sweep(layout: Layout) -> list[Path]:
    """Remove temporary files, data without manifest, damaged artifacts and free lock files; gives them.

    What a running process works on stays.
    """
    removed = []
    for path, lock in _leftovers(layout):
        with try_lock(lock) as mine, store_errors(path):
            published = path.suffix == ".parquet" and path.with_suffix(".json").exists()
            if mine and not published:
                # A lock file goes when it is released; once more, and it might be another process's.
                if path != lock:
                    path.unlink(missing_ok=True)
                removed.append(path)
    return removed


def measure_damaged(layout: Layout) -> dict[str, int]:
    """Files that were set aside, and their bytes."""
    with store_errors(layout.root):
        return {path.relative_to(layout.root).as_posix(): path.stat().st_size for path in _damaged(layout)}


def _leftovers(layout: Layout) -> Iterator[tuple[Path, Path]]:
    """Files that may go, each with the lock that covers it."""
    locks = layout.root / "locks"
    for path in layout.files("??/*"):
        orphan = path.suffix == ".parquet" and not path.with_suffix(".json").exists()
        if orphan or path.suffix == TEMPORARY:
            yield path, locks / f"{path.name.partition('.')[0]}.lock"
    for path in _damaged(layout):
        if path.parent.name not in RESERVED_FOLDERS:
            yield path, locks / f"{path.stem}.lock"
    for path in sorted(locks.glob("*.lock")):
        yield path, path


def _damaged(layout: Layout) -> list[Path]:
    return sorted(path for path in (layout.root / DAMAGED).glob("*/*") if path.is_file())
