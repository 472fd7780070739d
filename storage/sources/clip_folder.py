"""Folders of video clips: one item per clip, by its key frames and the sound around them.

An item is a clip, not a key frame. The paper of LPSSVM (Section 4.4) labels and samples whole clips; key
frames of one clip are nearly equal, so a fold that separated them would test on what it was trained on.
Features of a clip are the mean over its key frames, and over their sounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from storage.errors import SourceError
from storage.sources.base import Note, Part, Piece, SourceOptions, combine_digests
from storage.sources.clips import ClipContent, UnusableClip, read_clip, require_av
from storage.sources.image_files import ImageListing
from storage.sources.image_folder import ImageFolder, ImageReader
from storage.sources.label_places import LabelPart
from storage.sources.media import VIDEO, Medium


@dataclass(frozen=True)
class ClipFolder(ImageFolder):
    """A folder of clips. Without label files the sub-folders are the classes."""

    medium: Medium = VIDEO

    def _read_items(self, cache_dir: Path) -> tuple[ImageListing, tuple[Part, ...]]:
        """The clips that can be decoded; others are listed."""
        require_av()
        listing, digests = self._list(cache_dir)
        found: list[ClipContent] = []
        problems: dict[int, str] = {}
        for number, (path, digest) in enumerate(zip(listing.images.values(), digests, strict=True)):
            try:
                found.append(read_clip(path, digest, self.options.every_seconds, cache_dir))
            except UnusableClip as error:
                problems[number] = str(error)
        if not found:
            name = next(iter(listing.images))
            raise SourceError(
                f"{self.folder} contains {len(digests)} clips, but none can be read; the first is {name}: "
                f"{problems[0]}. Check the files."
            )
        listing = listing.without(problems)
        notes = [*listing.notes, *_damage_notes(listing, found)]
        return replace(listing, notes=notes), _parts(found)


def _damage_notes(listing: ImageListing, found: list[ClipContent]) -> list[Note]:
    return [
        Note(name, None, f"{clip.damaged} packets or frames are damaged; the others are used")
        for name, clip in zip(listing.images, found, strict=True)
        if clip.damaged
    ]


def _parts(clips: list[ClipContent]) -> tuple[Part, ...]:
    """Pictures and sound; a clip without sound lacks that part."""
    return (
        _part("images", [clip.frames for clip in clips]),
        _part("sound", [clip.sounds for clip in clips]),
    )


def _part(name: str, pieces: list[tuple[Piece, ...]]) -> Part:
    assert name in ("images", "sound")
    return Part(
        name=name,
        content="images" if name == "images" else "sound",
        digests=[combine_digests(piece.digest for piece in own) if own else "" for own in pieces],
        paths=[own[0].path if own else None for own in pieces],
        pieces=pieces,
    )


class VideoReader(ImageReader):
    """Opens folders of clips."""

    kind = VIDEO.kind
    supports = "a folder of clips (.mp4, .mkv, .mov, .avi, .webm), labeled like images"
    medium: Medium | None = VIDEO

    def _make(self, folder: Path, label_parts: tuple[LabelPart, ...], options: SourceOptions) -> ClipFolder:
        return ClipFolder(folder, label_parts, options, self._medium)
