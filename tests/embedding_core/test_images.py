"""Decoding of image files: pixels of each format, and errors for everything else."""

import io
import struct
import subprocess
import sys
import threading
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from embedding_core.errors import InvalidInput
from embedding_core.features import images
from embedding_core.features.images import (
    PixelBuffer,
    UnreadableImage,
    decode_image,
    exif_orientation,
    jpeg_orientation,
    turn_upright,
)


def smooth_pixels(height: int = 40, width: int = 60, seed: int = 0) -> np.ndarray:
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def encode(image: Image.Image | np.ndarray, file_format: str, **options: object) -> bytes:
    file = io.BytesIO()
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(file, file_format, **options)
    return file.getvalue()


def by_pillow(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def with_orientation(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize(
    "options",
    [{}, {"progressive": True}, {"quality": 60, "subsampling": 0}, {"keep_rgb": True}],
    ids=["baseline", "progressive", "444", "rgb"],
)
def test_jpeg_is_decoded_to_the_same_pixels_as_by_pillow(options):
    data = encode(smooth_pixels(), "JPEG", **options)
    pixels = decode_image(data)
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    np.testing.assert_array_equal(pixels, by_pillow(data))


@pytest.mark.parametrize("file_format", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_formats_give_their_pixels(file_format):
    pixels = smooth_pixels()
    np.testing.assert_array_equal(decode_image(encode(pixels, file_format)), pixels)


def test_webp_gives_its_pixels():
    pixels = smooth_pixels()
    np.testing.assert_array_equal(decode_image(encode(pixels, "WEBP", lossless=True)), pixels)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_gray_is_repeated_in_three_bands(file_format):
    data = encode(Image.fromarray(smooth_pixels()).convert("L"), file_format)
    pixels = decode_image(data)
    assert pixels.shape == (40, 60, 3)
    assert (pixels == pixels[:, :, :1]).all()
    np.testing.assert_array_equal(pixels, by_pillow(data))


def test_one_bit_image_is_black_and_white():
    data = encode(Image.fromarray(np.eye(9, dtype=bool)), "PNG")
    np.testing.assert_array_equal(decode_image(data)[:, :, 1], 255 * np.eye(9, dtype=np.uint8))


def test_cmyk_jpeg_goes_through_pillow():
    data = encode(Image.fromarray(smooth_pixels()).convert("CMYK"), "JPEG", quality=95)
    np.testing.assert_array_equal(decode_image(data), by_pillow(data))
    assert np.abs(decode_image(data).astype(int) - smooth_pixels()).mean() < 6


def test_palette_gives_the_colors_of_its_entries():
    image = Image.fromarray(smooth_pixels()).quantize(16)
    np.testing.assert_array_equal(decode_image(encode(image, "PNG")), np.asarray(image.convert("RGB")))


def test_transparent_palette_entry_becomes_white():
    image = Image.new("P", (4, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putdata([0, 1, 0, 1])
    pixels = decode_image(encode(image, "GIF", transparency=1))
    assert pixels.tolist() == [[[10, 20, 30], [255] * 3, [10, 20, 30], [255] * 3]]


@pytest.mark.parametrize("file_format", ["PNG", "WEBP"])
def test_transparency_is_composited_on_white(file_format):
    rgba = np.array([[[200, 0, 0, 255], [200, 0, 0, 0], [200, 0, 0, 128]]], dtype=np.uint8)
    options = {"lossless": True, "exact": True} if file_format == "WEBP" else {}
    opaque, clear, half = decode_image(encode(rgba, file_format, **options))[0].astype(int)
    assert opaque.tolist() == [200, 0, 0]
    assert clear.tolist() == [255, 255, 255]
    assert abs(half - [227, 127, 127]).max() <= 1


@pytest.mark.parametrize("file_format", ["PNG", "TIFF"])
def test_sixteen_bit_gray_gives_the_high_byte(file_format):
    values = np.array([[0, 255, 256, 32768, 65535]], dtype=np.uint16)
    assert decode_image(encode(values, file_format))[0, :, 2].tolist() == [0, 0, 1, 128, 255]


def test_sixteen_bit_color_gives_the_high_byte():
    # Pillow writes no 16-bit color; a PPM is easily written by hand.
    header = b"P6 2 1 65535\n"
    values = np.array([0, 32768, 65535, 40000, 256, 255], dtype=">u2")
    pixels = decode_image(header + values.tobytes())[0].reshape(-1)
    assert np.abs(pixels.astype(int) - values.astype(int) // 256).max() <= 1


def test_pixels_beyond_sixteen_bits_are_refused():
    with pytest.raises(UnreadableImage, match="-5 to 70000"):
        decode_image(encode(np.array([[-5, 70_000]], dtype=np.int32), "TIFF"))
    with pytest.raises(UnreadableImage, match="floating-point"):
        decode_image(encode(np.array([[0.5, 0.25]], dtype=np.float32), "TIFF"))


@pytest.mark.parametrize("file_format", ["GIF", "WEBP", "PNG", "TIFF"])
def test_first_frame_of_several_counts(file_format):
    frames = [Image.new("RGB", (6, 5), color) for color in ("red", "lime", "blue")]
    options = {"lossless": True} if file_format == "WEBP" else {}
    data = encode(frames[0], file_format, save_all=True, append_images=frames[1:], **options)
    assert (decode_image(data) == [255, 0, 0]).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_orientation_is_applied_as_pillow_does(file_format, orientation):
    data = encode(smooth_pixels(), file_format, exif=with_orientation(orientation))
    with Image.open(io.BytesIO(data)) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    pixels = decode_image(data)
    assert pixels.flags.c_contiguous
    np.testing.assert_array_equal(pixels, expected)
    assert pixels.shape[:2] == ((40, 60) if orientation < 5 else (60, 40))


def test_orientation_of_cmyk_jpeg_is_applied():
    data = encode(Image.fromarray(smooth_pixels()).convert("CMYK"), "JPEG", exif=with_orientation(6))
    assert decode_image(data).shape == (60, 40, 3)


@pytest.mark.parametrize("order", ["<", ">"])
def test_orientation_is_read_in_both_byte_orders(order):
    exif = with_orientation(6)
    exif.endian = order
    assert exif_orientation(exif.tobytes()) == 6


@pytest.mark.parametrize("value", [0, 9, 77])
def test_impossible_orientation_means_upright(value):
    exif = with_orientation(value)
    assert exif_orientation(exif.tobytes()) == 1


def test_orientation_survives_any_cut_and_any_byte():
    data = encode(smooth_pixels(), "JPEG", exif=with_orientation(3))
    assert jpeg_orientation(data) == 3
    exif = with_orientation(3).tobytes()
    for cut in range(len(exif)):
        assert 1 <= exif_orientation(exif[:cut]) <= 8
        for byte in (0, 255):
            assert 1 <= exif_orientation(exif[:cut] + bytes([byte]) + exif[cut + 1 :]) <= 8
    for cut in range(200):
        assert 1 <= jpeg_orientation(data[:cut]) <= 8


def test_upright_is_a_view():
    pixels = smooth_pixels()
    assert np.shares_memory(turn_upright(pixels, 7), pixels)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"hello, world", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
        (b"\xff\xd8\xff", "not an image|truncated|damaged"),
    ],
    ids=["empty", "text", "eps", "jpeg mark"],
)
def test_other_files_are_rejected(data, reason):
    with pytest.raises(UnreadableImage, match=reason):
        decode_image(data)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_truncated_files_are_refused(file_format):
    data = encode(smooth_pixels(), file_format)
    with pytest.raises(UnreadableImage) as caught:
        decode_image(data[: len(data) * 2 // 3])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_truncated_jpeg_says_so():
    data = encode(smooth_pixels(), "JPEG")
    for cut in (len(data) // 2, len(data) - 2):
        with pytest.raises(UnreadableImage, match="truncated"):
            decode_image(data[:cut])


def test_extra_bytes_at_the_end_of_a_jpeg_are_ignored():
    data = encode(smooth_pixels(), "JPEG")
    np.testing.assert_array_equal(decode_image(data[:-2] + b"\0\0\0" + data[-2:]), by_pillow(data))
    np.testing.assert_array_equal(decode_image(data + b"appended"), by_pillow(data))


def test_damaged_scan_is_refused():
    # A marker in the middle of the scan ends it: Pillow would fill the rest with gray.
    data = encode(smooth_pixels(400, 400), "JPEG")
    middle = len(data) * 3 // 4
    with pytest.raises(UnreadableImage, match=r"damaged|truncated"):
        decode_image(data[:middle] + b"\xff\xd9" + data[middle:])


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_too_many_pixels_are_refused_before_decoding(file_format, monkeypatch):
    data = encode(smooth_pixels(), file_format)
    assert decode_image(data, max_pixels=2400).shape == (40, 60, 3)
    monkeypatch.setattr(images.simplejpeg, "decode_jpeg", None)
    monkeypatch.setattr(Image.Image, "load", None)
    with pytest.raises(UnreadableImage, match="60 x 40 pixels is too large \\(limit 2399\\)"):
        decode_image(data, max_pixels=2399)


@pytest.mark.parametrize("limit", [2000, 1000], ids=["warning", "error"])
def test_the_limit_of_pillow_is_an_error(limit, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(UnreadableImage, match="too large"):
        decode_image(encode(smooth_pixels(), "PNG"))


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_random_damage_never_leaks_another_exception(file_format):
    options = {"exif": with_orientation(6)} if file_format == "JPEG" else {}
    data = encode(smooth_pixels(), file_format, **options)
    rng = np.random.default_rng(3)
    outcomes = set()
    for _ in range(150):
        damaged = np.frombuffer(data, np.uint8).copy()
        places = rng.integers(0, min(len(data), rng.choice([64, len(data)])), rng.integers(1, 6))
        damaged[places] = rng.integers(0, 256, len(places))
        try:
            pixels = decode_image(damaged.tobytes(), max_pixels=1_000_000)
        except UnreadableImage:
            outcomes.add("refused")
        else:
            outcomes.add("decoded")
            assert pixels.dtype == np.uint8
            assert pixels.ndim == 3
            assert pixels.shape[2] == 3
    assert outcomes == {"refused", "decoded"}


def test_refusal_is_invalid_input():
    assert issubclass(UnreadableImage, InvalidInput)


def test_buffer_is_reused_and_grows():
    buffer = PixelBuffer()
    small, large = encode(smooth_pixels(20, 30), "JPEG"), encode(smooth_pixels(50, 70), "JPEG")
    for data in (large, small, large):
        np.testing.assert_array_equal(decode_image(data, buffer=buffer), by_pillow(data))
    first = decode_image(large, buffer=buffer)
    assert np.shares_memory(first, decode_image(small, buffer=buffer))


def test_buffer_is_not_kept_for_huge_images(monkeypatch):
    monkeypatch.setattr(images, "_MAX_KEPT_BYTES", 100)
    buffer = PixelBuffer()
    assert not np.shares_memory(buffer.take(101), buffer.take(101))
    assert np.shares_memory(buffer.take(100), buffer.take(100))


def test_threads_do_not_share_a_buffer():
    buffer = PixelBuffer()
    data = [encode(smooth_pixels(seed=seed), "JPEG") for seed in range(2)]
    seen: dict[int, np.ndarray] = {}

    def decode(which: int) -> None:
        for _ in range(20):
            seen[which] = decode_image(data[which], buffer=buffer)

    threads = [threading.Thread(target=decode, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for which in range(2):
        np.testing.assert_array_equal(seen[which], by_pillow(data[which]))


def test_warning_filters_are_changed_by_one_thread_at_a_time_and_put_back(monkeypatch):
    data = encode(smooth_pixels(), "PNG")
    before = list(warnings.filters)
    original, inside = Image.open, []

    def watched_open(*arguments: object, **options: object) -> Image.Image:
        inside.append((images._OPENING.locked(), list(warnings.filters) != before))
        return original(*arguments, **options)

    monkeypatch.setattr(Image, "open", watched_open)
    decode_image(data)
    assert inside == [(True, True)]
    assert list(warnings.filters) == before


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def flat_png(width: int, height: int, *extra: bytes) -> bytes:
    """A transparent PNG whose file is a thousandth of its pixels, with other chunks before them."""
    packer = zlib.compressobj(9)
    rows = [packer.compress(b"\0" + bytes(4 * width)) for _ in range(height)]
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = [png_chunk(b"IHDR", header), *extra, png_chunk(b"IDAT", b"".join(rows) + packer.flush())]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + png_chunk(b"IEND", b"")


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_memory_is_bounded_before_decoding(file_format, monkeypatch):
    data = encode(smooth_pixels(), file_format)
    monkeypatch.setattr(images, "MAX_DECODE_BYTES", len(data) + 60 * 40 * 20)
    assert decode_image(data).shape == (40, 60, 3)
    monkeypatch.setattr(images, "MAX_DECODE_BYTES", 60 * 40 * 3)
    monkeypatch.setattr(images.simplejpeg, "decode_jpeg", None)
    monkeypatch.setattr(Image.Image, "load", None)
    with pytest.raises(
        UnreadableImage, match=rf"60 x 40 pixels is too large for a {file_format} file: .*scale"
    ):
        decode_image(data)


def test_large_images_are_decoded_one_at_a_time(monkeypatch):
    taken = []
    original = images.simplejpeg.decode_jpeg

    def watched(*arguments, **options):
        taken.append(images._DECODING_LARGE.locked())
        return original(*arguments, **options)

    monkeypatch.setattr(images.simplejpeg, "decode_jpeg", watched)
    data = encode(smooth_pixels(), "JPEG")
    decode_image(data)
    monkeypatch.setattr(images, "_LARGE_BYTES", 100)
    decode_image(data)
    assert taken == [False, True]
    assert not images._DECODING_LARGE.locked()


@pytest.mark.parametrize("kind", ["RGBA", "LA", "P", "CMYK", "I;16", "1", "transparent"])
def test_strips_give_the_same_pixels(kind, monkeypatch):
    pixels = smooth_pixels()
    if kind == "I;16":
        data = encode(pixels[:, :, 0].astype(np.uint16) * 257, "PNG")
    elif kind == "transparent":
        data = encode(Image.fromarray(pixels).quantize(16), "PNG", transparency=3)
    else:
        image = Image.fromarray(pixels).convert(kind)
        if kind in ("RGBA", "LA"):
            image.putalpha(Image.fromarray(pixels[:, :, 1]))
        data = encode(image, "TIFF" if kind == "CMYK" else "PNG")
    whole = decode_image(data)
    for strip in (1, 60, 60 * 7, 60 * 39):
        monkeypatch.setattr(images, "_STRIP_PIXELS", strip)
        np.testing.assert_array_equal(decode_image(data), whole)


@pytest.mark.parametrize(
    "chunk",
    [
        png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(2**26), 9)),
        png_chunk(b"iTXt", b"Comment\0\1\0\0\0" + zlib.compress(bytes(2**26), 9)),
    ],
    ids=["zTXt", "iTXt"],
)
def test_text_that_unpacks_to_more_than_it_should_is_refused(chunk):
    with pytest.raises(UnreadableImage, match=r"its text metadata is too large .* save it without metadata"):
        decode_image(flat_png(4, 4, chunk))


def test_a_jpeg_of_thousands_of_scans_is_refused(monkeypatch):
    data = encode(smooth_pixels(), "JPEG", progressive=True)
    scans = data.count(b"\xff\xda")
    assert scans > 3
    monkeypatch.setattr(images, "_MAX_SCANNED_PIXELS", scans * 60 * 40)
    assert decode_image(data).shape == (40, 60, 3)
    monkeypatch.setattr(images, "_MAX_SCANNED_PIXELS", scans * 60 * 40 - 1)
    with pytest.raises(UnreadableImage, match=f"the JPEG has {scans} scans"):
        decode_image(data)


@pytest.mark.slow
@pytest.mark.parametrize("side", [8900, 12_000])
def test_a_small_file_of_many_pixels_takes_less_than_a_gigabyte(side, tmp_path):
    (tmp_path / "x.png").write_bytes(flat_png(side, side))
    script = (
        "import re, sys\nfrom pathlib import Path\n"
        "from embedding_core.features.images import UnreadableImage, decode_image\n"
        "try: print(decode_image(Path(sys.argv[1]).read_bytes()).shape)\n"
        "except UnreadableImage as error: print(error)\n"
        # `ru_maxrss` would include the process that started this one.
        "print(re.search('VmHWM:[^0-9]*([0-9]+)', Path('/proc/self/status').read_text())[1])"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "x.png")]
    said, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == "(8900, 8900, 3)" if side == 8900 else "too large" in said
    assert int(peak) < (700_000 if side == 8900 else 200_000)  # kilobytes
