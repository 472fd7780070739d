"""Small pictures for pages."""

import io

from PIL import Image

from embedding_core.features.images import decode_image


def shrink_image(data: bytes, edge: int) -> Image.Image:
    """Decode an image file and shrink it to at most `edge` pixels on each side.

    Raises
    ------
    UnreadableImage
        The file cannot be decoded.
    """
    picture = Image.fromarray(decode_image(data))
    picture.thumbnail((edge, edge))
    return picture


def encode_jpeg(picture: Image.Image, quality: int) -> bytes:
    """Return a picture as the bytes of a JPEG file."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
