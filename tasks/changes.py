"""What happened to the items of a source between two readings."""

from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 3


@dataclass(frozen=True)
class ItemChanges:
    """Ids of items that came, went, changed their content, or only their name."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    renamed: list[str]

    def describe(self) -> str:
        """For instance `1 item changed (a.jpg), 2 added (b.jpg, c.jpg)`; empty where nothing happened."""
        parts = [
            f"{len(names)} {verb} ({', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''})"
            for verb, names in (
                ("changed", self.changed),
                ("added", self.added),
                ("removed", self.removed),
                ("renamed", self.renamed),
            )
            if names
        ]
        return ", ".join(parts)


def compare_items(
    before: tuple[Sequence[str], Sequence[str]], now: tuple[Sequence[str], Sequence[str]]
) -> ItemChanges:
    """Compare two readings, each given as ids and content digests in the same order."""
    old, new = dict(zip(*before, strict=True)), dict(zip(*now, strict=True))
    gone = {name for name in old if name not in new}
    gone_digests = {old[name] for name in gone}
    came = [name for name in new if name not in old]
    renamed = [name for name in came if new[name] in gone_digests]
    kept_digests = {new[name] for name in renamed}
    return ItemChanges(
        added=[name for name in came if name not in set(renamed)],
        changed=[name for name in new if name in old and old[name] != new[name]],
        removed=[name for name in old if name in gone and old[name] not in kept_digests],
        renamed=renamed,
    )
