"""Write a run: parent and children in batches; an interrupted run is marked FAILED."""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from storage.errors import TrackingError
from storage.tracking import saved_view
from storage.tracking.addresses import is_http
from storage.tracking.engine import download_file, engine_errors, load_mlflow, load_model_flavor
from storage.tracking.killed_runs import PROCESS, close_killed, name_process
from storage.tracking.models import (
    CLASSIFIER,
    EXPERIMENT_KIND,
    LABELED_DIGEST,
    LABELED_FILE,
    MAX_TAG_CHARS,
    METHOD,
    MODEL,
    MODEL_DIGEST,
    MODEL_FILE,
    NOTE,
    OWNER,
    PARENT,
    PRIMARY,
    ROLE,
    TITLE,
    DatasetRecord,
    FoldRow,
    MethodRecord,
    RunRecord,
    TrackedRun,
    check_file_name,
    flatten_params,
    fold_scores,
    join_metrics,
    only_classifier,
    shorten,
)
from storage.tracking.served_model import ServedFlavor, ServedModel
from storage.urls import redact

Item = TypeVar("Item")

# MLflow's limits per request.
_METRICS_PER_BATCH, _PARAMS_PER_BATCH = 1000, 100
_SHOWN_DIGITS = 4
_REPORT = "report/index.html"
# MLflow's limits for the name and the digest of a data set.
_NAME_CHARS, _DIGEST_CHARS = 500, 12
# MLflow's `Model.log` finds its server through a setting of the process.
_ADDRESS_LOCK = threading.Lock()
Serve = Callable[[Any], ServedModel]
"""Describes how an estimator is served."""
_MODEL_REQUIREMENTS = ("labelscape", "numpy", "scipy", "scikit-learn", "skops")


@dataclass(frozen=True)
class RunWriter:
    """Writes one record through a client.

    Parameters
    ----------
    client : mlflow.MlflowClient
    uri : str
        The client's tracking address, with its credentials.
    artifact_root : Path or None
        Folder for the artifacts of new experiments; a server chooses its own.
    trusted : sequence of str
        Types that a model may contain.
    serve : callable, optional
        Describes how a model is served; default: as a plain scikit-learn estimator.
    """

    client: Any
    uri: str
    artifact_root: Path | None
    trusted: Sequence[str]
    serve: Serve | None = None

    def write(self, record: RunRecord, models: Mapping[str, Any]) -> TrackedRun:
        """Write the parent, then one child per method; `models` contains the loaded estimators by method."""
        experiment_id = self._find_experiment(record)
        primary = record.primary or next(iter(models), "")
        tags = {**record.tags, ROLE: "run", PRIMARY: primary}
        children: dict[str, str] = {}
        with contextlib.suppress(*engine_errors()):  # they are not worth an error of this run
            close_killed(self.client, experiment_id)
        with self._open_run(experiment_id, record.name, tags) as parent_id:
            if note := _describe(record, f"#/experiments/{experiment_id}/runs/{parent_id}/artifacts"):
                self.client.set_tag(parent_id, NOTE, note)
            self._log_params(parent_id, record.params)
            self._log_dataset(parent_id, record.dataset)
            self._log_files(parent_id, record.files)
            self._log_labeled_items(parent_id, record.labeled_items)
            for method in record.methods:
                tags = {**_method_tags(method), PARENT: parent_id}
                with self._open_run(experiment_id, method.label or method.title, tags) as run_id:
                    model_id = self._log_model(experiment_id, run_id, method, models.get(method.name))
                    self._log_params(run_id, {**record.shared_params, **method.params})
                    self._log_dataset(run_id, record.dataset)
                    self._log_metrics(run_id, method, record.fold_rows, model_id)
                    self._log_files(run_id, method.files)
                    self._log_labeled_items(run_id, method.labeled_items)
                children[method.name] = run_id
                if method.name == record.leader:
                    best = only_classifier(method, record.leader_classifier)
                    self._log_metrics(parent_id, _rounded(best), (), None)
        with contextlib.suppress(*engine_errors()):  # the run is logged; its mention is not worth an error
            self._show_newest(experiment_id, record)
        return TrackedRun(parent_id, children, experiment_id, redact(self.uri))

    def _find_experiment(self, record: RunRecord) -> str:
        """Return the id of the experiment, creating it if it does not exist.

        Raises
        ------
        TrackingError
            The experiment is deleted, or belongs to another source.
        """
        name, owner = record.experiment, record.owner
        found = self.client.get_experiment_by_name(name)
        if found is None:
            tags = _experiment_tags(record)
            try:
                made = str(self.client.create_experiment(name, self._artifact_location(), tags))
                if record.columns:
                    self.client.set_experiment_tag(made, NOTE, f"{_show_scores(made)} {record.about}")
                return made
            except engine_errors():
                found = self.client.get_experiment_by_name(name)  # another run may have just created it
                if found is None:
                    raise
        if found.lifecycle_stage != "active":
            raise TrackingError(
                f"experiment {name!r} is deleted at {redact(self.uri)}; restore it there "
                "or set another name in tracking.experiment."
            )
        known = found.tags.get(OWNER)
        if owner and known and known != owner:
            raise TrackingError(
                f"experiment {name!r} at {redact(self.uri)} belongs to {known}, not to {owner}. Set "
                f"tracking.experiment={name!r} to record both there, or another name to keep them apart."
            )
        return str(found.experiment_id)

    def _show_newest(self, experiment_id: str, record: RunRecord) -> None:
        """Put the result of this run into the description of the experiment, unless a user has changed it."""
        known = self.client.get_experiment(experiment_id).tags.get(NOTE, "")
        begin = _show_scores(experiment_id)
        if record.headline and known.startswith(begin) and known.endswith(record.about):
            note = shorten(f"{begin} {record.headline} {record.about}", MAX_TAG_CHARS)
            self.client.set_experiment_tag(experiment_id, NOTE, note)

    def _artifact_location(self) -> str | None:
        if self.artifact_root is None or is_http(self.uri):
            return None
        return self.artifact_root.resolve().as_uri()

    @contextlib.contextmanager
    def _open_run(self, experiment_id: str, name: str, tags: Mapping[str, str]) -> Iterator[str]:
        """Open a run that ends as FINISHED, as FAILED on an error, or as KILLED on an interrupt."""
        known = {**tags, PROCESS: name_process()}
        short = {key: shorten(str(value), MAX_TAG_CHARS) for key, value in known.items()}
        run_id = str(self.client.create_run(experiment_id, tags=short, run_name=name).info.run_id)
        try:
            yield run_id
        except Exception:
            self._close_unfinished(run_id, "FAILED")
            raise
        except BaseException:
            self._close_unfinished(run_id, "KILLED")
            raise
        self.client.set_terminated(run_id, "FINISHED")

    def _close_unfinished(self, run_id: str, status: str) -> None:
        # If this fails too, the original error is the one to report.
        with contextlib.suppress(*engine_errors()):
            self.client.set_terminated(run_id, status)

    def _log_dataset(self, run_id: str, data: DatasetRecord | None) -> None:
        """Name the data of a run; nothing of them is read or copied."""
        if data is None:
            return
        from mlflow.entities import Dataset, DatasetInput, InputTag

        digest = data.digest[:_DIGEST_CHARS]
        named = Dataset(
            shorten(data.name, _NAME_CHARS),
            digest,
            "s3" if data.source.startswith("s3://") else "local",
            json.dumps({"uri": redact(data.source)}, ensure_ascii=False),
            profile=json.dumps(dict(data.profile)),
        )
        context = InputTag("mlflow.data.context", "training")
        self.client.log_inputs(run_id, [DatasetInput(named, [context])])

    def _log_labeled_items(self, run_id: str, payload: bytes | None) -> None:
        if payload is not None:
            self._log_files(run_id, {LABELED_FILE: payload})
            # A run with the digest always has the file.
            self.client.set_tag(run_id, LABELED_DIGEST, hashlib.sha256(payload).hexdigest())

    def _log_params(self, run_id: str, params: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        entries = [Param(name, text) for name, text in flatten_params(params).items()]
        for batch in _batches(entries, _PARAMS_PER_BATCH):
            self.client.log_batch(run_id, params=batch)

    def _log_metrics(
        self, run_id: str, method: MethodRecord, fold_rows: Sequence[FoldRow], model_id: str | None
    ) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        totals = [(name, float(value), 0) for name, value in join_metrics(method).items()]
        entries = [
            Metric(name, value, now, step, model_id=model_id, run_id=run_id)
            for name, value, step in [*totals, *fold_scores(fold_rows, method)]
        ]
        for batch in _batches(entries, _METRICS_PER_BATCH):
            self.client.log_batch(run_id, metrics=batch)

    def _log_files(self, run_id: str, files: Mapping[str, bytes]) -> None:
        if not files:
            return
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                file = Path(folder) / check_file_name(name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            self.client.log_artifacts(run_id, folder)

    def _log_model(self, experiment_id: str, run_id: str, method: MethodRecord, estimator: Any) -> str | None:
        """Log the estimator before any metric: MLflow requests the history of each existing metric."""
        if estimator is None:
            return None
        model = self.client.create_logged_model(experiment_id, name=method.name, source_run_id=run_id)
        sklearn = load_model_flavor()
        served = self.serve(estimator) if self.serve else None
        with _ADDRESS_LOCK, _process_address(self.uri), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MLflow compares the columns of an example in a deprecated way
            load_mlflow().models.Model.log(
                None,
                ServedFlavor(sklearn, served) if served else sklearn,
                model_id=model.model_id,
                run_id=run_id,
                sk_model=estimator,
                serialization_format="skops",
                skops_trusted_types=list(self.trusted),
                pip_requirements=_requirements(),
                signature=served.signature() if served else _signature(estimator),
                input_example=served.input_example() if served else None,
                # It would load and run the model once more.
                **({"validate_serving_input": False} if served else {}),
            )
        # Record the digest first: a run with a model always has it.
        self.client.set_tag(run_id, MODEL_DIGEST, self._model_digest(model.model_id))
        self.client.set_tag(run_id, MODEL, model.model_id)
        return str(model.model_id)

    def _model_digest(self, model_id: str) -> str:
        """SHA-256 of the model file as it was stored."""
        place = self.client.get_logged_model(model_id).artifact_location
        return hashlib.sha256(download_file(f"{place}/{MODEL_FILE}", self.uri)).hexdigest()


def _experiment_tags(record: RunRecord) -> dict[str, str]:
    """Tags of a new experiment; users may change them later."""
    tags = {
        OWNER: record.owner or "",
        NOTE: record.about,
        saved_view.TAG: saved_view.make_view(record.columns, time.time()) if record.columns else "",
    }
    return {**EXPERIMENT_KIND, **{name: text for name, text in tags.items() if text}}


def _show_scores(experiment_id: str) -> str:
    """The link to the saved view, with which the description of an experiment begins."""
    return f"[Show scores]({saved_view.ADDRESS.format(experiment_id=experiment_id)})."


def _describe(record: RunRecord, artifacts: str) -> str:
    """The description of a run: links to its other pages first, because MLflow folds long ones."""
    own = {"report": f"{artifacts}/{_REPORT}"} if _REPORT in record.files else {}
    links = [f"[{title}]({address})" for title, address in {**own, **record.links}.items()]
    return shorten("\n\n".join(filter(None, [" · ".join(links), record.note])), MAX_TAG_CHARS)


def _method_tags(method: MethodRecord) -> dict[str, str]:
    own = {ROLE: "method", METHOD: method.name, TITLE: method.title, CLASSIFIER: method.classifier}
    return {**method.tags, **own}


def _rounded(method: MethodRecord) -> MethodRecord:
    """The scores of the parent are a copy for tables; those of the method have all digits."""
    means, spreads = (
        {name: round(value, _SHOWN_DIGITS) for name, value in values.items()}
        for values in (method.metrics, method.metrics_std)
    )
    return replace(method, metrics=means, metrics_std=spreads)


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


@contextlib.contextmanager
def _process_address(uri: str) -> Iterator[None]:
    """Set the tracking address of the process and restore it; MLflow keeps variable and setting in sync."""
    mlflow = load_mlflow()
    before = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)


def _requirements() -> list[str]:
    """Return the packages needed to load the model; otherwise MLflow would infer them."""
    found = []
    for name in _MODEL_REQUIREMENTS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name}=={importlib.metadata.version(name)}")
    return found


def _signature(estimator: Any) -> Any:
    """Return the signature of the model: rows of float32 features, as in the feature tables."""
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features is None:
        return None
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    return ModelSignature(inputs=Schema([TensorSpec(np.dtype(np.float32), (-1, int(n_features)))]))
