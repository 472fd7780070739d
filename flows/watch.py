"""Watch the files of a source (`labelscape watch`): report a burst of changes once it is over.

Files are looked at by size, times and inode, as ingest does; nothing is read. Polling also works on network
file systems, where the system reports no changes.
"""

import contextlib
import glob
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from flows.config import RunConfig, find_home
from flows.deployment_options import CHANGED_EVENT
from flows.notifications import collection_resource
from flows.schedule import connected, default_name
from storage.artifacts.file_stats import scan_folders
from storage.errors import ConfigError, SourceError
from storage.sources.registry import source_names

FileStats = dict[str, tuple[int, int, int]]
_SHORTEST, _LONGEST = 0.1, 3600.0


def check_settle(seconds: float) -> None:
    """Refuse a time that makes no sense."""
    if not _SHORTEST <= seconds <= _LONGEST:
        raise ConfigError(f"--settle {seconds:g}: give seconds from {_SHORTEST:g} to {_LONGEST:g}.")


def watched_places(config: RunConfig, is_folder: bool | None = None) -> list[Path]:
    """The folder or file of a source, and the files that belong to it or that the settings name.

    `is_folder` says what the source was before it vanished: what is beside a folder never belongs to it.
    """
    if config.source.path in source_names():
        raise ConfigError(f"{config.source.path} is built in and never changes; watch a folder or a file.")
    data = Path(config.source.path)
    named = [Path(one) for one in (config.source.labels, config.source.edges) if one and Path(one).is_file()]
    is_folder = data.is_dir() if is_folder is None else is_folder
    beside = [] if is_folder else [*data.parent.glob(f"{glob.escape(data.stem)}*"), *_labels_beside(data)]
    return list(dict.fromkeys([data, *named, *(one for one in beside if one.is_file())]))


def _labels_beside(data: Path) -> list[Path]:
    return [data.parent / name for name in ("labels.csv", "labels.parquet", "y.npy")]


def file_stats(places: list[Path], left_out: Path) -> FileStats:
    """Size, time and inode of the visible files below some places, without those of the home folder."""
    found: FileStats = {}
    for path in (path for place in places for path in _files(place.absolute(), left_out)):
        with contextlib.suppress(OSError):  # it was removed meanwhile
            stat = path.stat()
            found[str(path)] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return found


def _files(place: Path, left_out: Path) -> Iterator[Path]:
    if not place.is_dir():
        yield place
        return
    with contextlib.suppress(SourceError):  # a folder that cannot be read; the refresh reports it
        for prefix, entries in scan_folders(str(place)):
            if not (place / prefix).resolve().is_relative_to(left_out):
                yield from (Path(entry.path) for entry in entries)


def count_changes(before: FileStats, now: FileStats) -> int:
    """Number of files that were added, changed or removed."""
    return sum(before.get(path) != now.get(path) for path in {*before, *now})


def has_files_below(place: Path, found: FileStats) -> bool:
    """Whether a folder has any file, or a file exists."""
    path = str(place.absolute())
    return any(name == path or name.startswith(f"{path}{os.sep}") for name in found)


def watch_files(
    config: RunConfig,
    changed: Callable[[int], bool | None],
    settle: float,
    once: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    first: Callable[[], object] | None = None,
) -> None:
    """Call `changed` with the number of changed files after each burst of changes, until interrupted.

    A burst is over when nothing has changed for `settle` seconds. Changes during a call are reported after
    it. A source that vanishes as a whole, such as a share that is not mounted, is waited for.

    Parameters
    ----------
    config : RunConfig
    changed : callable
        If it returns False, it is called again after `settle` seconds.
    settle : float
        Seconds.
    once : bool
        Return after the first change.
    sleep : callable
        Waits for some seconds.
    first : callable, optional
        Called before waiting; changes during this call are reported too.
    """
    home, source = find_home(config), Path(config.source.path)
    is_folder = source.is_dir()

    def stats() -> FileStats:
        return file_stats(watched_places(config, is_folder), home)  # listed again: files may be added

    known = stats()
    if first is not None:
        first()
    while True:
        last = stats()
        if last == known or not has_files_below(source, last):
            sleep(settle)
            continue
        sleep(settle)
        if stats() != last:
            continue  # the burst goes on
        if changed(count_changes(known, last)) is False:
            continue
        known = last
        if once:
            return


def announce_change(config: RunConfig, count: int, name: str | None = None) -> str:
    """Send the event that starts the deployments of a name, by default that of the collection."""
    resource = collection_resource(name or default_name(config))
    with connected(find_home(config)):
        from prefect.events import emit_event
        from prefect.events.worker import EventsWorker

        emit_event(CHANGED_EVENT, {"prefect.resource.id": resource}, payload={"files": count})
        EventsWorker.drain_all(timeout=10)  # an event that is still queued when a process ends is lost
    return f"{CHANGED_EVENT} for {resource}"
