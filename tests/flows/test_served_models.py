"""Models that MLflow serves: pictures, texts or rows in, labels and scores out."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from flows.config import load_config
from storage.errors import StoreError
from storage.tracking.client import default_uri
from tasks.annotation.serving import FOLDER_VARIABLE, _load_pyfunc
from tasks.stages.tracking import load_tracked
from tests.conftest import REPOSITORY, TrainingRun, run_training, write_pictures

pytestmark = pytest.mark.slow

TEXTS = ("the sea is blue", "sand and sea", "a green forest", "trees of the forest") * 6
SERVE = (sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local", "--host", "127.0.0.1")
QUICK = ("evaluation.folds=3", 'evaluation.baselines=["1nn"]')


def train(source: Path | str, home: Path, *settings: str) -> TrainingRun:
    return run_training(load_config(None, [*QUICK, *settings], home=str(home), source={"path": str(source)}))


def model_folder(done: TrainingRun, method: str) -> Path:
    """The folder of a logged model in the home folder."""
    import mlflow

    assert done.products.tracked, done.untracked
    run = load_tracked(done.store, done.products.tracked).children[method]
    client = mlflow.MlflowClient(default_uri(done.home))
    model = client.get_run(run).data.tags["labelscape.model_id"]
    return Path(client.get_logged_model(model).artifact_location.removeprefix("file://"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("place") / "pictures", 40)


@pytest.fixture(scope="module")
def picture_run(pictures: Path, home: Path) -> TrainingRun:
    return train(pictures, home, 'embedding.methods=["mlda"]')


@pytest.fixture(scope="module")
def picture_model(picture_run: TrainingRun) -> Path:
    return model_folder(picture_run, "mlda")


def load(folder: Path) -> Any:
    import mlflow

    return mlflow.pyfunc.load_model(str(folder))


def check_scores(found: pd.DataFrame, names: list[str]) -> None:
    """Labels are known names, and every label of every item has a score in [0, 1]."""
    for labels, scores in zip(found["labels"], found["scores"], strict=True):
        assert set(labels) <= set(names)
        assert list(scores) == names
        assert all(0 <= value <= 1 for value in scores.values())


class TestPictures:
    def test_bytes_base64_and_paths_are_the_same_picture(
        self, picture_model: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(FOLDER_VARIABLE, str(pictures))
        raw = (pictures / "p04.png").read_bytes()
        text = base64.b64encode(raw).decode()
        cells = [raw, text, f"data:image/png;base64,{text}", "p04.png", str(pictures / "p04.png")]
        found = load(picture_model).predict(pd.DataFrame({"image": cells}))
        check_scores(found, ["blue", "green", "red"])
        assert [row for row in found["scores"] if row != found["scores"][0]] == []

    def test_labels_and_scores_are_those_of_annotate(
        self, picture_model: Path, picture_run: TrainingRun, pictures: Path, tmp_path: Path, home: Path
    ) -> None:
        from flows.cli import main

        assert picture_run.products.tracked
        run = load_tracked(picture_run.store, picture_run.products.tracked).parent_id
        chosen = ["--run", run, "--method", "mlda", "--home", str(home)]
        assert main(["annotate", str(pictures), "--out", str(tmp_path / "a"), *chosen]) == 0
        lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
        raw = [(pictures / line["id"]).read_bytes() for line in lines]
        found = load(picture_model).predict(pd.DataFrame({"image": raw}))
        for labels, scores, line in zip(found["labels"], found["scores"], lines, strict=True):
            given = {one["label"]: one["score"] for one in line["labels"]}
            assert set(labels) == set(given)
            np.testing.assert_allclose([scores[name] for name in given], list(given.values()), atol=1e-6)

    @pytest.mark.parametrize(
        ("cell", "said"),
        [
            ("/etc/passwd", "outside the folder that this server reads"),
            ("../pictures/../../x.png", "outside the folder"),
            ("missing.png", "the file cannot be read"),
            ("data:image/png;base64,AAAA", "image of item 2"),
            (7, "expected bytes, base64 or the path of a file, found int"),
        ],
    )
    def test_a_bad_cell_is_refused_with_its_item(
        self, picture_model: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch, cell: Any, said: str
    ) -> None:
        from mlflow.exceptions import MlflowException

        monkeypatch.setenv(FOLDER_VARIABLE, str(pictures))
        with pytest.raises(MlflowException, match=said) as refused:
            load(picture_model).predict(pd.DataFrame({"image": ["p04.png", cell]}))
        assert "image of item 2" in str(refused.value)
        assert refused.value.get_http_status_code() == 400

    def test_signature_and_example(self, picture_model: Path) -> None:
        import mlflow

        about = mlflow.models.Model.load(str(picture_model))
        assert about.signature is not None
        assert about.signature.outputs is not None
        assert about.signature.inputs.input_names() == ["image"]
        assert about.signature.outputs.input_names() == ["labels", "scores"]
        example = about.load_input_example(str(picture_model))
        check_scores(load(picture_model).predict(example), ["blue", "green", "red"])

    def test_a_model_file_with_other_types_is_not_loaded(self, picture_model: Path, tmp_path: Path) -> None:
        from skops import io as skops

        class Foreign(LogisticRegression):  # type: ignore[misc]
            """Not one of our types."""

        fitted = Foreign().fit([[0.0], [1.0]], [0, 1])
        (tmp_path / "model.skops").write_bytes(skops.dumps(fitted))
        with pytest.raises(StoreError, match="not trusted"):
            _load_pyfunc(str(tmp_path))

    def test_a_codebook_travels_with_the_model(self, pictures: Path, home: Path) -> None:
        """Another machine has no store with what the extractor learned."""
        settings = ('embedding.methods=["mlda"]', 'features.extractors=["bow_sift"]')
        done = train(pictures, home, *settings, "features.bow_sift.n_words=20")
        folder = model_folder(done, "mlda")
        raw = (pictures / "p04.png").read_bytes()
        expected = load(folder).predict(pd.DataFrame({"image": [raw]}))["scores"][0]
        assert (folder / "extractors" / "0.npz").is_file()
        (home / "store").rename(home / "elsewhere")
        try:
            assert load(folder).predict(pd.DataFrame({"image": [raw]}))["scores"][0] == expected
        finally:
            (home / "elsewhere").rename(home / "store")


def test_texts(home: Path, tmp_path: Path) -> None:
    labels = ("sea", "sea|sand", "forest", "forest") * 6
    table = pd.DataFrame({"text": TEXTS, "labels": labels})
    table.to_csv(tmp_path / "texts.csv", index=False)
    done = train(tmp_path / "texts.csv", home, 'embedding.methods=["mlda"]')
    found = load(model_folder(done, "1nn")).predict(pd.DataFrame({"text": ["sand and sea", "forest trees"]}))
    check_scores(found, ["forest", "sand", "sea"])
    assert list(found["labels"]) == [["sand", "sea"], ["forest"]]


def test_rows_with_names(home: Path) -> None:
    done = train("wine", home, 'embedding.methods=["pca"]')
    model = load(model_folder(done, "1nn"))
    names = model.metadata.signature.inputs.input_names()
    assert "alcohol" in names
    example = model.input_example
    assert example["alcohol"][0] == pytest.approx(14.23)
    found = model.predict(example[names[::-1]])  # columns are matched by name
    assert list(found["labels"]) == [["class_0"]]


def test_rows_without_names(home: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 20)
    np.savez(tmp_path / "rows.npz", X=(rng.normal(size=(40, 5)) + 6 * y[:, None]).astype(np.float32), y=y)
    model = load(model_folder(train(tmp_path / "rows.npz", home, 'embedding.methods=["pca"]'), "1nn"))
    found = model.predict(np.array([[0] * 5, [6] * 5], dtype=np.float32))
    assert list(found["labels"]) == [["0"], ["1"]]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def serving(folder: Path, below: Path, place: Path) -> Iterator[str]:
    """Run `mlflow models serve` on a free port until the end of the block."""
    port = free_port()
    # MLflow starts uvicorn by its name, which need not be on the path of a test.
    script = place / "uvicorn"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m uvicorn "$@"\n')
    script.chmod(0o755)
    more = {"PYTHONPATH": str(REPOSITORY), "MLFLOW_DISABLE_TELEMETRY": "true"}
    process = subprocess.Popen(
        [*SERVE, "-m", str(folder), "-p", str(port)],
        cwd=below,
        env=os.environ | more | {"PATH": f"{place}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout
        said = []
        for line in process.stdout:
            said.append(line)
            if "Uvicorn running on" in line:
                break
        assert "Uvicorn running on" in said[-1], "".join(said)
        yield f"http://127.0.0.1:{port}/invocations"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)


def ask(address: str, content: Any) -> tuple[int, Any]:
    request = urllib.request.Request(
        address, json.dumps(content).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_real_server_answers_a_real_request(picture_model: Path, pictures: Path, tmp_path: Path) -> None:
    raw = (pictures / "p04.png").read_bytes()
    expected = load(picture_model).predict(pd.DataFrame({"image": [raw]}))
    records = [{"image": base64.b64encode(raw).decode()}, {"image": "p04.png"}]
    with serving(picture_model, pictures, tmp_path) as address:
        status, answer = ask(address, {"dataframe_records": records})
        assert status == 200
        for found in answer["predictions"]:
            assert found["labels"] == expected["labels"][0]
            assert found["scores"] == pytest.approx(expected["scores"][0])
        example = json.loads((picture_model / "serving_input_example.json").read_text())
        assert ask(address, example)[0] == 200
        status, answer = ask(address, {"dataframe_records": [{"image": "/etc/hostname"}]})
        assert status == 400
        assert "outside the folder that this server reads" in answer["message"]
