"""A promise on the precision of written labels."""

from math import ceil, log

import numpy as np
import pytest
from scipy.stats import beta, binom

from embedding_core import InvalidInput
from embedding_core.annotation.precision_promise import (
    LABEL_STARTS,
    STARTS,
    _RankedPairs,
    expect_labels,
    promise_precision,
    rows_needed_per_label,
    tail_probability,
)


def draw(seed, n=120, K=5, power=3.0, levels=None, shared=False):
    """Scores s in [0, 1]; a pair is right with probability 1 - (1 - s)^power.

    With `shared`, all pairs of a row are right or wrong by the same draw.
    """
    rng = np.random.default_rng(seed)
    S = rng.random((n, K))
    if levels:
        S = np.floor(S * levels) / levels
    lots = rng.random((n, 1 if shared else K))
    return S, (lots < 1 - (1 - S) ** power).astype(np.int8)


def true_precision(threshold, power=3.0):
    """Of new pairs above the threshold: the mean of 1 - (1 - s)^power over s in [threshold, 1]."""
    return 1 - (1 - threshold) ** power / (power + 1)


def literal(S, Y, target, confidence, starts):
    """The recipe, pair by pair; returns k and x."""
    n, K = Y.shape
    alpha, level = 1 - target, (1 - confidence) / len(starts)
    k0 = ceil(log(level) / log(1 - alpha))
    pairs = sorted(((S[i, j], i, j) for i in range(n) for j in range(K)), reverse=True)

    def skip_ties(k):
        while k < len(pairs) and pairs[k - 1][0] - pairs[k][0] <= 1e-6:
            k += 1
        return k

    def p_value(k):
        e, w = [0] * n, [0] * n
        for _, i, j in pairs[:k]:
            w[i] += 1
            e[i] += 1 - int(Y[i, j])
        x = sum(e)
        p = (x + 0.5) / (k + 1)
        spread = sum((e[i] - x / k * w[i]) ** 2 for i in range(n))
        d = max(1, n / (n - 1) * spread / (k * p * (1 - p)))
        return (1 - beta.cdf(alpha, x / d + 1, (k - x) / d) if x < k else 1), x

    best = (0, 0)
    for start in starts:
        k = skip_ties(start * k0)
        while k <= len(pairs) and p_value(k)[0] <= level:
            best = max(best, (k, p_value(k)[1]))
            k = skip_ties(ceil(1.15 * k))
    return best


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("levels", [None, 50, 4])
@pytest.mark.parametrize(("target", "confidence", "starts"), [(0.9, 0.9, STARTS), (0.8, 0.95, LABEL_STARTS)])
def test_the_recipe_pair_by_pair(levels, target, confidence, starts, shared):
    promised = 0
    for seed in range(4):
        S, Y = draw(seed, n=90, power=6.0, levels=levels, shared=shared)
        found = promise_precision(S, Y, target, confidence, starts)
        assert (found.checked, found.wrong) == literal(S, Y, target, confidence, starts)
        promised += found.checked > 0
    assert promised


def test_k_and_x_are_those_above_the_threshold():
    S, Y = draw(0, power=6.0)
    found = promise_precision(S, Y)
    above = found.threshold < S
    assert found.checked == above.sum() == found.labels.given.sum()
    assert found.wrong == (above & (Y == 0)).sum()
    assert found.expected_recall == (above & (Y == 1)).sum() / Y.sum()
    np.testing.assert_array_equal(found.labels.given, above.sum(axis=0))
    np.testing.assert_allclose(found.labels.precision, (above * Y).sum(axis=0) / above.sum(axis=0))
    np.testing.assert_allclose(found.labels.recall, (above * Y).sum(axis=0) / Y.sum(axis=0))


def test_without_dispersion_it_is_the_binomial_test():
    k, x = np.meshgrid([5, 40, 300], [0, 1, 4])
    np.testing.assert_allclose(tail_probability(k, x, 0.1), binom.cdf(x, k, 0.1), atol=1e-12)
    assert tail_probability(7, 7, 0.1) == 1
    assert tail_probability(100, 5, 0.1, 2.0) > tail_probability(100, 5, 0.1)


@pytest.mark.parametrize(
    ("target", "confidence", "starts", "needed"), [(0.9, 0.9, STARTS, 36), (0.9, 0.9, LABEL_STARTS, 33)]
)
def test_the_fewest_pairs_that_can_pass(target, confidence, starts, needed):
    right = np.ones((needed, 1), dtype=np.int8)
    scores = np.linspace(1, 0.5, needed)[:, None]
    assert promise_precision(scores, right, target, confidence, starts).checked == needed
    fewer = promise_precision(scores[1:], right[1:], target, confidence, starts)
    assert (fewer.threshold, fewer.checked, fewer.needed) == (None, 0, needed)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("power", [1.5, 3.0])
def test_the_promise_is_broken_at_most_at_its_rate(power, shared):
    """Precision of new pairs is known; 300 draws, and three standard errors above δ."""
    runs, delta = 300, 0.1
    found = [
        promise_precision(*draw(seed, power=power, shared=shared), 0.9, 1 - delta) for seed in range(runs)
    ]
    written = [one for one in found if one.threshold is not None]
    broken = sum(true_precision(one.threshold, power) < 0.9 for one in written)
    assert len(written) > 30
    assert broken / runs <= delta + 3 * np.sqrt(delta * (1 - delta) / runs)


@pytest.mark.slow
def test_correlated_rows_without_dispersion_would_break_it(monkeypatch):
    def broken():
        found = [promise_precision(*draw(seed, 60, 60, 1.0, shared=True)) for seed in range(100)]
        thresholds = [one.threshold for one in found if one.threshold is not None]
        return sum(true_precision(threshold, 1.0) < 0.9 for threshold in thresholds)

    assert broken() <= 10
    monkeypatch.setattr(_RankedPairs, "dispersion", lambda *_: 1.0)
    assert broken() > 15


def test_monotone_transformations_and_the_order_of_rows_and_labels_do_not_matter():
    S, Y = draw(2, power=6.0)
    S = np.argsort(np.argsort(S, axis=None)).reshape(S.shape) / S.size
    found = promise_precision(S, Y)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(Y)), rng.permutation(Y.shape[1])
    for scores, labels in [(np.exp(3 * S), Y), (S[rows][:, columns], Y[rows][:, columns])]:
        other = promise_precision(scores, labels)
        assert (other.checked, other.wrong) == (found.checked, found.wrong) != (0, 0)


def test_tied_pairs_are_written_together_or_not_at_all():
    S = np.repeat([0.9, 0.8, 0.1], [20, 30, 150])[:, None]
    Y = (S > 0.5).astype(np.int8)
    found = promise_precision(S, Y)
    assert found.checked == 50  # 36 lies within the pairs of 0.8
    assert 0.1 < found.threshold < 0.8
    Y[40:60] = 0
    assert promise_precision(S, Y).threshold is None


def test_a_constant_score_writes_everything_or_nothing():
    S = np.full((60, 2), 0.5)
    assert promise_precision(S, np.ones((60, 2))).checked == 120
    assert promise_precision(S, np.eye(2)[np.arange(60) % 2]).threshold is None


def test_a_label_that_every_row_carries_is_written_but_no_evidence():
    for power, target in ((3.0, 0.9), (0.3, 0.9)):  # with a promise and without
        S, Y = draw(3, n=200, power=power)
        alone = promise_precision(S, Y, target)
        both = promise_precision(
            np.column_stack([S, np.ones(200)]), np.column_stack([Y, np.ones(200)]), target
        )
        assert (both.threshold, both.checked, both.wrong) == (alone.threshold, alone.checked, alone.wrong)
        assert both.expected_recall == alone.expected_recall
        assert both.labels.given.tolist() == [*alone.labels.given, 0 if alone.threshold is None else 200]
        assert both.rows_needed == alone.rows_needed
    assert alone.threshold is None
    assert rows_needed_per_label(np.ones((50, 1)), np.ones((50, 1))) == [50]


def test_no_carrier_and_a_single_row_allow_no_promise():
    S = np.random.default_rng(0).random((80, 3))
    none = promise_precision(S, np.zeros((80, 3)))
    assert (none.threshold, none.expected_recall, none.rows_needed) == (None, 0.0, None)
    assert np.isnan(none.labels.precision).all()
    assert np.isnan(none.labels.recall).all()
    alone = promise_precision(np.random.default_rng(0).random((1, 200)), np.ones((1, 200)))
    assert alone.threshold is None


def test_rows_needed_shrink_with_evidence():
    """With twice the rows that are said to be needed, most draws allow the promise."""
    S, Y = draw(0, n=12)
    found = promise_precision(S, Y)
    assert found.threshold is None
    assert found.rows_needed > 12
    more = [promise_precision(*draw(seed, n=2 * found.rows_needed)) for seed in range(20)]
    assert np.mean([one.threshold is not None for one in more]) > 0.5


def test_sentences():
    S = np.linspace(1, 0, 200)[:, None]
    Y = (np.arange(200) < 100).astype(np.int8)[:, None]
    Y[60] = 0
    kept = promise_precision(S, Y)
    assert kept.sentence == (
        "At least 90 % of the labels written should be right (confidence 90 %, from "
        f"{kept.checked} checked suggestions, {kept.wrong} wrong; finds about "
        f"{100 * kept.expected_recall:.0f} % of the labels). Assumes new items like the labeled ones, and "
        "that these were chosen at random."
    )
    few = promise_precision(S[:20], Y[:20], 0.95)
    assert few.sentence.startswith("Not enough evidence: at least 72 suggestions without an error are needed")
    assert f"about {few.rows_needed} labeled items may do" in few.sentence
    assert "more labeled items alone may not help" in promise_precision(S, 1 - Y).sentence


def test_expected_precision_and_recall_of_ordinary_decisions():
    decided = np.array([[1, 0, 0], [1, 0, 1], [1, 0, 0], [0, 0, 0]])
    Y = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]])
    found = expect_labels(decided, Y)
    assert found.rows == 4
    assert (found.given.tolist(), found.right.tolist(), found.carriers.tolist()) == (
        [3, 0, 1],
        [1, 0, 0],
        [2, 1, 0],
    )
    np.testing.assert_allclose(found.precision, [1 / 3, np.nan, 0.0])
    np.testing.assert_allclose(found.recall, [0.5, 0.0, np.nan])
    np.testing.assert_allclose(found.times_share, [1.5, 0.0, np.nan])


@pytest.mark.parametrize(
    ("scores", "Y", "options", "message"),
    [
        ([[0.5]], [[0, 1]], {}, r"shape \(1, 1\) and Y \(1, 2\)"),
        ([[0.5], [np.nan]], [[0], [1]], {}, "1 NaN or infinite"),
        ([["a"], ["b"]], [[0], [1]], {}, "not numeric"),
        ([[0.5], [0.6]], [[-1], [1]], {}, "other values than 0 and 1"),
        ([[0.5], [0.6]], [[np.nan], [1]], {}, "other values than 0 and 1"),
        ([0.5, 0.6], [0, 1], {}, r"Y has shape \(2,\)"),
        (np.empty((0, 3)), np.empty((0, 3)), {}, r"Y has shape \(0, 3\)"),
        ([[0.5], [0.6]], [[0], [1]], {"target": 1.0}, "target=1.0 is not legal"),
        ([[0.5], [0.6]], [[0], [1]], {"target": "0.9"}, "target='0.9' is not legal"),
        ([[0.5], [0.6]], [[0], [1]], {"confidence": 0.0}, "confidence=0.0 is not legal"),
        ([[0.5], [0.6]], [[0], [1]], {"confidence": 90}, "confidence=90 is not legal"),
        ([[0.5], [0.6]], [[0], [1]], {"starts": ()}, "starts="),
        ([[0.5], [0.6]], [[0], [1]], {"starts": (0,)}, "starts="),
    ],
)
def test_nonsense_is_refused(scores, Y, options, message):
    with pytest.raises(InvalidInput, match=message):
        promise_precision(scores, Y, **options)


def test_decisions_of_another_shape_are_refused():
    with pytest.raises(InvalidInput, match=r"decided has shape \(1, 2\)"):
        expect_labels([[1, 0]], [[1]])
