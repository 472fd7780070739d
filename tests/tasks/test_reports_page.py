"""The list of all reports, and the link to the latest."""

from pathlib import Path

import pytest

from storage.artifacts.run_log import LoggedRun
from tasks.report.reports_page import about_run, list_report
from tasks.report.tables import Table


def add(reports: Path, place: str, time: str = "2026-11-18 06:00:00", name: str = "") -> str:
    folder = reports / place
    folder.mkdir(parents=True, exist_ok=True)
    list_report(folder, {"name": name or f"run {place}", "source": "photos", "time": time, "id": "0123"})
    return (reports / "index.html").read_text(encoding="utf-8")


def test_every_report_newest_first(tmp_path: Path) -> None:
    assert "1 report, newest first" in add(tmp_path, "a")
    page = add(tmp_path, "b", "2026-11-18 07:00:00")
    assert page.index('href="b/index.html">run b') < page.index('href="a/index.html">run a')
    assert (tmp_path / "latest").readlink() == Path("b")
    page = add(tmp_path, "a", "2026-11-18 08:00:00")
    assert page.index("run a") < page.index("run b")
    assert (tmp_path / "latest").readlink() == Path("a")


def test_the_best_result_of_a_run_is_listed(tmp_path: Path) -> None:
    run = LoggedRun("photos · mlda", "photos", "photos", {}, {}, 1.0)
    scores = Table(("method", "macro F1 ↑"), (("MLDA, 10NN", "0.980 ± 0.018"), ("PCA", "0.9")), "")
    assert about_run(run, {})["name"] == "photos · mlda"
    assert "best" not in about_run(run, {"Scores": Table(("method", "macro F1 ↑"), (), "")})
    left_out = Table(("candidate", "state", "reason"), (("SVM", "skipped", "the budget ended"),), "")
    assert "best" not in about_run(run, {"Leaderboard": left_out})
    (tmp_path / "a").mkdir()
    list_report(tmp_path / "a", about_run(run, {"Scores": scores}))
    assert "<td>MLDA, 10NN: macro F1 0.980\u00a0±\u00a00.018</td>" in add(tmp_path, "b")


def test_names_stay_text(tmp_path: Path) -> None:
    page = add(tmp_path, "a", name="<script>alert(1)</script>")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": 1}', b"[]"])
def test_a_damaged_entry_is_left_out(tmp_path: Path, content: bytes) -> None:
    add(tmp_path, "a")
    (tmp_path / "a" / "run.json").write_bytes(content)
    assert "1 report," in add(tmp_path, "b")


def test_what_is_no_link_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    add(tmp_path, "a")
    assert not (tmp_path / "latest").is_symlink()


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    add(tmp_path, "a")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "index.html", "latest"}
