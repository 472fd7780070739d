"""The data readers, and which one a path needs."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

from storage.artifacts.regular_files import is_regular_file
from storage.errors import SourceError
from storage.paths import expand_path
from storage.quoting import list_names, quote
from storage.sources.arff import ArffReader
from storage.sources.arrays import ArrayReader
from storage.sources.base import Match, Source, SourceOptions, SourceReader
from storage.sources.boundary import OpenedSource, reading
from storage.sources.builtin import BuiltinReader
from storage.sources.clip_folder import VideoReader
from storage.sources.columns import CSV_SUFFIXES, read_header
from storage.sources.image_files import main_medium
from storage.sources.image_folder import ImageReader, SoundReader, TextReader
from storage.sources.media import MEDIA
from storage.sources.shard_source import ShardReader
from storage.sources.sparse_text import SparseReader
from storage.sources.table import TableReader
from storage.sources.text_table import TextTableReader

# By kind. The reader with the best match opens a path; among equal matches, the first one.
READERS: dict[str, SourceReader] = {
    reader.kind: reader
    for reader in (
        SparseReader(),
        TextTableReader(),
        TableReader(),
        ArrayReader(),
        ArffReader(),
        ImageReader(),
        VideoReader(),
        SoundReader(),
        TextReader(),
        ShardReader(),
        BuiltinReader(),
    )
}
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")


def source_names() -> list[str]:
    """Names of the built-in sets, which are used in place of a path."""
    return [name for reader in READERS.values() for name in reader.names]


def supported_sources() -> str:
    """All sources that the readers support, for messages and help."""
    texts = [reader.supports for reader in READERS.values()]
    return "; ".join([*texts[:-1], f"or {texts[-1]}"])


def open_source(options: SourceOptions, cache_dir: Path) -> OpenedSource:
    """Recognize a source and open it. No data are read yet.

    What a parser raises for bad input becomes a SourceError, here and in the methods of the source.

    Parameters
    ----------
    options : SourceOptions
    cache_dir : Path
        Folder that is skipped if it is inside a folder of images.

    Raises
    ------
    SourceError
        The path does not exist, or no reader supports what is there.
    """
    _check_options(options)
    with reading(quote(options.path, 1_000)):
        return OpenedSource(_open(options, cache_dir))


def _open(options: SourceOptions, cache_dir: Path) -> Source:
    named = next((reader for reader in READERS.values() if options.path in reader.names), None)
    if named is not None and options.kind in ("auto", named.kind):
        return named.open(Path(options.path), options)
    path = expand_path(options.path, "source")
    if options.kind != "auto" and READERS[options.kind].names:
        known = ", ".join(READERS[options.kind].names)
        raise SourceError(f"{quote(options.path)} is not a built-in set; choose one of {known}.")
    is_folder = os.path.isdir(path)  # noqa: PTH112 (False instead of an error if a parent is closed)
    if not is_folder and not os.path.exists(path):  # noqa: PTH110
        raise _missing(path)
    if not is_folder and not is_regular_file(path):
        raise SourceError(f"{path} is neither a file nor a folder. Expected: {supported_sources()}.")
    if options.kind != "auto":
        return _open_kind(READERS[options.kind], path, options, cache_dir)
    found = _recognize(path, options, cache_dir)
    return found[0].open(found[1], options)


def _check_options(options: SourceOptions) -> None:
    if options.kind not in ("auto", *READERS):
        raise SourceError(f"kind {quote(options.kind)} is unknown; use one of auto, {', '.join(READERS)}.")
    if not options.label_separator:
        raise SourceError(
            "label_separator is empty. Give the character that separates labels, for instance '|'."
        )
    if options.min_label_count < 0:
        raise SourceError(f"min_label_count={options.min_label_count} is negative. Use 0 or more.")
    if not options.path:
        raise SourceError(f"the path is empty. Expected: {supported_sources()}.")


def _missing(path: Path) -> SourceError:
    parent = path.parent
    names: list[str] = []
    with suppress(OSError, ValueError):
        names = [p.name for p in parent.iterdir() if not p.name.startswith(".")]
    near = difflib.get_close_matches(path.name, names)
    near += [name for name in difflib.get_close_matches(str(path), source_names()) if name not in near]
    hint = f" Did you mean {' or '.join(map(quote, near))}?" if near else ""
    is_there = os.path.isdir(parent)  # noqa: PTH112
    place = "" if is_there else f" (its folder {parent} does not exist either)"
    return SourceError(f"there is no file or folder {path}{place}.{hint} Expected: {supported_sources()}.")


def _open_kind(reader: SourceReader, path: Path, options: SourceOptions, cache_dir: Path) -> Source:
    """Open a path with the reader that the options name."""
    if path.is_dir() and not reader.reads_folders:
        found = [file for one, file in _data_sets(path, options, cache_dir) if one is reader]
        if len(found) != 1:
            names = list_names(file.name for file in found)
            raise SourceError(
                f"{path} must contain exactly one data set of kind {reader.kind}; found: {names}. "
                "Give the path of one file."
            )
        path = found[0]
    return reader.open(path, options)


def _recognize(path: Path, options: SourceOptions, cache_dir: Path) -> tuple[SourceReader, Path]:
    """The reader for a path, and the path of the data set."""
    reader, match = _best_reader(path, options, cache_dir)
    if path.is_dir():
        return _recognize_folder(path, reader, match, options, cache_dir)
    if match is Match.NO:
        raise _not_supported(path)
    return reader, path


def _best_reader(path: Path, options: SourceOptions, cache_dir: Path) -> tuple[SourceReader, Match]:
    """The reader with the best match. A folder of pictures with a few notes is a folder of pictures."""
    readers = list(READERS.values())
    if path.is_dir():
        main = main_medium(path, cache_dir)
        readers = [reader for reader in readers if reader.medium in (None, main)]
    matches = [(reader, reader.recognize(path, options, cache_dir)) for reader in readers]
    return max(matches, key=lambda found: found[1])


def _recognize_folder(
    folder: Path, reader: SourceReader, match: Match, options: SourceOptions, cache_dir: Path
) -> tuple[SourceReader, Path]:
    """Prefer the folder as a whole if the match is certain, then the one data set in it."""
    if match is Match.CERTAIN:
        return reader, folder
    sets = _data_sets(folder, options, cache_dir)
    if len(sets) > 1:
        names = list_names(path.name for _, path in sets)
        raise SourceError(f"{folder} contains several data sets: {names}. Give the path of one.")
    if sets:
        return sets[0]
    if match is not Match.NO:
        return reader, folder
    raise SourceError(f"{folder} {_contents(folder)}. Expected: {supported_sources()}.")


def _data_sets(folder: Path, options: SourceOptions, cache_dir: Path) -> list[tuple[SourceReader, Path]]:
    """Complete data sets directly in a folder, or else the files that may be one."""
    files = sorted(p for p in folder.iterdir() if is_regular_file(p) and not p.name.startswith("."))
    files = [path for path in files if path.suffix.lower() not in _ARCHIVES]  # copies, backups
    found = [(*_best_reader(path, options, cache_dir), path) for path in files]
    for wanted in (Match.DATA_SET, Match.POSSIBLE):
        sets = [(reader, path) for reader, match, path in found if match is wanted]
        if sets:
            return sets
    return []


def _not_supported(path: Path) -> SourceError:
    suffix = path.suffix.lower()
    medium = next((one for one in MEDIA if one.has_name(path.name)), None)
    if medium is not None:
        advice = f"is a single {medium.one.partition(' ')[2]}. Give its folder, {path.parent}"
    elif suffix == ".xml":
        advice = "is XML. Give the .arff file it belongs to"
    elif suffix in _ARCHIVES:
        advice = "is an archive. Unpack it and give the folder (WebDataset shards are read as plain .tar)"
    elif suffix in CSV_SUFFIXES:
        header = read_header(path)[0]
        shown = list_names(header, 8)
        advice = (
            f"has the columns {shown}: neither features, nor filename and labels, nor a column text "
            "(source.text names another one)"
        )
    else:
        advice = f"is a file of unknown kind ({suffix or 'no extension'})"
    return SourceError(f"{path} {advice}. Supported: {supported_sources()}.")


def _contents(folder: Path) -> str:
    visible = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if not visible:
        return "is empty"
    kinds = Counter("folder" if p.is_dir() else p.suffix.lower() or "no extension" for p in visible)
    shown = ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common(6))
    archives = ". Unpack the archives and give the folder with the files"
    return f"contains no supported data (found: {shown}){archives if kinds.keys() & set(_ARCHIVES) else ''}"
