"""What the tracker and Prefect show of a run: a name that says what differs, and the facts beside it."""

import json
import re
from collections.abc import Mapping
from typing import Any

from flows.config import RunConfig
from flows.run_settings import changed_values, method_params, resolved_config
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.run_log import Kind
from storage.urls import redact
from tasks.changes import changes_between
from tasks.runs import load_last_run, source_place
from tasks.stage import Workspace
from tasks.stages.tracking import Facts, FindChanges

_METHODS, _PARAMS = "embedding.methods", "embedding.params."
_SEPARATOR = " · "
_SHOWN_METHODS = 3
_LONGEST = 120
_WORD = re.compile(r"[A-Za-z][\w+-]*")


def describe_run(config: RunConfig, source_name: str, kind: Kind = "run") -> str:
    """Name of a run: its configured name, else the source, the methods and the changed settings.

    >>> describe_run(RunConfig(affinity={"n_neighbors": 15}), "photos")
    'photos · n_neighbors=15'
    """
    if config.name:
        return config.name
    parts = [
        source_name,
        *(["auto"] if kind == "auto" else []),
        *_methods(config, kind),
        *differences(config),
    ]
    name = _SEPARATOR.join(parts)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def differences(config: RunConfig) -> list[str]:
    """The changed settings, as short as they can be read: `hsv`, `n_neighbors=15`, `mlda.n_components=3`."""
    return [_shorten(key, value) for key, value in changed_values(config).items()]


def _methods(config: RunConfig, kind: Kind) -> list[str]:
    names = config.embedding.methods
    if kind == "auto" or names == RunConfig().embedding.methods:
        return []
    return ["+".join(names) if len(names) <= _SHOWN_METHODS else f"{len(names)} methods"]


def _shorten(key: str, value: str) -> str:
    name = key.removeprefix(_PARAMS) if key.startswith(_PARAMS) else key.rpartition(".")[2]
    value = _join_list(value)
    word = _WORD.fullmatch(value) and value not in ("true", "false", "null")
    # A word says what it is; a number needs its name.
    return value if word and name != "path" and not key.startswith(_PARAMS) else f"{name}={value}"


def _join_list(value: str) -> str:
    """The names in a list, joined; other values unchanged."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    names = isinstance(found, list) and found and all(isinstance(one, str) for one in found)
    return "+".join(found) if names else value


def run_facts(
    config: RunConfig,
    name: str,
    experiment: str,
    methods: Mapping[str, Any],
    tags: Mapping[str, str],
    find_changes: FindChanges,
    settings: Mapping[str, Any] | None = None,
) -> Facts:
    """What is logged of a run besides its artifacts; `methods` names the evaluated ones.

    `settings` replaces the recorded configuration.
    """
    return Facts(
        name=name,
        experiment=experiment,
        config=resolved_config(config) if settings is None else settings,
        method_params={method: method_params(config, method) for method in methods},
        settings=" ".join(f"{key}={value}" for key, value in changed_values(config).items()),
        tags=tags,
        place=redact(source_place(config.source)),
        owned=config.tracking.experiment is None,
        differences=tuple(differences(config)),
        find_changes=find_changes,
    )


def changes_of(config: RunConfig, workspace: Workspace, manifest: ArtifactRef | None) -> FindChanges:
    """A function that finds the changes since the last run of the source."""

    def find() -> dict[str, Any] | None:
        last = load_last_run(workspace.store, config.source).get("ingest")
        return changes_between(workspace.store, last, manifest)

    return find
