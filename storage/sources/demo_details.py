"""What enlivens the demo scenes and belongs to no label: boats, birds, paving and street lamps."""

import numpy as np
from PIL import ImageDraw

from storage.sources.demo_canvas import Canvas, Material, bytes_of, jitter, pick, planes
from storage.sources.demo_town import LAMPS


def paint_boats(canvas: Canvas, waterline: float) -> None:
    """One to three sailing boats."""
    rng, unit = canvas.rng, canvas.height
    sheet = canvas.sheet()
    draw = ImageDraw.Draw(sheet)
    for _ in range(int(rng.integers(1, 4))):
        x, drop = canvas.aspect * rng.uniform(0.1, 0.9), rng.uniform(0.01, 0.12)
        size, y = 0.05 + 0.9 * drop, waterline + drop
        sail = bytes_of(pick(rng, ((0.96, 0.95, 0.92), (0.85, 0.30, 0.22), (0.92, 0.80, 0.55))))
        draw.polygon(
            [
                ((x + dx * size) * unit, (y - dy * size) * unit)
                for dx, dy in ((0, 1.2), (0, 0.16), (0.55, 0.16))
            ],
            sail,
        )
        draw.polygon(
            [
                ((x + dx * size) * unit, (y - dy * size) * unit)
                for dx, dy in ((-0.05, 1.1), (-0.05, 0.16), (-0.35, 0.16))
            ],
            sail,
        )
        hull = [
            ((x + dx * size) * unit, (y - dy * size) * unit)
            for dx, dy in ((-0.5, 0.12), (0.6, 0.12), (0.4, -0.05), (-0.35, -0.05))
        ]
        draw.polygon(hull, bytes_of(pick(rng, ((0.30, 0.22, 0.18), (0.92, 0.92, 0.92), (0.18, 0.24, 0.36)))))
    canvas.overlay(sheet, Material.OTHER, 0.1)


def paint_birds(canvas: Canvas, horizon: float) -> None:
    """A few birds in the sky."""
    rng, unit = canvas.rng, canvas.height
    sheet = canvas.sheet()
    draw = ImageDraw.Draw(sheet)
    x0, y0 = rng.uniform(0.2, 0.8) * canvas.aspect, rng.uniform(0.15, 0.7) * horizon
    for _ in range(int(rng.integers(3, 9))):
        x, y = (x0 + rng.normal(0, 0.12)) * unit, (y0 + rng.normal(0, 0.06)) * unit
        wing, lift = rng.uniform(0.010, 0.022) * unit, rng.uniform(0.3, 0.8)
        points = [
            (x - wing, y - wing * lift),
            (x - wing * 0.4, y - wing * 0.5),
            (x, y),
            (x + wing * 0.4, y - wing * 0.5),
            (x + wing, y - wing * lift),
        ]
        draw.line(points, (40, 40, 48, 255), width=2)
    canvas.overlay(sheet, Material.OTHER, 0.0)


def paint_square(canvas: Canvas, horizon: float) -> None:
    """Paving between the houses and the viewer, wet or dry, with street lamps that burn at night."""
    rng, unit = canvas.rng, canvas.height
    drop = np.maximum(canvas.y - np.float32(horizon), np.float32(0.01))
    stones = np.sin(6 / drop + 0 * canvas.x) + np.sin((canvas.x - canvas.aspect / 2) / drop * 9)
    tone = (
        1 + np.float32(0.05) * stones * np.clip(4 * drop, 0, 1) + np.float32(0.06) * canvas.noise(20.0, 3.0)
    )
    alpha = (canvas.y > horizon) + np.zeros_like(canvas.x)
    canvas.paint(canvas.lit(planes(jitter(rng, (0.46, 0.44, 0.43))) * tone), alpha, Material.OTHER)
    for nearness in np.sort(rng.random(int(rng.integers(2, 7)))):
        x, base = canvas.aspect * rng.random(), horizon + 0.02 + 0.2 * float(nearness)
        tall = 0.12 + 0.3 * float(nearness)
        sheet = canvas.sheet()
        post = (x * unit, (base - tall) * unit, x * unit, base * unit)
        ImageDraw.Draw(sheet).line(
            post, (50, 52, 56, 255), width=max(round(0.016 * (1 + nearness) * unit / 2), 1)
        )
        canvas.overlay(sheet, Material.OTHER, 0.2)
        _paint_glow(canvas, x, base - tall, 0.012 + 0.012 * float(nearness))


def _paint_glow(canvas: Canvas, x: float, y: float, radius: float) -> None:
    """The head of a lamp, with a halo at night."""
    away = np.hypot(canvas.x - np.float32(x), canvas.y - np.float32(y)) / np.float32(radius)
    lamp = planes(pick(canvas.rng, LAMPS[:3], 0.02)) if canvas.light.dark else canvas.lit((0.8, 0.8, 0.78))
    halo = np.exp(-away / 3) * np.float32(0.5 if canvas.light.dark else 0.0)
    canvas.rgb += (lamp - canvas.rgb) * np.maximum(np.clip(1.5 - away, 0, 1), halo)
