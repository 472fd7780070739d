"""Labels in the formats of other tools come back through our own readers."""

import json
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from storage.errors import ConfigError
from storage.label_exports import FORMATS, LabeledItem, LabelExport, copy_pictures, write_labels_as
from storage.sources import SourceOptions, open_source
from tests.picture_collections import draw

LABELS: dict[str, tuple[str, ...] | None] = {
    "a/p0.png": ("sky", "sea & <b>"),
    "a/p1.png": ("sky",),
    "p2.png": ("=sum", "sky"),
    "p 3#.png": None,
}


def exported(form: str, tmp_path: Path, single: bool = False) -> Path:
    folder, out = tmp_path / "source", tmp_path / "out"
    out.mkdir()
    for name in LABELS:
        draw(folder / name)
    items = [
        LabeledItem(name, labels, "" if labels is None else "given", size=(4, 3))
        for name, labels in LABELS.items()
    ]
    made = LabelExport(items, ["=sum", "sea & <b>", "sky"], single)
    copy_pictures(form, folder, list(LABELS), out)
    return write_labels_as(form, made, out)


@pytest.mark.parametrize("form", list(FORMATS))
def test_every_format_is_read_again(form: str, tmp_path: Path) -> None:
    folder = exported(form, tmp_path).parent
    found = open_source(SourceOptions(str(folder)), tmp_path / "cache").read(tmp_path / "cache")
    prefix = "data/" if form == "fiftyone" else ""
    read = {
        name.removeprefix(prefix): None
        if (row < 0).any()
        else {label for label, given in zip(found.label_names, row, strict=True) if given}
        for name, row in zip(found.ids, found.labels, strict=True)
    }
    assert read == {name: None if labels is None else set(labels) for name, labels in LABELS.items()}
    assert not found.single_label


def test_predictions_do_not_become_annotations_of_label_studio(tmp_path: Path) -> None:
    items = [LabeledItem("a.png", ("sky",), "predicted"), LabeledItem("b.png", ("sky",), "given")]
    tasks = json.loads(
        write_labels_as("label-studio", LabelExport(items, ["sky"], False), tmp_path).read_text()
    )
    assert [(len(one["annotations"]), len(one["predictions"])) for one in tasks] == [(0, 1), (1, 0)]


def test_coco_parses_with_its_own_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pycocotools = pytest.importorskip("pycocotools.coco", reason="optional")
    coco = pycocotools.COCO(str(exported("coco", tmp_path)))
    capsys.readouterr()
    names = {one["id"]: one["name"] for one in coco.loadCats(coco.getCatIds())}
    for number, image in coco.imgs.items():
        own = {names[one["category_id"]] for one in coco.loadAnns(coco.getAnnIds(imgIds=number))}
        assert own == set(LABELS[image["file_name"]] or ())
    assert len(coco.imgs) == 3


@pytest.mark.slow
def test_hugging_face_loads_its_own_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="optional")
    folder = exported("hf", tmp_path).parent
    found = datasets.load_dataset("imagefolder", data_dir=str(folder), cache_dir=str(tmp_path / "cache"))
    read = {
        Path(row["image"].filename).relative_to(folder).as_posix(): row["labels"] for row in found["train"]
    }
    assert read == {name: None if labels is None else list(labels) for name, labels in LABELS.items()}


def test_label_studio_accepts_its_own_format(tmp_path: Path) -> None:
    sdk = pytest.importorskip("label_studio_sdk.label_interface", reason="optional")
    names = "".join(f"<Choice value={quoteattr(name)}/>" for name in ("=sum", "sea & <b>", "sky"))
    choices = f'<Choices name="labels" toName="image" choice="multiple">{names}</Choices>'
    interface = sdk.LabelInterface(f'<View><Image name="image" value="$image"/>{choices}</View>')
    tasks = json.loads(exported("label-studio", tmp_path).read_text())
    assert all(interface.validate_task({"data": task["data"]}) for task in tasks)
    answers = [one for task in tasks for one in task["annotations"]]
    assert len(answers) == 3
    assert all(interface.validate_annotation(one) for one in answers)


@pytest.mark.slow
def test_fiftyone_imports_its_own_format(tmp_path: Path) -> None:
    """Its importer, without the database that its data sets need."""
    data = pytest.importorskip("fiftyone.utils.data", reason="optional", exc_type=ImportError)
    folder = exported("fiftyone", tmp_path).parent
    importer = data.FiftyOneImageClassificationDatasetImporter(str(folder), compute_metadata=False)
    with importer:
        read = {
            Path(path).relative_to(folder / "data").as_posix(): found
            and tuple(one.label for one in found.classifications)
            for path, _, found in importer
        }
    assert read == LABELS


def test_an_item_outside_its_folder_is_not_copied(tmp_path: Path) -> None:
    draw(tmp_path / "x.png")
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError, match="not below"):
        copy_pictures("csv", tmp_path / "source", ["../x.png"], tmp_path / "out")


def test_names_that_differ_only_by_their_ending_are_refused_for_fiftyone(tmp_path: Path) -> None:
    items = [LabeledItem("a.png", ("sky",)), LabeledItem("a.jpg", ("sky",))]
    with pytest.raises(ConfigError, match="only by the ending"):
        write_labels_as("fiftyone", LabelExport(items, ["sky"], False), tmp_path)
