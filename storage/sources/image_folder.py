"""Folders of images, sound or texts, labeled by a file beside them or by sub-folder."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path, PurePosixPath

from storage.artifacts.file_stats import scan_folders
from storage.errors import SourceError
from storage.quoting import list_names
from storage.sources.annotation_files import JSON, annotation_kind, read_labels
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
from storage.sources.class_names import class_name_files
from storage.sources.columns import CSV_SUFFIXES, read_header
from storage.sources.image_files import (
    ImageListing,
    holds_images,
    list_images,
    main_medium,
    own_folders,
    stamp_files,
)
from storage.sources.image_names import NameResolver, assign_entries, no_match
from storage.sources.label_entries import SPLITS, LabelEntry, LabelFile
from storage.sources.label_files import NAME_COLUMNS, is_label_file_name
from storage.sources.label_places import (
    ANNOTATIONS,
    CONTAINERS,
    LabelPart,
    check_inside,
    find_label_files,
    split_in_name,
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

UNLABELED = ("unlabeled", "unlabelled", "_unlabeled", "_unlabelled")


@dataclass(frozen=True)
class ImageFolder:
    """A folder of images or another medium. Without label files the sub-folders are the classes."""

    folder: Path
    label_parts: tuple[LabelPart, ...]
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
        if not self.label_parts:
            return images
        places = [text for part in self.label_parts for text in (self._place(part.path), part.split)]
        return combine_digests([images, "labels", *places, *self._digest_labels(cache_dir)])

    def _digest_labels(self, cache_dir: Path) -> list[str]:
        """Digests of the label files, and of the files that name the classes."""
        files = [part.path for part in self.label_parts]
        files += dict.fromkeys(path for one in files for path in class_name_files(one, self.folder))
        return digest_files(files, index_path(cache_dir, files[0]))

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
        if self.label_parts:
            stamps += self._digest_labels(cache_dir)
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
        elif not self.label_parts:
            labeling, split = label_by_folder(ids, self.folder, self.medium)
        else:
            labeling, split, notes = self._label_by_files(ids)
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
            labels = f" with --set source.labels={self.label_parts[0].path}" if self.label_parts else ""
            known = " ".join(sorted(medium.suffixes))
            raise SourceError(
                f"{self.folder} contains no {medium.noun} ({known}). Give their folder{labels}."
            )
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
        return list_names((self._place(part.path) for part in self.label_parts), 3, empty=str(self.folder))

    def _place(self, path: Path) -> str:
        """Name of a label file in messages: relative to the folder if it is inside."""
        if path.is_relative_to(self.folder):
            return path.relative_to(self.folder).as_posix()
        return path.name

    def _label_by_files(self, ids: list[str]) -> tuple[Labeling, list[str] | None, list[Note]]:
        found = [(part, self._read_part(part)) for part in self.label_parts]
        chosen: dict[str, LabelEntry] = {}
        kinds: list[list[Note]] = []
        for part, labels in found:
            names = self.resolver(ids, part, labels)
            kinds += [labels.notes, assign_entries(labels, names, part, chosen)]
        if not chosen:
            raise no_match(found[0][1], ids, found[0][0].path, self.folder, self.medium.one)
        text = f"no entry in {self._where()}; treated as unlabeled"
        kinds.append([Note(name, None, text) for name in ids if name not in chosen])
        refuse_if_strict(list(chain(*kinds)), self.options)
        kinds += [labels.remarks for _, labels in found]
        rows = [chosen[name].labels if name in chosen else None for name in ids]
        labeling = label_sets(rows, single_label=all(labels.single_label for _, labels in found))
        return labeling, self._split(ids, chosen, found), list(chain(*map(limit_notes, kinds)))

    def resolver(self, ids: list[str], part: LabelPart, labels: LabelFile) -> NameResolver:
        """Finds the items that the entries of a label file name."""
        return NameResolver(ids, self._bases(part), self.folder, labels.match, part.split)

    def _read_part(self, part: LabelPart) -> LabelFile:
        return read_labels(part.path, self.options.label_separator, class_name_files(part.path, self.folder))

    def _split(
        self, ids: list[str], chosen: dict[str, LabelEntry], found: list[tuple[LabelPart, LabelFile]]
    ) -> list[str] | None:
        """The split that the label files state, or that the folders of Hugging Face's metadata are."""
        if any(labels.has_split or part.split for part, labels in found):
            return [chosen[name].split if name in chosen else "" for name in ids]
        if not any(part.path.name.lower().startswith("metadata.") for part, _ in found):
            return None
        return _leading_split([PurePosixPath(name).parts[:-1] for name in ids])

    def _bases(self, part: LabelPart) -> list[str]:
        """Folders that the names in a label file may be relative to, the most likely first."""
        own = str(PurePosixPath(self._place(part.path)).parent)
        # instances_train2017.json names images in train2017/.
        word = next((one for one in re.split(r"[_.\-]", part.path.stem) if split_in_name(one)), part.split)
        tops = [".", *CONTAINERS]
        below = [str(PurePosixPath(top, name)) for name in (word, part.split) if name for top in tops]
        return [own, *(f"{own}/{name}" for name in CONTAINERS), *below, *tops]


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
    Images at the top level or in a folder `unlabeled` or `_unlabeled` are unlabeled.
    """
    parts = [PurePosixPath(name).parts[:-1] for name in ids]
    if len(first := {part[:1] for part in parts}) == 1 and first <= {(name,) for name in CONTAINERS}:
        parts = [part[1:] for part in parts]
    split = _leading_split(parts)
    if split is not None:
        parts = [part[1:] for part in parts]
    classes = [part[0] if part and part[0].lower() not in UNLABELED else None for part in parts]
    if not any(classes):
        raise SourceError(
            f"{folder} contains {len(ids)} {medium.noun} but no labels.{_parent_hint(folder)} Add labels.csv "
            "(filename,labels with the labels joined by '|') or metadata.csv/.jsonl/.parquet beside them, "
            "sort them into one sub-folder per class, or name an annotation file of COCO, FiftyOne or Label "
            "Studio (--set source.labels=FILE.json)."
        )
    return label_classes(classes), split


def _leading_split(parts: list[tuple[str, ...]]) -> list[str] | None:
    """The first folder of each image, if all of them are splits."""
    if {part[0].lower() if part else "" for part in parts} <= set(SPLITS):
        return [part[0] for part in parts]
    return None


def _parent_hint(folder: Path) -> str:
    parent = folder.resolve().parent
    if folder.resolve().name in CONTAINERS and find_label_files(parent):
        return f" There is a label file in {parent}: give that folder."
    return ""


class ImageReader:
    """Opens folders of images."""

    kind = IMAGES.kind
    supports = (
        "a folder of images with labels.csv, metadata.csv/.jsonl/.parquet, one sub-folder per class, or an "
        "annotation file of COCO, FiftyOne or Label Studio"
    )
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
        if options.labels is not None or find_label_files(folder) or _are_below(folder, cache_dir, medium):
            return Match.CERTAIN
        return Match.POSSIBLE

    def open(self, path: Path, options: SourceOptions) -> ImageFolder:
        """Open a folder, or the folder of a label file."""
        if path.is_dir():
            return self._make(path, choose_label_parts(path, options), options)
        folder = path.parent
        if folder.name in (ANNOTATIONS, *CONTAINERS) and not holds_images(folder, medium=self._medium):
            folder = folder.parent
        parts = (LabelPart(check_inside(path, folder)),) if options.labeled else ()
        return self._make(folder, parts, options)

    def _make(self, folder: Path, label_parts: tuple[LabelPart, ...], options: SourceOptions) -> ImageFolder:
        return ImageFolder(folder, label_parts, options, self._medium)


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


def choose_label_parts(folder: Path, options: SourceOptions) -> tuple[LabelPart, ...]:
    """The label file that `source.labels` names, else those of the folder."""
    if not options.labeled:
        return ()
    if given := given_file(options, folder):
        return (LabelPart(given),)
    parts = find_label_files(folder)
    for part in parts:
        check_inside(part.path, folder)
    return parts


def _are_below(folder: Path, cache_dir: Path, medium: Medium) -> bool:
    """Whether a sub-folder contains files of a medium; the home folder does not count."""
    found = scan_folders(str(folder), own_folders(cache_dir))
    return any(prefix and medium.has_name(entry.name) for prefix, files in found for entry in files)


def _is_label_file(path: Path, medium: Medium) -> bool:
    """Whether a file lists labels of images, by its name or its columns."""
    if path.suffix.lower() == ".jsonl" or is_label_file_name(path.name):
        return True
    if path.suffix.lower() == JSON:
        return annotation_kind(path) is not None
    if path.suffix.lower() not in CSV_SUFFIXES:
        return False
    header = read_header(path)[0]
    named = any(name.lower() in NAME_COLUMNS for name in header)
    return named or (len(header) == 2 and holds_images(path.parent, medium=medium))
