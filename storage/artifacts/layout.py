"""Where the files of the store lie, and whether what lies there is whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.artifacts.disk import make_folder, read_if_there, store_errors, sync_folder, unseal
from storage.artifacts.keys import DAMAGED, RESERVED_FOLDERS, check_sha256, check_stage

# fmt: off
_FIELDS = {
    "stage", "key", "digest", "kind", "rows", "bytes", "links", "recipe", "seconds", "created", "versions",
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one artifact."""

    name: str
    manifest: Path
    data: Path
    lock: Path


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at a place: nothing, a manifest (as bytes and as content), or a problem."""

    raw: bytes | None = None
    content: dict[str, Any] | None = None
    problem: str | None = None


def _complaint(name: str, content: dict[str, Any]) -> str | None:
    if missing := _FIELDS - set(content):
        return f"its manifest lacks {', '.join(sorted(missing))}"
    if f"{content['stage']}/{content['key']}" != name:
        return f"its manifest is that of {content['stage']}/{content['key']}"
    return None


def read_manifest(name: str, raw: bytes | None) -> Look:
    """What the manifest of an artifact says, before a look at its data."""
    if raw is None:
        return Look()
    try:
        content = unseal(raw)
    except ValueError as error:
        return Look(raw, problem=f"its manifest cannot be trusted: {error}")
    problem = _complaint(name, content)
    return Look(raw, problem=problem) if problem else Look(raw, content)


def check_size(look: Look, size: int | None) -> Look:
    """The same, or the problem that the data are gone (None) or of another size."""
    if look.content is None or size == look.content["bytes"]:
        return look
    if size is None:
        return Look(look.raw, problem="its data file is gone")
    return Look(look.raw, problem=f"its data file has {size} bytes, not {look.content['bytes']}")


def look_at(place: Place) -> Look:
    """Read an artifact's manifest and check it, and the size of the data, without reading the data."""
    look = read_manifest(place.name, read_if_there(place.manifest))
    if look.content is None:
        return look
    with store_errors(place.data):
        try:
            return check_size(look, place.data.stat().st_size)
        except FileNotFoundError:
            return check_size(look, None)


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths under the folder of a store."""

    root: Path

    def place(self, stage: str, key: str) -> Place:
        """Of an artifact."""
        check_stage(stage)
        check_sha256(key, "key")
        folder = self.root / stage / key[:2]
        lock = self.root / "locks" / f"{key}.lock"
        return Place(f"{stage}/{key}", folder / f"{key}.json", folder / f"{key}.parquet", lock)

    @property
    def in_use(self) -> Path:
        """Lock that every run shares and who removes artifacts wants alone."""
        return self.root / "locks" / "in-use.lock"

    def artifacts(self) -> Iterator[Place]:
        """Places that have a manifest, by stage and key."""
        for path in self.files("??/*.json"):
            yield self.place(path.parent.parent.name, path.stem)

    def files(self, pattern: str) -> Iterator[Path]:
        """Files of a pattern below the folder of any stage."""
        with store_errors(self.root):
            folders = sorted(self.root.iterdir()) if self.root.is_dir() else []
        for folder in folders:
            if folder.name not in RESERVED_FOLDERS and folder.is_dir():
                yield from sorted(folder.glob(pattern))

    def move_aside(self, place: Place) -> None:
        """Put the files of a place under `damaged/`, manifest first; the caller holds the lock."""
        target = self.root / DAMAGED / Path(place.name).parent
        with store_errors(target):
            make_folder(target)
            for path in (place.manifest, place.data):
                if path.exists():
                    path.replace(target / path.name)
                    sync_folder(path.parent)
            sync_folder(target)
