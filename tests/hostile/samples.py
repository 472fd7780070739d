"""Small honest inputs that cases spoil, and helpers to write them."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

LABELS = ("red", "blue", "red|blue", "blue")


def picture(seed: int = 0, size: tuple[int, int] = (16, 12), mode: str = "RGB") -> Image.Image:
    """A small noisy picture."""
    width, height = size
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def encode(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of a picture in a format of Pillow."""
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def pictures(folder: Path, extra: Mapping[str, str] | None = None, count: int = 4) -> Path:
    """Good pictures with labels.csv; `extra` adds rows for names whose files the case writes."""
    folder.mkdir(parents=True)
    rows = {f"p{number}.png": LABELS[number % len(LABELS)] for number in range(count)}
    for number, name in enumerate(rows):
        (folder / name).write_bytes(encode(picture(number), "PNG"))
    write_csv(folder / "labels.csv", [("filename", "labels"), *rows.items(), *(extra or {}).items()])
    return folder


def quote(cell: object) -> str:
    """A CSV cell in quotes."""
    return '"' + str(cell).replace('"', '""') + '"'


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> Path:
    """Write rows of cells, all quoted."""
    text = "".join(",".join(quote(cell) for cell in row) + "\n" for row in rows)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def table_text(rows: int = 12, features: int = 3) -> str:
    """A CSV table with two classes."""
    rng = np.random.default_rng(5)
    lines = [",".join([*(f"f{k}" for k in range(features)), "class"])]
    for row in range(rows):
        lines.append(
            ",".join([*(f"{value:.3f}" for value in rng.normal(row % 2, 1, features)), "ab"[row % 2]])
        )
    return "\n".join(lines) + "\n"


def write_table(folder: Path, text: str | bytes | None = None, name: str = "t.csv") -> Path:
    """A folder with one CSV table."""
    folder.mkdir(parents=True, exist_ok=True)
    data = table_text() if text is None else text
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape"))
    return folder / name


def flip(data: bytes, position: int, mask: int = 0x10) -> bytes:
    """The bytes with one of them changed."""
    changed = bytearray(data)
    changed[position % len(data)] ^= mask
    return bytes(changed)


def positions(seed: int, size: int, count: int) -> list[int]:
    """Random positions, the same in every run."""
    return sorted(np.random.default_rng(seed).integers(0, size, count).tolist())
