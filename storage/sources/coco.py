"""COCO annotations: the labels of an image are the names of the categories of its annotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from storage.errors import SourceError
from storage.quoting import list_names, quote
from storage.sources.base import Note
from storage.sources.json_text import JsonFile
from storage.sources.label_entries import LabelEntry, LabelFile, check_file_name, check_label

_MEMBERS = ("images", "annotations", "categories")


@dataclass
class _Content:
    """What is kept of a file: names and ids."""

    path: Path
    names: list[str] = field(default_factory=list)
    # Ids of images and categories: numbers or texts.
    images: dict[object, int] = field(default_factory=dict)
    categories: dict[object, str] = field(default_factory=dict)
    found: dict[object, dict[object, int]] = field(default_factory=dict)
    repeated: dict[int, object] = field(default_factory=dict)

    def add_image(self, number: int, record: dict[str, object]) -> None:
        name = check_file_name(record.get("file_name"), f"{self.path}, image {number}")
        known = _id(record.get("id"), f"{self.path}, image {number}")
        if known in self.images:
            self.repeated[len(self.names)] = known
        self.images.setdefault(known, len(self.names))
        self.names.append(name)

    def add_category(self, number: int, record: dict[str, object]) -> None:
        where = f"{self.path}, category {number}"
        known, name = _id(record.get("id"), where), check_label(record.get("name"), where)
        if self.categories.setdefault(known, name) != name:
            raise SourceError(
                f"{where}: the id {quote(known)} is that of {quote(self.categories[known])} and of "
                f"{quote(name)}. Give each category its own id."
            )

    def add_annotation(self, number: int, record: dict[str, object]) -> None:
        where = f"{self.path}, annotation {number}"
        image = _id(record.get("image_id", ""), where, "image_id")
        category = _id(record.get("category_id", ""), where, "category_id")
        self.found.setdefault(image, {}).setdefault(category, number)


def _id(value: object, where: str, name: str = "id") -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise SourceError(f"{where}: {name} is {quote(value)}; expected a number or a text.")
    return value


def read_coco(path: Path) -> LabelFile:
    """Read a file with `images`, `annotations` and `categories`.

    An image without annotations is labeled, with no label. Annotations of unknown images or categories, and
    repeated images, become notes. Everything else in the file is skipped.
    """
    content = _Content(path)
    add = dict(zip(_MEMBERS, (content.add_image, content.add_annotation, content.add_category), strict=True))
    file = JsonFile(path)
    for member, number, record in file.values():
        if member not in add:
            continue
        if not isinstance(record, dict) or not isinstance(number, int):
            raise SourceError(f"{path}: {member} contains {quote(record)}; expected a list of objects.")
        add[member](number, record)
    missing = [name for name in _MEMBERS if name not in file.members]
    if missing:
        raise SourceError(
            f"{path} has no {' and no '.join(missing)}, but {list_names(file.members)}. Labels are the "
            "categories of the annotations: give a file with images, annotations and categories "
            "(instances_*.json)."
        )
    entries, notes = _entries(content), _notes(content)
    return LabelFile(entries, single_label=False, has_split=False, unit="image", match="tail", notes=notes)


def _entries(content: _Content) -> list[LabelEntry]:
    """One entry per file name, in the order of the images."""
    labels: list[tuple[str, ...] | None] = [()] * len(content.names)
    for image, found in content.found.items():
        if image in content.images:
            names = (content.categories[one] for one in found if one in content.categories)
            labels[content.images[image]] = tuple(dict.fromkeys(names))
    for place in content.repeated:
        labels[place] = None  # its annotations cannot be told from those of the other image
    merged: dict[str, LabelEntry] = {}
    for row, (name, one) in enumerate(zip(content.names, labels, strict=True), start=1):
        before = merged.get(name)
        if before is None or before.labels is None:
            merged[name] = LabelEntry(name, one, row if before is None else before.row, "")
        elif one:
            merged[name] = LabelEntry(name, tuple(dict.fromkeys([*before.labels, *one])), before.row, "")
    return list(merged.values())


def _notes(content: _Content) -> list[Note]:
    file = content.path.name
    notes = [
        Note(
            file,
            None,
            f"image {place + 1}: {quote(content.names[place])} has the id {quote(known)} of another image; "
            "it is treated as unlabeled",
        )
        for place, known in content.repeated.items()
    ]
    seen: dict[str, int] = {}
    for row, name in enumerate(content.names, start=1):
        if seen.setdefault(name, row) != row:
            notes.append(
                Note(file, None, f"image {row}: {quote(name)} is repeated, as in image {seen[name]}")
            )
    for image, found in content.found.items():
        for category, number in found.items():
            if image not in content.images:
                what = f"image_id {quote(image)} is not in images"
            elif category not in content.categories:
                what = f"category_id {quote(category)} is not in categories"
            else:
                continue
            notes.append(Note(file, None, f"annotation {number} is skipped: {what}"))
    return notes
