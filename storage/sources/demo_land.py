"""Relief and ground of the demo scenes: mountains, hills, water, sand, grass, snow, roads."""

import numpy as np

from storage.sources.demo_canvas import (
    Array,
    Canvas,
    Material,
    Rgb,
    fractal,
    ground_texture,
    jitter,
    mix,
    pick,
    planes,
    ridge,
    smoothstep,
)

ROCKS: tuple[Rgb, ...] = ((0.40, 0.39, 0.42), (0.45, 0.40, 0.36), (0.33, 0.36, 0.40), (0.52, 0.43, 0.36))
GREENS: tuple[Rgb, ...] = ((0.33, 0.46, 0.18), (0.42, 0.52, 0.20), (0.26, 0.40, 0.18), (0.55, 0.53, 0.27))
SANDS: tuple[Rgb, ...] = ((0.87, 0.77, 0.58), (0.80, 0.67, 0.47), (0.92, 0.86, 0.73), (0.80, 0.58, 0.38))
WATERS: tuple[Rgb, ...] = ((0.10, 0.30, 0.42), (0.07, 0.24, 0.40), (0.15, 0.42, 0.46), (0.20, 0.30, 0.30))


def paint_mountains(canvas: Canvas, horizon: float, height: float, snow: float) -> None:
    """Two or three ranges behind each other; `snow` is the share of the height that is white (0: none)."""
    rng = canvas.rng
    ranges = int(rng.integers(2, 4))
    rock = pick(rng, ROCKS)
    for k in range(ranges):
        nearness = (k + 1) / ranges
        top = height * (1.05 - 0.5 * k / ranges) * rng.uniform(0.85, 1.1)
        _paint_range(
            canvas, horizon, top, rock, snow * (1.15 - 0.7 * k / ranges), 0.85 * (1 - nearness) + 0.18
        )


def _paint_range(canvas: Canvas, horizon: float, height: float, rock: Rgb, snow: float, depth: float) -> None:
    rng = canvas.rng
    bumps = rng.uniform(1.8, 3.6)
    line = ridge(rng, canvas.width, bumps, 0.5)
    spurs = 1 - np.abs(2 * ridge(rng, canvas.width, 2 * bumps, 0.4) - 1)
    line = np.float32(0.3) + np.float32(0.55) * line ** np.float32(1.2) + np.float32(0.15) * spurs
    crest = np.float32(horizon) - np.float32(height) * line[None, :]
    first, y = canvas.band(horizon - height, horizon + 0.01)
    alpha = smoothstep(-0.003, 0.004, y - crest)
    folds = 1 - np.abs(canvas.noise(5.0, 0.9, 0.62, len(y)))
    side = 1 if canvas.light.sun[0] < 0.5 else -1
    shift = max(canvas.height // 64, 1)
    relief = np.clip(side * (folds - np.roll(folds, shift, axis=1)) * np.float32(0.9), -1, 1)
    shade = np.float32(0.82) + np.float32(0.42) * relief
    below = (y - crest) / np.float32(height)
    color = planes(rock) * shade
    color = mix(color, planes((0.30, 0.36, 0.24)) * shade, np.clip(below * 1.2 - 0.25, 0, 0.7))
    white = smoothstep(
        -0.06, 0.06, np.float32(snow) - below - np.float32(0.14) * folds + np.float32(0.09) * relief
    )
    white = white * np.float32(snow > 0)
    snowy = mix((0.62, 0.70, 0.86), (1.0, 1.0, 1.0), np.clip(np.float32(0.6) + relief, 0, 1))
    fade = np.clip(np.float32(depth) + np.float32(0.35) * np.clip(below, 0, 1), 0, 1)
    canvas.paint(canvas.lit(mix(color, snowy, white), fade), alpha, Material.MOUNTAIN, first)
    canvas.material[first : first + len(y)][(white * alpha) > 0.6] = Material.SNOWCAP


def paint_hills(canvas: Canvas, horizon: float, height: float, color: Rgb, material: Material) -> None:
    """Soft rolling ground behind the foreground."""
    rng = canvas.rng
    for k in range(int(rng.integers(1, 3))):
        crest = (
            np.float32(horizon)
            - np.float32(height * (1 - 0.4 * k)) * ridge(rng, canvas.width, 2.0, 0.25)[None, :]
        )
        alpha = smoothstep(-0.003, 0.004, canvas.y - crest)
        shade = np.float32(0.95) + np.float32(0.07) * canvas.noise(10.0, 4.0, 0.7)
        shade = shade + np.float32(0.8) * np.clip(canvas.y - crest, 0, 0.2)
        tone = planes(jitter(rng, color, 0.05)) * shade
        canvas.paint(canvas.lit(tone, 0.6 - 0.25 * k), alpha, material)


def ground_alpha(canvas: Canvas, edge: float | Array) -> Array:
    """1 below `edge` (a height or a line (1, width)), softly."""
    return smoothstep(-0.003, 0.004, canvas.y - np.asarray(edge, dtype=np.float32) + np.zeros_like(canvas.x))


def paint_grass(canvas: Canvas, horizon: float, color: Rgb, edge: Array | None = None) -> None:
    """A meadow or lawn: clumps in perspective, blades in front."""
    rng = canvas.rng
    clumps = ground_texture(canvas, horizon, 10.0, 1.0, 0.75)
    patches = ground_texture(canvas, horizon, 3.0, 1.0, 0.4)
    near = np.clip((canvas.y - np.float32(horizon)) / np.float32(1.001 - horizon), 0, 1)
    blades = fractal(rng, canvas.shape, canvas.height / 9, 0.4, 0.9)
    shade = 1 + np.float32(0.14) * clumps + np.float32(0.12) * near * blades - np.float32(0.15) * near
    tone = mix(
        color,
        jitter(rng, (0.55, 0.52, 0.22), 0.06),
        np.clip(np.float32(0.25) + np.float32(0.2) * patches, 0, 0.8),
    )
    tone = tone * shade
    alpha = ground_alpha(canvas, horizon if edge is None else edge)
    canvas.paint(canvas.lit(tone, np.float32(0.5) * (1 - near) ** 3), alpha, Material.GRASS)


def paint_snow(canvas: Canvas, horizon: float) -> None:
    """Snow-covered ground with blue shadows and drifts."""
    drifts = ground_texture(canvas, horizon, 4.0, 2.5, 0.45)
    grain = ground_texture(canvas, horizon, 24.0, 1.0, 0.8)
    near = np.clip((canvas.y - np.float32(horizon)) / np.float32(1.001 - horizon), 0, 1)
    shine = np.clip(
        np.float32(0.62) + np.float32(0.34) * drifts + np.float32(0.09) * grain - np.float32(0.15) * near,
        0,
        1,
    )
    tone = mix((0.60, 0.69, 0.86), (0.98, 0.98, 0.98), shine)
    edge = np.float32(horizon) - np.float32(0.014) * ridge(canvas.rng, canvas.width, 2.0, 0.3)[None, :]
    canvas.paint(
        canvas.lit(tone, np.float32(0.35) * (1 - near) ** 2), ground_alpha(canvas, edge), Material.SNOW
    )


def paint_sand(canvas: Canvas, horizon: float, color: Rgb, edge: float | Array) -> None:
    """A beach or desert floor below `edge`: ripples, footprints, patches of light."""
    ripples = ground_texture(canvas, horizon, 8.0, 4.0, 0.5)
    grain = ground_texture(canvas, horizon, 40.0, 1.0, 0.9)
    patches = ground_texture(canvas, horizon, 3.0, 2.0, 0.4)
    shade = 1 + np.float32(0.07) * ripples + np.float32(0.05) * grain + np.float32(0.06) * patches
    near = np.clip((canvas.y - np.float32(horizon)) / np.float32(1.001 - horizon), 0, 1)
    tone = planes(color) * shade
    canvas.paint(
        canvas.lit(tone, np.float32(0.4) * (1 - near) ** 3), ground_alpha(canvas, edge), Material.SAND
    )


def paint_dunes(canvas: Canvas, horizon: float, color: Rgb) -> None:
    """Dunes with a lit and a shadowed flank, one behind the other."""
    rng = canvas.rng
    count = int(rng.integers(3, 6))
    side = 1 if canvas.light.sun[0] < 0.5 else -1
    for k in range(count):
        nearness = k / (count - 1)
        base = horizon + (0.98 - horizon) * nearness**1.4
        line = ridge(rng, canvas.width, rng.uniform(1.2, 2.6), 0.22)[None, :]
        crest = np.float32(base) - np.float32(0.05 + 0.16 * nearness) * line
        below = canvas.y - crest
        slope = np.gradient(line[0])[None, :] * np.float32(canvas.width) * side
        ripples = np.sin(
            below * np.float32(220 / (0.5 + nearness)) + 3 * canvas.noise(3.0, 2.0)
        ) * np.float32(0.035)
        flank = np.clip(np.float32(0.88) - np.float32(0.12) * slope, 0.5, 1.12) + ripples
        flank = (
            flank
            + (np.float32(1.0) - flank) * np.clip(below * 4, 0, 0.7)
            + np.float32(0.03) * canvas.noise(30.0)
        )
        tone = planes(color) * flank
        canvas.paint(canvas.lit(tone, 0.65 * (1 - nearness)), smoothstep(-0.002, 0.004, below), Material.SAND)


def paint_water(canvas: Canvas, waterline: float, calm: float, color: Rgb) -> None:
    """Water from `waterline` down: a mirror of what stands above, waves in perspective, glitter."""
    start = min(max(round(waterline * canvas.height), 1), canvas.height - 1)
    rows = canvas.height - start
    drop = (np.arange(rows, dtype=np.float32) + 0.5)[:, None] / canvas.height
    waves = ground_texture(canvas, waterline, 7.0, 5.0 if calm < 0.5 else 3.0, 0.6)[start:]
    swell = canvas.noise(24.0, 9.0, 0.5, rows)
    sway = (np.float32(1.3 - calm) * (np.float32(0.05) * swell + np.float32(0.03) * waves)) * (
        np.float32(0.25) + 2 * drop
    )
    source_y = start - 1 - (drop * np.float32(0.85) + np.abs(sway)) * canvas.height
    source_x = np.arange(canvas.width)[None, :] + sway * canvas.height * np.float32(0.25)
    mirror = canvas.rgb[
        :,
        np.clip(source_y, 0, start - 1).astype(np.intp),
        np.clip(source_x, 0, canvas.width - 1).astype(np.intp),
    ]
    depth = np.clip(drop / np.float32(1.001 - waterline), 0, 1)
    body = canvas.lit(planes(color) * (1 + np.float32(0.25) * waves), np.float32(0.4) * (1 - depth) ** 2)
    share = np.clip(
        np.float32(0.42 + 0.42 * calm) - np.float32(0.45) * depth + np.float32(0.10) * waves, 0.08, 0.92
    )
    surface = mix(body, mirror * np.float32(0.92), share)
    surface = surface + _glitter(canvas, start, waves + swell * np.float32(0.6), drop) * planes(
        canvas.light.sun_color
    )
    if calm < 0.4:
        foam = smoothstep(1.55, 2.3, waves + np.float32(0.4) * swell) * np.float32(0.75 * (1 - calm))
        surface = mix(surface, canvas.lit((0.95, 0.97, 1.0)), foam)
    canvas.paint(surface, np.ones((rows, canvas.width), dtype=np.float32), Material.WATER, start)


def paint_lagoon(canvas: Canvas, shore: Array, color: Rgb) -> None:
    """The sea from above: pale over the shallows at `shore`, deep away from it, ruffled by waves."""
    away = np.clip((shore - canvas.y) / np.float32(0.7), 0, 1)
    bed = canvas.noise(4.0, 1.5, 0.55)
    ruffle = canvas.noise(16.0, 3.5, 0.6)
    pale = mix(color, (0.55, 0.86, 0.82), 0.75)
    tone = mix(pale, color, np.clip(away**0.7 + np.float32(0.10) * bed, 0, 1))
    tone = tone * (1 + np.float32(0.07) * ruffle)
    crest = smoothstep(1.5, 2.3, ruffle + np.float32(0.4) * bed) * np.float32(0.5)
    tone = mix(tone, (0.95, 0.98, 1.0), crest)
    canvas.paint(canvas.lit(tone), np.ones(canvas.shape, dtype=np.float32), Material.WATER)


def _glitter(canvas: Canvas, start: int, waves: Array, drop: Array) -> Array:
    """Sparkle under the sun or the moon."""
    power = {"sunset": 0.75, "night": 0.4, "morning": 0.3, "noon": 0.18}.get(canvas.light.name, 0.0)
    spread = np.float32(0.05) + np.float32(0.5) * drop
    column = np.exp(-(((canvas.x - np.float32(canvas.light.sun[0] * canvas.aspect)) / spread) ** 2))
    return np.asarray(np.float32(power) * column * smoothstep(0.1, 1.4, waves), dtype=np.float32)


def shore_line(canvas: Canvas, left: float, right: float, rough: float = 0.03) -> Array:
    """A shore running from height `left` to `right` across the picture, (1, width)."""
    straight = np.linspace(left, right, canvas.width, dtype=np.float32)
    wobble = (ridge(canvas.rng, canvas.width, 2.5, 0.35) - np.float32(0.5)) * np.float32(2 * rough)
    return (straight + wobble)[None, :]


def paint_surf(canvas: Canvas, shore: Array) -> None:
    """Wet sand and lines of foam along a beach."""
    away = canvas.y - shore
    wet = smoothstep(0.0, 0.01, away) * (1 - smoothstep(0.03, 0.07, away))
    canvas.rgb *= 1 - np.float32(0.28) * wet
    foam = canvas.lit((0.97, 0.98, 1.0))
    for offset in (0.0, -0.035, -0.085):
        wave = (
            shore
            + np.float32(offset)
            + np.float32(0.014) * (ridge(canvas.rng, canvas.width, 6.0)[None, :] - 0.5)
        )
        width = np.float32(0.010 if offset == 0 else 0.006)
        line = np.exp(-(((canvas.y - wave) / width) ** 2)) * np.clip(
            0.65 + 0.35 * canvas.noise(20.0, 3.0), 0, 1
        )
        canvas.rgb += (foam - canvas.rgb) * (line * np.float32(0.85))


def paint_road(canvas: Canvas, horizon: float, color: Rgb) -> None:
    """A path winding from the viewer's feet to the horizon."""
    rng = canvas.rng
    t = np.clip((canvas.y - np.float32(horizon)) / np.float32(1.001 - horizon), 0, 1)
    center = canvas.aspect * (
        rng.uniform(0.3, 0.7) + rng.uniform(-0.3, 0.3) * (t - t**2) * 2 + rng.uniform(-0.2, 0.2) * t
    )
    half = np.float32(0.004) + np.float32(rng.uniform(0.07, 0.2)) * t**1.5
    off = np.abs(canvas.x - center.astype(np.float32)) + np.float32(0.02) * t * canvas.noise(16.0)
    alpha = (1 - smoothstep(0.0, 0.012, off - half)) * (canvas.y > horizon + 0.004)
    tone = planes(color) * (1 + np.float32(0.06) * canvas.noise(30.0))
    canvas.paint(canvas.lit(tone, np.float32(0.5) * (1 - t) ** 2), alpha, Material.OTHER)
