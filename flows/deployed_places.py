"""The places that a deployed flow writes to, fixed when it is deployed.

The parameters of a run can be edited on Prefect's pages and through its API. They may choose what a run reads
and computes, but not where it writes.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from flows.config import RunConfig, find_home
from storage.errors import ConfigError

# Set for the process of a run by `serve` and `deploy`. Digests only: an address may contain a password.
PLACES_VARIABLE = "LABELSCAPE_DEPLOYED_PLACES"


def digest_places(config: RunConfig | Mapping[str, Any]) -> str:
    """Return the digests of home, store and tracker of a configuration, as JSON."""
    if not isinstance(config, RunConfig):
        config = RunConfig.model_validate(config)
    places = {
        "home": str(find_home(config)),
        "store": config.store.uri,
        "tracking": config.tracking.uri,
    }
    return json.dumps({name: _digest(place) for name, place in places.items()})


def check_places(config: RunConfig) -> None:
    """Raise ConfigError if a deployed run would write to a place that was not deployed."""
    deployed = os.environ.get(PLACES_VARIABLE)
    if deployed is None:
        return
    known, given = json.loads(deployed), json.loads(digest_places(config))
    changed = [name for name in given if given[name] != known.get(name)]
    if changed:
        raise ConfigError(
            f"this run asks for another {' and '.join(changed)} than the deployment. A run writes only to "
            "places that were deployed; register a second deployment for other places."
        )


def _digest(place: str | None) -> str:
    return hashlib.sha256(repr(place).encode()).hexdigest()[:16]
