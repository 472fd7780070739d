"""What an ONNX model takes and returns. Every message says what was found and which setting to add."""

from typing import Any

import numpy as np

from embedding_core.errors import InvalidInput

INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
OUTPUT_TYPES = ("tensor(float)", "tensor(float16)", "tensor(double)")
MAX_SIDE = 4096
_TABLE = "features.onnx"


def image_input(session: Any) -> Any:
    """The only input of a model, if it takes images; it has a name, a type and a shape of sizes or names."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise InvalidInput(
            f"it has {len(inputs)} inputs ({_list(inputs)}); export only the part that turns an image into "
            "features."
        )
    source = inputs[0]
    if source.type not in INPUT_TYPES or len(source.shape) != 4:
        raise InvalidInput(
            f"{_show('input', source)} does not take images; expected (n, 3, height, width) or "
            f"(n, height, width, 3) of {', '.join(INPUT_TYPES)}."
        )
    if isinstance(source.shape[0], int) and source.shape[0] != 1:
        raise InvalidInput(
            f"{_show('input', source)} takes {source.shape[0]} images at once; export the model with a batch "
            "size of 1 or an open one."
        )
    return source


def has_bands_first(source: Any, layout: str, assumed: bool) -> bool:
    """Whether an input is (n, 3, height, width), not (n, height, width, 3).

    Parameters
    ----------
    source : input of a model
    layout : {"auto", "nchw", "nhwc"}
    assumed : bool
        Whether bands come first in a model that leaves every size open.
    """
    first, last = source.shape[1], source.shape[3]
    if layout != "auto":
        bands = first if layout == "nchw" else last
        if isinstance(bands, int) and bands != 3:
            raise InvalidInput(
                f"{_show('input', source)} does not have three bands with {_TABLE}.layout={layout}."
            )
        return layout == "nchw"
    if 3 in (first, last):
        return bool(first == 3)
    if isinstance(first, int) and isinstance(last, int):
        raise InvalidInput(
            f"{_show('input', source)} does not have three bands; give a model for RGB images."
        )
    if assumed:
        return True
    raise InvalidInput(
        f"{_show('input', source)} leaves open where the bands are; add {_TABLE}.layout=nchw if they come "
        f"before height and width, as PyTorch exports them, else {_TABLE}.layout=nhwc."
    )


def image_sides(
    source: Any, bands_first: bool, size: int | None, configured: tuple[int, int] | None
) -> tuple[int, int]:
    """Height and width of the images: the model's own, else the given size, else the configured one."""
    own = source.shape[2:4] if bands_first else source.shape[1:3]
    fixed = (own[0], own[1]) if all(isinstance(side, int) for side in own) else None
    if fixed and size is not None and fixed != (size, size):
        raise InvalidInput(f"{_show('input', source)} has a fixed size; remove {_TABLE}.size={size}.")
    sides = fixed or ((size, size) if size is not None else configured)
    if sides is not None:
        if not all(1 <= side <= MAX_SIDE for side in sides):
            raise InvalidInput(
                f"images of {sides[0]} x {sides[1]} pixels are not from 1 to {MAX_SIDE} per side."
            )
        return sides
    raise InvalidInput(
        f"{_show('input', source)} leaves the size of images open; add {_TABLE}.size with the pixels per "
        "side that the model was trained with, for instance 224."
    )


def choose_output(session: Any, wanted: str | None) -> str:
    """Name of the output with the features."""
    outputs = {one.name: one for one in session.get_outputs()}
    if wanted is not None and wanted not in outputs:
        raise InvalidInput(f"it has no output {wanted!r}; {_TABLE}.output can be {_list(outputs.values())}.")
    if wanted is None and len(outputs) > 1:
        raise InvalidInput(
            f"it has {len(outputs)} outputs: {_list(outputs.values())}; choose one with {_TABLE}.output=NAME."
        )
    name = wanted or next(iter(outputs))
    if outputs[name].type not in OUTPUT_TYPES:
        raise InvalidInput(f"{_show('output', outputs[name])} is not an array of floating-point numbers.")
    return name


def to_rows(values: np.ndarray, n: int, pool: str, bands_first: bool) -> np.ndarray:
    """Turn the output of a model for n images into one float32 row per image.

    Parameters
    ----------
    values : array (n, p), or (n, positions, p), or an image of p channels in the layout of the input
    n : int
    pool : {"none", "mean", "first"}
        Average over positions, or take the first one.
    bands_first : bool
    """
    found = _shape(values.shape)
    positions = values.ndim - 2
    if len(values) != n or positions not in (0, 1, 2):
        raise InvalidInput(f"its output for {n} image(s) has the shape {found}, not one row per image.")
    if values[0].size == max(values.shape[1:]):
        rows = values.reshape(n, -1)
    elif pool == "mean":
        axes = 1 if positions == 1 else ((2, 3) if bands_first else (1, 2))
        rows = values.mean(axis=axes, dtype=np.float32)
    elif pool == "first" and positions == 1:
        rows = values[:, 0]
    else:
        first = f", or {_TABLE}.pool=first for the first one (a class token)" if positions == 1 else ""
        raise InvalidInput(
            f"its output has the shape {found}, one row for each of several positions; add "
            f"{_TABLE}.pool=mean for their mean{first}."
        )
    return rows.astype(np.float32, copy=False)


def _list(values: Any) -> str:
    return ", ".join(f"{one.name} {_shape(one.shape)}" for one in values)


def _shape(shape: Any) -> str:
    return f"({', '.join('?' if size is None else str(size) for size in shape)})"


def _show(kind: str, value: Any) -> str:
    return f"its {kind} {value.name} {_shape(value.shape)} of type {value.type}"
