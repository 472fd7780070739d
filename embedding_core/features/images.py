"""Bytes of an image file to an array of RGB pixels, or one clear refusal."""

import io
import threading
import warnings

import numpy as np
import simplejpeg
from PIL import Image, UnidentifiedImageError

from embedding_core.errors import InvalidInput
from embedding_core.features.exif import exif_orientation, jpeg_orientation, turn_upright

# What Pillow may try. EPS would start Ghostscript; others have no place in a photo collection.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
MAX_PIXELS = 80_000_000
_MAX_KEPT_BYTES = 48_000_000

# `warnings.catch_warnings` swaps a global list; two threads inside would leave it changed.
_OPENING = threading.Lock()


class UnreadableImage(InvalidInput):
    """A file that gives no pixels. The message is a short reason, without the file's name."""


class PixelBuffer(threading.local):
    """Memory for decoded pixels, one block a thread, used again by that thread's next image."""

    def __init__(self) -> None:
        self._kept = np.empty(0, np.uint8)

    def take(self, n_bytes: int) -> np.ndarray:
        """Array of `n_bytes` bytes with any content; what was taken before is overwritten."""
        if n_bytes > _MAX_KEPT_BYTES:
            return np.empty(n_bytes, np.uint8)
        if n_bytes > self._kept.size:
            self._kept = np.empty(n_bytes, np.uint8)
        return self._kept[:n_bytes]


def decode_image(data: bytes, max_pixels: int = MAX_PIXELS, buffer: PixelBuffer | None = None) -> np.ndarray:
    """Decode an image file.

    Parameters
    ----------
    data : bytes
        The whole file: JPEG, PNG, GIF, BMP, TIFF, WebP or PPM, recognized by content.
    max_pixels : int
        Images with more are refused before their pixels are decoded. For files other than JPEG
        Pillow's own limit (`PIL.Image.MAX_IMAGE_PIXELS`) holds as well.
    buffer : PixelBuffer, optional
        Where the pixels may be put. The returned array is then valid until the same thread decodes
        its next image with this buffer.

    Returns
    -------
    uint8 array (height, width, 3), C order, RGB

    Raises
    ------
    UnreadableImage
        Whatever is wrong with the file.

    Notes
    -----
    Upright according to EXIF. Gray values are repeated in the three bands, 16-bit values give their
    high byte, transparent pixels are laid on white, CMYK is converted without a profile, and of
    an animation or a file with several pages the first one counts. Embedded color profiles are not applied.
    """
    if not data:
        raise UnreadableImage("the file is empty (0 bytes)")
    try:
        if data[:3] == b"\xff\xd8\xff":
            pixels = _decode_jpeg(data, max_pixels, buffer)
        else:
            pixels = _decode_with_pillow(data, max_pixels)
    except UnreadableImage:
        raise
    except Exception as error:  # Pillow's readers raise nearly anything on damaged files
        raise UnreadableImage(_reason(error)) from error
    return np.ascontiguousarray(pixels)


def _decode_jpeg(data: bytes, max_pixels: int, buffer: PixelBuffer | None) -> np.ndarray:
    """libjpeg-turbo where it gives RGB without loss, Pillow for the odd rest."""
    try:
        height, width, color_space, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return _decode_with_pillow(data, max_pixels)
    _check_size(width, height, max_pixels)
    if color_space in ("CMYK", "YCCK"):
        return _decode_with_pillow(data, max_pixels)
    target = None if buffer is None else buffer.take(3 * height * width)
    try:
        pixels = simplejpeg.decode_jpeg(data, buffer=target)
    except ValueError as error:
        _refuse_damaged_scan(str(error))
        return _decode_with_pillow(data, max_pixels)
    return turn_upright(pixels, jpeg_orientation(data))


def _refuse_damaged_scan(message: str) -> None:
    """Refuse what Pillow would fill with gray; stray bytes after the last pixel harm nothing."""
    if "Premature end of JPEG file" in message:
        raise UnreadableImage("the JPEG data is truncated; copy the file again")
    if message.startswith("Corrupt JPEG data") and "before marker 0xd9" not in message:
        raise UnreadableImage(f"the JPEG data is damaged ({message}); copy the file again")


def _decode_with_pillow(data: bytes, max_pixels: int) -> np.ndarray:
    with _open(data) as image:
        _check_size(*image.size, max_pixels)
        image.load()
        # Of TIFF nothing is found here: Pillow has turned it already.
        return turn_upright(_to_rgb(image), exif_orientation(image.info.get("exif") or b""))


def _open(data: bytes) -> Image.Image:
    """Read the header. Only a warning of too many pixels matters; odd metadata does not."""
    with _OPENING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        return Image.open(io.BytesIO(data), formats=FORMATS)


def _to_rgb(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):
        return np.repeat(_high_byte(np.asarray(image))[:, :, np.newaxis], 3, axis=2)
    if image.mode == "F":
        raise UnreadableImage(
            "its pixels are floating-point numbers of unknown range; save it with 8 or 16 bits"
        )
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return np.asarray(image.convert("RGB"))


def _high_byte(values: np.ndarray) -> np.ndarray:
    """16-bit gray to 8 bits the way the decoders treat 16-bit color: the low byte is dropped."""
    if values.min() < 0 or values.max() > 65_535:
        found = f"{values.min()} to {values.max()}"
        raise UnreadableImage(
            f"its pixel values range over {found}, not 0 to 65535; save it with 8 or 16 bits"
        )
    return (values >> 8).astype(np.uint8)


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width < 1 or height < 1:
        raise UnreadableImage(f"the image has no pixels (size {width} x {height})")
    if width * height > max_pixels:
        raise UnreadableImage(f"{width} x {height} pixels is too large (limit {max_pixels}); scale it down")


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"not an image in a format read here ({', '.join(FORMATS)}), or cut off in its header"
    if isinstance(error, Image.DecompressionBombWarning | Image.DecompressionBombError):
        return f"too large: {_first_line(error)}; scale it down"
    if isinstance(error, EOFError) or "truncated" in str(error).lower():
        return f"the file is truncated ({_first_line(error)}); copy it again"
    return f"the image is damaged or of an unusual kind ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:160] if lines else type(error).__name__
