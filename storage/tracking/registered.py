"""Read the model registry through MLflow's client: every version, and the runs that they come from."""

from typing import Any

PAGE = 1000
"""Versions that are asked for at once."""


def all_versions(client: Any) -> list[Any]:
    """Return every version of every registered model."""
    found: list[Any] = []
    token = None
    while True:
        page = client.search_model_versions(max_results=PAGE, page_token=token)
        found += page
        if not (token := page.token):
            return found


def run_tags(client: Any, run_id: str) -> dict[str, str]:
    """Return the tags of a run; none if it no longer exists."""
    from mlflow.exceptions import MlflowException

    try:
        return dict(client.get_run(run_id).data.tags)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return {}
