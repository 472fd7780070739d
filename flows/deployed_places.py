"""The places that a deployed flow writes to, fixed when it is deployed.

The parameters of a run can be edited on Prefect's pages and through its API. They may choose what a run reads
and computes, but not where it writes, and not which cluster computes: a Dask scheduler is trusted like code.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from flows.config import RunConfig, find_home
from storage.errors import ConfigError
from tasks.executor import parse_executor

# Set for the process of a run by `serve` and `deploy`. Digests only: an address may contain a password.
PLACES_VARIABLE = "LABELSCAPE_DEPLOYED_PLACES"


def digest_places(config: RunConfig | Mapping[str, Any]) -> str:
    """Return the digests of the places of a configuration, as JSON."""
    if not isinstance(config, RunConfig):
        config = RunConfig.model_validate(config)
    places = {
        "home": str(find_home(config)),
        "store": config.store.uri,
        "tracking": config.tracking.uri,
        # A program or an address that a run uses must not come from a parameter that others can edit.
        "notify": config.notify.model_dump_json(),
        "server": config.schedule.database,
        # Answers are merged into the labels of the source.
        "answers": f"{config.schedule.answers} {config.source.path}" if config.schedule.answers else None,
        # Executors on the machine of the run may be exchanged; all give the same results.
        "executor": config.executor if parse_executor(config.executor)[0] == "cluster" else None,
    }
    return json.dumps({name: _digest(place) for name, place in places.items()})


def check_places(config: RunConfig) -> None:
    """Raise ConfigError if a deployed run would use a place that was not deployed."""
    deployed = os.environ.get(PLACES_VARIABLE)
    if deployed is None:
        return
    known, given = json.loads(deployed), json.loads(digest_places(config))
    changed = [name for name in given if given[name] != known.get(name)]
    if changed:
        raise ConfigError(
            f"this run asks for another {' and '.join(changed)} than the deployment. A run writes to, "
            "notifies and computes on only what was deployed; register a second deployment for other places."
        )


def _digest(place: str | None) -> str:
    return hashlib.sha256(repr(place).encode()).hexdigest()[:16]
