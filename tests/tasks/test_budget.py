"""Time budgets."""

import pytest

from flows.config import load_config
from storage.errors import ConfigError
from tasks.budget import Budget, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1h 5s", 3605), (" 2H ", 7200)]
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "10x", "0m", "-5m", "m", "5m1h", "1.5h", "ten minutes", "1e9s"])
def test_text_that_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a positive duration; write for instance 90s, 10m or 1h30m"):
        parse_duration(text)
    with pytest.raises(ConfigError, match=r"auto\.budget: .* is not a positive duration"):
        load_config(None, [], auto={"budget": text})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.9, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (3599, "59 min 59 s"), (3660, "1 h 1 min")],
)
def test_formatted_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_budget_starts_with_its_first_start() -> None:
    now = 100.0
    budget = Budget(60, clock=lambda: now)
    now = 150.0
    assert (budget.left, budget.spent) == (60, 0)
    budget.start()
    now = 190.0
    budget.start()
    assert (budget.left, budget.spent) == (20, 40)
    now = 500.0
    assert budget.left == 0
    assert str(budget.over()) == "the budget of 1 min 0 s ended"
