"""Data sets in FiftyOne's own format: `samples.json` with one object per image, beside `data/`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from storage.errors import SourceError
from storage.quoting import list_names, quote
from storage.sources.base import Note
from storage.sources.json_text import JsonFile
from storage.sources.label_entries import SPLITS, LabelEntry, LabelFile, check_file_name, check_label

# The member with the labels of each class of FiftyOne; "" for one label.
_ONE = "Classification"
_CLASSES = {_ONE: "", "Classifications": "classifications"}
_REGIONS = {"Detections": "detections", "Polylines": "polylines", "Keypoints": "keypoints"}
# The name that FiftyOne gives to labels by default.
_USUAL = "ground_truth"


@dataclass
class _Field:
    """A field of labels: the class of its values, and the labels of each sample that has it."""

    kinds: set[str] = field(default_factory=set)
    labels: dict[int, tuple[str, ...]] = field(default_factory=dict)


def read_samples(path: Path) -> LabelFile:
    """Read the labels of images from the field of labels, `ground_truth` if there are several.

    The labels of an image are its classifications, or the labels of its detections. A sample without a value
    is unlabeled. A tag such as `train` is the split.
    """
    file = JsonFile(path)
    names: list[str] = []
    splits: list[str] = []
    fields: dict[str, _Field] = {}
    for member, number, sample in file.values():
        if member != "samples":
            continue
        where = f"{path}, sample {number}"
        if not isinstance(sample, dict):
            raise SourceError(f"{where}: {quote(sample)} found; expected an object with filepath.")
        _add_labels(fields, sample, len(names), where)
        names.append(check_file_name(sample.get("filepath"), where))
        splits.append(_split(sample.get("tags")))
    if not names:
        raise SourceError(f"{path} has no samples, but {list_names(file.members)}. Export it again.")
    title = _choose_field(fields, path)
    found = fields[title]
    entries = [
        LabelEntry(name, found.labels.get(row), row + 1, split)
        for row, (name, split) in enumerate(zip(names, splits, strict=True))
    ]
    return LabelFile(
        entries,
        single_label=found.kinds == {_ONE},
        has_split=any(splits),
        unit="sample",
        match="name",
        remarks=_remarks(title, fields, path),
    )


def _add_labels(fields: dict[str, _Field], sample: dict[str, object], row: int, where: str) -> None:
    for name, value in sample.items():
        kind = value.get("_cls") if isinstance(value, dict) else None
        member = {**_CLASSES, **_REGIONS}.get(kind) if isinstance(kind, str) else None
        if not isinstance(value, dict) or not isinstance(kind, str) or member is None:
            continue
        given = value.get(member) if member else [value]
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise SourceError(
                f"{where}: {member} of {quote(name)} is {quote(given)}; expected a list of objects."
            )
        labels = [one.get("label") for one in given]
        known = fields.setdefault(name, _Field())
        known.kinds.add(kind)
        if kind != _ONE or labels != [None]:  # a classification without a label is not made yet
            known.labels[row] = tuple(dict.fromkeys(check_label(one, where) for one in labels))


def _split(tags: object) -> str:
    """The tag that is a split; "" if there is none, or several."""
    found = (
        [tag for tag in tags if isinstance(tag, str) and tag.lower() in SPLITS]
        if isinstance(tags, list)
        else []
    )
    return found[0] if len(found) == 1 else ""


def _choose_field(fields: dict[str, _Field], path: Path) -> str:
    if _USUAL in fields:
        return _USUAL
    classes = [name for name, found in fields.items() if found.kinds <= set(_CLASSES)]
    chosen: Sequence[str] = classes or list(fields)
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise SourceError(
            f"{path} has no field of labels: no sample has classifications or detections. Export the data "
            "set with its labels."
        )
    raise SourceError(
        f"{path} has labels in several fields: {list_names(chosen)}. Export one of them "
        f"(dataset.select_fields({chosen[0]!r})), or rename the right one to {_USUAL}."
    )


def _remarks(title: str, fields: dict[str, _Field], path: Path) -> list[Note]:
    rest = [name for name in fields if name != title]
    if not rest:
        return []
    return [Note(path.name, None, f"the labels are those of {title}; not used: {list_names(rest)}")]
