"""What a stage passes to the store, and what the store returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from storage.artifacts.keys import ArtifactRef

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Artifact:
    """The result of a stage before it is stored.

    Attributes
    ----------
    kind : str
        Its schema, see `storage.artifacts.schemas`.
    table : pyarrow.Table, or iterable of pyarrow.RecordBatch
        The rows. An iterable is consumed while it is written, so memory use stays constant.
    metadata : mapping of str to str
        Stored in the footer. It is read after the last row, so a stream may complete it.
    schema : pyarrow.Schema, optional
        Schema of the batches; required only with an iterable.
    links : tuple of ArtifactRef
        Artifacts that this one cannot be used without.
    history : mapping
        How it was computed, as plain values. It is stored in the manifest and not in the data, so equal
        content has the same digest regardless of its history.
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
        # the type checker cannot know that `table` is a Table if no schema was given
        return self.table.schema if self.schema is None else self.schema  # type: ignore[union-attr]

    def batches(self) -> Iterable[pa.RecordBatch]:
        """The rows in batches."""
        # as in `columns`
        return self.table.to_batches() if self.schema is None else self.table  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of `ArtifactStore.compute`: the artifact, whether it was stored before, seconds of the call."""

    ref: ArtifactRef
    cached: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class QuarantinedBlob:
    """An artifact or pointer that was found damaged and moved to quarantine, and why."""

    name: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """As a plain dictionary, as run records keep it."""
        return {"artifact": self.name, "reason": self.reason}
