"""Runs in MLflow: one parent per flow run, one child per method, and their models in a safe format."""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from storage.artifacts.locks import hold_lock
from storage.errors import StoreError, TrackingError
from storage.tracking.engine import (
    check_uri,
    default_artifact_root,
    default_uri,
    load_mlflow,
    probe,
    run_exists,
    sqlite_file,
    tracking_errors,
)
from storage.tracking.models import (
    CLASSIFIER,
    METHOD,
    MODEL,
    PARENT,
    PRIMARY,
    ROLE,
    TITLE,
    ComparedRun,
    ExperimentInfo,
    FoldRow,
    MethodRecord,
    ModelInfo,
    RunRecord,
    TrackedRun,
    check_record,
    split_metrics,
)
from storage.urls import redact

__all__ = [
    "ComparedRun",
    "ExperimentInfo",
    "FoldRow",
    "MethodRecord",
    "ModelInfo",
    "RunRecord",
    "TrackedRun",
    "Tracker",
    "default_artifact_root",
    "default_uri",
]

_MODEL_FILE = "model.skops"
_PAGE = 1000
_IS_RUN = f"tags.`{ROLE}` = 'run'"
_IS_FINISHED_RUN = f"{_IS_RUN} AND attributes.status = 'FINISHED'"


class Tracker:
    """Records runs at one tracking address and finds them again.

    Parameters
    ----------
    uri : str
        `sqlite:////path/to/mlflow.db`, `http://host:port` or any database address that MLflow accepts.
    artifact_root : Path or None
        Folder for the artifacts of new experiments; a server chooses its own.
    """

    def __init__(self, uri: str, artifact_root: Path | None = None) -> None:
        self.uri = check_uri(uri)
        self.artifact_root = artifact_root

    def log(self, record: RunRecord, trusted: Sequence[str] = ()) -> TrackedRun:
        """Record a run and its methods; a run that is interrupted is marked FAILED.

        `trusted` lists the types that a model payload may contain besides the common ones; a payload with any
        other type raises StoreError before anything is written.
        """
        from storage.artifacts.models import load_model
        from storage.tracking.writer import RunWriter

        check_record(record)
        models = {
            method.name: load_model(method.model, trusted)
            for method in record.methods
            if method.model is not None
        }
        client = self.client()
        with tracking_errors(self.uri):
            return RunWriter(client, self.uri, self.artifact_root, trusted).write(record, models)

    def exists(self, run_id: str) -> bool:
        """Return whether a run exists and is not deleted; does not import MLflow for SQLite and HTTP."""
        return run_exists(self.uri, run_id)

    def experiments(self) -> list[ExperimentInfo]:
        """Return every experiment with a labelscape run, the latest used first."""
        if self.is_empty():
            return []
        client = self.client()
        with tracking_errors(self.uri):
            known = {info.experiment_id: info for info in _all_experiments(client)}
            runs = _search(client, list(known), _IS_RUN)
        return [known[found] for found in dict.fromkeys(run.info.experiment_id for run in runs)]

    def runs(self, experiment: str) -> list[ComparedRun]:
        """Return every method of every finished run of an experiment, the latest run first."""
        self._require_runs()
        client = self.client()
        with tracking_errors(self.uri):
            place = [self._find_experiment(client, experiment)]
            parents = _search(client, place, _IS_FINISHED_RUN)
            children = _search(client, place, f"tags.`{ROLE}` = 'method'")
        by_parent: dict[str, list[Any]] = {}
        for child in reversed(children):
            by_parent.setdefault(child.data.tags.get(PARENT, ""), []).append(child)
        return [
            _compared(parent, child) for parent in parents for child in by_parent.get(parent.info.run_id, ())
        ]

    def fold_scores(self, run_id: str, metric: str) -> dict[int, float]:
        """A metric of one method by fold; empty if it was not tracked by fold."""
        client = self.client()
        with tracking_errors(self.uri):
            history = client.get_metric_history(run_id, f"fold/{metric}")
        return {one.step: one.value for one in history}

    def latest(self, experiment: str | None = None) -> TrackedRun | None:
        """Return the latest finished run of one experiment or of all, or None."""
        if self.is_empty():
            return None
        client = self.client()
        with tracking_errors(self.uri):
            if experiment is None:
                places = [info.experiment_id for info in _all_experiments(client)]
            else:
                places = [self._find_experiment(client, experiment)]
            found = _search(client, places, _IS_FINISHED_RUN, limit=1)
            return self._tracked(client, found[0]) if found else None

    def registered_runs(self) -> set[str]:
        """Return the ids of runs with a registered model."""
        if self.is_empty():
            return set()
        client = self.client()
        with tracking_errors(self.uri):
            versions = [one.run_id for one in client.search_model_versions() if one.run_id]
            return {client.get_run(run_id).data.tags.get(PARENT, run_id) for run_id in set(versions)}

    def model(self, run_id: str, method: str | None = None) -> tuple[bytes, ModelInfo]:
        """Return the payload of a run's model and its origin; the model is not loaded.

        `run_id` is the id of a run (then `method`, or the run's primary method, is chosen) or of one of its
        methods.
        """
        self._require_runs()
        client = self.client()
        with tracking_errors(self.uri):
            run = self._get_run(client, run_id)
            if run.data.tags.get(ROLE) == "run":
                run = _pick_method(client, run, method)
            info = _model_info(client, run)
            if method is not None and info.method != method:
                raise TrackingError(f"run {run_id} is of method {info.method!r}, not {method!r}.")
            return self._download_model(client, run), info

    def client(self) -> Any:
        """Return MLflow's client for this address; TrackingError if no server answers."""
        mlflow = load_mlflow()
        probe(self.uri)
        file = sqlite_file(self.uri)
        with tracking_errors(self.uri):
            if file is None:
                return mlflow.MlflowClient(tracking_uri=self.uri)
            file.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as held:
                # Two processes that create the tables of a new database at once would fail. In a read-only
                # folder there is no new database to create.
                with suppress(StoreError):
                    held.enter_context(hold_lock(file.with_name(f".{file.name}.lock")))
                return mlflow.MlflowClient(tracking_uri=self.uri)

    def is_empty(self) -> bool:
        """Return whether the database does not exist yet; asking MLflow would create it."""
        file = sqlite_file(self.uri)
        return file is not None and not file.exists()

    def _require_runs(self) -> None:
        if self.is_empty():
            raise TrackingError(
                f"no run has been tracked at {redact(self.uri)} yet; start with `labelscape run`."
            )

    def _find_experiment(self, client: Any, name: str) -> str:
        found = client.get_experiment_by_name(name)
        if found is not None and found.lifecycle_stage == "active":
            return str(found.experiment_id)
        names = [info.name for info in _all_experiments(client)]
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"existing experiments: {', '.join(names)}."
        raise TrackingError(f"no experiment {name!r} at {redact(self.uri)}; {hint}")

    def _get_run(self, client: Any, run_id: str) -> Any:
        if not self.exists(run_id):
            raise TrackingError(
                f"no run {run_id!r} at {redact(self.uri)}; `labelscape compare` lists the runs there."
            )
        return client.get_run(run_id)

    def _tracked(self, client: Any, parent: Any) -> TrackedRun:
        children = {child.data.tags[METHOD]: child.info.run_id for child in _children(client, parent)}
        return TrackedRun(parent.info.run_id, children, parent.info.experiment_id, redact(self.uri))

    def _download_model(self, client: Any, run: Any) -> bytes:
        mlflow = load_mlflow()
        place = client.get_logged_model(run.data.tags[MODEL]).artifact_location
        with tempfile.TemporaryDirectory() as folder:
            file = mlflow.artifacts.download_artifacts(
                artifact_uri=f"{place}/{_MODEL_FILE}", dst_path=folder, tracking_uri=self.uri
            )
            return Path(file).read_bytes()


def _all_experiments(client: Any) -> list[ExperimentInfo]:
    found: list[ExperimentInfo] = []
    token = None
    while True:
        page = client.search_experiments(max_results=_PAGE, page_token=token)
        found += [ExperimentInfo(str(entry.experiment_id), entry.name) for entry in page]
        token = page.token
        if not token:
            return found


def _search(client: Any, places: list[str], query: str, limit: int | None = None) -> list[Any]:
    """Return the runs that match a query, the latest first."""
    found: list[Any] = []
    token = None
    while places:
        page = client.search_runs(
            places,
            filter_string=query,
            max_results=limit or _PAGE,
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )
        found += page
        token = page.token
        if not token or (limit is not None and len(found) >= limit):
            break
    return found[:limit]


def _children(client: Any, parent: Any) -> list[Any]:
    """Return the methods of a run in the order they were logged."""
    query = f"tags.`{PARENT}` = '{parent.info.run_id}' AND tags.`{ROLE}` = 'method'"
    return _search(client, [parent.info.experiment_id], query)[::-1]


def _pick_method(client: Any, parent: Any, method: str | None) -> Any:
    children = {child.data.tags[METHOD]: child for child in _children(client, parent)}
    models = [name for name, child in children.items() if MODEL in child.data.tags]
    wanted = method or parent.data.tags.get(PRIMARY, "")
    if wanted not in models:
        raise TrackingError(
            f"run {parent.info.run_id} has no model of {wanted or 'any method'}; "
            f"it has models of: {', '.join(models) or 'none'}."
        )
    return children[wanted]


def _model_info(client: Any, run: Any) -> ModelInfo:
    tags = dict(run.data.tags)
    if METHOD not in tags or MODEL not in tags:
        raise TrackingError(f"run {run.info.run_id} has no model; give a run created by `labelscape run`.")
    parent = client.get_run(tags[PARENT])
    return ModelInfo(
        run_id=run.info.run_id,
        parent_id=parent.info.run_id,
        run_name=parent.info.run_name,
        experiment=client.get_experiment(run.info.experiment_id).name,
        method=tags[METHOD],
        title=tags[TITLE],
        params=dict(run.data.params),
        tags=tags,
    )


def _compared(parent: Any, child: Any) -> ComparedRun:
    tags = dict(child.data.tags)
    means, spread = split_metrics(child.data.metrics)
    return ComparedRun(
        run_id=child.info.run_id,
        parent_id=parent.info.run_id,
        run_name=parent.info.run_name,
        method=tags[METHOD],
        title=tags[TITLE],
        classifier=tags.get(CLASSIFIER, ""),
        metrics=means,
        metrics_std=spread,
        params=dict(child.data.params),
        tags=tags,
        run_tags=dict(parent.data.tags),
        started=datetime.fromtimestamp(parent.info.start_time / 1000, UTC),
    )
