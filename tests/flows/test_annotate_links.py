"""`labelscape annotate` for items that arrive with links to items that the model knows."""

import csv
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_core.annotator import Annotator
from storage.artifacts.labeled_items import LabeledItems, dump_labeled_items
from storage.artifacts.models import dump_model
from tests.conftest import Command
from tests.embedding_core.test_kernel_dle_links import linked
from tests.flows.test_cli_annotate import FakeTracker

pytestmark = pytest.mark.slow

TOTAL, KNOWN = 300, 240
NAMES = ["a", "b", "c"]
LINKS = {"few_labels": False, "links": "loo"}


@dataclass(frozen=True)
class Collection:
    """Items with weak features and telling links; the first `KNOWN` are those of the fit."""

    X: np.ndarray
    y: np.ndarray
    A: np.ndarray

    def ids(self, start: int = 0, stop: int = TOTAL) -> list[str]:
        return [f"n{row}" for row in range(start, stop)]

    def ends(self) -> list[tuple[int, int]]:
        """Links with one end or both ends among the new items."""
        i, j = np.triu(self.A).nonzero()
        return [(int(a), int(b)) for a, b in zip(i, j, strict=True) if b >= KNOWN]

    def tracker(
        self, method: str = "kernel_dle", params: Any = LINKS, X: np.ndarray | None = None, **changes: Any
    ) -> FakeTracker:
        """A model of the known items, of which every third is labeled."""
        X = self.X[:KNOWN] if X is None else X
        Y = (self.y[:KNOWN, None] == np.arange(3)).astype(np.int8)
        labeled = np.arange(0, KNOWN, 3)
        given = np.full_like(Y, -1)
        given[labeled] = Y[labeled]
        names = [f"w{k}" for k in range(X.shape[1])]
        recipe = {"extractor": "given", "feature_names": names}
        model = Annotator(method, params, label_names=NAMES, recipe=recipe, single_label=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "No label reaches")  # items without links
            model.fit(X.astype(np.float32), given, self.A[:KNOWN, :KNOWN])
        record = LabeledItems(
            ids=[f"n{row}" for row in labeled],
            label_names=NAMES,
            labels=Y[labeled],
            positions=np.arange(len(labeled)),
            total=len(labeled),
            single_label=True,
            folds=None,
            scores=None,
            tune_for="hamming",
            rows=np.arange(len(labeled)),
            X=X[labeled].astype(np.float32),
            source={"path": "known.csv", "id": "name"},
            item_ids=self.ids(0, KNOWN),
        )
        made = FakeTracker(dump_model(model))
        payload = dump_labeled_items(replace(record, **changes))
        made.labeled_items = lambda run_id: payload  # type: ignore[method-assign]
        return made


@pytest.fixture(scope="module")
def collection() -> Collection:
    return Collection(*linked(TOTAL, seed=4, mixing=0.05))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeTracker], None]:
    return lambda tracker: monkeypatch.setattr("flows.commands.annotate.open_tracker", lambda _: tracker)


def write_items(file: str, ids: Sequence[str], X: np.ndarray, labels: Sequence[str] | None = None) -> str:
    with Path(file).open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", *(f"w{k}" for k in range(X.shape[1])), *(["class"] if labels else [])])
        for row, name in enumerate(ids):
            writer.writerow([name, *X[row].astype(int), *([labels[row]] if labels else [])])
    return file


def write_links(file: str, header: str, rows: Iterable[Sequence[object]]) -> str:
    Path(file).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return file


def write_new(collection: Collection) -> str:
    return write_items("new.csv", collection.ids(KNOWN), collection.X[KNOWN:])


def by_id(collection: Collection) -> list[tuple[str, str]]:
    return [(f"n{a}", f"n{b}") for a, b in collection.ends()]


def annotate(command: Command, *arguments: object) -> tuple[dict[str, Any], dict[str, str], np.ndarray]:
    """The record, the labels by id, and the scores."""
    done = command("annotate", *arguments, "--json")
    assert done.code == 0, done.err
    with Path("annotations.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    scores = np.array([[float(row[f"score:{name}"]) for name in NAMES] for row in rows])
    return json.loads(done.out), {row["id"]: row["labels"] for row in rows}, scores


def accuracy(collection: Collection, labels: dict[str, str]) -> float:
    return float(np.mean([NAMES[collection.y[int(name[1:])]] == found for name, found in labels.items()]))


def test_links_of_new_items_place_them(
    command: Command, tmp_path: Path, collection: Collection, use: Callable[[FakeTracker], None]
) -> None:
    use(collection.tracker())
    write_new(collection)
    alone, labels, _ = annotate(command, "new.csv")
    assert alone["links"]["sentence"].startswith("none given: the model uses links")
    before = accuracy(collection, labels)
    write_links("links.csv", "source,target", [*by_id(collection), ("n299", "elsewhere"), ("n250", "n250")])
    record, labels, scores = annotate(command, "new.csv", "--set", "source.edges=links.csv")
    assert accuracy(collection, labels) > before + 0.15
    extended = collection.A[KNOWN:]
    assert record["links"]["linked_items"] == int((extended.sum(axis=1) > 0).sum())
    assert record["links"]["links"] == np.count_nonzero(extended)
    model = Annotator("kernel_dle", LINKS, single_label=True)
    given = np.full((KNOWN, 3), -1)
    given[::3] = collection.y[:KNOWN:3, None] == np.arange(3)
    model.fit(collection.X[:KNOWN].astype(np.float32), given, collection.A[:KNOWN, :KNOWN])
    expected = model.predict_scores(collection.X[KNOWN:].astype(np.float32), extended)
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_what_is_left_out_is_said_and_a_changed_link_counts(
    command: Command, tmp_path: Path, collection: Collection, use: Callable[[FakeTracker], None]
) -> None:
    use(collection.tracker())
    write_new(collection)
    write_links("links.csv", "source,target", [*by_id(collection), ("n299", "elsewhere")])
    done = command("annotate", "new.csv", "--set", "source.edges=links.csv")
    assert "links.csv: 1 of" in done.err and "elsewhere" in done.err
    assert "links      " in done.out
    write_links("links.csv", "source,target", by_id(collection)[:1])
    record, _, _ = annotate(command, "new.csv", "--set", "source.edges=links.csv")
    assert {one["stage"]: one["state"] for one in record["stages"]}["annotation"] == "computed"
    assert record["links"]["linked_items"] <= 2


@pytest.mark.parametrize("method", ["smoothed_logistic_regression", "harmonic_functions"])
def test_other_models_with_links(
    command: Command, tmp_path: Path, collection: Collection, use: Callable[[FakeTracker], None], method: str
) -> None:
    use(collection.tracker(method, None))
    write_new(collection)
    _, labels, _ = annotate(command, "new.csv")
    before = accuracy(collection, labels)
    write_links("links.csv", "source,target", by_id(collection))
    record, labels, _ = annotate(command, "new.csv", "--set", "source.edges=links.csv")
    assert accuracy(collection, labels) > before + 0.1
    assert record["links"]["linked_items"] > 40


def test_positions_count_known_items_first(
    command: Command, tmp_path: Path, collection: Collection, use: Callable[[FakeTracker], None]
) -> None:
    """Arrays have no ids, so rows of both collections have the same numbers."""
    use(collection.tracker(item_ids=[str(row) for row in range(KNOWN)]))
    write_items("new.csv", [str(row) for row in range(TOTAL - KNOWN)], collection.X[KNOWN:])
    write_links("links.csv", "i,j", collection.ends())
    _, _, scores = annotate(command, "new.csv", "--set", "source.edges=links.csv")
    use(collection.tracker())
    write_new(collection)
    write_links("links.csv", "source,target", by_id(collection))
    _, _, expected = annotate(command, "new.csv", "--set", "source.edges=links.csv")
    np.testing.assert_allclose(scores, expected)


def test_the_rest_of_the_collection(
    command: Command, tmp_path: Path, collection: Collection, use: Callable[[FakeTracker], None]
) -> None:
    """With --unlabeled the links of the training are used without being named again."""
    i, j = np.triu(collection.A[:KNOWN, :KNOWN]).nonzero()
    write_links("edges.csv", "source,target", [(f"n{a}", f"n{b}") for a, b in zip(i, j, strict=True)])
    labels = [NAMES[y] if row % 3 == 0 else "" for row, y in enumerate(collection.y[:KNOWN])]
    write_items("known.csv", collection.ids(0, KNOWN), collection.X[:KNOWN], labels)
    place = {"path": str(Path("known.csv").absolute()), "id": "name"}
    use(collection.tracker(source={**place, "edges": str(Path("edges.csv").absolute())}))
    record, found, _ = annotate(command, "known.csv", "--unlabeled")
    assert record["items"] == KNOWN - KNOWN // 3
    linked_items = (collection.A[:KNOWN, :KNOWN].sum(axis=1) > 0) & (np.arange(KNOWN) % 3 > 0)
    assert record["links"]["linked_items"] == linked_items.sum()
    alone = collection.tracker(source=place)
    use(alone)
    _, without, _ = annotate(command, "known.csv", "--unlabeled")
    assert accuracy(collection, found) > accuracy(collection, without) + 0.1


def test_models_without_links_say_so(
    command: Command, tmp_path: Path, collection: Collection, use: Callable[[FakeTracker], None]
) -> None:
    write_new(collection)
    write_links("links.csv", "source,target", by_id(collection))
    use(collection.tracker("logistic_regression", None))
    record, _, _ = annotate(command, "new.csv", "--set", "source.edges=links.csv")
    assert record["links"]["sentence"] == "not used by this model: its labels follow from features alone."
    use(collection.tracker("harmonic_functions", None, item_ids=None))
    record, _, _ = annotate(command, "new.csv", "--set", "source.edges=links.csv")
    assert record["links"]["sentence"] == "not used by this model: it was trained without links."
    assert annotate(command, "new.csv")[0]["links"] is None


def test_nothing_is_promised_without_the_links_of_the_training(
    command: Command, tmp_path: Path, collection: Collection, use: Callable[[FakeTracker], None]
) -> None:
    count = KNOWN // 3
    scores = {"scores": np.full((count, 3), 0.5), "folds": np.arange(count, dtype=np.int32) % 3}
    use(collection.tracker(**scores))
    write_new(collection)
    write_links("links.csv", "source,target", by_id(collection))
    done = command("annotate", "new.csv", "--precision", ".9")
    assert done.code == 2
    assert "nothing can be promised for items without links" in " ".join(done.err.split())
    done = command("annotate", "new.csv", "--precision", ".9", "--set", "source.edges=links.csv")
    assert done.code == 0, done.err
    use(collection.tracker("logistic_regression", None, **scores))
    assert command("annotate", "new.csv", "--precision", ".9").code == 0


@pytest.mark.parametrize(
    ("header", "rows", "changes", "message"),
    [
        ("source,target", [("x1", "x2")], {}, "ids that are not in the collection"),
        ("source,target", [("n245", "n3")], {"item_ids": [f"n{k + 100}" for k in range(KNOWN)]}, "ambiguous"),
        ("i,j", [(245, 3)], {"unreadable": 2}, "2 items of the model's collection were unreadable"),
        ("i,j", [(300, 3)], {}, "not a position among 300 items"),
        ("source,target,w", [("n245", "n3", -1)], {}, "not a similarity"),
        ("from,to", [("n245", "n3")], {}, "an edge list has"),
    ],
)
def test_refused(
    command: Command,
    tmp_path: Path,
    collection: Collection,
    use: Callable[[FakeTracker], None],
    header: str,
    rows: list[tuple[object, ...]],
    changes: dict[str, Any],
    message: str,
) -> None:
    use(collection.tracker(**changes))
    write_new(collection)
    write_links("links.csv", header, rows)
    done = command("annotate", "new.csv", "--set", "source.edges=links.csv")
    assert done.code == 2
    assert message in " ".join(done.err.split())
