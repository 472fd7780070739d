"""Terminal output: results and messages on their own streams, bars in a terminal, plain lines in a pipe."""

import io
import json
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TextIO

import pytest
from rich.console import Console

from flows import progress, terminal
from flows.progress import ProgressBars, format_eta
from flows.terminal import TerminalReporter, format_command, show, tell
from tasks.report.tables import Table
from tasks.safe_text import printable_lines

ERASED = "\r\x1b[2K\x1b[?25h"
"""Control codes that erase the line and show the cursor again."""


class Pipe(io.StringIO):
    """A stream that is no terminal."""

    encoding = "utf-8"


class Screen(Pipe):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Streams:
    """Standard error that is a screen, beside the present standard output."""

    def __init__(self, stderr: Screen) -> None:
        self.stderr = stderr

    @property
    def stdout(self) -> TextIO:
        return sys.stdout


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(terminal.time, "monotonic", clock)
    return clock


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Standard error as a terminal of 60 columns, in which bars appear at once."""
    screen = Screen()
    monkeypatch.setattr(terminal, "sys", Streams(screen))
    monkeypatch.setattr(progress.threading, "Timer", AtOnce)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    return screen


class AtOnce:
    """A timer whose time is up when it is started."""

    daemon = False

    def __init__(self, delay: float, function: Callable[[Any], None], arguments: list[Any]) -> None:
        self._call = lambda: function(*arguments)

    def start(self) -> None:
        self._call()

    def cancel(self) -> None:
        """Nothing is left to cancel."""


def test_results_and_messages_go_to_different_streams(capsys: pytest.CaptureFixture[str]) -> None:
    show("a result")
    tell("a message")
    assert tuple(capsys.readouterr()) == ("a result\n", "a message\n")


def test_characters_that_the_output_cannot_encode_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    show("0.6 ± 0.1 ↑ été")
    assert raw.getvalue().decode("latin-1") == "0.6 ± 0.1 ? été\n"


def test_a_message_in_a_terminal_is_wrapped(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    tell("a message of more than twenty columns")
    assert screen.getvalue() == "a message of more\nthan twenty columns\n"


def test_a_command_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell(format_command("resume with:", f"labelscape run --home {'x' * 300} --refresh features"))
    assert capsys.readouterr().err.count("\n") == 1


def test_a_state_is_colored_in_a_terminal_only(
    capsys: pytest.CaptureFixture[str], screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    tell("  features   fresh")
    show("  features   fresh")
    assert screen.getvalue() == "  features   \x1b[32mfresh\x1b[0m\n"
    assert capsys.readouterr().out == "  features   fresh\n"


def test_plain_lines_come_every_few_seconds(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with TerminalReporter().progress("features", 100) as advance:
        for done in range(1, 101):
            clock.now += 0.2
            advance(done)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["  features: 25/100", "  features: 50/100", "  features: 75/100"]


def test_a_bar_shows_the_count_and_is_removed(screen: Screen) -> None:
    with TerminalReporter().progress("features", 4) as advance:
        advance(1)
        assert "features" in screen.getvalue()
        assert "0/4" in screen.getvalue()
    assert screen.getvalue().rstrip().endswith(ERASED)


def test_a_bar_is_removed_when_the_work_fails(screen: Screen) -> None:
    with pytest.raises(ZeroDivisionError), TerminalReporter().progress("features", 4):
        raise ZeroDivisionError
    assert screen.getvalue().rstrip().endswith(ERASED)


def test_short_work_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    bars = ProgressBars(Console(file=screen, force_terminal=True), delay=3600)
    with bars.count("features", 4) as advance, bars.wait("report", None):
        advance(4)
    assert screen.getvalue() == ""


def test_messages_are_printed_above_the_bar(screen: Screen) -> None:
    reporter = TerminalReporter()
    with reporter.working("report"):
        reporter.say("a message " + "of many words " * 4 + "above")
        above = screen.getvalue().partition("a message")[2]
    assert re.search(r"of many words of many\n.*words above\n", above, re.S)


def test_work_that_counts_its_parts_replaces_the_bar_of_its_stage(screen: Screen) -> None:
    reporter = TerminalReporter()
    with reporter.working("stage"):
        before = len(screen.getvalue())
        with reporter.progress("parts", 4):
            drawn = screen.getvalue()[before:]
            assert "parts" in drawn
            assert "stage" not in drawn[drawn.index("parts") :]


def test_a_bar_fits_a_narrow_terminal(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setenv("NO_COLOR", "1")
    with TerminalReporter().progress("evaluation[multilabel_dle]", 4):
        pass
    assert "evalu" in screen.getvalue()
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").split("\n")
    assert max(map(len, lines)) <= 24


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ({"total": 40, "completed": 10, "time_remaining": 75.0}, "10/40, ETA 1 min 15 s"),
        ({"total": 40, "completed": 0, "time_remaining": None}, "0/40"),
        ({"total": 4, "completed": 1, "time_remaining": 7260.0}, "1/4, ETA 2 h 1 min"),
        ({"total": None, "elapsed": 4.0, "expected": 10.0}, "4 s, ETA 6 s"),
        ({"total": None, "elapsed": 12.0, "expected": 10.0}, "12 s"),
        ({"total": None, "elapsed": 4.0, "expected": None}, "4 s"),
    ],
)
def test_eta(task: dict[str, Any], text: str) -> None:
    fields = {"expected": task.pop("expected", None)}
    assert format_eta(SimpleNamespace(**{"elapsed": 1.0, **task, "fields": fields})) == text


def test_a_stage_is_expected_to_take_as_long_as_the_last_time(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = TerminalReporter()
    reporter.expect({"report": 90.0}.get)
    with reporter.working("report"):
        assert "ETA 1 min 30 s" in screen.getvalue()


def test_quiet_reports_nothing(screen: Screen) -> None:
    reporter = TerminalReporter(quiet=True)
    reporter.say("a message")
    reporter.say_once("a message")
    with reporter.progress("features", 100) as advance, reporter.working("report"):
        advance(100)
    assert screen.getvalue() == ""


def test_a_single_part_needs_no_count(screen: Screen) -> None:
    with TerminalReporter().progress("features", 1) as advance:
        advance(1)
    assert screen.getvalue() == ""


def test_a_message_of_several_stages_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = TerminalReporter()
    for text in ("a", "b", "a", "a"):
        reporter.say_once(text)
    assert capsys.readouterr().err == "a\nb\n"


HOSTILE = "p\x1b[31m\x9b2J\u202egnp.\x07exe\r\u200b"
SAFE = "p\ufffd[31m\ufffd2J\ufffdgnp.\ufffdexe\ufffd\ufffd"


def test_control_characters_of_names_do_not_reach_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    show(f"skipped  {HOSTILE}\nnext line")
    show(Table((HOSTILE,), ((HOSTILE,),), caption=HOSTILE))
    tell(f"labelscape: {HOSTILE}: not an image")
    TerminalReporter().say(HOSTILE)
    found = capsys.readouterr()
    assert found.out.startswith(f"skipped  {SAFE}\nnext line\n")
    assert found.out.count(SAFE) == 4
    assert found.err == f"labelscape: {SAFE}: not an image\n{SAFE}\n"


def test_control_characters_of_names_do_not_reach_a_terminal(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    tell(f"A file {HOSTILE}")
    reporter = TerminalReporter()
    reporter.say(HOSTILE)
    assert screen.getvalue() == f"A file {SAFE}\n{SAFE}\n"
    with reporter.progress(HOSTILE, 4), reporter.working(HOSTILE):
        reporter.say(f"{HOSTILE} above the bar")
    assert "[31m" in screen.getvalue()
    assert not any(part in screen.getvalue() for part in ("\x1b[31m", "\x9b", "\u202e", "\x07", "\u200b"))


def test_markup_in_a_name_is_only_text(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    tell("the file [bold red]x[/] :smile: [link=http://a]")
    tell("[red]x[/red]")
    assert screen.getvalue() == "the file [bold red]x[/] :smile: [link=http://a]\n[red]x[/red]\n"


def test_json_has_no_control_characters_and_the_same_values(capsys: pytest.CaptureFixture[str]) -> None:
    show(json.dumps({HOSTILE: [HOSTILE]}, ensure_ascii=False, indent=2))
    text = capsys.readouterr().out
    assert printable_lines(text) == text
    assert json.loads(text) == {HOSTILE: [HOSTILE]}


def test_a_message_of_megabytes_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"labelscape: {'x' * 6_000_000}: rename it.")
    tell("\n".join(f"line {number}" for number in range(100_000)))
    show("y" * 300_000)
    show(Table(("name",), (("z" * 300_000,),)))
    found = capsys.readouterr()
    assert len(found.err) < 20_000
    assert len(found.out) < 10_000
    assert "more characters) ..." in found.err
    assert found.err.splitlines()[0].endswith("xxx: rename it.")


def test_a_command_too_long_to_show_is_not_cut() -> None:
    assert format_command("resume with:", f"labelscape run {'x' * 5000}") == "resume with: the same command"
