"""The model registry of the tracker: one model per collection; aliases mark champion and challenger."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage.errors import TrackingError
from storage.tracking.client import Tracker
from storage.tracking.engine import load_mlflow
from storage.tracking.models import LABELED_DIGEST, MAX_TAG_CHARS, MODEL, MODEL_DIGEST, shorten
from storage.urls import redact

CHAMPION, CHALLENGER = "champion", "challenger"
_MISSING = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


REGISTERED_AS = "labelscape.registered_as"
"""Tag with the title of a version when it was registered."""
_MOST_VERSIONS = 200


@dataclass(frozen=True)
class Version:
    """One version of a registered model; `run_id` is the run of the method that logged it.

    `created` is the time of its registration in seconds.
    """

    name: str
    version: str
    run_id: str
    tags: Mapping[str, str]
    created: float = 0.0


def model_name(experiment: str) -> str:
    """Return the name under which the models of an experiment are registered.

    MLflow accepts neither "/" nor ":". A digest keeps `photos/2026` apart from `photos-2026`.

    >>> model_name("photos")
    'labelscape-photos'
    >>> model_name("photos/2026")
    'labelscape-photos-2026-90116a'
    """
    plain = experiment.replace("/", "-").replace(":", "-")
    digest = "" if plain == experiment else f"-{hashlib.sha256(experiment.encode()).hexdigest()[:6]}"
    return f"labelscape-{plain}{digest}"


class ModelRegistry:
    """Registers models of tracked runs and finds them by alias.

    Parameters
    ----------
    tracker : Tracker
        Its database or server also contains the registry.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def find(self, name: str, alias: str) -> Version | None:
        """Return the version with an alias, or None."""
        if self._tracker.is_empty():
            return None
        mlflow = load_mlflow()
        with self._tracker.connected() as client:
            try:
                return _version(client.get_model_version_by_alias(name, alias))
            except mlflow.exceptions.MlflowException as error:
                if error.error_code in _MISSING:
                    return None
                raise

    def history(self, name: str) -> list[Version]:
        """Return the versions of a model, newest first."""
        if self._tracker.is_empty():
            return []
        quoted = name.replace("'", "''")
        with self._tracker.connected() as client:
            found = client.search_model_versions(f"name = '{quoted}'", max_results=_MOST_VERSIONS)
        return sorted(map(_version, found), key=lambda one: -int(one.version))

    def register(self, name: str, run_id: str, alias: str, tags: Mapping[str, str]) -> Version:
        """Register the model of a method's run and move the alias to it."""
        short = {key: shorten(text, MAX_TAG_CHARS) for key, text in tags.items()} | {REGISTERED_AS: alias}
        with self._tracker.connected() as client:
            known = client.get_run(run_id).data.tags
            model_id = known.get(MODEL)
            short |= {name: known[name] for name in (MODEL_DIGEST, LABELED_DIGEST) if name in known}
            if model_id is None:
                raise TrackingError(f"run {run_id} at {redact(self._tracker.uri)} has no model to register.")
            self._create(client, name)
            place = client.get_logged_model(model_id).artifact_location
            made = client.create_model_version(name, place, run_id, tags=short, model_id=model_id)
            client.set_registered_model_alias(name, alias, made.version)
            return _version(made)

    def withdraw(self, name: str, alias: str) -> None:
        """Remove an alias from the version that has it, if any."""
        if self.find(name, alias) is not None:
            with self._tracker.connected() as client:
                client.delete_registered_model_alias(name, alias)

    @staticmethod
    def _create(client: Any, name: str) -> None:
        mlflow = load_mlflow()
        try:
            client.create_registered_model(name)
        except mlflow.exceptions.MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise


def _version(found: Any) -> Version:
    seconds = (found.creation_timestamp or 0) / 1000
    return Version(found.name, str(found.version), str(found.run_id), dict(found.tags), seconds)
