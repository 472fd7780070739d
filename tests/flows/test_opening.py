"""`labelscape open`: the address of a run's report, and of its pages in MLflow and Prefect."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.config import load_config
from flows.services import Services, down, up
from flows.stores import open_store
from storage.artifacts.run_log import LoggedRun, RunLog
from tests.browser import open_browser, visiting
from tests.conftest import UNTRACKED, Command

RUN = ("run", "iris", "--methods", "pca")


def address(command: Command, *words: object) -> str:
    done = command("open", *words, "--print")
    assert done.code == 0, done.err
    return done.out.strip()


@pytest.mark.usefixtures("without_engine")
class TestWithoutServers:
    @pytest.mark.slow
    def test_the_report_of_the_newest_run(self, command: Command, tmp_path: Path) -> None:
        first = json.loads(command(*RUN, *UNTRACKED, "--json").out)
        second = json.loads(command(*RUN, *UNTRACKED, "--set", "evaluation.folds=3", "--json").out)
        assert address(command) == Path(second["report"]).as_uri()
        assert address(command, first["run"], "report") == Path(first["report"]).as_uri()
        assert json.loads(command("open", first["run"][:6], "--json").out) == {
            "run": first["run"],
            "page": "report",
            "address": Path(first["report"]).as_uri(),
        }
        listed = (Path(first["report"]).parents[1] / "index.html").read_text(encoding="utf-8")
        assert "iris · pca · folds=3" in listed
        assert f"labelscape run --as {first['run']}" in Path(first["report"]).read_text(encoding="utf-8")

    @pytest.mark.slow
    @pytest.mark.usefixtures("small_forests")
    def test_the_report_of_auto(self, command: Command) -> None:
        done = json.loads(command("auto", "iris", "--candidates", "random_forest", *UNTRACKED, "--json").out)
        assert address(command) == Path(done["report"]).as_uri()
        page = Path(done["report"]).read_text(encoding="utf-8")
        for text in ("Leaderboard", "Folds", f"labelscape run --as {done['run']}"):
            assert text in page

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "there is no such run yet; start with `labelscape run`"),
            (("report", "mlflow"), "give one run and one of report, mlflow, runs, prefect"),
            (("abcd",), "no run 'abcd'"),
        ],
    )
    def test_before_the_first_run(self, command: Command, words: tuple[str, ...], said: str) -> None:
        done = command("open", *words)
        assert done.code == 2
        assert said in done.err

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("page", "said"), [("mlflow", "is not tracked"), ("prefect", "no Prefect server is running")]
    )
    def test_a_page_that_is_not_there(self, command: Command, page: str, said: str) -> None:
        command(*RUN, *UNTRACKED)
        done = command("open", page)
        assert done.code == 2
        assert said in done.err

    def test_an_annotation_is_no_run_of_mlflow(self, command: Command, tmp_path: Path) -> None:
        log = RunLog(open_store(load_config(None, home=str(tmp_path / "home"))))
        trained = log.add(LoggedRun("photos", "photos", "photos", {}, {}))
        log.add(LoggedRun("photos", "annotate photos", "new", {}, {}, kind="annotate"))
        for page in ("mlflow", "runs"):
            done = command("open", page, "--home", tmp_path / "home")
            assert f"run {trained.id} is not tracked" in done.err


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Services]]:
    home = tmp_path_factory.mktemp("home")
    with open_browser():
        pass  # skips before the servers are started
    yield home, up(home, 0, 0)
    down(home)


@pytest.mark.slow
def test_the_pages_of_a_run_in_a_browser(command: Command, servers: tuple[Path, Services]) -> None:
    """A run is seen in MLflow's table with its scores, on its own page, and in Prefect with its artifacts."""
    home, found = servers
    repository = Path(__file__).resolve().parents[2]

    def labelscape(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", *arguments, "--home", str(home)],
            env=os.environ | {"PYTHONPATH": str(repository)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    labelscape(*RUN)
    labelscape("run", "iris", "--methods", "mlda", "--set", "affinity.n_neighbors=7")
    with open_browser() as browser:
        _look_at_mlflow(browser, labelscape("open", "mlflow", "--print").strip(), found)
        _look_at_prefect(browser, labelscape("open", "prefect", "--print").strip())


def _look_at_mlflow(browser: Any, link: str, found: Services) -> None:
    with visiting(browser, link) as visit:
        visit.wait_for_text("iris · mlda · n_neighbors=7")
        assert "token" not in visit.page.url
        experiment = visit.page.url.partition("/experiments/")[2].partition("/")[0]
        view = f"{found.mlflow_url}/#/experiments/{experiment}/runs?viewStateShareKey=labelscape"
        visit.page.set_viewport_size({"width": 1900, "height": 900})
        visit.page.goto(view)
        for text in ("iris · pca", "iris · mlda · n_neighbors=7", "macro_f1", "data.items", "best_method"):
            visit.wait_for_text(text)
        visit.page.get_by_text("iris (").first.wait_for()  # the data set with its digest


def _look_at_prefect(browser: Any, link: str) -> None:
    with visiting(browser, link) as visit:
        visit.wait_for_text("iris · mlda · n_neighbors=7")
        visit.wait_for_text("source:iris")
        visit.wait_for_text("ingest taken from the store")
        visit.page.get_by_text("Artifacts", exact=True).last.click()
        visit.wait_for_text("iris-results")
        visit.wait_for_text("iris-scores")
