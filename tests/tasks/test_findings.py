"""What is promised if the model leaves out classes of few items."""

import numpy as np
import pytest

from storage.artifacts.labeled_items import LabeledItems
from tasks.annotation.findings import describe_promise, expect, make_promise
from tasks.selection.rare_labels import FEWEST


def classes(counts: list[int]) -> LabeledItems:
    """Items of one class each, all of them scored rightly, with scores that fall from .99."""
    Y = np.repeat(np.eye(len(counts), dtype=np.int8), counts, axis=0)
    n = len(Y)
    scores = np.where(Y == 1, np.linspace(0.99, 0.6, n)[:, None], 0.01)
    return LabeledItems(
        ids=[f"i{row}" for row in range(n)],
        label_names=[f"c{k}" for k in range(len(counts))],
        labels=Y,
        positions=np.arange(n),
        total=n,
        single_label=True,
        folds=np.arange(n) % 5,
        scores=scores,
        tune_for="hamming",
        rows=np.arange(n),
        X=np.zeros((n, 2), np.float32),
    )


def test_items_of_unknown_classes_are_wrong_suggestions() -> None:
    known, apart = classes([60, 40]), np.array([[0.95, 0.05], [0.2, 0.7]])
    before, after = make_promise(known, 0.8, 0.9), make_promise(known, 0.8, 0.9, apart)
    assert (before.wrong, after.wrong) == (0, 2)
    found = expect(known, None, apart)
    assert found is not None
    assert found.precision.tolist() == [60 / 61, 40 / 41]
    assert found.recall.tolist() == [1, 1]


@pytest.mark.parametrize(("size", "wrong"), [(FEWEST, 1 + FEWEST), (FEWEST + 1, 1)])
def test_classes_that_would_be_left_out_without_one_item_stand_for_unknown_ones(
    size: int, wrong: int
) -> None:
    known, apart = classes([70, 30, size]), np.array([[0.9, 0.05, 0.05]])
    assert make_promise(known, 0.8, 0.9).wrong == 0, "no class is left out"
    found = make_promise(known, 0.8, 0.9, apart)
    assert (found.checked, found.wrong) == (101 + size, wrong)
    # the class itself is expected to be right as often as it was
    expected = expect(known, None, apart)
    assert expected is not None
    assert expected.precision.tolist() == [70 / 71, 1, 1]
    assert describe_promise(found, known, None, apart)["abstained"] == []


def test_new_items_of_unknown_classes_do_not_break_the_promise() -> None:
    """A hundred classes, of which 400 labeled items have too few of many: so have the new items."""
    rng, broken, made = np.random.default_rng(0), 0, 0
    for _ in range(60):
        y, new = rng.integers(0, 100, 400), rng.integers(0, 100, 400)
        counts = np.bincount(y, minlength=100)
        kept = counts >= FEWEST
        known = classes(counts[kept].tolist())
        # rows are right but for unknown classes, whose scores are as high as those of the others
        apart = np.full((int(counts[~kept].sum()), int(kept.sum())), 0.01)
        apart[:, 0] = rng.choice(known.scores.max(axis=1), len(apart)) if known.scores is not None else 0
        found = make_promise(known, 0.75, 0.9, apart)
        if found.threshold is not None:
            made += 1
            broken += bool(kept[new].mean() < 0.75)
    assert made > 5
    assert broken <= 0.1 * 60
