"""Runs and models that were deleted in MLflow: it only marks them; here they are removed with their files."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from storage.tracking.client import Tracker
from storage.tracking.models import MODEL, PARENT
from storage.tracking.registered import all_versions, run_tags


def remove_deleted(tracker: Tracker, older_than_days: float, dry_run: bool = False) -> tuple[int, int] | None:
    """Remove the deleted runs and logged models of a database, except those of registered models.

    Returns their numbers, or None for a tracking server, whose database only its own machine can clean.
    """
    milliseconds = round(older_than_days * 86_400_000)
    with tracker.connected() as client:
        store: Any = client._tracking_client.store
        if not hasattr(store, "_hard_delete_run"):
            return None
        kept = _registered(client)
        runs = [one for one in store._get_deleted_runs(older_than=milliseconds) if one not in kept]
        models = [one for one in store._get_deleted_logged_models(older_than=milliseconds) if one not in kept]
        if dry_run:
            return len(runs), len(models)
        for run in runs:
            _remove_files(store.get_run(run).info.artifact_uri)
            store._hard_delete_run(run)
        for model in models:
            _remove_files(store.get_logged_model(model, allow_deleted=True).artifact_location)
            store._hard_delete_logged_model(model)
    return len(runs), len(models)


def _registered(client: Any) -> set[str]:
    """Ids of what a registered model needs: the runs of its versions, their parents and the logged models."""
    found = all_versions(client)
    runs = {one.run_id for one in found if one.run_id}
    kept = runs | {one.model_id for one in found if one.model_id}
    for run_id in runs:
        tags = run_tags(client, run_id)
        kept |= {tags[name] for name in (PARENT, MODEL) if name in tags}
    return kept


def _remove_files(address: str) -> None:
    """Remove the files of a run; a local folder that is gone already is no error."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    parts = urlsplit(address)
    if parts.scheme in ("", "file") and not Path(unquote(parts.path)).is_dir():
        return
    repository: Any = get_artifact_repository(address)
    repository.delete_artifacts()
