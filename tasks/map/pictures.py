"""What the map shows of an item: its picture on a sprite sheet, its text, or the first values of its row."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storage.artifacts.regular_files import open_regular
from storage.sources.base import Part
from tasks.stage import Workspace
from tasks.stages.ingest import changed_meanwhile

ABOUT = "pictures.json"
"""Which items are shown, and how."""
_COLUMNS = 16
_PER_SHEET = _COLUMNS * _COLUMNS
# Edge of a tile in pixels, by the largest number of pictures it is used for.
_TILES = ((1_000, 128), (3_000, 96))
_SMALLEST_TILE = 64
_BACKGROUND = (235, 239, 243)
_LONGEST_TEXT = 280
_MOST_VALUES = 12


def sheet_name(number: int) -> str:
    """File name of a sprite sheet."""
    return f"sheet_{number:04d}.jpg"


@dataclass(frozen=True)
class SheetJob:
    """The pictures of one sprite sheet, and the edge of a tile."""

    paths: tuple[Path | None, ...]
    tile: int


def draw_sheet(job: SheetJob) -> tuple[bytes, list[tuple[int, int]]]:
    """Draw a sprite sheet; return it as JPEG, with width and height of each picture (0 if unreadable)."""
    from PIL import Image

    from embedding_core.features.thumbnails import encode_jpeg

    rows = -(-len(job.paths) // _COLUMNS)
    sheet = Image.new("RGB", (_COLUMNS * job.tile, rows * job.tile), _BACKGROUND)
    sizes = []
    for number, path in enumerate(job.paths):
        picture = _shrink(path, job.tile) if path else None
        if picture is not None:
            sheet.paste(picture, (number % _COLUMNS * job.tile, number // _COLUMNS * job.tile))
        sizes.append(picture.size if picture is not None else (0, 0))
    return encode_jpeg(sheet, quality=82), sizes


def _shrink(path: Path, edge: int) -> Any:
    from embedding_core.features.images import UnreadableImage
    from embedding_core.features.thumbnails import shrink_image

    try:
        with open_regular(path) as file:
            return shrink_image(file.read(), edge)
    except UnreadableImage:  # listed in the report
        return None
    except OSError as error:
        raise changed_meanwhile(str(path)) from error


def pack_pictures(
    ids: Sequence[str], part: Part, rows: Sequence[int], workspace: Workspace
) -> dict[str, bytes]:
    """Pack what is shown of the items in `rows`: sprite sheets, texts or values."""
    about: dict[str, Any] = {"ids": [ids[row] for row in rows], "kind": part.content}
    if part.content == "text":
        about["texts"] = [_read_text(part, row) for row in rows]
    elif part.content == "features":
        about |= _values(part, rows)
    else:
        return _draw_sheets(about, part, rows, workspace)
    return {ABOUT: json.dumps(about).encode()}


def _read_text(part: Part, row: int) -> str:
    """The beginning of a text, which the part has or which is in a file."""
    if part.texts is not None:
        return (part.texts[row] or "")[:_LONGEST_TEXT]
    path = part.paths[row] if part.paths else None
    if path is None:
        return ""
    try:
        with open_regular(path) as file:
            return file.read(4 * _LONGEST_TEXT).decode("utf-8", "replace")[:_LONGEST_TEXT]
    except OSError as error:
        raise changed_meanwhile(str(path)) from error


def _values(part: Part, rows: Sequence[int]) -> dict[str, Any]:
    """The first values of supplied features."""
    assert part.X is not None
    shown = min(part.X.shape[1], _MOST_VALUES)
    X: Any = part.X[list(rows), :][:, :shown]
    values = X if isinstance(X, np.ndarray) else X.toarray()
    names = (part.feature_names or [f"feature {number + 1}" for number in range(shown)])[:shown]
    return {
        "names": names,
        "more": part.X.shape[1] - shown,
        "values": [[f"{value:.4g}" for value in row] for row in values.tolist()],
    }


def _draw_sheets(
    about: dict[str, Any], part: Part, rows: Sequence[int], workspace: Workspace
) -> dict[str, bytes]:
    tile = next((edge for most, edge in _TILES if len(rows) <= most), _SMALLEST_TILE)
    paths = [part.paths[row] if part.paths else None for row in rows]
    jobs = [
        SheetJob(tuple(paths[start : start + _PER_SHEET]), tile) for start in range(0, len(paths), _PER_SHEET)
    ]
    files: dict[str, bytes] = {}
    sizes: list[tuple[int, int]] = []
    with workspace.reporter.progress("map[pictures]", len(jobs)) as advance:
        for number, (sheet, found) in enumerate(workspace.executor.map(draw_sheet, jobs)):
            files[sheet_name(number)] = sheet
            sizes += found
            advance(number + 1)
    about |= {"tile": tile, "columns": _COLUMNS, "per_sheet": _PER_SHEET, "sizes": sizes}
    return {ABOUT: json.dumps(about).encode(), **files}
