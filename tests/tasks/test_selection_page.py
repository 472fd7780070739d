"""The page of `auto`: what its leaderboard marks, and how its captions read."""

import pytest

from tasks.selection.choice import TitleDecision, choose
from tasks.selection.page import SelectionStory, render_selection
from tests.tasks.test_choice import BASE, result, shifted


@pytest.fixture
def page() -> str:
    choice = choose([result("svm", BASE), result("mlls", shifted(0.05))], "macro_f1")
    assert choice
    return render_selection(
        SelectionStory("photos", choice, TitleDecision("champion", "the first"), None)
    ).decode()


def test_the_best_value_of_each_metric_is_marked(page: str) -> None:
    assert page.count("<td><b>") == 1


def test_folds_are_in_the_order_of_the_leaderboard(page: str) -> None:
    folds = page[page.index("<h2>Folds</h2>") :]
    assert folds.index("MLLS") < folds.index("SVM")


def test_captions_begin_with_a_capital_letter(page: str) -> None:
    assert '<p class="caption">Macro F1 on each fold.</p>' in page
