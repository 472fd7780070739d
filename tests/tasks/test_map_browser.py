"""The map in a real browser: hover, filters, lasso, export, keys, compared views, a phone, hostile names."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from storage.artifacts.store import ArtifactStore
from storage.sources.base import Part
from tasks.map.data import MapView
from tasks.map.packing import pack_map
from tasks.map.page import render_map
from tasks.map.pictures import pack_pictures
from tasks.stage import Workspace
from tests.browser import Visit, open_browser, visiting
from tests.tasks.test_map import map_data

pytestmark = pytest.mark.slow
EVIL = "<script>document.title='x'</script>"
N = 60
DATA = map_data(N, label_names=["sky", EVIL, "=1+2"])


def color_of(i: int) -> tuple[int, int, int]:
    """A color that tells the number of an item; those of neighbors differ clearly."""
    return 30 + 37 * i % 200, 30 + 91 * i % 200, 30 + 53 * i % 200


@pytest.fixture(scope="module")
def map_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("map")
    paths = []
    for i in range(N):
        paths.append(folder / f"{i}.png")
        Image.new("RGB", (48, 48), color_of(i)).save(paths[-1])
    part = Part("images", "images", [str(i) for i in range(N)], paths=paths)
    shown = pack_pictures(
        list(DATA.ids), part, range(N), Workspace(folder, ArtifactStore.local(folder / "s"))
    )
    page = folder / "map.html"
    page.write_bytes(render_map(pack_map(DATA, 1000), shown, "abc"))
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as context:
        yield context


@pytest.fixture
def visit(map_page: Path, browser: Any) -> Iterator[Visit]:
    asked: list[str] = []
    browser.on("request", lambda request: asked.append(request.url))
    with visiting(browser, map_page.as_uri()) as found:
        found.page.wait_for_function("labelscapeMap.ready > 0")
        yield found
        assert found.errors == []
        outside = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
        assert outside == []
        assert "<script>" not in found.page.title()


def count(visit: Visit) -> int:
    found = re.match(r"([\d,]+) of ([\d,]+)", visit.page.locator("#count").inner_text())
    assert found
    assert int(found[2].replace(",", "")) == N
    return int(found[1].replace(",", ""))


def point_at(visit: Visit, name: str) -> None:
    x, y = visit.page.evaluate("id => labelscapeMap.placeOf(id)", name)
    visit.page.mouse.move(x, y)


def middle_pixel(visit: Visit, canvas: str) -> list[int]:
    visit.page.wait_for_selector(f"{canvas}[data-drawn=yes]")
    script = "c => [...c.getContext('2d').getImageData(c.width / 2, c.height / 2, 1, 1).data].slice(0, 3)"
    found: list[int] = visit.page.locator(canvas).first.evaluate(script)
    return found


def alone(view: MapView, far: float = 0.12) -> list[int]:
    """Items that have no other item near them on the first two axes, and are not at the border."""
    Z = view.coordinates[:, :2]
    apart = np.linalg.norm(Z[:, None] - Z[None], axis=2) + 9 * np.eye(len(Z))
    return np.flatnonzero((apart.min(axis=1) > far) & (np.abs(Z) < 1.6).all(axis=1)).tolist()


def test_hover_shows_the_right_picture_labels_and_support(visit: Visit) -> None:
    assert DATA.judged
    chosen = [i for i in alone(DATA.views[0]) if DATA.judged.decided[i].any()][:4]
    assert len(chosen) == 4
    for i in chosen:
        point_at(visit, DATA.ids[i])
        visit.page.wait_for_selector(f"#item[data-item='{DATA.ids[i]}']")
        assert np.abs(np.subtract(middle_pixel(visit, "#item > canvas"), color_of(i))).max() < 12
        assert np.abs(np.subtract(middle_pixel(visit, ".tip canvas"), color_of(i))).max() < 12
        words = visit.page.locator("#item").inner_text()
        for k in np.flatnonzero((DATA.Y[i] == 1) | (DATA.judged.decided[i] == 1)):
            assert DATA.label_names[k] in words
            assert f"score {DATA.judged.scores[i, k]:.2f}"[:-1] in words
        supports = visit.page.locator("#item .supports button")
        assert supports.count() == 3 * int(DATA.judged.decided[i].sum())
        first = supports.first.get_attribute("title")
        k = int(np.flatnonzero(DATA.judged.decided[i])[0])
        assert DATA.Y[list(DATA.ids).index(str(first)), k] == 1


def expected_counts() -> dict[str, int]:
    assert DATA.judged
    Y, decided = DATA.Y, DATA.judged.decided
    labeled = (Y >= 0).all(axis=1)
    right = labeled & ((Y == 1) == (decided == 1)).all(axis=1)
    given, predicted = Y[:, 1] == 1, decided[:, 1] == 1
    return {
        "label": int((given | predicted).sum()),
        "given": int(given.sum()),
        "predicted": int(predicted.sum()),
        "missed": int((given & ~predicted).sum()),
        "extra": int((predicted & labeled & ~given).sum()),
        "kind given": int(labeled.sum()),
        "kind predicted": int((~labeled & decided.any(axis=1)).sum()),
        "kind unlabeled": int((~labeled & ~decided.any(axis=1)).sum()),
        "right": int(right.sum()),
        "wrong": int((labeled & ~right).sum()),
        "split": sum(one == "test" for one in DATA.split or []),
        "doubt": int((np.round(100 * DATA.judged.doubt()) >= 60).sum()),
    }


def test_each_filter_changes_the_count_as_it_should(visit: Visit) -> None:
    page, wanted = visit.page, expected_counts()
    assert count(visit) == N
    page.select_option("#f-label", "1")
    assert count(visit) == wanted["label"]
    for how in ("given", "predicted", "missed", "extra"):
        page.select_option("#f-how", how)
        assert count(visit) == wanted[how]
    page.click("#reset")
    assert count(visit) == N
    for kind in ("given", "predicted", "unlabeled"):
        page.select_option("#f-kind", kind)
        assert count(visit) == wanted[f"kind {kind}"]
    page.click("#reset")
    for result in ("right", "wrong"):
        page.select_option("#f-result", result)
        assert count(visit) == wanted[result]
    page.click("#reset")
    page.select_option("#f-split", label="test")
    assert count(visit) == wanted["split"]
    page.click("#reset")
    page.locator("#f-doubt").fill("60")
    assert count(visit) == wanted["doubt"]
    page.click("#reset")
    page.fill("#search", "ITEM 01")
    assert count(visit) == 10


def exported(visit: Visit, folder: Path) -> list[dict[str, str]]:
    with visit.page.expect_download() as waiting:
        visit.page.click("#export")
    assert waiting.value.suggested_filename == "selection.csv"
    waiting.value.save_as(folder / "selection.csv")
    with (folder / "selection.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_lasso_exports_the_ids_inside_it(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    box = page.locator(".panel").bounding_box()
    left, right = box["x"] + 0.3 * box["width"], box["x"] + 0.7 * box["width"]
    up, down = box["y"] + 0.25 * box["height"], box["y"] + 0.8 * box["height"]
    places = {name: page.evaluate("id => labelscapeMap.placeOf(id)", name) for name in DATA.ids}
    wanted = [name for name, (x, y) in places.items() if left < x < right and up < y < down]
    assert 5 < len(wanted) < N - 5
    page.click("#lasso")
    page.mouse.move(left, up)
    page.mouse.down()
    for x, y in ((right, up), (right, down), (left, down), (left, up)):
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    assert page.locator("#selected").inner_text() == str(len(wanted))
    rows = exported(visit, tmp_path)
    assert [row["id"] for row in rows] == wanted
    assert DATA.judged
    for row in rows:
        i = list(DATA.ids).index(row["id"])
        given = [DATA.label_names[k] for k in np.flatnonzero(DATA.Y[i] == 1)]
        joined = "|".join(given)
        assert row["labels"] == ("'" + joined if joined.startswith("=") else joined)
        assert float(row["doubt"]) == pytest.approx(float(DATA.judged.doubt()[i]), abs=0.006)


def test_names_stay_text_wherever_they_are_shown(visit: Visit) -> None:
    page = visit.page
    assert DATA.judged
    i = next(i for i in alone(DATA.views[0]) if DATA.Y[i, 1] == 1)
    point_at(visit, DATA.ids[i])
    page.wait_for_selector(f"#item[data-item='{DATA.ids[i]}']")
    for place in ("#legend", "#item", ".tip"):
        assert EVIL in page.locator(place).inner_text()
    assert EVIL in page.locator("#f-label").inner_text()
    assert page.locator("script:not([type])").count() == 1


def test_everything_is_reached_by_keys(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    page.locator(".panel").focus()
    before = page.evaluate("labelscapeMap.placeOf('item 000')")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("+")
    assert page.evaluate("labelscapeMap.placeOf('item 000')") != before
    page.keyboard.press("0")
    assert page.evaluate("labelscapeMap.placeOf('item 000')") == pytest.approx(before)
    page.keyboard.press("n")
    page.wait_for_selector("#item[data-item='item 000']")
    page.keyboard.press("n")
    page.wait_for_selector("#item[data-item='item 001']")
    page.keyboard.press("Escape")
    page.keyboard.press("p")  # without an item in focus: the last one
    page.wait_for_selector(f"#item[data-item='item {N - 1:03}']")
    page.focus("#search")
    page.keyboard.type("item 04")
    page.keyboard.press("Enter")
    page.wait_for_selector("#item[data-item='item 040']")
    page.focus("#select-shown")
    page.keyboard.press("Enter")
    assert [row["id"] for row in exported(visit, tmp_path)] == [f"item 04{k}" for k in range(10)]


def test_views_axes_and_comparison(visit: Visit) -> None:
    page = visit.page

    def shown() -> list[str]:
        names: list[str] = page.locator(".panel .name").all_inner_texts()
        return names

    assert shown() == ["MLDA, coordinates 1 and 2"]
    before = page.evaluate("labelscapeMap.placeOf('item 000')")
    page.select_option("#axis-y", label="3")
    assert shown() == ["MLDA, coordinates 1 and 3"]
    page.wait_for_function("y => labelscapeMap.placeOf('item 000')[1] !== y", arg=before[1])
    page.select_option("#view", "1")
    assert shown() == ["LPP, coordinates 1 and 2"]
    page.select_option("#beside", "0")
    assert shown() == ["LPP, coordinates 1 and 2", "MLDA, coordinates 1 and 2"]
    for color in ("result", "doubt", "kind", "split", "one:0", "label"):
        page.select_option("#color", color)
        assert page.locator("#legend li").count() >= 2


def drawn_pixels(visit: Visit) -> int:
    """Pixels of the map that are not empty."""
    script = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
        const c = document.querySelectorAll('.panel canvas')[1];
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let k = 0; for (let i = 3; i < d.length; i += 4) if (d[i]) k++; done(k); })))"""
    found: int = visit.page.evaluate(script)
    return found


def test_the_wheel_zooms_at_the_pointer_and_dragging_moves(visit: Visit) -> None:
    page = visit.page
    name = DATA.ids[alone(DATA.views[0])[0]]
    place = page.evaluate("id => labelscapeMap.placeOf(id)", name)
    assert drawn_pixels(visit) > 200
    page.mouse.move(*place)
    page.mouse.wheel(0, -300)
    page.wait_for_function("p => labelscapeMap.placeOf('item 000')[0] !== p", arg=-1)
    assert page.evaluate("id => labelscapeMap.placeOf(id)", name) == pytest.approx(place, abs=1.5)
    page.mouse.down()
    page.mouse.move(place[0] + 50, place[1] + 30, steps=5)
    page.mouse.up()
    wanted = [place[0] + 50, place[1] + 30]
    assert page.evaluate("id => labelscapeMap.placeOf(id)", name) == pytest.approx(wanted, abs=3)


def test_on_a_phone_a_tap_shows_the_item_and_nothing_is_cut_off(map_page: Path, browser: Any) -> None:
    screen = {"width": 390, "height": 844}
    phone = browser.browser.new_context(viewport=screen, has_touch=True, is_mobile=True)
    with visiting(phone, map_page.as_uri()) as visit:
        visit.page.wait_for_function("labelscapeMap.ready > 0")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= screen["width"]
        i = next(i for i in alone(DATA.views[0], 0.3))
        visit.page.touchscreen.tap(*visit.page.evaluate("id => labelscapeMap.placeOf(id)", DATA.ids[i]))
        visit.page.wait_for_selector(f"#item[data-item='{DATA.ids[i]}']")
        assert visit.page.locator(".tip").is_visible()  # the item itself is below the map
        assert np.abs(np.subtract(middle_pixel(visit, ".tip canvas"), color_of(i))).max() < 12
        assert visit.errors == []


def test_a_million_items_are_a_sample_over_their_density(tmp_path: Path, browser: Any) -> None:
    rng = np.random.default_rng(0)
    views = [MapView("MLDA", rng.normal(size=(3000, 2)))]
    page = tmp_path / "map.html"
    page.write_bytes(render_map(pack_map(map_data(3000, views=views), 300), {}, ""))
    with visiting(browser, page.as_uri()) as visit:
        visit.page.wait_for_function("labelscapeMap.ready > 0")
        assert "a random 300 drawn over the density of all items" in visit.page.locator("header").inner_text()
        script = """() => { const c = document.querySelectorAll('.panel canvas')[0];
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let k = 0; for (let i = 3; i < d.length; i += 4) if (d[i] > 10) k++;
            return k / (c.width * c.height); }"""
        visit.page.wait_for_function(f"({script})() > 0.05")
        assert visit.errors == []


def test_the_page_is_one_file(map_page: Path) -> None:
    source = map_page.read_text(encoding="utf-8")
    assert "https:" not in source
    assert "http:" not in source
    assert json.dumps(EVIL) not in source
    assert "default-src 'none'" in source.replace("&#39;", "'")
