"""Folders of images, labeled by a file beside them or by the sub-folder they lie in."""

from __future__ import annotations

import os
import time
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from storage.errors import SourceError
from storage.sources.base import (
    Collection,
    Note,
    SourceOptions,
    combine_digests,
    limit_notes,
    refuse_if_strict,
)
from storage.sources.image_files import IMAGE_SUFFIXES, ImageListing, list_images, stamp_files
from storage.sources.label_files import (
    LABEL_FILE_NAMES,
    LabelEntry,
    LabelFile,
    is_label_file_name,
    read_label_file,
)
from storage.sources.labeling import Labeling, label_classes, label_sets, settle_labels
from storage.sources.listing import digest_files, index_path, recall_digest, remember_digest

IMAGES = "images"
UNLABELED = ("unlabeled", "unlabeled")
# Of `labels` and `metadata`.
_INITIALS = "lLmM"
SPLITS = ("train", "test", "val", "valid", "validation")


def find_label_file(folder: Path) -> Path | None:
    """The label file of a folder of images, in it or in its `images/`; several are refused.

    Other spellings (`Labels.CSV`) count where there is none in small letters.
    """
    for place in (folder, folder / IMAGES):
        if not place.is_dir():
            continue
        found = [path for name in LABEL_FILE_NAMES if (path := place / name).is_file()]
        found = found or _other_spellings(place)
        if len(found) > 1:
            listed = ", ".join(path.name for path in found)
            raise SourceError(
                f"{place} has several label files: {listed}. Name one in `labels`, or move the rest."
            )
        if found:
            return found[0]
    return None


def _other_spellings(place: Path) -> list[Path]:
    # By name first: a folder of images holds many files, and looking at each takes long.
    names = os.listdir(place)  # noqa: PTH208
    named = sorted(name for name in names if name[0] in _INITIALS and is_label_file_name(name))
    return [place / name for name in named if (place / name).is_file()]


@dataclass(frozen=True)
class ImageFolder:
    """A folder of images; without `label_file` the sub-folders are the classes."""

    folder: Path
    label_file: Path | None
    options: SourceOptions
    kind: str = "images"

    @property
    def name(self) -> str:
        return self.folder.resolve().name or "images"

    def digest(self, cache_dir: Path) -> str:
        """Digest of images and labels; while no file's size or time changes, the remembered one."""
        stamp = stamp_files(self.folder, skip=cache_dir)
        _seen[self, cache_dir] = stamp.text
        memo = index_path(cache_dir, self.folder).with_suffix(".stamp")
        images = recall_digest(memo, stamp)
        if images is None:
            begun = time.time_ns()
            images = self._digest_images(cache_dir)
            remember_digest(memo, stamp, images, begun)
        if self.label_file is None:
            return images
        own = digest_files([self.label_file], index_path(cache_dir, self.label_file))
        return combine_digests([images, "labels", self._label_place(), *own])

    def _digest_images(self, cache_dir: Path) -> str:
        listing = self._list(cache_dir)
        parts = ["images", *(f"{note.file}: {note.message}" for note in listing.notes)]
        for name, digest in zip(listing.images, self._digests(listing, cache_dir), strict=True):
            parts += [name, digest]
        return combine_digests(parts)

    def read(self, cache_dir: Path) -> Collection:
        """List the images and read their labels; no image is decoded.

        What the last `digest` of this process saw is not listed again: who reads an image later compares its
        content with the digest that is given here.
        """
        known = _seen.get((self, cache_dir))
        stamps = [known or stamp_files(self.folder, skip=cache_dir).text]
        if self.label_file is not None:
            stamps += digest_files([self.label_file], index_path(cache_dir, self.label_file))
        return _read_once(self, cache_dir, tuple(stamps))

    def read_anew(self, cache_dir: Path) -> Collection:
        """As `read`, whatever was read before."""
        listing = self._list(cache_dir)
        refuse_if_strict(listing.notes, self.options)
        ids = list(listing.images)
        if self.label_file is None:
            labeling, split = label_by_folder(ids, self.folder)
            notes: list[Note] = []
        else:
            labeling, split, notes = self._label_by_file(ids, self.label_file)
        labeling, counts = settle_labels(labeling, self.options, self._where())
        return Collection(
            kind=self.kind,
            ids=ids,
            digests=self._digests(listing, cache_dir),
            labels=labeling.Y,
            label_names=labeling.names,
            split=split,
            single_label=labeling.single_label,
            paths=list(listing.images.values()),
            X=None,
            feature_names=None,
            notes=[*limit_notes(listing.notes), *notes, *counts],
        )

    def _list(self, cache_dir: Path) -> ImageListing:
        listing = list_images(self.folder, skip=cache_dir)
        if not listing.images:
            raise SourceError(
                f"{self.folder} holds no images ({' '.join(sorted(IMAGE_SUFFIXES))}). Give their folder."
            )
        return listing

    def _digests(self, listing: ImageListing, cache_dir: Path) -> list[str]:
        return digest_files(list(listing.images.values()), index_path(cache_dir, self.folder))

    def _where(self) -> str:
        return str(self.folder) if self.label_file is None else self._label_place()

    def _label_place(self) -> str:
        """The label file as messages call it: relative to the folder where it lies inside."""
        path = self.label_file or self.folder
        if path.is_relative_to(self.folder):
            return path.relative_to(self.folder).as_posix()
        return path.name

    def _label_by_file(self, ids: list[str], path: Path) -> tuple[Labeling, list[str] | None, list[Note]]:
        labels = read_label_file(path, self.options.label_separator)
        place = self._label_place()
        chosen, notes = _assign(
            labels, _NameResolver(ids, [str(PurePosixPath(place).parent), ".", IMAGES]), path
        )
        if not chosen:
            raise _no_match(labels, ids, path, self.folder)
        bare = [
            Note(name, None, f"no entry in {place}; counts as unlabeled")
            for name in ids
            if name not in chosen
        ]
        refuse_if_strict([*notes, *bare], self.options)
        rows = [chosen[name].labels or None if name in chosen else None for name in ids]
        split = [chosen[name].split if name in chosen else "" for name in ids] if labels.has_split else None
        labeling = label_sets(rows, single_label=labels.single_label)
        return labeling, split, [*limit_notes(notes), *limit_notes(bare)]


# State of each folder when its digest was last asked for.
_seen: dict[tuple[ImageFolder, Path], str] = {}


@lru_cache(maxsize=1)
def _read_once(source: ImageFolder, cache_dir: Path, stamps: tuple[str, ...]) -> Collection:
    """Stages of one run read the same collection; while its stamps are the same, so is what was read."""
    return source.read_anew(cache_dir)


def label_by_folder(ids: list[str], folder: Path) -> tuple[Labeling, list[str] | None]:
    """Classes and split by where each image lies.

    `cat/1.jpg` is of class cat; so are `images/cat/1.jpg` and, of split train, `train/cat/1.jpg`. What lies
    at the top or in a folder `unlabeled` is unlabeled.
    """
    parts = [PurePosixPath(name).parts[:-1] for name in ids]
    if {part[:1] for part in parts} == {(IMAGES,)}:
        parts = [part[1:] for part in parts]
    split = None
    if {part[0].lower() if part else "" for part in parts} <= set(SPLITS):
        split = [part[0] for part in parts]
        parts = [part[1:] for part in parts]
    classes = [part[0] if part and part[0].lower() not in UNLABELED else None for part in parts]
    if not any(classes):
        raise SourceError(
            f"{folder} holds {len(ids)} images but no labels.{_parent_hint(folder)} Put labels.csv "
            "(filename,labels with the labels joined by '|') or metadata.csv/.jsonl/.parquet beside them, "
            "or sort them into one sub-folder a class."
        )
    return label_classes(classes), split


def _parent_hint(folder: Path) -> str:
    parent = folder.resolve().parent
    if folder.resolve().name == IMAGES and find_label_file(parent):
        return f" A label file lies in {parent}: give that folder."
    return ""


class _NameResolver:
    """Finds the image that a label file means by a name."""

    def __init__(self, ids: list[str], bases: list[str]) -> None:
        self._ids = set(ids)
        # A disk may keep an accented letter as two characters where the label file has one.
        self._composed = {unicodedata.normalize("NFC", name): name for name in ids}
        self._folded = {name.casefold(): name for name in ids}
        self._bases = list(dict.fromkeys(bases))

    def resolve(self, name: str) -> str | None:
        plain = name if self._bases[0] == "." else f"{self._bases[0]}/{name}"
        if plain in self._ids:  # as the first candidate below, without the work
            return plain
        for candidate in self._candidates(name):
            if candidate in self._ids:
                return candidate
            if (found := self._composed.get(unicodedata.normalize("NFC", candidate))) is not None:
                return found
        return None

    def near_match(self, name: str) -> str | None:
        """An image whose name differs in case only."""
        found = (self._folded.get(candidate.casefold()) for candidate in self._candidates(name))
        return next((name for name in found if name is not None), None)

    def _candidates(self, name: str) -> list[str]:
        spellings = dict.fromkeys((name, name.strip(), name.strip().replace("\\", "/")))
        return [str(PurePosixPath(base, spelling)) for spelling in spellings for base in self._bases]


def _assign(labels: LabelFile, names: _NameResolver, path: Path) -> tuple[dict[str, LabelEntry], list[Note]]:
    """The entry of each image; entries without an image and repeated ones become notes."""
    chosen: dict[str, LabelEntry] = {}
    notes = []
    for entry in labels.entries:
        name = names.resolve(entry.name)
        if name is None:
            near = names.near_match(entry.name)
            hint = f" (but {near!r} is there)" if near else ""
            notes.append(Note(path.name, entry.row, f"labels for {entry.name!r}, which is not there{hint}"))
        elif name not in chosen:
            chosen[name] = entry
        elif _same(chosen[name], entry):
            notes.append(
                Note(path.name, entry.row, f"{entry.name!r} is listed again, as in line {chosen[name].row}")
            )
        else:
            raise SourceError(
                f"{path}, line {entry.row}: {entry.name!r} is listed again with other labels than in line "
                f"{chosen[name].row} ({'|'.join(entry.labels)!r}, before {'|'.join(chosen[name].labels)!r}). "
                "Keep one line a file, its labels joined by the separator."
            )
    return chosen, notes


def _same(first: LabelEntry, second: LabelEntry) -> bool:
    return set(first.labels) == set(second.labels) and first.split == second.split


def _no_match(labels: LabelFile, ids: list[str], path: Path, folder: Path) -> SourceError:
    named = labels.entries[0].name if labels.entries else "nothing"
    return SourceError(
        f"{path}: none of its {len(labels.entries)} entries names an image below {folder}. It names "
        f"{named!r}; the folder holds {ids[0]!r}. Names are relative to the folder, or to its images/."
    )
