"""Candidates of `labelscape auto`: out-of-fold scores of each, on the labeled items alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from embedding_core.model_selection.significance import TRIAL_FOLDS
from embedding_core.registry import get_method, method_modules
from embedding_core.registry.candidates import Candidate
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.predictions import Predictions, pack_predictions, unpack_predictions
from storage.artifacts.store import Artifact
from storage.errors import SourceError
from tasks.dataset import Dataset, load_dataset, load_graph
from tasks.fold_pool import FoldJob, FoldRunner
from tasks.settings import EvaluationSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.embedding import Data, method_settings, takes_graph

_CODE = ("embedding_core.evaluation", "embedding_core.model_selection.folds")


@dataclass(frozen=True)
class Contest:
    """What all candidates have in common: the folds, the data, and who does the work."""

    settings: EvaluationSettings
    data: Data
    workspace: Workspace
    run_folds: FoldRunner

    @property
    def dataset(self) -> Dataset:
        """Items, features and labels."""
        assert self.data.manifest and self.data.features
        return load_dataset(self.workspace.store, self.data.manifest, self.data.features)

    @property
    def tune_for(self) -> str:
        """What labels are decided for: the metric that orders the candidates, if thresholds can serve it."""
        from embedding_core.model_selection.threshold_tuning import target_of

        return target_of(self.settings.sort_by, self.dataset.single_label)


def check_labels(dataset: Dataset, n_folds: int) -> None:
    """Refuse labels that cannot be dealt to folds."""
    labeled = (dataset.Y >= 0).all(axis=1)
    count = int(labeled.sum())
    if count < n_folds:
        raise SourceError(
            f"{count} labeled items for {n_folds} folds; label more items, or ask for fewer folds with "
            "--set evaluation.folds=2."
        )
    carried = dataset.Y[labeled].sum(axis=0)
    alone = [name for name, items in zip(dataset.label_names, carried, strict=True) if items == 1]
    if alone:
        more = f" and {len(alone) - 1} more labels" if len(alone) > 1 else ""
        raise SourceError(
            f"label {alone[0]!r}{more}: only one labeled item carries it, so that it cannot be learnt and "
            "tested at once. Label a second one, or leave them out with --set source.min_label_count=2."
        )


def items_a_label(dataset: Dataset) -> float:
    """How many labeled items carry a label, on average over the labels that occur."""
    labeled = (dataset.Y >= 0).all(axis=1)
    carried = dataset.Y[labeled].sum(axis=0)
    return float(carried[carried > 0].mean())


def trial_stage(candidate: Candidate, contest: Contest) -> Stage:
    """Scores of a candidate on its first folds, from which it may be given up."""
    first = range(min(TRIAL_FOLDS, contest.settings.folds))
    return _stage("trial", candidate, contest, {}, lambda: _predict(candidate, contest, first))


def candidate_stage(candidate: Candidate, contest: Contest, trial: ArtifactRef | None) -> Stage:
    """Scores of a candidate on all folds, those of its trial included."""
    return _stage(
        "candidate", candidate, contest, {"trial": trial}, lambda: _complete(candidate, contest, trial)
    )


def mean_stage(candidate: Candidate, contest: Contest, members: Mapping[str, ArtifactRef | None]) -> Stage:
    """Scores of a candidate that is the mean of others, from theirs."""
    return Stage(
        name="candidate",
        variant=candidate.name,
        code=("embedding_core.classifiers.composed",),
        params={},
        inputs={name: digest_of(ref) for name, ref in members.items()},
        produce=lambda: _average(contest, members),
    )


def load_predictions(contest: Contest, ref: ArtifactRef) -> Predictions:
    """Out-of-fold scores of one candidate."""
    return unpack_predictions(contest.workspace.store.read(ref))


def _stage(
    name: str,
    candidate: Candidate,
    contest: Contest,
    before: Mapping[str, ArtifactRef | None],
    produce: Callable[[], Artifact],
) -> Stage:
    params, data = candidate.params, contest.data
    return Stage(
        name=name,
        variant=candidate.name,
        code=(*method_modules(candidate.method, params), *_CODE),
        params={
            "method": method_settings(candidate.method, params),
            "scale": get_method(candidate.method).input_scale(data.scale),
            **contest.settings.model_dump(mode="json", include={"folds", "seed"}),
            "trial_folds": TRIAL_FOLDS,
        },
        inputs={
            **data.inputs(takes_graph(candidate.method, params, data), contest.workspace.store),
            **{part: digest_of(ref) for part, ref in before.items()},
        },
        produce=produce,
    )


def _predict(candidate: Candidate, contest: Contest, folds: Sequence[int]) -> Artifact:
    return pack_predictions(_score_folds(candidate, contest, folds))


def _complete(candidate: Candidate, contest: Contest, trial: ArtifactRef | None) -> Artifact:
    assert trial
    known = load_predictions(contest, trial)
    rest = [fold for fold in range(contest.settings.folds) if fold not in known.folds]
    if not rest:
        return pack_predictions(known)
    added = _score_folds(candidate, contest, rest)
    return pack_predictions(
        Predictions(
            known.ids + added.ids,
            np.concatenate([known.folds, added.folds]),
            np.concatenate([known.scores, added.scores]),
        )
    )


def _score_folds(candidate: Candidate, contest: Contest, folds: Sequence[int]) -> Predictions:
    from embedding_core.model_selection.folds import stratified_folds

    data, settings, workspace = contest.data, contest.settings, contest.workspace
    assert data.manifest and data.features
    graph = data.affinity if takes_graph(candidate.method, candidate.params, data) else None
    if graph:
        load_graph(
            workspace.store, graph
        )  # what another machine computed comes here, where the processes look
    jobs = [
        FoldJob(
            workspace.store.root,
            data.manifest,
            data.features,
            graph,
            candidate.method,
            candidate.params,
            data.scale,
            settings.folds,
            settings.seed,
            fold,
        )
        for fold in folds
    ]
    with workspace.reporter.progress(candidate.label, len(jobs)) as advance:
        answers = contest.run_folds(jobs, advance)
    for text in dict.fromkeys(text for answer in answers for text in answer.warnings):
        workspace.reporter.say_once(f"  warning: {text}")
    dataset = contest.dataset
    dealt = stratified_folds(dataset.Y, settings.folds, settings.seed)
    tests = [dealt[fold][1] for fold in folds]
    return Predictions(
        [dataset.ids[row] for test in tests for row in test],
        np.repeat(np.asarray(folds, dtype=np.int32), [len(test) for test in tests]),
        np.concatenate([answer.scores for answer in answers]),
    )


def _average(contest: Contest, members: Mapping[str, ArtifactRef | None]) -> Artifact:
    from embedding_core.classifiers.composed import mean_of_scores

    found = [load_predictions(contest, ref) for ref in members.values() if ref]
    first = found[0]
    return pack_predictions(
        Predictions(first.ids, first.folds, mean_of_scores([one.scores for one in found]))
    )
