"""Write a run: parent and children in batches; an interrupted run is marked FAILED."""

import contextlib
import hashlib
import importlib.metadata
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from storage.errors import TrackingError
from storage.tracking.addresses import is_http
from storage.tracking.engine import download_model, engine_errors, load_mlflow, load_model_flavor
from storage.tracking.models import (
    CLASSIFIER,
    MAX_TAG_CHARS,
    METHOD,
    MODEL,
    MODEL_DIGEST,
    MODEL_FILE,
    PARENT,
    PRIMARY,
    ROLE,
    TITLE,
    FoldRow,
    MethodRecord,
    RunRecord,
    TrackedRun,
    check_file_name,
    flatten_params,
    fold_scores,
    join_metrics,
    shorten,
)
from storage.urls import redact

Item = TypeVar("Item")

# MLflow's limits per request.
_METRICS_PER_BATCH, _PARAMS_PER_BATCH = 1000, 100
# `mlflow.sklearn.log_model` finds its server through a setting of the process.
_ADDRESS_LOCK = threading.Lock()
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
    """

    client: Any
    uri: str
    artifact_root: Path | None
    trusted: Sequence[str]

    def write(self, record: RunRecord, models: Mapping[str, Any]) -> TrackedRun:
        """Write the parent, then one child per method; `models` contains the loaded estimators by method."""
        experiment_id = self.experiment_id(record.experiment)
        primary = record.primary or next(iter(models), "")
        tags = {**record.tags, ROLE: "run", PRIMARY: primary}
        children: dict[str, str] = {}
        with self._open_run(experiment_id, record.name, tags) as parent_id:
            self._log_params(parent_id, record.params)
            self._log_files(parent_id, record.files)
            for method in record.methods:
                tags = {**_method_tags(method), PARENT: parent_id}
                with self._open_run(experiment_id, method.title, tags) as run_id:
                    model_id = self._log_model(experiment_id, run_id, method, models.get(method.name))
                    self._log_method(run_id, method, record.fold_rows, model_id)
                children[method.name] = run_id
        return TrackedRun(parent_id, children, experiment_id, redact(self.uri))

    def experiment_id(self, name: str) -> str:
        """Return the id of an experiment, creating it if it does not exist."""
        found = self.client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self.client.create_experiment(name, artifact_location=self._artifact_location()))
            except engine_errors():
                found = self.client.get_experiment_by_name(name)  # another run may have just created it
                if found is None:
                    raise
        if found.lifecycle_stage != "active":
            raise TrackingError(
                f"experiment {name!r} is deleted at {redact(self.uri)}; restore it there "
                "or set another name in tracking.experiment."
            )
        return str(found.experiment_id)

    def _artifact_location(self) -> str | None:
        if self.artifact_root is None or is_http(self.uri):
            return None
        return self.artifact_root.resolve().as_uri()

    @contextlib.contextmanager
    def _open_run(self, experiment_id: str, name: str, tags: Mapping[str, str]) -> Iterator[str]:
        """Open a run that ends as FINISHED, as FAILED on an error, or as KILLED on an interrupt."""
        short = {key: shorten(str(value), MAX_TAG_CHARS) for key, value in tags.items()}
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

    def _log_method(
        self, run_id: str, method: MethodRecord, fold_rows: Sequence[FoldRow], model_id: str | None
    ) -> None:
        self._log_params(run_id, method.params)
        self._log_metrics(run_id, method, fold_rows, model_id)
        self._log_files(run_id, method.files)

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
        with _ADDRESS_LOCK, _process_address(self.uri):
            load_model_flavor().log_model(
                estimator,
                model_id=model.model_id,
                run_id=run_id,
                serialization_format="skops",
                skops_trusted_types=list(self.trusted),
                pip_requirements=_requirements(),
                signature=_signature(estimator),
            )
        # Record the digest first: a run with a model always has it.
        self.client.set_tag(run_id, MODEL_DIGEST, self._model_digest(model.model_id))
        self.client.set_tag(run_id, MODEL, model.model_id)
        return str(model.model_id)

    def _model_digest(self, model_id: str) -> str:
        """SHA-256 of the model file as it was stored."""
        place = self.client.get_logged_model(model_id).artifact_location
        return hashlib.sha256(download_model(f"{place}/{MODEL_FILE}", self.uri)).hexdigest()


def _method_tags(method: MethodRecord) -> dict[str, str]:
    own = {ROLE: "method", METHOD: method.name, TITLE: method.title, CLASSIFIER: method.classifier}
    return {**method.tags, **own}


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
