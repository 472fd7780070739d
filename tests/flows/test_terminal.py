"""What goes to the screen: results and news apart, bars in a terminal, plain lines elsewhere."""

import io
import sys
from types import SimpleNamespace

import pytest

from flows import terminal
from flows.terminal import TerminalReporter, show, tell


class Screen(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Time that passes when told to."""

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
    screen = Screen()
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stderr=screen, stdout=sys.stdout))
    monkeypatch.setenv("COLUMNS", "60")
    return screen


def test_results_and_news_go_different_ways(capsys: pytest.CaptureFixture[str]) -> None:
    show("a result")
    tell("some news")
    assert tuple(capsys.readouterr()) == ("a result\n", "some news\n")


def test_a_screen_of_few_letters_shows_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    show("0.6 ± 0.1 ↑ été")
    assert raw.getvalue().decode("latin-1") == "0.6 ± 0.1 ? été\n"


def test_plain_lines_come_every_few_seconds(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with TerminalReporter().progress("features", 100) as advance:
        for done in range(1, 101):
            clock.now += 0.2
            advance(done)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["  features: 25/100", "  features: 50/100", "  features: 75/100"]


def test_a_bar_fills_and_is_wiped(screen: Screen, clock: Clock) -> None:
    with TerminalReporter().progress("features", 4) as advance:
        clock.now += 2
        advance(1)
        drawn = screen.getvalue().split("\r")
    assert all(len(line) <= 59 for line in drawn)
    assert "features [" in drawn[1]
    assert "0/4" in drawn[1]
    assert "1/4, 6 s left" in drawn[2]
    assert drawn[1].count("#") == 0 < drawn[2].count("#") < drawn[2].count(".")
    assert screen.getvalue().endswith("\r" + " " * 59 + "\r")


def test_a_bar_is_wiped_when_the_work_breaks_off(screen: Screen) -> None:
    with pytest.raises(ZeroDivisionError), TerminalReporter().progress("features", 4):
        raise ZeroDivisionError
    assert screen.getvalue().endswith(" \r")


def test_a_bar_is_not_drawn_for_every_item(screen: Screen, clock: Clock) -> None:
    with TerminalReporter().progress("features", 1000) as advance:
        for done in range(1, 1001):
            clock.now += 0.01
            advance(done)
    assert 90 <= screen.getvalue().count("features") <= 112


def test_a_bar_fits_a_narrow_screen(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    with TerminalReporter().progress("evaluation[multilabel_dle]", 4) as advance:
        advance(4)
    assert "evaluation" in screen.getvalue()
    assert all(len(line) <= 19 for line in screen.getvalue().split("\r"))


def test_quiet_says_nothing(screen: Screen) -> None:
    reporter = TerminalReporter(quiet=True)
    reporter.say("news")
    reporter.say_once("news")
    with reporter.progress("features", 100) as advance:
        advance(100)
    assert screen.getvalue() == ""


def test_one_piece_of_work_needs_no_bar(screen: Screen) -> None:
    with TerminalReporter().progress("features", 1) as advance:
        advance(1)
    assert screen.getvalue() == ""


def test_what_several_stages_have_to_say_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = TerminalReporter()
    for text in ("a", "b", "a", "a"):
        reporter.say_once(text)
    assert capsys.readouterr().err == "a\nb\n"
