"""Tracking: logged records are read back, failures are marked, and lookups import nothing heavy."""

import contextlib
import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from storage.errors import LabelscapeError, TrackingError
from storage.tracking.client import DatasetRecord, MethodRecord, RunRecord, Tracker, default_uri
from storage.tracking.models import flatten_params, join_metrics, split_metrics
from storage.urls import redact

TRUSTED = ["tests.storage.test_tracking.Doubler"]


class Doubler(BaseEstimator):
    """A minimal model: state, `predict` and a number of features."""

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def fit(self, X: np.ndarray) -> "Doubler":
        self.factor_ = np.array([self.factor])
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X * self.factor_


def payload(factor: float = 2.0) -> bytes:
    import skops.io

    return bytes(skops.io.dumps(Doubler(factor).fit(np.zeros((1, 3)))))


def method(name: str, f1: float = 0.5, **given: Any) -> MethodRecord:
    defaults: dict[str, Any] = {
        "params": {"n_components": None, "graph": {"weights": "heat"}},
        "metrics": {"macro_f1": f1, "hamming_loss": 0.25},
        "metrics_std": {"macro_f1": 0.02, "hamming_loss": 0.01},
        "classifier": "1nn",
        "tags": {"digest": "ab" * 8},
        "files": {"figures/spectrum.txt": b"1 2 3"},
    }
    return MethodRecord(name, f"Title of {name}", **(defaults | given))


def record(experiment: str, *methods: MethodRecord, **given: Any) -> RunRecord:
    chosen = methods or (method("mlda", 0.6, model=payload()), method("svm", 0.7))
    return RunRecord(experiment, "a run", {"source": {"path": "demo"}}, {"lineage": "x"}, chosen, **given)


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    """One database for the module: setting up a new one takes seconds; tests differ by experiment."""
    home = tmp_path_factory.mktemp("tracking")
    return Tracker(default_uri(home), home / "mlartifacts")


@pytest.fixture
def client(tracker: Tracker) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=tracker.uri)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A loopback server with one answer to everything."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
class TestLogging:
    def test_parent_and_children(self, tracker: Tracker, client: Any) -> None:
        done = tracker.log(record("nesting"), TRUSTED)
        assert list(done.children) == ["mlda", "svm"]
        parent = client.get_run(done.parent_id)
        assert parent.info.status == "FINISHED"
        assert parent.info.run_name == "a run"
        assert parent.data.params == {"source.path": "demo"}
        assert parent.data.tags["lineage"] == "x"
        for name, run_id in done.children.items():
            child = client.get_run(run_id)
            assert child.info.status == "FINISHED"
            assert child.info.experiment_id == done.experiment_id
            assert child.data.tags["mlflow.parentRunId"] == done.parent_id
            assert child.data.tags["labelscape.method"] == name
            assert child.data.params == {"n_components": "null", "graph.weights": "heat"}
            assert child.data.metrics["hamming_loss_std"] == 0.01

    def test_what_can_be_compared_is_on_every_run(self, tracker: Tracker, client: Any) -> None:
        data = DatasetRecord("photos", "ab" * 16, "/data/photos", {"items": 7})
        given = {"leader": "svm", "dataset": data, "shared_params": {"scale": "unit"}, "note": "- a note"}
        pages = {"files": {"report/index.html": b"<p>"}, "links": {"flow run": "http://here/runs/1"}}
        done = tracker.log(record("comparing", **given, **pages), TRUSTED)
        parent = client.get_run(done.parent_id)
        assert parent.data.metrics["macro_f1"] == 0.7
        report = f"#/experiments/{done.experiment_id}/runs/{done.parent_id}/artifacts/report/index.html"
        links = f"[report]({report}) · [flow run](http://here/runs/1)"
        assert parent.data.tags["mlflow.note.content"] == f"{links}\n\n- a note"
        for run_id in (done.parent_id, *done.children.values()):
            (found,) = client.get_run(run_id).inputs.dataset_inputs
            assert (found.dataset.name, found.dataset.digest) == ("photos", "ab" * 6)
            assert json.loads(found.dataset.source) == {"uri": "/data/photos"}
            assert json.loads(found.dataset.profile) == {"items": 7}
        child = client.get_run(done.children["mlda"]).data.params
        assert child == {"n_components": "null", "graph.weights": "heat", "scale": "unit"}

    def test_the_parent_has_the_scores_of_the_best_classifier(self, tracker: Tracker, client: Any) -> None:
        scores = {"macro_f1": 0.71236, "10nn/macro_f1": 0.81236}
        svm = MethodRecord("svm", "SVM", {}, scores, {}, classifier="1nn")
        best = record("best", svm, leader="svm", leader_classifier="10nn")
        assert client.get_run(tracker.log(best, TRUSTED).parent_id).data.metrics == {"macro_f1": 0.8124}
        first = record("first", svm, leader="svm")
        assert client.get_run(tracker.log(first, TRUSTED).parent_id).data.metrics == {"macro_f1": 0.7124}

    def test_a_new_experiment_opens_as_training_runs(self, tracker: Tracker, client: Any) -> None:
        given = {"owner": "/data/photos", "about": "Runs on photos.", "columns": {"metrics.macro_f1": 90}}
        done = tracker.log(record("owned", **given), TRUSTED)
        tags = client.get_experiment(done.experiment_id).tags
        assert tags["mlflow.experimentKind"] == "custom_model_development"
        link = f"#/experiments/{done.experiment_id}/runs?viewStateShareKey=labelscape"
        assert tags["mlflow.note.content"].startswith(f"[Show scores]({link}")
        assert tags["mlflow.note.content"].endswith("). Runs on photos.")
        view = json.loads(tags["mlflow.sharedViewState.labelscape"])
        assert json.loads(view["state"])["selectedColumns"] == [
            "attributes.`Dataset`",
            "metrics.`macro_f1`",
        ]

    def test_the_description_of_an_experiment_has_the_newest_result(
        self, tracker: Tracker, client: Any
    ) -> None:
        given = {"about": "Runs on photos.", "columns": {"metrics.macro_f1": 90}}
        for score in ("0.7", "0.8"):
            done = tracker.log(record("newest", **given, headline=f"Best {score}."), TRUSTED)
        tags = client.get_experiment(done.experiment_id).tags
        assert tags["mlflow.note.content"].endswith("). Best 0.8. Runs on photos.")
        client.set_experiment_tag(done.experiment_id, "mlflow.note.content", "My own words.")
        tracker.log(record("newest", **given, headline="Best 0.9."), TRUSTED)
        assert client.get_experiment(done.experiment_id).tags["mlflow.note.content"] == "My own words."

    def test_an_experiment_of_another_source_is_not_used(self, tracker: Tracker) -> None:
        tracker.log(record("whose", owner="/a/photos"), TRUSTED)
        tracker.log(record("whose", owner="/a/photos"), TRUSTED)
        with pytest.raises(TrackingError, match="belongs to /a/photos, not to /b/photos"):
            tracker.log(record("whose", owner="/b/photos"), TRUSTED)
        tracker.log(record("whose"), TRUSTED)  # named by the user

    def test_files_keep_their_folders_and_bytes(self, tracker: Tracker, client: Any, tmp_path: Path) -> None:
        done = tracker.log(record("files", files={"index.html": b"<p>", "img/a.png": b"\x89"}), TRUSTED)
        folder = Path(client.download_artifacts(done.parent_id, "", str(tmp_path)))
        assert (folder / "index.html").read_bytes() == b"<p>"
        assert (folder / "img" / "a.png").read_bytes() == b"\x89"
        assert tracker.artifact_root is not None
        assert any(tracker.artifact_root.rglob("a.png"))

    @pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "", "a\\b"])
    def test_file_names_that_leave_the_run_are_refused(self, tracker: Tracker, name: str) -> None:
        with pytest.raises(TrackingError, match="relative path"):
            tracker.log(record("leaving", files={name: b""}), TRUSTED)

    def test_folds_are_steps_and_no_totals(self, tracker: Tracker, client: Any) -> None:
        rows = [("mlda", "1nn", fold, "macro_f1", 0.5 + fold / 10) for fold in range(3)]
        rows += [("mlda", "10nn", 0, "macro_f1", 0.9), ("svm", "svm", 0, "macro_f1", 0.9)]
        done = tracker.log(record("folds", fold_rows=rows), TRUSTED)
        history = client.get_metric_history(done.children["mlda"], "fold/macro_f1")
        assert [(entry.step, entry.value) for entry in history] == [(0, 0.5), (1, 0.6), (2, 0.7)]
        assert tracker.fold_scores(done.children["mlda"], "10nn/macro_f1") == {0: 0.9}
        assert "fold/macro_f1" not in tracker.runs("folds")[0].metrics

    def test_more_values_than_fit_into_one_request(self, tracker: Tracker, client: Any) -> None:
        many = method(
            "mlda", params={f"p{i}": i for i in range(230)}, metrics={f"m{i}": i for i in range(1200)}
        )
        done = tracker.log(record("many", many), TRUSTED)
        data = client.get_run(done.children["mlda"]).data
        assert data.params == {f"p{i}": str(i) for i in range(230)}
        assert data.metrics["m1199"] == 1199

    def test_long_values_are_cut_visibly(self, tracker: Tracker, client: Any) -> None:
        done = tracker.log(record("long", method("mlda", params={"ids": "x" * 9000}, tags={"t": "y" * 9000})))
        data = client.get_run(done.children["mlda"]).data
        assert data.params["ids"].endswith("x…")
        assert data.tags["t"].endswith("y…")

    def test_a_failure_marks_the_run_and_the_failing_method(self, tracker: Tracker, client: Any) -> None:
        broken = method("svm", metrics={"no*good": 1.0})
        with pytest.raises(TrackingError, match=r"no\*good"):
            tracker.log(record("broken", method("mlda"), broken))
        runs = client.search_runs([client.get_experiment_by_name("broken").experiment_id])
        states = {run.info.run_name: run.info.status for run in runs}
        assert states == {"a run": "FAILED", "Title of mlda": "FINISHED", "Title of svm": "FAILED"}
        assert tracker.runs("broken") == []
        assert tracker.latest("broken") is None

    def test_an_interrupt_marks_the_run_killed(
        self, tracker: Tracker, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from storage.tracking.writer import RunWriter

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(RunWriter, "_log_files", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tracker.log(record("interrupted", method("mlda")))
        (run,) = client.search_runs([client.get_experiment_by_name("interrupted").experiment_id])
        assert run.info.status == "KILLED"

    def test_a_run_whose_process_was_killed_ends_with_the_next_one(
        self, tracker: Tracker, client: Any
    ) -> None:
        from storage.tracking.killed_runs import PROCESS, name_process

        place = tracker.log(record("killed", method("mlda"))).experiment_id
        dead = name_process().rpartition(" ")[0] + " 0.0"  # this process id at another time
        others = {
            "dead": dead,
            "alive": name_process(),
            "elsewhere": "other 1 0.0",
            "unknown": "",
            "odd": "x y z",
        }
        made = {
            name: client.create_run(place, run_name=name, tags={PROCESS: tag} if tag else {}).info.run_id
            for name, tag in others.items()
        }
        done = tracker.log(record("killed", method("mlda")))
        assert client.get_run(done.parent_id).data.tags[PROCESS] == name_process()
        states = {name: client.get_run(run).info.status for name, run in made.items()}
        assert states.pop("dead") == "KILLED"
        assert set(states.values()) == {"RUNNING"}

    def test_two_threads_log_at_once(self, tracker: Tracker) -> None:
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(tracker.log, record("threads"), TRUSTED) for _ in range(2)]
            done = [future.result() for future in futures]
        assert {run.parent_id for run in tracker.runs("threads")} == {run.parent_id for run in done}
        assert len(tracker.runs("threads")) == 4

    def test_a_repeated_method_is_refused(self, tracker: Tracker) -> None:
        with pytest.raises(TrackingError, match="'mlda' is given twice"):
            tracker.log(record("twice", method("mlda"), method("mlda")))

    def test_a_deleted_experiment_is_named(self, tracker: Tracker, client: Any) -> None:
        done = tracker.log(record("deleted", method("mlda")))
        client.delete_experiment(done.experiment_id)
        with pytest.raises(TrackingError, match="'deleted' is deleted"):
            tracker.log(record("deleted", method("mlda")))

    def test_the_process_keeps_its_own_address(
        self, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import mlflow

        monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///elsewhere.db")
        tracker.log(record("address"), TRUSTED)
        assert mlflow.get_tracking_uri() == "sqlite:///elsewhere.db"
        mlflow.set_tracking_uri(None)


@pytest.mark.slow
class TestModels:
    @pytest.mark.slow
    def test_payload_comes_back_and_predicts(self, tracker: Tracker) -> None:
        from storage.artifacts.models import load_model

        done = tracker.log(record("models"), TRUSTED)
        data, info = tracker.model(done.parent_id)
        assert (info.method, info.parent_id, info.experiment) == ("mlda", done.parent_id, "models")
        assert info.run_id == done.children["mlda"]
        model: Any = load_model(data, TRUSTED)
        np.testing.assert_array_equal(model.predict(np.ones((2, 3))), np.full((2, 3), 2.0))

    @pytest.mark.slow
    def test_mlflow_itself_can_use_it(
        self, tracker: Tracker, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import mlflow

        done = tracker.log(record("pyfunc"), TRUSTED)
        model_id = client.get_run(done.children["mlda"]).data.tags["labelscape.model_id"]
        logged = client.get_logged_model(model_id)
        assert logged.experiment_id == done.experiment_id
        assert {metric.key for metric in logged.metrics} >= {"macro_f1", "hamming_loss_std"}
        monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "true")
        loaded = mlflow.pyfunc.load_model(logged.artifact_location)
        np.testing.assert_array_equal(loaded.predict(np.ones((1, 3), np.float32)), [[2.0, 2.0, 2.0]])

    @pytest.mark.slow
    def test_a_named_method_and_a_method_run(self, tracker: Tracker) -> None:
        both = (method("mlda", model=payload()), method("dle", model=payload()), method("svm"))
        done = tracker.log(record("named", *both, primary="dle"), TRUSTED)
        assert tracker.model(done.parent_id)[1].method == "dle"
        assert tracker.model(done.parent_id, "mlda")[1].method == "mlda"
        assert tracker.model(done.children["mlda"])[1].method == "mlda"
        with pytest.raises(TrackingError, match="no model of svm; it has models of: mlda, dle"):
            tracker.model(done.parent_id, "svm")
        with pytest.raises(TrackingError, match="'mlda', not 'dle'"):
            tracker.model(done.children["mlda"], "dle")
        with pytest.raises(TrackingError, match="has no model"):
            tracker.model(done.children["svm"])

    def test_a_swapped_model_file_is_refused(self, tracker: Tracker, client: Any) -> None:
        from storage.tracking.models import check_model_digest
        from storage.tracking.registry import CHAMPION, ModelRegistry

        both = (method("mlda", model=payload()), method("dle", model=payload(3.0)))
        done = tracker.log(record("swapped", *both), TRUSTED)
        data = {name: tracker.model(done.parent_id, name)[0] for name in ("mlda", "dle")}
        assert data["mlda"] != data["dle"]
        version = ModelRegistry(tracker).register("swapped", done.children["mlda"], CHAMPION, {})
        check_model_digest(data["mlda"], version.tags, "the champion")
        with pytest.raises(TrackingError, match="the champion is not the model that was logged"):
            check_model_digest(data["dle"], version.tags, "the champion")
        tags = client.get_run(done.children["mlda"]).data.tags
        place = client.get_logged_model(tags["labelscape.model_id"]).artifact_location
        (Path(place.removeprefix("file://")) / "model.skops").write_bytes(data["dle"])
        with pytest.raises(
            TrackingError, match=r"model\.skops is not the model .* expected .* --refresh tracking"
        ):
            tracker.model(done.parent_id, "mlda")
        assert tracker.model(done.parent_id, "dle")[0] == data["dle"]

    def test_registered_runs_on_every_page_are_found(
        self, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from mlflow import MlflowClient

        from storage.tracking.registry import CHAMPION, ModelRegistry

        def one_at_a_time(self: Any, filter_string: Any = None, page_token: Any = None, **_: Any) -> Any:
            return search(self, filter_string, max_results=1, page_token=page_token)

        search = MlflowClient.search_model_versions
        done = [tracker.log(record("pages", method("mlda", model=payload())), TRUSTED) for _ in range(3)]
        for number, one in enumerate(done):
            ModelRegistry(tracker).register(f"pages-{number}", one.children["mlda"], CHAMPION, {})
        monkeypatch.setattr(MlflowClient, "search_model_versions", one_at_a_time)
        assert {one.parent_id for one in done} <= tracker.registered_runs()

    def test_a_registered_run_that_no_longer_exists_is_no_error(self, tracker: Tracker, client: Any) -> None:
        from storage.tracking.registry import CHAMPION, ModelRegistry

        done = tracker.log(record("gone", method("mlda", model=payload())), TRUSTED)
        ModelRegistry(tracker).register("gone", done.children["mlda"], CHAMPION, {})
        client._tracking_client.store._hard_delete_run(done.children["mlda"])
        assert done.children["mlda"] in tracker.registered_runs()

    def test_an_unknown_run_is_named(self, tracker: Tracker) -> None:
        tracker.log(record("unknown", method("mlda")))
        with pytest.raises(TrackingError, match="no run 'feed'"):
            tracker.model("feed")

    def test_an_untrusted_payload_is_refused_before_anything_is_written(
        self, tracker: Tracker, client: Any
    ) -> None:
        with pytest.raises(LabelscapeError, match="Doubler"):
            tracker.log(record("untrusted"), trusted=[])
        assert client.get_experiment_by_name("untrusted") is None


@pytest.mark.slow
class TestFinding:
    @pytest.mark.slow
    def test_runs_come_latest_first_with_their_spread(self, tracker: Tracker) -> None:
        first, second = (tracker.log(record("compare"), TRUSTED) for _ in range(2))
        rows = tracker.runs("compare")
        assert [row.parent_id for row in rows] == [second.parent_id] * 2 + [first.parent_id] * 2
        assert [row.method for row in rows] == ["mlda", "svm"] * 2
        assert rows[0].metrics == {"macro_f1": 0.6, "hamming_loss": 0.25}
        assert rows[0].metrics_std == {"macro_f1": 0.02, "hamming_loss": 0.01}
        assert (rows[0].title, rows[0].classifier, rows[0].run_name) == ("Title of mlda", "1nn", "a run")
        assert rows[0].run_tags["lineage"] == "x"

    def test_latest_of_one_experiment_and_of_all(self, tracker: Tracker) -> None:
        one = tracker.log(record("latest one", method("mlda")))
        two = tracker.log(record("latest two", method("mlda")))
        assert tracker.latest("latest one") == one
        assert tracker.latest() == two
        assert [info.name for info in tracker.experiments()][:2] == ["latest two", "latest one"]

    def test_an_unknown_experiment_names_a_near_one(self, tracker: Tracker) -> None:
        tracker.log(record("emotions", method("mlda")))
        with pytest.raises(TrackingError, match=r"no experiment 'emotion' .* did you mean 'emotions'"):
            tracker.runs("emotion")

    def test_exists_until_deleted(self, tracker: Tracker, client: Any) -> None:
        done = tracker.log(record("exists", method("mlda")))
        assert tracker.exists(done.parent_id)
        assert not tracker.exists("0" * 32)
        client.delete_run(done.parent_id)
        assert not tracker.exists(done.parent_id)

    def test_asking_creates_no_database(self, tmp_path: Path) -> None:
        empty = Tracker(default_uri(tmp_path / "home"))
        assert (empty.exists("a"), empty.latest(), empty.experiments()) == (False, None, [])
        with pytest.raises(TrackingError, match="no run has been tracked"):
            empty.runs("demo")
        with pytest.raises(TrackingError, match="no run has been tracked"):
            empty.model("a")
        assert not (tmp_path / "home").exists()


class TestBadAddresses:
    @pytest.mark.slow
    def test_no_server_is_reported_before_mlflow_retries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import mlflow

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("MLflow was asked, which retries for minutes")

        monkeypatch.setattr(mlflow, "MlflowClient", refuse)
        nobody = Tracker(f"http://127.0.0.1:{free_port()}")
        for ask in (
            lambda: nobody.log(record("x", method("mlda"))),
            nobody.latest,
            lambda: nobody.exists("a"),
        ):
            with pytest.raises(TrackingError, match="labelscape up"):
                ask()

    @pytest.mark.slow
    def test_another_server_is_reported(self) -> None:
        with answering(200, b"hello") as address:
            with pytest.raises(TrackingError, match=r"127\.0\.0\.1"):
                Tracker(address).log(record("x", method("mlda")))
            with pytest.raises(TrackingError, match="does not answer like MLflow"):
                Tracker(address).exists("a")

    @pytest.mark.parametrize(
        ("status", "body", "there"),
        [
            (404, b"{}", False),
            (200, b'{"run": {"info": {"lifecycle_stage": "active"}}}', True),
            (200, b'{"run": {"info": {"lifecycle_stage": "deleted"}}}', False),
        ],
    )
    def test_exists_reads_a_servers_answer(self, status: int, body: bytes, there: bool) -> None:
        with answering(status, body) as address:
            assert Tracker(address).exists("a") is there

    def test_a_refusing_server_is_not_a_missing_run(self) -> None:
        with answering(401, b"") as address, pytest.raises(TrackingError, match="401"):
            Tracker(address).exists("a")

    @pytest.mark.parametrize("uri", ["mlruns", "file:///tmp/x", "/a/b", "sqlite://"])
    def test_folders_are_refused(self, uri: str) -> None:
        with pytest.raises(TrackingError, match="sqlite:////path"):
            Tracker(uri)

    @pytest.mark.parametrize(
        ("uri", "problem"),
        [
            ("ftp://me:secret@host/runs", "MLflow cannot record runs at ftp://"),
            ("postgres://me:secret@host/runs", "Write postgresql://"),
            ("http://me:secret@[::1", "Invalid IPv6"),
            ("http://me:secret@host:99999", "Port out of range"),
            ("http://me:secret@host:port", "Port could not be cast"),
            ("http://", "names no host"),
            ("postgresql+nothing://me:secret@host/runs", "nothing"),
            ("sqlite:///:memory:", "names no file"),
            ("mysql+two+drivers://me:secret@host/runs", "two"),
        ],
    )
    def test_addresses_without_a_tracker_are_refused(self, uri: str, problem: str) -> None:
        with pytest.raises(TrackingError) as caught:
            Tracker(uri)
        assert problem in str(caught.value)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        "uri",
        ["HTTP://host:5000", "https://me:secret@host/path", "sqlite:///runs.db", "databricks://profile"],
    )
    def test_other_addresses_are_accepted(self, uri: str) -> None:
        assert (Tracker(uri).uri, Tracker(uri).address) == (uri.replace("me:secret@", ""), uri)

    @pytest.mark.slow
    def test_a_foreign_file_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "mlflow.db").write_bytes(b"no database " * 500)
        foreign = Tracker(default_uri(tmp_path))
        with pytest.raises(TrackingError, match=r"damaged \(it is not an SQLite database"):
            foreign.exists("a")
        with pytest.raises(TrackingError, match=r"mlflow\.db"):
            foreign.latest()

    def test_a_database_without_tables_holds_no_run(self, tmp_path: Path) -> None:
        (tmp_path / "mlflow.db").touch()
        assert not Tracker(default_uri(tmp_path)).exists("a")

    def test_passwords_stay_out_of_messages(self) -> None:
        assert redact("https://me:secret@host:1/x") == "https://host:1/x"


def test_asking_loads_no_engine(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from storage.tracking.client import Tracker, default_uri\n"
        f"assert not Tracker(default_uri(Path({str(tmp_path)!r}))).exists('a')\n"
        "heavy = {'mlflow', 'prefect', 'sklearn', 'numpy', 'pandas', 'sqlalchemy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_flatten_names_and_texts() -> None:
    given = {"a": {"b": {"c": 1.5}}, "d": {}, "e": "x", "f": (1, 2), "g": True}
    assert flatten_params(given) == {"a.b.c": "1.5", "d": "{}", "e": "x", "f": "[1, 2]", "g": "true"}


def test_a_spread_is_distinguished_from_metrics_with_a_similar_name() -> None:
    odd = method("m", metrics={"f1": 0.5, "only_std": 0.3}, metrics_std={"f1": 0.1})
    assert split_metrics(join_metrics(odd)) == ({"f1": 0.5, "only_std": 0.3}, {"f1": 0.1})


def test_two_experiments_never_share_a_registered_model() -> None:
    from storage.tracking.registry import model_name

    names = ["photos/2026", "photos-2026", "photos:2026", "a/b-c", "a-b/c"]
    assert len({model_name(name) for name in names}) == len(names)
    assert not any(set("/:") & set(model_name(name)) for name in names), "MLflow does not accept these"
