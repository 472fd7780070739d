"""Changes of the items of a source between two runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.keys import ArtifactRef
from storage.artifacts.schemas import Manifest, unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError
from storage.sources import Collection

_SHOWN = 3
# Names stored per kind of change; every `status` reads the manifest, so it must stay small.
_KEPT = 1000


@dataclass(frozen=True)
class ItemChanges:
    """Ids of items that were added, changed, removed, renamed or relabeled.

    `renamed` maps new names to old ones.
    """

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    relabeled: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """For instance `1 changed (a.jpg), 2 added (b.jpg, c.jpg)`; empty without changes."""
        renamed = [f"{old} → {new}" for new, old in self.renamed.items()]
        parts = [
            f"{len(names)} {verb} ({', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''})"
            for verb, names in (
                ("changed", self.changed),
                ("added", self.added),
                ("removed", self.removed),
                ("renamed", renamed),
                ("relabeled", self.relabeled),
            )
            if names
        ]
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Numbers of changes by kind, and the first names of each."""
        names: dict[str, Sequence[Any]] = {
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "renamed": [[old, new] for new, old in self.renamed.items()],
            "relabeled": self.relabeled,
        }
        counts = {kind: len(found) for kind, found in names.items() if found}
        return {"counts": counts, **{kind: found[:_KEPT] for kind, found in names.items() if found}}


def compare_items(
    before: tuple[Sequence[str], Sequence[str]], now: tuple[Sequence[str], Sequence[str]]
) -> ItemChanges:
    """Compare two lists of items, each given as ids and content digests in the same order."""
    old, new = dict(zip(*before, strict=True)), dict(zip(*now, strict=True))
    gone: dict[str, list[str]] = {}
    for name, digest in old.items():
        if name not in new:
            gone.setdefault(digest, []).append(name)
    came = [name for name in new if name not in old]
    renamed = {name: gone[new[name]].pop(0) for name in came if gone.get(new[name])}
    return ItemChanges(
        added=[name for name in came if name not in renamed],
        changed=[name for name in new if name in old and old[name] != new[name]],
        removed=sorted(name for names in gone.values() for name in names),
        renamed=renamed,
    )


def compare_readings(before: Manifest, now: Manifest | Collection) -> ItemChanges:
    """Compare the items and labels of two runs."""
    items = compare_items((before.ids, before.digests), (now.ids, now.digests))
    return replace(items, relabeled=_relabeled(before, now))


def changes_since(store: ArtifactStore, last: Mapping[str, Any] | None, now: Manifest) -> dict[str, Any]:
    """Changes since an earlier manifest as plain data; empty if that manifest is missing.

    Parameters
    ----------
    store : ArtifactStore
    last : mapping or None
        Reference of the earlier manifest in JSON form.
    now : Manifest
    """
    if last is None:
        return {}
    ref = ArtifactRef.from_json(last)
    try:
        known = unpack_manifest(store.read(ref))
    except StoreError:
        return {}
    return {"since": ref.digest, **compare_readings(known, now).to_json()}


def changes_between(
    store: ArtifactStore, last: Mapping[str, Any] | None, now: ArtifactRef | None
) -> dict[str, Any] | None:
    """Changes between two stored manifests, see `changes_since`; None if there are none."""
    if last is None or now is None or last["digest"] == now.digest:
        return None
    return changes_since(store, last, unpack_manifest(store.read(now))) or None


def describe_counts(changes: Mapping[str, Any] | None) -> str:
    """Numbers of changes in words, for instance `2 added, 1 relabeled`; empty without changes."""
    counts = (changes or {}).get("counts", {})
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _relabeled(before: Manifest, now: Manifest | Collection) -> list[str]:
    """Items of both lists whose labels differ."""
    rows = {name: row for row, name in enumerate(before.ids)}
    both = [(name, rows[name], row) for row, name in enumerate(now.ids) if name in rows]
    label_names = sorted({*before.label_names, *now.label_names})
    old = _by_name(before, label_names)[[row for _, row, _ in both]]
    new = _by_name(now, label_names)[[row for _, _, row in both]]
    return [both[place][0] for place in np.flatnonzero((old != new).any(axis=1))]


def _by_name(items: Manifest | Collection, label_names: list[str]) -> NDArray[np.int8]:
    """Labels with one column per name; rows of -1 for unlabeled items."""
    found = np.zeros((len(items.ids), len(label_names)), np.int8)
    found[:, [label_names.index(name) for name in items.label_names]] = items.labels
    found[(items.labels < 0).all(axis=1)] = -1
    return found
