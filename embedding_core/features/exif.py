"""The one EXIF entry that changes what a picture shows: which way up it is."""

import struct

import numpy as np

_ORIENTATION = 0x0112
_FIELD_TYPES = {3: "H", 4: "I"}
_APP1, _START_OF_SCAN, _END_OF_IMAGE = 0xE1, 0xDA, 0xD9


def jpeg_orientation(data: bytes) -> int:
    """EXIF orientation (1 to 8) of a JPEG file; 1, upright, where it has none or a damaged one."""
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
    """Orientation (1 to 8) in a block of EXIF data, with or without its `Exif` heading."""
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
        pass  # the directory points outside the block: as good as none
    return 1


def turn_upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """View of `pixels` (height, width, bands) as it is meant to be seen."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels
