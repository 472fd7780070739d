"""Folders of images, sound or texts, labeled by a file beside them or by sub-folder."""

from __future__ import annotations

import os
import time
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from storage.artifacts.file_stats import scan_folders
from storage.artifacts.regular_files import is_regular_file
from storage.errors import SourceError
from storage.sources.base import (
    Collection,
    Match,
    Note,
    Part,
    PartName,
    SourceOptions,
    combine_digests,
    given_file,
    limit_notes,
    refuse_if_strict,
)
from storage.sources.columns import CSV_SUFFIXES, read_header
from storage.sources.image_files import (
    ImageListing,
    holds_images,
    list_images,
    main_medium,
    own_folders,
    stamp_files,
)
from storage.sources.label_files import (
    LABEL_FILE_NAMES,
    NAME_COLUMNS,
    LabelEntry,
    LabelFile,
    is_label_file_name,
    read_label_file,
)
from storage.sources.labeling import Labeling, label_classes, label_sets, no_labels, settle_labels
from storage.sources.listing import (
    digest_files,
    digest_readable,
    index_path,
    recall_digest,
    remember_digest,
)
from storage.sources.media import IMAGES, SOUND, TEXT, Medium

CONTAINER = "images"
UNLABELED = ("unlabeled", "unlabelled")
# Initials of `labels` and `metadata`.
_INITIALS = "lLmM"
SPLITS = ("train", "test", "val", "valid", "validation")


def find_label_file(folder: Path) -> Path | None:
    """Find the label file of a folder of images, in it or in its `images/`; several are an error.

    Other capitalizations (`Labels.CSV`) count if there is none in lower case.
    """
    for place in (folder, folder / CONTAINER):
        if not place.is_dir():
            continue
        found = [path for name in LABEL_FILE_NAMES if is_regular_file(path := place / name)]
        found = found or _other_spellings(place)
        if len(found) > 1:
            listed = ", ".join(path.name for path in found)
            raise SourceError(
                f"{place} has several label files: {listed}. Name one in `labels`, or move the rest."
            )
        if found:
            return found[0]
    return None


def check_inside(path: Path | None, folder: Path) -> Path | None:
    """Return the label file of a folder; SourceError if it is a link to a file outside the folder.

    Messages and reports quote a label file, so a link in a collection from elsewhere could reveal any file
    that the user may read. A file that `source.labels` names may be anywhere.
    """
    if path is not None and path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise SourceError(
            f"{path} is a link to a file outside {folder}, which is not followed. If you trust it, name the "
            "file itself in source.labels, or replace the link by a copy."
        )
    return path


def _other_spellings(place: Path) -> list[Path]:
    # Filter by name first: a folder may contain many images, and a stat of each is slow.
    names = os.listdir(place)  # noqa: PTH208
    named = sorted(name for name in names if name[0] in _INITIALS and is_label_file_name(name))
    return [place / name for name in named if is_regular_file(place / name)]


@dataclass(frozen=True)
class ImageFolder:
    """A folder of images or another medium. Without `label_file` the sub-folders are the classes."""

    folder: Path
    label_file: Path | None
    options: SourceOptions
    medium: Medium = IMAGES

    @property
    def kind(self) -> str:
        return self.medium.kind

    @property
    def parts(self) -> tuple[PartName, ...]:
        return self.medium.parts

    @property
    def name(self) -> str:
        return self.folder.resolve().name or self.medium.kind

    def digest(self, cache_dir: Path) -> str:
        """Digest of images and labels, cached while no file's size or times change."""
        stamp = stamp_files(self.folder, skip=cache_dir)
        _seen[self, cache_dir] = stamp.text
        memo = index_path(cache_dir, self.folder).with_suffix(".stamp")
        images = recall_digest(memo, stamp)
        if images is None:
            begun = time.time_ns()
            images, is_complete = self._digest_images(cache_dir)
            if is_complete:  # whether a file can be read does not show in its times
                remember_digest(memo, stamp, images, begun)
        if self.label_file is None:
            return images
        own = digest_files([self.label_file], index_path(cache_dir, self.label_file))
        return combine_digests([images, "labels", self._label_place(), *own])

    def _digest_images(self, cache_dir: Path) -> tuple[str, bool]:
        """Digest of all images, and whether all of them could be read."""
        listing, digests = self._list(cache_dir)
        parts = [self.medium.kind, *(f"{note.file}: {note.message}" for note in listing.notes)]
        for name, digest in zip(listing.images, digests, strict=True):
            parts += [name, digest]
        return combine_digests(parts), not listing.unreadable

    def read(self, cache_dir: Path) -> Collection:
        """List the images and read their labels; no image is decoded.

        The folder is not listed again after `digest`: extraction compares each image with its digest.
        """
        known = _seen.get((self, cache_dir))
        stamps = [known or stamp_files(self.folder, skip=cache_dir).text]
        if self.label_file is not None:
            stamps += digest_files([self.label_file], index_path(cache_dir, self.label_file))
        return _read_once(self, cache_dir, tuple(stamps))

    def read_uncached(self, cache_dir: Path) -> Collection:
        """Like `read`, without the cache."""
        listing, parts = self._read_items(cache_dir)
        refuse_if_strict(listing.notes, self.options)
        ids = list(listing.images)
        notes: list[Note] = []
        split: list[str] | None = None
        if not self.options.labeled:
            labeling = no_labels(len(ids))
        elif self.label_file is None:
            labeling, split = label_by_folder(ids, self.folder, self.medium)
        else:
            labeling, split, notes = self._label_by_file(ids, self.label_file)
        labeling, counts = settle_labels(labeling, self.options, self._where())
        return Collection(
            kind=self.kind,
            ids=ids,
            parts=parts,
            labels=labeling.Y,
            label_names=labeling.names,
            split=split,
            single_label=labeling.single_label,
            notes=[*limit_notes(listing.notes), *notes, *counts],
        )

    def _read_items(self, cache_dir: Path) -> tuple[ImageListing, tuple[Part, ...]]:
        """The items, with notes about files that are not, and what the items consist of."""
        listing, digests = self._list(cache_dir)
        (name,) = self.medium.parts
        return listing, (Part(name.name, name.content, digests, paths=list(listing.images.values())),)

    def _list(self, cache_dir: Path) -> tuple[ImageListing, list[str]]:
        """Images that can be read, with notes about the others, and their digests."""
        medium = self.medium
        listing = list_images(self.folder, skip=cache_dir, medium=medium)
        if not listing.images:
            known = " ".join(sorted(medium.suffixes))
            raise SourceError(f"{self.folder} contains no {medium.noun} ({known}). Give their folder.")
        digests, problems = digest_readable(
            list(listing.images.values()), index_path(cache_dir, self.folder), medium.max_bytes
        )
        if len(problems) == len(digests):
            raise SourceError(
                f"{self.folder} contains {len(digests)} {medium.noun}, but none can be read; the first is "
                f"{next(iter(listing.images))}: {problems[0]}. Check the files and their permissions."
            )
        return listing.without(problems), [digest for digest in digests if digest]

    def _where(self) -> str:
        return str(self.folder) if self.label_file is None else self._label_place()

    def _label_place(self) -> str:
        """Name of the label file in messages: relative to the folder if it is inside."""
        path = self.label_file or self.folder
        if path.is_relative_to(self.folder):
            return path.relative_to(self.folder).as_posix()
        return path.name

    def _label_by_file(self, ids: list[str], path: Path) -> tuple[Labeling, list[str] | None, list[Note]]:
        labels = read_label_file(path, self.options.label_separator)
        place = self._label_place()
        chosen, notes = _assign(
            labels, _NameResolver(ids, [str(PurePosixPath(place).parent), ".", CONTAINER]), path
        )
        if not chosen:
            raise _no_match(labels, ids, path, self)
        bare = [
            Note(name, None, f"no entry in {place}; treated as unlabeled")
            for name in ids
            if name not in chosen
        ]
        refuse_if_strict([*notes, *bare], self.options)
        rows = [chosen[name].labels or None if name in chosen else None for name in ids]
        split = [chosen[name].split if name in chosen else "" for name in ids] if labels.has_split else None
        labeling = label_sets(rows, single_label=labels.single_label)
        return labeling, split, [*limit_notes(notes), *limit_notes(bare)]


# State of each folder at the last call of its `digest`.
_seen: dict[tuple[ImageFolder, Path], str] = {}


@lru_cache(maxsize=1)
def _read_once(source: ImageFolder, cache_dir: Path, stamps: tuple[str, ...]) -> Collection:
    """Cache: the stages of one run read the same collection while the state of its files is the same."""
    return source.read_uncached(cache_dir)


def label_by_folder(
    ids: list[str], folder: Path, medium: Medium = IMAGES
) -> tuple[Labeling, list[str] | None]:
    """Derive classes and split from the folders of the images.

    `cat/1.jpg` has the class cat; so has `images/cat/1.jpg` and, in the split train, `train/cat/1.jpg`.
    Images at the top level or in a folder `unlabeled` are unlabeled.
    """
    parts = [PurePosixPath(name).parts[:-1] for name in ids]
    if {part[:1] for part in parts} == {(CONTAINER,)}:
        parts = [part[1:] for part in parts]
    split = None
    if {part[0].lower() if part else "" for part in parts} <= set(SPLITS):
        split = [part[0] for part in parts]
        parts = [part[1:] for part in parts]
    classes = [part[0] if part and part[0].lower() not in UNLABELED else None for part in parts]
    if not any(classes):
        raise SourceError(
            f"{folder} contains {len(ids)} {medium.noun} but no labels.{_parent_hint(folder)} Add labels.csv "
            "(filename,labels with the labels joined by '|') or metadata.csv/.jsonl/.parquet beside them, "
            "or sort them into one sub-folder per class."
        )
    return label_classes(classes), split


def _parent_hint(folder: Path) -> str:
    parent = folder.resolve().parent
    if folder.resolve().name == CONTAINER and find_label_file(parent):
        return f" There is a label file in {parent}: give that folder."
    return ""


class _NameResolver:
    """Finds the image that an entry of a label file names."""

    def __init__(self, ids: list[str], bases: list[str]) -> None:
        self._ids = set(ids)
        # File systems may store an accented letter as two characters, label files as one.
        self._composed = {unicodedata.normalize("NFC", name): name for name in ids}
        self._folded = {name.casefold(): name for name in ids}
        self._bases = list(dict.fromkeys(bases))

    def resolve(self, name: str) -> str | None:
        plain = name if self._bases[0] == "." else f"{self._bases[0]}/{name}"
        if plain in self._ids:  # fast path for the first candidate below
            return plain
        for candidate in self._candidates(name):
            if candidate in self._ids:
                return candidate
            if (found := self._composed.get(unicodedata.normalize("NFC", candidate))) is not None:
                return found
        return None

    def near_match(self, name: str) -> str | None:
        """An image whose name differs only in case."""
        found = (self._folded.get(candidate.casefold()) for candidate in self._candidates(name))
        return next((name for name in found if name is not None), None)

    def _candidates(self, name: str) -> list[str]:
        spellings = dict.fromkeys((name, name.strip(), name.strip().replace("\\", "/")))
        return [str(PurePosixPath(base, spelling)) for spelling in spellings for base in self._bases]


def _assign(labels: LabelFile, names: _NameResolver, path: Path) -> tuple[dict[str, LabelEntry], list[Note]]:
    """Assign entries to images; entries without an image and repeated ones become notes."""
    chosen: dict[str, LabelEntry] = {}
    notes = []
    for entry in labels.entries:
        name = names.resolve(entry.name)
        if name is None:
            near = names.near_match(entry.name)
            hint = f" (but {near!r} does)" if near else ""
            if PurePosixPath(entry.name).name.startswith("."):
                hint = " or is hidden: names that begin with a dot are ignored"
            notes.append(Note(path.name, entry.row, f"labels for {entry.name!r}, which does not exist{hint}"))
        elif name not in chosen:
            chosen[name] = entry
        elif _same(chosen[name], entry):
            notes.append(
                Note(path.name, entry.row, f"{entry.name!r} is repeated, as in line {chosen[name].row}")
            )
        else:
            raise SourceError(
                f"{path}, line {entry.row}: {entry.name!r} is repeated with other labels than in line "
                f"{chosen[name].row} ({'|'.join(entry.labels)[:80]!r}, before "
                f"{'|'.join(chosen[name].labels)[:80]!r}). "
                "Keep one line per file, with its labels joined by the separator."
            )
    return chosen, notes


def _same(first: LabelEntry, second: LabelEntry) -> bool:
    return set(first.labels) == set(second.labels) and first.split == second.split


def _no_match(labels: LabelFile, ids: list[str], path: Path, source: ImageFolder) -> SourceError:
    named = labels.entries[0].name if labels.entries else "nothing"
    return SourceError(
        f"{path}: none of its {len(labels.entries)} entries names {source.medium.one} in {source.folder}. "
        f"It names {named!r}; the folder contains {ids[0]!r}. "
        "Names are relative to the folder, or to its images/."
    )


class ImageReader:
    """Opens folders of images."""

    kind = IMAGES.kind
    supports = "a folder of images with labels.csv, metadata.csv/.jsonl/.parquet or one sub-folder per class"
    names: tuple[str, ...] = ()
    reads_folders = True
    medium: Medium | None = IMAGES

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """A folder with images in it, or the label file of one."""
        if path.is_dir():
            return self._recognize_folder(path, options, cache_dir)
        if not (path.is_file() and _is_label_file(path, self._medium)):
            return Match.NO
        # A label file alone is that of images, which opening it reports.
        main = main_medium(path.parent, cache_dir) or IMAGES
        return Match.POSSIBLE if main is self._medium else Match.NO

    @property
    def _medium(self) -> Medium:
        assert self.medium is not None
        return self.medium

    def _recognize_folder(self, folder: Path, options: SourceOptions, cache_dir: Path) -> Match:
        medium = self._medium
        if not holds_images(folder, cache_dir, medium):
            return Match.NO
        if options.labels is not None or find_label_file(folder) or _are_below(folder, cache_dir, medium):
            return Match.CERTAIN
        return Match.POSSIBLE

    def open(self, path: Path, options: SourceOptions) -> ImageFolder:
        """Open a folder, or the folder of a label file."""
        if path.is_dir():
            if not options.labeled:
                return self._make(path, None, options)
            found = given_file(options, path) or check_inside(find_label_file(path), path)
            return self._make(path, found, options)
        folder = path.parent
        if folder.name == CONTAINER and not holds_images(folder, medium=self._medium):
            folder = folder.parent
        return self._make(folder, check_inside(path, folder) if options.labeled else None, options)

    def _make(self, folder: Path, label_file: Path | None, options: SourceOptions) -> ImageFolder:
        return ImageFolder(folder, label_file, options, self._medium)


class SoundReader(ImageReader):
    """Opens folders of sound files."""

    kind = SOUND.kind
    supports = "a folder of .wav, .flac or .ogg files, labeled like images"
    medium: Medium | None = SOUND


class TextReader(ImageReader):
    """Opens folders of texts."""

    kind = TEXT.kind
    supports = "a folder of .txt files, labeled like images"
    medium: Medium | None = TEXT

    def _recognize_folder(self, folder: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """Never certain: texts also describe a data set in the same folder."""
        return min(super()._recognize_folder(folder, options, cache_dir), Match.POSSIBLE)


def _are_below(folder: Path, cache_dir: Path, medium: Medium) -> bool:
    """Whether a sub-folder contains files of a medium; the home folder does not count."""
    found = scan_folders(str(folder), own_folders(cache_dir))
    return any(prefix and medium.has_name(entry.name) for prefix, files in found for entry in files)


def _is_label_file(path: Path, medium: Medium) -> bool:
    """Whether a file lists labels of images, by its name or its columns."""
    if path.suffix.lower() == ".jsonl" or is_label_file_name(path.name):
        return True
    if path.suffix.lower() not in CSV_SUFFIXES:
        return False
    header = read_header(path)[0]
    named = any(name.lower() in NAME_COLUMNS for name in header)
    return named or (len(header) == 2 and holds_images(path.parent, medium=medium))
