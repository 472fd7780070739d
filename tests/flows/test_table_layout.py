"""Tables and text fitted to a width."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.table_layout import lay_out_table, wrap_command, wrap_line
from flows.terminal import _render
from tasks.report.score_table import score_table
from tasks.report.tables import Table, display_width
from tests.flows.test_terminal import Pipe, Screen

WIDE = Table(
    ("method", "macro F1 ↑", "macro precision ↑", "run", "settings"),
    (
        ("Multi-label DLE, 10NN (baseline)", "0.601 ± 0.021", "0.701 ± 0.021", "0123abcd", "folds=3 seed=4"),
        ("MLDA", "0.501 ± 0.021", "0.401 ± 0.021", "4567abcd", ""),
    ),
    caption="mean ± standard deviation",
    best=frozenset({(0, 1)}),
    texts=frozenset({3, 4}),
    optional=(4, 2, 3),
)


def in_pipe(table: Table) -> str:
    return _render(table, Pipe())


def in_terminal(table: Table, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return _render(table, Screen()).split("\n")


def test_a_pipe_gets_the_whole_table() -> None:
    assert in_pipe(Table(("method", "macro F1 ↑"), (("MLDA, 1NN", "0.601 ± 0.021"),), "a caption")) == (
        "method        macro F1 ↑\n────────────────────────\nMLDA, 1NN  0.601 ± 0.021\na caption"
    )
    assert max(map(len, in_pipe(WIDE).split("\n"))) > 80


def test_columns_are_dropped_in_their_order() -> None:
    shown = [lay_out_table(WIDE, width).columns for width in (200, 80, 70, 60, 40)]
    assert shown == [(0, 1, 2, 3, 4), (0, 1, 2, 3, 4), (0, 1, 2, 3), (0, 1, 3), (0, 1)]


@pytest.mark.parametrize("width", [40, 60, 70, 80, 100])
def test_a_table_fits_and_names_what_was_dropped(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = in_terminal(WIDE, width, monkeypatch)
    assert max(map(display_width, lines)) <= width
    shown = lay_out_table(WIDE, width).columns
    dropped = [name for column, name in enumerate(WIDE.header) if column not in shown]
    text = " ".join(" ".join(lines).split())
    assert ("or with --json" in text) == bool(dropped)
    assert all(name.rstrip(" ↑") in text.partition("--json:")[2] for name in dropped)


def test_the_width_named_for_more_columns_shows_them_all() -> None:
    full = lay_out_table(WIDE, 40).full_width
    assert len(lay_out_table(WIDE, full).columns) == 5
    assert len(lay_out_table(WIDE, full - 1).columns) < 5


def test_numbers_are_not_wrapped_and_an_arrow_stays_with_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = in_terminal(WIDE, 72, monkeypatch)
    assert "macro" in lines[0]
    assert "precision ↑" in lines[1]
    assert any("0.601 ± 0.021" in line and "0.701 ± 0.021" in line for line in lines)


def test_an_empty_column_is_not_shown_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(("a", "b", "c"), (("1", "", "3"),))
    assert in_terminal(table, 80, monkeypatch)[0].split() == ["a", "c"]
    assert in_pipe(table).split("\n")[0].split() == ["a", "b", "c"]


def test_a_table_without_rows_has_its_header() -> None:
    assert in_pipe(score_table([])).startswith("method")


def test_columns_line_up_also_with_wide_and_combining_characters() -> None:
    table = Table(("method", "x"), (("日本語", "0.1"), ("e\u0301", "0.22"), ("long " * 30 + "end", "0.3")))
    assert len({display_width(line) for line in in_pipe(table).split("\n")}) == 1


def test_control_and_direction_codes_are_replaced() -> None:
    text = in_pipe(Table(("method",), (("\x1b[31mred\x07\u202egnp.exe",),)))
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
    assert "red" in text


def test_values_that_are_not_finite_are_never_shown() -> None:
    scores = [("a", "1nn", 0, "macro_f1", float("nan")), ("a", "1nn", 1, "macro_f1", 0.5)]
    assert "nan" not in in_pipe(score_table(scores))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("report     /a/b.html and a few words", ["report     /a/b.html and", "           a few words"]),
        ("  indented text that is too long", ["  indented text that is", "  too long"]),
        ("│  └─ features  0123 4567 89ab cdef", ["│  └─ features 0123 4567", "│     89ab cdef"]),
        ("run `labelscape compare` now", ["run `labelscape compare`", "now"]),
        ("the score is 0.601 ± 0.021", ["the score is", "0.601 ± 0.021"]),
        ("a /path/that/is/longer/than/the/line b", ["a", "/path/that/is/longer/than/the/line", "b"]),
    ],
)
def test_wrapping(line: str, expected: list[str]) -> None:
    assert wrap_line(line, 24) == expected


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("ab日", min_size=1, max_size=9), min_size=1, max_size=12), st.integers(20, 40))
def test_wrapping_keeps_every_word(words: list[str], width: int) -> None:
    lines = wrap_line(" ".join(words), width)
    assert " ".join(lines).split() == words
    assert max(map(display_width, lines)) <= width


@pytest.mark.parametrize(
    "lead", ["again     ", "run it now:  ", "run it with a worker:  ", "start it by an event:  "]
)
def test_a_line_with_a_command_can_be_copied(lead: str) -> None:
    command = 'A="$(cat /home/me/server-token)" prefect deployment run name/other'
    lines = wrap_line(lead + command, 30)
    assert len(lines) > 2
    assert all(line.endswith(" \\") for line in lines[:-1])
    joined = "".join(line.removesuffix("\\") for line in lines).removeprefix(lead.rstrip())
    assert joined.split() == command.split()


def test_a_wrapped_command_is_one_command_for_the_shell() -> None:
    text = wrap_command("resume with:", "labelscape run --home 'a b c' --set x=1 --refresh features", 30)
    assert text == ("resume with: labelscape run \\\n    --home 'a b c' --set x=1 \\\n    --refresh features")
    assert wrap_command("resume with:", "labelscape run", None) == "resume with: labelscape run"
