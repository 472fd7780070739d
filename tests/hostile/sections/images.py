"""Images: damaged, disguised, enormous and unusual ones among four good pictures."""

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from PIL import Image

from tests.hostile.case import REFUSED, SKIPPED, SURVIVED, Case, Place, run_until, settings
from tests.hostile.samples import encode, flip, picture, pictures, positions

WARM_UP = "features"
FEATURES = run_until("features")
EITHER = f"{SKIPPED}|{SURVIVED}"
FORMATS = {
    "jpg": "JPEG",
    "png": "PNG",
    "gif": "GIF",
    "bmp": "BMP",
    "tif": "TIFF",
    "webp": "WEBP",
    "ppm": "PPM",
}
Content = Callable[[], bytes]


def one(name: str, file: str, content: bytes | Content, expect: str, **options: Any) -> Case:
    """Four good pictures and a hostile one."""

    def make(place: Place) -> None:
        pictures(place.source, {file: "red"})
        (place.source / file).write_bytes(content() if callable(content) else content)

    return Case(name, make, FEATURES, expect=expect, items=5, **options)


def good(kind: str) -> bytes:
    """A good picture of a format."""
    return encode(picture(9), FORMATS[kind])


def truncated() -> Iterator[Case]:
    """Every format cut in its signature, header and pixels."""
    for kind in FORMATS:
        size = len(good(kind))
        for cut in (0, 1, 2, 4, 8, 12, 16, 24, 32):
            expect = SKIPPED if cut < 24 else EITHER
            yield one(f"{kind} cut to {cut} bytes", f"x.{kind}", good(kind)[:cut], expect)
        for percent in (25, 50, 75, 95):
            cut = size * percent // 100
            yield one(f"{kind} cut to {percent} %", f"x.{kind}", good(kind)[:cut], EITHER)
        yield one(f"{kind} without its last byte", f"x.{kind}", good(kind)[:-1], EITHER)


def flipped() -> Iterator[Case]:
    """Every format with one byte changed."""
    for kind in FORMATS:
        for position in positions(len(kind) + ord(kind[0]), len(good(kind)), 4):
            content = flip(good(kind), position, 0xFF)
            yield one(f"{kind} flipped at {position}", f"x.{kind}", content, EITHER)


FLOATS: dict[str, Content] = {
    "float tif": lambda: encode(picture(1, mode="F"), "TIFF"),
    "float tif with nan": lambda: encode(Image.fromarray(np.full((12, 16), np.nan, np.float32)), "TIFF"),
}
FOREIGN: dict[str, bytes] = {
    "text": b"not a picture\n",
    "html": b"<html><script>alert(1)</script></html>",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg' width='1000000' height='1000000'/>",
    "svg entity": b"<!DOCTYPE svg [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><svg>&x;</svg>",
    "pdf": b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n",
    "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(/etc/passwd) run\nshowpage\n",
    "zip": b"PK\x03\x04" + bytes(40),
    "gzip": b"\x1f\x8b\x08" + bytes(40),
    "elf": b"\x7fELF" + bytes(60),
    "fits": b"SIMPLE  =                    T" + b" " * 50 + b"END" + b" " * 2797,
    "psd": b"8BPS\x00\x01" + bytes(40),
    "icns": b"icns\x7f\xff\xff\xff" + bytes(40),
    "ico": b"\x00\x00\x01\x00\xff\xff" + bytes(40),
    "pcx": b"\x0a\x05\x01\x08" + b"\xff" * 124,
    "tga": bytes(2) + b"\x02" + bytes(9) + b"\xff\xff\xff\xff\x18\x00",
    "dds": b"DDS " + b"\xff" * 124,
    "jpeg 2000": b"\x00\x00\x00\x0cjP  \r\n\x87\n" + bytes(40),
    "avif": b"\x00\x00\x00\x20ftypavif" + bytes(40),
    "xbm": b"#define x_width 100000\n#define x_height 100000\nstatic char x_bits[] = {\n",
    "pickle": b"\x80\x04\x95" + b"\x00" * 8 + b"cposix\nsystem\n",
    "nul bytes": bytes(4096),
    "0xff bytes": b"\xff" * 4096,
    "newlines": b"\n" * 4096,
}


def foreign() -> Iterator[Case]:
    """Other files with the name of an image."""
    for number, (title, content) in enumerate(FOREIGN.items()):
        kind = list(FORMATS)[number % len(FORMATS)]
        yield one(f"{title} as {kind}", f"x.{kind}", content, SKIPPED)
    for title, made in FLOATS.items():
        yield one(title, "x.tif", made, SKIPPED, says=("unknown range",))
    kinds = list(FORMATS)
    for kind, other in zip(kinds, kinds[1:] + kinds[:1], strict=True):
        yield one(f"{kind} named {other}", f"x.{other}", good(kind), EITHER)


MODES: dict[str, Content] = {
    "1-bit png": lambda: encode(picture(1, mode="1"), "PNG"),
    "gray png": lambda: encode(picture(1, mode="L"), "PNG"),
    "gray png with alpha": lambda: encode(picture(1, mode="LA"), "PNG"),
    "16-bit gray png": lambda: encode(
        Image.fromarray(np.arange(192, dtype=np.uint16).reshape(12, 16) * 300), "PNG"
    ),
    "palette png": lambda: encode(picture(1).convert("P"), "PNG"),
    "palette png with transparency": lambda: encode(picture(1).convert("P"), "PNG", transparency=3),
    "rgba png": lambda: encode(picture(1, mode="RGBA"), "PNG"),
    "rgb png with transparent color": lambda: encode(picture(1), "PNG", transparency=(1, 2, 3)),
    "cmyk jpg": lambda: encode(picture(1, mode="CMYK"), "JPEG"),
    "gray jpg": lambda: encode(picture(1, mode="L"), "JPEG"),
    "progressive jpg": lambda: encode(picture(1), "JPEG", progressive=True),
    "jpg 4:1:1": lambda: encode(picture(1), "JPEG", subsampling=2),
    "jpg quality 1": lambda: encode(picture(1), "JPEG", quality=1),
    "jpg with restart markers": lambda: encode(picture(1), "JPEG", restart_marker_blocks=1),
    "cmyk tif": lambda: encode(picture(1, mode="CMYK"), "TIFF"),
    "lab tif": lambda: encode(picture(1, mode="LAB"), "TIFF"),
    "ycbcr tif": lambda: encode(picture(1, mode="YCbCr"), "TIFF"),
    "32-bit integer tif": lambda: encode(picture(1, mode="I"), "TIFF"),
    "lzw tif": lambda: encode(picture(1), "TIFF", compression="tiff_lzw"),
    "deflate tif": lambda: encode(picture(1), "TIFF", compression="tiff_deflate"),
    "packbits tif": lambda: encode(picture(1), "TIFF", compression="packbits"),
    "lossless webp": lambda: encode(picture(1), "WEBP", lossless=True),
    "webp with alpha": lambda: encode(picture(1, mode="RGBA"), "WEBP"),
    "gray ppm": lambda: encode(picture(1, mode="L"), "PPM"),
    "1-bit ppm": lambda: encode(picture(1, mode="1"), "PPM"),
    "plain text ppm": lambda: b"P3 2 2 255 " + b"9 9 9 " * 4,
    "ppm with comments": lambda: b"P6\n# a\n2\n# b\n2 255\n" + bytes(12),
    "ppm with maximum 7": lambda: b"P6 2 2 7\n" + bytes(12),
    "16-bit ppm": lambda: b"P6 2 2 65535\n" + bytes(24),
    "rle bmp": lambda: encode(picture(1, mode="P"), "BMP"),
    "interlaced gif": lambda: encode(picture(1), "GIF", interlace=1),
    "animated gif": lambda: encode(picture(1), "GIF", save_all=True, append_images=[picture(2)] * 5),
    "animated webp": lambda: encode(picture(1), "WEBP", save_all=True, append_images=[picture(2)] * 5),
    "animated png": lambda: encode(picture(1), "PNG", save_all=True, append_images=[picture(2)] * 5),
    "tif of 200 pages": lambda: encode(picture(1), "TIFF", save_all=True, append_images=[picture(2)] * 199),
    "gif of 2,000 frames": lambda: encode(
        picture(1, (4, 4)), "GIF", save_all=True, append_images=[picture(k, (4, 4)) for k in range(2000)]
    ),
    "trailing garbage jpg": lambda: encode(picture(1), "JPEG") + b"garbage" * 1000,
    "trailing garbage png": lambda: encode(picture(1), "PNG") + bytes(100_000),
    "two jpgs in one": lambda: encode(picture(1), "JPEG") * 2,
}
SIZES = (
    (1, 1),
    (1, 2),
    (2, 1),
    (2, 2),
    (3, 3),
    (7, 7),
    (8, 1),
    (1, 8),
    (9, 1),
    (1, 3000),
    (3000, 1),
    (20000, 1),
)


def unusual() -> Iterator[Case]:
    """Good pictures of all color modes and shapes."""
    for title, content in MODES.items():
        words = title.split()
        kind = next((word for word in words if word in FORMATS), "jpg")
        yield one(title, f"x.{kind}", content, SURVIVED, silent=("unreadable",))
    for size in SIZES:
        for kind in ("png", "jpg"):
            data = encode(picture(1, size), FORMATS[kind])
            yield one(f"{kind} of {size[0]}x{size[1]}", f"x.{kind}", data, SURVIVED, silent=("unreadable",))


def exif(orientation: int) -> bytes:
    """A picture with an orientation."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    return encode(picture(1), "JPEG", exif=tags)


def embedded() -> Iterator[Case]:
    """Metadata: orientations, color profiles, comments, and nonsense in their place."""
    for orientation in (*range(10), 255, 65535):
        yield one(f"orientation {orientation}", "x.jpg", exif(orientation), SURVIVED)
    raw = {
        "truncated exif": b"Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\xff\xff",
        "exif pointing outside": b"Exif\x00\x00II\x2a\x00\xff\xff\xff\x7f",
        "exif of text": b"Exif\x00\x00hello",
        "exif of 60 kB": b"Exif\x00\x00" + bytes(60_000),
    }
    for title, data in raw.items():
        yield one(title, "x.jpg", encode(picture(1), "JPEG", exif=data), EITHER)
    profiles = {"empty": b"", "garbage": b"\xff" * 200, "text": b"hello", "of 1 MB": bytes(1 << 20)}
    for title, data in profiles.items():
        for kind in ("JPEG", "PNG"):
            content = encode(picture(1), kind, icc_profile=data)
            yield one(f"{kind} profile {title}", f"x.{kind.lower()}", content, EITHER)
    yield one(
        "jpeg comment with escapes", "x.jpg", lambda: encode(picture(1), "JPEG", comment=b"\x1b[2J"), EITHER
    )


def chunk(name: bytes, data: bytes, crc: int | None = None) -> bytes:
    """A chunk of a PNG file."""
    check = zlib.crc32(name + data) if crc is None else crc
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)


def header(width: int, height: int, depth: int = 8, color: int = 2, interlace: int = 0) -> bytes:
    """The first chunk of a PNG file."""
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace))


def png(*chunks: bytes) -> bytes:
    """A PNG file of chunks."""
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def pixels(width: int = 4, height: int = 4, channels: int = 3) -> bytes:
    """Compressed rows of zeros, made in portions: the picture need not fit into memory."""
    packer, row = zlib.compressobj(1), bytes(1 + width * channels)
    rows = max(1, (1 << 22) // len(row))
    parts = [packer.compress(row * min(rows, height - k)) for k in range(0, height, rows)]
    return chunk(b"IDAT", b"".join(parts) + packer.flush())


END = chunk(b"IEND", b"")
BROKEN_PNG: dict[str, Content] = {
    "no IHDR": lambda: png(pixels(), END),
    "IHDR twice": lambda: png(header(4, 4), header(5, 5), pixels(), END),
    "IHDR of 3 bytes": lambda: png(chunk(b"IHDR", b"abc"), pixels(), END),
    "no IDAT": lambda: png(header(4, 4), END),
    "IDAT of garbage": lambda: png(header(4, 4), chunk(b"IDAT", b"garbage"), END),
    "IDAT too short": lambda: png(header(400, 400), pixels(), END),
    "IDAT too long": lambda: png(header(4, 4), pixels(400, 400), END),
    "no palette": lambda: png(header(4, 4, 8, 3), pixels(4, 4, 1), END),
    "width 0": lambda: png(header(0, 4), pixels(), END),
    "height 0": lambda: png(header(4, 0), pixels(), END),
    "depth 3": lambda: png(header(4, 4, 3), pixels(), END),
    "color type 5": lambda: png(header(4, 4, 8, 5), pixels(), END),
    "interlace 9": lambda: png(header(4, 4, 8, 2, 9), pixels(), END),
    "wrong checksum": lambda: png(header(4, 4), chunk(b"IDAT", zlib.compress(bytes(52)), 1), END),
    "unknown critical chunk": lambda: png(header(4, 4), chunk(b"EVIL", b"x"), pixels(), END),
    "chunk of 2 GB": lambda: png(header(4, 4), struct.pack(">I", 0x7FFFFFFF) + b"IDAT" + bytes(9)),
    "chunk of 4 GB": lambda: png(header(4, 4), struct.pack(">I", 0xFFFFFFFF) + b"tEXt" + bytes(9)),
    "100,000 chunks": lambda: png(header(4, 4), chunk(b"tEXt", b"a\x00b") * 100_000, pixels(), END),
    "100,000 empty IDAT": lambda: png(header(4, 4), chunk(b"IDAT", b"") * 100_000, pixels(), END),
    "text bomb": lambda: png(
        header(4, 4), chunk(b"zTXt", b"a\x00\x00" + zlib.compress(bytes(1 << 28))), pixels(), END
    ),
    "international text bomb": lambda: png(
        header(4, 4), chunk(b"iTXt", b"a\x00\x01\x00\x00\x00" + zlib.compress(bytes(1 << 28))), pixels(), END
    ),
    "profile bomb": lambda: png(
        header(4, 4), chunk(b"iCCP", b"a\x00\x00" + zlib.compress(bytes(1 << 28))), pixels(), END
    ),
}


def broken_png() -> Iterator[Case]:
    """PNG files that are wrong in one part."""
    for title, content in BROKEN_PNG.items():
        yield one(f"png: {title}", "x.png", content, EITHER)


def jpeg_claim(width: int, height: int) -> bytes:
    """A JPEG file whose header claims other dimensions than its data have."""
    data = bytearray(encode(picture(1), "JPEG"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(data)


def tiff(tags: dict[int, tuple[int, int, int]], following: int = 0) -> bytes:
    """A TIFF file with one directory of tags (type, count, value)."""
    entries = b"".join(struct.pack("<HHII", tag, *value) for tag, value in sorted(tags.items()))
    return (
        b"II*\x00\x08\x00\x00\x00"
        + struct.pack("<H", len(tags))
        + entries
        + struct.pack("<I", following)
        + bytes(64)
    )


def tiff_claim(width: int, height: int, following: int = 0) -> bytes:
    """An uncompressed gray TIFF file that claims these dimensions."""
    strip = {273: (4, 1, 8), 278: (4, 1, height), 279: (4, 1, min(width * height, 0xFFFFFFFF))}
    return tiff(
        {256: (4, 1, width), 257: (4, 1, height), 258: (3, 1, 8), 259: (3, 1, 1), 262: (3, 1, 1), **strip},
        following,
    )


def solid(size: tuple[int, int], kind: str, mode: str = "L", **options: Any) -> bytes:
    """A picture of one color."""
    target = io.BytesIO()
    Image.new(mode, size).save(target, kind, **options)
    return target.getvalue()


BOMBS: dict[str, tuple[str, Content]] = {
    "79 megapixels rgba": ("png", lambda: png(header(8900, 8900, 8, 6), pixels(8900, 8900, 4), END)),
    "400 megapixels gray": ("png", lambda: png(header(20000, 20000, 8, 0), pixels(20000, 20000, 1), END)),
    "100 megapixels 16-bit rgba": ("png", lambda: png(header(10000, 10000, 16, 6), pixels(100, 100, 8), END)),
    "2,500 megapixels 1-bit": ("png", lambda: png(header(50000, 50000, 1, 0), pixels(50000, 100, 1), END)),
    "largest header": ("png", lambda: png(header(0x7FFFFFFF, 0x7FFFFFFF), pixels(), END)),
    "long line": ("png", lambda: png(header(100_000_000, 1, 8, 0), pixels(100_000_000, 1, 1), END)),
    "jpg claims 65535x65535": ("jpg", lambda: jpeg_claim(65535, 65535)),
    "jpg claims 65500x65500": ("jpg", lambda: jpeg_claim(65500, 65500)),
    "jpg claims 0x0": ("jpg", lambda: jpeg_claim(0, 0)),
    "jpg claims 30000x1": ("jpg", lambda: jpeg_claim(30000, 1)),
    "gif claims 65535x65535": (
        "gif",
        lambda: b"GIF89a\xff\xff\xff\xff\x00\x00\x00" + encode(picture(1), "GIF")[13:],
    ),
    "bmp claims 2^30": (
        "bmp",
        lambda: good("bmp")[:18] + struct.pack("<ii", 1 << 30, 1 << 30) + good("bmp")[26:],
    ),
    "bmp of negative size": ("bmp", lambda: good("bmp")[:18] + struct.pack("<ii", -5, -5) + good("bmp")[26:]),
    "tif claims 2^31": ("tif", lambda: tiff_claim(1 << 31, 1 << 31)),
    "tif claims 60000x60000": ("tif", lambda: tiff_claim(60000, 60000)),
    "tif directory loop": ("tif", lambda: tiff_claim(4, 4, following=8)),
    "tif with 65535 tags": ("tif", lambda: b"II*\x00\x08\x00\x00\x00\xff\xff" + bytes(100_000)),
    "tif tag of 4 GB": ("tif", lambda: tiff({256: (4, 1, 4), 257: (4, 1, 4), 270: (2, 0xFFFFFFFF, 8)})),
    "ppm claims 10^9": ("ppm", lambda: b"P6 1000000000 1000000000 255\n" + bytes(30)),
    "ppm claims 10^5000": ("ppm", lambda: b"P6 1" + b"0" * 5000 + b" 1 255\n" + bytes(30)),
    "ppm of negative size": ("ppm", lambda: b"P6 -4 -4 255\n" + bytes(48)),
    "ppm with a comment of 10 MB": ("ppm", lambda: b"P6 #" + b"x" * 10_000_000 + b"\n2 2 255\n" + bytes(12)),
    "webp of 16383x16383": ("webp", lambda: good("webp")[:26] + b"\xff\x3f\xff\x3f" + good("webp")[30:]),
    "webp of 120 megapixels": ("webp", lambda: solid((12000, 10000), "WEBP", "RGB", quality=1, method=0)),
    "gif of 64 megapixels, 3 frames": (
        "gif",
        lambda: solid(
            (8000, 8000), "GIF", "L", save_all=True, append_images=[Image.new("L", (8000, 8000), 9)] * 2
        ),
    ),
}


def enormous() -> Iterator[Case]:
    """Small files that claim or contain many pixels."""
    for title, (kind, content) in BOMBS.items():
        yield one(f"bomb: {title}", f"x.{kind}", content, EITHER)


def whole_folders() -> Iterator[Case]:
    """Collections in which no picture, or not every one, can be read."""

    def spoil(place: Place, files: int) -> None:
        pictures(place.source)
        for number in range(files):
            (place.source / f"p{number}.png").write_bytes(b"no picture")

    yield Case("none readable", lambda place: spoil(place, 4), FEATURES, says=("none of 4",))
    yield Case("one unreadable", lambda place: spoil(place, 1), FEATURES, expect=SKIPPED, says=("p0.png",))
    strict = (*FEATURES, *settings("source.strict=true"))
    yield Case(
        "one unreadable, strict", lambda place: spoil(place, 1), strict, expect=REFUSED, says=("p0.png",)
    )
    yield Case("three unreadable", lambda place: spoil(place, 3), FEATURES, expect=f"{SKIPPED}|{REFUSED}")


def cases() -> list[Case]:
    """The cases of this section."""
    return [
        *truncated(),
        *flipped(),
        *foreign(),
        *unusual(),
        *embedded(),
        *broken_png(),
        *enormous(),
        *whole_folders(),
    ]
