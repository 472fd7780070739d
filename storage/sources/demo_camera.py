"""The camera of the demo scenes: framing, exposure, color cast, lens and sensor."""

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from storage.sources.demo_canvas import Array, Canvas

CASTS = ((1.0, 1.0, 1.0), (1.05, 1.0, 0.93), (0.95, 1.0, 1.06), (1.02, 0.98, 1.02), (1.0, 1.02, 0.96))


def take_picture(canvas: Canvas, size: tuple[int, int]) -> tuple[Image.Image, NDArray[np.uint8]]:
    """Photograph the canvas.

    Returns
    -------
    image : RGB image, `size` or a little narrower
    material : (height, width) what each of its pixels shows
    """
    rng = canvas.rng
    picture = Image.fromarray(
        np.ascontiguousarray((np.clip(canvas.rgb, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0))
    )
    material = Image.fromarray(canvas.material)
    if rng.random() < 0.5:
        picture, material = (im.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for im in (picture, material))
    angle = float(np.clip(rng.normal(0, 1.8), -3.5, 3.5)) if rng.random() < 0.4 else 0.0
    if angle:
        picture = picture.rotate(angle, Image.Resampling.BILINEAR)
        material = material.rotate(angle, Image.Resampling.NEAREST)
    width = size[0] - int(rng.integers(0, size[0] // 8 + 1)) if rng.random() < 0.3 else size[0]
    box = _frame(rng, canvas, width / size[1], angle)
    small = (width, size[1])
    picture = picture.resize(small, Image.Resampling.LANCZOS, box=box)
    material = material.resize(small, Image.Resampling.NEAREST, box=box)
    if rng.random() < 0.25:
        picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.7) * size[1] / 128))
    pixels = _develop(rng, np.asarray(picture, dtype=np.float32) / 255, canvas.light.name)
    return Image.fromarray((np.clip(pixels, 0, 1) * 255 + 0.5).astype(np.uint8)), np.asarray(material)


def _frame(
    rng: np.random.Generator, canvas: Canvas, aspect: float, angle: float
) -> tuple[float, float, float, float]:
    """Crop box of that aspect on the canvas; a tilted picture is cropped inside its corners."""
    long = max(canvas.aspect, 1 / canvas.aspect)
    inset = 1 / (1 + long * math.tan(math.radians(abs(angle))))
    zoom = inset * rng.uniform(0.84, 1.0)
    high = canvas.height * zoom
    wide = min(high * aspect, canvas.width * zoom)
    slack_x, slack_y = (canvas.width * inset - wide) / 2, (canvas.height * inset - high) / 2
    left = (canvas.width - wide) / 2 + slack_x * rng.uniform(-1, 1)
    top = (canvas.height - high) / 2 + slack_y * rng.uniform(-1, 1)
    return left, top, left + wide, top + high


def _develop(rng: np.random.Generator, pixels: Array, light: str) -> Array:
    """Exposure, contrast, color cast, saturation, vignette and sensor noise."""
    gain = float(np.exp(rng.normal(0.0, 0.09)))
    gamma = float(np.exp(rng.normal(0, 0.08)))
    cast = np.asarray(CASTS[int(rng.integers(len(CASTS)))], dtype=np.float32) * rng.normal(1, 0.02, 3).astype(
        np.float32
    )
    pixels = np.clip(pixels * np.float32(gain) * cast, 0, 1) ** np.float32(gamma)
    gray = (pixels @ np.asarray((0.3, 0.59, 0.11), dtype=np.float32))[..., None]
    faded = light not in ("sunset", "night") and rng.random() < 0.06
    saturation = rng.uniform(0.2, 0.5) if faded else rng.uniform(0.8, 1.25)
    pixels = gray + (pixels - gray) * np.float32(saturation)
    contrast = rng.uniform(0.9, 1.15)
    middle = pixels.mean(dtype=np.float32)
    pixels = middle + (pixels - middle) * np.float32(contrast)
    pixels = pixels * _vignette(rng, pixels.shape[:2])[..., None]
    sigma = rng.uniform(0.003, 0.014) * (1.2 if light == "night" else 1.0)
    noise = rng.standard_normal(pixels.shape, dtype=np.float32) * np.float32(0.6)
    noise += rng.standard_normal((*pixels.shape[:2], 1), dtype=np.float32)
    return np.asarray(pixels + noise * np.float32(sigma), dtype=np.float32)


def _vignette(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Corners a little darker than the middle."""
    y = np.linspace(-1, 1, shape[0], dtype=np.float32)[:, None]
    x = np.linspace(-1, 1, shape[1], dtype=np.float32)[None, :]
    return 1 - np.float32(rng.uniform(0.0, 0.2)) * (x * x + y * y) / 2
