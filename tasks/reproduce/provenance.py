"""Provenance of an experiment's numbers: data, settings, seed and code."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.artifacts.keys import ArtifactRef
from storage.sources.base import combine_digests
from tasks.report.tables import Table, render_markdown
from tasks.reproduce.experiment import Experiment

if TYPE_CHECKING:
    from storage.artifacts.store import ArtifactStore

_SHORT = 12

Key = tuple[str, str]
"""Data set and arm title."""


@dataclass(frozen=True)
class Provenance:
    """Provenance of the cells of one method on one data set.

    Attributes
    ----------
    features, labels : str
        Digests of the data set.
    settings : str
        Settings of the protocol as JSON: seed, trials, and how rows are split.
    seed : int or None
        None if the protocol is deterministic.
    code, version : str
        Digest of the code that computed the cells, and the version of labelscape.
    """

    features: str
    labels: str
    settings: str
    seed: int | None
    code: str
    version: str


def trace(store: "ArtifactStore", refs: Mapping[Key, ArtifactRef | None]) -> dict[Key, Provenance]:
    """Provenance of the cells of every arm, read from the store."""
    return {key: _trace_one(store, ref) for key, ref in refs.items() if ref is not None}


def _trace_one(store: "ArtifactStore", ref: ArtifactRef) -> Provenance:
    known = store.details(ref)
    recipe = known["recipe"]
    settings = recipe["params"]["settings"]
    return Provenance(
        features=_features_digest(recipe["inputs"]),
        labels=recipe["inputs"]["labels"],
        settings=json.dumps(settings, sort_keys=True, ensure_ascii=False),
        seed=settings.get("seed"),
        code=combine_digests(f"{name}={digest}" for name, digest in recipe["code"].items()),
        version=known["versions"].get("labelscape", ""),
    )


def _features_digest(inputs: Mapping[str, str]) -> str:
    """Digest of the features, or one digest of several color spaces."""
    found = [digest for name, digest in inputs.items() if name.startswith("features")]
    return found[0] if len(found) == 1 else combine_digests(found)


def provenance_section(
    experiment: Experiment, quick: bool, command: str, made: Mapping[Key, Provenance]
) -> str:
    """Markdown section on how the numbers were computed; empty if that is unknown."""
    by_set = {name: [one for (own, _), one in made.items() if own == name] for name in experiment.datasets}
    lines = tuple(_line(name, found) for name, found in by_set.items() if found)
    if not lines:
        return ""
    header = ("data", "features", "labels", "settings", "code", "labelscape")
    caption = "digests of the data and of the code of all methods"
    table = Table(header, lines, caption, texts=frozenset(range(len(header))))
    what = "quick run" if quick else "full run"
    return f"## How it was made\n\nCommand: `{command}` ({what}).\n\n{render_markdown(table)}"


def _line(dataset: str, found: Sequence[Provenance]) -> tuple[str, ...]:
    """One line per data set: its arms share data and settings, and their code is combined."""
    first = found[0]
    code = combine_digests(one.code for one in found)
    versions = ", ".join(sorted({one.version for one in found}))
    digests = (text[:_SHORT] for text in (first.features, first.labels))
    return (dataset, *digests, first.settings, code[:_SHORT], versions)
