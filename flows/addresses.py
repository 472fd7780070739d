"""Addresses of a run in the pages of MLflow and Prefect."""

import os
from pathlib import Path

from flows.services import running
from storage.servers import read_token
from storage.tracking.addresses import is_http
from storage.tracking.client import TrackedRun
from storage.tracking.saved_view import ADDRESS
from storage.urls import redact

_REPORT = "artifacts/report/index.html"


def mlflow_pages(uri: str, home: Path) -> str | None:
    """Address of the MLflow pages that show a tracker; None if no server is known for it."""
    if is_http(uri):
        return uri.rstrip("/")
    found = running(home)
    return found.mlflow_url if found and found.tracking == redact(uri) else None


def run_address(tracked: TrackedRun, pages: str) -> str:
    """Address of a tracked run."""
    return f"{pages}/#/experiments/{tracked.experiment_id}/runs/{tracked.parent_id}"


def report_address(tracked: TrackedRun, pages: str) -> str:
    """Address of the report of a tracked run in MLflow."""
    return f"{run_address(tracked, pages)}/{_REPORT}"


def experiment_address(experiment_id: str, pages: str) -> str:
    """Address of the runs of an experiment, with the columns of our saved view."""
    return f"{pages}/{ADDRESS.format(experiment_id=experiment_id)}"


def flow_run_address(flow_run: str, home: Path) -> str | None:
    """Address of a flow run in the pages of Prefect; None if no server is known that keeps it."""
    found = running(home)
    pages = found.prefect_ui if found else os.environ.get("PREFECT_UI_URL", "")
    return f"{pages.rstrip('/')}/runs/flow-run/{flow_run}" if is_http(pages) else None


def page_links(tracked: TrackedRun | None, flow_run: str | None, home: Path) -> dict[str, str]:
    """Links from the report of a run to its other pages, by name; those of servers that are known."""
    pages = mlflow_pages(tracked.uri, home) if tracked else None
    found = {
        "MLflow": run_address(tracked, pages) if tracked and pages else None,
        "Prefect": flow_run_address(flow_run, home) if flow_run else None,
    }
    return {name: address for name, address in found.items() if address}


def with_login(address: str, home: Path) -> str:
    """An address of one of our own servers that also logs a browser in."""
    found, token = running(home), read_token(home)
    for server in (found.prefect_ui, found.mlflow_url) if found and token else ():
        if address.startswith(server):
            path, _, page = address.removeprefix(server).partition("#")
            return f"{server}{path or '/'}?token={token}" + (f"#{page}" if page else "")
    return address
