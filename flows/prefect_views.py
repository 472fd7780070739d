"""What Prefect shows of a run besides its stages: its name, tags, and artifacts with results and links."""

import base64
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from flows.addresses import mlflow_pages, report_address, run_address
from flows.config import RunConfig
from flows.rerun import command_again
from flows.runner import Plan, ProductsT, RunResult
from flows.tracked_names import describe_run
from storage.artifacts.run_log import RunLog
from storage.credentials import hide_secrets
from storage.tracking.client import TrackedRun
from tasks.changes import describe_counts
from tasks.report.tables import Table, render_markdown
from tasks.safe_text import printable
from tasks.stages.tracking import load_tracked

_LISTED = 20
_MLFLOW_RUN = "- MLflow run "
# Of the map in Prefect, which keeps it in its database.
_PICTURE_WIDTH, _PICTURE_COLORS = 800, 48


def name_flow_run(plan: Plan[Any]) -> str:
    """Name of a flow run: what differs, as in MLflow."""
    return plan.flow_run_name or describe_run(plan.config, Path(plan.source).name, plan.kind)


def name_deployed_run(parameters: Mapping[str, Any]) -> str:
    """Name of a run of a deployed flow, by its parameters."""
    config = parameters["config"]
    known = config if isinstance(config, RunConfig) else RunConfig.model_validate(config)
    return describe_run(known, Path(known.source.path).name)


def flow_tags(plan: Plan[Any]) -> list[str]:
    """Tags of a flow run: its kind, its source, and the configured experiment and methods."""
    tags = [plan.kind, f"source:{Path(plan.source).name}"]
    if plan.config.tracking.experiment:
        tags.append(f"experiment:{plan.config.tracking.experiment}")
    if plan.kind == "run":
        tags += [f"method:{name}" for name in plan.config.embedding.methods]
    return [printable(hide_secrets(tag)) for tag in tags]


def add_tags(plan: Plan[ProductsT], products: ProductsT) -> None:
    """Add the tags that are known at the end of a flow run, also to one of a deployment."""
    from prefect import get_client
    from prefect.runtime import flow_run

    tags = {*flow_run.tags, *flow_tags(plan), f"experiment:{products.experiment_name}"}
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(flow_run.id), tags=sorted(printable(hide_secrets(tag)) for tag in tags))


def show_results(plan: Plan[ProductsT], result: RunResult[ProductsT]) -> None:
    """Create the artifacts of a finished flow run: results with links, scores, and changes of the data."""
    from prefect.artifacts import (
        create_link_artifact,
        create_markdown_artifact,
        create_table_artifact,
    )

    source = Path(plan.source).name
    tables = plan.result_tables(result.products, result.store)
    tracked = load_tracked(result.store, result.products.tracked) if result.products.tracked else None
    pages = mlflow_pages(tracked.uri, result.home) if tracked else None
    text = _describe(plan, result, tables, tracked, pages)
    key = artifact_key(source, "results")
    create_markdown_artifact(markdown=text, key=key, description="Results")
    for title, table in tables.items():
        rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
        create_table_artifact(table=rows, key=artifact_key(source, title), description=table.caption)
    picture = plan.map_picture(result.products, result.store) if result.computed else None
    if picture is not None:
        # Prefect prints the whole address below the picture of an image artifact.
        text, key = f"![Map of the items]({as_picture_address(picture)})", artifact_key(source, "map")
        create_markdown_artifact(markdown=text, key=key, description="Map of the items")
    if result.changes:
        key = artifact_key(source, "changes")
        create_table_artifact(_changes(result.changes), key=key, description="Changes since the last run")
    if tracked and pages:
        links = {"mlflow": run_address(tracked, pages)}
        links |= {"report": report_address(tracked, pages)} if result.report else {}
        for name, link in links.items():
            text = "run in MLflow" if name == "mlflow" else "report in MLflow"
            create_link_artifact(link, text, key=artifact_key(source, name), description=f"The {text}")


def _describe(
    plan: Plan[ProductsT],
    result: RunResult[ProductsT],
    tables: Mapping[str, Table],
    tracked: TrackedRun | None,
    pages: str | None,
) -> str:
    """The results in Markdown, with the places of report and MLflow run and the command that repeats it."""
    run = RunLog(result.store).find(result.run_id)
    lines = [f"# {name_flow_run(plan)}", ""]
    lines += [f"- run `{result.run_id}`, {result.computed} of {len(result.stages)} stages computed"]
    lines += [f"- items since the last run: {describe_counts(result.changes) or 'no change'}"]
    lines += [f"- report: `{result.report}`"] if result.report else []
    if tracked:
        short = tracked.parent_id[:8]
        place = f"[{short}]({run_address(tracked, pages)})" if pages else short
        lines += [f"{_MLFLOW_RUN}{place} at `{tracked.uri}`"]
    lines += [f"- not tracked: {result.untracked}"] if result.untracked else []
    lines += [f"- repeat it: `{command_again(run, plan.config)}`", ""]
    for title, table in tables.items():
        lines += [f"## {title}", "", render_markdown(table)]
    # The address of the MLflow run has no secret, but a fragment, which `hide_secrets` would cut.
    return "\n".join(line if line.startswith(_MLFLOW_RUN) else hide_secrets(line) for line in lines)


def _changes(changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Number and first names of every kind of change."""
    return [
        {"change": kind, "items": count, "first": ", ".join(map(str, changes.get(kind, ())[:_LISTED]))}
        for kind, count in changes.get("counts", {}).items()
    ]


def artifact_key(*words: str) -> str:
    """A key as Prefect accepts it: lower case letters, digits and dashes.

    >>> artifact_key("My photos", "results")
    'my-photos-results'
    """
    return "-".join(re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") or "collection" for word in words)


def as_picture_address(png: bytes) -> str:
    """A figure as an address that contains it, small enough to be kept in Prefect's database.

    The pages of Prefect must not load pictures from MLflow, which is another server.
    """
    from PIL import Image

    with Image.open(io.BytesIO(png), formats=["PNG"]) as figure:
        figure.thumbnail((_PICTURE_WIDTH, _PICTURE_WIDTH))
        small = figure.convert("RGB").quantize(_PICTURE_COLORS)
    buffer = io.BytesIO()
    small.save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
