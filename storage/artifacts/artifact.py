"""What a stage hands to the store, and what it gets back."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata as distributions
from typing import TYPE_CHECKING, Any

from storage.artifacts.keys import ArtifactRef, Recipe

if TYPE_CHECKING:
    import pyarrow as pa

_SHORT = 1000
_NAMED_VERSIONS = ("labelscape", "numpy", "scipy", "scikit-learn", "pyarrow")


@dataclass(frozen=True)
class Artifact:
    """What a stage produced, before it is stored.

    Attributes
    ----------
    kind : str
        Its schema, see `storage.artifacts.schemas`.
    table : pyarrow.Table, or iterable of pyarrow.RecordBatch
        The rows; an iterable is consumed while it is written, so that memory stays flat.
    metadata : mapping of str to str
        Kept in the footer; read after the last row, so that a stream may complete it.
    schema : pyarrow.Schema, optional
        Of the batches; needed with an iterable only.
    links : tuple of ArtifactRef
        Further artifacts that it is of no use without.
    history : mapping
        What led to it, as plain values. It stands in the manifest beside the data, not in the data: the same
        content has the same digest, however it came about.
    """

    kind: str
    table: pa.Table | Iterable[pa.RecordBatch]
    metadata: Mapping[str, str] = field(default_factory=dict)
    schema: pa.Schema | None = None
    links: tuple[ArtifactRef, ...] = ()
    history: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> pa.Schema:
        """The schema of the rows."""
        return self.table.schema if self.schema is None else self.schema  # type: ignore[union-attr]

    def batches(self) -> Iterable[pa.RecordBatch]:
        """The rows in portions."""
        return self.table.to_batches() if self.schema is None else self.table  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `Store.compute` did: the artifact, whether it was there already, the seconds this call took."""

    ref: ArtifactRef
    cached: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class SetAside:
    """An artifact (or pointer) that was found damaged, and why."""

    name: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """As a plain dictionary, as runs keep it."""
        return {"artifact": self.name, "reason": self.reason}


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _NAMED_VERSIONS:
        with suppress(distributions.PackageNotFoundError):
            found[name] = distributions.version(name)
    return found


def describe(recipe: Recipe, ref: ArtifactRef, size: int, begun: float, artifact: Artifact) -> dict[str, Any]:
    """What the manifest of an artifact says."""
    return ref.to_json() | {
        "bytes": size,
        # Short entries again, so that a plan can be made without opening the data.
        "metadata": {name: text for name, text in artifact.metadata.items() if len(text) <= _SHORT},
        "links": [f"{link.stage}/{link.key}" for link in artifact.links],
        "link_digests": [link.digest for link in artifact.links],
        "history": dict(artifact.history),
        "recipe": recipe.ingredients(),
        "seconds": round(time.perf_counter() - begun, 6),
        "created": datetime.now(UTC).isoformat(),
        "versions": _versions(),
    }


def as_ref(manifest: Mapping[str, Any]) -> ArtifactRef:
    """The reference of the artifact that a manifest describes."""
    return ArtifactRef(**{name: manifest[name] for name in ArtifactRef.__slots__})
