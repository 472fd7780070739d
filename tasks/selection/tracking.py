"""Track a choice in MLflow: one parent run, one child run per candidate, the winner in the model registry."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from embedding_core.registry.candidates import Candidate
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import TRACKING
from storage.artifacts.store import ArtifactStore
from storage.tracking.client import MethodRecord, RunRecord, TrackedRun, Tracker
from storage.tracking.registry import CHALLENGER, CHAMPION, ModelRegistry, Version, model_name
from tasks.report.ranking import format_score, group_scores
from tasks.selection.choice import CandidateResult, Champion, Choice, TitleDecision, describe
from tasks.selection.out_of_fold import THRESHOLDS
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.embedding import Data, load_model_payload
from tasks.stages.tracking import (
    BASELINE_TAG,
    DIGEST_TAG,
    SCORES_TAG,
    SETTINGS_TAG,
    Facts,
    as_json,
    entry_metrics,
    is_tracked,
    lineage_tags,
    make_tracker,
    pack_tracked,
)

RECIPE_TAG, STATE_TAG, TUNE_TAG = "labelscape.recipe", "labelscape.state", "labelscape.tune_for"
FEATURES_TAG, METRIC_TAG, FOLDS_TAG = "labelscape.features", "labelscape.metric", "labelscape.fold_scores"
# A model is outdated if one of these inputs has changed.
_DATA = ("labels", "features")


@dataclass(frozen=True)
class RegisteredTitles:
    """Versions with a title after a choice, and whether the registry changed; `name` is that of the model."""

    name: str
    champion: Version | None
    challenger: Version | None
    changed: bool


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
        produce=lambda: _track(tracker, facts, data, choice, inputs, models, workspace.store),
        holds=lambda ref: is_tracked(tracker, workspace.store, ref),
    )


def _track(
    tracker: Tracker,
    facts: Facts,
    data: Data,
    choice: Choice,
    results: Mapping[str, ArtifactRef | None],
    models: Mapping[str, ArtifactRef | None],
    store: ArtifactStore,
) -> Artifact:
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES

    measured = [one for one in choice.results if one.rows]
    digests = {f"{DIGEST_TAG}{name}": digest for name, digest in data_digests(data, store).items()}
    made_of = [data.manifest, data.features, data.affinity]
    made_of += [ref for one in choice.results for ref in (one.ref, one.trial)]
    known = {label: ref for label, ref in results.items() if ref}
    lineage = lineage_tags(known, store, filter(None, made_of))
    record = RunRecord(
        experiment=facts.experiment,
        name=facts.name,
        params=facts.config,
        tags={**facts.tags, SETTINGS_TAG: facts.settings, **lineage, **digests},
        methods=[_method_record(one, choice.tune_for, models.get(one.name), store) for one in measured],
        files={"config.json": as_json(facts.config), "choice.json": as_json(describe(choice))},
        fold_rows=[row for one in measured for row in one.rows],
        primary=choice.winner.name,
    )
    return pack_tracked(tracker.log(record, trusted=SKOPS_TRUSTED_TYPES))


def _method_record(
    one: CandidateResult, tune_for: str, model: ArtifactRef | None, store: ArtifactStore
) -> MethodRecord:
    (entry,) = group_scores(one.rows)
    means, spreads = entry_metrics(entry, "")
    # `compare` must distinguish the same scores with thresholds tuned for different metrics.
    scores = one.ref and (f"{one.ref.digest}:{tune_for}" if tune_for in THRESHOLDS else one.ref.digest)
    return MethodRecord(
        name=one.name,
        title=_title(one, tune_for),
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
    )


def _title(one: CandidateResult, tune_for: str) -> str:
    """Title of a tracked candidate; it says how thresholds differ from those of `run`, which are 0.5."""
    stopped = "" if one.state == "scored" else "stopped early"
    notes = ", ".join(note for note in (THRESHOLDS.get(tune_for, ""), stopped) if note)
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
        return RegisteredTitles(name, winner, None, winner != before[CHAMPION])
    refitted = [one for one in choice.scored if one.name in models and one is not choice.winner]
    champion = register(refitted[0], CHAMPION) if refitted else before[CHAMPION]
    return RegisteredTitles(
        name, champion, winner, (champion, winner) != (before[CHAMPION], before[CHALLENGER])
    )


def version_tags(
    one: CandidateResult, choice: Choice, digests: Mapping[str, str], features: str = ""
) -> dict[str, str]:
    """Tags of a registered version: its recipe, the data it was fitted on, and its score."""
    (entry,) = group_scores(one.rows)
    return {
        RECIPE_TAG: json.dumps(_recipe(one.candidate), sort_keys=True),
        TUNE_TAG: choice.tune_for,
        FEATURES_TAG: features,
        METRIC_TAG: choice.metric,
        FOLDS_TAG: json.dumps([round(value, 6) for value in one.values(choice.metric)]),
        "labelscape.score": format_score(entry.mean(choice.metric), entry.spread(choice.metric)),
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
