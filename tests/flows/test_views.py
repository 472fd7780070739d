"""What a person sees of two runs in MLflow, Prefect and the report, in a real browser on real servers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.services import Services, down, up
from storage.servers import read_token
from tests.browser import WAIT_MS, Visit, open_browser, visiting
from tests.conftest import REPOSITORY, interrupt_at, start_command

pytestmark = pytest.mark.slow

FIRST, SECOND = "iris · pca", "iris · mlda · n_neighbors=7"


@dataclass
class Scene:
    """Running servers with two runs; `second` is the summary of the newer one."""

    home: Path
    servers: Services
    first: dict[str, Any]
    second: dict[str, Any]

    def login(self, browser: Any) -> None:
        """Give a browser the cookies of both servers."""
        for pages in (self.servers.prefect_ui, self.servers.mlflow_url):
            with visiting(browser, f"{pages}/?token={read_token(self.home)}") as visit:
                visit.page.wait_for_load_state()

    def labelscape(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", *arguments, "--home", str(self.home)],
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        return done

    def ask_prefect(self, path: str, content: Any) -> Any:
        """Ask Prefect's API, logged in as its own client is."""
        from prefect.client.orchestration import get_client
        from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

        here = {
            PREFECT_API_URL: f"{self.servers.prefect_ui}/api",
            PREFECT_API_AUTH_STRING: str(read_token(self.home)),
        }
        with temporary_settings(here), get_client(sync_client=True) as client:
            answer = client._client.post(path, json=content)
        return answer.json()

    def count_flow_runs(self) -> int:
        return int(self.ask_prefect("flow_runs/count", {}))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp("home")
    with open_browser():
        pass  # skips before the servers are started
    made = Scene(home, up(home, 0, 0), {}, {})
    try:
        run = ("run", "iris", "--json", "--methods")
        made.first = json.loads(made.labelscape(*run, "pca").stdout)
        made.second = json.loads(made.labelscape(*run, "mlda", "--set", "affinity.n_neighbors=7").stdout)
        yield made
    finally:
        down(home)


@pytest.fixture(scope="module")
def browser(scene: Scene) -> Iterator[Any]:
    with open_browser() as context:
        scene.login(context)
        yield context


def visible(visit: Visit, *texts: str) -> None:
    """Every text is on the page and inside the window, without scrolling."""
    for text in texts:
        found = visit.page.get_by_text(text).first
        found.wait_for(timeout=WAIT_MS)
        box, window = found.bounding_box(), visit.page.viewport_size
        assert box, text
        assert 0 <= box["x"] < window["width"], f"{text}: {box}"
        assert 0 <= box["y"] < window["height"], f"{text}: {box}"


def experiment_of(scene: Scene) -> str:
    address = scene.labelscape("open", "mlflow", "--print").stdout
    return address.partition("/experiments/")[2].partition("/")[0]


class TestMLflow:
    def test_the_table_of_runs_compares_them_without_a_click(self, scene: Scene, browser: Any) -> None:
        with visiting(browser, scene.labelscape("open", "runs", "--print").stdout.strip()) as visit:
            visit.page.set_viewport_size({"width": 1400, "height": 900})
            visible(visit, FIRST, SECOND, "iris (", "best_method", "macro_f1", "micro_f1")
            visible(visit, "labelscape.settings", "affinity.n_neighbors=7")
            score = scene.second["methods"]["mlda"]["metrics"]["macro_f1"]["mean"]
            best = max(one["metrics"]["macro_f1"]["mean"] for one in scene.second["methods"].values())
            assert score <= best
            visible(visit, f"{round(best, 4)}")

    def test_the_experiment_as_mlflow_opens_it_has_names_data_and_the_link(
        self, scene: Scene, browser: Any
    ) -> None:
        address = f"{scene.servers.mlflow_url}/#/experiments/{experiment_of(scene)}"
        with visiting(browser, address) as visit:
            visit.page.set_viewport_size({"width": 1400, "height": 900})
            visible(visit, "iris · pca", "iris (", "Show scores", "Newest run", ", macro F1 0.9")
            assert "workflowType=machine_learning" in visit.page.url
            link = visit.page.get_by_text("Show scores").first.evaluate("one => one.href")
        with visiting(browser, link) as visit:
            visible(visit, SECOND, "macro_f1")

    def test_the_compare_page(self, scene: Scene, browser: Any) -> None:
        ids = [scene.first["tracking"]["run_id"], scene.second["tracking"]["run_id"]]
        query = f"runs={json.dumps(ids)}&experiments={json.dumps([experiment_of(scene)])}".replace(" ", "")
        with visiting(browser, f"{scene.servers.mlflow_url}/#/compare-runs?{query}") as visit:
            for text in (FIRST, SECOND, "affinity.n_neighbors", "macro_f1", "data.items"):
                visit.page.get_by_text(text).first.wait_for(timeout=WAIT_MS)
            shown = visit.page.inner_text("body")
            assert "Comparing 2 Runs" in shown
            assert "Parallel Coordinates Plot" in shown
            assert "Metrics:\nmacro_f1\nClear All" in shown, "drawn without a click"

    def test_the_charts_are_drawn(self, scene: Scene, browser: Any) -> None:
        path = f"experiments/{experiment_of(scene)}/runs?compareRunsMode=CHART&workflowType=machine_learning"
        with visiting(browser, f"{scene.servers.mlflow_url}/#/{path}") as visit:
            visit.wait_for_text("Model metrics")
            visit.page.locator(".js-plotly-plot .bars").first.wait_for(timeout=WAIT_MS)
            assert "accuracy" in visit.page.inner_text("body")

    def test_a_run_leads_to_its_flow_run_and_its_report(self, scene: Scene, browser: Any) -> None:
        with visiting(browser, scene.labelscape("open", "mlflow", "--print").stdout.strip()) as visit:
            visible(visit, SECOND, "flow run in Prefect")
            flow = visit.page.get_by_text("flow run in Prefect").first.get_attribute("href")
            assert flow.startswith(f"{scene.servers.prefect_ui}/runs/flow-run/")
            report = visit.page.get_by_text("report", exact=True).first.evaluate("one => one.href")
            assert report.startswith(f"{scene.servers.mlflow_url}/#/experiments/")
            assert report.endswith("/artifacts/report/index.html")
        with visiting(browser, flow) as visit:
            visible(visit, SECOND)
        with visiting(browser, report) as visit:
            page = visit.page.frame_locator("iframe").first
            page.get_by_text("Results").first.wait_for(timeout=WAIT_MS)


class TestPrefect:
    def test_the_flow_run(self, scene: Scene, browser: Any) -> None:
        with visiting(browser, scene.labelscape("open", "prefect", "--print").stdout.strip()) as visit:
            visible(visit, SECOND, "Completed", "source:iris", "experiment:iris", "method:mlda")
            visit.wait_for_text("ingest taken from the store")
            visit.wait_for_text("Finished in state Cached(type=COMPLETED)")
            visit.page.get_by_text("Artifacts", exact=True).last.click()
            visible(visit, "iris-results", "iris-scores", "iris-map", "iris-mlflow", "iris-report")

    def test_the_artifacts_page_and_what_the_artifacts_contain(self, scene: Scene, browser: Any) -> None:
        with visiting(browser, f"{scene.servers.prefect_ui}/artifacts") as visit:
            visible(visit, "iris-results", "iris-scores", "iris-map")
        found = {one["key"]: one["data"] for one in scene.ask_prefect("artifacts/latest/filter", {})}
        pages = f"{scene.servers.mlflow_url}/#/experiments/"
        assert found["iris-map"].startswith("![Map of the items](data:image/png;base64,")
        assert len(found["iris-map"]) < 100_000
        assert pages in found["iris-mlflow"]
        assert "/artifacts/report/index.html" in found["iris-report"]
        results = found["iris-results"]
        assert results.startswith(f"# {SECOND}")
        assert f"run --as {scene.second['run']}" in results
        assert scene.second["report"] in results
        assert pages in results
        rows = found["iris-scores"]
        methods = [row["method"] for row in (json.loads(rows) if isinstance(rows, str) else rows)]
        assert "MLDA, 1NN" in methods

    def test_the_map_is_a_picture(self, scene: Scene, browser: Any) -> None:
        found = scene.ask_prefect("artifacts/latest/filter", {})
        (artifact,) = (one for one in found if one["key"] == "iris-map")
        page = f"{scene.servers.prefect_ui}/artifacts/artifact/{artifact['latest_id']}"
        with visiting(browser, page) as visit:
            picture = visit.page.locator("img[src^='data:image/png']").first
            picture.wait_for(timeout=WAIT_MS)
            assert picture.evaluate("one => one.naturalWidth") > 300
            assert "base64" not in visit.page.inner_text("body")

    def test_a_mistake_is_refused_before_a_flow_run_exists(self, scene: Scene) -> None:
        before = scene.count_flow_runs()
        for words in (
            ("run", "iris", "--methods", "mlad"),
            ("run", "no-such-folder"),
            ("auto", "no-such-folder"),
            ("annotate", "no-such-folder"),
            ("run", "iris", "--set", "features.extractors=gabor"),
        ):
            scene.labelscape(*words, code=2)
        assert scene.count_flow_runs() == before

    def test_an_interrupted_run_is_cancelled(self, scene: Scene, tmp_path: Path) -> None:
        (tmp_path / "home").symlink_to(scene.home)
        name = "stopped by Ctrl-C"
        settings = ("--set", f"name={name}", "--refresh", "features")
        run = start_command(tmp_path, "run", "digits", "--methods", "mlda", *settings)
        interrupt_at(run, "  ingest", signal.SIGINT)
        (found,) = scene.ask_prefect("flow_runs/filter", {"flow_runs": {"name": {"any_": [name]}}})
        assert (found["state"]["type"], found["state"]["name"]) == ("CANCELLED", "Cancelled")


class TestReport:
    def test_the_report_leads_to_both(self, scene: Scene, browser: Any) -> None:
        report = Path(scene.second["report"])
        assert (report.parents[1] / "latest").resolve() == report.parent.resolve()
        with visiting(browser, report.as_uri()) as visit:
            visible(visit, f"labelscape run --as {scene.second['run']}")
            for name, text in (("MLflow", "Child runs"), ("Prefect", "source:iris")):
                link = visit.page.get_by_role("link", name=name).first
                address = link.get_attribute("href")
                with visiting(browser, address) as other:
                    visible(other, SECOND)
                    other.wait_for_text(text)

    def test_the_list_of_reports(self, scene: Scene, browser: Any) -> None:
        with visiting(browser, (scene.home / "reports" / "index.html").as_uri()) as visit:
            visible(visit, FIRST, SECOND, ": macro F1 0.9")
            visit.page.get_by_role("link", name=SECOND).first.click()
            visible(visit, f"labelscape run --as {scene.second['run']}")
