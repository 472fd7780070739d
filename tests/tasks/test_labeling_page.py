"""The page to decide labels on, in a real browser: keys, the saved file, and text that stays text."""

import csv
import html
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.sources import SourceOptions, open_source
from tasks.label_care.cards import Card, merge_cards
from tasks.label_care.corrections import labels_by_id, merge_corrections, read_corrections
from tasks.label_care.page import PageTable, PageText, render_labeling
from tests.browser import open_browser, visiting
from tests.picture_collections import draw

HOSTILE = "<script>document.title='run'</script>"
LABELS = [HOSTILE, "=cmd", "cow, brown", "sky"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number in range(4):
        draw(folder / f"p{number}.png")
    rows = [f'p0.png,"{HOSTILE}|sky"', "p1.png,sky", 'p2.png,"\'=cmd|cow, brown"']
    (folder / "labels.csv").write_text("\n".join(["filename,labels", *rows]) + "\n")
    return folder


@pytest.fixture
def page(photos: Path, tmp_path: Path) -> Path:
    cache = tmp_path / "cache"
    collection = open_source(SourceOptions(str(photos)), cache).read(cache)
    cards = [
        Card(
            "p0.png",
            "probable error",
            (HOSTILE, "sky"),
            (HOSTILE,),
            (f"sky: {HOSTILE}",),
            ("sky",),
            {"sky": 0.03},
        ),
        Card(
            "p1.png",
            "near-duplicate",
            ("sky",),
            ("=cmd", "sky"),
            ("copy of p2.png",),
            ("=cmd",),
            others=("p2.png",),
        ),
        Card("p2.png", "unlike all others", ("=cmd", "cow, brown"), ("=cmd", "cow, brown"), ("far",)),
        Card("p3.png", "random", None, ("sky",), ("drawn",)),
    ]
    table = PageTable("Names", ("labels",), ((HOSTILE,),))
    text = PageText(f"Review {HOSTILE}", HOSTILE, "merge", [("4", "items")], [HOSTILE], [table])
    file = tmp_path / "review.html"
    file.write_bytes(render_labeling(text, cards, collection, LABELS, "|"))
    return file


@pytest.fixture
def browser() -> Iterator[Any]:
    with open_browser() as context:
        yield context


def save(visit: Any) -> str:
    with visit.page.expect_download() as download:
        visit.page.keyboard.press("s")
    return Path(download.value.path()).read_bytes().decode()


@pytest.mark.slow
def test_corrections_by_keyboard_come_back_as_expected(browser: Any, page: Path, photos: Path) -> None:
    with visiting(browser, page.as_uri()) as visit:
        visit.page.get_by_text("1 of 4").wait_for()
        visit.page.fill("#who", "ann =1")
        visit.page.focus("#card")
        press = visit.page.keyboard.press
        press("y")  # p0: accept, sky is removed
        press("N")  # p1: keep, with Caps Lock
        press("1")  # p2: its first label, =cmd, is removed
        press("Enter")
        press("/")  # p3: find a label
        visit.page.keyboard.type("cow")
        press("Enter")
        press("Enter")
        visit.page.get_by_text("4 of 4, all answered: save the file").wait_for()
        content = save(visit)
        assert visit.errors == []
        assert visit.failed == []
        assert [url for _, url in visit.answers if not url.startswith(("file:", "data:", "blob:"))] == []
    lines = content.split("\r\n")
    assert lines[0] == "id,before,after,checked,who,when,why"
    assert lines[1].startswith(f"p0.png,{HOSTILE}|sky,{HOSTILE},sky,ann =1,2")
    assert lines[2].startswith("p1.png,sky,sky,'=cmd,ann =1,")
    saved = photos.parent / "corrections.csv"
    saved.write_bytes(content.encode())
    cache = photos.parent / "cache"
    source = open_source(SourceOptions(str(photos)), cache)
    merge_corrections(read_corrections(saved, "|"), source, cache, photos.parent / "unused.csv")
    read = labels_by_id(open_source(SourceOptions(str(photos)), cache).read(cache))
    assert read == {
        "p0.png": (HOSTILE,),
        "p1.png": ("sky",),
        "p2.png": ("cow, brown",),
        "p3.png": ("cow, brown",),
    }


@pytest.mark.slow
def test_labels_stay_text_and_pictures_are_shown(browser: Any, page: Path) -> None:
    with visiting(browser, page.as_uri()) as visit:
        assert visit.page.title() == f"Review {HOSTILE}"
        assert visit.page.evaluate("document.querySelectorAll('script').length") == 2
        assert HOSTILE in visit.page.inner_text("#card")
        visit.page.keyboard.press("ArrowRight")
        sizes = visit.page.evaluate(
            "[...document.querySelectorAll('#card img')].map(one => one.naturalWidth)"
        )
        assert len(sizes) == 2  # the item and its near-duplicate
        assert all(sizes)
        assert visit.errors == []


@pytest.mark.slow
def test_undo_the_filter_and_the_warning_before_answers_are_lost(browser: Any, page: Path) -> None:
    with visiting(browser, page.as_uri()) as visit:
        visit.page.keyboard.press("y")
        visit.page.keyboard.press("y")
        visit.page.keyboard.press("u")
        assert visit.page.inner_text("#progress") == "2 of 4, 1 answered"
        visit.page.select_option("#kind", "near-duplicate")
        assert visit.page.inner_text("#progress") == "1 of 1, 0 answered"
        leaves = "window.dispatchEvent(new Event('beforeunload', {cancelable: true}))"
        assert not visit.page.evaluate(leaves)
        assert save(visit).count("\r\n") == 2
        assert visit.page.evaluate(leaves)


@pytest.mark.slow
def test_no_part_of_the_page_is_cut_on_a_phone(browser: Any, page: Path) -> None:
    with visiting(browser, page.as_uri()) as visit:
        visit.page.set_viewport_size({"width": 390, "height": 800})
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_one_card_per_item_with_all_reasons() -> None:
    first = Card("a", "x", ("sky",), ("sea",), ("one",), ("sky",))
    second = Card("a", "y", ("sky",), (), ("two",), ("sea",), others=("b",))
    (card,) = merge_cards([first, second])
    assert (card.kind, card.proposed, card.why) == ("x", ("sea",), ("one", "two"))
    assert (card.checked, card.checked_too) == (("sky",), ("sea",))
    assert card.others == ("b",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "expected"),
    [("y", "sky"), ("n", "sky|cow, brown"), (("Enter",), "sky|cow, brown"), ("yuy", "sky")],
)
def test_accepting_decides_only_on_what_is_suggested(
    browser: Any, photos: Path, tmp_path: Path, keys: Any, expected: str
) -> None:
    card = Card(
        "p0.png", "probable error", (HOSTILE, "sky"), (HOSTILE,), ("one",), ("sky",), {}, (), ("cow, brown",)
    )
    with visiting(browser, write_page(photos, tmp_path, [card]).as_uri()) as visit:
        for key in keys:
            visit.page.keyboard.press(key)
        (row,) = csv.DictReader(io.StringIO(save(visit), newline=""))
        assert row["checked"] == expected


@pytest.mark.slow
def test_two_classes_are_no_answer_about_an_item_of_one_class(
    browser: Any, photos: Path, tmp_path: Path
) -> None:
    (photos / "labels.csv").write_text("filename,label\np0.png,sky\np1.png,=cmd\np2.png,sky\n")
    cards = [
        Card("p0.png", "near-duplicate", ("sky",), ("=cmd", "sky"), ("one",)),
        Card("p1.png", "near-duplicate", ("=cmd",), ("sky",), ("one",)),
    ]
    with visiting(browser, write_page(photos, tmp_path, cards).as_uri()) as visit:
        visit.page.keyboard.press("y")
        assert visit.page.inner_text("#progress") == "1 of 2, 0 answered"
        assert visit.page.is_disabled("text=Accept the suggestion")
        visit.page.keyboard.press("ArrowRight")
        visit.page.keyboard.press("y")
        assert visit.page.inner_text("#progress") == "2 of 2, 1 answered"
        assert visit.errors == []


@pytest.mark.slow
def test_a_key_that_is_held_answers_one_item(browser: Any, page: Path) -> None:
    with visiting(browser, page.as_uri()) as visit:
        for _ in range(3):
            visit.page.keyboard.down("n")
        assert visit.page.inner_text("#progress") == "2 of 4, 1 answered"


@pytest.mark.slow
def test_an_answer_is_remembered_only_for_the_same_question(
    browser: Any, photos: Path, tmp_path: Path
) -> None:
    """A later page may ask about another label of the same item: its answer is not that of the first page."""
    given = (HOSTILE, "sky")
    asked = Card("p0.png", "probable error", given, (HOSTILE,), ("one",), ("sky",))
    other = Card("p0.png", "probable error", given, (*given, "=cmd"), ("two",), ("=cmd",))
    for card, remembered in ((asked, 0), (asked, 1), (other, 0)):
        with visiting(browser, write_page(photos, tmp_path, [card]).as_uri()) as visit:
            expected = "all answered: save the file" if remembered else "0 answered"
            assert visit.page.inner_text("#progress") == f"1 of 1, {expected}"
            visit.page.keyboard.press("n")
            save(visit)


@pytest.mark.slow
def test_undoing_after_saving_warns_again(browser: Any, page: Path) -> None:
    with visiting(browser, page.as_uri()) as visit:
        visit.page.keyboard.press("y")
        save(visit)
        visit.page.keyboard.press("u")
        leaves = "window.dispatchEvent(new Event('beforeunload', {cancelable: true}))"
        assert not visit.page.evaluate(leaves)


@pytest.mark.slow
def test_the_buttons_of_a_phone_leave_room_for_the_labels(browser: Any, page: Path) -> None:
    made = browser.browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    with visiting(made, page.as_uri()) as visit:
        boxes = visit.page.locator(".actions button").evaluate_all(
            "(found) => found.map((one) => one.getBoundingClientRect().toJSON())"
        )
        assert len({round(box["top"]) for box in boxes}) == 2
        assert all(box["height"] >= 40 for box in boxes)


@pytest.mark.slow
def test_lines_of_texts_and_rows_stay_lines(browser: Any, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("id,height,width,class\na,1,2,x\nb,3,4,y\n")
    notes = tmp_path / "notes"
    for kind in "xy":
        (notes / kind).mkdir(parents=True)
        (notes / kind / "b.txt").write_text("other")
    (notes / "x" / "a.txt").write_bytes("one\r\ntwo\tthree\n\u202efour".encode())
    for source, name, expected in (
        (table, "b", "height: 3\nwidth: 4"),
        (notes, "x/a.txt", "one\ntwo    three\n\ufffdfour"),
    ):
        collection = open_source(SourceOptions(str(source)), tmp_path / "cache").read(tmp_path / "cache")
        page = tmp_path / "page.html"
        card = Card(name, "random", None, (), ("drawn",))
        page.write_bytes(render_labeling(PageText("Review", "", "merge"), [card], collection, ["x"], "|"))
        with visiting(browser, page.as_uri()) as visit:
            assert visit.page.text_content("#card pre") == expected


@pytest.mark.slow
def test_of_many_labels_the_likeliest_have_the_digits(browser: Any, photos: Path, tmp_path: Path) -> None:
    labels = [f"label {number:02}" for number in range(12)]
    scores = {name: number / 20 for number, name in enumerate(labels[:-1])}
    card = Card("p3.png", "random", None, ("label 03",), ("drawn",), scores=scores)
    with visiting(browser, write_page(photos, tmp_path, [card], labels).as_uri()) as visit:
        visit.page.keyboard.press("1")
        visit.page.keyboard.press("2")
        visit.page.keyboard.press("Enter")
        (row,) = csv.DictReader(io.StringIO(save(visit), newline=""))
    assert row["after"] == "label 03|label 10"  # the suggestion, then the one with the best score


def write_page(photos: Path, tmp_path: Path, cards: list[Card], labels: list[str] = LABELS) -> Path:
    """A page with these cards of the photos."""
    cache, file = tmp_path / "cache", tmp_path / "cards.html"
    collection = open_source(SourceOptions(str(photos)), cache).read(cache)
    file.write_bytes(render_labeling(PageText("Review", "", "merge"), cards, collection, labels, "|"))
    return file


def test_the_page_forbids_everything_but_its_own_script(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-"
    assert policy in html.unescape(text)
    assert text.count("<script") == 2
