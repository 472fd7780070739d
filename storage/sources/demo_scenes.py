"""Draw the landscapes of the demo collection, and read their labels off what is visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
from PIL import Image, ImageDraw

LABELS = ("clouds", "sunset", "night", "mountains", "snow", "trees", "water", "buildings")
# A label needs this share of the pixels.
VISIBLE = 0.02
# Scenes are drawn larger and reduced, which smooths the edges.
_SCALE = 1.5
_MATERIALS = {"clouds": 1, "mountains": 2, "snow": 3, "trees": 4, "water": 5, "buildings": 6}

Color = tuple[float, float, float]


@dataclass(frozen=True)
class Scene:
    """A picture and its labels, in the order of `LABELS`."""

    image: Image.Image
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Light:
    """Colors of the sky at the top and at the horizon, the tint of the land, and its frequency."""

    top: Color
    horizon: Color
    tint: Color
    frequency: float


_LIGHTS = {
    "noon": Light((58, 118, 196), (186, 214, 236), (1.0, 1.0, 0.98), 0.34),
    "overcast": Light((132, 142, 156), (196, 200, 206), (0.72, 0.75, 0.8), 0.2),
    "dawn": Light((108, 132, 188), (240, 206, 190), (0.86, 0.78, 0.8), 0.12),
    "sunset": Light((70, 66, 128), (250, 152, 72), (0.74, 0.52, 0.44), 0.19),
    "night": Light((8, 12, 34), (38, 46, 84), (0.2, 0.23, 0.36), 0.15),
}
_CLOUDY = {"noon": 0.45, "overcast": 1.0, "dawn": 0.4, "sunset": 0.5, "night": 0.1}
# Probability of each element by kind of landscape.
_PLACES = {
    "alps": {"mountains": 0.95, "trees": 0.6, "water": 0.35, "buildings": 0.15, "winter": 0.45},
    "coast": {"mountains": 0.25, "trees": 0.35, "water": 1.0, "buildings": 0.3, "winter": 0.05},
    "city": {"mountains": 0.2, "trees": 0.4, "water": 0.4, "buildings": 1.0, "winter": 0.15},
    "country": {"mountains": 0.25, "trees": 0.85, "water": 0.2, "buildings": 0.35, "winter": 0.2},
}
_MEADOWS: tuple[Color, ...] = ((92, 138, 60), (122, 152, 70), (168, 156, 84), (150, 118, 66), (78, 118, 72))
_ROCKS: tuple[Color, ...] = ((116, 110, 112), (132, 112, 98), (96, 104, 120))
_LEAVES: tuple[Color, ...] = ((44, 92, 46), (66, 110, 44), (30, 74, 52), (176, 104, 40), (150, 62, 40))
_WALLS: tuple[Color, ...] = ((206, 196, 180), (168, 120, 98), (142, 146, 156), (228, 222, 210), (112, 98, 96))
_ROOFS: tuple[Color, ...] = ((146, 70, 50), (86, 82, 88), (120, 54, 44))
_SNOW: Color = (236, 240, 248)


def fractal_line(rng: np.random.Generator, n: int, octaves: int, start: int = 2) -> np.ndarray:
    """A random line of n values in [0, 1]; with up to three octaves it is smooth, with more it is jagged."""
    line = np.zeros(n)
    for octave in range(octaves):
        knots = start * 2**octave
        cell, part = np.divmod(np.linspace(0, knots, n), 1)
        part = part * part * (3 - 2 * part) if octaves <= 3 else part
        line += 0.5**octave * np.interp(cell + part, np.arange(knots + 1), rng.random(knots + 1))
    scaled: np.ndarray = (line - line.min()) / max(float(np.ptp(line)), 1e-9)
    return scaled


def fractal_field(rng: np.random.Generator, shape: tuple[int, int], cells: int) -> np.ndarray:
    """A smooth random field with values around 0 and structures that are wider than high."""
    field = np.zeros(shape, np.float32)
    for octave in range(3):
        knots = rng.normal(size=(cells * 2**octave, cells * 2**octave)).astype(np.float32)
        layer = Image.fromarray(knots).resize(shape[::-1], Image.Resampling.BICUBIC)
        field += 0.5**octave * np.asarray(layer)
    return field


class Painter:
    """Paints a scene from back to front and records the material of every pixel."""

    def __init__(self, rng: np.random.Generator, light: str, size: tuple[int, int]) -> None:
        self.rng = rng
        self.light = _LIGHTS[light]
        self.name = light
        self.width, self.height = (round(side * _SCALE) for side in size)
        self.rows = np.arange(self.height, dtype=np.float32)[:, None]
        self.columns = np.arange(self.width, dtype=np.float32)[None, :]
        share = np.clip(self.rows / (0.62 * self.height), 0, 1)[:, :, None]
        sky = np.array(self.light.top) * (1 - share) + np.array(self.light.horizon) * share
        self.pixels = np.repeat(sky, self.width, axis=1).astype(np.float32)
        self.material = np.zeros((self.height, self.width), np.uint8)

    def choose(self, colors: tuple[Color, ...]) -> Color:
        """One of several colors, slightly varied."""
        base = np.array(colors[self.rng.integers(len(colors))]) * self.rng.uniform(0.88, 1.12)
        return tuple(np.clip(base + self.rng.normal(0, 5, 3), 0, 255))

    def lit(self, color: Color, distance: float) -> np.ndarray:
        """A color in the light of the scene, fading into the horizon with the distance (0 to 1)."""
        near = np.array(color) * self.light.tint
        found = near * (1 - 0.75 * distance) + np.array(self.light.horizon) * 0.75 * distance
        return found.astype(np.float32)

    def glow(self) -> None:
        """Sun or moon with a halo, and stars at night."""
        x, y = self.rng.uniform(0.1, 0.9) * self.width, self.rng.uniform(0.08, 0.4) * self.height
        if self.name == "sunset":
            y = self.rng.uniform(0.4, 0.6) * self.height
        if self.name == "night":
            stars = self.rng.random((self.height, self.width)) < 0.0012
            self.pixels[stars] = self.rng.uniform(120, 240, (int(stars.sum()), 1))
        if self.name == "overcast":
            return
        away = np.hypot(self.columns - x, self.rows - y)[:, :, None] / self.height
        disk, halo = (0.028, 0.1) if self.name == "night" else (0.04, 0.22)
        color = np.array((255, 214, 130) if self.name == "sunset" else (255, 250, 228), np.float32)
        strength = np.clip(np.exp(-((away / halo) ** 2)) * 0.7 + (away < disk), 0, 1)
        self.pixels += (color - self.pixels) * strength

    def clouds(self) -> None:
        """Clouds of varied size and density; an overcast sky is covered."""
        field = fractal_field(self.rng, (self.height, self.width), int(self.rng.integers(3, 7)))
        cover = 1.2 if self.name == "overcast" else self.rng.uniform(-0.7, 0.3)
        alpha = np.clip((field + cover) * 1.6, 0, 1) * np.float32(self.rng.uniform(0.6, 0.95))
        shade = np.clip(0.8 + 0.2 * field, 0.5, 1.05)[:, :, None]
        white = {"noon": (248, 250, 252), "sunset": (246, 178, 140), "night": (58, 62, 84)}
        color = np.array(white.get(self.name, (206, 208, 214)), np.float32) * shade
        self.pixels += (color - self.pixels) * alpha[:, :, None]
        self.material[alpha > 0.35] = _MATERIALS["clouds"]

    def ground(self, top: np.ndarray, color: Color, distance: float, material: int, contrast: float) -> None:
        """Fill everything below a line; it gets darker downwards and has a rough texture."""
        first = max(int(top.min()), 0)
        depth = self.rows[first:] - top[None, :].astype(np.float32)
        mask = depth >= 0
        grain = fractal_field(self.rng, mask.shape, 24) * contrast * (1 - distance)
        shade = 1.05 - 0.7 / self.height * depth + grain
        self.pixels[first:][mask] = self.lit(color, distance) * shade[mask][:, None]
        self.material[first:][mask] = material

    def overlay(self, draw: Callable[[ImageDraw.ImageDraw], None], material: int) -> None:
        """Paint shapes that `draw` draws with Pillow."""
        layer = Image.new("RGBA", (self.width, self.height))
        draw(ImageDraw.Draw(layer))
        shapes = np.asarray(layer)
        mask = shapes[:, :, 3] > 0
        self.pixels[mask] = shapes[mask][:, :3]
        self.material[mask] = material

    def mountains(self, level: float, snowy: bool) -> None:
        """Two or three ridges, the far ones paler, with snow above a line."""
        color, count = self.choose(_ROCKS), int(self.rng.integers(2, 4))
        for number in range(count):
            distance = 0.75 - 0.5 * number / count
            tall = self.rng.uniform(0.18, 0.42) * (1 - 0.25 * number) * self.height
            top = level - tall * (0.15 + 0.85 * fractal_line(self.rng, self.width, 7))
            self.ground(top, color, distance, _MATERIALS["mountains"], 0.12)
            if snowy:
                reach = tall * self.rng.uniform(0.25, 0.6) * (0.6 + fractal_line(self.rng, self.width, 6, 8))
                cap = (self.rows >= top[None, :]) & (self.rows < np.minimum(level - 0.4 * tall, top + reach))
                self.pixels[cap] = self.lit(_SNOW, distance * 0.7)
                self.material[cap] = _MATERIALS["snow"]

    def trees(self, line: np.ndarray, size: float, distance: float, winter: bool) -> None:
        """Conifers or broad-leaved trees in groups along a line."""
        conifers, leaves = self.rng.random() < (0.75 if winter else 0.45), self.choose(_LEAVES)
        left, right = np.sort(self.rng.uniform(-0.1, 1.1, 2)) * self.width
        right = max(right, left + 0.3 * self.width)
        feet = np.sort(self.rng.uniform(left, right, int((right - left) / size * 2.2)))

        def draw(pen: ImageDraw.ImageDraw) -> None:
            for x in feet:
                tall = size * self.rng.uniform(0.7, 1.4)
                y = line[int(np.clip(x, 0, self.width - 1))] + self.rng.uniform(0, 0.4) * tall
                color = np.array(leaves) * self.rng.uniform(0.75, 1.2)
                dark = tuple(self.lit(tuple(color * 0.7), distance).astype(int))
                bright = tuple(self.lit(_SNOW if winter else tuple(color * 1.15), distance).astype(int))
                if conifers:
                    for part in (0.0, 0.25, 0.5):
                        wide, tip = 0.3 * tall * (0.55 + part), y - tall * (1 - part * 0.8)
                        foot = tip + 0.5 * tall
                        pen.polygon([(x - wide, foot), (x, tip), (x + wide, foot)], dark)
                        pen.polygon([(x - wide * 0.6, tip + 0.3 * tall), (x, tip), (x, foot)], bright)
                else:
                    pen.rectangle((x - 0.05 * tall, y - 0.4 * tall, x + 0.05 * tall, y), dark)
                    for crown, shift in ((dark, 0.06), (bright, -0.06)):
                        wide, middle = (0.36 - abs(shift)) * tall, y - (0.66 - shift) * tall
                        center = x + shift * tall
                        pen.ellipse((center - wide, middle - wide, center + wide, middle + wide), crown)

        self.overlay(draw, _MATERIALS["trees"])

    def buildings(self, line: np.ndarray, size: float, city: bool, distance: float) -> None:
        """Towers with windows, or houses with roofs; windows are lit at night."""
        left = 0.0 if city else self.rng.uniform(0, 0.6) * self.width
        right = self.width if city else left + self.rng.uniform(0.35, 0.7) * self.width

        def draw(pen: ImageDraw.ImageDraw) -> None:
            x = left
            while x < right:
                wide = size * (self.rng.uniform(0.25, 0.55) if city else self.rng.uniform(0.6, 1.1))
                tall = size * (self.rng.uniform(0.6, 2.6) if city else self.rng.uniform(0.45, 0.8))
                foot = line[int(np.clip(x + wide / 2, 0, self.width - 1))] + 0.25 * size
                wall = self.lit(self.choose(_WALLS), distance)
                base = foot + size if city else foot
                for part, shade in ((0.0, 1.0), (0.7, 0.8)):
                    box = (x + part * wide, foot - tall, x + wide, base)
                    pen.rectangle(box, tuple((wall * shade).astype(int)))
                if not city:
                    roof = tuple(self.lit(self.choose(_ROOFS), distance).astype(int))
                    eaves, ridge = foot - tall, foot - tall - 0.45 * wide
                    pen.polygon([(x - 2, eaves), (x + wide / 2, ridge), (x + wide + 2, eaves)], roof)
                self._windows(pen, (x, foot - tall, wide, tall), wall)
                x += wide * (self.rng.uniform(0.9, 1.3) if city else self.rng.uniform(1.2, 2.5))

        self.overlay(draw, _MATERIALS["buildings"])

    def _windows(
        self, pen: ImageDraw.ImageDraw, box: tuple[float, float, float, float], wall: np.ndarray
    ) -> None:
        x, y, wide, tall = box
        step = 6 * self.height / 192
        for row in np.arange(y + step / 2, y + tall - step / 2, step):
            for column in np.arange(x + step / 2, x + wide - step / 2, step):
                on = self.rng.random() < (0.45 if self.name == "night" else 0.05)
                color = (255, 222, 140) if on else tuple((wall * 0.55).astype(int))
                pen.rectangle((column, row, column + step / 3, row + step / 2.2), color)

    def water(self, level: float) -> None:
        """A lake or the sea: mirrors what is above, broken by waves."""
        first = int(level)
        below = np.arange(first, self.height)
        source = np.clip(first - 1 - (below - first), 0, None)
        color = self.lit(self.choose(((40, 92, 120), (60, 110, 104), (36, 70, 112))), 0.15)
        mixed = self.pixels[source] * 0.62 + color * 0.38
        waves = self.rng.normal(0, 1, len(below)) * np.linspace(0.5, 5, len(below))
        for row, shift in enumerate(waves):
            mixed[row] = np.roll(mixed[row], int(shift), axis=0)
        stripes = fractal_field(self.rng, (len(below), self.width), 40) * self.rng.uniform(2, 9)
        self.pixels[first:] = mixed + stripes[:, :, None]
        self.material[first:] = _MATERIALS["water"]

    def fog(self) -> None:
        """Mist that is dense at the horizon."""
        dense = np.exp(-(((self.rows / self.height - 0.6) / 0.25) ** 2))[:, :, None]
        strength = dense * np.float32(self.rng.uniform(0.3, 0.65))
        self.pixels += (np.array(self.light.horizon, np.float32) - self.pixels) * strength


def draw_scene(seed: int, index: int, size: tuple[int, int]) -> Scene:
    """Draw one scene with at least one label; the same seed, index and size give the same pixels."""
    attempts = (_draw(np.random.default_rng((seed, index, attempt)), size) for attempt in count())
    return next(scene for scene in attempts if scene.labels)


def _draw(rng: np.random.Generator, size: tuple[int, int]) -> Scene:
    names = list(_LIGHTS)
    light = names[rng.choice(len(names), p=[one.frequency for one in _LIGHTS.values()])]
    place = list(_PLACES)[rng.integers(len(_PLACES))]
    has = {name: bool(rng.random() < chance) for name, chance in _PLACES[place].items()}
    painter = Painter(rng, light, size)
    painter.glow()
    if rng.random() < _CLOUDY[light]:
        painter.clouds()
    _paint_land(painter, has, place == "city")
    if rng.random() < 0.12:
        painter.fog()
    return Scene(_photograph(painter, size), visible_labels(painter.material, light))


def _paint_land(painter: Painter, has: dict[str, bool], city: bool) -> None:
    """Mountains, hills with trees and buildings, and water or a meadow in front, from back to front."""
    rng, height, width = painter.rng, painter.height, painter.width
    horizon, winter = rng.uniform(0.45, 0.66) * height, has["winter"]
    if has["mountains"]:
        painter.mountains(horizon + 0.06 * height, winter or rng.random() < 0.35)
    ground, material = (_SNOW, _MATERIALS["snow"]) if winter else (painter.choose(_MEADOWS), 0)
    far = horizon - rng.uniform(0.0, 0.08) * height * fractal_line(rng, width, 2)
    painter.ground(far, ground, 0.45, material, 0.05)
    if has["buildings"]:
        painter.buildings(far, rng.uniform(0.1, 0.2) * height, city, 0.25)
    if has["trees"]:
        painter.trees(far, rng.uniform(0.08, 0.14) * height, 0.3, winter)
    if has["water"]:
        painter.water(horizon + rng.uniform(0.05, 0.14) * height)
    if not has["water"] or rng.random() < 0.4:
        low = (0.86 if has["water"] else 0.7) * height
        near = low + rng.uniform(0.04, 0.14) * height * fractal_line(rng, width, 3)
        painter.ground(near, ground, 0.05, material, 0.1)
        if has["trees"] and rng.random() < 0.6:
            painter.trees(near, rng.uniform(0.16, 0.34) * height, 0.05, winter)


def visible_labels(material: np.ndarray, light: str) -> tuple[str, ...]:
    """Labels of a scene: the light, and the materials that cover enough pixels."""
    seen = {name for name, code in _MATERIALS.items() if (material == code).mean() >= VISIBLE}
    seen |= {light} & {"sunset", "night"}
    return tuple(name for name in LABELS if name in seen)


def _photograph(painter: Painter, size: tuple[int, int]) -> Image.Image:
    """Exposure, white balance, vignette, noise and framing of a camera."""
    rng = painter.rng
    balance = (rng.uniform(0.78, 1.2) * rng.normal(1, 0.05, 3)).astype(np.float32)
    edge = (painter.columns / painter.width - 0.5) ** 2 + (painter.rows / painter.height - 0.5) ** 2
    pixels = painter.pixels * balance * (1 - np.float32(rng.uniform(0, 0.5)) * edge[:, :, None])
    small = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).resize(size, Image.Resampling.BOX)
    noise = rng.standard_normal((size[1], size[0], 3), dtype=np.float32)
    noisy = np.asarray(small) + noise * np.float32(rng.uniform(1, 6))
    narrow = int(rng.integers(0, size[0] // 8 + 1))
    left = int(rng.integers(0, narrow + 1))
    framed = noisy[:, left : size[0] - (narrow - left)]
    if rng.random() < 0.5:
        framed = framed[:, ::-1]
    return Image.fromarray(np.clip(framed, 0, 255).astype(np.uint8))
