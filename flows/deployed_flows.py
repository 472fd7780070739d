"""The flows of deployments besides `flows.prefect_engine.train`; importing this module imports Prefect."""

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.annotate_source import annotate_source
from flows.config import RunConfig, find_home
from flows.deployed_runs import deployed_run
from flows.notifications import Notice, collection_name, send
from flows.prefect_engine import run_in_this_flow
from flows.prefect_views import artifact_key, name_deployed_run
from flows.refresh import Refresh
from flows.refresh_result import RefreshResult, describe_champion
from flows.runner import Plan, Run, RunResult
from flows.score_moves import moves_table
from flows.selection import SelectionPlan, SelectionResult
from storage.credentials import hide_secrets
from tasks.report.tables import render_markdown

CACHED, DROPPED = "Cached", "Dropped"


def _name() -> str:
    return name_deployed_run(flow_run.parameters)


@flow(name="labelscape-auto", flow_run_name=_name, persist_result=False)
def auto(config: RunConfig) -> RunResult[SelectionResult]:
    """Select a model on the configured collection and register it.

    Parameters
    ----------
    config : RunConfig
        The typed configuration; a server checks it against its schema.
    """
    with deployed_run(config):
        result = run_in_this_flow(Run(SelectionPlan(config)))
        champion, is_new = describe_champion(result.products)
        if is_new:
            notice = Notice("champion", collection_name(config), champion, {"runs": {"auto": result.run_id}})
            send(config, notice, get_run_logger().warning)
        return result


@flow(name="labelscape-annotate", flow_run_name=_name, persist_result=False)
def annotate(config: RunConfig) -> State[Any]:
    """Annotate the configured items with the champion; those without labels if it is a labeled collection.

    The files are in the folder `annotations` of the home.

    Parameters
    ----------
    config : RunConfig
        Its source are the items; `tracking.experiment` names the collection of the champion.
    """
    with deployed_run(config):
        count, files = annotate_source(config, lambda plan: run_in_this_flow(Run(plan)), None, {})
        place = f": {files[0]}" if files else ""
        name = "Completed" if count else CACHED
        return Completed(name=name, message=f"{count} items annotated{place}")


@flow(name="labelscape-refresh", flow_run_name=_name, persist_result=False)
def refresh(config: RunConfig) -> State[Any]:
    """Look at the source; if it changed, repeat what is stale and compare the scores with the last refresh.

    Parameters
    ----------
    config : RunConfig
        The typed configuration.
    """

    def execute(plan: Plan[Any]) -> RunResult[Any]:
        return Run(plan).execute(verbose=True)

    def notify(notice: Notice) -> None:
        send(config, notice, get_run_logger().warning)

    with deployed_run(config):
        result = Refresh(config, execute, notify).run()
        get_run_logger().info(hide_secrets(result.line))
        if result.cached:
            return Completed(name=CACHED, message=result.line)
        _show(config, result)
        return Completed(name=DROPPED if result.drop else "Completed", message=hide_secrets(result.line))


@flow(name="labelscape-prune", flow_run_name=lambda: "prune", persist_result=False)
def prune(config: RunConfig) -> State[Any]:
    """Remove what is older than `schedule.keep_days`.

    Parameters
    ----------
    config : RunConfig
        Only home, tracking and schedule are used.
    """
    from flows.prune import prune_all

    with deployed_run(config):
        text = "; ".join(prune_all(config, find_home(config)))
        get_run_logger().info(hide_secrets(text))
        return Completed(message=hide_secrets(text))


def _show(config: RunConfig, result: RefreshResult) -> None:
    """Create the artifacts of a refresh: how every score moved, and what changed."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    key = artifact_key(collection_name(config))
    lines = [f"# {result.line}", "", "Changed since the last refresh:", ""]
    lines += [f"- {cause}" for cause in result.causes]
    lines += ["", f"{result.annotated} items without labels were annotated.", ""]
    lines += [f"- answers: {result.merged}"] if result.merged else []
    lines += [f"- gained: {'; '.join(result.gained)}"] if result.gained else []
    lines += [f"- to label next: `{result.queue[0]}`"] if result.queue else []
    lines += [""]
    lines += [render_markdown(moves_table(result.moves, config.evaluation.sort_by))]
    lines += [f"- {note}" for note in result.notes]
    text = hide_secrets("\n".join(lines))
    create_markdown_artifact(markdown=text, key=f"{key}-refresh", description="Refresh")
    rows = [
        {"method": one.method, "by": one.kind, "metric": metric, "before": one.before.get(metric),
         "now": one.now.get(metric)}
        for one in result.moves
        for metric in {**one.before, **one.now}
    ]  # fmt: skip
    create_table_artifact(table=rows, key=f"{key}-moves", description="Every score before and now")
