"""Images in WebDataset shards: one .tar file, or a folder of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from storage.errors import SourceError
from storage.sources.base import (
    IMAGE_PARTS,
    Collection,
    FileReader,
    Match,
    Note,
    Part,
    PartName,
    SourceOptions,
    combine_digests,
    limit_notes,
    refuse_if_strict,
)
from storage.sources.image_files import holds_images
from storage.sources.label_places import split_in_name
from storage.sources.labeling import Labeling, label_sets, no_labels, settle_labels
from storage.sources.listing import digest_files, index_path
from storage.sources.shards import ShardContent, ShardItem, read_shard, shards_in


@dataclass(frozen=True)
class ShardSource:
    """The shards of a data set."""

    path: Path
    options: SourceOptions
    kind: str = "webdataset"
    parts: tuple[PartName, ...] = IMAGE_PARTS

    @property
    def name(self) -> str:
        return self.path.stem

    def digest(self, cache_dir: Path) -> str:
        shards = shards_in(self.path)
        files = digest_files(shards, index_path(cache_dir, self.path))
        names = [shard.name for shard in shards]
        return combine_digests(["shards", self.options.labels or "", *names, *files])

    def read(self, cache_dir: Path) -> Collection:
        """Read the shards; their images are files below the cache folder afterwards."""
        shards = shards_in(self.path)
        digests = digest_files(shards, index_path(cache_dir, self.path))
        found = [
            read_shard(shard, digest, self.options.labels, cache_dir)
            for shard, digest in zip(shards, digests, strict=True)
        ]
        items = [item for one in found for item in one.items]
        if not items:
            raise SourceError(
                f"{self.path} contains no image under a key (WebDataset: 1.jpg with 1.cls or 1.json). Unpack "
                "other archives, and give the folder."
            )
        notes = [
            Note(shard.name, None, text)
            for shard, one in zip(shards, found, strict=True)
            for text in one.problems
        ]
        refuse_if_strict(notes, self.options)
        labeling, dropped = settle_labels(self._labels(items), self.options, self.path.name)
        splits = [split_in_name(shard.name) for shard in shards]
        split = [name for name, one in zip(splits, found, strict=True) for _ in one.items]
        paths = [one.folder / item.file for one in found for item in one.items]
        return Collection(
            kind=self.kind,
            ids=_ids(shards, found),
            parts=(Part("images", "images", [item.digest for item in items], paths=paths),),
            labels=labeling.Y,
            label_names=labeling.names,
            split=split if any(split) else None,
            single_label=labeling.single_label,
            notes=[*limit_notes(notes), *dropped],
            recognized={"id": "keys of the members", **self._recognized()},
        )

    def _recognized(self) -> dict[str, str]:
        return {"labels": "members .cls or .json"} if self.options.labeled else {}

    def _labels(self, items: list[ShardItem]) -> Labeling:
        if not self.options.labeled:
            return no_labels(len(items))
        several = any(item.listed or len(item.labels or ()) > 1 for item in items)
        rows = [item.labels if several or item.labels else None for item in items]
        return label_sets(rows, single_label=not several)


def _ids(shards: list[Path], found: list[ShardContent]) -> list[str]:
    """The keys, below the name of their shard if shards use the same ones."""
    keys = [item.key for one in found for item in one.items]
    if max(Counter(keys).values()) == 1:
        return keys
    return [
        f"{shard.stem}/{item.key}" for shard, one in zip(shards, found, strict=True) for item in one.items
    ]


class ShardReader(FileReader):
    """Opens WebDataset shards."""

    kind = "webdataset"
    supports = "a .tar shard of WebDataset, or a folder of them, with .cls or .json labels"
    reads_folders = True

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        """A .tar file, or a folder of them without images of its own."""
        if not shards_in(path):
            return Match.NO
        if path.is_dir():
            return Match.NO if holds_images(path, cache_dir) else Match.POSSIBLE
        return Match.POSSIBLE

    def open(self, path: Path, options: SourceOptions) -> ShardSource:
        """Open a shard or a folder of shards."""
        return ShardSource(path, options)
