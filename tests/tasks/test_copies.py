"""Labeled items with the same features as an item of another fold."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from embedding_core.registry.candidates import pick_candidates
from storage.artifacts.predictions import Predictions
from tasks.dataset import Dataset
from tasks.selection.choice import CandidateResult, Choice
from tasks.selection.copies import Copies, find_copies
from tasks.selection.wording import copies_lines

FOLDS = np.array([0, 0, 1, 1, 0, 1])
# Items 0 and 2 are copies in two folds, 1 and 4 are copies in one fold.
X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, -0.0], [3.0, 3.0], [0.0, 2.0], [4.0, 0.0]])
Y = np.array([[1, 0], [0, 1], [1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.int8)
# Only the copies are scored rightly, except items 1 and 4.
SCORES = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1], [0.3, 0.7], [0.2, 0.8], [0.6, 0.4]])


def given(X: Any) -> tuple[Predictions, Dataset]:
    """Six labeled items in two folds, scored in another order than they are stored, and an unlabeled copy."""
    ids = [f"i{row}" for row in range(len(Y))]
    order = [3, 1, 0, 2, 5, 4]
    labels = np.vstack([Y, np.full((1, 2), -1, dtype=np.int8)])
    whole = np.vstack([X if isinstance(X, np.ndarray) else X.toarray(), [3.0, 3.0]])
    stored = whole if isinstance(X, np.ndarray) else csr_array(whole)
    found = Predictions([ids[row] for row in order], FOLDS[order], SCORES[order])
    return found, Dataset([*ids, "unlabeled"], stored, labels, ["a", "b"], False, {}, {})


@pytest.mark.parametrize("items", [X, csr_array(X)], ids=["dense", "sparse"])
def test_only_copies_in_another_fold_count(items: object) -> None:
    found = find_copies(*given(items), "micro_f1", "hamming")
    # of the others fold 0 is all right (items 1 and 4), fold 1 all wrong (items 3 and 5)
    assert found == Copies(labeled=6, items=2, score=0.5)


def test_no_copies() -> None:
    assert find_copies(*given(X + np.arange(6)[:, None]), "micro_f1", "hamming") is None


def test_only_copies() -> None:
    found, data = given(X)
    same = replace(data, X=np.ones((7, 2)))
    assert find_copies(found, same, "micro_f1", "hamming") == Copies(6, 6, None)


@pytest.mark.parametrize(
    ("copies", "says"),
    [
        (None, ""),
        (Copies(1000, 19, 0.5), ""),
        (Copies(1000, 20, 0.5), "without them the winner has 0.500 in macro F1: expect that"),
        (Copies(1000, 1000, None), "these are all items, so the scores say nothing about items that are new"),
    ],
)
def test_many_copies_are_mentioned(copies: Copies | None, says: str) -> None:
    winner = CandidateResult(pick_candidates(False)[0], "scored")
    lines = copies_lines(Choice("macro_f1", winner, None, None, (winner,), copies=copies))
    assert bool(lines) is bool(says)
    assert says in " ".join(lines)
    if lines:
        assert lines[0].startswith("copies      ") and "of 1,000 labeled items" in lines[0]
