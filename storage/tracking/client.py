"""Runs in MLflow: one parent per flow run, one child per method, and their models in a safe format."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.credentials import enter, reveal
from storage.errors import TrackingError
from storage.sqlite.causes import DAMAGED, error_kind
from storage.sqlite.migrated import Warn
from storage.tracking.addresses import check_uri, default_artifact_root, default_uri, sqlite_file
from storage.tracking.database import find_damage, is_missing, lost_runs, set_aside_if_damaged
from storage.tracking.engine import download_file, open_client, run_exists
from storage.tracking.explain import tracking_errors
from storage.tracking.models import (
    CLASSIFIER,
    LABELED_DIGEST,
    LABELED_FILE,
    METHOD,
    MODEL,
    MODEL_FILE,
    OWNER,
    PARENT,
    PRIMARY,
    ROLE,
    TITLE,
    ComparedRun,
    DatasetRecord,
    ExperimentInfo,
    FoldRow,
    MethodRecord,
    ModelInfo,
    RunRecord,
    TrackedRun,
    check_labeled_digest,
    check_model_digest,
    check_record,
    split_metrics,
)
from storage.tracking.registered import all_versions, run_tags
from storage.urls import redact

if TYPE_CHECKING:
    from storage.tracking.writer import Serve

__all__ = [
    "ComparedRun",
    "DatasetRecord",
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
    home : Path or None
        Folder that may contain the credentials of the address.
    warn : callable, optional
        Permits to set a damaged database file aside, and receives what was lost and what to do.

    Attributes
    ----------
    uri : str
        The address without credentials.
    """

    def __init__(
        self,
        uri: str,
        artifact_root: Path | None = None,
        home: Path | None = None,
        warn: Warn | None = None,
    ) -> None:
        self.uri = enter(check_uri(uri))
        self.artifact_root = artifact_root
        self.warn = warn
        self._home = home

    @property
    def address(self) -> str:
        """The address with its credentials, for connections only."""
        return reveal(self.uri, self._home)

    def log(self, record: RunRecord, trusted: Sequence[str] = (), serve: "Serve | None" = None) -> TrackedRun:
        """Record a run and its methods; a run that is interrupted is marked FAILED.

        `trusted` lists the types that a model payload may contain besides the common ones; a payload with any
        other type raises StoreError before anything is written. `serve` describes how a model is served.
        """
        from storage.artifacts.models import load_model
        from storage.tracking.writer import RunWriter

        check_record(record)
        models = {
            method.name: load_model(method.model, trusted)
            for method in record.methods
            if method.model is not None
        }
        with self.connected() as client:
            return RunWriter(client, self.address, self.artifact_root, trusted, serve).write(record, models)

    def exists(self, run_id: str) -> bool:
        """Return whether a run exists and is not deleted; does not import MLflow for SQLite and HTTP."""
        return run_exists(self.address, run_id)

    def experiments(self) -> list[ExperimentInfo]:
        """Return every experiment with a labelscape run, the latest used first."""
        if self.is_empty():
            return []
        with self.connected() as client:
            known = {info.experiment_id: info for info in _all_experiments(client)}
            runs = _search(client, list(known), _IS_RUN)
        return [known[found] for found in dict.fromkeys(run.info.experiment_id for run in runs)]

    def runs(self, experiment: str) -> list[ComparedRun]:
        """Return every method of every finished run of an experiment, the latest run first."""
        self._require_runs()
        with self.connected() as client:
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
        with self.connected() as client:
            history = client.get_metric_history(run_id, f"fold/{metric}")
        return {one.step: one.value for one in history}

    def latest(self, experiment: str | None = None) -> TrackedRun | None:
        """Return the latest finished run of one experiment or of all, or None."""
        if self.is_empty():
            return None
        with self.connected() as client:
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
        with self.connected() as client:
            runs = {one.run_id for one in all_versions(client) if one.run_id}
            return {run_tags(client, run_id).get(PARENT, run_id) for run_id in runs}

    def model(self, run_id: str, method: str | None = None) -> tuple[bytes, ModelInfo]:
        """Return the payload of a run's model and its origin; the model is not loaded.

        `run_id` is the id of a run (then `method`, or the run's primary method, is chosen) or of one of its
        methods.
        """
        self._require_runs()
        with self.connected() as client:
            run = self._get_run(client, run_id)
            if run.data.tags.get(ROLE) == "run":
                run = _pick_method(client, run, method)
            info = _model_info(client, run)
            if method is not None and info.method != method:
                raise TrackingError(f"run {run_id} is of method {info.method!r}, not {method!r}.")
            return self._download_model(client, run), info

    def labeled_items(self, run_id: str) -> bytes | None:
        """Return the file with the labeled items of a method's model; None for models of older versions.

        It belongs to the method, or to the run if it is the same for all methods.
        """
        with self.connected() as client:
            run = client.get_run(run_id)
            if LABELED_DIGEST not in run.data.tags and PARENT in run.data.tags:
                run = client.get_run(run.data.tags[PARENT])
            if LABELED_DIGEST not in run.data.tags:
                return None
            place = f"{run.info.artifact_uri}/{LABELED_FILE}"
            payload = download_file(place, self.address)
            check_labeled_digest(payload, run.data.tags, redact(place))
            return payload

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Yield MLflow's client; its errors become a TrackingError.

        After an error, a database file is read completely: if it is damaged, it is set aside if `warn` was
        given, and the error says so.
        """
        try:
            client = open_client(self.address, self.warn)
            with tracking_errors(self.uri):
                yield client
        except TrackingError as error:
            file = sqlite_file(self.uri)
            # An error without a cause was raised by this package, not by MLflow.
            if file is None or error.__cause__ is None or error_kind(error) not in (None, DAMAGED):
                raise
            if self.warn is None:
                raise (find_damage(file) or error) from None
            if message := set_aside_if_damaged(file):
                raise TrackingError(message) from None
            raise

    def lost_runs(self, run_ids: Collection[str]) -> set[str]:
        """Return those of some runs that were lost with a database file that was set aside as damaged."""
        file = sqlite_file(self.uri)
        return lost_runs(file, run_ids) if file is not None else set()

    def is_empty(self) -> bool:
        """Return whether the database does not exist yet; asking MLflow would create it."""
        file = sqlite_file(self.uri)
        return file is not None and is_missing(file)

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
        return TrackedRun(parent.info.run_id, children, parent.info.experiment_id, self.uri)

    def _download_model(self, client: Any, run: Any) -> bytes:
        place = f"{client.get_logged_model(run.data.tags[MODEL]).artifact_location}/{MODEL_FILE}"
        payload = download_file(place, self.address)
        check_model_digest(payload, run.data.tags, redact(place))
        return payload


def _all_experiments(client: Any) -> list[ExperimentInfo]:
    found: list[ExperimentInfo] = []
    token = None
    while True:
        page = client.search_experiments(max_results=_PAGE, page_token=token)
        found += [
            ExperimentInfo(str(entry.experiment_id), entry.name, entry.tags.get(OWNER, "")) for entry in page
        ]
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
        run_params=dict(parent.data.params),
        started=datetime.fromtimestamp(parent.info.start_time / 1000, UTC),
    )
