"""CSV cells: no spreadsheet executes them, and our readers see what was written."""

import csv
import os
from pathlib import Path

import pyarrow as pa
import pytest

from storage.csv_cells import guard_cell, unguard_cell
from storage.exports import write_csv
from storage.sources.label_files import read_label_file
from tasks.report.tables import notes_csv

FORMULAS = [
    "=1+2",
    "+cmd|'/C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    "-",
    "--1",
    "=",
    "+-1",
]
PLAIN = ["sea", "", "-1.5", "+3", "-1e-9", ".5", "a=b", "'tis", "''", "#NA", "1-2"]


def is_executed(cell: str) -> bool:
    """Whether a spreadsheet would take a cell for a formula."""
    return (
        cell[:1] in set("=+-@\t\r\n＝＋－＠")
        and not cell.lstrip("+-").replace(".", "").replace("e-", "").isdigit()
    )


@pytest.mark.parametrize("text", [*FORMULAS, *PLAIN, *("'" + text for text in FORMULAS), "''=1", "'-1"])
def test_a_cell_is_no_formula_and_comes_back_unchanged(text: str) -> None:
    assert not is_executed(guard_cell(text))
    assert unguard_cell(guard_cell(text)) == text


@pytest.mark.parametrize("text", PLAIN)
def test_numbers_and_words_are_written_as_they_are(text: str) -> None:
    assert guard_cell(text) == text


def test_different_texts_stay_different() -> None:
    texts = [mark + text for text in (*FORMULAS, *PLAIN) for mark in ("", "'", "''")]
    assert len({guard_cell(text) for text in texts}) == len(set(texts))


def read_cells(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_a_table_has_safe_cells_and_names_and_its_numbers_stay_numbers(tmp_path: Path) -> None:
    table = pa.table({"id": FORMULAS, "=x": [-1.5] * len(FORMULAS), "text": [None, *FORMULAS[1:]]})
    header, *rows = read_cells(write_csv(table, tmp_path / "t.csv", "--out"))
    assert header == ["id", "'=x", "text"]
    assert {row[1] for row in rows} == {"-1.5"}
    assert not any(is_executed(row[0]) or is_executed(row[2]) for row in rows)
    assert rows[0][2] == ""


def test_the_notes_of_a_report_have_safe_cells() -> None:
    lines = notes_csv([("=cmd.jpg", 3, "@x"), ("-1.jpg", None, "skipped")]).splitlines()
    assert lines[1:] == ["'=cmd.jpg,3,'@x", "'-1.jpg,,skipped"]


def test_a_written_label_file_reads_back_unchanged(tmp_path: Path) -> None:
    names, labels = [f"{text}{k}.jpg" for k, text in enumerate(FORMULAS)], ["=sea", "-1", "+b", "@c"]
    joined = ["|".join([labels[k % 4], "sky"]) for k in range(len(names))]
    scores = [0.5] * len(names)
    table = pa.table({"id": names, "labels": joined, "score:=sea": scores})
    found = read_label_file(write_csv(table, tmp_path / "labels.csv", "--out"), "|")
    assert [entry.name for entry in found.entries] == names
    assert ["|".join(entry.labels) for entry in found.entries] == joined


def test_a_table_for_users_follows_their_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = write_csv(pa.table({"a": ["b"]}), tmp_path / "t.csv", "--out")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
