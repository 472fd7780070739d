"""Compositions of the demo scenes: which things stand together, and where in the picture."""

import numpy as np

from storage.sources import demo_details as details
from storage.sources import demo_land as land
from storage.sources import demo_plants as plants
from storage.sources import demo_sky as sky
from storage.sources import demo_town as town
from storage.sources.demo_canvas import Canvas, Material, pick


def _open_sky(canvas: Canvas, horizon: float) -> None:
    """Sky with the clouds that go with the light, sometimes with birds."""
    rng = canvas.rng
    sky.paint_sky(canvas, horizon)
    if canvas.light.name == "overcast":
        sky.paint_clouds(canvas, horizon, "cover")
    elif rng.random() < 0.55:
        kinds = (
            ["bands", "bands", "cumulus", "cirrus"]
            if canvas.light.name == "sunset"
            else ["cumulus", "cumulus", "cirrus"]
        )
        sky.paint_clouds(canvas, horizon, str(rng.choice(kinds)))
    if not canvas.light.dark and rng.random() < 0.1:
        details.paint_birds(canvas, horizon)


def _chance(canvas: Canvas, probability: float) -> bool:
    return bool(canvas.rng.random() < probability)


def _kind_of_tree(canvas: Canvas, *kinds: str) -> str:
    return str(canvas.rng.choice(kinds))


def paint_coast(canvas: Canvas) -> None:
    """Sea and beach, at times a headland, palms or a town by the shore."""
    rng = canvas.rng
    horizon = rng.uniform(0.32, 0.55)
    _open_sky(canvas, horizon)
    if _chance(canvas, 0.25):
        land.paint_mountains(canvas, horizon, rng.uniform(0.16, 0.26), 0.0)
    elif _chance(canvas, 0.2):
        town.paint_skyline(canvas, horizon, rng.uniform(0.12, 0.25))
    land.paint_water(canvas, horizon, rng.uniform(0.05, 0.6), pick(rng, land.WATERS))
    if _chance(canvas, 0.35):
        details.paint_boats(canvas, horizon)
    if _chance(canvas, 0.78):
        reach = rng.uniform(0.2, 0.75) * (1 - horizon)
        tilt = rng.uniform(-0.2, 0.2)
        shore = land.shore_line(canvas, 1.02 - reach + tilt, 1.02 - reach - tilt)
        shore = np.maximum(shore, np.float32(horizon + 0.03))
        land.paint_sand(canvas, horizon, pick(rng, land.SANDS), shore)
        land.paint_surf(canvas, shore)
        if _chance(canvas, 0.3):
            plants.plant_trees(
                canvas, "palm", int(rng.integers(1, 5)), horizon + 0.25, 1.0, rng.uniform(0.5, 0.9)
            )


def paint_lake(canvas: Canvas) -> None:
    """A lake that mirrors mountains and woods, mostly with a green bank in front."""
    rng = canvas.rng
    horizon, height = rng.uniform(0.45, 0.62), rng.uniform(0.26, 0.44)
    _open_sky(canvas, horizon - 0.4 * height)
    kind = _kind_of_tree(canvas, "conifer", "leafy", "autumn")
    if _chance(canvas, 0.8):
        land.paint_mountains(canvas, horizon, height, float(rng.choice([0.0, 0.5, 0.7])))
    if _chance(canvas, 0.7):
        plants.paint_woods(canvas, horizon, rng.uniform(0.06, 0.2), kind, rng.uniform(0.1, 0.5))
    land.paint_water(canvas, horizon, rng.uniform(0.5, 0.98), pick(rng, land.WATERS))
    if _chance(canvas, 0.55):
        bank = land.shore_line(canvas, rng.uniform(0.72, 0.98), rng.uniform(0.72, 0.98), 0.05)
        land.paint_grass(canvas, horizon, pick(rng, land.GREENS), bank)
        if _chance(canvas, 0.5):
            plants.plant_trees(canvas, kind, int(rng.integers(1, 4)), 0.9, 1.0, rng.uniform(0.45, 0.8))


def paint_meadow(canvas: Canvas) -> None:
    """Rolling grassland, at times with flowers, trees, a path, mountains behind."""
    rng = canvas.rng
    horizon = rng.uniform(0.38, 0.6)
    _open_sky(canvas, horizon)
    green = pick(rng, land.GREENS)
    if _chance(canvas, 0.3):
        land.paint_mountains(canvas, horizon, rng.uniform(0.15, 0.3), float(rng.choice([0.0, 0.5])))
    land.paint_hills(canvas, horizon, rng.uniform(0.05, 0.16), green, Material.GRASS)
    kind = _kind_of_tree(canvas, "leafy", "leafy", "autumn", "conifer", "bare")
    wooded = _chance(canvas, 0.65)
    if wooded and _chance(canvas, 0.6):
        plants.paint_woods(canvas, horizon + 0.01, rng.uniform(0.06, 0.14), kind, rng.uniform(0.2, 0.6))
    land.paint_grass(canvas, horizon, green)
    if _chance(canvas, 0.3):
        land.paint_road(canvas, horizon, pick(rng, ((0.62, 0.54, 0.42), (0.46, 0.44, 0.43))))
    if wooded:
        plants.plant_trees(
            canvas, kind, int(rng.integers(1, 7)), horizon + 0.02, 0.95, rng.uniform(0.35, 0.75)
        )
    if _chance(canvas, 0.55):
        _strew_flowers(canvas, horizon, rng.uniform(0.6, 1.6))


def _strew_flowers(canvas: Canvas, horizon: float, plenty: float) -> None:
    colors = [pick(canvas.rng, plants.PETALS) for _ in range(int(canvas.rng.integers(1, 4)))]
    plants.paint_flowers(canvas, horizon, colors, plenty)


def paint_alps(canvas: Canvas) -> None:
    """High mountains over woods, pastures or snowfields."""
    rng = canvas.rng
    horizon, height = rng.uniform(0.58, 0.76), rng.uniform(0.38, 0.58)
    _open_sky(canvas, horizon - 0.5 * height)
    winter = _chance(canvas, 0.4)
    land.paint_mountains(canvas, horizon, height, 0.95 if winter else float(rng.choice([0.0, 0.35, 0.6])))
    kind = "snowy" if winter else "conifer"
    if _chance(canvas, 0.6):
        plants.paint_woods(canvas, horizon + 0.01, rng.uniform(0.06, 0.16), kind, rng.uniform(0.1, 0.4))
    if winter:
        land.paint_snow(canvas, horizon)
    else:
        land.paint_grass(canvas, horizon, pick(rng, land.GREENS))
        if _chance(canvas, 0.3):
            _strew_flowers(canvas, horizon, rng.uniform(0.7, 1.3))
    if _chance(canvas, 0.35):
        plants.plant_trees(canvas, kind, int(rng.integers(2, 9)), horizon + 0.04, 1.0, rng.uniform(0.3, 0.6))
    if _chance(canvas, 0.2):
        town.paint_houses(canvas, horizon + 0.1, rng.uniform(0.1, 0.16), int(rng.integers(1, 4)))


def paint_winter(canvas: Canvas) -> None:
    """Snow-covered country with snowy or bare trees, at times a village."""
    rng = canvas.rng
    horizon = rng.uniform(0.4, 0.6)
    _open_sky(canvas, horizon)
    kind = _kind_of_tree(canvas, "snowy", "snowy", "bare", "conifer")
    land.paint_hills(canvas, horizon, rng.uniform(0.04, 0.14), (0.88, 0.91, 0.97), Material.SNOW)
    wooded = _chance(canvas, 0.8)
    if wooded:
        plants.paint_woods(canvas, horizon, rng.uniform(0.08, 0.18), kind, rng.uniform(0.2, 0.6))
    land.paint_snow(canvas, horizon)
    if _chance(canvas, 0.35):
        town.paint_houses(canvas, horizon + 0.08, rng.uniform(0.12, 0.2), int(rng.integers(2, 7)))
    if wooded:
        plants.plant_trees(canvas, kind, int(rng.integers(1, 9)), horizon + 0.03, 1.0, rng.uniform(0.35, 0.8))


def paint_city(canvas: Canvas) -> None:
    """Towers by a river, a park or a square, often at night."""
    rng = canvas.rng
    horizon, height = rng.uniform(0.64, 0.8), rng.uniform(0.34, 0.6)
    _open_sky(canvas, horizon - 0.4 * height)
    town.paint_skyline(canvas, horizon, height)
    front = str(rng.choice(["water", "park", "street"], p=[0.45, 0.3, 0.25]))
    if front == "water":
        land.paint_water(canvas, horizon, rng.uniform(0.4, 0.9), pick(rng, land.WATERS))
    elif front == "park":
        land.paint_grass(canvas, horizon, pick(rng, land.GREENS))
        plants.plant_trees(
            canvas, "leafy", int(rng.integers(3, 10)), horizon + 0.02, 0.98, rng.uniform(0.22, 0.4)
        )
    else:
        details.paint_square(canvas, horizon)


def paint_village(canvas: Canvas) -> None:
    """Houses among trees and fields, at times by the water or under mountains."""
    rng = canvas.rng
    horizon = rng.uniform(0.4, 0.62)
    _open_sky(canvas, horizon)
    green = pick(rng, land.GREENS)
    if _chance(canvas, 0.5):
        land.paint_mountains(canvas, horizon, rng.uniform(0.24, 0.38), float(rng.choice([0.0, 0.5])))
    land.paint_hills(canvas, horizon, rng.uniform(0.05, 0.15), green, Material.GRASS)
    if _chance(canvas, 0.4):
        plants.paint_woods(canvas, horizon + 0.01, rng.uniform(0.06, 0.14), "leafy", 0.4)
    land.paint_grass(canvas, horizon, green)
    town.paint_houses(
        canvas,
        horizon + rng.uniform(0.06, 0.16),
        rng.uniform(0.13, 0.26),
        int(rng.integers(3, 10)),
    )
    if _chance(canvas, 0.3):
        land.paint_water(
            canvas,
            horizon + rng.uniform(0.2, 0.26),
            rng.uniform(0.4, 0.9),
            pick(rng, land.WATERS),
        )
    elif _chance(canvas, 0.5):
        plants.plant_trees(
            canvas,
            _kind_of_tree(canvas, "leafy", "autumn"),
            int(rng.integers(1, 6)),
            horizon + 0.1,
            1.0,
            rng.uniform(0.35, 0.6),
        )


def paint_desert(canvas: Canvas) -> None:
    """Dunes under an empty sky, at times rock walls or an oasis."""
    rng = canvas.rng
    horizon = rng.uniform(0.38, 0.55)
    _open_sky(canvas, horizon)
    if _chance(canvas, 0.3):
        land.paint_mountains(canvas, horizon, rng.uniform(0.16, 0.28), 0.0)
    land.paint_dunes(canvas, horizon, pick(rng, land.SANDS))
    if _chance(canvas, 0.25):
        plants.plant_trees(canvas, "palm", int(rng.integers(2, 6)), horizon + 0.1, 0.9, rng.uniform(0.3, 0.6))


def paint_flower_bed(canvas: Canvas) -> None:
    """Looking down on a flowering meadow: no horizon."""
    rng = canvas.rng
    land.paint_grass(canvas, -rng.uniform(0.1, 0.5), pick(rng, land.GREENS))
    if _chance(canvas, 0.3):
        plants.plant_trees(canvas, "leafy", int(rng.integers(3, 7)), 0.15, 0.4, rng.uniform(0.4, 0.6))
    _strew_flowers(canvas, -0.05, rng.uniform(0.8, 2.2))


def paint_forest(canvas: Canvas) -> None:
    """Inside a wood: tree behind tree, no sky."""
    rng = canvas.rng
    kind = _kind_of_tree(canvas, "leafy", "autumn", "conifer", "snowy")
    floor = rng.uniform(0.62, 0.8)
    shade = canvas.lit((0.24, 0.30, 0.18) if kind != "snowy" else (0.55, 0.60, 0.68), 0.5)
    canvas.paint(
        shade * (1 + 0.2 * canvas.noise(8.0, 0.5)), np.ones(canvas.shape, dtype=np.float32), Material.TREE
    )
    plants.paint_woods(canvas, floor, rng.uniform(0.3, 0.6), kind, 0.75)
    if kind == "snowy":
        land.paint_snow(canvas, floor)
    else:
        land.paint_grass(canvas, floor, pick(rng, land.GREENS))
    plants.paint_trunks(
        canvas,
        floor,
        int(rng.integers(10, 26)),
        pick(rng, ((0.36, 0.28, 0.22), (0.62, 0.58, 0.54), (0.28, 0.24, 0.22))),
    )
    plants.paint_canopy(canvas, rng.uniform(0.15, 0.4), kind)


def paint_street(canvas: Canvas) -> None:
    """House fronts close by, at times with a tree or flowers before them."""
    rng = canvas.rng
    town.paint_facade(canvas)
    if _chance(canvas, 0.35):
        plants.plant_trees(
            canvas,
            _kind_of_tree(canvas, "leafy", "bare", "autumn"),
            int(rng.integers(1, 4)),
            0.98,
            1.06,
            rng.uniform(0.6, 0.9),
        )
    if _chance(canvas, 0.3):
        _strew_flowers(canvas, 0.82, rng.uniform(0.6, 1.0))


def paint_shallows(canvas: Canvas) -> None:
    """Beach and surf from above: no sky."""
    rng = canvas.rng
    shore = land.shore_line(canvas, rng.uniform(0.2, 0.9), rng.uniform(0.2, 0.9), 0.08)
    land.paint_lagoon(canvas, shore, pick(rng, land.WATERS[:3]))
    land.paint_sand(canvas, -0.4, pick(rng, land.SANDS), shore)
    land.paint_surf(canvas, shore)
