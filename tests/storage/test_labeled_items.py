"""The file with the labeled items of a model: what goes in comes out, and nothing else is read."""

import io
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from storage.artifacts.labeled_items import LabeledItems, dump_labeled_items, load_labeled_items
from storage.errors import StoreError


def items(**changes: Any) -> LabeledItems:
    rng = np.random.default_rng(0)
    made = LabeledItems(
        ids=["a.png", "bé", "c|d"],
        label_names=["sea", "sky"],
        labels=np.array([[0, 1], [1, 1], [0, 0]], np.int8),
        positions=np.array([0, 3, 4]),
        total=5,
        single_label=False,
        folds=np.array([0, 1, 0], np.int32),
        scores=rng.random((3, 2)),
        tune_for="macro_f1",
        rows=np.array([0, 2]),
        X=rng.normal(size=(2, 4)).astype(np.float32),
        source={"path": "photos", "id": None, "ignore": ["x"], "every_seconds": 2.5},
    )
    return replace(made, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scores": None, "folds": None},
        {"X": sparse.random_array((2, 50), density=0.1, format="csr", dtype=np.float32, rng=0)},
        {"rows": np.array([], np.int64), "X": np.empty((0, 4), np.float32)},
        {"item_ids": ["a.png", "bé", "c|d", "unlabeled"], "unreadable": 2},
        {"apart": np.ones((3, 4), np.float32)},
        {"apart": sparse.random_array((3, 4), density=0.5, format="csr", dtype=np.float32, rng=0)},
    ],
)
def test_items_survive_and_have_equal_bytes(changes: dict[str, Any]) -> None:
    given = items(**changes)
    payload = dump_labeled_items(given)
    assert payload == dump_labeled_items(given)
    found = load_labeled_items(payload)
    for name in (
        "ids",
        "label_names",
        "total",
        "single_label",
        "tune_for",
        "source",
        "item_ids",
        "unreadable",
    ):
        assert getattr(found, name) == getattr(given, name)
    for name in ("labels", "positions", "rows", "folds", "scores"):
        np.testing.assert_array_equal(getattr(found, name), getattr(given, name))
    for before, after in ((given.X, found.X), (given.apart, found.apart)):
        assert sparse.issparse(before) == sparse.issparse(after)
        dense = [one.toarray() if sparse.issparse(one) else one for one in (before, after)]
        np.testing.assert_array_equal(*dense)


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": np.zeros((3, 3), np.int8)},
        {"apart": np.ones((3, 5), np.float32)},
        {"labels": np.full((3, 2), -1, np.int8)},
        {"positions": np.array([3, 0, 4])},
        {"positions": np.array([0, 3, 5])},
        {"scores": np.zeros((2, 2))},
        {"folds": None},
        {"rows": np.array([0, 3])},
        {"rows": np.array([0.0, 1.0])},
        {"X": np.full((2, 4), np.inf, np.float32)},
        {"X": np.zeros((3, 4), np.float32)},
    ],
)
def test_parts_that_do_not_fit_together_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        items(**changes)


def with_member(name: str, content: bytes) -> Callable[[bytes], bytes]:
    def change(payload: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(payload)) as archive:
            members = {one: archive.read(one) for one in archive.namelist()} | {name: content}
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            for one, data in members.items():
                archive.writestr(one, data)
        return target.getvalue()

    return change


def array(value: np.ndarray, pickled: bool = False) -> bytes:
    target = io.BytesIO()
    np.lib.format.write_array(target, value, allow_pickle=pickled)
    return target.getvalue()


HUGE = array(np.zeros(4, np.uint8)).replace(b"(4,)", b"(9" + b"0" * 12 + b",)"[:2])


@pytest.mark.parametrize(
    "change",
    [
        lambda payload: b"",
        lambda payload: payload[: len(payload) // 2],
        lambda payload: pickle.dumps({"ids": []}),
        with_member("ids.npy", array(np.array([{"a": 1}], dtype=object), pickled=True)),
        with_member("ids.npy", array(np.frombuffer(b'["a"]', np.uint8))),
        with_member("facts.npy", array(np.frombuffer(b"{}", np.uint8))),
        with_member("facts.npy", array(np.frombuffer(b"\xff\xfe", np.uint8))),
        with_member("scores.npy", array(np.zeros((3, 3)))),
        with_member("X.npy", array(np.zeros(4))),
        with_member("labels.npy", HUGE),
    ],
)
def test_other_bytes_are_refused(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(StoreError, match=r"cannot be used: .*Train the model again"):
        load_labeled_items(change(dump_labeled_items(items())))


def test_sparse_indices_outside_the_matrix_are_refused() -> None:
    given = items(X=sparse.csr_array(np.eye(2, 50, dtype=np.float32)))
    change = with_member("indices.npy", array(np.array([0, 2_000_000], np.int32)))
    with pytest.raises(StoreError, match="cannot be used"):
        load_labeled_items(change(dump_labeled_items(given)))
