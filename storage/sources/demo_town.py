"""Towns of the demo scenes: skylines, villages and house fronts."""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from storage.sources.demo_canvas import Canvas, Material, Rgb, bytes_of, jitter, pick, planes

TOWERS: tuple[Rgb, ...] = (
    (0.50, 0.54, 0.60),
    (0.62, 0.58, 0.52),
    (0.42, 0.48, 0.58),
    (0.58, 0.44, 0.38),
    (0.70, 0.69, 0.68),
)
WALLS: tuple[Rgb, ...] = (
    (0.90, 0.86, 0.78),
    (0.84, 0.74, 0.56),
    (0.78, 0.60, 0.50),
    (0.88, 0.88, 0.88),
    (0.66, 0.50, 0.40),
)
ROOFS: tuple[Rgb, ...] = ((0.60, 0.28, 0.20), (0.50, 0.24, 0.18), (0.34, 0.33, 0.36), (0.46, 0.36, 0.28))
SHUTTERS: tuple[Rgb, ...] = ((0.25, 0.42, 0.35), (0.30, 0.36, 0.50), (0.52, 0.24, 0.20))
LAMPS: tuple[Rgb, ...] = ((1.0, 0.84, 0.48), (1.0, 0.92, 0.70), (0.98, 0.72, 0.36), (0.82, 0.90, 1.0))


def paint_skyline(canvas: Canvas, base: float, height: float) -> None:
    """Rows of towers behind each other, the far ones in haze."""
    rng = canvas.rng
    rows = int(rng.integers(2, 4))
    for k in range(rows):
        nearness = (k + 1) / rows
        x = -0.1
        while x < canvas.aspect:
            width = rng.uniform(0.07, 0.2) * (0.6 + 0.5 * nearness)
            tall = height * rng.uniform(0.35, 1.0) * (1.1 - 0.35 * nearness)
            if rng.random() < 0.88:
                _paint_tower(canvas, x, base, width, tall, 0.8 * (1 - nearness) + 0.05)
            x += width * rng.uniform(0.85, 1.3)


def _paint_tower(canvas: Canvas, x: float, base: float, width: float, tall: float, depth: float) -> None:
    rng = canvas.rng
    unit = canvas.height
    columns, rows = max(round(width * unit), 6), max(round(tall * unit), 8)
    wall = planes(pick(rng, TOWERS, 0.06))
    down = np.linspace(1.06, 0.86, rows, dtype=np.float32)[:, None] * np.ones((1, columns), dtype=np.float32)
    face = canvas.lit(wall * down, depth)
    seam = round(columns * rng.uniform(0.55, 1.0))
    face[:, :, seam:] *= np.float32(0.72)
    _light_windows(canvas, face, wall, depth)
    alpha = np.ones((rows, columns), dtype=np.float32)
    top, left = round(base * unit) - rows, round(x * unit)
    _cut_roof(rng, alpha, str(rng.choice(["flat", "flat", "step", "slant", "spire"])))
    canvas.paint(face, alpha, Material.BUILDING, top, left)


def _light_windows(canvas: Canvas, face: np.ndarray, wall: np.ndarray, depth: float) -> None:
    """Windows in a grid over a face, dark by day, some of them lit at night and at dusk."""
    rng = canvas.rng
    rows, columns = face.shape[1:]
    pitch_y, pitch_x = int(rng.integers(5, 9)), int(rng.integers(4, 8))
    band = rng.random() < 0.25
    inside_y = np.arange(rows) % pitch_y >= pitch_y // 2
    inside_x = (np.arange(columns) % pitch_x >= 2) | band
    grid = (rows // pitch_y + 1, columns // pitch_x + 1)
    share = {"night": rng.uniform(0.25, 0.6), "sunset": rng.uniform(0.0, 0.35)}.get(canvas.light.name, 0.0)
    glow = np.where(rng.random(grid) < share, rng.uniform(0.55, 1.0, grid), 0)
    glow = glow[np.arange(rows)[:, None] // pitch_y, np.arange(columns)[None, :] // pitch_x]
    window = inside_y[:, None] & inside_x[None, :]
    glass = canvas.lit(wall * np.float32(rng.uniform(0.4, 0.65)) + np.float32(0.04), depth)
    lamp = planes(pick(rng, LAMPS, 0.03)) * np.float32(1 - 0.45 * depth)
    face += (glass - face) * window
    face += (lamp - face) * (glow * window).astype(np.float32)


def _cut_roof(rng: np.random.Generator, alpha: np.ndarray, kind: str) -> None:
    """Shape the top of a tower by cutting its corners away."""
    rows, columns = alpha.shape
    x = np.abs(np.linspace(-1, 1, columns))[None, :]
    y = np.arange(rows)[:, None] / columns
    if kind == "step":
        alpha[: rows // 7][:, x[0] > 0.6] = 0
        alpha[: rows // 16][:, x[0] > 0.3] = 0
    elif kind == "slant":
        alpha[y < 0.3 * np.linspace(0, 1, columns)[None, :]] = 0
    elif kind == "spire":
        alpha[(y < 0.5) & (x > 0.12 + 0.88 * (y / 0.5) ** 2)] = 0
    elif rng.random() < 0.5:
        alpha[: max(rows // 20, 1)][:, (x[0] < 0.3) | (x[0] > 0.5)] = 0


def paint_houses(canvas: Canvas, base: float, size: float, count: int) -> None:
    """A village: gabled houses, the nearer the larger, sometimes around a church."""
    rng = canvas.rng
    roof = pick(rng, ROOFS)
    center = canvas.aspect * rng.uniform(0.2, 0.8)
    if rng.random() < 0.4:
        _paint_church(canvas, center, base, size * 2.1, roof)
    for nearness in np.sort(rng.random(count)):
        x = center + rng.normal(0, 0.38)
        scale = size * (0.65 + 0.5 * float(nearness)) * rng.uniform(0.8, 1.2)
        _paint_house(
            canvas,
            x,
            base + 0.10 * size * float(nearness),
            scale,
            jitter(rng, roof, 0.05),
            0.35 * (1 - float(nearness)),
        )


def _paint_house(canvas: Canvas, x: float, base: float, size: float, roof: Rgb, depth: float) -> None:
    """A house seen across a corner: gabled front, long side, windows, chimney."""
    rng, unit = canvas.rng, canvas.height
    front, long = 0.75, rng.uniform(0.6, 1.3)
    eaves, ridge = 0.6, 0.6 + rng.uniform(0.35, 0.6)
    flip = 1 if rng.random() < 0.5 else -1

    def at(dx: float, dy: float) -> tuple[float, float]:
        return (x + flip * dx * size) * unit, (base - dy * size) * unit

    sheet = canvas.sheet()
    draw = ImageDraw.Draw(sheet)
    _draw_walls(draw, at, front, long, eaves, ridge, pick(rng, WALLS, 0.04))
    far = front / 2 + long
    tiles = [at(front / 2, ridge), at(far, ridge), at(front + long + 0.05, eaves - 0.05)]
    draw.polygon([*tiles, at(front + 0.05, eaves - 0.08)], bytes_of(roof))
    edge = max(round(0.05 * size * unit), 1)
    draw.line([at(-0.05, eaves - 0.06), at(front / 2, ridge)], bytes_of(roof), width=edge)
    stack = front / 2 + 0.6 * long
    _box(draw, at(stack, ridge + 0.12), at(stack + 0.1, eaves + 0.3), bytes_of([0.8 * c for c in roof]))
    canvas.overlay(sheet, Material.BUILDING, depth)
    panes = canvas.sheet()
    draw = ImageDraw.Draw(panes)
    for dx in (0.15 * front, 0.6 * front, front + 0.2 * long, front + 0.65 * long):
        color, shining = _pane(canvas)
        shown = bytes_of(color) if shining else _shown(canvas, color, depth)
        _box(draw, at(dx, 0.2), at(dx + 0.17, 0.44), shown)
    canvas.overlay(panes, Material.BUILDING, None)


def _draw_walls(
    draw: ImageDraw.ImageDraw,
    at: Callable[[float, float], tuple[float, float]],
    front: float,
    long: float,
    eaves: float,
    ridge: float,
    wall: Rgb,
) -> None:
    """Front and side of a house, the side in shadow."""
    side = [at(front, 0), at(front + long, 0.05), at(front + long, eaves), at(front, eaves)]
    draw.polygon(side, bytes_of([0.78 * c for c in wall]))
    gable = [at(0, 0), at(front, 0), at(front, eaves), at(front / 2, ridge), at(0, eaves)]
    draw.polygon(gable, bytes_of(wall))


def _paint_church(canvas: Canvas, x: float, base: float, size: float, roof: Rgb) -> None:
    unit = canvas.height
    wall = pick(canvas.rng, WALLS[:4], 0.03)
    sheet = canvas.sheet()
    draw = ImageDraw.Draw(sheet)
    half = 0.11 * size
    draw.rectangle(
        ((x - half) * unit, (base - 0.62 * size) * unit, (x + half) * unit, base * unit), bytes_of(wall)
    )
    draw.rectangle(
        (x * unit, (base - 0.62 * size) * unit, (x + half) * unit, base * unit),
        bytes_of([0.84 * c for c in wall]),
    )
    point = (x * unit, (base - 1.05 * size) * unit)
    eave = (base - 0.60 * size) * unit
    draw.polygon([((x - 1.2 * half) * unit, eave), point, ((x + 1.2 * half) * unit, eave)], bytes_of(roof))
    draw.ellipse(
        (
            (x - 0.4 * half) * unit,
            (base - 0.55 * size) * unit,
            (x + 0.4 * half) * unit,
            (base - 0.55 * size + 0.8 * half) * unit,
        ),
        (235, 230, 215, 255),
    )
    canvas.overlay(sheet, Material.BUILDING, 0.2)


def _pane(canvas: Canvas) -> tuple[Rgb, bool]:
    """Color of a window, and whether a lamp burns behind it."""
    share = {"night": 0.65, "sunset": 0.3}.get(canvas.light.name, 0.0)
    if canvas.rng.random() < share:
        return pick(canvas.rng, LAMPS, 0.03), True
    return jitter(canvas.rng, (0.25, 0.28, 0.33), 0.05), False


def _shown(canvas: Canvas, color: Rgb, depth: float = 0.0) -> tuple[int, int, int, int]:
    """A surface color under the scene's light, as Pillow draws it."""
    return bytes_of(canvas.lit(color, depth).ravel().tolist())


def _box(
    draw: ImageDraw.ImageDraw,
    a: tuple[float, float],
    b: tuple[float, float],
    color: tuple[int, int, int, int],
) -> None:
    """A filled rectangle between two corners in any order."""
    draw.rectangle((min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])), color)


def paint_facade(canvas: Canvas) -> None:
    """House fronts that fill the picture, seen at an angle; no sky."""
    rng = canvas.rng
    width, height = canvas.width, canvas.height
    flat = Image.new("RGBA", (width, height))
    x = -rng.uniform(0, 0.3) * height
    while x < width:
        front = rng.uniform(0.4, 0.9) * height
        _draw_front(canvas, ImageDraw.Draw(flat), x, front)
        x += front
    rise, fall = (rng.uniform(0, 0.22, 2) * height).tolist()
    corners = (0.0, rise, 0.0, height - rise * 0.4, float(width), height - fall * 0.4, float(width), fall)
    seen = flat.transform((width, height), Image.Transform.QUAD, corners, Image.Resampling.BILINEAR)
    canvas.overlay(seen, Material.BUILDING, None)
    grain = 1 + np.float32(0.05) * canvas.noise(20.0) + np.float32(0.06) * canvas.noise(2.0)
    canvas.rgb *= grain


def _draw_front(canvas: Canvas, draw: ImageDraw.ImageDraw, x: float, front: float) -> None:
    rng, height = canvas.rng, canvas.height
    wall = pick(rng, (*WALLS, *TOWERS), 0.06)
    draw.rectangle((x, 0, x + front, height), _shown(canvas, wall))
    frame = _shown(canvas, jitter(rng, [min(1.2 * c, 1.0) for c in wall], 0.02))
    columns, floors = max(round(front / (0.27 * height)), 1), int(rng.integers(2, 4))
    wide, tall = front / columns, height / floors
    shutters = _shown(canvas, pick(rng, SHUTTERS))
    has_shutters = rng.random() < 0.4
    for j in range(floors):
        draw.rectangle((x, j * tall, x + front, j * tall + 0.04 * tall), frame)
        for i in range(columns):
            left, top = x + (i + 0.32) * wide, (j + 0.26) * tall
            right, bottom = x + (i + 0.68) * wide, (j + 0.80) * tall
            color, shining = _pane(canvas)
            draw.rectangle(
                (left - 0.05 * wide, top - 0.05 * tall, right + 0.05 * wide, bottom + 0.05 * tall), frame
            )
            draw.rectangle((left, top, right, bottom), bytes_of(color) if shining else _shown(canvas, color))
            draw.line(((left + right) / 2, top, (left + right) / 2, bottom), frame, width=2)
            draw.line((left, 0.6 * top + 0.4 * bottom, right, 0.6 * top + 0.4 * bottom), frame, width=2)
            if has_shutters:
                draw.rectangle((left - 0.19 * wide, top, left - 0.04 * wide, bottom), shutters)
                draw.rectangle((right + 0.04 * wide, top, right + 0.19 * wide, bottom), shutters)
