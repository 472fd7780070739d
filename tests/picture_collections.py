"""Collections of pictures in the layouts of the tools that export them, from the labels of each picture."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

# Labels by path; None is an unlabeled picture.
Labels = Mapping[str, Sequence[str] | None]


def draw(path: Path) -> None:
    """A small picture that differs from all others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = int.from_bytes(str(path).encode()[-16:], "big")
    pixels = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def write_json(path: Path, value: Any) -> Path:
    """Write a value as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def names_of(labels: Labels) -> list[str]:
    """The labels in the order in which they first occur."""
    return list(dict.fromkeys(name for given in labels.values() for name in given or ()))


def coco(labels: Labels) -> dict[str, Any]:
    """Annotations as `instances_val2017.json` has them: two boxes of the first label, ids with gaps."""
    ids = {name: 7 * k + 1 for k, name in enumerate(names_of(labels))}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for k, (file, given) in enumerate(labels.items()):
        image = 1000 + 11 * k
        images.append(
            {
                "license": 4,
                "file_name": file,
                "coco_url": f"http://images.cocodataset.org/val2017/{file}",
                "height": 6,
                "width": 8,
                "date_captured": "2013-11-14 17:02:52",
                "id": image,
            }
        )
        annotations += [
            {
                "segmentation": [[1.5, 2.25, 3.0, 2.25, 3.0, 4.5]],
                "area": 3.2,
                "iscrowd": 0,
                "image_id": image,
                "bbox": [1.5, 2.25, 1.5, 2.25],
                "category_id": ids[name],
                "id": 10_000 + len(annotations) + place,
            }
            for place, name in enumerate([*list(given or ())[:1], *(given or ())])
        ]
    categories = [{"supercategory": "thing", "id": number, "name": name} for name, number in ids.items()]
    return {
        "info": {"description": "COCO 2017 Dataset", "year": 2017},
        "licenses": [{"url": "http://creativecommons.org/licenses/by/2.0/", "id": 4, "name": "BY"}],
        "images": images,
        "annotations": annotations,
        "categories": categories,
    }


def fiftyone(labels: Labels, multi: bool) -> dict[str, Any]:
    """Labels as FiftyOneImageClassificationDataset has them: positions in `classes`, names without suffix."""
    classes = sorted(names_of(labels))
    targets = {
        file.rpartition(".")[0]: None if given is None else [classes.index(name) for name in given]
        for file, given in labels.items()
    }
    plain = (
        {name: None if found is None else found[0] for name, found in targets.items()} if not multi else {}
    )
    return {"classes": classes, "labels": targets if multi else plain}


def samples(labels: Labels, multi: bool, title: str = "ground_truth", guess: bool = True) -> dict[str, Any]:
    """Samples as FiftyOneDataset has them in `samples.json`, with predictions (`guess`) beside the labels."""
    guesses = {"_cls": "Detections", "detections": [{"_cls": "Detection", "label": "cat"}]}
    made = []
    for number, (file, given) in enumerate(labels.items()):
        classes = [{"_cls": "Classification", "label": name, "tags": []} for name in given or ()]
        several = {"_cls": "Classifications", "classifications": classes}
        value = None if given is None else several if multi else classes[0]
        made.append(
            {
                "_id": {"$oid": f"{number:024x}"},
                "filepath": f"data/{file}",
                "tags": ["new", "train"],
                "metadata": {"_cls": "ImageMetadata", "width": 8, "height": 8},
                title: value,
                **({"guess": guesses} if guess else {}),
            }
        )
    return {"samples": made}


def hub_lines(labels: Labels, **more: Any) -> str:
    """Lines of `metadata.jsonl` with the column `label` or `labels`, as `datasets` reads them."""
    records = ({"file_name": file, **more, "labels": given} for file, given in labels.items())
    return "\n".join(map(json.dumps, records)) + "\n"


def task(number: int, image: str, answers: Sequence[Sequence[str] | None], **region: Any) -> dict[str, Any]:
    """A task of Label Studio's JSON export, with one annotation per answer; None is a cancelled one."""
    kind = region.pop("kind", "choices")
    annotations = [
        {
            "id": 100 * number + k,
            "completed_by": k + 1,
            "result": [
                {
                    "value": {**region, kind: [name] if kind != "choices" else list(answer or ())},
                    "id": "Dx_aB91ISN",
                    "from_name": "choice",
                    "to_name": "image",
                    "type": kind,
                    "origin": "manual",
                }
                for name in (list(answer or ()) if kind != "choices" else ["all"])
            ],
            "was_cancelled": answer is None,
            "ground_truth": False,
            "created_at": "2024-03-09T22:16:08.728353Z",
            "lead_time": 4.288,
            "task": number,
        }
        for k, answer in enumerate(answers)
    ]
    return {
        "id": number,
        "annotations": annotations,
        "file_upload": image.rpartition("/")[2],
        "drafts": [],
        "predictions": [{"result": [{"value": {"choices": ["predicted"]}, "type": "choices"}]}],
        "data": {"image": image},
        "meta": {},
        "project": 83,
    }


def minimal(number: int, image: str, **answers: Any) -> dict[str, Any]:
    """A record of Label Studio's JSON-MIN export: data, id, answers, facts about the annotation."""
    return {
        "image": image,
        "id": number,
        **answers,
        "annotator": 1,
        "annotation_id": number + 70,
        "created_at": "2024-03-09T22:16:08.728353Z",
        "updated_at": "2024-03-09T22:16:08.728378Z",
        "lead_time": 4.288,
    }
