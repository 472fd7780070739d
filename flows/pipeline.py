"""The pipeline as a table of contents, shared by the run and by `status`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from embedding_core.registry import get_method
from flows.config import RunConfig, find_home
from flows.method_choice import check_methods, chosen_methods, compared_methods, method_params
from flows.stores import open_store
from storage.artifacts.fingerprint import keep_notes
from storage.artifacts.keys import ArtifactRef
from storage.errors import ConfigError, TrackingError
from storage.sources import Source
from storage.tracking.engine import redact
from storage.tracking.models import flatten_params
from tasks.reporter import Reporter
from tasks.stage import Stage, Workspace
from tasks.stages import affinity, correlation, embedding, evaluation, features, ingest, report, tracking

# Computes or finds a stage's artifact; None where it is only asked about and is not there.
Execute = Callable[[Stage], ArtifactRef | None]


@dataclass(frozen=True)
class Products:
    """References to what a run made, and what it is called."""

    name: str
    experiment: str
    manifest: ArtifactRef | None
    features: ArtifactRef | None
    affinity: ArtifactRef | None
    correlation: ArtifactRef | None
    embeddings: dict[str, ArtifactRef | None]
    models: dict[str, ArtifactRef | None]
    scores: dict[str, ArtifactRef | None]
    report: ArtifactRef | None
    tracked: ArtifactRef | None


def open_workspace(config: RunConfig, reporter: Reporter) -> Workspace:
    """The home folder of a configuration, made if it is not there."""
    home = find_home(config)
    keep_notes(home / "cache" / "code.json")
    return Workspace(home=home, store=open_store(config), workers=config.workers, reporter=reporter)


def walk(config: RunConfig, workspace: Workspace, execute: Execute, tags: dict[str, str]) -> Products:
    """Every stage in turn; `execute` decides what becomes of it."""
    source, data = walk_data(config, workspace, execute)
    labels = execute(correlation.stage(data.manifest, workspace))
    chosen = chosen_methods(config, ingest.has_single_labels(data.manifest, workspace.store))
    compared = compared_methods(config, chosen)
    fitted = {
        name: execute(embedding.stage(name, method_params(config, name), config.annotation, data, workspace))
        for name in chosen
        if get_method(name).role == "projection"
    }
    models = {
        name: execute(embedding.model_stage(name, method_params(config, name), data, workspace))
        for name in compared
        if get_method(name).role == "classifier" and get_method(name).inductive
    }
    scores = {
        name: execute(evaluation.stage(name, method_params(config, name), config.evaluation, data, workspace))
        for name in compared
    }
    title = run_name(config, source.name)
    page = execute(
        report.stage(config.report, config.evaluation, title, source, data, labels, fitted, scores, workspace)
    )
    experiment = config.tracking.experiment or source.name
    tracked = None
    if config.tracking.enabled:
        params = {name: method_params(config, name) for name in scores}
        facts = tracking.Facts(
            title, experiment, resolved_config(config), params, changed_settings(config), tags
        )
        tracked = execute(
            tracking.stage(config.tracking, facts, data, fitted, models, scores, page, workspace, labels)
        )
    return Products(
        title,
        experiment,
        data.manifest,
        data.features,
        data.affinity,
        labels,
        fitted,
        models,
        scores,
        page,
        tracked,
    )


def walk_data(config: RunConfig, workspace: Workspace, execute: Execute) -> tuple[Source, embedding.Data]:
    """The stages that everything else rests on: ingest, features, affinity."""
    check_methods(config)
    check_places(config)
    source = ingest.open_collection(config.source, workspace)
    manifest = execute(ingest.stage(config.source, source, workspace))
    scale = config.features.resolve_scale(source.content == "images")
    feats = execute(features.stage(config.features, config.source, source, manifest, workspace))
    graph = execute(affinity.stage(config.affinity, config.source, scale, feats, workspace))
    edges_given = affinity.resolve_graph(config.affinity, config.source) == "given"
    return source, embedding.Data(manifest, feats, graph, scale, edges_given)


def check_config(config: RunConfig) -> None:
    """Refuse whatever would stop a run later on; imports the methods that were given parameters."""
    check_methods(config)
    check_places(config)
    for name, params in config.embedding.params.items():
        get_method(name).build(**params)
    open_store(config).check()


def check_places(config: RunConfig) -> None:
    """Refuse an address that cannot keep runs, and a home that would be read as the collection."""
    if config.tracking.enabled:
        try:
            tracking.make_tracker(config.tracking.uri, find_home(config))
        except TrackingError as error:
            raise ConfigError(f"tracking.uri: {error}") from None
    path = Path(config.source.path)
    if path.is_dir() and path.resolve() == find_home(config):
        raise ConfigError(
            f"{path} is both the source and the home folder, so that reports would be read as items; "
            "choose another home with --home."
        )


def run_name(config: RunConfig, source_name: str) -> str:
    """What the run is called in tables and trackers."""
    return config.name or source_name


def resolved_config(config: RunConfig) -> dict[str, object]:
    """The configuration without passwords and without what differs between machines and changes no result.

    What `auto` alone reads is left out too.
    """
    known = config.model_dump(
        mode="json",
        exclude={"home": True, "workers": True, "store": True, "source": {"paranoid": True}, "auto": True},
    )
    if config.tracking.uri:
        known["tracking"]["uri"] = redact(config.tracking.uri)
    return known


def changed_settings(config: RunConfig) -> str:
    """The settings that differ from the defaults and may change results, for tables of runs."""
    default = flatten_params(resolved_config(RunConfig()))
    given = flatten_params(resolved_config(config))
    aside = ("name", "source.path", "tracking.", "report.", "embedding.methods")
    changes = (f"{key}={value}" for key, value in given.items() if default.get(key) != value)
    return " ".join(change for change in changes if not change.startswith(aside))
