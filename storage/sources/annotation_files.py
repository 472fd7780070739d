"""Label files of every format: tables, and JSON files of annotation tools, recognized by their first keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from storage.errors import SourceError
from storage.quoting import list_names
from storage.sources.coco import read_coco
from storage.sources.fiftyone import read_fiftyone
from storage.sources.fiftyone_samples import read_samples
from storage.sources.json_text import Outline, outline
from storage.sources.label_entries import LabelFile
from storage.sources.label_files import read_label_file
from storage.sources.label_studio import read_label_studio

JSON = ".json"
_READERS: dict[str, Callable[[Path], LabelFile]] = {
    "coco": read_coco,
    "fiftyone": read_fiftyone,
    "fiftyone_samples": read_samples,
    "label_studio": read_label_studio,
}
_SUPPORTED = (
    "COCO (images, annotations, categories), FiftyOne (classes, labels, or samples) and exports of Label "
    "Studio (a list of tasks with data and annotations, or JSON-MIN)"
)


def annotation_kind(path: Path) -> str | None:
    """The tool whose format a JSON file has, by its first keys; None if it is another file."""
    try:
        begin = outline(path)
    except OSError:
        return None
    if begin.opening == "{":
        return _kind_of_object(begin)
    is_task = begin.keys.get("annotations", "")[:1] == "[" or begin.keys.get("completions", "")[:1] == "["
    is_record = not begin.keys.keys().isdisjoint(("annotation_id", "annotator"))
    return "label_studio" if begin.opening == "[" and (is_task or is_record) else None


def _kind_of_object(begin: Outline) -> str | None:
    lists = [
        name for name in ("images", "annotations", "categories") if begin.keys.get(name) in ("[{", "[]", "[")
    ]
    # Other programs also write one list of this name, but in a long file the others come later.
    if len(lists) > 1 or (lists and not begin.is_whole):
        return "coco"
    has_classes = begin.keys.get("classes", "")[:1] in ("[", "n") and "classes" in begin.keys
    if begin.keys.get("labels") == "{" or (has_classes and not begin.is_whole):
        return "fiftyone"
    return "fiftyone_samples" if begin.keys.get("samples") in ("[{", "[]", "[") else None


def read_labels(path: Path, separator: str, name_files: Sequence[Path] = ()) -> LabelFile:
    """Read a label file of any format; see `read_label_file` for the parameters."""
    if path.suffix.lower() != JSON:
        return read_label_file(path, separator, name_files)
    kind = annotation_kind(path)
    if kind is None:
        keys = list_names(outline(path).keys)
        raise SourceError(f"{path} is JSON with the keys {keys}. Supported label files are {_SUPPORTED}.")
    return _READERS[kind](path)
