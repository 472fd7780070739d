"""A saved view of MLflow's table of runs: the columns that compare runs, ready under "Views".

MLflow keeps saved views as tags of an experiment, in the format of its own pages, and opens the view that an
address names. Its own choice of columns, which has neither metrics nor parameters, cannot be changed for an
experiment; the description of the experiment therefore begins with a link to the view.
"""

import json
from collections.abc import Mapping

NAME = "labelscape"
TAG = f"mlflow.sharedViewState.{NAME}"
ADDRESS = f"#/experiments/{{experiment_id}}/runs?viewStateShareKey={NAME}&workflowType=machine_learning"
"""Part of an address after that of the server."""

_RUN_NAME, _DATASET = "attributes.`Run Name`", "attributes.`Dataset`"
_FIXED = {_RUN_NAME: 240, _DATASET: 185}


def make_view(columns: Mapping[str, int], created: float) -> str:
    """The tag of a view.

    Parameters
    ----------
    columns : mapping of str to int
        Width in pixels by column, for instance `metrics.macro_f1`.
    created : float
        Time in seconds since 1970.
    """
    widths = {**_FIXED, **{_quote(name): width for name, width in columns.items()}}
    state = {
        "selectedColumns": [name for name in widths if name != _RUN_NAME],
        "columnOrder": list(widths),
        "columnWidths": widths,
    }
    # The state is text inside text: MLflow may also compress it.
    return json.dumps({"name": NAME, "createdAt": round(created * 1000), "state": json.dumps(state)})


def _quote(column: str) -> str:
    kind, _, name = column.partition(".")
    return f"{kind}.`{name}`"
