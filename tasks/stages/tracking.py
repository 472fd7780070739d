"""Tracking: log a run to MLflow as one parent run with one child per method; its record is an artifact."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from embedding_core.registry import get_method
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef, stage_label
from storage.artifacts.run_log import TRACKING
from storage.artifacts.schemas import Score, pack_files, unpack_files, unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import TrackerDamaged
from storage.servers import find_login
from storage.tracking.client import (
    DatasetRecord,
    ExperimentInfo,
    MethodRecord,
    RunRecord,
    TrackedRun,
    Tracker,
    default_artifact_root,
    default_uri,
)
from storage.tracking.logins import remember_token
from storage.urls import redact
from tasks.annotation.labeled import pack_labeled_items
from tasks.changes import describe_counts
from tasks.maintenance.lineage import LineageGraph, flatten_lineage
from tasks.report.ranking import LOWER_IS_BETTER, Entry, format_score, metric_title, rank_entries
from tasks.settings import TrackingSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.embedding import Data, load_model_payload
from tasks.stages.evaluation import load_scores
from tasks.stages.report import Circumstances, compose_report

_RECORD = "tracked.json"
# The MLflow experiment of the papers' reproductions; it has no models.
PAPERS = "reproduce"
DIGEST_TAG = "labelscape.digest."
"""Followed by the name of an artifact or input."""
SCORES_TAG = f"{DIGEST_TAG}scores"
SETTINGS_TAG = "labelscape.settings"
BASELINE_TAG = "labelscape.baseline"
CHANGES_TAG = "labelscape.changes"
# Name and address of the flow run in Prefect.
FLOW_RUN_NAME, FLOW_RUN_URL = "prefect.flow_run_name", "prefect.flow_run_url"
# Metrics in the saved view of a new experiment, besides the one that ranks.
_SHOWN_METRICS = ("macro_f1", "micro_f1", "lrap", "hamming_loss")


FindChanges = Callable[[], Mapping[str, Any] | None]
"""Finds the changes of the items since the last run, see `tasks.changes`."""


@dataclass(frozen=True)
class Facts:
    """What is logged of a run besides its artifacts.

    Attributes
    ----------
    name, experiment : str
    config : mapping
        Every setting that may change results.
    method_params : mapping
        Parameters by method.
    settings : str
        The changed settings, for tables.
    tags : mapping
    place : str
        Where the source is, without credentials.
    owned : bool
        Whether the experiment belongs to the source; False if the user named it.
    differences : tuple of str
        The changed settings in short, for names.
    find_changes : callable
        Called only if the run is tracked.
    """

    name: str
    experiment: str
    config: Mapping[str, Any]
    method_params: Mapping[str, Mapping[str, Any]]
    settings: str
    tags: Mapping[str, str]
    place: str = ""
    owned: bool = False
    differences: tuple[str, ...] = ()
    find_changes: FindChanges = lambda: None

    def label(self, title: str) -> str:
        """Name of a method's run: its title and the changed settings."""
        return " · ".join([title, *self.differences])


def make_tracker(uri: str | None, home: Path, warn: Callable[[str], None] | None = None) -> Tracker:
    """Return the tracker at an address; default: the database in the home folder.

    The server of this home gets its login. With `warn`, the tracker sets a damaged database aside and reports
    that.
    """
    if not uri:
        return Tracker(default_uri(home), default_artifact_root(home), warn=warn)
    if token := find_login(home, uri):
        remember_token(uri, token)
    return Tracker(uri, None, home, warn)


def is_tracked(tracker: Tracker, store: ArtifactStore, ref: ArtifactRef) -> bool:
    """Return whether the tracker has the run of a record; a damaged database, to be set aside, has none."""
    try:
        return tracker.exists(load_tracked(store, ref).parent_id)
    except TrackerDamaged:
        return False


def stage(
    settings: TrackingSettings,
    facts: Facts,
    data: Data,
    embeddings: Mapping[str, ArtifactRef | None],
    models: Mapping[str, ArtifactRef | None],
    scores: Mapping[str, ArtifactRef | None],
    report: ArtifactRef | None,
    workspace: Workspace,
    correlation: ArtifactRef | None = None,
    maps: Mapping[str, ArtifactRef | None] | None = None,
) -> Stage:
    """Build the stage that tracks a run; the same results are not tracked twice.

    `correlation` is used only for the lineage in the report. `maps` are the artifacts of the map by variant.
    """
    tracker = make_tracker(settings.uri, workspace.home, workspace.reporter.warn)
    refs = {"manifest": data.manifest, "features": data.features, "report": report}
    if data.affinity is not None:  # None also if no method uses a graph
        refs["affinity"] = data.affinity
    refs |= {f"embedding[{name}]": ref for name, ref in embeddings.items()}
    refs |= {f"model[{name}]": ref for name, ref in models.items()}
    refs |= {f"evaluation[{name}]": ref for name, ref in scores.items()}
    refs |= {stage_label("map", variant): ref for variant, ref in (maps or {}).items()}
    return Stage(
        name=TRACKING,
        # The stage logs results of other stages; a change in how they are sent does not make it stale.
        code=(),
        params={
            "uri": tracker.uri,
            "experiment": facts.experiment,
            "config": facts.config,
        },
        inputs={name: digest_of(ref) for name, ref in refs.items()},
        produce=lambda: _track(tracker, facts, data, refs, scores, workspace.store, correlation),
        holds=lambda ref: is_tracked(tracker, workspace.store, ref),
    )


def pack_tracked(tracked: TrackedRun) -> Artifact:
    """Pack the record of where a run was tracked."""
    return pack_files({_RECORD: as_json(asdict(tracked))})


def list_collections(tracker: Tracker) -> list[ExperimentInfo]:
    """List the experiments with runs of collections, most recently used first."""
    return [info for info in tracker.experiments() if info.name != PAPERS]


def load_tracked(store: ArtifactStore, ref: ArtifactRef) -> TrackedRun:
    """Load the record of where a run was tracked."""
    known = json.loads(unpack_files(store.read(ref))[_RECORD])
    # Earlier versions recorded the address with its password.
    return TrackedRun(**{**known, "uri": redact(known["uri"])})


def _track(
    tracker: Tracker,
    facts: Facts,
    data: Data,
    refs: Mapping[str, ArtifactRef | None],
    scores: Mapping[str, ArtifactRef | None],
    store: ArtifactStore,
    correlation: ArtifactRef | None,
) -> Artifact:
    known = {name: ref for name, ref in refs.items() if ref is not None}
    rows = [row for ref in scores.values() if ref for row in load_scores(store, ref)]
    ranked = rank_entries(rows, str(facts.config["evaluation"]["sort_by"]))
    primary = _first_classifier(ranked, rows)
    damaged = [one.to_json() for one in store.quarantined]
    stages = {ref.stage if name == "manifest" else name: ref for name, ref in known.items()}
    around = Circumstances(stages | ({correlation.stage: correlation} if correlation else {}), damaged)
    report = compose_report(known["report"], store, around)
    record = RunRecord(
        experiment=facts.experiment,
        name=facts.name,
        tags={
            **{f"{DIGEST_TAG}{name}": ref.digest for name, ref in known.items()},
            **lineage_tags(around.stages, store),
        },
        methods=[_method_record(entry, ranked, facts, known, store) for entry in primary.values()],
        files={
            "config.json": as_json(facts.config),
            **{f"report/{name}": data for name, data in report.items()},
        },
        fold_rows=rows,
        primary=next((name for name in primary if _fitted(name, known)), None),
        leader=ranked[0].method if ranked else None,
        leader_classifier=ranked[0].classifier if ranked else "",
        # Out-of-fold scores by the classifier that annotates are known to `auto` only.
        labeled_items=pack_labeled_items(data, None, "hamming", facts.config.get("source", {}), store),
    )
    record = complete_record(record, facts, known["manifest"], store)
    return log_record(tracker, record, store)


def log_record(tracker: Tracker, record: RunRecord, store: ArtifactStore) -> Artifact:
    """Log a run, with models that MLflow can serve, and pack where it was tracked."""
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES
    from tasks.annotation.serving import describe_serving

    own = (method.labeled_items for method in record.methods if method.labeled_items)
    labeled = record.labeled_items or next(own, None)
    serve = partial(describe_serving, store=store, labeled=labeled)
    return pack_tracked(tracker.log(record, SKOPS_TRUSTED_TYPES, serve))


def complete_record(
    record: RunRecord, facts: Facts, manifest: ArtifactRef, store: ArtifactStore
) -> RunRecord:
    """Add what every run of a collection has: its settings, its data, and a description."""
    items = unpack_manifest(store.read(manifest))
    labeled = int((items.labels >= 0).all(axis=1).sum())
    numbers = {"items": len(items.ids), "labeled": labeled, "labels": len(items.label_names)}
    leader = Entry(record.leader, record.leader_classifier, {}).title() if record.leader else None
    changes = describe_counts(facts.find_changes())
    data = {"data": numbers}
    metric = str(facts.config.get("evaluation", {}).get("sort_by", ""))
    best = _describe_best(record.methods, metric)
    return replace(
        record,
        methods=[replace(method, metrics=_first(method.metrics, metric)) for method in record.methods],
        params={**facts.config, **data, **({"best_method": leader} if leader else {})},
        shared_params={**_without_methods(facts.config), **data},
        tags={
            **facts.tags,
            **record.tags,
            SETTINGS_TAG: facts.settings,
            CHANGES_TAG: changes or "none",
        },
        dataset=DatasetRecord(items_name(facts), manifest.digest, facts.place, numbers),
        note=_describe_run(facts, numbers, changes, best),
        links={"flow run in Prefect": address} if (address := facts.tags.get(FLOW_RUN_URL)) else {},
        owner=facts.place if facts.owned and facts.place else None,
        columns=_columns(metric),
        headline=f"Newest run, `{record.name.replace('`', '')}`: {best}." if best else "",
        about=f"Runs of labelscape on `{facts.place}`. Each run has one run per method below it.",
    )


def _columns(sort_by: str) -> dict[str, int]:
    """Columns of the saved view with their widths."""
    metrics = [f"metrics.{name}" for name in dict.fromkeys(filter(None, [sort_by, *_SHOWN_METRICS]))]
    return {
        "params.best_method": 160,
        **dict.fromkeys(metrics[:2], 80),
        f"tags.{SETTINGS_TAG}": 190,
        **dict.fromkeys(metrics[2:], 100),
        "params.data.items": 90,
        "params.data.labels": 90,
        f"tags.{CHANGES_TAG}": 150,
    }


def items_name(facts: Facts) -> str:
    """Name of the collection."""
    return facts.place.rstrip("/").rpartition("/")[2] or facts.experiment


def _without_methods(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that concern every method: a method's run has its own parameters beside them."""
    shared = {name: value for name, value in config.items() if name not in ("report", "tracking")}
    embedding = shared.get("embedding", {})
    kept = {name: value for name, value in embedding.items() if name not in ("methods", "params")}
    return {**shared, "embedding": kept}


def _first(metrics: Mapping[str, float], metric: str) -> dict[str, float]:
    """The metrics with one of them first: MLflow's compare page draws the one that was logged first."""
    return dict(sorted(metrics.items(), key=lambda one: one[0].rpartition("/")[2] != metric))


def _describe_best(methods: Sequence[MethodRecord], metric: str) -> str:
    """The best method with its classifier; metrics of further classifiers are named `10nn/macro_f1`."""
    scored = [
        (value, method, name.rpartition("/")[0] or method.classifier, method.metrics_std.get(name))
        for method in methods
        for name, value in method.metrics.items()
        if name == metric or name.endswith(f"/{metric}")
    ]
    if not scored:
        return ""
    choose = min if metric in LOWER_IS_BETTER else max
    value, method, classifier, spread = choose(scored, key=lambda one: one[0])
    title = Entry(method.name, classifier, {}).title({method.name: method.title})
    return f"best {title}, {metric_title(metric)} {format_score(value, spread)}"


def _describe_run(facts: Facts, numbers: Mapping[str, int], changes: str, best: str) -> str:
    """The description of a run in Markdown."""
    lines = [
        f"{numbers['items']} items, {numbers['labeled']} of them labeled, {numbers['labels']} labels "
        f"(`{facts.place}`)"
    ]
    lines += [best] if best else []
    lines.append(f"changed settings: {facts.settings or 'none'}")
    lines.append(f"items since the last run: {changes or 'no change'}")
    return "\n".join(f"- {line}" for line in lines)


def lineage_tags(
    stages: Mapping[str, ArtifactRef], store: ArtifactStore, made_of: Iterable[ArtifactRef] = ()
) -> dict[str, str]:
    """Return tags for the lineage of every artifact: digest, code, settings, seconds and library versions.

    Inputs are looked up among `made_of` first, which avoids reading the whole store.
    """
    tags: dict[str, str] = {}
    for one in flatten_lineage(LineageGraph(store, [*stages.values(), *made_of]).of_results(stages)):
        tags[f"{DIGEST_TAG}{one.label}"] = one.digest
        if one.seconds is None:
            continue
        tags[f"labelscape.key.{one.label}"] = one.name
        tags[f"labelscape.code.{one.label}"] = one.code
        tags[f"labelscape.seconds.{one.label}"] = f"{one.seconds:.3f}"
        tags[f"labelscape.settings.{one.label}"] = " ".join(f"{k}={v}" for k, v in one.settings.items())
        tags |= {f"labelscape.version.{name}": number for name, number in one.versions.items()}
    return {name: value for name, value in tags.items() if value}


def _first_classifier(ranked: list[Entry], rows: list[Score]) -> dict[str, Entry]:
    """The entry of each method with its first classifier, best method first."""
    first: dict[str, str] = {}
    for method, classifier, *_ in rows:
        first.setdefault(method, classifier)
    return {entry.method: entry for entry in ranked if entry.classifier == first[entry.method]}


def _method_record(
    entry: Entry,
    entries: list[Entry],
    facts: Facts,
    refs: Mapping[str, ArtifactRef],
    store: ArtifactStore,
) -> MethodRecord:
    means, spreads = entry_metrics(entry, "")
    for other in entries:
        if other.method == entry.method and other.classifier != entry.classifier:
            more, more_spreads = entry_metrics(other, f"{other.classifier}/")
            means, spreads = means | more, spreads | more_spreads
    method = get_method(entry.method)
    fitted = _fitted(entry.method, refs)
    digests = {"scores": refs[f"evaluation[{entry.method}]"].digest}
    digests |= {fitted.stage: fitted.digest} if fitted else {}
    return MethodRecord(
        name=entry.method,
        title=method.title,
        label=facts.label(method.title),
        params={"method": entry.method, **method.defaults, **facts.method_params[entry.method]},
        metrics=means,
        metrics_std=spreads,
        classifier=entry.classifier,
        tags={BASELINE_TAG: str(method.baseline).lower()}
        | {f"{DIGEST_TAG}{name}": digest for name, digest in digests.items()},
        model=load_model_payload(fitted, store) if fitted else None,
    )


def _fitted(method: str, refs: Mapping[str, ArtifactRef]) -> ArtifactRef | None:
    """The artifact that holds a method's model; a transductive method has none."""
    if not get_method(method).inductive:
        return None
    return refs.get(f"embedding[{method}]") or refs.get(f"model[{method}]")


def entry_metrics(entry: Entry, prefix: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return means and spreads of every metric; `prefix` is put before the names."""
    means = {f"{prefix}{metric}": entry.mean(metric) for metric in entry.values}
    spreads = {f"{prefix}{metric}": entry.spread(metric) for metric in entry.values}
    return _present(means), _present(spreads)


def _present(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def as_json(value: Any) -> bytes:
    """Serialize plain data as JSON; equal data give equal bytes."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).encode()
