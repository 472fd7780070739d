"""Light of the demo scenes, and the sky that shows it: gradient, sun, moon, stars and clouds."""

import math
from dataclasses import replace

import numpy as np

from storage.sources.demo_canvas import (
    Array,
    Canvas,
    Light,
    Material,
    Rgb,
    fractal,
    jitter,
    mix,
    planes,
    smoothstep,
)

LIGHTS: dict[str, tuple[Light, ...]] = {
    "noon": (
        Light("noon", (0.16, 0.40, 0.80), (0.70, 0.84, 0.96), (1.0, 0.99, 0.95),
              (0.70, 0.80, 0.92), 0.45, (0.3, 0.6), (1.0, 0.98, 0.9)),
        Light("noon", (0.25, 0.55, 0.85), (0.86, 0.91, 0.92), (0.98, 0.95, 0.88),
              (0.80, 0.85, 0.90), 0.55, (0.8, 0.5), (1.0, 0.97, 0.9)),
    ),
    "morning": (
        Light("morning", (0.52, 0.66, 0.82), (0.95, 0.91, 0.84), (0.86, 0.84, 0.82),
              (0.86, 0.87, 0.87), 0.85, (0.7, 0.35), (1.0, 0.96, 0.85)),
        Light("morning", (0.62, 0.72, 0.80), (0.88, 0.90, 0.90), (0.80, 0.83, 0.86),
              (0.82, 0.86, 0.89), 0.95, (0.4, 0.4), (1.0, 0.98, 0.92)),
    ),
    "overcast": (
        Light("overcast", (0.52, 0.56, 0.61), (0.78, 0.80, 0.82), (0.70, 0.72, 0.74),
              (0.72, 0.75, 0.78), 0.70, (0.5, 0.8), (0.9, 0.9, 0.9)),
        Light("overcast", (0.36, 0.40, 0.47), (0.66, 0.69, 0.72), (0.58, 0.61, 0.65),
              (0.58, 0.62, 0.67), 0.65, (0.5, 0.8), (0.8, 0.8, 0.8)),
    ),
    "sunset": (
        Light("sunset", (0.20, 0.24, 0.46), (1.00, 0.58, 0.24), (0.52, 0.40, 0.38),
              (0.82, 0.50, 0.36), 0.60, (0.5, 0.07), (1.0, 0.82, 0.45)),
        Light("sunset", (0.38, 0.28, 0.52), (1.00, 0.52, 0.48), (0.56, 0.42, 0.48),
              (0.80, 0.48, 0.52), 0.65, (0.5, 0.04), (1.0, 0.72, 0.55)),
        Light("sunset", (0.30, 0.10, 0.18), (0.96, 0.34, 0.12), (0.45, 0.30, 0.28),
              (0.68, 0.28, 0.18), 0.55, (0.5, 0.05), (1.0, 0.66, 0.25)),
        Light("sunset", (0.46, 0.58, 0.72), (1.00, 0.80, 0.46), (0.74, 0.62, 0.48),
              (0.94, 0.74, 0.52), 0.70, (0.5, 0.12), (1.0, 0.93, 0.68)),
    ),
    "night": (
        Light("night", (0.015, 0.025, 0.08), (0.10, 0.14, 0.27), (0.33, 0.38, 0.54),
              (0.09, 0.12, 0.22), 0.55, (0.6, 0.5), (0.95, 0.95, 0.85)),
        Light("night", (0.03, 0.04, 0.13), (0.24, 0.20, 0.32), (0.41, 0.39, 0.52),
              (0.19, 0.17, 0.28), 0.55, (0.3, 0.4), (0.98, 0.93, 0.8)),
        Light("night", (0.02, 0.07, 0.14), (0.14, 0.27, 0.37), (0.32, 0.43, 0.52),
              (0.12, 0.21, 0.30), 0.55, (0.7, 0.45), (0.9, 0.96, 0.9)),
    ),
}  # fmt: skip

FAINT = 0.06


def choose_light(rng: np.random.Generator, name: str) -> Light:
    """A light of that name, its colors and the place of the sun varied."""
    light = LIGHTS[name][int(rng.integers(len(LIGHTS[name])))]
    brightness = rng.normal(1, 0.07)
    red, green, blue = (c * brightness for c in jitter(rng, light.ambient, 0.03))
    return replace(
        light,
        zenith=jitter(rng, light.zenith, 0.05),
        horizon=jitter(rng, light.horizon, 0.04),
        ambient=(red, green, blue),
        haze=jitter(rng, light.haze, 0.03),
        mist=float(np.clip(light.mist * rng.uniform(0.7, 1.25), 0.2, 0.97)),
        sun=(rng.uniform(0.1, 0.9), light.sun[1] * rng.uniform(0.6, 1.4)),
    )


def paint_sky(canvas: Canvas, horizon: float) -> None:
    """Fill the canvas with sky down to the horizon and beyond (the ground covers the rest)."""
    light, rng = canvas.light, canvas.rng
    t = np.clip(canvas.y / np.float32(max(horizon, 0.05)), 0, 1) ** np.float32(rng.uniform(0.8, 1.8))
    sky = mix(light.zenith, light.horizon, t + np.zeros_like(canvas.x))
    canvas.paint(sky, np.ones(canvas.shape, dtype=np.float32), Material.SKY)
    if light.dark:
        _paint_stars(canvas, horizon)
    _paint_sun(canvas, horizon)


def _paint_stars(canvas: Canvas, horizon: float) -> None:
    rng = canvas.rng
    count = int(rng.integers(20, 160))
    rows = (rng.random(count) * horizon * canvas.height).astype(int).clip(0, canvas.height - 2)
    columns = rng.integers(0, canvas.width - 1, count)
    glow = rng.random(count).astype(np.float32) ** 2 * np.float32(0.75) + np.float32(0.1)
    canvas.rgb[:, rows, columns] += glow
    bright = glow > 0.5
    canvas.rgb[:, rows[bright], columns[bright] + 1] += glow[bright] * np.float32(0.7)
    canvas.rgb[:, rows[bright] + 1, columns[bright]] += glow[bright] * np.float32(0.7)


def _paint_sun(canvas: Canvas, horizon: float) -> None:
    """Disc and glow of the sun or the moon; at noon it mostly stands outside the picture."""
    light, rng = canvas.light, canvas.rng
    sun_x, sun_y = light.sun[0] * canvas.aspect, horizon - light.sun[1]
    distance = np.hypot(canvas.x - np.float32(sun_x), canvas.y - np.float32(sun_y))
    low = light.name == "sunset"
    reach, power = {"sunset": (0.30, 0.75), "night": (0.12, 0.35), "overcast": (0.5, 0.1)}.get(
        light.name, (0.35, 0.35)
    )
    glow = np.exp(-distance / np.float32(reach * rng.uniform(0.8, 1.3))) * np.float32(power)
    canvas.rgb += (planes(light.sun_color) - canvas.rgb) * glow
    shows_disc = (
        low or (light.dark and rng.random() < 0.55) or (light.name == "morning" and rng.random() < 0.3)
    )
    if not shows_disc:
        return
    radius = rng.uniform(0.028, 0.055)
    disc = 1 - smoothstep(radius - 0.006, radius + 0.004, distance)
    if light.dark and rng.random() < 0.5:
        bite = np.hypot(
            canvas.x - np.float32(sun_x + radius * 0.6), canvas.y - np.float32(sun_y - radius * 0.3)
        )
        disc = disc * smoothstep(radius - 0.004, radius + 0.006, bite)
    bright = mix(light.sun_color, (1.0, 1.0, 0.92), 0.5)
    canvas.rgb += (bright - canvas.rgb) * disc


def paint_clouds(canvas: Canvas, horizon: float, kind: str) -> None:
    """Clouds of one kind: `cumulus` heaps, `cirrus` veils, low `bands`, or a closed `cover`."""
    density = _cloud_density(canvas, horizon, kind)
    rng = canvas.rng
    low, high = {"cumulus": (0.25, 0.95), "cirrus": (0.3, 2.2), "bands": (0.45, 1.3), "cover": (-3.2, -1.2)}[
        kind
    ]
    move = rng.uniform(-0.45, 0.35) if kind != "cover" else 0.0
    alpha = smoothstep(low + move, high + move, density)
    if kind != "cover":
        alpha = alpha * smoothstep(0.0, 0.12, np.float32(horizon) - canvas.y)
    side = 1 if canvas.light.sun[0] < 0.5 else -1
    shift = max(canvas.height // 40, 1)
    relief = density - np.roll(density, (-shift, shift * side), axis=(0, 1))
    bright = np.clip(np.float32(0.55) + np.float32(0.55) * relief - np.float32(0.12) * density, 0, 1)
    shadow, shine = _cloud_colors(canvas.light)
    if kind == "cover":
        bright = np.clip(np.float32(0.5) + np.float32(0.22) * density + np.float32(0.2) * relief, 0, 1)
    color = mix(shadow, shine, bright)
    strength = {"cirrus": 0.75, "cover": 0.92}.get(kind, 0.96)
    weight = alpha * np.float32(strength)
    contrast = np.abs(color - canvas.rgb).mean(axis=0) * weight
    canvas.paint(color, weight, Material.SKY)
    # A pale veil before a pale sky is no cloud to the eye, a thin one that stands out is.
    canvas.material[(contrast > FAINT) | ((kind == "cover") & (weight >= 0.5))] = Material.CLOUD


def _cloud_density(canvas: Canvas, horizon: float, kind: str) -> Array:
    """Noise on the underside of the sky: flatter and denser towards the horizon."""
    rng = canvas.rng
    rows = max(round(canvas.height * max(horizon, 0.2)), 16)
    stretch = {"cumulus": 1.6, "cirrus": 5.0, "bands": 7.0, "cover": 2.5}[kind]
    cells = {"cumulus": 2.5, "cirrus": 4.0, "bands": 6.0, "cover": 3.0}[kind]
    slant = rng.uniform(-0.6, 0.6) if kind == "cirrus" else 0.0
    plane = fractal(rng, (rows, canvas.width + canvas.height), cells, stretch, 0.52)
    flat = math.sqrt(rng.uniform(1.0, 2.0))
    fraction = np.clip(np.arange(canvas.height) / rows, 0, 1) ** flat
    offset = (np.arange(canvas.height) * slant).astype(int)
    columns = np.arange(canvas.width)[None, :] + (offset - offset.min())[:, None]
    return np.asarray(plane[(fraction * (rows - 1)).astype(int)[:, None], columns], dtype=np.float32)


def _cloud_colors(light: Light) -> tuple[Rgb, Rgb]:
    """(shadow, shine) of the clouds under a light."""
    if light.name == "sunset":
        red, green, blue = light.horizon
        return (0.42 * red + 0.05, 0.36 * green + 0.08, 0.42 * blue + 0.14), (
            1.0,
            0.45 + 0.45 * green,
            0.35 + 0.5 * blue,
        )
    if light.dark:
        red, green, blue = light.horizon
        return (red * 0.7, green * 0.7, blue * 0.75), (
            red * 1.6 + 0.14,
            green * 1.6 + 0.14,
            blue * 1.35 + 0.14,
        )
    if light.name == "overcast":
        red, green, blue = light.zenith
        return (red * 0.78, green * 0.79, blue * 0.81), (
            red * 1.3 + 0.1,
            green * 1.3 + 0.1,
            blue * 1.25 + 0.1,
        )
    return (0.66, 0.71, 0.79), (1.0, 0.99, 0.97)
