"""Plain data classes for what is written to a tracked run and read from it."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from storage.errors import TrackingError

FoldRow = tuple[str, str, int, str, float]
"""One score: (method, classifier, fold, metric, value)."""

# Tags that identify runs of labelscape.
ROLE, METHOD, TITLE = "labelscape.role", "labelscape.method", "labelscape.title"
CLASSIFIER, MODEL, PRIMARY = "labelscape.classifier", "labelscape.model_id", "labelscape.primary"
PARENT = "mlflow.parentRunId"
# SHA-256 of the model file of a method's run, and of the version that was registered from it.
MODEL_DIGEST = "labelscape.model_sha256"
MODEL_FILE = "model.skops"
# The source that an experiment belongs to.
OWNER = "labelscape.source"
# MLflow opens the table of training runs, not its page for language models.
EXPERIMENT_KIND = {"mlflow.experimentKind": "custom_model_development"}
NOTE = "mlflow.note.content"
# The labeled items of the model (`storage.artifacts.labeled_items`), and the tag with their SHA-256.
LABELED_FILE, LABELED_DIGEST = "labeled_items.npz", "labelscape.labeled_items_sha256"

SPREAD_SUFFIX = "_std"
MAX_PARAM_CHARS = 5000
MAX_TAG_CHARS = 5000


@dataclass(frozen=True)
class MethodRecord:
    """One method of a run.

    Parameters
    ----------
    name, title : str
        Name in the registry of methods, and the name for readers.
    params : mapping
        Resolved parameters; nested tables become dotted names.
    metrics, metrics_std : mapping of str to float
        Mean and standard deviation over the folds by metric name.
    classifier : str
        The classifier that the metrics belong to.
    tags : mapping of str to str
    model : bytes or None
        The fitted estimator as a skops payload.
    labeled_items : bytes or None
        The labeled items it was fitted on, as `annotate` needs them.
    files : mapping of str to bytes
        Files by relative name.
    label : str
        Name of its run; default: the title.
    """

    name: str
    title: str
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    metrics_std: Mapping[str, float] = field(default_factory=dict)
    classifier: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    model: bytes | None = None
    labeled_items: bytes | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    label: str = ""


@dataclass(frozen=True)
class DatasetRecord:
    """The data of a run, as MLflow's column "Dataset" shows them.

    Parameters
    ----------
    name, digest : str
        Name of the collection, and the beginning of the digest of its items and labels.
    source : str
        Where it is, without credentials.
    profile : mapping of str to int
        Numbers such as those of items and labels.
    """

    name: str
    digest: str
    source: str
    profile: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """One run of the flow: a parent with one child per method.

    Parameters
    ----------
    experiment, name : str
    params, tags : mapping
        Of the parent; nested tables of `params` become dotted names.
    methods : sequence of MethodRecord
    files : mapping of str to bytes
        Files of the parent by relative name.
    fold_rows : sequence of FoldRow
        They become metrics with the fold as step.
    primary : str or None
        The method whose model is used by default; without it, the first method with a model.
    leader : str or None
        The method whose metrics are those of the parent too.
    leader_classifier : str
        The classifier of the leader whose metrics these are; default: the first one.
    shared_params : mapping
        Parameters of every child besides its own, so that runs can be compared by them.
    note : str
        Description of the parent in Markdown.
    links : mapping of str to str
        Addresses of other pages of the run, by title; they precede the description.
    dataset : DatasetRecord or None
    owner : str or None
        The source that the experiment belongs to; None for an experiment that the user named.
    about : str
        Description of a new experiment in Markdown.
    headline : str
        The result in a few words, for the description of the experiment.
    columns : mapping of str to int
        Columns with their widths for the saved view of a new experiment, see `storage.tracking.saved_view`.
    labeled_items : bytes or None
        The labeled items of methods without their own.
    """

    experiment: str
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    methods: Sequence[MethodRecord] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    fold_rows: Sequence[FoldRow] = ()
    primary: str | None = None
    leader: str | None = None
    leader_classifier: str = ""
    shared_params: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    dataset: DatasetRecord | None = None
    owner: str | None = None
    about: str = ""
    headline: str = ""
    columns: Mapping[str, int] = field(default_factory=dict)
    labeled_items: bytes | None = None


@dataclass(frozen=True)
class TrackedRun:
    """Where a run is recorded; `children` maps each method's name to its run id."""

    parent_id: str
    children: dict[str, str]
    experiment_id: str
    uri: str


@dataclass(frozen=True)
class ComparedRun:
    """One method of one finished run, as `compare` shows it."""

    run_id: str
    parent_id: str
    run_name: str
    method: str
    title: str
    classifier: str
    metrics: dict[str, float]
    metrics_std: dict[str, float]
    params: dict[str, str]
    tags: dict[str, str]
    run_tags: dict[str, str]
    run_params: dict[str, str]
    started: datetime


@dataclass(frozen=True)
class ExperimentInfo:
    """An experiment that can be compared; `source` is the collection it belongs to, if any."""

    experiment_id: str
    name: str
    source: str = ""


@dataclass(frozen=True)
class ModelInfo:
    """The origin of a model payload."""

    run_id: str
    parent_id: str
    run_name: str
    experiment: str
    method: str
    title: str
    params: dict[str, str]
    tags: dict[str, str]


def check_model_digest(payload: bytes, tags: Mapping[str, str], place: str) -> None:
    """Raise TrackingError if a model file is not the one that was logged.

    Parameters
    ----------
    payload : bytes
        The content of the file.
    tags : mapping
        Tags of the run or of the registered version; models of older versions of labelscape have no digest.
    place : str
        Where the file is, for the message.
    """
    _check_digest(payload, tags.get(MODEL_DIGEST), f"{place} is not the model that was logged")


def check_labeled_digest(payload: bytes, tags: Mapping[str, str], place: str) -> None:
    """Raise TrackingError if a file of labeled items is not the one that was logged with the model."""
    _check_digest(
        payload, tags.get(LABELED_DIGEST), f"{place} is not the file that was logged with the model"
    )


def _check_digest(payload: bytes, expected: str | None, problem: str) -> None:
    found = hashlib.sha256(payload).hexdigest()
    if expected is not None and found != expected:
        raise TrackingError(
            f"{problem}: its SHA-256 is {found[:12]}…, expected "
            f"{expected[:12]}…. It was not loaded. Restore the file from a backup, or name another run with "
            "--run, or log the model again: `labelscape run` with --refresh tracking, or `labelscape auto` "
            "after deleting the run in MLflow."
        )


def check_record(record: RunRecord) -> None:
    """Raise TrackingError for a record that cannot be logged completely."""
    names = [method.name for method in record.methods]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TrackingError(
            f"run {record.name!r}: method {twice[0]!r} is given twice; give each method once."
        )
    for role in ("primary", "leader"):
        chosen = getattr(record, role)
        if chosen is not None and chosen not in names:
            raise TrackingError(f"run {record.name!r}: {role}={chosen!r} is not one of {', '.join(names)}.")
    for files in (record.files, *(method.files for method in record.methods)):
        for name in files:
            check_file_name(name)


def check_file_name(name: str) -> PurePosixPath:
    """Return the name as a relative path; TrackingError if it would leave the run's folder."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name:
        raise TrackingError(f"artifact name {name!r} must be a relative path without '..'.")
    return path


def flatten_params(params: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested tables as dotted names, with values as short text.

    >>> flatten_params({"embedding": {"methods": ["mlda"]}, "executor": "auto"})
    {'embedding.methods': '["mlda"]', 'executor': 'auto'}
    """
    flat: dict[str, str] = {}
    for key, value in params.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat |= flatten_params(value, f"{name}.")
        else:
            flat[name] = shorten(_as_text(value), MAX_PARAM_CHARS)
    return flat


def shorten(text: str, limit: int) -> str:
    """Return the text, truncated with an ellipsis if the tracker would reject its length."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def join_metrics(method: MethodRecord) -> dict[str, float]:
    """Return means and standard deviations in one mapping: `macro_f1` and `macro_f1_std`."""
    spread = {f"{name}{SPREAD_SUFFIX}": value for name, value in method.metrics_std.items()}
    return {**method.metrics, **spread}


def only_classifier(method: MethodRecord, classifier: str) -> MethodRecord:
    """The method with the scores of one classifier only, under their plain names."""
    prefix = f"{classifier}/" if classifier and classifier != method.classifier else ""
    means, spreads = (
        {
            name.removeprefix(prefix): value
            for name, value in values.items()
            if (name.startswith(prefix) if prefix else "/" not in name)
        }
        for values in (method.metrics, method.metrics_std)
    )
    return replace(method, metrics=means, metrics_std=spreads)


def split_metrics(metrics: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return means and standard deviations, without scores of single folds; inverse of `join_metrics`."""
    own = {name: value for name, value in metrics.items() if not name.startswith("fold/")}
    spread = {
        name.removesuffix(SPREAD_SUFFIX): value
        for name, value in own.items()
        if name.endswith(SPREAD_SUFFIX) and name.removesuffix(SPREAD_SUFFIX) in own
    }
    means = {
        name: own[name] for name in own if name in spread or name.removesuffix(SPREAD_SUFFIX) not in spread
    }
    return means, spread


def fold_scores(rows: Iterable[FoldRow], method: MethodRecord) -> list[tuple[str, float, int]]:
    """Return `(metric, value, fold)` of one method; further classifiers are part of the metric's name."""
    prefix = {method.classifier: "fold/"}
    return [
        (f"{prefix.get(classifier, f'fold/{classifier}/')}{metric}", float(value), int(fold))
        for name, classifier, fold, metric, value in rows
        if name == method.name
    ]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
