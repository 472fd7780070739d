"""`labelscape run` on collections of pictures as annotation tools export them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Manifest, unpack_manifest
from storage.artifacts.store import ArtifactStore
from tests.conftest import UNTRACKED, Command, run_locally
from tests.picture_collections import coco, draw, fiftyone, hub_lines, minimal, samples, task, write_json

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_engine")]

FILES = [f"{k:03}.jpg" for k in range(12)]
CLASSES: dict[str, Sequence[str] | None] = {
    name: None if k == 11 else [("cat", "dog")[k % 2]] for k, name in enumerate(FILES)
}
TAGS: dict[str, Sequence[str] | None] = {
    name: [["sky", "sea"], ["sky"], ["sea"], []][k % 4] for k, name in enumerate(FILES)
}
FEW = "fewer than 5 items"


@dataclass(frozen=True)
class Ingested:
    """What ingest stored."""

    manifest: Manifest
    notes: list[str]

    @property
    def labels(self) -> dict[str, list[str] | None]:
        """Labels by id; None is an unlabeled item."""
        names, found = self.manifest.label_names, self.manifest
        return {
            name: None if (row < 0).any() else [names[k] for k in row.nonzero()[0]]
            for name, row in zip(found.ids, found.labels, strict=True)
        }

    @property
    def splits(self) -> dict[str, str | None]:
        assert self.manifest.split is not None
        return dict(zip(self.manifest.ids, self.manifest.split, strict=True))


class Run:
    """`labelscape run SOURCE --until ingest`."""

    def __init__(self, command: Command, home: Path) -> None:
        self._command, self._home = command, home

    def __call__(self, source: Path, *settings: str) -> Ingested:
        done = self._answer(source, "--json", *settings)
        assert done.code == 0, done.err
        record = json.loads(done.out)
        [stage] = record["stages"]
        ref = ArtifactRef(stage["stage"], stage["key"], stage["digest"], "manifest", 0)
        notes = [note["message"] for note in record["notes"] if FEW not in note["message"]]
        return Ingested(unpack_manifest(ArtifactStore.local(self._home / "store").read(ref)), notes)

    def refusal(self, source: Path, *settings: str) -> str:
        # Ingest of a strict run would be fresh after one that is not strict.
        done = self._answer(source, *settings, "--refresh", "ingest")
        assert done.code == 2, done.out
        return done.err

    def _answer(self, source: Path, *settings: str) -> Any:
        given = [part for text in settings for part in (["--set", text] if "=" in text else [text])]
        return self._command("run", source, *UNTRACKED, *given, "--until", "ingest", "--home", self._home)


@pytest.fixture
def run(command: Command, tmp_path: Path) -> Run:
    return Run(command, tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "set"


def draw_all(folder: Path, names: Sequence[str] = FILES) -> None:
    for name in names:
        draw(folder / name)


def expect(labels: dict[str, Sequence[str] | None], prefix: str = "") -> dict[str, list[str] | None]:
    return {f"{prefix}{k}": None if v is None else sorted(v) for k, v in labels.items()}


class TestSubfolders:
    def test_a_directory_tree_of_fiftyone(self, run: Run, folder: Path) -> None:
        for name, given in CLASSES.items():
            draw(folder / (given[0] if given else "_unlabeled") / name)
        found = run(folder)
        assert found.manifest.single_label
        assert found.labels["cat/000.jpg"] == ["cat"]
        assert found.labels["_unlabeled/011.jpg"] is None
        assert found.notes == []

    def test_splits_of_the_hub_in_data(self, run: Run, folder: Path) -> None:
        draw_all(folder / "data" / "train" / "cat", FILES[:5])
        draw_all(folder / "data" / "train" / "dog", FILES[:5])
        draw_all(folder / "data" / "test" / "dog", FILES[5:7])
        found = run(folder)
        assert found.manifest.label_names == ["cat", "dog"]
        assert found.splits["data/train/dog/000.jpg"] == "train"
        assert found.splits["data/test/dog/005.jpg"] == "test"


class TestFiftyOne:
    @pytest.mark.parametrize("target", ["position", "name", "object"])
    def test_one_class_per_picture(self, run: Run, folder: Path, target: str) -> None:
        draw_all(folder / "data")
        content = fiftyone(CLASSES, multi=False)
        if target != "position":
            classes = content["classes"]
            names = {k: v if v is None else classes[v] for k, v in content["labels"].items()}
            objects = {k: v and {"label": v, "confidence": 0.9} for k, v in names.items()}
            content = {"classes": None, "labels": names if target == "name" else objects}
        write_json(folder / "labels.json", content)
        found = run(folder)
        assert found.labels == expect(CLASSES, "data/")
        assert found.manifest.single_label
        assert found.notes == []

    def test_several_labels_per_picture(self, run: Run, folder: Path) -> None:
        draw_all(folder / "data")
        write_json(folder / "labels.json", fiftyone(TAGS, multi=True))
        for source in (folder, folder / "labels.json"):
            found = run(source)
            assert found.labels == expect(TAGS, "data/")
            assert not found.manifest.single_label
            assert found.notes == []

    @pytest.mark.parametrize("multi", [False, True])
    @pytest.mark.parametrize("title", ["ground_truth", "weather"])
    def test_samples(self, run: Run, folder: Path, multi: bool, title: str) -> None:
        draw_all(folder / "data")
        labels = TAGS if multi else CLASSES
        write_json(folder / "samples.json", samples(labels, multi, title))
        write_json(folder / "metadata.json", {"media_type": "image", "sample_fields": []})
        for source in (folder, folder / "samples.json"):
            found = run(source)
            assert found.labels == expect(labels, "data/")
            assert found.manifest.single_label == (not multi)
            assert found.splits["data/000.jpg"] == "train"
            assert found.notes == [f"the labels are those of {title}; not used: guess"]

    def test_samples_with_detections(self, run: Run, folder: Path) -> None:
        """Labels are those of the objects, as in COCO; absolute paths are found by their end."""
        draw_all(folder / "data")
        content = samples(TAGS, multi=True)
        for sample in content["samples"]:
            sample["filepath"] = f"/elsewhere/{sample['filepath']}"
            if found := sample["ground_truth"]:
                sample["ground_truth"] = {"_cls": "Detections", "detections": found["classifications"]}
        write_json(folder / "samples.json", content)
        assert run(folder).labels == expect(TAGS, "data/")

    def test_samples_with_labels_in_several_fields(self, run: Run, folder: Path) -> None:
        draw_all(folder / "data")
        content = samples(CLASSES, multi=False, title="weather")
        for sample in content["samples"]:
            sample["place"] = {"_cls": "Classification", "label": "here"}
        write_json(folder / "samples.json", content)
        said = run.refusal(folder)
        assert "labels in several fields: weather, place" in said
        assert "rename the right one to ground_truth" in said
        for sample in content["samples"]:
            del sample["place"], sample["weather"], sample["guess"]
        write_json(folder / "samples.json", content)
        assert "no field of labels" in run.refusal(folder)

    def test_splits_paths_and_suffixes_in_names(self, run: Run, folder: Path) -> None:
        for split, names in (("train", FILES[:10]), ("validation", FILES[10:])):
            chosen = {f"a.b/{name}": TAGS[name] for name in names}
            draw_all(folder / split / "data", list(chosen))
            write_json(folder / split / "labels.json", fiftyone(chosen, multi=True))
        found = run(folder)
        assert found.labels["validation/data/a.b/010.jpg"] == ["sea"]
        assert found.splits["train/data/a.b/000.jpg"] == "train"
        assert found.splits["validation/data/a.b/010.jpg"] == "validation"

    def test_absolute_paths_inside_and_outside(self, run: Run, folder: Path) -> None:
        draw_all(folder / "data")
        draw(folder.parent / "other" / "x.jpg")
        content = fiftyone({str(folder / "data" / k): v for k, v in TAGS.items()}, multi=True)
        content["labels"][str(folder.parent / "other" / "x")] = [0]
        content["labels"]["../../other/x"] = [0]
        write_json(folder / "labels.json", content)
        found = run(folder)
        assert found.labels == expect(TAGS, "data/")
        assert [note.rpartition(", ")[2] for note in found.notes] == [f"which is outside {folder}"] * 2
        assert "is outside" in run.refusal(folder, "source.strict=true")

    def test_what_is_unknown_is_counted_and_listed(self, run: Run, folder: Path) -> None:
        draw_all(folder / "data", [*FILES, "extra.jpg", "010.png"])
        content = fiftyone(CLASSES, multi=False)
        content["labels"] |= {"gone": 0, "000": 7}
        write_json(folder / "labels.json", content)
        found = run(folder)
        assert found.labels["data/000.jpg"] is None
        assert found.labels["data/010.jpg"] is None
        assert found.notes == [
            "label 1: '000' has the class 7; there are 2 classes",
            "label 11: labels for '010', which several images have, with different suffixes",
            "label 13: labels for 'gone', which does not exist",
            *["no entry in labels.json; treated as unlabeled"] * 3,
        ]
        assert "6 problems" in run.refusal(folder, "source.strict=true")


OBJECTS = {
    "columns": lambda given: {"bbox": [[1, 2, 3, 4]] * len(given), "categories": given},
    "singular": lambda given: {
        "id": [0] * len(given),
        "bbox": [[1, 2, 3, 4]] * len(given),
        "category": given,
    },
    "list": lambda given: [{"bbox": [1, 2, 3, 4], "category": name} for name in given],
}
CARD = """---
license: mit
dataset_info:
  features:
  - name: image
    dtype: image
  - name: label
    dtype:
      class_label:
        names:
          '0': sea
          '1': 'sky'
  splits:
  - name: train
---
# A data set

- name: label
"""


class TestHuggingFace:
    @pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
    @pytest.mark.parametrize("layout", OBJECTS)
    def test_objects_with_boxes(self, run: Run, folder: Path, suffix: str, layout: str) -> None:
        draw_all(folder)
        records = [{"file_name": k, "objects": OBJECTS[layout](list(v or ()))} for k, v in TAGS.items()]
        if suffix == ".jsonl":
            (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, records)))
        else:
            pq.write_table(pa.Table.from_pylist(records), folder / "metadata.parquet")
        found = run(folder)
        assert found.labels == expect(TAGS)
        assert not found.manifest.single_label
        assert found.notes == []

    def test_objects_that_are_numbers(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        records = [
            {"file_name": k, "objects": {"bbox": [], "categories": [n % 2, 5]}} for n, k in enumerate(FILES)
        ]
        (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, records)))
        assert run(folder).manifest.label_names == ["0", "1", "5"]

    def test_each_split_has_its_own_metadata(self, run: Run, folder: Path) -> None:
        parts = {"train": FILES[:6], "test": FILES[6:9], "validation": FILES[9:]}
        for split, names in parts.items():
            draw_all(folder / split, names)
        (folder / "train" / "metadata.jsonl").write_text(hub_lines({k: TAGS[k] for k in parts["train"]}))
        rows = [f"{name},{'|'.join(TAGS[name] or ())}" for name in parts["test"]]
        (folder / "test" / "metadata.csv").write_text("\n".join(["file_name,labels", *rows]))
        columns = {"file_name": parts["validation"], "labels": [TAGS[name] for name in parts["validation"]]}
        pq.write_table(pa.table(columns), folder / "validation" / "metadata.parquet")
        found = run(folder)
        wanted = {f"{split}/{name}": TAGS[name] or None for split, names in parts.items() for name in names}
        assert found.labels == expect(wanted)
        assert found.splits == {f"{split}/{name}": split for split, names in parts.items() for name in names}

    def test_metadata_above_the_splits(self, run: Run, folder: Path) -> None:
        chosen = {f"{'train' if k < 8 else 'test'}/{name}": TAGS[name] for k, name in enumerate(FILES)}
        draw_all(folder, list(chosen))
        (folder / "metadata.jsonl").write_text(hub_lines(chosen))
        assert run(folder).splits == {name: name.partition("/")[0] for name in chosen}

    @pytest.mark.parametrize("place", ["card", "info", "schema"])
    def test_numbers_of_classes_have_names(self, run: Run, folder: Path, place: str) -> None:
        draw_all(folder / "train")
        numbers = [k % 2 for k in range(len(FILES))]
        features = {"image": {"_type": "Image"}, "label": {"names": ["sea", "sky"], "_type": "ClassLabel"}}
        if place == "card":
            (folder / "README.md").write_text(CARD)
        elif place == "info":
            write_json(folder / "train" / "dataset_info.json", {"features": features})
        if place == "schema":
            stored = json.dumps({"info": {"features": features}})
            table = pa.table({"file_name": FILES, "label": numbers})
            pq.write_table(
                table.replace_schema_metadata({"huggingface": stored}), folder / "train" / "metadata.parquet"
            )
        else:
            rows = [f"{name},{k}" for name, k in zip(FILES, numbers, strict=True)]
            (folder / "train" / "metadata.csv").write_text("\n".join(["file_name,label", *rows]))
        found = run(folder)
        assert found.labels["train/000.jpg"] == ["sea"]
        assert found.labels["train/001.jpg"] == ["sky"]
        assert found.manifest.single_label
        assert found.notes == []

    def test_another_name_of_a_class_changes_the_labels(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        rows = [f"{name},{k % 3}" for k, name in enumerate(FILES)]
        (folder / "metadata.csv").write_text("\n".join(["file_name,label", *rows]))
        assert run(folder).manifest.label_names == ["0", "1", "2"]
        (folder / "README.md").write_text(CARD)
        found = run(folder)
        assert found.manifest.label_names == ["2", "sea", "sky"]
        assert found.notes == ["class '2' is not among the 2 classes"] * 4
        (folder / "README.md").write_text(CARD.replace("sky", "air"))
        assert run(folder).manifest.label_names == ["2", "air", "sea"]

    def test_a_card_outside_the_collection_is_not_read(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        rows = [f"{name},{k % 2}" for k, name in enumerate(FILES)]
        (folder / "metadata.csv").write_text("\n".join(["file_name,label", *rows]))
        (folder.parent / "README.md").write_text(CARD)
        (folder / "README.md").symlink_to(folder.parent / "README.md")
        assert run(folder).manifest.label_names == ["0", "1"]

    def test_spaces_around_labels_are_reported(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        chosen = {name: ["sky " if k == 3 else "sky", "sea"][k % 2 :] for k, name in enumerate(FILES)}
        (folder / "metadata.jsonl").write_text(hub_lines({**chosen, FILES[2]: [" sky"]}))
        found = run(folder)
        assert found.manifest.label_names == ["sea", "sky"]
        assert found.notes == ["1 label has spaces around it, which do not count: ' sky'"]


class TestCoco:
    def test_the_layout_of_the_download(self, run: Run, folder: Path) -> None:
        """Pictures of equal names in both splits, and the other annotation files beside the instances."""
        draw_all(folder / "train2017")
        draw_all(folder / "val2017", FILES[:4])
        other = {name: ["dog"] for name in FILES[:4]}
        write_json(folder / "annotations" / "instances_train2017.json", coco(TAGS))
        write_json(folder / "annotations" / "instances_val2017.json", coco(other))
        captions = {**coco(TAGS), "annotations": [{"image_id": 1000, "id": 1, "caption": "A sea."}]}
        del captions["categories"]
        write_json(folder / "annotations" / "captions_train2017.json", captions)
        write_json(folder / "annotations" / "person_keypoints_val2017.json", coco(other))
        found = run(folder)
        assert found.labels == {**expect(TAGS, "train2017/"), **expect(other, "val2017/")}
        assert found.splits == {name: name.partition("2017")[0] for name in found.labels}
        assert found.notes == []

    @pytest.mark.parametrize("name", ["coco.json", "annotations/instances_default.json", "labels.json"])
    @pytest.mark.parametrize("prefix", ["", "images/", "data/", "deep/er/"])
    def test_one_file(self, run: Run, folder: Path, name: str, prefix: str) -> None:
        draw_all(folder / prefix)
        path = write_json(folder / name, coco(TAGS))
        for source in (folder, path):
            found = run(source)
            assert found.labels == expect(TAGS, prefix)
            assert found.manifest.split is None
            assert found.notes == []

    def test_folders_in_file_names_beside_classes(self, run: Run, folder: Path) -> None:
        """Pictures in sub-folders and a COCO file: the file counts."""
        chosen = {f"{'a' if k % 2 else 'b'}/{name}": TAGS[name] for k, name in enumerate(FILES)}
        draw_all(folder, list(chosen))
        write_json(folder / "coco.json", coco(chosen))
        assert run(folder).labels == expect(chosen)

    def test_one_file_per_split_of_roboflow(self, run: Run, folder: Path) -> None:
        for split, names in (("train", FILES[:8]), ("valid", FILES[8:10]), ("test", FILES[:2])):
            draw_all(folder / split, names)
            chosen = {name: TAGS[name] for name in names}
            write_json(folder / split / "_annotations.coco.json", coco(chosen))
        found = run(folder)
        assert found.labels["test/001.jpg"] == ["sky"]
        assert found.splits["test/001.jpg"] == "test"
        assert found.splits["valid/008.jpg"] == "valid"

    @pytest.mark.parametrize("place", ["{}/_annotations.coco.json", "annotations/instances_{}.json"])
    def test_a_missing_file_is_not_looked_for_in_another_split(
        self, run: Run, folder: Path, place: str
    ) -> None:
        draw_all(folder / "train", FILES[1:8])
        draw_all(folder / "valid", [*FILES[8:], FILES[0]])
        write_json(folder / place.format("train"), coco({name: TAGS[name] for name in FILES[:8]}))
        write_json(folder / place.format("valid"), coco({name: TAGS[name] for name in FILES[8:]}))
        found = run(folder)
        assert found.labels["train/001.jpg"] == ["sky"]
        assert found.labels["valid/000.jpg"] is None
        assert "image 1: labels for '000.jpg', which does not exist" in found.notes

    def test_annotations_elsewhere(self, run: Run, folder: Path, tmp_path: Path) -> None:
        draw_all(folder)
        path = write_json(tmp_path / "elsewhere" / "mine.json", coco(TAGS))
        assert "contains 12 images but no labels" in (said := run.refusal(folder))
        assert "--set source.labels=FILE.json" in said
        assert run(folder, f"source.labels={path}").labels == expect(TAGS)
        assert "elsewhere contains no images" in (said := run.refusal(path))
        assert f"--set source.labels={path}" in said

    def test_several_files_that_are_no_splits(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        write_json(folder / "first.json", coco(TAGS))
        write_json(folder / "second.json", coco({**TAGS, "000.jpg": ["dog"]}))
        assert "several label files: first.json, second.json" in (said := run.refusal(folder))
        assert "--set source.labels=first.json" in said
        assert run(folder, "source.labels=second.json").labels["000.jpg"] == ["dog"]

    @pytest.mark.parametrize("other", ["captions_train2017.json", "panoptic_train2017.json"])
    def test_companions_of_one_file(self, run: Run, folder: Path, other: str) -> None:
        draw_all(folder)
        write_json(folder / "train2017.json", coco(TAGS))
        write_json(folder / other, coco({name: ["person"] for name in FILES}))
        assert run(folder).labels == expect(TAGS)

    def test_instances_come_before_other_files(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        write_json(folder / "annotations" / "instances_all.json", coco(TAGS))
        write_json(folder / "annotations" / "persons_all.json", coco({name: ["person"] for name in FILES}))
        assert run(folder).labels == expect(TAGS)

    def test_what_is_unknown_is_counted_and_listed(self, run: Run, folder: Path) -> None:
        draw_all(folder, [*FILES, "extra.jpg", "a/twice.jpg", "b/twice.jpg"])
        content = coco({**TAGS, "gone.jpg": ["sky"], "../../etc/passwd.jpg": ["sky"], "/etc/p.jpg": ["sky"]})
        content["images"] += [
            {"id": 5, "file_name": "000.jpg"},
            {"id": 5, "file_name": "extra.jpg"},
            {"id": 6, "file_name": "twice.jpg"},
        ]
        content["annotations"] += [
            {"id": 1, "image_id": 99, "category_id": 1},
            {"id": 2, "image_id": 1000, "category_id": 98},
            {"id": 3, "image_id": 5, "category_id": 50},
            {"id": 4, "image_id": 1011},
        ]
        content["categories"].append({"id": 50, "name": "dog"})
        write_json(folder / "coco.json", content)
        found = run(folder)
        wanted = {**TAGS, "000.jpg": ["dog", "sea", "sky"]}
        assert {name: found.labels[name] for name in FILES} == expect(wanted)
        assert found.labels["extra.jpg"] is None
        count = len(content["annotations"])
        assert found.notes == [
            "image 17: 'extra.jpg' has the id 5 of another image; it is treated as unlabeled",
            "image 16: '000.jpg' is repeated, as in image 1",
            f"annotation {count - 2} is skipped: category_id 98 is not in categories",
            f"annotation {count} is skipped: category_id '' is not in categories",
            f"annotation {count - 3} is skipped: image_id 99 is not in images",
            "image 13: labels for 'gone.jpg', which does not exist",
            f"image 14: labels for '../../etc/passwd.jpg', which is outside {folder}",
            f"image 15: labels for '/etc/p.jpg', which is outside {folder}",
            "image 18: labels for 'twice.jpg', which may be 'a/twice.jpg' or 'b/twice.jpg'; write folders "
            "before the name",
            *["no entry in coco.json; treated as unlabeled"] * 2,
        ]
        assert "11 problems in total" in run.refusal(folder, "source.strict=true")

    def test_a_file_without_categories(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        content = coco(TAGS)
        del content["categories"]
        write_json(folder / "captions.json", content)
        said = run.refusal(folder)
        assert "has no categories, but info, licenses, images, annotations" in said
        assert "instances_*.json" in said

    def test_every_stage_runs(self, folder: Path, tmp_path: Path) -> None:
        """Pictures without any label are part of training and testing."""
        draw_all(folder)
        write_json(folder / "coco.json", coco(TAGS))
        assert "evaluation" in " ".join(run_locally(folder, tmp_path / "home").outcomes)


UPLOAD = "/data/upload/3/{:08x}-{}"


class TestLabelStudio:
    def test_choices_of_uploaded_pictures(self, run: Run, folder: Path) -> None:
        """The pictures have their own names, or those that the upload gave them."""
        addresses = {name: UPLOAD.format(k * 7919, name) for k, name in enumerate(FILES)}
        draw_all(folder, [*FILES[:6], *(f"media/{addresses[name].rpartition('/')[2]}" for name in FILES[6:])])
        tasks = [
            task(k, addresses[name], [] if given is None else [given])
            for k, (name, given) in enumerate(CLASSES.items(), start=1)
        ]
        write_json(folder / "project-3-at-2024-03-09.json", tasks)
        found = run(folder)
        assert found.manifest.single_label
        assert sorted(found.labels.values(), key=str) == sorted(expect(CLASSES).values(), key=str)
        assert found.labels["002.jpg"] == ["cat"]
        assert found.notes == []

    @pytest.mark.parametrize(
        "address",
        [
            "/data/local-files/?d=photos/day%201/{}",
            "{}",
            "https://example.com/a/b/{}?X-Signature=1",
            "s3://bucket/photos/{}",
            "gs://bucket/day 1/{}",
        ],
    )
    def test_addresses_of_pictures(self, run: Run, folder: Path, address: str) -> None:
        draw_all(folder / "photos" / "day 1")
        tasks = [task(k, address.format(name), [given or []]) for k, (name, given) in enumerate(TAGS.items())]
        write_json(folder / "export.json", tasks)
        found = run(folder)
        assert found.labels == expect(TAGS, "photos/day 1/")
        assert not found.manifest.single_label

    def test_folders_tell_equal_names_apart(self, run: Run, folder: Path) -> None:
        draw_all(folder, [f"{day}/{name}" for day in ("mon", "tue") for name in FILES])
        tasks = [
            task(k, f"/data/local-files/?d=all/{day}/{name}", [[day]])
            for k, (day, name) in enumerate((day, name) for day in ("mon", "tue") for name in FILES)
        ]
        write_json(folder / "export.json", [*tasks, task(99, "/data/upload/000.jpg", [["wed"]])])
        found = run(folder)
        assert found.labels == {f"{day}/{name}": [day] for day in ("mon", "tue") for name in FILES}
        assert found.notes == [
            "task 25: labels for 'data/upload/000.jpg', which may be 'mon/000.jpg' or 'tue/000.jpg'; "
            "write folders before the name"
        ]

    @pytest.mark.parametrize("kind", ["rectanglelabels", "polygonlabels", "brushlabels", "labels"])
    def test_regions(self, run: Run, folder: Path, kind: str) -> None:
        draw_all(folder)
        tasks = [
            task(k, name, [given or []], kind=kind, x=50.8, y=5.8, rotation=0)
            for k, (name, given) in enumerate(TAGS.items())
        ]
        write_json(folder / "export.json", tasks)
        found = run(folder)
        assert found.labels == expect(TAGS)
        assert not found.manifest.single_label

    def test_the_leaves_of_a_taxonomy(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        tasks = [
            task(k, name, [[["animal", given[0]]]] if given else [], kind="taxonomy")
            for k, (name, given) in enumerate(CLASSES.items())
        ]
        for one in tasks:
            for annotation in one["annotations"]:
                for result in annotation["result"]:
                    result["value"]["taxonomy"] = [["animal", *result["value"]["taxonomy"][0][1:]]]
        write_json(folder / "export.json", tasks)
        assert run(folder).labels == expect(CLASSES)

    def test_several_annotators(self, run: Run, folder: Path) -> None:
        """Their answers are joined; cancelled annotations and predictions do not count."""
        draw_all(folder)
        answers: dict[str, list[Sequence[str] | None]] = {name: [["cat"], ["cat"]] for name in FILES}
        answers |= {"000.jpg": [["cat"], ["dog"]], "001.jpg": [["dog"], None], "002.jpg": [None]}
        tasks = [task(k, name, given) for k, (name, given) in enumerate(answers.items(), start=1)]
        write_json(folder / "export.json", [*tasks, task(50, "003.jpg", [["dog"]])])
        found = run(folder)
        assert found.labels["000.jpg"] == ["cat", "dog"]
        assert found.labels["001.jpg"] == ["dog"]
        assert found.labels["002.jpg"] is None
        assert found.labels["003.jpg"] == ["cat", "dog"]
        assert found.notes == [
            "task 4: '003.jpg' is in 2 tasks; their labels are joined",
            "annotators disagree on 2 of 10 images with several annotations, which get the labels of all: "
            "000.jpg, 003.jpg",
            "2 cancelled annotations are skipped",
        ]

    @pytest.mark.parametrize("several", [False, True])
    def test_json_min(self, run: Run, folder: Path, several: bool) -> None:
        draw_all(folder)
        if several:
            answers = {k: v[0] if v and len(v) == 1 else {"choices": list(v or ())} for k, v in TAGS.items()}
            records = [
                minimal(k, UPLOAD.format(k, name), tags=one) for k, (name, one) in enumerate(answers.items())
            ]
        else:
            given = [(name, v) for name, v in CLASSES.items() if v]
            records = [minimal(k, UPLOAD.format(k, name), choice=v[0]) for k, (name, v) in enumerate(given)]
        write_json(folder / "export.json", records)
        found = run(folder)
        assert found.labels == expect(TAGS if several else CLASSES)
        assert found.manifest.single_label is not several
        assert found.notes == ([] if several else ["no entry in export.json; treated as unlabeled"])

    def test_json_min_with_boxes_and_other_data(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        records = [
            {
                "caption": "not a label",
                **minimal(k, name, label=[{"x": 1, "rectanglelabels": [tag]} for tag in given or ()]),
            }
            for k, (name, given) in enumerate(TAGS.items())
        ]
        write_json(folder / "export.json", [*records, minimal(0, "000.jpg", label=[])])
        found = run(folder)
        assert found.labels == expect(TAGS)
        assert found.notes == [
            "annotators disagree on 1 of 1 images with several annotations, which get the labels of all: "
            "000.jpg"
        ]


class TestWhatIsNotRead:
    def test_archives_without_images(self, run: Run, folder: Path) -> None:
        folder.mkdir()
        for name in ("train-000000.tar", "train-000001.tar"):
            (folder / name).write_bytes(bytes(1024))
        for source in (folder, folder / "train-000000.tar"):
            said = run.refusal(source)
            assert "Unpack" in said

    def test_other_json_beside_pictures_is_left_alone(self, run: Run, folder: Path) -> None:
        """A file per picture, as LabelMe writes them, and files of other programs."""
        for name, given in CLASSES.items():
            draw(folder / (given[0] if given else "unlabeled") / name)
            write_json(folder / f"{name}.json", {"shapes": [], "imagePath": name, "images": [{"id": 1}]})
        write_json(folder / "config.json", {"labels": ["a", "b"], "annotations": []})
        assert run(folder).manifest.label_names == ["cat", "dog"]

    def test_one_annotation_file_per_picture_is_left_alone(self, run: Run, folder: Path) -> None:
        draw_all(folder / "cat", FILES)
        draw_all(folder / "dog", FILES)
        for k in range(60):
            write_json(folder / f"{k}.json", coco({"cat/000.jpg": ["paw"]}))
        assert run(folder).manifest.label_names == ["cat", "dog"]

    def test_json_of_an_unknown_kind_is_named(self, run: Run, folder: Path) -> None:
        draw_all(folder)
        write_json(folder / "mine.json", {"shapes": [], "imagePath": "a.jpg"})
        said = run.refusal(folder, "source.labels=mine.json")
        assert "is JSON with the keys shapes, imagePath" in said
        assert "COCO (images, annotations, categories)" in said
