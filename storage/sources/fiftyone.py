"""Image classification exported by FiftyOne: `data/` and `labels.json` with `classes` and `labels`."""

from __future__ import annotations

from pathlib import Path

from storage.errors import SourceError
from storage.quoting import list_names, quote
from storage.sources.base import Note
from storage.sources.json_text import JsonFile
from storage.sources.label_entries import LabelEntry, LabelFile, check_file_name, check_label

_Target = str | int


def read_fiftyone(path: Path) -> LabelFile:
    """Read the labels of images, which are named by their paths in `data/`, without suffix.

    A target is a class, or its position in `classes`, or an object with such a `label`; a list of targets
    means multi-label data. The target of an unlabeled image is null.
    """
    file = JsonFile(path)
    classes: list[str] = []
    targets: list[tuple[str, list[_Target] | None]] = []
    listed = False
    for member, key, value in file.values():
        where = f"{path}, {member} {quote(key)}"
        if member == "classes" and value is not None:
            classes.append(check_label(value, where))
        elif member == "labels" and isinstance(key, str):
            targets.append((check_file_name(key, where), _targets(value, where)))
            listed |= isinstance(value, list)
        elif member == "labels":
            raise SourceError(f'{path}: labels is {quote(value)}; expected {{"name of an image": target}}.')
    if "labels" not in file.members:
        raise SourceError(f"{path} has no labels, but {list_names(file.members)}. Export it again.")
    entries, notes = _entries(targets, classes, path)
    return LabelFile(
        entries, single_label=not listed, has_split=False, unit="label", match="stem", notes=notes
    )


def _targets(value: object, where: str) -> list[_Target] | None:
    """The targets of one image; None if it is unlabeled."""
    if value is None:
        return None
    found: list[_Target] = []
    for one in value if isinstance(value, list) else [value]:
        target = one.get("label") if isinstance(one, dict) else one
        if isinstance(target, bool) or not isinstance(target, int | str):
            raise SourceError(f"{where}: {quote(target)} found; expected a class or its position in classes.")
        found.append(check_label(target, where) if isinstance(target, str) else target)
    return found


def _entries(
    targets: list[tuple[str, list[_Target] | None]], classes: list[str], path: Path
) -> tuple[list[LabelEntry], list[Note]]:
    entries, notes = [], []
    for row, (name, found) in enumerate(targets, start=1):
        labels = []
        for target in found or []:
            if isinstance(target, str) or not classes:
                labels.append(str(target))
            elif 0 <= target < len(classes):
                labels.append(classes[target])
            else:
                what = f"the class {quote(target)}; there are {len(classes)} classes"
                notes.append(Note(path.name, None, f"label {row}: {quote(name)} has {what}"))
        is_unknown = found is None or (bool(found) and not labels)
        entries.append(LabelEntry(name, None if is_unknown else tuple(dict.fromkeys(labels)), row, ""))
    return entries, notes
