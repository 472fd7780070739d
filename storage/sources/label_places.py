"""Find the label files of a folder of images, and the split that each of them describes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from storage.artifacts.regular_files import is_regular_file
from storage.errors import SourceError
from storage.quoting import list_names
from storage.sources.annotation_files import JSON, annotation_kind
from storage.sources.label_entries import SPLITS
from storage.sources.label_files import LABEL_FILE_NAMES, is_label_file_name

IMAGES = "images"
# Folders that contain all images, or their label file.
CONTAINERS = (IMAGES, "data")
ANNOTATIONS = "annotations"
# Initials of `labels` and `metadata`.
_INITIALS = "lLmM"
# Folders of images with one JSON file per image have more; only those with a usual name are looked at.
_MOST_JSON = 50
_USUAL = re.compile(r"labels|result|annotations|instances.*|.*coco.*", re.IGNORECASE)
# Files of COCO that accompany `instances_*.json`; captions have no categories.
_COMPANION = re.compile(r"(captions|person_keypoints|stuff|panoptic|image_info)_", re.IGNORECASE)
_INSTANCES = re.compile(r"instances_", re.IGNORECASE)


@dataclass(frozen=True)
class LabelPart:
    """A label file, and the split of the images that it names ("" if it does not say)."""

    path: Path
    split: str = ""


def find_label_files(folder: Path) -> tuple[LabelPart, ...]:
    """Find the label files of a folder of images; several that are not one per split are an error.

    Tables (`labels.csv`, `metadata.jsonl`) in the folder or in its `images/` or `data/` come first, then JSON
    files of annotation tools in the folder or in its `annotations/`, then one label file in each of the
    folders `train/`, `test/` and `validation/`.
    """
    for place in (folder, *(folder / name for name in CONTAINERS)):
        if found := _one_table(place):
            return (LabelPart(found),)
    for place in (folder, folder / ANNOTATIONS, *(folder / name for name in CONTAINERS)):
        if parts := _annotations(place):
            return parts
    for place in (folder, *(folder / name for name in CONTAINERS)):
        if parts := _in_splits(place):
            return parts
    return ()


def _one_table(place: Path) -> Path | None:
    """The table of labels in a folder; other capitalizations (`Labels.CSV`) count if there is no other."""
    if not place.is_dir():
        return None
    found = [path for name in LABEL_FILE_NAMES if is_regular_file(path := place / name)]
    found = found or _other_spellings(place)
    if len(found) > 1:
        raise _several(place, found)
    return found[0] if found else None


def _several(place: Path, found: list[Path]) -> SourceError:
    listed = list_names(path.name for path in found)
    return SourceError(
        f"{place} has several label files: {listed}. Name one in `labels` "
        f"(--set source.labels={found[0].name}), or move the rest."
    )


def _other_spellings(place: Path) -> list[Path]:
    # Filter by name first: a folder may contain many images, and a stat of each is slow.
    names = os.listdir(place)  # noqa: PTH208
    named = sorted(name for name in names if name[0] in _INITIALS and is_label_file_name(name))
    return [place / name for name in named if is_regular_file(place / name)]


def annotation_names(place: Path) -> list[str]:
    """Names of the JSON files of annotation tools in a folder."""
    if not place.is_dir():
        return []
    names = sorted(
        name
        for name in os.listdir(place)  # noqa: PTH208
        if name.lower().endswith(JSON) and not name.startswith(".")
    )
    if len(names) > _MOST_JSON:
        names = [name for name in names if _USUAL.fullmatch(name[: -len(JSON)])]
    kinds = {name: annotation_kind(place / name) for name in names if is_regular_file(place / name)}
    return [name for name, kind in kinds.items() if kind is not None]


def _annotations(place: Path) -> tuple[LabelPart, ...]:
    """The JSON file of a folder, or one per split by its name (`instances_train2017.json`)."""
    names = annotation_names(place)
    names = [name for name in names if _INSTANCES.match(name)] or names
    names = [name for name in names if not _COMPANION.match(name)] or names
    if len(names) < 2:
        return tuple(LabelPart(place / name) for name in names)
    splits = [split_in_name(name) for name in names]
    if "" in splits or len(set(splits)) < len(splits):
        raise _several(place, [place / name for name in names])
    return tuple(LabelPart(place / name, split) for name, split in zip(names, splits, strict=True))


def split_in_name(name: str) -> str:
    """The split in the name of a file; "" if there is none.

    >>> split_in_name("instances_train2017.json"), split_in_name("coco.json")
    ('train', '')
    """
    words = re.split(r"[^a-z]+", name.lower())
    return next((word for word in words if word in SPLITS), "")


def _in_splits(place: Path) -> tuple[LabelPart, ...]:
    """One label file in each folder of a split."""
    if not place.is_dir():
        return ()
    parts: list[LabelPart] = []
    for name in sorted(os.listdir(place)):  # noqa: PTH208
        folder = place / name
        if name.lower() not in SPLITS or not folder.is_dir():
            continue
        table = _one_table(folder)
        found = [LabelPart(table)] if table else list(_annotations(folder))
        if len(found) > 1:
            raise _several(folder, [part.path for part in found])
        parts += [LabelPart(part.path, name) for part in found]
    return tuple(parts)


def check_inside(path: Path, folder: Path) -> Path:
    """Return the label file of a folder; SourceError if it is a link to a file outside the folder.

    Messages and reports quote a label file, so a link in a collection from elsewhere could reveal any file
    that the user may read. A file that `source.labels` names may be anywhere.
    """
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise SourceError(
            f"{path} is a link to a file outside {folder}, which is not followed. If you trust it, name the "
            "file itself in source.labels, or replace the link by a copy."
        )
    return path
