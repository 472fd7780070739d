"""The auto flow as Prefect sees it."""

from contextvars import ContextVar

from prefect import flow

from flows.auto import AutoResult, new_budget, run_auto
from flows.config import RunConfig
from flows.prefect_flows import run_anyhow, run_in_flow
from tasks.budget import Budget

_BUDGET: ContextVar[Budget | None] = ContextVar("labelscape_budget", default=None)


@flow(name="labelscape-auto", validate_parameters=True, persist_result=False)
def auto(config: RunConfig) -> AutoResult:
    """Score the candidates on the configured collection, fit the winner and register it.

    Parameters
    ----------
    config : RunConfig
        The typed configuration; a server checks it against its schema.
    """
    return run_in_flow(lambda stages, tags: run_auto(config, stages, tags, _BUDGET.get()))


def auto_anyhow(config: RunConfig) -> AutoResult:
    """Run the flow, and without Prefect where that fails, within the same budget."""
    budget = new_budget(config)
    token = _BUDGET.set(budget)
    try:
        return run_anyhow(lambda: auto(config), lambda: run_auto(config, budget=budget))
    finally:
        _BUDGET.reset(token)
