"""The manifest of an artifact: where its blobs are, what it records, and checks that read no data."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata as distributions
from typing import TYPE_CHECKING, Any

from storage.artifacts.disk import unseal
from storage.artifacts.keys import (
    QUARANTINE,
    RESERVED_FOLDERS,
    ArtifactRef,
    Recipe,
    check_sha256,
    check_stage,
)

if TYPE_CHECKING:
    from storage.artifacts.artifact import Artifact

# fmt: off
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "stage": str, "key": str, "digest": str, "kind": str, "rows": int, "bytes": int, "links": list,
    "link_digests": list, "parents": dict, "recipe": dict, "seconds": (int, float), "created": str,
    "versions": dict,
}
# fmt: on
_MAX_METADATA_CHARS = 1000
_VERSIONED_PACKAGES = ("labelscape", "numpy", "scipy", "scikit-learn", "pyarrow")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Other files in a store are not ours and are left alone.
_ARTIFACT = r"(?P<stage>[a-z][a-z0-9_]*)/(?P<start>[0-9a-f]{2})/(?P<key>(?P=start)[0-9a-f]{62})"
_MANIFEST = re.compile(rf"{_ARTIFACT}\.json")
_DATA = re.compile(rf"{_ARTIFACT}-[0-9a-f]{{64}}\.parquet")
_KEY = re.compile(r"/(?P<key>[0-9a-f]{64})[-.]")
_RECORD = re.compile(r"(?P<record>.+)\.json(\.[0-9a-f]{16,32}\.tmp)?")


@dataclass(frozen=True, slots=True)
class Location:
    """The blob names of one artifact."""

    stage: str
    key: str

    def __post_init__(self) -> None:
        check_stage(self.stage)
        check_sha256(self.key, "key")

    def __str__(self) -> str:
        return f"{self.stage}/{self.key}"

    @property
    def folder(self) -> str:
        """Folder of its blobs."""
        return f"{self.stage}/{self.key[:2]}"

    @property
    def manifest(self) -> str:
        """Name of the manifest."""
        return f"{self.folder}/{self.key}.json"

    def data(self, digest: str) -> str:
        """Name of the data; it contains the digest, so a blob never changes its content."""
        return f"{self.folder}/{self.key}-{digest}.parquet"

    def quarantined(self, name: str) -> str:
        """Name of one of its blobs in quarantine."""
        return f"{QUARANTINE}/{self.stage}/{name.rpartition('/')[2]}"


def parse_location(name: str) -> Location:
    """Return the location of an artifact given as `stage/key`."""
    stage, _, key = name.partition("/")
    return Location(stage, key)


def manifest_location(name: str) -> Location | None:
    """Return the location whose manifest has this blob name, or None for any other blob."""
    return _match(_MANIFEST, name)


def data_location(name: str) -> Location | None:
    """Return the location whose data has this blob name, or None for any other blob."""
    return _match(_DATA, name)


def _match(pattern: re.Pattern[str], name: str) -> Location | None:
    found = pattern.fullmatch(name)
    if found is None or found["stage"] in RESERVED_FOLDERS:
        return None
    return Location(found["stage"], found["key"])


def lock_name(name: str) -> str:
    """Return the name of the lock that guards a blob: the key of its artifact, or the record's name."""
    folder, _, rest = name.removeprefix(f"{QUARANTINE}/").partition("/")
    if folder == "locks":
        return rest.removesuffix(".lock")
    if folder in RESERVED_FOLDERS:
        found = _RECORD.fullmatch(rest)
        return record_lock(folder, found["record"] if found else rest)
    key = _KEY.search(name)
    return key["key"] if key else name.replace("/", "-")


def record_lock(folder: str, record: str) -> str:
    """Return the name of the lock that guards a record, such as `run-0123456789ab`."""
    return f"{folder.removesuffix('s')}-{record}"


@dataclass(frozen=True, slots=True)
class ManifestCheck:
    """Result of checking a manifest: missing, valid (raw and parsed), or a problem."""

    raw: bytes | None = None
    content: dict[str, Any] | None = None
    problem: str | None = None


def check_manifest(name: str, raw: bytes | None) -> ManifestCheck:
    """Parse and validate the manifest of the artifact `name` (`stage/key`); the data is not checked."""
    if raw is None:
        return ManifestCheck()
    try:
        content = unseal(raw)
    except ValueError as error:
        return ManifestCheck(raw, problem=f"its manifest is damaged: {error}")
    problem = _find_mismatch(name, content)
    return ManifestCheck(raw, problem=problem) if problem else ManifestCheck(raw, content)


def _find_mismatch(name: str, content: dict[str, Any]) -> str | None:
    if missing := _FIELDS.keys() - content.keys():
        return f"its manifest lacks {', '.join(sorted(missing))}"
    wrong = [field for field, kind in _FIELDS.items() if not isinstance(content[field], kind)]
    if wrong or not _SHA256.fullmatch(content["digest"]):
        return f"its manifest has another kind of value for {wrong[0] if wrong else 'digest'}"
    if len(content["links"]) != len(content["link_digests"]):
        return "its manifest has not one digest for each link"
    if f"{content['stage']}/{content['key']}" != name:
        return f"its manifest is that of {content['stage']}/{content['key']}"
    return None


def find_size_problem(expected: int, found: int | None) -> str | None:
    """Say what is wrong with the size of the data; `found` is None if the data is missing."""
    if found is None:
        return "its data file is missing"
    return None if found == expected else f"its data file has {found} bytes, not {expected}"


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONED_PACKAGES:
        with suppress(distributions.PackageNotFoundError):
            found[name] = distributions.version(name)
    return found


def describe(
    recipe: Recipe,
    ref: ArtifactRef,
    size: int,
    begun: float,
    artifact: Artifact,
    parents: Mapping[str, ArtifactRef],
) -> dict[str, Any]:
    """Build the manifest of an artifact whose computation began at `begun` (`time.perf_counter`)."""
    return ref.to_json() | {
        "bytes": size,
        # Short entries are repeated here so that a plan can be made without opening the data.
        "metadata": {name: t for name, t in artifact.metadata.items() if len(t) <= _MAX_METADATA_CHARS},
        "links": [f"{link.stage}/{link.key}" for link in artifact.links],
        "link_digests": [link.digest for link in artifact.links],
        "parents": {
            role: {"stage": parent.stage, "key": parent.key, "digest": parent.digest}
            for role, parent in parents.items()
        },
        "history": dict(artifact.history),
        "recipe": recipe.ingredients(),
        "seconds": round(time.perf_counter() - begun, 6),
        "created": datetime.now(UTC).isoformat(),
        "versions": _versions(),
    }


def as_ref(manifest: Mapping[str, Any]) -> ArtifactRef:
    """Return the reference of the artifact that a manifest describes."""
    return ArtifactRef(**{name: manifest[name] for name in ArtifactRef.__slots__})
