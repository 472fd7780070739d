"""Decode image files to RGB pixels, upright according to EXIF."""

import io
import struct
import threading
import warnings

import numpy as np
import simplejpeg
from PIL import Image, UnidentifiedImageError

from embedding_core.errors import InvalidInput

# Formats that Pillow may try. EPS would start Ghostscript; others do not occur in photo collections.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
MAX_PIXELS = 80_000_000
_MAX_KEPT_BYTES = 48_000_000

_ORIENTATION = 0x0112
_FIELD_TYPES = {3: "H", 4: "I"}
_APP1, _START_OF_SCAN, _END_OF_IMAGE = 0xE1, 0xDA, 0xD9

# `warnings.catch_warnings` replaces global state, so only one thread may be inside it.
_OPENING = threading.Lock()


class UnreadableImage(InvalidInput):
    """The file cannot be decoded. The message is a short reason without the file name."""


class PixelBuffer(threading.local):
    """Memory for decoded pixels: one block per thread, reused for the thread's next image."""

    def __init__(self) -> None:
        self._kept = np.empty(0, np.uint8)

    def take(self, n_bytes: int) -> np.ndarray:
        """Return an uninitialized array of `n_bytes` bytes; it overlaps the array returned before."""
        if n_bytes > _MAX_KEPT_BYTES:
            return np.empty(n_bytes, np.uint8)
        if n_bytes > self._kept.size:
            self._kept = np.empty(n_bytes, np.uint8)
        return self._kept[:n_bytes]


shared_buffer = PixelBuffer()


def decode_image(data: bytes, max_pixels: int = MAX_PIXELS, buffer: PixelBuffer | None = None) -> np.ndarray:
    """Decode an image file.

    Parameters
    ----------
    data : bytes
        The whole file: JPEG, PNG, GIF, BMP, TIFF, WebP or PPM, recognized by content.
    max_pixels : int
        Larger images are rejected before decoding. For files other than JPEG, Pillow's own limit
        (`PIL.Image.MAX_IMAGE_PIXELS`) applies as well.
    buffer : PixelBuffer, optional
        Memory for the pixels. The returned array is then valid until the same thread decodes its next
        image with this buffer.

    Returns
    -------
    uint8 array (height, width, 3), C order, RGB

    Raises
    ------
    UnreadableImage
        The file is damaged, too large or not an image.

    Notes
    -----
    The image is rotated according to EXIF. Gray values are repeated in the three bands, 16-bit values are
    reduced to their high byte, transparent pixels are composited on white, and CMYK is converted without a
    profile. Only the first frame or page is read. Embedded color profiles are not applied.
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
    """Decode with libjpeg-turbo where it yields RGB, else with Pillow."""
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
    """Reject scans that Pillow would fill with gray; extra bytes after the last pixel are harmless."""
    if "Premature end of JPEG file" in message:
        raise UnreadableImage("the JPEG data is truncated; copy the file again")
    if message.startswith("Corrupt JPEG data") and "before marker 0xd9" not in message:
        raise UnreadableImage(f"the JPEG data is damaged ({message}); copy the file again")


def _decode_with_pillow(data: bytes, max_pixels: int) -> np.ndarray:
    with _open(data) as image:
        _check_size(*image.size, max_pixels)
        image.load()
        # For TIFF this finds nothing: Pillow has already rotated the image.
        return turn_upright(_to_rgb(image), exif_orientation(image.info.get("exif") or b""))


def _open(data: bytes) -> Image.Image:
    """Read the header. Only the warning about too many pixels matters; odd metadata does not."""
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
    """16-bit gray to 8 bits like the decoders treat 16-bit color: drop the low byte."""
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
        return f"not an image in a supported format ({', '.join(FORMATS)}), or truncated in its header"
    if isinstance(error, Image.DecompressionBombWarning | Image.DecompressionBombError):
        return f"too large: {_first_line(error)}; scale it down"
    if isinstance(error, EOFError) or "truncated" in str(error).lower():
        return f"the file is truncated ({_first_line(error)}); copy it again"
    return f"the image is damaged or unsupported ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:160] if lines else type(error).__name__


def jpeg_orientation(data: bytes) -> int:
    """EXIF orientation (1 to 8) of a JPEG file; 1 (upright) if it is missing or damaged."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding before a marker
            at += 1
            continue
        if marker in (_START_OF_SCAN, _END_OF_IMAGE):
            break
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == _APP1 and data[at + 4 : at + 10] == b"Exif\0\0":
            return exif_orientation(data[at + 4 : end])
        at = end
    return 1


def exif_orientation(exif: bytes) -> int:
    """Orientation (1 to 8) in a block of EXIF data, with or without the `Exif` header."""
    tiff = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None:
        return 1
    try:
        (directory,) = struct.unpack_from(order + "I", tiff, 4)
        (n_entries,) = struct.unpack_from(order + "H", tiff, directory)
        for entry in range(directory + 2, directory + 2 + 12 * n_entries, 12):
            tag, field_type = struct.unpack_from(order + "HH", tiff, entry)
            if tag == _ORIENTATION and field_type in _FIELD_TYPES:
                (value,) = struct.unpack_from(order + _FIELD_TYPES[field_type], tiff, entry + 8)
                return value if 1 <= value <= 8 else 1
    except struct.error:
        pass  # the directory points outside the block: treat as missing
    return 1


def turn_upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """View of `pixels` (height, width, bands) in upright orientation."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels
