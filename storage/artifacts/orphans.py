"""Orphans: blobs that nothing refers to, left by killed processes or belonging to damaged artifacts.

Run records and pointers in quarantine are not orphans, see `storage.artifacts.quarantine`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from storage.artifacts.blobs import Blobs, BlobStat
from storage.artifacts.keys import QUARANTINE, RESERVED_FOLDERS
from storage.artifacts.manifest import (
    Location,
    check_manifest,
    data_location,
    lock_name,
    manifest_location,
)

# Written under a random name, or prepared under the fixed name of an artifact's draft.
_TEMPORARY = re.compile(
    r"\w+/.+\.[0-9a-f]{16,32}\.tmp|\w+/[0-9a-f]{2}/[0-9a-f]{64}(-[0-9a-f]{64})?\.parquet\.tmp"
)


@dataclass(frozen=True)
class LiveBlobs:
    """Names of the manifests in a store, and of the data that they name."""

    manifests: frozenset[str]
    data: frozenset[str]


def list_locations(stats: Mapping[str, BlobStat]) -> list[Location]:
    """List the artifacts that have a manifest, sorted by stage and key."""
    found = (manifest_location(name) for name in stats)
    return sorted((one for one in found if one), key=str)


def find_live(blobs: Blobs) -> LiveBlobs:
    """Read every manifest of a store."""
    locations = {one.manifest: one for one in list_locations(blobs.list_blobs())}
    data = [
        locations[name].data(content["digest"])
        for name, raw in blobs.read_many(locations).items()
        if (content := check_manifest(str(locations[name]), raw).content)
    ]
    return LiveBlobs(frozenset(locations), frozenset(data))


def find_young(blobs: Blobs, stats: Mapping[str, BlobStat]) -> set[str]:
    """List the blobs within the grace period, by the clock of the store itself."""
    now = max((one.modified for one in stats.values()), default=None)
    return {name for name, one in stats.items() if now and now - one.modified < blobs.grace}


def find_orphans(blobs: Blobs, live: LiveBlobs, is_copy: bool = False) -> list[str]:
    """List the orphans of a place, manifests first, except those that a running process works on.

    Parameters
    ----------
    blobs : Blobs
    live : LiveBlobs
        What the store keeps.
    is_copy : bool
        Whether `blobs` only holds local copies of a shared store. Then artifacts that the store no longer has
        are orphans too, and so are quarantined records: the records at the address are authoritative.
    """
    stats = blobs.list_blobs()
    young = find_young(blobs, stats)
    found = [
        name
        for name in stats
        if _is_orphan(name, live, is_copy) and name not in young and blobs.local.is_idle(name)
    ]
    return [*sorted(found, key=lambda name: (not name.endswith(".json"), name)), *blobs.list_litter()]


def _is_orphan(name: str, live: LiveBlobs, is_copy: bool) -> bool:
    folder, _, rest = name.partition("/")
    if folder == QUARANTINE:
        return is_copy or rest.partition("/")[0] not in RESERVED_FOLDERS
    if data_location(name):
        return name not in live.data
    if is_copy and manifest_location(name):
        return name not in live.manifests
    return _TEMPORARY.fullmatch(name) is not None


def remove_orphans(blobs: Blobs, live: LiveBlobs, store: Blobs, is_copy: bool = False) -> list[str]:
    """Remove the orphans of a place and return their names. Blobs that a running process works on stay.

    `store` are the blobs whose manifests decide what is kept; the other arguments are those of
    `find_orphans`.
    """
    removed = []
    for name in find_orphans(blobs, live, is_copy):
        with blobs.local.try_hold(lock_name(name)) as acquired:
            if acquired and not _is_named(name, store):
                # Releasing a lock removes its file; a second removal could hit another process's file.
                if not name.startswith("locks/"):
                    blobs.delete(name)
                removed.append(name)
    return removed


def _is_named(name: str, store: Blobs) -> bool:
    """Whether the manifest of a data blob names it: it may have been published since it was listed."""
    location = data_location(name)
    if location is None:
        return False
    content = check_manifest(str(location), store.read(location.manifest)).content
    return content is not None and name == location.data(content["digest"])
