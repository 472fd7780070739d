"""The test that decides whether one method beats another, and the rule that stops a candidate early."""

import numpy as np
import pytest
from scipy import stats

from embedding_core.model_selection.significance import (
    CONFIDENCE,
    FAR_BEHIND,
    INDEPENDENT,
    best_of,
    is_hopeless,
    paired_lead,
)


def test_the_error_is_the_corrected_one_of_nadeau_and_bengio():
    rng = np.random.default_rng(0)
    ours, theirs = rng.random(5), rng.random(5)
    lead = paired_lead(ours, theirs)
    differences = ours - theirs
    error = np.sqrt(differences.var(ddof=1) * (1 / 5 + 1 / 4))
    assert lead.mean == pytest.approx(differences.mean())
    assert lead.error == pytest.approx(error)
    assert lead.needed == pytest.approx(stats.t.ppf(CONFIDENCE, 4) * error)
    assert lead.won == (differences > 0).sum()


def test_five_folds_need_the_factor_stated_in_the_docstring():
    lead = paired_lead([0.0, 1.0, 2.0, 3.0, 4.0], [0.0] * 5)
    assert lead.needed / lead.spread == pytest.approx(1.43, abs=0.005)


def test_the_correction_uses_all_folds_that_rows_are_split_into():
    two_of_five = paired_lead([0.9, 0.8], [0.5, 0.6], n_folds=5)
    assert two_of_five.error == pytest.approx(np.std([0.4, 0.2], ddof=1) * np.sqrt(1 / 2 + 1 / 4))


def test_independent_draws_use_the_uncorrected_paired_test():
    rng = np.random.default_rng(3)
    ours, theirs = rng.random(8), rng.random(8)
    lead = paired_lead(ours, theirs, INDEPENDENT)
    plain = stats.ttest_rel(ours, theirs)
    assert lead.mean / lead.error == pytest.approx(plain.statistic)
    assert lead.needed == pytest.approx(stats.t.ppf(CONFIDENCE, 7) * lead.error)


@pytest.mark.parametrize(
    ("differences", "beyond"),
    [
        ([0.05, 0.04, 0.06, 0.05, 0.05], True),
        ([0.05, -0.04, 0.06, -0.05, 0.05], False),
        ([-0.05, -0.04, -0.06, -0.05, -0.05], False),
        ([0.0] * 5, False),
        ([1e-17] * 5, False),
        ([0.01] * 5, True),
        ([0.5], False),
    ],
)
def test_beyond_noise(differences, beyond):
    assert paired_lead(differences, [0.0] * len(differences)).beyond_noise is beyond


def test_equal_methods_rarely_differ_significantly():
    rng = np.random.default_rng(1)
    found = [paired_lead(*rng.normal(size=(2, 5))).beyond_noise for _ in range(2000)]
    # The correction makes the test stricter than 5 % when folds are independent, as here.
    assert 0.001 < np.mean(found) < 0.05


def overlapping_folds(rng, runs, methods, folds=5):
    """Scores (runs, methods, folds) of equal methods whose folds correlate as Nadeau and Bengio assume."""
    rho = 1 / folds  # n_test / (n_test + n_train)
    own, common = rng.normal(size=(runs, methods, folds)), rng.normal(size=(runs, methods, 1))
    return np.sqrt(1 - rho) * own + np.sqrt(rho) * common


@pytest.mark.slow
@pytest.mark.parametrize("baseline_noise", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("methods", [1, 3, 6, 12])
def test_the_best_of_equal_methods_is_rarely_ahead(methods, baseline_noise):
    rng = np.random.default_rng(methods)
    scores = overlapping_folds(rng, 3000, methods)
    baseline = baseline_noise * overlapping_folds(rng, 3000, 1)[:, 0]
    winners = scores[np.arange(3000), scores.mean(axis=2).argmax(axis=1)]
    pairs = list(zip(winners, baseline, strict=True))
    corrected = np.mean([paired_lead(a, b, picked_among=methods).beyond_noise for a, b in pairs])
    assert 0.01 < corrected < 0.06  # 0.05 and two and a half standard errors of 3000 runs
    if methods > 1:
        assert np.mean([paired_lead(a, b).beyond_noise for a, b in pairs]) > 0.1


def test_the_best_of_six_needs_the_factor_stated_in_the_docstring():
    lead = paired_lead([0.0, 1.0, 2.0, 3.0, 4.0], [0.0] * 5, picked_among=6)
    assert lead.picked_among == 6
    assert lead.needed == pytest.approx(stats.t.ppf(1 - 0.05 / 6, 4) * lead.error)
    assert lead.needed / lead.spread == pytest.approx(2.66, abs=0.005)


@pytest.mark.parametrize(
    ("lags", "hopeless"),
    [
        ([0.10, 0.15], True),
        ([0.06, 0.08], True),
        ([0.06, 0.16], False),
        ([FAR_BEHIND - 0.01, FAR_BEHIND - 0.01], False),
        ([-0.10, -0.15], False),
        ([0.9], False),
    ],
)
def test_which_candidates_are_hopeless(lags, hopeless):
    leader = np.full(len(lags), 0.8)
    assert is_hopeless(leader - lags, leader, n_folds=5) is hopeless


def test_the_best_is_the_first_of_equals():
    assert best_of({"a": [0.1, 0.3], "b": [0.3, 0.1 + 1e-16], "c": [0.0, 0.1]}) == "a"
    assert best_of({"a": [0.1, 0.3], "b": [0.3, 0.11]}) == "b"
