"""Stages that score the candidates of `labelscape auto`: out-of-fold scores of the labeled items."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from embedding_core.model_selection.significance import TRIAL_FOLDS
from embedding_core.registry import get_method, method_modules
from embedding_core.registry.candidates import Candidate
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.predictions import Predictions, pack_predictions, unpack_predictions
from storage.errors import SourceError
from tasks.budget import Budget
from tasks.dataset import Dataset, load_dataset
from tasks.executor import StoreHandle
from tasks.folds import FoldJob, map_folds, score_fold, split_rows
from tasks.selection.rare_labels import NO_RARE_LABELS, RareLabels
from tasks.settings import AffinitySettings, EvaluationSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.affinity import graph_params
from tasks.stages.embedding import Data, method_settings, takes_graph

_CODE = ("embedding_core.evaluation", "embedding_core.model_selection.folds")
# Builds the graph of a fold that does not see its test rows.
_GRAPH_CODE = ("embedding_core.graph.affinity", "embedding_core.preprocessing")


@dataclass(frozen=True)
class SelectionContext:
    """What all candidates share.

    Attributes
    ----------
    settings : EvaluationSettings
        Folds, their seed, and the metric that decides.
    data : Data
    workspace : Workspace
    budget : Budget
    graph : AffinitySettings
        How the graph is built from features.
    closed : bool
        Whether the items to annotate are those of the collection: fits may see the features of the test rows.
    rare : RareLabels
        Labels that are not part of the scores.
    """

    settings: EvaluationSettings
    data: Data
    workspace: Workspace
    budget: Budget
    graph: AffinitySettings = field(default_factory=AffinitySettings)
    closed: bool = False
    rare: RareLabels = NO_RARE_LABELS

    @property
    def dataset(self) -> Dataset:
        """Items, features and labels."""
        assert self.data.manifest and self.data.features
        return load_dataset(self.workspace.store, self.data.manifest, self.data.features)

    @property
    def tune_for(self) -> str:
        """Metric that thresholds are tuned for: the one that ranks candidates, if thresholds affect it."""
        from embedding_core.model_selection.threshold_tuning import target_of

        return target_of(self.settings.sort_by, self.dataset.single_label)


def check_labels(dataset: Dataset, n_folds: int) -> None:
    """Raise SourceError if the labels cannot be split into folds."""
    labeled = (dataset.Y >= 0).all(axis=1)
    count = int(labeled.sum())
    if count < n_folds:
        raise SourceError(
            f"{count} labeled items for {n_folds} folds; label more items, or ask for fewer folds with "
            "--set evaluation.folds=2."
        )


def items_per_label(dataset: Dataset) -> float:
    """Mean number of labeled items per label, over the labels that occur."""
    labeled = (dataset.Y >= 0).all(axis=1)
    carried = dataset.Y[labeled].sum(axis=0)
    return float(carried[carried > 0].mean())


def trial_stage(candidate: Candidate, context: SelectionContext) -> Stage:
    """Scores of a candidate on its first folds, after which it may be stopped."""
    first = range(min(TRIAL_FOLDS, context.settings.folds))
    return _stage("trial", candidate, context, {}, lambda: _predict(candidate, context, first))


def candidate_stage(candidate: Candidate, context: SelectionContext, trial: ArtifactRef | None) -> Stage:
    """Scores of a candidate on all folds, including those of its trial."""
    return _stage(
        "candidate", candidate, context, {"trial": trial}, lambda: _complete(candidate, context, trial)
    )


def mean_stage(
    candidate: Candidate, context: SelectionContext, members: Mapping[str, ArtifactRef | None]
) -> Stage:
    """Scores of a candidate that averages the scores of others."""
    return Stage(
        name="candidate",
        variant=candidate.name,
        code=("embedding_core.classifiers.composed",),
        params={},
        inputs={name: digest_of(ref) for name, ref in members.items()},
        produce=lambda: _average(context, members),
    )


def uses_graph(candidate: Candidate, data: Data) -> bool:
    """Whether the graph changes the scores; in an open collection it is built again for each fold."""
    return takes_graph(candidate.method, candidate.params, data)


def load_predictions(context: SelectionContext, ref: ArtifactRef) -> Predictions:
    """Out-of-fold scores of one candidate."""
    return unpack_predictions(context.workspace.store.read(ref))


def _stage(
    name: str,
    candidate: Candidate,
    context: SelectionContext,
    before: Mapping[str, ArtifactRef | None],
    produce: Callable[[], Artifact],
) -> Stage:
    params, data = candidate.params, context.data
    unseen = _unseen_rows(candidate, context)
    return Stage(
        name=name,
        variant=candidate.name,
        code=(*method_modules(candidate.method, params), *_CODE, *(_GRAPH_CODE if "graph" in unseen else ())),
        params={
            "method": method_settings(candidate.method, params),
            "scale": get_method(candidate.method).input_scale(data.scale),
            **context.settings.model_dump(mode="json", include={"folds", "seed"}),
            "trial_folds": TRIAL_FOLDS,
            **unseen,
        },
        inputs={
            **data.inputs(uses_graph(candidate, data), context.workspace.store),
            **{part: digest_of(ref) for part, ref in before.items()},
        },
        produce=produce,
    )


def _unseen_rows(candidate: Candidate, context: SelectionContext) -> dict[str, Any]:
    """Settings of fits that do not see the test rows; empty for methods that never see unlabeled rows."""
    method, data = get_method(candidate.method), context.data
    if context.closed or not method.sees_all_rows:
        return {}
    if data.edges_given or not uses_graph(candidate, data):
        return {"closed": False}
    kind = "gaussian" if context.graph.graph == "gaussian" else "knn"
    return {"closed": False, "graph": graph_params(context.graph, kind, data.scale)}


def _predict(candidate: Candidate, context: SelectionContext, folds: Sequence[int]) -> Artifact:
    return pack_predictions(_score_folds(candidate, context, folds))


def _complete(candidate: Candidate, context: SelectionContext, trial: ArtifactRef | None) -> Artifact:
    assert trial
    known = load_predictions(context, trial)
    rest = [fold for fold in range(context.settings.folds) if fold not in known.folds]
    if not rest:
        return pack_predictions(known)
    added = _score_folds(candidate, context, rest)
    return pack_predictions(
        Predictions(
            known.ids + added.ids,
            np.concatenate([known.folds, added.folds]),
            np.concatenate([known.scores, added.scores]),
        )
    )


def _score_folds(candidate: Candidate, context: SelectionContext, folds: Sequence[int]) -> Predictions:
    data, settings, workspace = context.data, context.settings, context.workspace
    assert data.manifest and data.features
    store, method, params = workspace.store, candidate.method, candidate.params
    jobs = [
        FoldJob(
            store=StoreHandle(store),
            manifest=data.manifest,
            features=data.features,
            affinity=data.affinity if uses_graph(candidate, data) else None,
            method=method,
            params=params,
            scale=data.scale,
            n_folds=settings.folds,
            seed=settings.seed,
            fold=fold,
            closed=context.closed,
            graph=None if data.edges_given else context.graph,
        )
        for fold in folds
    ]
    found = map_folds(score_fold, jobs, candidate.label, workspace, "processes", context.budget)
    ids = context.dataset.ids
    rows = split_rows(store, data.manifest, data.features, settings.folds, settings.seed)
    tests = [rows[fold][1] for fold in folds]
    return Predictions(
        [ids[row] for test in tests for row in test],
        np.repeat(np.asarray(folds, dtype=np.int32), [len(test) for test in tests]),
        np.concatenate(found),
    )


def _average(context: SelectionContext, members: Mapping[str, ArtifactRef | None]) -> Artifact:
    from embedding_core.classifiers.composed import mean_of_scores

    found = [load_predictions(context, ref) for ref in members.values() if ref]
    first = found[0]
    return pack_predictions(
        Predictions(first.ids, first.folds, mean_of_scores([one.scores for one in found]))
    )
