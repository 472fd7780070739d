"""Decode image files to RGB pixels, upright according to EXIF."""

import io
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import simplejpeg
from PIL import Image, UnidentifiedImageError

from embedding_core.errors import UnreadableItem

# Formats that Pillow may try. EPS would start Ghostscript; others do not occur in photo collections.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
MAX_PIXELS = 80_000_000
# Memory that decoding one image may take, its file included. The process itself needs some 150 MB more.
MAX_DECODE_BYTES = 800_000_000
# Peak memory per pixel: 3 bytes of the result and the decoder's own copies. Pillow keeps 4 bytes per pixel of
# most modes, WebP three canvases, TIFF a strip of up to 8 bytes, a progressive JPEG all its coefficients.
_JPEG_PIXEL_BYTES = 9
_PILLOW_PIXEL_BYTES = {"PNG": 8, "BMP": 8, "GIF": 12, "PPM": 14, "TIFF": 15, "JPEG": 15, "WEBP": 19}
# Images that need more are decoded one at a time.
_LARGE_BYTES = 100_000_000
# Transparency and modes are converted in strips of rows of this many pixels.
_STRIP_PIXELS = 2**20
# A progressive JPEG visits its pixels once per scan; ordinary ones have about ten scans.
_MAX_SCANNED_PIXELS = 4_000_000_000
_MAX_KEPT_BYTES = 48_000_000

_ORIENTATION = 0x0112
_FIELD_TYPES = {3: "H", 4: "I"}
_APP1, _START_OF_SCAN, _END_OF_IMAGE = 0xE1, 0xDA, 0xD9
_SCAN_MARK = bytes([0xFF, _START_OF_SCAN])

# `warnings.catch_warnings` replaces global state, so only one thread may be inside it.
_OPENING = threading.Lock()
_DECODING_LARGE = threading.Lock()


class UnreadableImage(UnreadableItem):
    """The image file cannot be decoded."""


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


def decode_image(
    data: bytes,
    max_pixels: int = MAX_PIXELS,
    buffer: PixelBuffer | None = None,
    least_side: int | None = None,
) -> np.ndarray:
    """Decode an image file.

    Parameters
    ----------
    data : bytes
        The whole file: JPEG, PNG, GIF, BMP, TIFF, WebP or PPM, recognized by content.
    max_pixels : int
        Larger images are rejected before decoding, and so are images that would take more memory than
        `MAX_DECODE_BYTES`. For files other than JPEG, Pillow's own limit (`PIL.Image.MAX_IMAGE_PIXELS`)
        applies as well.
    buffer : PixelBuffer, optional
        Memory for the pixels. The returned array is then valid until the same thread decodes its next
        image with this buffer.
    least_side : int, optional
        A JPEG file may be decoded at 1/2, 1/4 or 1/8 of its size, as long as both sides keep this many
        pixels. This is several times faster for large photographs.

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
            pixels = _decode_jpeg(data, max_pixels, buffer, least_side)
        else:
            pixels = _decode_with_pillow(data, max_pixels)
    except UnreadableImage:
        raise
    except Exception as error:  # Pillow's readers raise nearly anything on damaged files
        raise UnreadableImage(_reason(error)) from error
    return np.ascontiguousarray(pixels)


def _decode_jpeg(
    data: bytes, max_pixels: int, buffer: PixelBuffer | None, least_side: int | None
) -> np.ndarray:
    """Decode with libjpeg-turbo where it yields RGB, else with Pillow."""
    try:
        height, width, color_space, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return _decode_with_pillow(data, max_pixels)
    _check_size(width, height, max_pixels)
    if color_space in ("CMYK", "YCCK"):
        return _decode_with_pillow(data, max_pixels)
    factor = 1 if least_side is None else _reduction(min(height, width), least_side)
    _check_scans(data, width * height)
    # A progressive JPEG keeps the coefficients of all its pixels, also if it is decoded at a smaller size.
    with _reserve(data, width, height, "JPEG", _JPEG_PIXEL_BYTES):
        height, width = -(-height // factor), -(-width // factor)
        target = None if buffer is None else buffer.take(3 * height * width)
        try:
            pixels = simplejpeg.decode_jpeg(data, min_height=height, min_width=width, buffer=target)
        except ValueError as error:
            _refuse_damaged_scan(str(error))
        else:
            return turn_upright(pixels, jpeg_orientation(data))
    return _decode_with_pillow(data, max_pixels)


def _reduction(side: int, least: int) -> int:
    """The largest factor by which libjpeg-turbo can reduce a side quickly to no less than `least` pixels."""
    return next((factor for factor in (8, 4, 2) if side >= least * factor), 1)


def _refuse_damaged_scan(message: str) -> None:
    """Reject scans that Pillow would fill with gray; extra bytes after the last pixel are harmless."""
    if "Premature end of JPEG file" in message:
        raise UnreadableImage("the JPEG data is truncated; copy the file again")
    if message.startswith("Corrupt JPEG data") and "before marker 0xd9" not in message:
        raise UnreadableImage(f"the JPEG data is damaged ({message}); copy the file again")


def _decode_with_pillow(data: bytes, max_pixels: int) -> np.ndarray:
    with _open(data) as image:
        _check_size(*image.size, max_pixels)
        if image.mode == "F":
            raise UnreadableImage(
                "its pixels are floating-point numbers of unknown range; save it with 8 or 16 bits"
            )
        known = image.format or ""
        _check_scans(data if known == "JPEG" else b"", image.width * image.height)
        with _reserve(data, *image.size, known, _PILLOW_PIXEL_BYTES[known]):
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
    width, height = image.size
    rows = max(1, _STRIP_PIXELS // width)
    if height <= rows:
        return _strip_to_rgb(image)
    pixels = np.empty((height, width, 3), np.uint8)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        pixels[top:bottom] = _strip_to_rgb(image.crop((0, top, width, bottom)))
    return pixels


def _strip_to_rgb(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):
        return np.repeat(_high_byte(np.asarray(image))[:, :, np.newaxis], 3, axis=2)
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


@contextmanager
def _reserve(data: bytes, width: int, height: int, file_format: str, pixel_bytes: int) -> Iterator[None]:
    """Refuse an image whose decoding takes too much memory; decode only one large image at a time."""
    needed = len(data) + pixel_bytes * width * height
    if needed > MAX_DECODE_BYTES:
        raise UnreadableImage(
            f"{width} x {height} pixels is too large for a {file_format} file: decoding needs about "
            f"{needed // 10**6} MB (limit {MAX_DECODE_BYTES // 10**6} MB); scale it down"
        )
    with _DECODING_LARGE if needed > _LARGE_BYTES else nullcontext():
        yield


def _check_scans(data: bytes, n_pixels: int) -> None:
    """Refuse a JPEG that would keep the decoder busy for minutes: small files can have thousands of scans."""
    most = _MAX_SCANNED_PIXELS // n_pixels
    if most < 1000 and (found := data.count(_SCAN_MARK)) > most:
        raise UnreadableImage(f"the JPEG has {found} scans (limit {most} at its size); save it again")


def _reason(error: Exception) -> str:
    if "text chunk" in str(error).lower() or "MAX_TEXT" in str(error):
        return f"its text metadata is too large ({_first_line(error)}); save it without metadata"
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
