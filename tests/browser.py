"""A real browser for tests: opens pages and collects what went wrong."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
# Nothing but the pages that a test opens may be requested.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
WAIT_MS = 240_000


@dataclass
class Visit:
    """A page that is open, and what happened while it loaded.

    Attributes
    ----------
    page : playwright Page
    answers : list of (int, str)
        Status and address of every answer.
    failed : list of str
        Requests without an answer: address and reason.
    errors : list of str
        Errors on the console and exceptions of scripts.
    sockets : list of str
        Addresses of websockets.
    """

    page: Any
    answers: list[tuple[int, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)

    @property
    def refused(self) -> list[tuple[int, str]]:
        """Requests that the server did not accept."""
        return [(status, url) for status, url in self.answers if status >= 400]

    def wait_for_text(self, text: str) -> None:
        """Wait until the page shows a text."""
        self.page.get_by_text(text).first.wait_for(timeout=WAIT_MS)

    def watch(self, socket: Any) -> None:
        """Note a websocket, and an error of it."""
        self.sockets.append(socket.url)
        socket.on("socketerror", lambda reason: self.failed.append(f"{socket.url} {reason}"))

    def screenshot(self, path: Path) -> Path:
        """Save a picture of the page."""
        self.page.screenshot(path=str(path))
        return path


@contextmanager
def open_browser() -> Iterator[Any]:
    """Yield a context of a headless Chromium with its own cookies; the test is skipped if there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs the test extra", exc_type=ImportError
    )
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield browser.new_context(viewport={"width": 1280, "height": 900})
        finally:
            browser.close()


@contextmanager
def visiting(context: Any, url: str) -> Iterator[Visit]:
    """Open an address in a new page and record what happens until the end of the block."""
    page = context.new_page()
    visit = Visit(page)
    page.on("response", lambda answer: visit.answers.append((answer.status, answer.url)))
    page.on("requestfailed", lambda one: visit.failed.append(f"{one.url} {one.failure}"))
    page.on("console", lambda said: visit.errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.on("websocket", visit.watch)
    try:
        page.goto(url, timeout=WAIT_MS)
        yield visit
    finally:
        page.close()
