"""The report page: complete, well formed, safe for any names, and clear about what it leaves out."""

import base64
import dataclasses
import re
import shutil
import struct
import tomllib
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tasks.maintenance.lineage import LineageEntry
from tasks.report import page as page_module
from tasks.report.content import MAX_NOTES, OPEN_NOTES, draw_report, figure_names, strongest_pairs
from tasks.report.data import EmbeddingView, ReportData, ScoreRow, Thumb
from tasks.report.figure_style import Drawing
from tasks.report.page import CONTENT, PAGE, render_page
from tasks.stages.report import lay_out
from tests.conftest import REPOSITORY

EVIL = '"><script>alert(1)</script>&amp;$x$\x00\udcff'
_VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Checks that tags nest, and keeps tags, attributes and visible text."""

    def __init__(self, source: bytes) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(source.decode("utf-8"))
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def attributes(self, tag: str, name: str) -> list[str]:
        return [value for found, attrs in self.tags if found == tag and (value := attrs.get(name))]


def score_rows(lead: float = 0.1) -> list[ScoreRow]:
    values = {"mlda": 0.5 + lead, "svm": 0.5}
    return [
        (method, "1nn" if method == "mlda" else method, fold, metric, value + fold / 100)
        for method, value in values.items()
        for fold in range(3)
        for metric in ("macro_f1", "micro_f1", "one_error")
    ]


def make(n: int = 40, K: int = 3, **changes: object) -> ReportData:
    rng = np.random.default_rng(0)
    Y = (rng.random((n, K)) < 0.5).astype(np.int8)
    Y[: n // 4] = -1
    data = ReportData(
        title="beach pictures",
        source="folder of images",
        n_items=n,
        n_labeled=n - n // 4,
        label_names=[f"label {k}" for k in range(K)],
        Y=Y,
        correlation=np.full((K, K), 0.25) + 0.75 * np.eye(K),
        embeddings={"mlda": EmbeddingView("MLDA", rng.standard_normal((n, 2)), np.array([0.9, 0.3]))},
        scores=score_rows(),
        method_titles={"mlda": "MLDA", "svm": "Scaled SVM"},
        baselines={"svm"},
        facts={"seed": "7", "configuration": "a = 1\nb = 2"},
    )
    return dataclasses.replace(data, **changes)  # type: ignore[arg-type]


def render_report(data: ReportData, **options: str) -> dict[str, bytes]:
    """All files of a report with its page."""
    files = draw_report(data, **options)
    page = render_page(files)
    return {PAGE: page, **{name: content for name, content in files.items() if name != CONTENT}}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the drawing functions in tests that look only at the text of the page."""
    png = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + struct.pack(">II", 30, 20)
    for name in ("draw_embedding", "draw_metrics", "draw_correlation", "draw_spectrum"):
        monkeypatch.setattr(f"tasks.report.content.{name}", lambda *_: Drawing(png, "a caption"))


@pytest.mark.slow
def test_the_files_of_a_report() -> None:
    files = render_report(make())
    figures = {"embedding_mlda.png", "metrics.png", "correlation.png", "spectrum.png"}
    assert set(files) == figures | {"index.html", "scores.csv", "scores.md"}
    assert b"Scaled SVM (baseline)" in files["scores.md"]
    assert files["scores.csv"].count(b"\n") == 1 + len(score_rows())


@pytest.mark.usefixtures("undrawn")
def test_order_of_the_sections() -> None:
    thumbs = [Thumb("a.jpg", b"\xff\xd8", ("sky", "sea"))]
    page = Page(render_report(make(thumbnails=thumbs, notes=[("a.jpg", None, "odd")]))["index.html"])
    found = page.attributes("section", "id")
    assert found == ["results", "sample", "embedding", "metrics", "correlation", "spectrum", "notes", "facts"]
    assert page.attributes("a", "href") == [f"#{anchor}" for anchor in found]
    order = [
        "beach pictures",
        "folder of images",
        "beats the best plain baseline",
        "sky, sea",
        "configuration",
    ]
    places = [page.text.rindex(words) for words in order]
    assert places == sorted(places)


@pytest.mark.usefixtures("undrawn")
def test_the_page_is_self_contained() -> None:
    source = render_report(make(thumbnails=[Thumb("a", b"\xff\xd8")]))["index.html"].decode()
    page = Page(source.encode())
    assert all(value.startswith("data:image/") for value in page.attributes("img", "src"))
    assert all(page.attributes("img", "alt"))
    assert "http:" not in source
    assert "https:" not in source
    assert "url(" not in source
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe"}


@pytest.mark.slow
def test_figures_in_the_page_are_the_files_beside_it() -> None:
    files = render_report(make())
    page = Page(files["index.html"])
    inside = {base64.b64decode(value.split(",", 1)[1]) for value in page.attributes("img", "src")}
    assert inside == {data for name, data in files.items() if name.endswith(".png")}


@pytest.mark.slow
def test_same_data_same_bytes() -> None:
    assert render_report(make()) == render_report(make())


@pytest.mark.slow
def test_hostile_names_stay_text() -> None:
    data = make(
        title=EVIL,
        source=EVIL,
        label_names=[EVIL, "b", "c"],
        embeddings={EVIL: EmbeddingView(EVIL, np.zeros((40, 2)), np.ones(2))},
        scores=[(EVIL, EVIL, 0, EVIL, 0.5), *score_rows()],
        method_titles={EVIL: EVIL},
        notes=[(EVIL, 1, EVIL)],
        facts={EVIL: EVIL + "\n" + EVIL},
        thumbnails=[Thumb(EVIL, b"\xff\xd8", (EVIL,))],
    )
    files = render_report(data)
    page = Page(files["index.html"])
    assert "script" not in {tag for tag, _ in page.tags}
    assert "\x00" not in files["index.html"].decode()
    assert page.text.count('"><script>alert(1)</script>&amp;$x$') >= 8
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", name) for name in files)


def test_figure_names_are_safe_and_distinct() -> None:
    names = figure_names(["mlda", "MLDA", "a/b", "a b", "../x"])
    assert len({name.casefold() for name in names.values()}) == 5
    assert all(re.fullmatch(r"embedding_[A-Za-z0-9_.-]+\.png", name) for name in names.values())


@pytest.mark.parametrize(("lead", "kind"), [(0.1, "ahead"), (-0.1, "behind"), (0.0, "level")])
@pytest.mark.usefixtures("undrawn")
def test_the_verdict_follows_the_scores(lead: float, kind: str) -> None:
    page = Page(render_report(make(scores=score_rows(lead)))["index.html"])
    assert f"verdict {kind}" in page.attributes("p", "class")


@pytest.mark.usefixtures("undrawn")
def test_sorting_by_another_metric() -> None:
    page = Page(render_report(make(), sort_by="one_error")["index.html"])
    assert "verdict behind" in page.attributes("p", "class")
    assert "best one-error first" in page.text


@pytest.mark.usefixtures("undrawn")
def test_baselines_are_tagged_in_the_table() -> None:
    page = Page(render_report(make())["index.html"])
    assert (
        page.attributes("tr", "class").count("baseline") == 2
    )  # in the table, and in the one of all metrics
    assert "Scaled SVMbaseline" in page.text


@pytest.mark.usefixtures("undrawn")
def test_a_run_without_scores_embeddings_or_facts() -> None:
    files = render_report(make(scores=[], embeddings={}, facts={}))
    page = Page(files["index.html"])
    assert "Nothing was evaluated" in page.text
    assert page.attributes("section", "id") == ["results", "correlation", "notes"]
    assert "metrics.png" not in files


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_that_there_are_no_notes() -> None:
    files = render_report(make())
    assert "No item was skipped" in Page(files["index.html"]).text
    assert "notes.csv" not in files


@pytest.mark.usefixtures("undrawn")
def test_few_notes_are_listed_and_many_are_folded_and_counted() -> None:
    few = Page(render_report(make(notes=[("a.jpg", 3, "torn")] * OPEN_NOTES))["index.html"])
    assert "All notes" not in few.text
    notes = [(f"{i}.jpg", None, "torn" if i % 3 else "empty") for i in range(MAX_NOTES + 100)]
    files = render_report(make(notes=notes))
    many = Page(files["index.html"])
    assert f"{MAX_NOTES + 100} notes." in many.text
    assert "torn400" in many.text
    assert f"the first {MAX_NOTES}; all are in notes.csv" in many.text
    assert f"{MAX_NOTES - 1}.jpg" in many.text
    assert f"{MAX_NOTES}.jpg" not in many.text
    assert files["notes.csv"].count(b"\n") == 1 + len(notes)


@pytest.mark.usefixtures("undrawn")
def test_many_labels_are_folded() -> None:
    page = Page(render_report(make(K=100))["index.html"])
    assert "88 more labels" in page.text
    assert all(f"label {k}" in page.text for k in range(100))


@pytest.mark.usefixtures("undrawn")
def test_thumbnails_of_unlabeled_items_and_of_items_without_labels() -> None:
    thumbs = [Thumb(str(i), b"\xff\xd8", labels) for i, labels in enumerate([None, [], ["sky", "sea"]] * 20)]
    page = Page(render_report(make(thumbnails=thumbs))["index.html"])
    assert page.text.count("none of the labels") == page.text.count("sky, sea") == 20
    assert len([v for v in page.attributes("img", "src") if v.startswith("data:image/jpeg")]) == 60


def test_strongest_pairs_are_sorted_and_counted() -> None:
    C = np.array([[1.0, 0.2, 0.9], [0.2, 1.0, 0.0], [0.9, 0.0, 1.0]])
    data = make(correlation=C)
    both = int(((data.Y[:, 0] == 1) & (data.Y[:, 2] == 1)).sum())
    assert strongest_pairs(data)[0] == ("label 0", "label 2", "0.900", str(both))
    assert [pair[2] for pair in strongest_pairs(data)] == ["0.900", "0.200"]


@pytest.mark.usefixtures("undrawn")
def test_labels_that_never_occur_together() -> None:
    assert (
        "No two labels occur together" in Page(render_report(make(correlation=np.eye(3)))["index.html"]).text
    )


@pytest.mark.usefixtures("undrawn")
def test_lineage_and_repaired_artifacts_have_sections_of_their_own() -> None:
    files = draw_report(make())
    family = [
        LineageEntry("source", "source", "ab" * 32),
        LineageEntry("ingest/1", f"ingest {EVIL}", "cd" * 32, ("source",), settings={"a": EVIL}, seconds=1.0),
    ]
    page = Page(render_page(files, [("report/12", f"checksum {EVIL}")], family))
    assert page.attributes("section", "id")[-2:] == ["damage", "lineage"]
    assert page.attributes("a", "href")[-2:] == ["#damage", "#lineage"]
    assert "quarantined and recomputed" in page.text
    assert len([tag for tag, _ in page.tags if tag == "rect"]) == 2
    assert len([tag for tag, _ in page.tags if tag == "path"]) == 1
    assert "script" not in {tag for tag, _ in page.tags}


def test_the_digest_of_the_templates_follows_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "templates"
    shutil.copytree(Path(page_module.__file__).parent / "templates", folder)
    monkeypatch.setattr(page_module, "_TEMPLATES", folder)
    found = {page_module.templates_digest.__wrapped__()}
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for file in files:
        file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        found.add(page_module.templates_digest.__wrapped__())
    assert len(found) == 1 + len(files)


def test_a_report_is_written_again_only_if_its_mark_changed(tmp_path: Path) -> None:
    composed: list[str] = []

    def compose(text: str) -> dict[str, bytes]:
        composed.append(text)
        return {PAGE: text.encode()}

    for mark, text in (("a", "first"), ("a", "second"), ("b", "third")):
        page = lay_out(tmp_path / "reports" / "0123", PAGE, mark, partial(compose, text))
    assert composed == ["first", "third"]
    assert page.read_text(encoding="utf-8") == "third"


def test_the_templates_are_part_of_the_package() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["tasks.report"]
    folder = REPOSITORY / "tasks" / "report"
    packed = {file for pattern in patterns for file in folder.glob(pattern) if file.is_file()}
    assert packed == {file for file in (folder / "templates").rglob("*") if file.is_file()}
