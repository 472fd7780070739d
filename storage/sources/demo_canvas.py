"""The canvas on which the demo scenes are painted: color, what each pixel shows, noise, light, haze.

Colors are planes, (3, height, width), red first. Painters work back to front. Beside its color every pixel
remembers the material painted last, so that the labels of a scene are read off the finished picture: what is
covered or cropped away is not a label.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Array = NDArray[np.floating[Any]]
Rgb = tuple[float, float, float]


class Material(IntEnum):
    """What a pixel shows."""

    OTHER = 0
    SKY = 1
    CLOUD = 2
    MOUNTAIN = 3
    SNOWCAP = 4
    WATER = 5
    SAND = 6
    GRASS = 7
    FLOWER = 8
    TREE = 9
    SNOW = 10
    BUILDING = 11


@dataclass(frozen=True)
class Light:
    """Colors of one kind of light; `sun` is (x, height above the horizon), both as shares of the picture."""

    name: str
    zenith: Rgb
    horizon: Rgb
    ambient: Rgb
    haze: Rgb
    mist: float
    sun: tuple[float, float]
    sun_color: Rgb

    @property
    def dark(self) -> bool:
        """Whether it is night: lamps are lit, stars may show."""
        return self.name == "night"


@dataclass
class Canvas:
    """A picture in the making; lengths are in units of its height, `x` from the left, `y` from the top."""

    width: int
    height: int
    light: Light
    rng: np.random.Generator
    rgb: Array = field(init=False)
    material: NDArray[np.uint8] = field(init=False)

    def __post_init__(self) -> None:
        self.rgb = np.zeros((3, self.height, self.width), dtype=np.float32)
        self.material = np.zeros((self.height, self.width), dtype=np.uint8)

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return self.height, self.width

    @property
    def aspect(self) -> float:
        """Width over height: the largest `x`."""
        return self.width / self.height

    @property
    def x(self) -> Array:
        """Abscissa of the pixel centers, (1, width)."""
        return ((np.arange(self.width, dtype=np.float32) + 0.5) / self.height)[None, :]

    @property
    def y(self) -> Array:
        """Ordinate of the pixel centers, (height, 1)."""
        return ((np.arange(self.height, dtype=np.float32) + 0.5) / self.height)[:, None]

    def lit(self, color: Rgb | Array, depth: float | Array = 0.0) -> Array:
        """Surface color under the scene's light, fading into the haze with depth 0..1."""
        shown = planes(color) * planes(self.light.ambient)
        if isinstance(depth, float) and depth == 0.0:
            return shown
        return mix(shown, self.light.haze, np.asarray(depth, dtype=np.float32) * np.float32(self.light.mist))

    def paint(self, color: Array, alpha: Array, material: Material, top: int = 0, left: int = 0) -> None:
        """Blend `color` over the canvas where `alpha`; from one half on the pixel shows `material`.

        `alpha` is (h, w) and is placed with its corner at (top, left); what falls outside is cut off.
        """
        rows, columns = alpha.shape
        y0, y1 = max(top, 0), min(top + rows, self.height)
        x0, x1 = max(left, 0), min(left + columns, self.width)
        if y0 >= y1 or x0 >= x1:
            return
        cut = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
        here = (slice(y0, y1), slice(x0, x1))
        shown = color[:, *cut] if color.shape[1:] == alpha.shape else color
        weight = alpha[cut]
        self.rgb[:, *here] += (shown - self.rgb[:, *here]) * weight
        self.material[here][weight >= 0.5] = material

    def noise(
        self, cells: float = 4.0, stretch: float = 1.0, gain: float = 0.5, rows: int | None = None
    ) -> Array:
        """Fractal noise over the canvas or so many of its rows; `cells` counts over the whole height."""
        rows = self.height if rows is None else rows
        return fractal(self.rng, (rows, self.width), cells * rows / self.height, stretch, gain)

    def band(self, top: float, bottom: float) -> tuple[int, Array]:
        """First row and ordinates (rows, 1) of the rows between two heights, at least two."""
        first = min(max(int(top * self.height), 0), self.height - 2)
        last = max(min(int(bottom * self.height) + 1, self.height), first + 2)
        return first, self.y[first:last]

    def stamp(
        self,
        sprite: Image.Image,
        x: float,
        base: float,
        height: float,
        material: Material,
        depth: float = 0.0,
    ) -> None:
        """Paste an RGBA sprite standing on `base`, `height` tall, centered on `x`, lit and hazed."""
        rows = max(round(height * self.height), 2)
        columns = max(round(rows * sprite.width / sprite.height), 2)
        pixels = np.asarray(sprite.resize((columns, rows), Image.Resampling.BILINEAR), dtype=np.float32) / 255
        top, left = round(base * self.height) - rows, round(x * self.height) - columns // 2
        pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1))
        self.paint(self.lit(pixels[:3], depth), pixels[3], material, top, left)

    def overlay(self, image: Image.Image, material: Material, depth: float | None = 0.0) -> None:
        """Blend an RGBA picture of the canvas's size; `depth` None leaves its colors as they are."""
        box = image.getbbox()
        if box is None:
            return
        pixels = np.ascontiguousarray(
            (np.asarray(image.crop(box), dtype=np.float32) / 255).transpose(2, 0, 1)
        )
        color = pixels[:3] if depth is None else self.lit(pixels[:3], depth)
        self.paint(color, pixels[3], material, box[1], box[0])

    def sheet(self) -> Image.Image:
        """An empty transparent picture of the canvas's size, to draw on and then `overlay`."""
        return Image.new("RGBA", (self.width, self.height))


def resample(values: Array, shape: tuple[int, int]) -> Array:
    """Bicubic resampling of a plane to (rows, columns)."""
    image = Image.fromarray(np.ascontiguousarray(values, dtype=np.float32))
    return np.asarray(image.resize((shape[1], shape[0]), Image.Resampling.BICUBIC), dtype=np.float32)


def fractal(
    rng: np.random.Generator,
    shape: tuple[int, int],
    cells: float = 4.0,
    stretch: float = 1.0,
    gain: float = 0.5,
) -> Array:
    """Fractal noise with mean 0 and deviation 1.

    Each octave doubles the grid of the one before and adds finer detail, `gain` times as strong.

    Parameters
    ----------
    rng : Generator
    shape : (rows, columns)
    cells : float
        Grid cells along the height in the first octave.
    stretch : float
        How many times longer than tall a feature is.
    gain : float
        Strength of an octave relative to the one before: 0.3 is smooth, 0.7 rough.
    """
    rows, columns = shape
    grid = (max(round(cells), 2), max(round(cells * columns / rows / stretch), 2))
    values = rng.standard_normal(grid, dtype=np.float32)
    strength = 1.0
    while 3 * grid[0] <= rows or 3 * grid[1] <= columns:
        grid = (min(2 * grid[0], rows), min(2 * grid[1], columns))
        strength *= gain
        if strength < 0.02:
            break
        values = resample(values, grid) + np.float32(strength) * rng.standard_normal(grid, dtype=np.float32)
    values = resample(values, shape)
    # Every third pixel says as much about mean and deviation as all of them, at a ninth of the time.
    sample = values[::3, ::3] if rows > 9 else values
    return (values - sample.mean()) * (1 / (sample.std() + np.float32(1e-6)))


def ridge(rng: np.random.Generator, columns: int, cells: float, gain: float = 0.5) -> Array:
    """A fractal line 0..1 of so many columns, `cells` bumps wide at its coarsest."""
    across = np.linspace(0, 1, columns, dtype=np.float32)
    line = np.zeros(columns, dtype=np.float32)
    knots, strength = max(round(cells), 1), 1.0
    while knots < columns and strength > 0.02:
        heights = rng.standard_normal(knots + 1, dtype=np.float32)
        place = across * np.float32(knots)
        left = np.minimum(place.astype(np.intp), knots - 1)
        line += np.float32(strength) * (
            heights[left] + (heights[left + 1] - heights[left]) * smoothstep(0.0, 1.0, place - left)
        )
        knots, strength = 2 * knots, strength * gain
    line -= line.min()
    return line / max(float(line.max()), 1e-6)


def ground_texture(
    canvas: Canvas, horizon: float, cells: float, stretch: float = 1.0, gain: float = 0.6
) -> Array:
    """Noise lying on a plane that runs from the viewer's feet to the horizon, (height, width).

    Grain becomes finer and weaker with distance, as on a real lawn or sea; above the horizon it is 0.
    """
    size = 256
    texture = fractal(canvas.rng, (size, size), cells, 1.0, gain)
    start = min(max(int(horizon * canvas.height), 0), canvas.height - 1)
    drop = np.maximum(canvas.y[start:] - np.float32(horizon), np.float32(0.004))
    distance = np.float32(0.6 * (1 - horizon)) / drop
    u = (canvas.x - np.float32(canvas.aspect / 2)) * distance * np.float32(230.0 / stretch) + np.float32(
        size / 2
    )
    v = distance * np.float32(190.0) + np.zeros_like(canvas.x)
    sampled = texture[_bounce(v, size), _bounce(u, size)]
    plane = np.zeros(canvas.shape, dtype=np.float32)
    plane[start:] = sampled * np.clip(np.float32(6.0) * drop - np.float32(0.024), 0, 1)
    return plane


def _bounce(position: Array, size: int) -> NDArray[np.int32]:
    """Index into a texture that is mirrored at its borders, so that it continues without a seam."""
    cell = np.floor(position).astype(np.int32) % (2 * size)
    return np.minimum(cell, 2 * size - 1 - cell)


def smoothstep(low: float, high: float, value: Array) -> Array:
    """0 below `low`, 1 above `high`, smooth between."""
    t = np.clip((value - np.float32(low)) / np.float32(high - low), 0, 1)
    return t * t * (3 - 2 * t)


def planes(color: Rgb | Array) -> Array:
    """A color as (3, 1, 1), ready to be spread over a picture; planes stay as they are."""
    values = np.asarray(color, dtype=np.float32)
    return values[:, None, None] if values.ndim == 1 else values


def mix(first: Rgb | Array, second: Rgb | Array, share: Array | float) -> Array:
    """Color planes between `first` and `second`; `share`, a number or (height, width), of the second."""
    a = planes(first)
    blend = (planes(second) - a) * np.asarray(share, dtype=np.float32)
    blend += a
    return blend


def jitter(rng: np.random.Generator, color: Sequence[float], amount: float = 0.05) -> Rgb:
    """A color near `color`: brightness and hue moved a little."""
    shift = (rng.standard_normal(4) * amount).tolist()
    red, green, blue = (
        min(max(c + (shift[3] + 0.5 * s) * (0.25 + c), 0.0), 1.0) for c, s in zip(color, shift, strict=False)
    )
    return red, green, blue


def pick(rng: np.random.Generator, options: Sequence[Rgb], amount: float = 0.04) -> Rgb:
    """One of the colors, moved a little."""
    return jitter(rng, options[int(rng.integers(len(options)))], amount)


def bytes_of(color: Sequence[float], alpha: int = 255) -> tuple[int, int, int, int]:
    """A color as Pillow's drawing functions take it."""
    red, green, blue = (int(min(max(c, 0.0), 1.0) * 255) for c in color)
    return red, green, blue, alpha
