"""Figures of kernel DLE on real data; a second implementation's, or a table's, is the bar.

Where a bar is missed by more than the tolerance, on the bad side, the test fails. Differences below 0.005 are
noise.
"""

import numpy as np
import pytest

from embedding_core import KernelDLEClassifier
from embedding_core.features.color_moments import BANDS
from embedding_core.metrics import row_precisions
from embedding_core.protocols import few_labels, tuned_split
from embedding_core.protocols.trial import Arm, TrialData
from embedding_core.protocols.tuned_split import FIGURES, draw_parts, judge_split
from tests.real_sets import mediamill, msrc, official, read_table

pytestmark = pytest.mark.slow


def assert_reached(found, known, tolerance):
    """Every known figure within the tolerance, or better."""
    for name, value in known.items():
        gap = found[name] - value if name == "hamming_loss" else value - found[name]
        assert gap <= tolerance, f"{name} is {found[name]:.4f}, {value} was to be reached"


@pytest.mark.parametrize(
    ("name", "hamming_loss", "lrap", "f1"),
    [
        ("emotions", 0.185, 0.819, (0.725, 0.718)),
        ("scene", 0.073, 0.897, (0.791, 0.799)),
        ("yeast", 0.186, 0.771, (0.685, 0.512)),
    ],
)
def test_official_splits(shared_data, name, hamming_loss, lrap, f1):
    """Hamming loss and LRAP of a second implementation; tuned micro- and macro-F1 as first measured here."""
    X, Y, train, test = official(shared_data, name)
    found = judge_split(KernelDLEClassifier(), X, Y, train, test)
    assert_reached(found, dict(zip(FIGURES, (hamming_loss, *f1, lrap), strict=True)), 0.005)


@pytest.mark.parametrize(
    ("load", "sizes", "known"),
    [
        (mediamill, (1500, 500), (0.093, 0.609, 0.350, 0.761)),
        # the moments of the second implementation; this draw misses its .672 and .760, see README
        (msrc, (400, 191), (0.072, 0.654, 0.568, 0.743)),
    ],
    ids=["mediamill_reduced", "msrc_v2-rgb"],
)
def test_random_splits(shared_data, load, sizes, known):
    X, Y = load(shared_data)
    splits = [draw_parts(len(Y), *sizes, number) for number in range(3)]
    judged = [judge_split(KernelDLEClassifier(), X, Y, *split) for split in splits]
    found = {name: np.mean([one[name] for one in judged]) for name in FIGURES}
    assert_reached(found, dict(zip(FIGURES, known, strict=True)), 0.01)


def test_photographs_in_the_color_space_that_the_training_rows_choose(shared_data):
    """The table's figures of msrc_v2, which moments of RGB alone miss."""
    spaces = [msrc(shared_data, space) for space in BANDS]
    data = TrialData(np.hstack([X for X, _ in spaces]), spaces[0][1])
    settings = {"sizes": [400, 191], "seed": 0, "blocks": list(BANDS)}
    arm = Arm("Kernel DLE", "kernel_dle")
    cells = [cell for n in range(3) for cell in tuned_split.trial(data, arm, settings, "zscore", n)]
    found = {name: np.mean([cell.value for cell in cells if cell.metric == name]) for name in FIGURES}
    assert_reached(found, dict(zip(FIGURES, (0.068, 0.672, 0.574, 0.760), strict=True)), 0.01)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("wine", (0.948, 0.955, 0.964)),
        ("ionosphere", (0.737, 0.798, 0.866)),
        ("sonar", (0.617, 0.664, 0.687)),
        ("digits", (0.854, 0.907, 0.943)),
    ],
)
def test_few_labels(shared_data, name, known):
    """Accuracy as first measured here with 3, 5 and 10 labeled items per class, means of five draws."""
    X, y, _ = read_table(shared_data, name)
    data = TrialData(X, np.eye(y.max() + 1, dtype=np.int8)[y], single_label=True)
    settings = {"labeled": [3, 5, 10], "neighbors": [], "metric": "accuracy", "seed": 0}
    arm = Arm("Kernel DLE", "kernel_dle")
    draws = [few_labels.trial(data, arm, settings, "raw", number) for number in range(5)]
    for cells, accuracy in zip(zip(*draws, strict=True), known, strict=True):
        mean = np.mean([cell.value for cell in cells])
        assert mean >= accuracy - 0.01, f"{cells[0].condition}: {mean:.4f}"


def test_shuffled_labels_of_a_real_set_fall_to_chance(shared_data):
    X, Y, train, test = official(shared_data, "emotions")
    shuffled = Y.copy()
    shuffled[train] = np.random.default_rng(0).permutation(Y[train])
    found = judge_split(KernelDLEClassifier(), X, shuffled, train, test)
    shares = np.tile(Y[train].mean(axis=0), (len(test), 1))
    chance = row_precisions(Y[test], shares).mean()
    assert found["lrap"] < chance + 0.03
