"""The links that `labelscape up` prints, opened in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from flows.services import Services, browser_links, down, up
from tests.browser import Visit, open_browser, visiting

pytestmark = pytest.mark.slow

OURS = re.compile(r"\b40[13]\b|csrf|cors|websocket", re.IGNORECASE)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Services]]:
    home = tmp_path_factory.mktemp("home")
    with open_browser():
        pass  # skips before the servers are started
    yield home, up(home, 0, 0)
    down(home)


@pytest.fixture
def browser() -> Iterator[Any]:
    with open_browser() as context:
        yield context


def check(visit: Visit) -> None:
    """The page is logged in, nothing was refused, and nothing was asked of another server."""
    assert "token" not in visit.page.url
    here = urlsplit(visit.page.url).netloc
    assert [one for one in visit.answers if one[0] in (401, 403)] == []
    assert {urlsplit(url).netloc for _, url in visit.answers if url.startswith("http")} == {here}
    assert [text for text in visit.failed if here in text and "ERR_ABORTED" not in text] == []
    assert [text for text in visit.errors if OURS.search(text)] == []


def test_prefect(servers: tuple[Path, Services], browser: Any) -> None:
    home, found = servers
    with visiting(browser, browser_links(home, found)[0]) as visit:
        visit.wait_for_text("Run a task or flow to get started")
        visit.page.get_by_text("Event Feed").first.click()
        visit.wait_for_text("Resource")
        visit.page.get_by_text("Work Pools").first.click()
        visit.wait_for_text("Add a work pool")
        check(visit)
        asked = {urlsplit(url).path for status, url in visit.answers if status == 200}
        assert {"/api/csrf-token", "/api/flow_runs/filter", "/api/work_pools/filter"} <= asked


def test_mlflow(servers: tuple[Path, Services], browser: Any) -> None:
    home, found = servers
    with visiting(browser, browser_links(home, found)[1]) as visit:
        visit.page.get_by_text("Experiments").first.click()
        visit.wait_for_text("Default")
        check(visit)
        assert any("experiments/search" in url and status == 200 for status, url in visit.answers)


def test_without_the_link_there_is_no_page(servers: tuple[Path, Services], browser: Any) -> None:
    for url in (servers[1].prefect_ui, servers[1].mlflow_url):
        with visiting(browser, url) as visit:
            visit.wait_for_text("This server needs a login.")
            assert visit.refused[0][0] == 401
