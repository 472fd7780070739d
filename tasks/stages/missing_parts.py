"""Items without one of their parts, for instance clips without sound; known before anything is extracted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceError
from storage.sources import Collection
from storage.sources.base import PartName

_LISTED = 5
# A fact of a manifest: its items without a part.
_FACT = "lacking"


@dataclass(frozen=True)
class Lacking:
    """Items without something that an extractor reads: how many of how many, and the first of them."""

    count: int
    n_items: int
    first: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[str], n_items: int) -> "Lacking":
        """Count items by their ids."""
        return cls(len(names), n_items, tuple(names[:_LISTED]))

    @property
    def is_total(self) -> bool:
        """Whether no item has it."""
        return self.count == self.n_items

    def describe(self, content: str) -> str:
        """Say how many items have no such content, and name the first ones."""
        shown = ", ".join(self.first) + (", ..." if self.count > len(self.first) else "")
        return f"{self.count} of {self.n_items} items have no {content} ({shown})"

    def refuse(self, extractor: str, content: str) -> None:
        """Raise SourceError if there are such items."""
        if self.is_total:
            raise SourceError(
                f"none of the {self.n_items} items has {content}, which {extractor} needs. Name other "
                "extractors: --set features.extractors=NAMES."
            )
        if self.count:
            raise SourceError(
                f"{self.describe(content)}, which {extractor} needs. Set features.fill to mean or median to "
                "fill in the value of the training rows, name other features.extractors, or remove these "
                "items."
            )


def find_lacking(found: Collection) -> dict[str, Lacking]:
    """Items without a part, by its name; a text without words is reported by its extractor."""
    lacking = {}
    for part in found.parts:
        names = [name for name, digest in zip(found.ids, part.digests, strict=True) if not digest]
        if names and part.content != "text":
            lacking[part.name] = Lacking.of(names, len(found.ids))
    return lacking


def lacking_fact(found: Collection) -> dict[str, str]:
    """The fact that ingest stores with its manifest."""
    parts = {name: [one.count, one.n_items, *one.first] for name, one in find_lacking(found).items()}
    return {_FACT: json.dumps(parts)}


def load_lacking(manifest: ArtifactRef | None, store: ArtifactStore) -> dict[str, Lacking]:
    """Items without a part as a manifest states it; empty if the collection has not been read yet."""
    fact = store.details(manifest)["metadata"].get(_FACT, "{}") if manifest else "{}"
    return {name: Lacking(count, n, tuple(first)) for name, (count, n, *first) in json.loads(fact).items()}


def left_out(parts: Sequence[PartName], lacking: Mapping[str, Lacking]) -> list[PartName]:
    """The parts that no item has, where another part is left."""
    absent = [part for part in parts if part.name in lacking and lacking[part.name].is_total]
    return absent if len(absent) < len(parts) else []
