"""Planted near-duplicates: pictures re-encoded, resized, cropped and otherwise changed, found by `review`.

    python -m tests.benchmarks.bench_duplicates [--data FOLDER] [--sets msrc_v2 caltech101]

A copy of every third picture of MSRC v2, or of each of 300 pictures of Caltech-101 (every 17th by name, of
5,353), is added to the collection, one kind of change at a time. Found: the copy is paired with its original.
False: other pairs that are not in the collection itself. The limit of the distance was chosen on MSRC v2.
"""

import argparse
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from embedding_core.features.picture_signature import PictureSignature
from embedding_core.label_care.duplicates import signature_pairs
from tasks.label_care.findings import REACH
from tests.benchmarks.bench_annotation import DATA

Picture = Image.Image


def encode(picture: Picture, quality: int) -> Picture:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return Image.open(io.BytesIO(buffer.getvalue())).convert("RGB")


def crop(picture: Picture, share: float, rng: np.random.Generator) -> Picture:
    """A part of this share of each side, anywhere."""
    width, height = (int(share * side) for side in picture.size)
    left, top = (
        int(rng.integers(0, whole - part + 1))
        for whole, part in zip(picture.size, (width, height), strict=True)
    )
    return picture.crop((left, top, left + width, top + height))


CHANGES: dict[str, Callable[[Picture, np.random.Generator], Picture]] = {
    "JPEG quality 30": lambda one, rng: encode(one, 30),
    "JPEG quality 10": lambda one, rng: encode(one, 10),
    "half the size": lambda one, rng: one.resize((one.width // 2, one.height // 2)),
    "squashed to a square": lambda one, rng: one.resize((200, 200)),
    "15 % brighter": lambda one, rng: one.point(lambda value: min(255, int(1.15 * value))),
    "gray": lambda one, rng: one.convert("L").convert("RGB"),
    "cropped to 98 %, anywhere": lambda one, rng: crop(one, 0.98, rng),
    "cropped to 95 %, anywhere": lambda one, rng: crop(one, 0.95, rng),
    "cropped to 90 %, anywhere": lambda one, rng: crop(one, 0.9, rng),
    "cropped to 90 %, center": lambda one, rng: ImageOps.crop(one, round(0.05 * min(one.size))),
    "cropped to 80 %, anywhere": lambda one, rng: crop(one, 0.8, rng),
    "mirrored": lambda one, rng: ImageOps.mirror(one),
}


@dataclass(frozen=True)
class Pictures:
    """Files of a collection, and the places among them whose copies are planted."""

    files: list[Path]
    copied: range


def read_set(name: str, data: Path) -> Pictures:
    files = sorted((data / name / "images").iterdir())
    if name == "caltech101":
        files = files[::17][:300]
        return Pictures(files, range(len(files)))
    return Pictures(files, range(0, len(files), 3))


def find_copies(found: Pictures) -> None:
    """Print the pairs of the collection itself, and the table of planted copies."""
    files = found.files
    pictures = [Image.open(file).convert("RGB") for file in files]
    extract, half = PictureSignature().extract, PictureSignature().n_features // 2
    rows = np.array([extract(np.asarray(one)) for one in pictures])
    own = {tuple(pair) for pair in signature_pairs(rows[:, :half], rows[:, half:], REACH).tolist()}
    print([[files[a].name, files[b].name] for a, b in sorted(own)], "are in the collection itself")
    print("\n| copy | planted | found | false pairs |\n|---|---|---|---|")
    origin = [*range(len(files)), *found.copied]
    for name, change in CHANGES.items():
        rng = np.random.default_rng(0)
        copies = np.array([extract(np.asarray(change(pictures[row], rng))) for row in found.copied])
        every = np.concatenate([rows, copies])
        pairs = {tuple(pair) for pair in signature_pairs(every[:, :half], every[:, half:], REACH).tolist()}
        right = {(row, len(files) + place) for place, row in enumerate(found.copied)}
        known = {tuple(sorted((origin[a], origin[b]))) for a, b in pairs - right} - own
        false, hits = sum(a != b for a, b in known), len(pairs & right)
        print(f"| {name} | {len(copies)} | {hits} ({hits / len(copies):.0%}) | {false} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sets", nargs="+", default=["msrc_v2", "caltech101"])
    options = parser.parse_args()
    for name in options.sets:
        found = read_set(name, options.data)
        print(f"\n{name}, {len(found.files)} pictures", flush=True)
        find_copies(found)


if __name__ == "__main__":
    main()
