"""Labels given to implausibly many items, against the binomial distribution."""

import numpy as np
import pytest
from scipy.stats import binom

from embedding_core.annotation.plausibility import LEVEL, is_implausible, times_share
from embedding_core.annotation.precision_promise import (
    LABEL_STARTS,
    promise_precision,
    rows_needed_per_label,
)
from embedding_core.errors import InvalidInput
from embedding_core.model_selection.thresholds import exceed_thresholds, shift_scores


@pytest.mark.parametrize("items", [1, 3, 12, 40, 400])
@pytest.mark.parametrize("carriers", [1, 5, 30, 99, 100])
def test_implausible_counts_are_those_of_the_literal_rule(items: int, carriers: int) -> None:
    given = np.arange(items + 1)
    share = min(3 * carriers / 100, 1.0)
    literal = [
        count / items > 3 * carriers / 100 and binom.sf(count - 1, items, share) <= LEVEL for count in given
    ]
    found = is_implausible(given, items, np.full(items + 1, carriers), 100)
    assert found.tolist() == literal


def test_the_photo_label_of_the_issue_is_flagged_and_labels_at_their_share_are_not() -> None:
    assert is_implausible([40], 40, [2], 95).all()
    rng = np.random.default_rng(0)
    drawn = rng.binomial(50, 0.1, size=2000)
    flagged = is_implausible(drawn, 50, np.full(2000, 10), 100)
    assert flagged.mean() < 0.01, "at its share a label is hardly ever flagged"


def test_labels_without_carriers_have_no_share() -> None:
    assert np.isnan(times_share([3], 5, [0], 10)).all()
    assert not is_implausible([3], 5, [0], 10).any()
    with pytest.raises(InvalidInput, match="at least one item"):
        times_share([1], 0, [1], 10)


def test_decisions_are_those_of_shifted_scores() -> None:
    rng = np.random.default_rng(1)
    scores, cuts = rng.random((200, 4)), np.array([0.2, 0.5, np.inf, -np.inf])
    scores[:3, 1] = 0.5
    expected = (shift_scores(scores, cuts) > 0.5 + 1e-9).astype(int)
    assert (exceed_thresholds(scores, cuts) == expected).all()
    assert not exceed_thresholds(scores[:3, 1:2], [0.5]).any()


def test_rows_needed_are_those_of_each_label_alone() -> None:
    rng = np.random.default_rng(2)
    Y = (rng.random((80, 3)) < [0.4, 0.1, 0.0]).astype(int)
    scores = Y + rng.normal(size=Y.shape) * [0.3, 0.6, 0.3]
    found = rows_needed_per_label(scores, Y)
    alone = [promise_precision(scores[:, [k]], Y[:, [k]], starts=LABEL_STARTS) for k in range(2)]
    assert found[:2] == [one.rows_needed if one.threshold is None else 80 for one in alone]
    assert found[2] is None
    assert any(one.threshold is None for one in alone)
