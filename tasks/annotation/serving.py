"""A model as MLflow serves it: pictures, sounds, texts or rows in, labels and scores out.

`mlflow models serve` imports this module by its name (`LOADER`) and calls `_load_pyfunc`. It runs the
extractors that computed the features of the model, and refuses if they are not the same here.
"""

import base64
import binascii
import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedding_core.errors import InvalidInput, UnreadableItem
from storage.artifacts.labeled_items import load_labeled_items
from storage.artifacts.models import load_model
from storage.artifacts.store import ArtifactStore
from storage.errors import LabelscapeError, SourceError
from storage.quoting import shorten
from storage.tracking.models import MODEL_FILE
from storage.tracking.served_model import LABELS, SCORES, ColumnKind, ServedModel, load_arrays
from tasks.annotation.recipes import check_extractor, is_numbered
from tasks.dataset import side_by_side
from tasks.stages.feature_blocks import BlockPlan, blocks_of_recipe
from tasks.stages.features import GIVEN, TABLE, make_extractor, read_content, stack_rows
from tasks.stages.learning import LEARNED, load_learned

if TYPE_CHECKING:
    import pandas as pd

    from embedding_core.annotator import Annotator
    from embedding_core.features.base import FeatureExtractor

LOADER = "tasks.annotation.serving"
FOLDER_VARIABLE = "LABELSCAPE_SERVE_FOLDER"
"""Folder below which a request may name files; default: the working folder."""
_COLUMNS: Mapping[str, str] = {"images": "image", "sound": "sound", "text": "text"}
# A signature with more columns is of no use to a reader.
_MOST_COLUMNS = 1000
# Numbers in an example.
_MOST_NUMBERS = 5000
_EXAMPLE_TEXT = "a short text"
_DATA_ADDRESS = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")


def describe_serving(
    annotator: "Annotator", store: ArtifactStore, labeled: bytes | None = None
) -> ServedModel:
    """How a fitted model is served.

    Parameters
    ----------
    annotator : Annotator
    store : ArtifactStore
        It has what extractors learned; that is stored with the model.
    labeled : bytes, optional
        The labeled items of the model; the first one becomes the example.
    """
    blocks = _served_blocks(annotator)
    arrays = {
        place: load_learned(block.recipe, store)
        for place, block in enumerate(blocks)
        if LEARNED in block.recipe
    }
    columns: dict[str, ColumnKind] = {}
    for block in blocks:
        columns |= _columns_of(block, len(blocks) == 1)
    width = int(annotator.n_features_in_)
    return ServedModel(LOADER, columns, width, _example(annotator, blocks, columns, labeled), arrays)


def _served_blocks(annotator: "Annotator") -> list[BlockPlan]:
    """The blocks that are computed from a request; none if a request must have all features."""
    blocks = blocks_of_recipe(annotator.recipe or {})
    return [] if any(block.is_propagated for block in blocks) else blocks


def _columns_of(block: BlockPlan, alone: bool) -> dict[str, ColumnKind]:
    """What a request contains for one block."""
    extractor = block.recipe.get("extractor", GIVEN)
    if extractor not in (GIVEN, TABLE):
        content = read_content(extractor)
        return {_COLUMNS[content]: "text" if content == "text" else "file"}
    names = block.recipe.get("feature_names") or ()
    if alone and names and len(names) <= _MOST_COLUMNS and not is_numbered(list(names)):
        return dict.fromkeys(names, "number")
    return {} if alone else {block.name: "numbers"}


def _example(
    annotator: "Annotator",
    blocks: Sequence[BlockPlan],
    columns: Mapping[str, ColumnKind],
    labeled: bytes | None,
) -> list[Any]:
    """One item as a request contains it; empty if it would be too long."""
    needs_numbers = not columns or not set(columns.values()) <= {"file", "text"}
    if needs_numbers and annotator.n_features_in_ > _MOST_NUMBERS:
        return []
    numbers = _first_row(annotator, labeled) if needs_numbers else []
    if not columns or set(columns.values()) == {"number"}:
        return numbers
    values, start = {}, 0
    for block in blocks:
        width = _width(block, annotator)
        for name, kind in _columns_of(block, alone=False).items():
            values[name] = _example_of(name, kind, numbers[start : start + width])
        start += width
    return [values[name] for name in columns]


def _example_of(column: str, kind: ColumnKind, numbers: list[float]) -> Any:
    if kind != "file":
        return _EXAMPLE_TEXT if kind == "text" else numbers
    return base64.b64encode(_example_sound() if column == _COLUMNS["sound"] else _example_picture()).decode(
        "ascii"
    )


def _first_row(annotator: "Annotator", labeled: bytes | None) -> list[float]:
    """The features of the first labeled item."""
    if labeled is None or not len((found := load_labeled_items(labeled)).rows):
        return [0.0] * int(annotator.n_features_in_)
    row = found.X[:1]
    dense = row if isinstance(row, np.ndarray) else row.toarray()
    return [float(value) for value in np.nan_to_num(dense)[0]]


def _example_picture() -> bytes:
    """A small picture: light above dark."""
    from PIL import Image

    pixels = np.repeat(np.linspace(230, 40, 64).astype(np.uint8)[:, None], 64, axis=1)
    buffer = io.BytesIO()
    Image.fromarray(np.stack([pixels, pixels, pixels[::-1]], axis=2)).save(buffer, "PNG")
    return buffer.getvalue()


def _example_sound() -> bytes:
    """A tone of a quarter of a second."""
    import wave

    samples = 8000 * np.sin(np.arange(4000) * 2 * np.pi * 440 / 16000)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.astype("<i2").tobytes())
    return buffer.getvalue()


def _width(block: BlockPlan, annotator: "Annotator") -> int:
    return int(block.preparation.get("width", annotator.n_features_in_))


def _load_pyfunc(folder: str) -> "ServedAnnotator":
    """Load a model from its folder; MLflow calls this."""
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES

    place = Path(folder)
    annotator = load_model((place / MODEL_FILE).read_bytes(), SKOPS_TRUSTED_TYPES)
    extractors: dict[int, FeatureExtractor] = {}
    for number, block in enumerate(_served_blocks(annotator)):
        if block.recipe.get("extractor", GIVEN) in (GIVEN, TABLE):
            continue
        check_extractor(block.recipe)
        made = make_extractor(block.recipe)
        extractors[number] = (
            made.with_learned(load_arrays(place, number)) if LEARNED in block.recipe else made
        )
    return ServedAnnotator(annotator, extractors)


class ServedAnnotator:
    """Answers requests with labels and scores.

    Parameters
    ----------
    annotator : Annotator
    extractors : mapping of int to FeatureExtractor
        Extractors by the place of their block.
    """

    def __init__(self, annotator: "Annotator", extractors: Mapping[int, "FeatureExtractor"]) -> None:
        self._annotator = annotator
        self._extractors = extractors
        self._blocks = _served_blocks(annotator)

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> "pd.DataFrame":
        """Return one row per item: the list of its labels, and the score of every label.

        Items are a data frame with the columns of the signature, or rows of numbers if it has none.
        """
        import pandas as pd
        from mlflow.exceptions import MlflowException

        try:
            scores = self._annotator.predict_scores(self._features(model_input))
            decided = self._annotator.decide(scores)
        except (LabelscapeError, InvalidInput) as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        names = [str(name) for name in self._annotator.classes_]
        given = [[name for name, one in zip(names, row, strict=True) if one] for row in decided]
        rated = [{name: float(one) for name, one in zip(names, row, strict=True)} for row in scores]
        return pd.DataFrame({LABELS: given, SCORES: rated})

    def _features(self, items: Any) -> Any:
        """The feature matrix of a request."""
        if not hasattr(items, "columns"):
            return np.atleast_2d(np.asarray(items, dtype=np.float32))
        if not self._blocks:
            return items.to_numpy(dtype=np.float32)
        return side_by_side([self._block(number, items) for number in range(len(self._blocks))])

    def _block(self, number: int, items: "pd.DataFrame") -> Any:
        block = self._blocks[number]
        columns = _columns_of(block, len(self._blocks) == 1)
        if number in self._extractors:
            (column,) = columns
            return _extract(items[column], self._extractors[number], column)
        if block.name in columns:
            return np.asarray(items[block.name].tolist(), dtype=np.float32)
        return items[list(columns) or list(items.columns)].to_numpy(dtype=np.float32)


def _extract(cells: "pd.Series[Any]", extractor: "FeatureExtractor", column: str) -> Any:
    """Features of the files or texts in one column."""
    from embedding_core.features.extraction import read_content as read_file

    rows = []
    for number, cell in enumerate(cells, start=1):
        try:
            content = str(cell).encode() if column == _COLUMNS["text"] else _content(cell, column)
            rows.append(extractor.extract_bytes(read_file(content)))
        except UnreadableItem as error:
            raise SourceError(f"{column} of item {number}: {error}.") from error
    return stack_rows(rows, extractor)


def _content(cell: Any, column: str) -> bytes | Path:
    """The bytes of a file, or its path, from a cell of a request."""
    if isinstance(cell, (bytes, bytearray)):
        return bytes(cell)
    if not isinstance(cell, str):
        found = type(cell).__name__
        raise UnreadableItem(f"expected bytes, base64 or the path of a file, found {found}")
    if match := _DATA_ADDRESS.match(cell):
        return _decode(cell[match.end() :]) or b""
    decoded = _decode(cell)
    if decoded is not None and _is_file(decoded, column):
        return decoded
    return _allowed_path(cell)


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_file(content: bytes, column: str) -> bool:
    """Whether decoded text begins like a file; the base64 of a JPEG begins with a slash, as paths do."""
    if column == _COLUMNS["sound"]:
        return content[:4] in (b"RIFF", b"fLaC", b"OggS", b"FORM") or content[:3] == b"ID3"
    heads = (b"\xff\xd8", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF", b"P5", b"P6")
    return content.startswith(heads)


def _allowed_path(text: str) -> Path:
    """The file that a request names, below the folder that requests may read."""
    root = Path(os.environ.get(FOLDER_VARIABLE) or ".").resolve()
    try:
        path = (root / text).resolve()
    except (OSError, ValueError) as error:
        raise UnreadableItem(f"{shorten(text, 60)!r} is neither base64 of a file nor a path") from error
    if not path.is_relative_to(root):
        raise UnreadableItem(
            f"{shorten(text, 60)!r} is outside the folder that this server reads; start it in another folder "
            f"or set {FOLDER_VARIABLE}"
        )
    return path
