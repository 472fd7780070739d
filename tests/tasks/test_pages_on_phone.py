"""Report pages on a phone: numbers and words stay whole, what is pressed is large enough for a finger."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.report.content import draw_report
from tasks.report.page import page_environment, render_page, render_table_page
from tasks.report.reports_page import list_report
from tasks.report.tables import Table
from tests.browser import open_browser, visiting
from tests.tasks.test_page import make

pytestmark = pytest.mark.slow
# Words that stand on several lines: their rectangles have several upper edges.
CUT_WORDS = """() => {
  const cut = [];
  for (const cell of document.querySelectorAll("td")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (const found of node.data.matchAll(/[^\\s-]+/g)) {
        const range = document.createRange();
        range.setStart(node, found.index);
        range.setEnd(node, found.index + found[0].length);
        const tops = [...range.getClientRects()].map((box) => Math.round(box.top));
        if (new Set(tops).size > 1) cut.push(found[0]);
      }
    }
  }
  return cut;
}"""
SMALL = """() => [...document.querySelectorAll("a.button, nav a, summary, td > a")]
  .filter((one) => one.getClientRects().length && one.getBoundingClientRect().height < 36)
  .map((one) => one.textContent)"""


@pytest.fixture(scope="module")
def phone() -> Iterator[Any]:
    with open_browser() as context:
        made = context.browser.new_context(
            viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
        )
        yield made


def folds_page(labels: tuple[str, ...] = ()) -> bytes:
    numbers = tuple(f"0.{number}92" for number in range(6, 9))
    rows = [("kNN by cosine, tuned", *numbers, "not scored", "not scored"), *((name,) * 6 for name in labels)]
    table = Table(("candidate", *(f"fold {k}" for k in range(1, 6))), tuple(rows), "macro F1 on each fold")
    page = page_environment().get_template("selection.html.j2")
    text = page.render(
        title="t", said=[], scores=None, decided=[], sections={"Folds": table}, run="", links={}
    )
    return text.encode()


def pages(folder: Path) -> dict[str, Path]:
    report = folder / "reports" / "1df921bc1c50"
    report.mkdir(parents=True)
    about = {"source": "demo", "time": "2026-11-19 05:52:40", "id": "9fc36f7c6103"}
    best = "RBF-SVC, tuned (baseline): macro F1 0.889 ± 0.022"
    list_report(report, {"name": "demo", "best": best, **about})
    data = make(K=4, label_names=["mountains", "buildings", "sunset", "clouds"])
    words = Table(("label", "items"), (("mountains", "1,234,567"),) * 2, "words")
    files = {
        "report": render_page(draw_report(data), run="1df921bc1c50", map_page="map.html"),
        "table": render_table_page("t", words, "here").encode(),
        "folds": folds_page(),
    }
    for name, content in files.items():
        (folder / f"{name}.html").write_bytes(content)
    return {"list": report.parent / "index.html", **{name: folder / f"{name}.html" for name in files}}


@pytest.mark.parametrize("name", ["list", "report", "table", "folds"])
def test_words_are_whole_and_targets_large(phone: Any, tmp_path: Path, name: str) -> None:
    with visiting(phone, pages(tmp_path)[name].as_uri()) as visit:
        visit.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert visit.page.evaluate(CUT_WORDS) == []
        assert visit.page.evaluate(SMALL) == []
        firsts = visit.page.locator("tbody tr > :first-child")
        assert all(
            width >= 136 for width in firsts.evaluate_all("(all) => all.map((one) => one.offsetWidth)")
        )
        assert visit.page.evaluate("document.documentElement.scrollWidth") == 390
        assert visit.errors == []


def test_a_word_longer_than_the_screen_does_not_widen_its_column_beyond_it(
    phone: Any, tmp_path: Path
) -> None:
    page = tmp_path / "long.html"
    page.write_bytes(folds_page(("x" * 300,)))
    with visiting(phone, page.as_uri()) as visit:
        widths = visit.page.evaluate("[...document.querySelectorAll('td')].map((one) => one.offsetWidth)")
        assert max(widths) < 390
        assert visit.page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_way_to_the_map_looks_like_a_button(phone: Any, tmp_path: Path) -> None:
    with visiting(phone, pages(tmp_path)["report"].as_uri()) as visit:
        style = "(one) => getComputedStyle(one).borderTopWidth"
        assert visit.page.locator("a.button").evaluate(style) == "1px"
