"""Track a choice in MLflow: one parent run, one child run per candidate, the winner in the model registry."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from embedding_core.registry.candidates import Candidate
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import TRACKING
from storage.artifacts.store import ArtifactStore
from storage.tracking.client import MethodRecord, RunRecord, TrackedRun, Tracker
from storage.tracking.registry import CHALLENGER, CHAMPION, ModelRegistry, Version, model_name
from tasks.annotation.labeled import pack_labeled_items
from tasks.report.ranking import format_score, group_scores
from tasks.selection.choice import CandidateResult, Champion, Choice, TitleDecision, describe
from tasks.selection.out_of_fold import THRESHOLDS
from tasks.selection.page import SelectionStory, find_thresholds, render_selection
from tasks.selection.tags import (
    FEATURES_TAG,
    FOLDS_TAG,
    LEFT_OUT_TAG,
    METRIC_TAG,
    RECIPE_TAG,
    SCORE_TAG,
    STATE_TAG,
    TUNE_TAG,
)
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.embedding import Data, load_model_payload
from tasks.stages.tracking import (
    BASELINE_TAG,
    DIGEST_TAG,
    SCORES_TAG,
    Facts,
    as_json,
    complete_record,
    entry_metrics,
    is_tracked,
    lineage_tags,
    log_record,
    make_tracker,
)

# A model is outdated if one of these inputs has changed.
_DATA = ("labels", "features")


@dataclass(frozen=True)
class RegisteredTitles:
    """Versions with a title after a choice, and whether the registry changed; `name` is that of the model.

    `history` are all registered models of the collection, newest first.
    """

    name: str
    champion: Version | None
    challenger: Version | None
    changed: bool
    history: Sequence[Version] = ()


def load_champion(tracker: Tracker, experiment: str) -> Champion | None:
    """The present champion of a collection, or None."""
    found = ModelRegistry(tracker).find(model_name(experiment), CHAMPION)
    if found is None:
        return None
    recipe = json.loads(found.tags.get(RECIPE_TAG, "{}"))
    digests = {name: found.tags.get(DIGEST_TAG + name, "") for name in (*_DATA, "model")}
    return Champion(
        _candidate(recipe),
        digests,
        found.version,
        found.run_id,
        found.tags.get(TUNE_TAG, "hamming"),
        found.tags.get(FEATURES_TAG, ""),
        found.tags.get(METRIC_TAG, ""),
        tuple(json.loads(found.tags.get(FOLDS_TAG, "[]"))),
    )


def data_digests(data: Data, store: ArtifactStore) -> dict[str, str]:
    """Digests of the labels and features that candidates are fitted on."""
    return {name: str(digest) for name, digest in data.inputs(False, store).items()}


def is_outdated(champion: Champion, digests: Mapping[str, str], tune_for: str) -> bool:
    """Whether the champion was fitted on other data, or tuned for another metric."""
    other_data = any(champion.digests.get(name) != digest for name, digest in digests.items())
    return other_data or champion.tune_for != tune_for


def stage(
    facts: Facts,
    uri: str | None,
    data: Data,
    choice: Choice,
    verdict: TitleDecision,
    record: ArtifactRef | None,
    models: Mapping[str, ArtifactRef | None],
    workspace: Workspace,
) -> Stage:
    """Stage that tracks a choice; the same choice with the same models is tracked once."""
    tracker = make_tracker(uri, workspace.home, workspace.reporter.warn)
    inputs = {"choice": record, **{f"model[{name}]": ref for name, ref in models.items()}}
    return Stage(
        name=TRACKING,
        variant="auto",
        code=(),
        params={"uri": tracker.uri, "experiment": facts.experiment, "config": facts.config},
        inputs={name: digest_of(ref) for name, ref in inputs.items()},
        produce=lambda: _track(tracker, facts, data, choice, verdict, inputs, models, workspace.store),
        holds=lambda ref: is_tracked(tracker, workspace.store, ref),
    )


def _track(
    tracker: Tracker,
    facts: Facts,
    data: Data,
    choice: Choice,
    verdict: TitleDecision,
    results: Mapping[str, ArtifactRef | None],
    models: Mapping[str, ArtifactRef | None],
    store: ArtifactStore,
) -> Artifact:
    measured = [one for one in choice.results if one.rows or one is choice.winner]
    digests = {f"{DIGEST_TAG}{name}": digest for name, digest in data_digests(data, store).items()}
    made_of = [data.manifest, data.features, data.affinity]
    made_of += [ref for one in choice.results for ref in (one.ref, one.trial)]
    known = {label: ref for label, ref in results.items() if ref}
    lineage = lineage_tags(known, store, filter(None, made_of))
    thresholds = find_thresholds(models.get(choice.winner.name), store)
    story = SelectionStory(
        facts.name, choice, verdict, thresholds, ModelRegistry(tracker).history(model_name(facts.experiment))
    )
    record = RunRecord(
        experiment=facts.experiment,
        name=facts.name,
        tags={**lineage, **digests},
        methods=[_method_record(one, facts, choice, models.get(one.name), data, store) for one in measured],
        files={
            "config.json": as_json(facts.config),
            "choice.json": as_json(describe(choice)),
            "report/index.html": render_selection(story),
        },
        fold_rows=[row for one in measured for row in one.rows],
        primary=choice.winner.name,
        leader=choice.winner.name,
    )
    assert data.manifest
    record = complete_record(record, facts, data.manifest, store)
    return log_record(tracker, record, store)


def _method_record(
    one: CandidateResult,
    facts: Facts,
    choice: Choice,
    model: ArtifactRef | None,
    data: Data,
    store: ArtifactStore,
) -> MethodRecord:
    tune_for = choice.tune_for
    title = _title(one, tune_for, len(choice.rare.left_out))
    means, spreads = entry_metrics(group_scores(one.rows)[0], "") if one.rows else ({}, {})
    # `compare` must distinguish the same scores with thresholds tuned for different metrics.
    scores = one.ref and (f"{one.ref.digest}:{tune_for}" if tune_for in THRESHOLDS else one.ref.digest)
    return MethodRecord(
        name=one.name,
        title=title,
        label=facts.label(title),
        params={**one.candidate.recipe(), "tune_for": tune_for},
        metrics=means,
        metrics_std=spreads,
        classifier=one.name,
        tags={
            BASELINE_TAG: str(one.candidate.plain).lower(),
            STATE_TAG: one.state,
            **({SCORES_TAG: scores} if scores else {}),
            **({f"{DIGEST_TAG}model": model.digest} if model else {}),
        },
        model=load_model_payload(model, store) if model else None,
        labeled_items=pack_labeled_items(
            data, one.ref, tune_for, facts.config.get("source", {}), store, choice.rare.apart
        )
        if model
        else None,
    )


def _title(one: CandidateResult, tune_for: str, left_out: int) -> str:
    """Title of a tracked candidate, which `annotate` shows.

    It says how thresholds differ from those of `run`, which are 0.5, and how many labels are not predicted.
    """
    rare = f"without {left_out} rare label{'s' * (left_out > 1)}" if left_out else ""
    stopped = {"scored": "", "stopped": "stopped early"}.get(one.state, "not scored")
    tuned = THRESHOLDS.get(tune_for, "") if one.rows else ""
    notes = ", ".join(note for note in (tuned, stopped, rare) if note)
    return f"{one.candidate.label} ({notes})" if notes else one.candidate.label


def register_titles(
    tracker: Tracker,
    experiment: str,
    choice: Choice,
    verdict: TitleDecision,
    tracked: TrackedRun,
    models: Mapping[str, ArtifactRef],
    digests: Mapping[str, str],
    features: str = "",
) -> RegisteredTitles:
    """Register the fitted models under their titles, unless they are registered already.

    `models` contains the model of the winner, and that of the present champion if it keeps the title but had
    to be refitted. `features` names the features of all of them.
    """
    registry, name = ModelRegistry(tracker), model_name(experiment)
    before = {alias: registry.find(name, alias) for alias in (CHAMPION, CHALLENGER)}

    def register(one: CandidateResult, alias: str) -> Version:
        known, model = before[alias], models[one.name]
        if known is not None and known.tags.get(f"{DIGEST_TAG}model") == model.digest:
            return known
        tags = version_tags(one, choice, {**digests, "model": model.digest}, features)
        return registry.register(name, tracked.children[one.name], alias, tags)

    winner = register(choice.winner, verdict.title)
    if verdict.title == CHAMPION:
        registry.withdraw(name, CHALLENGER)
        return RegisteredTitles(name, winner, None, winner != before[CHAMPION], registry.history(name))
    refitted = [one for one in choice.scored if one.name in models and one is not choice.winner]
    champion = register(refitted[0], CHAMPION) if refitted else before[CHAMPION]
    return RegisteredTitles(
        name,
        champion,
        winner,
        (champion, winner) != (before[CHAMPION], before[CHALLENGER]),
        registry.history(name),
    )


def version_tags(
    one: CandidateResult, choice: Choice, digests: Mapping[str, str], features: str = ""
) -> dict[str, str]:
    """Tags of a registered version: its recipe, the data it was fitted on, and its score."""
    entries = group_scores(one.rows)
    score = format_score(entries[0].mean(choice.metric), entries[0].spread(choice.metric)) if entries else "–"
    return {
        RECIPE_TAG: json.dumps(_recipe(one.candidate), sort_keys=True),
        TUNE_TAG: choice.tune_for,
        FEATURES_TAG: features,
        METRIC_TAG: choice.metric,
        FOLDS_TAG: json.dumps([round(value, 6) for value in one.values(choice.metric)]),
        SCORE_TAG: score,
        LEFT_OUT_TAG: json.dumps(choice.rare.left_out, ensure_ascii=False),
        BASELINE_TAG: str(one.candidate.plain).lower(),
        **{f"{DIGEST_TAG}{name}": digest for name, digest in digests.items()},
    }


def _candidate(recipe: Mapping[str, Any]) -> Candidate:
    """Candidate of a stored recipe; without a method if there is no recipe."""
    return Candidate(
        name=recipe.get("name", "another model"),
        method=recipe.get("method", ""),
        params=recipe.get("params", {}),
        title=recipe.get("title", ""),
        members=tuple(recipe.get("members", ())),
        most_items=recipe.get("most_items"),
    )


def _recipe(candidate: Candidate) -> dict[str, Any]:
    known = asdict(candidate)
    return {**known, **candidate.recipe()}
