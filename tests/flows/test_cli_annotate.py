"""`labelscape annotate`: labels with scores for new items, and its errors."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from storage.errors import TrackingError
from storage.tracking.client import ExperimentInfo, ModelInfo, TrackedRun
from storage.tracking.registry import Version
from tasks.stages.embedding import load_model_payload
from tasks.stages.tracking import BASELINE_TAG
from tests.conftest import Command, run_locally, write_pictures


class FakeTracker:
    """A tracker with one model, in place of MLflow; after it an experiment of a paper was tracked."""

    uri = "sqlite:////fake.db"

    def __init__(self, payload: bytes | None) -> None:
        self.payload = payload

    def is_empty(self) -> bool:
        return True

    def experiments(self) -> list[ExperimentInfo]:
        papers, own = ExperimentInfo("2", "reproduce"), ExperimentInfo("1", "pictures")
        return [papers, own] if self.payload else [papers]

    def latest(self, experiment: str | None = None) -> TrackedRun | None:
        if experiment != "pictures":
            return TrackedRun("q" * 32, {}, "2", self.uri)
        return TrackedRun("p" * 32, {}, "1", self.uri) if self.payload else None

    def labeled_items(self, run_id: str) -> bytes | None:
        return None

    def model(self, run: str, method: str | None = None) -> tuple[bytes, ModelInfo]:
        if run != "p" * 32:
            raise TrackingError(f"no run {run!r} at {self.uri}")
        assert self.payload
        return self.payload, ModelInfo("c" * 32, run, "run", "pictures", "mlda", "MLDA", {}, {})


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A model of images and one of a table, as stored by a run."""
    place = tmp_path_factory.mktemp("models")
    found = {}
    for name, source in (("images", write_pictures(place / "pictures", 40)), ("table", "iris")):
        run = run_locally(source, place / name, "embedding.method=mlda", "evaluation.baselines=[]")
        ref = run.products.refs["embedding"]["mlda"]
        assert ref
        found[name] = load_model_payload(ref, run.workspace.store) or b""
    return found


class TestAnnotate:
    @pytest.fixture
    def use(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes | None], None]:
        def use(payload: bytes | None) -> None:
            monkeypatch.setattr("flows.commands.annotate.open_tracker", lambda uri: FakeTracker(payload))

        return use

    @pytest.mark.slow
    def test_images(
        self, command: Command, tmp_path: Path, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["images"])
        folder = write_pictures(tmp_path / "new", 6)
        (folder / "bad.jpg").write_bytes(b"no picture")
        done = command("annotate", folder)
        assert done.code == 0
        assert "6 items annotated by MLDA of run pppppppp (pictures)" in done.out
        assert "1 skipped:\n  bad.jpg: not an image" in done.out
        table = pq.read_table("annotations.parquet")
        about = [f"{what}:{name}" for name in ("blue", "green", "red") for what in ("score", "threshold")]
        assert table.column_names == ["id", "labels", "doubt_rank", "doubt_label", "novelty", *about]
        assert table.schema.metadata[b"method"] == b"mlda"
        rows = list(csv.DictReader(io.StringIO(Path("annotations.csv").read_text(encoding="utf-8"))))
        assert [row["id"] for row in rows] == table["id"].to_pylist() == [f"p{i:02d}.png" for i in range(6)]
        scores = np.array(
            [[float(row[f"score:{name}"]) for name in ("blue", "green", "red")] for row in rows]
        )
        assert ((scores >= 0) & (scores <= 1)).all()
        named = [set(row["labels"].split("|")) - {""} for row in rows]
        expected = [
            {n for n, s in zip(("blue", "green", "red"), row, strict=True) if s > 0.5} for row in scores
        ]
        assert named == expected

    @pytest.mark.slow
    def test_json_lists_what_was_skipped(
        self, command: Command, tmp_path: Path, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["images"])
        folder = write_pictures(tmp_path / "new", 3)
        (folder / "bad.jpg").write_bytes(b"")
        found = json.loads(command("annotate", folder, "--json", "--out", tmp_path / "x.y").out)
        assert found["items"] == 3
        assert found["skipped"] == [{"file": "bad.jpg", "reason": "the file is empty (0 bytes)"}]
        assert found["files"] == [str(tmp_path / f"x.y{end}") for end in (".parquet", ".csv", ".jsonl")]
        assert all(Path(file).is_file() for file in found["files"])

    @pytest.mark.slow
    @pytest.mark.parametrize("plain", [True, False])
    def test_json_says_whether_the_champion_is_a_plain_baseline(
        self,
        command: Command,
        tmp_path: Path,
        models: dict[str, bytes],
        use: Callable[..., None],
        monkeypatch: pytest.MonkeyPatch,
        plain: bool,
    ) -> None:
        use(models["table"])
        champion = Version("labelscape-t", "3", "p" * 32, {BASELINE_TAG: str(plain).lower()})
        monkeypatch.setattr("flows.annotate.find_champion", lambda *given: champion)
        (tmp_path / "t.csv").write_text("f0,f1,f2,f3\n5.1,3.5,1.4,0.2\n")
        found = json.loads(command("annotate", tmp_path / "t.csv", "--json").out)
        assert found["champion"] == {"model": "labelscape-t", "version": "3", "plain_baseline": plain}
        assert ("a plain baseline" in command("annotate", tmp_path / "t.csv").out) == plain

    def test_a_table(
        self, command: Command, tmp_path: Path, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["table"])
        (tmp_path / "t.csv").write_text("f0,f1,f2,f3\n5.1,3.5,1.4,0.2\n6.3,2.5,5.0,1.9\n")
        found = json.loads(command("annotate", tmp_path / "t.csv", "--json").out)
        assert found["labels"] == {"setosa": 1, "versicolor": 0, "virginica": 1}

    def test_features_of_an_arff_file_are_matched_by_name(
        self, command: Command, tmp_path: Path, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["table"])
        names = ["petal width (cm)", "petal length (cm)", "sepal width (cm)", "sepal length (cm)"]
        header = "".join(f"@attribute '{name}' numeric\n" for name in names)
        rows = "0.2,1.4,3.5,5.1\n1.9,5.0,2.5,6.3\n"
        (tmp_path / "t.arff").write_text(f"@relation new\n{header}@data\n{rows}")
        found = json.loads(command("annotate", tmp_path / "t.arff", "--json").out)
        assert found["labels"] == {"setosa": 1, "versicolor": 0, "virginica": 1}

    def test_a_built_in_set(
        self, command: Command, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["table"])
        assert json.loads(command("annotate", "iris", "--json").out)["items"] == 150

    @pytest.mark.parametrize(
        ("model", "given", "says"),
        [
            ("images", "gone", "there is no file or folder gone"),
            ("images", "empty", "empty is empty. Expected: "),
            ("images", "broken", "none of 1 items is readable; the first is a.png"),
            ("images", "t.csv", "t.csv contains features, but the model was trained on images"),
            ("table", "new", "new contains images, but the model was trained on a table of features"),
            ("table", "t.csv", "t.csv has 2 features; the model was trained on 4"),
            ("table", "no_rows.csv", "no_rows.csv has no items"),
            ("table", "wine", "wine lacks 4 of the 4 features of the model: sepal length (cm), "),
            (None, "new", "no run has been tracked at sqlite:////fake.db yet"),
        ],
    )
    def test_refusals(
        self,
        command: Command,
        tmp_path: Path,
        models: dict[str, bytes],
        use: Callable[..., None],
        model: str | None,
        given: str,
        says: str,
    ) -> None:
        use(models[model] if model else None)
        write_pictures(tmp_path / "new", 2)
        for name in ("empty", "broken"):
            (tmp_path / name).mkdir()
        (tmp_path / "broken" / "a.png").write_bytes(b"no picture")
        (tmp_path / "t.csv").write_text("f0,f1\n1,2\n")
        (tmp_path / "no_rows.csv").write_text("f0,f1,f2,f3\n")
        done = command("annotate", given)
        assert done.code == 2
        assert says in done.err
        assert "Traceback" not in done.err
        assert not list(tmp_path.glob("annotations*"))

    def test_another_recipe_is_refused(
        self,
        command: Command,
        tmp_path: Path,
        models: dict[str, bytes],
        use: Callable[..., None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        use(models["images"])
        write_pictures(tmp_path / "new", 2)
        monkeypatch.setattr("tasks.stages.features.fingerprint", lambda modules: {"changed": "f" * 32})
        done = command("annotate", "new")
        assert done.code == 2
        assert "another version of the extractor" in done.err
        assert "Train again" in done.err

    def test_a_missing_output_folder_is_created(
        self, command: Command, tmp_path: Path, models: dict[str, bytes], use: Callable[..., None]
    ) -> None:
        use(models["images"])
        done = command("annotate", write_pictures(tmp_path / "new", 2), "--out", "no/such/place")
        assert done.code == 0
        assert (tmp_path / "no" / "such" / "place.csv").is_file()

    @pytest.mark.parametrize(
        ("out", "says"),
        [
            ("new/labels", "inside the items to annotate"),
            ("new/below/labels", "inside the items to annotate"),
            ("home/labels", "inside the home folder"),
            ("file/labels", "file is a file where a folder is needed"),
            ("taken", "taken.csv is a folder"),
            ("/", "names no file"),
            ("~nobody-here/labels", "the home folder of ~nobody-here is not known"),
            ("x" * 300, "too long"),
        ],
    )
    def test_an_unusable_place_for_the_output_is_refused_first(
        self, command: Command, tmp_path: Path, out: str, says: str
    ) -> None:
        write_pictures(tmp_path / "new", 2)
        (tmp_path / "file").write_text("mine")
        for folder in ("home", "taken.csv"):
            (tmp_path / folder).mkdir()
        done = command("annotate", "new", "--home", "home", "--out", out)
        assert done.code == 2
        assert says in done.err
        assert "--out" in done.err
        assert "resume" not in done.err

    def test_the_output_does_not_overwrite_the_items(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "table.csv").write_text("f0,f1\n1,2\n")
        done = command("annotate", "table.csv", "--out", "table")
        assert done.code == 2
        assert "would overwrite table.csv" in done.err

    def test_before_the_first_run(self, command: Command, picture_folder: Path) -> None:
        for verb in (("annotate", picture_folder), ("compare",)):
            done = command(*verb, "--home", "home")
            assert done.code == 2
            assert "no run has been tracked at sqlite:///" in done.err
            assert "labelscape run" in done.err
        assert not Path("home/mlflow.db").exists()

    def test_compare_does_not_show_the_experiment_of_a_paper(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tracker = FakeTracker(b"a model")
        monkeypatch.setattr(tracker, "runs", lambda experiment: [], raising=False)
        monkeypatch.setattr("flows.commands.compare.open_tracker", lambda options: tracker)
        assert command("compare").out.startswith("experiment pictures, ")
