"""Labels of pictures in the formats of other tools; our readers read all of them again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote as quote_url

from storage.artifacts.disk import store_errors
from storage.errors import ConfigError
from storage.exports import write_bytes, write_csv, write_json_lines
from storage.permissions import make_users_folder
from storage.quoting import quote

_DATA = "data"


@dataclass(frozen=True)
class LabeledItem:
    """An item to export.

    Attributes
    ----------
    id : str
    labels : tuple of str or None
        None if it is unlabeled.
    origin : {"given", "predicted", ""}
    scores : mapping of str to float
        Of its predicted labels.
    size : (width, height) or None
        Of a picture, in pixels.
    """

    id: str
    labels: tuple[str, ...] | None
    origin: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    size: tuple[int, int] | None = None


@dataclass(frozen=True)
class LabelExport:
    """Labeled items and what is the same for all of them."""

    items: Sequence[LabeledItem]
    label_names: Sequence[str]
    single_label: bool
    id_column: str = "filename"
    separator: str = "|"


def write_labels_as(form: str, made: LabelExport, out: Path) -> Path:
    """Write a label file of one of `FORMATS` into a folder."""
    return FORMATS[form](made, out)


def copy_pictures(form: str, folder: Path, ids: Sequence[str], out: Path) -> int:
    """Copy pictures beside their label file, where tools look for them; return their number."""
    target = out / _DATA if form == "fiftyone" else out
    with store_errors(out, "--out"):
        for name in ids:
            place = target / name
            if not place.resolve().is_relative_to(out.resolve()):
                raise ConfigError(f"the item {quote(name)} is not below its folder; it cannot be copied.")
            make_users_folder(place.parent)
            shutil.copyfile(folder / name, place)
    return len(ids)


def _csv(made: LabelExport, out: Path) -> Path:
    import pyarrow as pa

    columns = {
        made.id_column: [one.id for one in made.items],
        "label" if made.single_label else "labels": [
            made.separator.join(one.labels or ()) for one in made.items
        ],
        "origin": [one.origin for one in made.items],
    }
    return write_csv(pa.table(columns), out / "labels.csv", "--out")


def _hugging_face(made: LabelExport, out: Path) -> Path:
    """`metadata.jsonl` of an image folder of the library `datasets`."""
    records = (
        {
            "file_name": one.id,
            "labels": None if one.labels is None else list(one.labels),
            "origin": one.origin,
        }
        for one in made.items
    )
    return write_json_lines(records, out / "metadata.jsonl", "--out")


def _label_studio(made: LabelExport, out: Path) -> Path:
    """Tasks: given labels are annotations, predicted ones are predictions."""
    tasks = []
    for one in made.items:
        result = (
            [{"result": [label_choices(one.labels)] if one.labels else []}] if one.labels is not None else []
        )
        given = one.origin != "predicted"
        tasks.append(
            {
                "data": {"image": f"/data/local-files/?d={quote_url(one.id)}", "id": one.id},
                "annotations": result if given else [],
                "predictions": [] if given else result,
            }
        )
    return _json(tasks, out / "label_studio.json")


def label_choices(labels: Sequence[str]) -> dict[str, Any]:
    """The labels of a whole picture as a result of Label Studio."""
    return {
        "from_name": "labels",
        "to_name": "image",
        "type": "choices",
        "value": {"choices": list(labels)},
    }


def _fiftyone(made: LabelExport, out: Path) -> Path:
    """`labels.json` of FiftyOneImageClassificationDataset; pictures are in `data/`."""
    labels: dict[str, Any] = {}
    for one in made.items:
        known = None if one.labels is None else list(one.labels)
        single = made.single_label and known is not None
        labels[str(PurePosixPath(one.id).with_suffix(""))] = known[0] if single and known else known
    if len(labels) < len(made.items):
        raise ConfigError(
            "--to fiftyone: two pictures differ only by the ending of their names, which this format leaves "
            "out. Rename one of them, or choose another format."
        )
    return _json({"classes": list(made.label_names), "labels": labels}, out / "labels.json")


def _coco(made: LabelExport, out: Path) -> Path:
    """A file of instances whose boxes are whole pictures; COCO cannot say that a picture is unlabeled."""
    category = {name: number for number, name in enumerate(made.label_names, start=1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, one in enumerate((one for one in made.items if one.labels is not None), start=1):
        width, height = one.size or (0, 0)
        images.append({"id": number, "file_name": one.id, "width": width, "height": height})
        for label in one.labels or ():
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": category[label],
                    "bbox": [0, 0, width, height],
                    "area": width * height,
                    "iscrowd": 0,
                    **({"score": one.scores[label]} if label in one.scores else {}),
                }
            )
    categories = [{"id": number, "name": name} for name, number in category.items()]
    return _json({"images": images, "annotations": annotations, "categories": categories}, out / "coco.json")


def _json(content: Any, path: Path) -> Path:
    return write_bytes(json.dumps(content, indent=1).encode(), path, "--out")


FORMATS: Mapping[str, Callable[[LabelExport, Path], Path]] = {
    "csv": _csv,
    "hf": _hugging_face,
    "label-studio": _label_studio,
    "fiftyone": _fiftyone,
    "coco": _coco,
}
