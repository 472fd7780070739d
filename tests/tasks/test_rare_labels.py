"""Labels of one or two items: found, left out of the manifest, or left out of the scores."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from storage.artifacts.predictions import Predictions
from storage.artifacts.schemas import Manifest, pack_manifest, unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceError
from tasks.dataset import Dataset
from tasks.selection.rare_labels import RareLabels, find_rare_labels, judged_part, without_labels
from tasks.stage import Stage, Workspace, run_stage
from tasks.stages.ingest import digest_labels

NAMES = ["a", "b", "rare", "pair", "none"]


def dataset(carriers: list[int], single_label: bool = False) -> Dataset:
    """Items that carry one label each; the last item is unlabeled."""
    Y = np.repeat(np.eye(len(carriers), dtype=np.int8), carriers, axis=0)
    Y = np.vstack([Y, np.full((1, len(carriers)), -1, dtype=np.int8)])
    ids = [f"i{row}" for row in range(len(Y))]
    return Dataset(ids, np.zeros((len(Y), 1)), Y, NAMES[: len(carriers)], single_label, {}, {})


def test_labels_of_one_or_two_items_are_rare_and_labels_without_items_are_not() -> None:
    found = find_rare_labels(dataset([5, 3, 1, 2, 0]), keep=False)
    assert found == RareLabels((("rare", 1), ("pair", 2)), kept=False)
    assert found.left_out == ("rare", "pair")
    assert find_rare_labels(dataset([5, 3, 1, 2, 0]), keep=True).left_out == ()


def test_items_of_a_class_that_the_model_does_not_have_are_named() -> None:
    found = find_rare_labels(dataset([5, 3, 1, 2], single_label=True), keep=False)
    assert found.apart == ("i8", "i9", "i10")
    # one class of three items would be left out if one of them were missing
    assert found.missing == 6 / 11
    assert (
        "not predicted, and the scores are without their 3 items. Expect 55% of new items in classes that "
        "the model lacks. Label more" in found.describe()
    )
    one = find_rare_labels(dataset([5, 3, 1], single_label=True), keep=False)
    assert "it is not predicted, and the scores are without its item. Expect" in one.describe()
    assert find_rare_labels(dataset([5, 3, 1, 2], single_label=True), keep=True).apart == ()
    assert find_rare_labels(dataset([5, 3, 1, 2]), keep=False).apart == ()


def test_labels_of_two_items_are_judged_if_there_are_no_others() -> None:
    assert find_rare_labels(dataset([2, 2, 1]), keep=False).names == ("rare",)
    assert find_rare_labels(dataset([4, 2, 1]), keep=False).names == ("rare",)
    with pytest.raises(SourceError, match="1 of 3 labels have two or more labeled items"):
        find_rare_labels(dataset([9, 1, 1]), keep=False)


@pytest.mark.parametrize(
    ("items", "kept", "says"),
    [
        (1, False, "'l0' (1), a label of fewer than 3 labeled items: it is not predicted. Label more items"),
        (2, True, "'l0' (1) and 'l1' (1), labels of fewer than 3 labeled items: they are predicted, but not"),
        (7, True, "'l0' (1), 'l1' (1), 'l2' (1), 'l3' (1), 'l4' (1) and 2 more, labels of fewer"),
    ],
)
def test_the_line_names_them(items: int, kept: bool, says: str) -> None:
    text = RareLabels(tuple((f"l{k}", 1) for k in range(items)), kept).describe()
    assert text.startswith(says)
    assert ("auto.rare_labels=keep" in text) is not kept


def test_a_name_with_control_characters_is_quoted() -> None:
    assert "\x1b" not in RareLabels((("\x1b[31m" + "x" * 500, 1),)).describe()


@pytest.mark.parametrize("single_label", [True, False])
def test_left_out_of_the_manifest(tmp_path: Path, single_label: bool) -> None:
    workspace = Workspace(tmp_path, ArtifactStore.local(tmp_path / "store"))
    whole = dataset([3, 3, 1], single_label)
    manifest = Manifest(whole.ids, ["d"] * 8, whole.Y, whole.label_names, None, single_label)
    packed = pack_manifest(manifest)
    known = {"items:features": "x", "labels": digest_labels(manifest)}
    stored = replace(packed, metadata={**packed.metadata, **known})
    ref = run_stage(Stage("ingest", (), {}, {}, lambda: stored), workspace).ref
    made = run_stage(without_labels(ref, RareLabels((("rare", 1),)), workspace), workspace).ref
    left, facts = unpack_manifest(workspace.store.read(made)), workspace.store.details(made)["metadata"]
    assert left.label_names == ["a", "b"]
    assert left.labels[6].tolist() == ([-1, -1] if single_label else [0, 0])
    assert left.labels[7].tolist() == [-1, -1]
    assert facts["labels"] == digest_labels(left) != known["labels"]
    assert facts["items:features"] == "x"


@pytest.mark.parametrize("single_label", [True, False])
def test_the_judged_part_has_neither_the_label_nor_items_of_a_rare_class(single_label: bool) -> None:
    whole = dataset([3, 3, 1], single_label)
    found = Predictions(whole.ids[:7][::-1], np.arange(7, dtype=np.int32), np.arange(21.0).reshape(7, 3))
    rare = RareLabels((("rare", 1),), kept=True)
    judged, part = judged_part(found, whole, rare)
    assert part.label_names == ["a", "b"]
    rows = np.arange(1, 7) if single_label else np.arange(7)  # i6, the first prediction, has the rare class
    assert judged.ids == [found.ids[row] for row in rows]
    np.testing.assert_array_equal(judged.folds, rows)
    np.testing.assert_array_equal(judged.scores, found.scores[rows, :2])
    assert judged_part(found, whole, RareLabels(rare.items, kept=False)) == (found, whole)
