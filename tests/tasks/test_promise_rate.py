"""How often the promise of `annotate --precision` is broken on splits of real sets; see RESULTS.md."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from storage.artifacts.labeled_items import LabeledItems
from tasks.annotation.findings import decide, make_promise
from tests.annotation_splits import Scores, Split, draw_splits, kernel_dle_scores, ridge_scores

SETS = ("emotions", "scene", "yeast")
SIZES = (200, 400)
DRAWS: dict[str, tuple[Scores, int]] = {"ridge": (ridge_scores, 30), "Kernel DLE": (kernel_dle_scores, 10)}
TARGETS = (0.9, 0.8)
DELTA = 0.1


@dataclass(frozen=True)
class Attempt:
    """One promise on a split: whether labels were written, and how many of them were right."""

    model: str
    target: float
    promised: bool
    written: int
    right: int
    carried: int

    @property
    def broken(self) -> bool:
        return self.promised and self.right < self.target * self.written


def labeled_items(split: Split) -> LabeledItems:
    n = len(split.Y)
    return LabeledItems(
        ids=[str(row) for row in range(n)],
        label_names=[str(label) for label in range(split.Y.shape[1])],
        labels=split.Y,
        positions=np.arange(n),
        total=n,
        single_label=False,
        folds=split.folds,
        scores=split.scores,
        tune_for="macro_f1",
        rows=np.arange(0),
        X=np.empty((0, 1), np.float32),
    )


def attempts(folder: Path) -> Iterator[Attempt]:
    """Promise and decide as `annotate` does, and compare with the labels of rows that no model has seen."""
    annotator: Any = SimpleNamespace(single_label=False)
    for model, (scores, draws) in DRAWS.items():
        for split in draw_splits(folder, list(SETS), SIZES, draws, scores):
            for target in TARGETS:
                promise = make_promise(labeled_items(split), target, 1 - DELTA)
                decided = decide(annotator, split.test_scores, promise).labels
                right = int((decided & split.Y_test).sum())
                promised = promise.threshold is not None
                yield Attempt(model, target, promised, int(decided.sum()), right, int(split.Y_test.sum()))


@pytest.mark.slow
def test_the_promise_is_broken_at_most_at_its_rate(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At most δ of the attempts of each model and target, and three standard errors of their number."""
    found = list(attempts(shared_data))
    for model in DRAWS:
        for target in TARGETS:
            own = [one for one in found if (one.model, one.target) == (model, target)]
            promised = [one for one in own if one.promised]
            broken = sum(one.broken for one in own)
            written = [one for one in promised if one.written]
            precision = np.mean([one.right / one.written for one in written]) if written else np.nan
            recall = np.mean([one.right / one.carried for one in own])
            with capsys.disabled():
                print(  # noqa: T201
                    f"\n{model}, {target}: {len(own)} attempts, {len(promised)} promises, {broken} broken, "
                    f"precision {precision:.3f}, recall {recall:.3f}"
                )
            assert broken / len(own) <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / len(own))
    assert sum(one.promised for one in found) >= 30
