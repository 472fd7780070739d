"""Tasks exported by Label Studio: JSON with all annotations, or JSON-MIN with one record per annotation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

from storage.errors import SourceError
from storage.quoting import list_names, quote
from storage.sources.base import Note
from storage.sources.image_files import is_image_name
from storage.sources.json_text import JsonFile
from storage.sources.label_entries import LabelEntry, LabelFile, check_file_name, check_label

# Keys of a result that name the label of a whole image, and those of a region in it.
_CLASSES = ("choices", "taxonomy")
# fmt: off
_REGIONS = (
    "rectanglelabels", "polygonlabels", "brushlabels", "ellipselabels", "keypointlabels", "bitmasklabels",
    "labels",
)
# fmt: on
# Members of a task of the full export.
_FULL = ("data", "annotations", "completions")
# Members of a record of JSON-MIN that are not made by annotators.
_FACTS = frozenset(("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement"))
# Label Studio writes a random prefix before the name of an uploaded file.
_UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)")


@dataclass
class _Task:
    """What is known of one image: the labels of each annotator."""

    row: int
    answers: list[tuple[str, ...]] = field(default_factory=list)
    has_regions: bool = False
    times: int = 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that any annotator gave."""
        return tuple(dict.fromkeys(name for answer in self.answers for name in answer))


def read_label_studio(path: Path) -> LabelFile:
    """Read the labels of images: the union of the answers of all annotators.

    Cancelled annotations and predictions do not count. An image without annotation is unlabeled; one with an
    empty annotation has no label. Images are found by the names of their files.
    """
    tasks: dict[str, _Task] = {}
    outputs: dict[str, None] = {}
    cancelled = 0
    for member, number, record in JsonFile(path).values():
        where = f"{path}, task {number}"
        if member or not isinstance(number, int) or not isinstance(record, dict):
            raise SourceError(f"{path}: {quote(record)} found; expected a list of tasks.")
        is_full = not record.keys().isdisjoint(_FULL)
        data = record.get("data") if is_full else record
        task = _task(tasks, _image_name(data, where), number, counts=is_full)
        if is_full:
            cancelled += _add_annotations(task, record, where)
        else:
            _add_record(task, record, outputs, where)
    if not tasks:
        raise SourceError(f"{path} contains no task. Export the project again, with its annotations.")
    return _label_file(tasks, path, cancelled, list(outputs))


def _task(tasks: dict[str, _Task], name: str, number: int, counts: bool) -> _Task:
    if name in tasks:
        tasks[name].times += counts
    return tasks.setdefault(name, _Task(number))


def _label_file(tasks: dict[str, _Task], path: Path, cancelled: int, outputs: list[str]) -> LabelFile:
    single = all(len(task.labels) <= 1 and not task.has_regions for task in tasks.values())
    entries = []
    for name, task in tasks.items():
        is_labeled = task.answers and (task.labels or not single)
        entries.append(LabelEntry(name, task.labels if is_labeled else None, task.row, ""))
    remarks = _disagreements(tasks, path)
    if cancelled:
        remarks.append(Note(path.name, None, f"{cancelled} cancelled annotations are skipped"))
    if len(outputs) > 1:
        remarks.append(Note(path.name, None, f"the labels are those of {list_names(outputs)} together"))
    repeated = _repeated(tasks, path)
    return LabelFile(entries, single, False, unit="task", match="name", notes=repeated, remarks=remarks)


def _disagreements(tasks: dict[str, _Task], path: Path) -> list[Note]:
    """One note about all images whose annotators gave different labels."""
    names = [name for name, task in tasks.items() if len({frozenset(answer) for answer in task.answers}) > 1]
    if not names:
        return []
    several = sum(len(task.answers) > 1 for task in tasks.values())
    text = (
        f"annotators disagree on {len(names)} of {several} images with several annotations, which get the "
        f"labels of all: {list_names(names, 5)}"
    )
    return [Note(path.name, None, text)]


def _repeated(tasks: dict[str, _Task], path: Path) -> list[Note]:
    return [
        Note(
            path.name,
            None,
            f"task {task.row}: {quote(name)} is in {task.times} tasks; their labels are joined",
        )
        for name, task in tasks.items()
        if task.times > 1
    ]


def _image_name(data: object, where: str) -> str:
    """Path of the image of a task: of an upload, a local file or an address, without host and prefix."""
    if not isinstance(data, dict):
        raise SourceError(f"{where}: data is {quote(data)}; expected an object with the address of an image.")
    values = [data.get("image"), *(value for value in data.values() if isinstance(value, str))]
    for value in values:
        if isinstance(value, str) and is_image_name(name := _path_in(value)):
            return check_file_name(name, where)
    found = data.get("image", list(data))
    raise SourceError(
        f"{where}: no image found in {quote(found)}; expected data.image with the name or address of an "
        "image."
    )


def _path_in(address: str) -> str:
    """The path in an address; addresses of local files have it in `d`."""
    try:
        parts = urlsplit(address)
        is_local = parts.path.rstrip("/").endswith("/data/local-files")
        if is_local and (given := parse_qs(parts.query, max_num_fields=20).get("d")):
            return given[0]
    except ValueError:  # not an address
        return address
    if not parts.scheme and not address.startswith("/data/"):
        return address  # a plain name may contain "#", "?" and "%"
    return unquote(parts.path).lstrip("/")


def _add_annotations(task: _Task, record: dict[str, object], where: str) -> int:
    """Add the labels of each annotation; return how many are cancelled."""
    annotations = record.get("annotations", record.get("completions"))
    if not isinstance(annotations, list):
        raise SourceError(f"{where}: annotations is {quote(annotations)}; expected a list.")
    cancelled = 0
    for one in annotations:
        if not isinstance(one, dict) or not isinstance(one.get("result"), list):
            raise SourceError(f"{where}: {quote(one)} found; expected an annotation with a list `result`.")
        if one.get("was_cancelled") or one.get("skipped"):
            cancelled += 1
            continue
        values = (result.get("value") for result in one["result"] if isinstance(result, dict))
        _add_answer(task, [value for value in values if isinstance(value, dict)], where)
    return cancelled


def _add_record(task: _Task, record: dict[str, object], outputs: dict[str, None], where: str) -> None:
    """Add the labels of a record of JSON-MIN: answers stand between `id` and `annotator`."""
    keys = list(record)
    start = keys.index("id") + 1 if "id" in keys else 0
    values: list[dict[str, object]] = []
    for key in takewhile(lambda key: key != "annotator", keys[start:]):
        answer = record[key]
        found = [_as_value(one) for one in (answer if isinstance(answer, list) else [answer])]
        known = [one for one in found if one is not None and _has_labels(one)]
        if key not in _FACTS and known:
            outputs[key] = None
            values += known
    _add_answer(task, values, where)


def _as_value(answer: object) -> dict[str, object] | None:
    """An answer of JSON-MIN as the full export writes it: a single choice is given as text."""
    if isinstance(answer, str):
        return {"choices": [answer]}
    return answer if isinstance(answer, dict) else None


def _has_labels(value: dict[str, object]) -> bool:
    return any(key in value for key in (*_CLASSES, *_REGIONS))


def _add_answer(task: _Task, values: list[dict[str, object]], where: str) -> None:
    task.answers.append(tuple(dict.fromkeys(name for value in values for name in _labels(value, where))))
    task.has_regions |= any(key in value for value in values for key in _REGIONS)


def _labels(value: dict[str, object], where: str) -> Iterator[str]:
    for key in (*_CLASSES, *_REGIONS):
        given = value.get(key, [])
        if not isinstance(given, list):
            raise SourceError(f"{where}: {key} is {quote(given)}; expected a list.")
        for one in given:
            # A choice in a taxonomy is the path from the root to it.
            leaf = one[-1] if key == "taxonomy" and isinstance(one, list) and one else one
            yield check_label(leaf, where)


def without_prefix(name: str) -> str | None:
    """Name of an uploaded file before Label Studio put a prefix before it."""
    found = _UPLOADED.fullmatch(PurePosixPath(name).name)
    return found[1] if found else None
