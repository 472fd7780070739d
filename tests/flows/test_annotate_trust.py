"""What `labelscape annotate` says about its labels, from the labeled items tracked with the model."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from embedding_core.annotator import SKOPS_TRUSTED_TYPES, Annotator
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.threshold_tuning import decide_out_of_fold, tune_thresholds
from storage.artifacts.labeled_items import LabeledItems, dump_labeled_items, load_labeled_items
from storage.artifacts.models import dump_model, load_model
from storage.tracking.client import Tracker, default_uri
from storage.tracking.models import LABELED_FILE
from tests.conftest import REPOSITORY, Answer, Command
from tests.flows.test_cli_annotate import FakeTracker

pytestmark = pytest.mark.slow

NAMES = ["left", "right", "up", "rare"]
COLUMNS = ["height", "width", "depth"]
TOTAL, LABELED = 260, 200


def draw(n: int = TOTAL, noise: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Three features, four labels; the last is rare and hard to tell."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    signal = X + noise * rng.normal(size=(n, 3))
    Y = np.column_stack([signal[:, 0] < -0.3, signal[:, 0] > 0.3, signal[:, 1] > 0, rng.random(n) < 0.03])
    return X, Y.astype(np.int8)


@dataclass(frozen=True)
class Known:
    """A model, its labeled items, and other items with their true labels."""

    payload: bytes
    labeled: LabeledItems
    X: np.ndarray
    Y: np.ndarray

    def tracker(self, **changes: Any) -> FakeTracker:
        made = FakeTracker(self.payload)
        record = dump_labeled_items(replace(self.labeled, **changes))
        made.labeled_items = lambda run_id: record  # type: ignore[method-assign]
        return made


@pytest.fixture(scope="module")
def known() -> Known:
    X, Y = draw()
    labeled = slice(0, LABELED)
    scores, folds = np.zeros((LABELED, 4)), np.zeros(LABELED, np.int32)
    for number, (train, test) in enumerate(stratified_folds(Y[labeled], 5, 1)):
        fitted = Annotator("linear_svm").fit(X[train], Y[train])
        scores[test], folds[test] = fitted.predict_scores(X[test]), number
    cuts = tune_thresholds(scores, Y[labeled], "macro_f1")
    recipe = {"extractor": "given", "feature_names": COLUMNS}
    model = Annotator("linear_svm", label_names=NAMES, recipe=recipe, thresholds=cuts)
    record = LabeledItems(
        ids=[f"item {row}" for row in range(LABELED)],
        label_names=NAMES,
        labels=Y[labeled],
        positions=np.arange(LABELED),
        total=LABELED,
        single_label=False,
        folds=folds,
        scores=scores,
        tune_for="macro_f1",
        rows=np.arange(LABELED),
        X=X[labeled],
        source={"path": "train.csv", "id": "name", "ignore": ["junk"], "every_seconds": 4.0},
    )
    return Known(dump_model(model.fit(X[labeled], Y[labeled])), record, X[LABELED:], Y[LABELED:])


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeTracker], None]:
    return lambda tracker: monkeypatch.setattr("flows.commands.annotate.open_tracker", lambda _: tracker)


def write_rows(file: Path, X: np.ndarray, names: Sequence[str] | None = None, junk: bool = True) -> Path:
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", *COLUMNS, *(["junk"] if junk else [])])
        for row, values in enumerate(X.tolist()):
            name = names[row] if names else f"new {row}"
            writer.writerow([name, *values, *([row * 1000] if junk else [])])
    return file


def annotate(command: Command, *arguments: object) -> dict[str, Any]:
    done = command("annotate", *arguments, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def read_lines(file: str = "annotations.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]


def test_scores_are_those_of_the_model_and_decisions_stand_beside_them(
    command: Command, known: Known, use: Callable[..., None], tmp_path: Path
) -> None:
    use(known.tracker())
    annotate(command, write_rows(tmp_path / "new.csv", known.X))
    model = load_model(known.payload, SKOPS_TRUSTED_TYPES)
    # The calibrated scores of the method itself, not moved by thresholds.
    scores = model.model_.predict_scores(model.prepare_features(known.X))
    cuts = np.asarray(model.thresholds)
    table = pq.read_table("annotations.parquet")
    assert table["id"].to_pylist() == [f"new {row}" for row in range(len(known.X))], "source.id of the model"
    for k, name in enumerate(NAMES):
        np.testing.assert_array_equal(table[f"score:{name}"].to_numpy(), scores[:, k])
        assert set(table[f"threshold:{name}"].to_pylist()) == {cuts[k]}
    named = [set(filter(None, text.split("|"))) for text in table["labels"].to_pylist()]
    assert named == [{n for n, s, c in zip(NAMES, row, cuts, strict=True) if s > c} for row in scores]
    with Path("annotations.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["score:up"]) for row in rows] == pytest.approx(scores[:, 2].tolist(), abs=1e-12)
    for record, row in zip(read_lines(), scores, strict=True):
        assert record["scores"] == dict(zip(NAMES, row.tolist(), strict=True)), "also of labels not given"
        for one in record["labels"]:
            k = NAMES.index(one["label"])
            assert (one["score"], one["threshold"]) == (row[k], cuts[k])
            assert one["margin"] == pytest.approx(row[k] - cuts[k])


def test_expectations_are_those_of_the_other_folds(
    command: Command, known: Known, use: Callable[..., None], tmp_path: Path
) -> None:
    use(known.tracker())
    found = annotate(command, write_rows(tmp_path / "new.csv", known.X))
    items = known.labeled
    assert items.scores is not None
    assert items.folds is not None
    decided = decide_out_of_fold(items.scores, items.labels, items.folds, "macro_f1")
    for k, one in enumerate(found["expected"]):
        right = int((decided[:, k] & items.labels[:, k]).sum())
        assert one["label"] == NAMES[k]
        assert one["given"] == found["labels"][NAMES[k]]
        given = int(decided[:, k].sum())
        assert one["expected_precision"] == (pytest.approx(right / given) if given else None)
        assert one["expected_recall"] == pytest.approx(right / items.labels[:, k].sum())
        assert one["carriers"] == items.labels[:, k].sum()
    text = command("annotate", tmp_path / "new.csv").out
    rare = next(line for line in text.splitlines() if line.startswith("rare"))
    assert f"{found['labels']['rare']} of 60" in rare
    assert "check these" in rare
    assert "check these" not in next(line for line in text.splitlines() if line.startswith("up"))


def test_items_of_classes_that_the_model_does_not_have_count_as_wrong(
    command: Command, known: Known, use: Callable[..., None], tmp_path: Path
) -> None:
    new = write_rows(tmp_path / "new.csv", known.X[:30])
    use(known.tracker())
    before = annotate(command, new, "--precision", ".8")
    use(known.tracker(apart=known.X[30:] + 9.0))
    found = annotate(command, new, "--precision", ".8")
    assert (before["items_apart"], found["items_apart"]) == (0, 30)
    assert (before["promise"]["state"], found["promise"]["state"]) == ("holds", "none")
    assert found["promise"]["labeled_items"] == before["promise"]["labeled_items"] + 30
    # 30 of the labeled items lie far away, and no new item does
    assert before["drift"]["labeled"] + 30 == found["drift"]["labeled"]
    plain = [annotate(command, new)["expected"]]
    use(known.tracker())
    plain.append(annotate(command, new)["expected"])
    for less, more in zip(*plain, strict=True):
        assert less["expected_recall"] == more["expected_recall"]
        assert (less["expected_precision"] or 0) <= (more["expected_precision"] or 0)
    assert plain[0][1]["expected_precision"] < plain[1][1]["expected_precision"] - 0.1
    use(known.tracker(apart=known.X[30:]))
    text = command("annotate", new).out
    assert "30 more have classes that the model does not have; what it gives them counts as wrong." in text


def test_a_label_given_to_far_too_many_items_is_flagged(
    command: Command, known: Known, use: Callable[..., None], tmp_path: Path
) -> None:
    few = np.zeros_like(known.labeled.labels)
    few[:4, 2] = 1
    labels = np.where(np.arange(4) == 2, few, known.labeled.labels).astype(np.int8)
    use(known.tracker(labels=labels))
    found = annotate(command, write_rows(tmp_path / "new.csv", known.X))
    flags = {one["label"]: one["implausible"] for one in found["expected"]}
    assert flags == {"left": False, "right": False, "up": True, "rare": False}
    text = command("annotate", tmp_path / "new.csv").out
    (line,) = (line for line in text.splitlines() if line.startswith("up "))
    assert "times its share" in line


def test_evidence_is_the_nearest_items_that_carry_the_label(
    command: Command, known: Known, use: Callable[..., None], tmp_path: Path
) -> None:
    use(known.tracker())
    annotate(command, write_rows(tmp_path / "new.csv", known.X))
    model, items = load_model(known.payload, SKOPS_TRUSTED_TYPES), known.labeled
    Z, queries = (np.asarray(model.prepare_features(X), float) for X in (items.X, known.X))
    lines = read_lines()
    for record, query in zip(lines, queries, strict=True):
        for one in record["labels"]:
            carriers = np.flatnonzero(items.labels[:, NAMES.index(one["label"])])
            distances = np.linalg.norm(Z[carriers] - query, axis=1)
            nearest = np.argsort(distances, kind="stable")[:3]
            assert [near["id"] for near in one["nearest"]] == [items.ids[carriers[k]] for k in nearest]
            assert [near["distance"] for near in one["nearest"]] == pytest.approx(distances[nearest].tolist())
    closest = [min(abs(s - c) for s, c in zip(row, cuts, strict=True)) for row, cuts in rows_with_cuts()]
    order = sorted(range(len(lines)), key=lambda row: lines[row]["doubt"]["rank"])
    assert [closest[row] for row in order] == sorted(closest)
    assert pq.read_table("annotations.parquet")["doubt_rank"].to_pylist() == [
        line["doubt"]["rank"] for line in lines
    ]
    assert all(0 <= line["novelty"] <= 1 for line in lines)


def rows_with_cuts() -> list[tuple[list[float], list[float]]]:
    table = pq.read_table("annotations.parquet").to_pylist()
    return [([one[f"score:{n}"] for n in NAMES], [one[f"threshold:{n}"] for n in NAMES]) for one in table]


class TestPromise:
    def test_labels_are_written_above_one_threshold(
        self, command: Command, known: Known, use: Callable[..., None], tmp_path: Path
    ) -> None:
        use(known.tracker())
        found = annotate(command, write_rows(tmp_path / "new.csv", known.X), "--precision", ".8")
        promise = found["promise"]
        assert (promise["state"], promise["precision"], promise["confidence"]) == ("holds", 0.8, 0.9)
        assert "rare" in [one["label"] for one in promise["abstained"]]
        cuts = {one["label"]: one["threshold"] for one in found["expected"]}
        assert cuts["rare"] is None
        assert {cuts[name] for name in NAMES[:3]} <= {promise["threshold"], None}
        table = pq.read_table("annotations.parquet")
        decided = np.array([[n in text.split("|") for n in NAMES] for text in table["labels"].to_pylist()])
        scores = np.column_stack([table[f"score:{name}"].to_numpy() for name in NAMES])
        allowed = [name not in {one["label"] for one in promise["abstained"]} for name in NAMES]
        np.testing.assert_array_equal(decided, (scores > promise["threshold"]) & allowed)
        assert (decided & (known.Y == 1)).sum() >= 0.8 * decided.sum()
        text = command("annotate", tmp_path / "new.csv", "--precision", ".8").out
        assert "promise    At least 80 % of the labels written should be right (confidence 90 %" in text
        assert "Assumes new items like the labeled ones" in text
        assert re.search(r"^  (\w+, )*rare(, \w+)*: ", text, re.MULTILINE)

    def test_nothing_is_written_without_enough_evidence(
        self, command: Command, known: Known, use: Callable[..., None], tmp_path: Path
    ) -> None:
        use(known.tracker())
        found = annotate(command, write_rows(tmp_path / "new.csv", known.X), "--precision", ".999")
        assert found["promise"]["state"] == "none"
        assert set(found["labels"].values()) == {0}
        assert len(found["promise"]["abstained"]) == 4
        text = command("annotate", tmp_path / "new.csv", "--precision", ".999").out
        assert "NO PROMISE  No label was written. Not enough evidence" in text
        hopeless = [one["label"] for one in found["promise"]["abstained"] if not one["more_labeled_items"]]
        assert len(hopeless) > 1
        assert f"{', '.join(hopeless)}: too many suggestions are wrong" in text, "one line for all of them"

    def test_other_items_void_it_loudly_and_say_what_moved(
        self, command: Command, known: Known, use: Callable[..., None], tmp_path: Path
    ) -> None:
        use(known.tracker())
        moved = known.X + np.array([0.0, 0.0, 3.0])
        found = annotate(command, write_rows(tmp_path / "new.csv", moved), "--precision", ".8")
        assert found["promise"]["state"] == "void"
        assert found["drift"]["verdict"] == "void"
        assert [one["name"] for one in found["drift"]["features"]] == ["depth"]
        text = command("annotate", tmp_path / "new.csv", "--precision", ".8").out
        assert "PROMISE VOID  The new items differ from the labeled ones (AUC " in text
        assert "moved      features, in standard deviations: depth (+" in text

    def test_single_labels_are_promised_by_their_best_score(
        self, command: Command, known: Known, use: Callable[..., None], tmp_path: Path
    ) -> None:
        X, Y = draw(noise=0.05)
        classes = np.column_stack([Y[:, 2], 1 - Y[:, 2]]).astype(np.int8)
        model = Annotator(
            "linear_svm",
            single_label=True,
            label_names=["up", "down"],
            recipe={"extractor": "given", "feature_names": COLUMNS},
        ).fit(X[:LABELED], classes[:LABELED])
        record = replace(
            known.labeled,
            label_names=["up", "down"],
            labels=classes[:LABELED],
            scores=model.predict_scores(X[:LABELED]),
            single_label=True,
            tune_for="hamming",
        )
        tracker = FakeTracker(dump_model(model))
        tracker.labeled_items = lambda run_id: dump_labeled_items(record)  # type: ignore[method-assign]
        use(tracker)
        found = annotate(command, write_rows(tmp_path / "new.csv", X[LABELED:]), "--precision", ".9")
        assert found["promise"]["state"] == "holds"
        assert sum(found["labels"].values()) <= found["items"]
        plain = annotate(command, tmp_path / "new.csv")
        assert sum(plain["labels"].values()) == plain["items"]
        assert "threshold:up" not in pq.read_table("annotations.parquet").column_names

    def test_a_changed_promise_is_computed_and_an_unchanged_one_is_fresh(
        self, command: Command, known: Known, use: Callable[..., None], tmp_path: Path
    ) -> None:
        use(known.tracker())
        file = write_rows(tmp_path / "new.csv", known.X)

        def states(*more: str) -> list[str]:
            return [one["state"] for one in annotate(command, file, *more)["stages"]]

        assert states() == ["computed"] * 3
        fresh, other = ["fresh"] * 3, ["fresh", "fresh", "computed"]
        for words in (["--precision", ".8"], ["--precision", ".8", "--confidence", ".95"]):
            assert states(*words) == other
            assert states(*words) == fresh
        assert states() == fresh
        use(known.tracker(tune_for="micro_f1"))
        assert states() == other

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["--precision", "90"], "--precision 90: give a number above 0 and below 1"),
            (["--precision", "nan"], "--precision nan: give a number"),
            (["--precision", ".9", "--confidence", "1"], "--confidence 1: give a number"),
            (["--confidence", ".9"], "give --precision too"),
            (["--write-labels", "x.csv"], "give --unlabeled too"),
            (["--unlabeled", "--write-labels", "x.txt"], "labels are written as CSV"),
            (["--set", "features.fill=mean"], "features and decisions are those of the model"),
            (["--set", "source.path=x"], "features and decisions are those of the model"),
            (["--set", "source.idd=x"], "source.idd: unknown key, did you mean id?"),
        ],
    )
    def test_refusals(
        self, command: Command, tmp_path: Path, known: Known, use: Any, words: list[str], says: str
    ) -> None:
        use(known.tracker())
        done = command("annotate", write_rows(tmp_path / "new.csv", known.X), *words)
        assert done.code == 2
        assert says in done.err
        assert "resume" not in done.err

    @pytest.mark.parametrize("record", [True, False])
    def test_a_model_without_scores_says_what_is_missing(
        self, command: Command, tmp_path: Path, known: Known, use: Any, record: bool
    ) -> None:
        use(known.tracker(scores=None, folds=None) if record else FakeTracker(known.payload))
        file = write_rows(tmp_path / "new.csv", known.X, junk=False)
        done = command("annotate", file, "--precision", ".9")
        assert done.code == 2
        assert "--precision needs out-of-fold scores of the labeled items." in done.err
        assert "train one with `labelscape auto`" in done.err
        done = command("annotate", file)
        assert done.code == 0
        assert "train one with `labelscape auto` to see expected precision and recall." in done.out
        assert ("drift      " in done.out) == record


class TestReading:
    """Every form of the same features, read as the collection of the model was."""

    @pytest.fixture(autouse=True)
    def model(self, known: Known, use: Callable[..., None]) -> None:
        use(known.tracker())

    @pytest.fixture
    def expected(self, known: Known) -> np.ndarray:
        model = load_model(known.payload, SKOPS_TRUSTED_TYPES)
        return np.asarray(model.predict_scores(known.X))

    def scores(self) -> np.ndarray:
        table = pq.read_table("annotations.parquet")
        return np.column_stack([table[f"score:{name}"].to_numpy() for name in NAMES])

    def arff(self, X: np.ndarray, place: Path) -> Path:
        header = "".join(f"@attribute {name} numeric\n" for name in COLUMNS)
        rows = "\n".join(",".join(map(repr, row)) for row in X.astype(float).tolist())
        place.with_suffix(".arff").write_text(f"@relation new\n{header}@data\n{rows}\n")
        return place.with_suffix(".arff")

    def parquet(self, X: np.ndarray, place: Path) -> Path:
        pq.write_table(self.table(X), place.with_suffix(".parquet"))
        return place.with_suffix(".parquet")

    def feather(self, X: np.ndarray, place: Path) -> Path:
        feather.write_feather(self.table(X), place.with_suffix(".feather"))
        return place.with_suffix(".feather")

    @staticmethod
    def table(X: np.ndarray) -> pa.Table:
        names = [f"new {row}" for row in range(len(X))]
        return pa.table({"name": names, **{name: X[:, k] for k, name in enumerate(COLUMNS)}})

    def tsv(self, X: np.ndarray, place: Path) -> Path:
        text = write_rows(place.with_suffix(".csv"), X).read_text().replace(",", "\t")
        place.with_suffix(".tsv").write_text(text)
        return place.with_suffix(".tsv")

    def npy(self, X: np.ndarray, place: Path) -> Path:
        np.save(place.with_suffix(".npy"), X)
        return place.with_suffix(".npy")

    def npz(self, X: np.ndarray, place: Path) -> Path:
        np.savez(place.with_suffix(".npz"), X=X)
        return place.with_suffix(".npz")

    def sparse(self, X: np.ndarray, place: Path) -> Path:
        sparse.save_npz(place.with_suffix(".npz"), sparse.csr_matrix(X))
        return place.with_suffix(".npz")

    @pytest.mark.parametrize("form", ["arff", "parquet", "feather", "tsv", "npy", "npz", "sparse"])
    def test_every_form(
        self, command: Command, known: Known, tmp_path: Path, expected: np.ndarray, form: str
    ) -> None:
        file = getattr(self, form)(known.X, tmp_path / "new")
        done = command("annotate", file, "--precision", ".8")
        assert done.code == 0, done.err
        np.testing.assert_allclose(self.scores(), expected, atol=1e-6)
        assert "image" not in done.out + done.err
        ids = [line["id"] for line in read_lines()]
        kept = form in ("parquet", "feather", "tsv")
        assert ids == [f"new {row}" if kept else str(row) for row in range(len(known.X))]

    def test_settings_of_the_command_line_come_first(
        self, command: Command, known: Known, tmp_path: Path
    ) -> None:
        file = write_rows(tmp_path / "new.csv", known.X)
        annotate(command, file, "--set", "source.id=none")
        assert read_lines()[3]["id"] == "3"
        Path("labelscape.toml").write_text("[source]\npath = 'elsewhere'\nid = 'junk'\nignore = []\n")
        annotate(command, file)
        assert read_lines()[3]["id"] == "3000", "stated by labelscape.toml"
        Path("labelscape.toml").write_text("[source]\npath = 'elsewhere'\n")
        annotate(command, file)
        assert read_lines()[3]["id"] == "new 3", "not stated there, so that of the model"

    def test_the_command_that_repeats_it_has_the_same_options(
        self, command: Command, known: Known, tmp_path: Path
    ) -> None:
        file = write_rows(tmp_path / "new.csv", known.X)
        first = annotate(command, file, "--set", "source.id=none", "--precision", ".8")
        lineage = command("lineage").out
        words = "--precision 0.8 --confidence 0.9 --set source.id=none"
        assert words in " ".join(lineage.split())
        again = annotate(command, file, *words.split())
        assert again["run"] == first["run"]
        assert [one["state"] for one in again["stages"]] == ["fresh"] * 3


class TestUnlabeled:
    @pytest.fixture(autouse=True)
    def model(self, known: Known, use: Callable[..., None]) -> None:
        use(
            known.tracker(
                source={"path": "elsewhere", "id": "name", "labels": "tags", "label_separator": ";"}
            )
        )

    @pytest.fixture
    def table(self, known: Known, tmp_path: Path) -> Path:
        with (tmp_path / "all.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["name", *COLUMNS, "tags"])
            for row, (values, labels) in enumerate(zip(known.X.tolist(), known.Y, strict=True)):
                tags = ";".join(n for n, one in zip(NAMES, labels, strict=True) if one) if row % 3 else ""
                writer.writerow([f"n{row}", *values, tags])
        return tmp_path / "all.csv"

    @pytest.mark.parametrize("spelling", ["--unlabeled", "--unlabelled"])
    def test_exactly_the_items_without_labels(self, command: Command, table: Path, spelling: str) -> None:
        with table.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        without = [row["name"] for row in rows if not row["tags"]]
        found = annotate(command, table, spelling, "--write-labels", "done.csv")
        assert [line["id"] for line in read_lines()] == without
        assert {line["origin"] for line in read_lines()} == {"predicted"}
        assert found["items"] == len(without)
        assert found["given"] == len(rows) - len(without)
        with Path("done.csv").open(newline="") as stream:
            done = {row["id"]: row for row in csv.DictReader(stream)}
        assert list(done) == [row["name"] for row in rows]
        predicted = {line["id"]: [one["label"] for one in line["labels"]] for line in read_lines()}
        for row in rows:
            mine = done[row["name"]]
            labels = set(filter(None, mine["labels"].split(";")))
            if row["tags"]:
                assert (labels, mine["origin"]) == (set(row["tags"].split(";")), "given")
            else:
                assert labels == set(predicted[row["name"]])
                assert mine["origin"] == ("predicted" if labels else "")

    @pytest.mark.usefixtures("without_engine")
    def test_a_run_accepts_the_labels_it_wrote(self, command: Command, table: Path) -> None:
        found = annotate(command, table, "--unlabeled", "--write-labels", "done.csv", "--home", "home")
        words = [
            "--set",
            "source.labels=done.csv",
            "--set",
            "source.id=name",
            "--set",
            "source.label_separator=;",
        ]
        done = command("inspect", table, *words, "--home", "home")
        assert done.code == 0, done.err
        file = found["labels_file"]
        labeled = file["given"] + file["predicted"]
        assert f"{labeled} labeled, {file['without']} unlabeled" in done.out
        text = command("annotate", table, "--unlabeled", "--write-labels", "done.csv", "--home", "home").out
        assert f"({file['given']} given, {file['predicted']} predicted, {file['without']} without" in text
        run = ("--until", "ingest", "--set", "tracking.enabled=false", "--home", "home")
        assert command("run", table, *words, *run).code == 0

    def test_repeating_it_is_fresh_and_new_labels_are_not(self, command: Command, table: Path) -> None:
        annotate(command, table, "--unlabeled")
        assert [one["state"] for one in annotate(command, table, "--unlabeled")["stages"]] == ["fresh"] * 3
        text = table.read_text().splitlines()
        text[1] += "up"
        table.write_text("\n".join(text) + "\n")
        found = annotate(command, table, "--unlabeled")
        assert [one["state"] for one in found["stages"]] == ["computed", "fresh", "computed"]
        assert "n0" not in [line["id"] for line in read_lines()]

    @pytest.mark.parametrize(
        ("given", "words", "says"),
        [
            ("full.csv", (), "all 2 items have labels, so none is left for --unlabeled"),
            ("none.csv", (), "none of the 2 items carries a label"),
            ("iris", ("--write-labels", "x.csv"), "reads labels from the data themselves"),
            ("all.csv", ("--write-labels", "all.csv"), "it must not replace data"),
        ],
    )
    def test_refusals(
        self, command: Command, table: Path, given: str, words: tuple[str, ...], says: str
    ) -> None:
        head = f"name,{','.join(COLUMNS)},tags\n"
        Path("full.csv").write_text(f"{head}a,1.5,2,3,up\nb,2.5,1,4,left\n")
        Path("none.csv").write_text(f"{head}a,1.5,2,3,\nb,2.5,1,4,\n")
        done = command("annotate", given, "--unlabeled", *words)
        assert done.code == 2
        assert says in done.err
        assert "Traceback" not in done.err


def labelscape(folder: Path, *words: str) -> Answer:
    """The real command in a separate process; Prefect is not started."""
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", *words, "--home", str(folder / "home")],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "PREFECT_API_URL": "http://127.0.0.1:9/api",
        },
        capture_output=True,
        text=True,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trust")
    X, Y = draw()
    with (folder / "train.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", *COLUMNS, "junk", "tags"])
        for row in range(LABELED):
            tags = ";".join(n for n, one in zip(NAMES, Y[row], strict=True) if one)
            writer.writerow([f"item {row}", *X[row].tolist(), row, tags])
    write_rows(folder / "new.csv", X[LABELED:])
    settings = ("source.id=name", "source.labels=tags", "source.label_separator=;", "source.ignore=junk")
    words = [word for one in settings for word in ("--set", one)]
    done = labelscape(folder, "auto", "train.csv", "--candidates", "linear_svm", *words)
    assert done.code == 0, done.err
    return folder


class TestRealTracker:
    """From `auto` to `annotate` through MLflow alone, in separate processes."""

    def test_the_champion_carries_its_labeled_items(self, folder: Path) -> None:
        away = folder / "away"
        away.mkdir()
        shutil.move(folder / "train.csv", away / "train.csv")
        try:
            done = labelscape(folder, "annotate", "new.csv", "--precision", ".8", "--json")
        finally:
            shutil.move(away / "train.csv", folder / "train.csv")
        assert done.code == 0, done.err
        found = json.loads(done.out)
        assert found["items"] == TOTAL - LABELED
        assert found["promise"]["state"] in ("holds", "doubtful")
        assert found["expected"][0]["expected_precision"] is not None
        lines = read_lines(str(folder / "annotations.jsonl"))
        assert lines[0]["id"] == "new 0"
        nearest = [near["id"] for line in lines for one in line["labels"] for near in one["nearest"]]
        assert nearest
        assert all(name.startswith("item ") for name in nearest)

    def test_the_record_says_how_the_collection_was_read(self, folder: Path) -> None:
        (file,) = (folder / "home").glob(f"mlartifacts/**/{LABELED_FILE}")
        labeled = load_labeled_items(file.read_bytes())
        assert (labeled.source["id"], labeled.source["ignore"]) == ("name", ["junk"])
        assert labeled.scores is not None
        assert labeled.total == len(labeled.ids)

    def test_a_changed_record_is_refused(self, folder: Path) -> None:
        (file,) = (folder / "home").glob(f"mlartifacts/**/{LABELED_FILE}")
        content = file.read_bytes()
        labeled = load_labeled_items(content)
        try:
            file.write_bytes(dump_labeled_items(replace(labeled, labels=1 - labeled.labels)))
            done = labelscape(folder, "annotate", "new.csv", "--out", "changed")
        finally:
            file.write_bytes(content)
        assert done.code == 2
        assert "is not the file that was logged with the model" in done.err
        assert not (folder / "changed.csv").exists()

    def test_a_model_of_run_has_evidence_and_no_expectations(self, folder: Path) -> None:
        settings = ("source.id=name", "source.labels=tags", "source.label_separator=;", "source.ignore=junk")
        words = [word for one in settings for word in ("--set", one)]
        done = labelscape(folder, "run", "train.csv", "--methods", "mlda", *words)
        assert done.code == 0, done.err
        run = Tracker(default_uri(folder / "home")).latest("train")
        assert run
        done = labelscape(
            folder, "annotate", "new.csv", "--run", run.parent_id, "--method", "mlda", "--out", "m"
        )
        assert done.code == 0, done.err
        assert "This model has no out-of-fold scores; train one with `labelscape auto`" in done.out
        lines = read_lines(str(folder / "m.jsonl"))
        assert any(one["nearest"] for line in lines for one in line["labels"])
