"""What lies ahead of experiments, and stages that say when all of it will be done."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from math import prod
from typing import Any

from flows.eta import Forecast, Work
from flows.rerun import kind_of
from flows.runner import StageRunner, Submit
from flows.stages import Span
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.run_log import RunLog
from storage.artifacts.store import ArtifactStore, Outcome
from storage.errors import StoreError
from storage.reference.sets import reference_sets
from tasks.reproduce.experiment import TRIALS
from tasks.stage import Stage, Workspace

MEASURING = "reproduce"
"""The stages that are reckoned with. Reading data and drawing take a few hundredths of the time."""

_REPEATS = ("labeled", "images", "readings", "blocks")
"""Settings of protocols that measure once for each entry."""

_GROWTH = 1.25
"""Power of the number of rows. On the sets of quick and full runs single methods lie between 0.8 and 1.7."""


def work_of(label: str, variant: str, params: Mapping[str, Any]) -> Work:
    """A measuring stage as a piece of work, from what its recipe says."""
    name, dataset, _ = variant.split("/", 2)
    arm = params["arm"]
    return Work(
        label=label,
        method=canonical_json([arm["method"], arm["params"], arm["fit_on"]]),
        place=f"{name}/{dataset}",
        amount=_amount(params["settings"], dataset) * len(params["preprocessing"]),
    )


def _amount(settings: Mapping[str, Any], dataset: str) -> float:
    """Trials, each as heavy as its rows make it."""
    known = reference_sets().get(dataset)
    rows, labels = known.size if known else (0, 0)
    wanted = settings.get("rows") or settings.get("most", 0) * labels or rows
    repeats = prod(len(value) for name in _REPEATS if isinstance(value := settings.get(name), (list, tuple)))
    taken = min(wanted, rows) if rows else wanted  # of a set that nobody here has seen only the wish is known
    return float(settings[TRIALS] * repeats * max(taken, 1) ** _GROWTH)


def remember(forecast: Forecast, store: ArtifactStore, found: Mapping[str, ArtifactRef]) -> None:
    """Learn from the stages that are there, and from earlier runs of those that are ahead."""
    if not forecast.ahead:
        return
    earlier = {
        label: ref
        for run in reversed(RunLog(store).entries())
        if kind_of(run) == MEASURING
        for label, ref in run.stages.items()
        if label in forecast.ahead
    }
    for label, ref in {**earlier, **found}.items():
        with suppress(StoreError, KeyError):  # a pace less is no reason to stop
            known = store.details(ref)
            recipe = known["recipe"]
            forecast.learn(work_of(label, recipe["variant"], recipe["params"]), known["seconds"])


class TimedRunner(StageRunner):
    """Executes stages and says when everything ahead will be done."""

    def __init__(self, workspace: Workspace, submit: Submit, forecast: Forecast) -> None:
        super().__init__(workspace, Span(), submit)
        self._forecast = forecast

    def _remark(self, stage: Stage, outcome: Outcome) -> str:
        if stage.name != MEASURING:
            return ""
        self._forecast.finish([stage.label])
        if outcome.cached:
            return ""
        self._forecast.learn(work_of(stage.label, stage.variant, stage.params), outcome.seconds)
        told = self._forecast.tell(datetime.now())
        return f"; {told}" if told else ""
