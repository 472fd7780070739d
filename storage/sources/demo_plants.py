"""Plants of the demo scenes: trees as small sprites, distant woods, flowers."""

from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw

from storage.sources.demo_canvas import (
    Array,
    Canvas,
    Material,
    Rgb,
    bytes_of,
    fractal,
    jitter,
    mix,
    pick,
    planes,
    ridge,
    smoothstep,
)

LEAVES: tuple[Rgb, ...] = ((0.24, 0.38, 0.14), (0.33, 0.45, 0.16), (0.20, 0.32, 0.16), (0.40, 0.46, 0.20))
AUTUMN: tuple[Rgb, ...] = ((0.74, 0.42, 0.12), (0.66, 0.26, 0.12), (0.80, 0.62, 0.18))
NEEDLES: tuple[Rgb, ...] = ((0.13, 0.24, 0.15), (0.16, 0.28, 0.20), (0.19, 0.27, 0.13))
PETALS: tuple[Rgb, ...] = (
    (0.88, 0.16, 0.16), (0.96, 0.80, 0.18), (0.94, 0.93, 0.90),
    (0.60, 0.36, 0.74), (0.93, 0.50, 0.66), (0.95, 0.52, 0.14),
)  # fmt: skip


def conifer(rng: np.random.Generator, color: Rgb, snowy: bool = False) -> Image.Image:
    """A spruce: tiers of drooping branches, with snow on them if asked."""
    rows, columns = 120, 64
    t = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    x = np.linspace(-1, 1, columns, dtype=np.float32)[None, :]
    tiers = rng.uniform(6, 10)
    phase = (t * np.float32(tiers) + np.float32(0.5) * np.abs(x)) % 1
    width = (
        t ** np.float32(0.9)
        * np.float32(rng.uniform(0.6, 0.85))
        * (np.float32(0.6) + np.float32(0.4) * phase)
    )
    rough = fractal(rng, (rows, columns), 14.0, 1.0, 0.7)
    alpha = smoothstep(-0.05, 0.05, width - np.abs(x) + np.float32(0.05) * rough) * (t < 0.93)
    shade = (
        np.float32(0.75) + np.float32(0.35) * (1 - phase) + np.float32(0.16) * rough - np.float32(0.18) * x
    )
    pixels = planes(color) * shade
    if snowy:
        white = smoothstep(0.35, 0.75, (1 - phase) + np.float32(0.22) * rough)
        pixels = mix(pixels, (0.93, 0.95, 1.0), white * np.float32(0.9))
    trunk = (np.abs(x) < 0.07) & (t >= 0.9)
    pixels = np.where(trunk, planes((0.24, 0.17, 0.12)), pixels)
    return _sprite(pixels, np.maximum(alpha, trunk))


def broadleaf(rng: np.random.Generator, color: Rgb) -> Image.Image:
    """A leafy tree: a crown of lumps lit from above, on a trunk."""
    rows, columns = 112, 104
    y = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    x = np.linspace(-0.5, 0.5, columns, dtype=np.float32)[None, :]
    rough = fractal(rng, (rows, columns), 22.0, 1.0, 0.8)
    crown = np.full((rows, columns), -1, dtype=np.float32)
    shade = np.zeros((rows, columns), dtype=np.float32)
    squat = rng.uniform(0.8, 1.1)
    for _ in range(13):
        angle, reach = rng.uniform(0, 2 * np.pi), 0.27 * np.sqrt(rng.random())
        center_x, center_y = reach * np.cos(angle) * 1.1, 0.46 + reach * np.sin(angle) * squat
        radius = rng.uniform(0.10, 0.17)
        lump = np.float32(radius) - np.hypot(x - np.float32(center_x), y - np.float32(center_y))
        front = lump > np.maximum(crown, 0)
        lift = np.float32(0.86) + ((np.float32(center_y) - y) * np.float32(2.6) - x * np.float32(0.4))
        shade = np.where(front, lift + np.zeros_like(x), shade)
        crown = np.maximum(crown, lump)
    alpha = smoothstep(-0.008, 0.022, crown + np.float32(0.022) * rough)
    shade = np.where(crown > 0, shade, np.float32(0.8)) + np.float32(0.17) * rough
    pixels = planes(color) * np.clip(shade, 0.35, 1.6)
    bend = np.float32(0.02) * np.sin(6 * y + np.float32(rng.uniform(0, 6)))
    trunk = (np.abs(x - bend) < 0.018 + 0.03 * np.clip(y - 0.85, 0, 1)) & (y > 0.55)
    pixels = np.where(trunk & (alpha < 0.5), planes((0.27, 0.20, 0.14)), pixels)
    return _sprite(pixels, np.maximum(alpha, trunk))


def palm(rng: np.random.Generator) -> Image.Image:
    """A palm leaning to one side."""
    image = Image.new("RGBA", (200, 240), bytes_of((0.22, 0.34, 0.14), 0))
    draw = ImageDraw.Draw(image)
    lean = rng.uniform(-45, 45)
    trunk = [(100 + lean * (t - 1) ** 2, 70 + 170 * (1 - t)) for t in np.linspace(1, 0, 12)]
    for (x0, y0), (x1, y1) in pairwise(trunk):
        draw.line((x0, y0, x1, y1), bytes_of(jitter(rng, (0.42, 0.33, 0.23), 0.06)), width=9)
    for angle in np.linspace(-0.25, np.pi + 0.25, 11) + rng.normal(0, 0.12, 11):
        color = bytes_of(jitter(rng, (0.24, 0.38, 0.15), 0.09))
        reach = rng.uniform(70, 98)
        stem = [
            (100 + reach * t * np.cos(angle), 70 - reach * (t * np.sin(angle) * 0.75 - 0.75 * t * t))
            for t in np.linspace(0, 1, 13)
        ]
        for (x0, y0), (x1, y1) in pairwise(stem):
            draw.line((x0, y0, x1, y1), color, width=4)
            draw.line((x1, y1, x1 - 7, y1 + 22), color, width=3)
            draw.line((x1, y1, x1 + 7, y1 + 20), color, width=3)
    return image


def bare_tree(rng: np.random.Generator) -> Image.Image:
    """A leafless tree, branching to the tips."""
    color = bytes_of(jitter(rng, (0.26, 0.22, 0.20), 0.05))
    image = Image.new("RGBA", (220, 240), (*color[:3], 0))
    draw = ImageDraw.Draw(image)
    tips = [(110.0, 240.0, np.pi / 2, 62.0, 9.0)]
    for _ in range(7):
        grown = []
        for x, y, angle, length, width in tips:
            x1, y1 = x + length * np.cos(angle), y - length * np.sin(angle)
            draw.line((x, y, x1, y1), color, width=max(round(width), 2))
            for turn in (-1, 1):
                spread = turn * rng.uniform(0.2, 0.6)
                grown.append((x1, y1, angle + spread, length * rng.uniform(0.66, 0.84), width * 0.68))
        tips = grown
    return image


def _sprite(pixels: Array, alpha: Array) -> Image.Image:
    stacked = np.concatenate([np.clip(pixels, 0, 1), alpha.astype(np.float32)[None]])
    return Image.fromarray(np.ascontiguousarray((stacked * 255).astype(np.uint8).transpose(1, 2, 0)))


def plant_trees(canvas: Canvas, kind: str, count: int, far: float, near: float, size: float) -> None:
    """Stand `count` trees between the heights `far` and `near`, taller the nearer they are."""
    rng = canvas.rng
    season = AUTUMN if kind == "autumn" else NEEDLES if kind in ("conifer", "snowy") else LEAVES
    sprites = [_grow(rng, kind, pick(rng, season, 0.05)) for _ in range(min(count, 3))]
    center, spread = rng.uniform(0.0, 1.0), rng.uniform(0.15, 0.6)
    for nearness in np.sort(rng.random(count)):
        x = canvas.aspect * float(center + spread * rng.normal()) % canvas.aspect
        tall = size * (0.35 + 0.65 * nearness) * rng.uniform(0.75, 1.2)
        base = far + (near - far) * float(nearness)
        sprite = sprites[int(rng.integers(len(sprites)))]
        canvas.stamp(sprite, x, base, tall, Material.TREE, 0.55 * (1 - float(nearness)))


def _grow(rng: np.random.Generator, kind: str, color: Rgb) -> Image.Image:
    if kind in ("conifer", "snowy"):
        return conifer(rng, color, kind == "snowy")
    if kind == "palm":
        return palm(rng)
    return bare_tree(rng) if kind == "bare" else broadleaf(rng, color)


def paint_woods(canvas: Canvas, base: float, height: float, kind: str, depth: float) -> None:
    """A wood seen from afar: a jagged band of crowns standing on `base`."""
    rng = canvas.rng
    pointed = kind in ("conifer", "snowy", "bare")
    bumps = canvas.aspect / height * (2.2 if pointed else 1.1)
    phase = np.cumsum(rng.uniform(0.6, 1.4, canvas.width)) * bumps / canvas.width
    tooth = (
        np.abs(2 * (phase % 1) - 1) if pointed else 1 - np.sqrt(np.clip(1 - (2 * (phase % 1) - 1) ** 2, 0, 1))
    )
    tall = rng.uniform(0.55, 1.0, int(bumps * 1.6) + 3)[phase.astype(int)]
    line = (tall * (1 - 0.5 * tooth)).astype(np.float32) * (
        np.float32(0.7) + np.float32(0.4) * ridge(rng, canvas.width, 3.0)
    )
    crest = (np.float32(base) - np.float32(height) * line)[None, :]
    first, y = canvas.band(base - 1.15 * height, base + 0.006)
    rough = canvas.noise(30.0, 0.8, 0.7, len(y))
    alpha = smoothstep(-0.004, 0.006, y - crest + np.float32(0.006) * rough)
    season = AUTUMN if kind == "autumn" else NEEDLES if pointed else LEAVES
    tone = mix(
        pick(rng, season),
        pick(rng, season),
        np.clip(np.float32(0.5) + np.float32(0.4) * canvas.noise(8.0, rows=len(y)), 0, 1),
    )
    lift = np.clip(1 - (y - crest) / np.float32(height), 0, 1)
    tone = tone * (np.float32(0.65) + np.float32(0.45) * lift + np.float32(0.15) * rough)
    if kind == "snowy":
        tone = mix(tone, (0.90, 0.93, 0.98), smoothstep(0.6, 2.2, rough + np.float32(0.9) * lift))
    canvas.paint(canvas.lit(tone, depth), alpha, Material.TREE, first)


def paint_trunks(canvas: Canvas, floor: float, count: int, color: Rgb) -> None:
    """Trunks of a high forest, the far ones thin and pale, running out of the picture at the top."""
    rng = canvas.rng
    bark = canvas.noise(20.0, 0.2, 0.7)
    for nearness in np.sort(rng.random(count) ** 1.5):
        half = np.float32(0.006 + 0.038 * nearness)
        lean = np.float32(rng.normal(0, 0.04))
        base = np.float32(floor + (1.04 - floor) * nearness)
        middle = np.float32(canvas.aspect * rng.random()) + lean * (base - canvas.y)
        across = (canvas.x - middle) / (half * (1 + 3 * np.clip(canvas.y - base + np.float32(0.08), 0, 1)))
        alpha = (1 - smoothstep(0.85, 1.1, np.abs(across))) * (canvas.y < base)
        tone = planes(jitter(rng, color, 0.05)) * (
            np.float32(0.9) - np.float32(0.3) * across + np.float32(0.14) * bark
        )
        canvas.paint(canvas.lit(tone, 0.75 * (1 - float(nearness))), alpha, Material.TREE)


def paint_canopy(canvas: Canvas, reach: float, kind: str) -> None:
    """Leaves hanging into the picture from above."""
    season = AUTUMN if kind == "autumn" else NEEDLES if kind in ("conifer", "snowy") else LEAVES
    for depth, length in ((0.45, 1.25), (0.05, 0.7)):
        rough = canvas.noise(5.0, 1.4, 0.75)
        limit = np.float32(reach * length) * (1 + np.float32(0.45) * rough)
        alpha = 1 - smoothstep(-0.02, 0.02, canvas.y - limit)
        leaves = canvas.noise(18.0, 1.0, 0.8)
        tone = planes(pick(canvas.rng, season, 0.06)) * (np.float32(1.0) + np.float32(0.28) * leaves)
        if kind == "snowy":
            tone = mix(tone, (0.92, 0.95, 1.0), smoothstep(-0.2, 1.2, leaves))
        canvas.paint(canvas.lit(tone, depth), alpha, Material.TREE)


def paint_flowers(canvas: Canvas, horizon: float, colors: list[Rgb], plenty: float) -> None:
    """Flowers strewn over the ground in drifts, larger towards the viewer."""
    rng = canvas.rng
    sheet = canvas.sheet()
    draw = ImageDraw.Draw(sheet)
    drifts = canvas.noise(3.0, 2.0)
    shades = [bytes_of(jitter(rng, color, 0.06)) for color in colors for _ in range(9)]
    hearts = bytes_of(pick(rng, ((0.90, 0.72, 0.16), (0.30, 0.20, 0.12), (0.55, 0.62, 0.20))))
    count = int(900 * plenty)
    nearness = np.sort(rng.random(count) ** 0.8)
    xs = rng.random(count) * canvas.width
    for t, x, luck in zip(nearness, xs, rng.random(count), strict=True):
        y = (horizon + 0.02 + (1.0 - horizon) * t) * canvas.height
        if drifts[min(int(y), canvas.height - 1), int(x)] < 2.4 * luck - 1.4:
            continue
        radius = canvas.height * (0.0045 + 0.013 * t) * rng.uniform(0.7, 1.3)
        color = shades[int(luck * 997) % len(shades)]
        draw.ellipse((x - radius, y - radius * 0.75, x + radius, y + radius * 0.75), color)
        if t > 0.3:
            heart = radius * 0.35
            draw.ellipse((x - heart, y - heart, x + heart, y + heart * 0.8), hearts)
    canvas.overlay(sheet, Material.FLOWER, 0.05)
