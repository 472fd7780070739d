"""What labels that changed since the last run gained, from the out-of-fold scores that each run stores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from embedding_core.registry import get_method
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Manifest, unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from tasks.label_care.gain import Gain, judge_common
from tasks.report.ranking import Entry, group_scores, rank_entries
from tasks.stages.evaluation import load_predictions, load_scores

if TYPE_CHECKING:
    from embedding_core.label_care.gains import Judgment

Refs = Mapping[str, ArtifactRef]
"""Artifacts of a run by stage label."""


@dataclass(frozen=True, eq=False)
class _RunView:
    """The items of a run, and the out-of-fold scores (n, K) and folds (n,) of one method; -1: not scored."""

    items: Manifest
    scores: NDArray[np.float64]
    folds: NDArray[np.intp]

    @property
    def labeled(self) -> NDArray[np.bool_]:
        """Items with labels."""
        return np.asarray((self.items.labels >= 0).all(axis=1))

    def judge(self, rows: Sequence[int], columns: Sequence[int]) -> "Judgment":
        """Decisions on some items and labels, as the table of scores judges them."""
        from embedding_core.knn_classifier import decide_labels
        from embedding_core.label_care.gains import Judgment

        chosen = np.ix_(rows, columns)
        decided = decide_labels(self.scores[rows], self.items.single_label)
        return Judgment(decided[:, columns], self.scores[chosen])


def compare_runs_by_labels(store: ArtifactStore, before: Refs, now: Refs, metric: str) -> Gain | None:
    """What other labels gained between two runs, by the best method that both scored.

    None if the labels are the same, no method was scored in both, or an artifact is no longer stored.
    """
    try:
        return _compare(store, before, now, metric)
    except StoreError:
        return None  # garbage collection has removed the earlier run


def _compare(store: ArtifactStore, before: Refs, now: Refs, metric: str) -> Gain | None:
    if not {"ingest"} <= before.keys() & now.keys() or before["ingest"].digest == now["ingest"].digest:
        return None
    shared = [label for label in now if label.startswith("evaluation[") and label in before]
    rows = [row for label in shared for row in load_scores(store, now[label])]
    if not rows:
        return None
    best = rank_entries(rows, metric)[0]
    label = f"evaluation[{best.method}]"
    classifier, _ = load_predictions(store, now[label])
    new, old = (_view(store, refs, label) for refs in (now, before))
    return _gain(
        old,
        new,
        metric,
        Entry(best.method, classifier, {}).title({best.method: get_method(best.method).title}),
        (_mean(store, before[label], classifier, metric), _mean(store, now[label], classifier, metric)),
    )


def _view(store: ArtifactStore, refs: Refs, label: str) -> _RunView:
    items = unpack_manifest(store.read(refs["ingest"]))
    _, found = load_predictions(store, refs[label])
    place = {name: row for row, name in enumerate(items.ids)}
    rows = [place[name] for name in found.ids]
    scores, folds = np.zeros((len(items.ids), found.scores.shape[1])), np.full(len(items.ids), -1)
    scores[rows], folds[rows] = found.scores, found.folds
    return _RunView(items, scores, folds)


def _mean(store: ArtifactStore, ref: ArtifactRef, classifier: str, metric: str) -> float:
    """The score of a method in its run."""
    entries = group_scores(load_scores(store, ref))
    found = next((one for one in entries if one.classifier == classifier), entries[0])
    return found.mean(metric) or 0.0


def _gain(old: _RunView, new: _RunView, metric: str, model: str, scores: tuple[float, float]) -> Gain | None:
    place = {name: row for row, name in enumerate(old.items.ids)}
    common = [(place[name], row) for row, name in enumerate(new.items.ids) if name in place]
    both = [(then, row) for then, row in common if old.labeled[then] and new.labeled[row]]
    names = [name for name in new.items.label_names if name in old.items.label_names]
    columns = [[view.items.label_names.index(name) for name in names] for view in (old, new)]

    def labels(view: _RunView, side: int, pairs: Sequence[tuple[int, int]]) -> NDArray[np.int8]:
        return view.items.labels[np.ix_([pair[side] for pair in pairs], columns[side])]

    relabeled = int((labels(old, 0, both) != labels(new, 1, both)).any(axis=1).sum())
    counts = [int(view.labeled.sum()) for view in (old, new)]
    if not relabeled and counts[0] == counts[1] == len(both):
        return None
    gain = Gain(counts[0], counts[1], relabeled, 0, 0.0, 0.0, *scores, metric=metric, model=model)
    judged = [pair for pair in both if old.folds[pair[0]] >= 0 and new.folds[pair[1]] >= 0]
    then, rows = [pair[0] for pair in judged], [pair[1] for pair in judged]
    return judge_common(
        gain,
        labels(new, 1, judged),
        old.judge(then, columns[0]),
        new.judge(rows, columns[1]),
        new.folds[rows],
    )
