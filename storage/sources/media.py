"""Kinds of files that a folder may contain one item each of: images, sound, texts, clips."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

from storage.sources.base import IMAGE_PARTS, PartName


@dataclass(frozen=True)
class Medium:
    """One kind of files.

    Attributes
    ----------
    kind : str
        Kind of the source, the value of `source.kind`.
    noun, one : str
        Name of several such files, and of one with its article, in messages.
    parts : tuple of PartName
        What an item consists of.
    suffixes : frozenset of str
        Suffixes of file names, in lower case.
    max_bytes : int
        Larger files are not read.
    """

    kind: str
    noun: str
    one: str
    parts: tuple[PartName, ...]
    suffixes: frozenset[str]
    max_bytes: int

    def has_name(self, name: str) -> bool:
        """Whether a file name has the suffix of such a file."""
        return suffix_of(name) in self.suffixes


# fmt: off
IMAGES = Medium("images", "images", "an image", IMAGE_PARTS, frozenset((
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp",
    ".ppm", ".pgm", ".pbm", ".pnm",
)), 512 * 2**20)  # an image with the largest number of pixels that is decoded needs less
# fmt: on
VIDEO = Medium(
    "video",
    "clips",
    "a clip",
    (PartName("images", "images"), PartName("sound", "sound")),
    frozenset((".mp4", ".m4v", ".mkv", ".mov", ".avi", ".webm")),
    64 * 2**30,
)
SOUND = Medium(
    "sound",
    "sound files",
    "a sound file",
    (PartName("sound", "sound"),),
    frozenset((".wav", ".flac", ".ogg")),
    512 * 2**20,
)
TEXT = Medium("text", "texts", "a text", (PartName("text", "text"),), frozenset((".txt",)), 10 * 2**20)

# The order decides between equally many files.
MEDIA = (IMAGES, VIDEO, SOUND, TEXT)
# Files that accompany others (notes, captions, licenses) are often texts, one or more for each of them.
_TEXTS_PER_FILE = 10


def suffix_of(name: str) -> str:
    """Suffix of a file name in lower case."""
    return os.path.splitext(name)[1].lower()  # noqa: PTH122, pathlib is ten times slower


def is_media_name(name: str) -> bool:
    """Whether a file name has the suffix of any medium."""
    return any(medium.has_name(name) for medium in MEDIA)


def most_frequent(suffixes: Counter[str]) -> Medium | None:
    """The medium of most files; None if there is none.

    Texts count for a tenth, so that pictures with a caption each are pictures. Among equals, the first of
    `MEDIA` is chosen.
    """
    counts = [sum(suffixes[one] for one in medium.suffixes) for medium in MEDIA]
    weights = [
        count if medium is not TEXT else count / _TEXTS_PER_FILE
        for medium, count in zip(MEDIA, counts, strict=True)
    ]
    return MEDIA[weights.index(max(weights))] if any(counts) else None
