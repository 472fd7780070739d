"""`preprocessor_config.json`, which Hugging Face keeps beside a vision model: size and normalization."""

import json
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from embedding_core.errors import InvalidInput
from embedding_core.features.preprocessing import Fit, Interpolation

NAME = "preprocessor_config.json"
_INTERPOLATIONS: dict[int, Interpolation] = {2: "bilinear", 3: "bicubic"}  # numbers of Pillow's filters
# From this size on, models with a `crop_pct` were trained on squashed images.
_SQUASHED_FROM = 384


@dataclass(frozen=True)
class PreprocessorConfig:
    """What the file says, in the terms of `Preprocessing`; None where it says nothing."""

    size: tuple[int, int] | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    fit: Fit | None = None
    kept: float = 1.0
    interpolation: Interpolation | None = None


def find_config(model: Path) -> Path | None:
    """The file in the folder of a model, or in the folder above (`onnx/model.onnx`)."""
    places = (folder / NAME for folder in (model.parent, model.parent.parent))
    return next((place for place in places if place.is_file()), None)


def read_config(file: Path) -> PreprocessorConfig:
    """Read a file; raises `InvalidInput` if it is not JSON or has values of another kind."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        mean, std = _normalization(found)
        crop = _sides(found.get("crop_size")) if found.get("do_center_crop", "crop_size" in found) else None
        resized = _sides(found.get("size"))
        fit, kept = _fit(found, crop)
        if not 0 < kept <= 1:
            raise ValueError(f"crop_pct {kept} is not a share")
        return PreprocessorConfig(
            size=crop or resized,
            mean=mean,
            std=std,
            fit=fit,
            kept=kept,
            interpolation=_INTERPOLATIONS.get(found.get("resample", 2)),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OSError, ZeroDivisionError) as error:
        raise InvalidInput(
            f"{file} cannot be read as the preprocessing of a model ({error!r}); correct or remove it."
        ) from error


def _sides(size: Any) -> tuple[int, int] | None:
    """Height and width from 224, {"height": 224, "width": 224} or {"shortest_edge": 224}."""
    if size is None:
        return None
    if isinstance(size, dict):
        short = size.get("shortest_edge")
        height, width = (short, short) if short is not None else (size["height"], size["width"])
    else:
        height = width = size
    return int(height), int(width)


def _fit(found: dict[str, Any], crop: tuple[int, int] | None) -> tuple[Fit, float]:
    """How an image of another shape is treated, and the share of its central part that remains."""
    size = found.get("size")
    short = size.get("shortest_edge") if isinstance(size, dict) else size
    if found.get("crop_pct") and short is not None:
        return ("squash", 1.0) if short >= _SQUASHED_FROM else ("crop", float(found["crop_pct"]))
    if crop is not None:
        resized = _sides(size)
        return "crop", min(1.0, crop[0] / resized[0]) if resized else 1.0
    return ("crop", 1.0) if isinstance(size, dict) and "shortest_edge" in size else ("squash", 1.0)


def _normalization(found: dict[str, Any]) -> tuple[Any, Any]:
    """Mean and std on a scale from 0 to 1; (None, None) if the file does not say."""
    mean, std = found.get("image_mean"), found.get("image_std")
    if not found.get("do_normalize", True):
        mean, std = (0.0,) * 3, (1.0,) * 3
    if mean is None or std is None:
        return None, None
    scale = 255 * float(found.get("rescale_factor", 1 / 255)) if found.get("do_rescale", True) else 255.0
    offset = 1.0 if found.get("rescale_offset") else 0.0
    means = [(float(value) + offset) / scale for value in mean]
    deviations = [float(value) / scale for value in std]
    if len(means) != 3 or len(deviations) != 3 or not all(map(isfinite, means + deviations)):
        raise ValueError(f"image_mean {mean} and image_std {std} are not three numbers each")
    if min(deviations) <= 0:
        raise ValueError(f"image_std {std} is not positive")
    return tuple(means), tuple(deviations)
