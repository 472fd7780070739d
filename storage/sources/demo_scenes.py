"""The demo scenes: composed, painted, photographed, and labeled by what is seen of them.

A scene is drawn from its own random stream, so the k-th scene does not depend on how many are asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from storage.sources import demo_compositions as compositions
from storage.sources.demo_camera import take_picture
from storage.sources.demo_canvas import Canvas, Material
from storage.sources.demo_sky import choose_light

LABELS: tuple[str, ...] = (
    "sky", "clouds", "sunset", "night", "mountains", "snow",
    "water", "sand", "grass", "flowers", "trees", "buildings",
)  # fmt: skip

# What a viewer would say of a pixel: a snow-capped slope is snow and mountain, a cloud is part of the sky.
SHOWS: dict[Material, tuple[str, ...]] = {
    Material.OTHER: (),
    Material.SKY: ("sky",),
    Material.CLOUD: ("sky", "clouds"),
    Material.MOUNTAIN: ("mountains",),
    Material.SNOWCAP: ("mountains", "snow"),
    Material.WATER: ("water",),
    Material.SAND: ("sand",),
    Material.GRASS: ("grass",),
    Material.FLOWER: ("flowers",),
    Material.TREE: ("trees",),
    Material.SNOW: ("snow",),
    Material.BUILDING: ("buildings",),
}

# Shares of the picture: from `SEEN` on a thing is a label, up to `UNSEEN` nobody would miss it.
# A scene with something between the two is drawn anew, so that labels and picture agree.
UNSEEN, SEEN = 0.003, 0.018
SUNSET_SKY = 0.08
ATTEMPTS = 40
OVERSAMPLING = 1.5


@dataclass(frozen=True)
class Recipe:
    """A kind of scene: how to paint it, how often, under which lights."""

    paint: Callable[[Canvas], None]
    chance: float
    lights: dict[str, float]


_DAY = {"noon": 4.0, "morning": 1.5, "overcast": 2.0}
RECIPES: tuple[Recipe, ...] = (
    Recipe(compositions.paint_coast, 2.0, {**_DAY, "sunset": 3.5, "night": 0.8}),
    Recipe(compositions.paint_lake, 1.5, {**_DAY, "sunset": 2.0, "night": 0.8}),
    Recipe(compositions.paint_meadow, 1.7, {**_DAY, "sunset": 1.0}),
    Recipe(compositions.paint_alps, 2.2, {**_DAY, "sunset": 1.2, "night": 0.6}),
    Recipe(compositions.paint_winter, 1.2, {**_DAY, "sunset": 1.0, "night": 1.2}),
    Recipe(compositions.paint_city, 1.6, {**_DAY, "sunset": 1.5, "night": 6.0}),
    Recipe(compositions.paint_village, 1.2, {**_DAY, "sunset": 1.0, "night": 1.5}),
    Recipe(compositions.paint_desert, 0.9, {"noon": 3.0, "morning": 1.0, "sunset": 1.5}),
    Recipe(compositions.paint_flower_bed, 0.7, _DAY),
    Recipe(compositions.paint_forest, 0.6, _DAY),
    Recipe(compositions.paint_street, 0.7, {**_DAY, "night": 1.5}),
    Recipe(compositions.paint_shallows, 0.7, _DAY),
)


@dataclass(frozen=True)
class Scene:
    """A finished picture and the labels of what it shows, in the order of `LABELS`."""

    image: Image.Image
    labels: tuple[str, ...]


def draw_scene(seed: int, index: int, size: tuple[int, int]) -> Scene:
    """Draw the scene of that number.

    Parameters
    ----------
    seed, index : int
        Together they choose everything about the scene.
    size : (width, height)
        Size in pixels; the width of a scene may be up to an eighth smaller.

    Returns
    -------
    Scene
    """
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng((seed, index, attempt))
        canvas = _compose(rng, size)
        image, material = take_picture(canvas, size)
        labels = visible_labels(material, canvas.light.name)
        if labels:
            return Scene(image, labels)
    raise RuntimeError(f"scene {index} of seed {seed}: nothing unambiguous in {ATTEMPTS} attempts")


def visible_labels(material: np.ndarray, light: str) -> tuple[str, ...]:
    """Labels of a picture from what its pixels show; empty if something is half seen.

    Parameters
    ----------
    material : (height, width) array of Material
    light : str
        Name of the light: `sunset` is seen only in the sky, `night` everywhere.
    """
    counts = np.bincount(material.ravel(), minlength=len(Material)) / material.size
    share = dict.fromkeys(LABELS, 0.0)
    for kind, names in SHOWS.items():
        for name in names:
            share[name] += float(counts[kind])
    if any(UNSEEN < part < SEEN for part in share.values()):
        return ()
    if light == "sunset" and share["sky"] < SUNSET_SKY:
        return ()
    found = {name for name, part in share.items() if part >= SEEN}
    found |= {light} & {"sunset", "night"}
    return tuple(name for name in LABELS if name in found)


def _compose(rng: np.random.Generator, size: tuple[int, int]) -> Canvas:
    """Choose a kind of scene and a light that goes with it, and paint it."""
    chances = np.array([recipe.chance for recipe in RECIPES])
    recipe = RECIPES[int(rng.choice(len(RECIPES), p=chances / chances.sum()))]
    names, weights = zip(*recipe.lights.items(), strict=True)
    name = str(rng.choice(names, p=np.array(weights) / sum(weights)))
    canvas = Canvas(
        round(size[0] * OVERSAMPLING), round(size[1] * OVERSAMPLING), choose_light(rng, name), rng
    )
    recipe.paint(canvas)
    return canvas
