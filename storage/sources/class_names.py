"""Names of classes that a Hugging Face data set numbers: from its card, its info file or a Parquet schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from storage.artifacts.regular_files import is_regular_file, open_regular
from storage.sources.base import LONGEST_NAME

ClassNames = dict[str, dict[str, str]]
"""By column: the name of each class by its number, as text."""
_STEM = "metadata"
_CARD, _INFO = "README.md", "dataset_info.json"
# Cards are short; ImageNet's 1,000 names take 40 kB.
_LONGEST_CARD = 4 * 1024**2
_MOST_NAMES = 100_000
_DEEPEST = 8
_FEATURE = re.compile(r"(?:-\s+)?name:\s*['\"]?([\w.-]+)['\"]?")
_NAME = re.compile(r"(?:['\"]?([0-9]{1,6})['\"]?:|-)\s+(.+)")


def class_name_files(label_file: Path, folder: Path) -> list[Path]:
    """The files in a collection that may name the classes of `metadata.*`, the nearest first.

    They are beside the label file or one folder up, but never outside `folder`. Links are not followed.
    """
    if not label_file.stem.lower().startswith(_STEM) or not label_file.is_relative_to(folder):
        return []
    folders = [one for one in label_file.parents[:2] if one.is_relative_to(folder)]
    found = (one / name for one in folders for name in (_INFO, _CARD))
    return [path for path in found if not path.is_symlink() and is_regular_file(path)]


def find_class_names(files: Sequence[Path]) -> ClassNames:
    """Names of classes from the first of some files that has any."""
    for path in files:
        with open_regular(path) as file:
            text = file.read(_LONGEST_CARD).decode("utf-8", "replace")
        if names := (names_in_card(text) if path.name == _CARD else _names_in_info(text)):
            return names
    return {}


def names_in_schema(metadata: Mapping[bytes, bytes] | None) -> ClassNames:
    """Names of classes that `datasets` stores in the schema of a Parquet file."""
    stored = (metadata or {}).get(b"huggingface", b"")
    return _names_in_info(stored.decode("utf-8", "replace")) if len(stored) <= _LONGEST_CARD else {}


def _names_in_info(text: str) -> ClassNames:
    try:
        info = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    found: ClassNames = {}
    _collect(info, "", found, 0)
    return found


def _collect(value: object, column: str, found: ClassNames, depth: int) -> None:
    """Find every ClassLabel; `feature` is the type of the elements of a list."""
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    names = value.get("names")
    if column and isinstance(names, list) and all(_is_name(name) for name in names):
        found.setdefault(column, {str(number): name for number, name in enumerate(names[:_MOST_NAMES])})
        return
    for key, inner in value.items():
        _collect(inner, column if key == "feature" else str(key), found, depth + 1)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()


def names_in_card(text: str) -> ClassNames:
    """Names of classes in the YAML block of a dataset card, which is written by `datasets` in this form::

    - name: label
      dtype:
        class_label:
          names:
            '0': cat
            '1': dog
    """
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    found: ClassNames = {}
    column, names, is_class = "", None, False
    for line in map(str.strip, lines[1:]):
        if line == "---":
            break
        entry = _NAME.fullmatch(line) if names is not None else None
        if names is not None and entry and not _FEATURE.fullmatch(line) and len(names) < _MOST_NAMES:
            name = entry[2].strip("'\"")
            if _is_name(name):
                names[entry[1] or str(len(names))] = name
            continue
        names = found.setdefault(column, {}) if is_class and line == "names:" else None
        is_class = line == "class_label:"
        if feature := _FEATURE.fullmatch(line):
            column = feature[1]
    return {column: known for column, known in found.items() if known}
