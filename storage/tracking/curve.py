"""The curve of scores over the number of labels: one run of MLflow per experiment, one step per number."""

from collections.abc import Mapping
from typing import Any

from storage.tracking.client import Tracker
from storage.tracking.models import NOTE, ROLE

CURVE = "curve"
"""Role of the run; commands that list runs of labelscape do not show it."""
_NAME = "scores over the number of labels"
_ABOUT = "Macro F1 of each new model over its number of labeled items (step), and what was forecast."


class LabelCurve:
    """Adds points to the curve of an experiment.

    Parameters
    ----------
    tracker : Tracker
    experiment : str
    """

    def __init__(self, tracker: Tracker, experiment: str) -> None:
        self._tracker, self._experiment = tracker, experiment

    def add(self, labels: int, values: Mapping[str, float]) -> None:
        """Add values at a number of labels."""
        with self._tracker.connected() as client:
            run_id = self._find(client)
            for name, value in values.items():
                client.log_metric(run_id, name, float(value), step=labels)

    def points(self, name: str) -> list[tuple[int, float]]:
        """The values of a curve in the order they were added."""
        with self._tracker.connected() as client:
            return [(one.step, one.value) for one in client.get_metric_history(self._find(client), name)]

    def _find(self, client: Any) -> str:
        place = client.get_experiment_by_name(self._experiment).experiment_id
        found = client.search_runs([place], filter_string=f"tags.`{ROLE}` = '{CURVE}'", max_results=1)
        if found:
            return str(found[0].info.run_id)
        made = client.create_run(place, run_name=_NAME, tags={ROLE: CURVE, NOTE: _ABOUT})
        client.set_terminated(made.info.run_id)
        return str(made.info.run_id)
