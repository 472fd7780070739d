"""Speed and memory of the picture features without training, as ratios measured side by side.

    python -m tests.benchmarks.bench_picture_features [--images 8] [--rounds 9]

Pictures have 320 x 213 pixels. They are stored as the JPEG files of MSRC v2 are: without chroma subsampling,
in about 50 kB. All sides use one thread and are compared by CPU time, except for the intersection kernel,
which uses all cores and is compared by wall-clock time. OpenCV (`labelscape[bench]`) is needed.

OpenCV's descriptor of a key point of size s covers 6 s pixels, so the usual choice of size 16 for patches of
16 pixels covers 96. Both are measured: size 16, and the size whose window is the patch.
"""

import argparse
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import simplejpeg
from PIL import Image

from embedding_core.features.codebook import fit_codebook
from embedding_core.features.dense_sift import DenseSift, grid_starts
from embedding_core.features.gabor import Gabor, GaborFilter, filter_bank
from embedding_core.features.gray import gray_pixels
from embedding_core.features.lpssvm_visual import LpssvmVisual
from embedding_core.linalg import l1
from tests.benchmarks.bench_features import photo_like, ratio, time_rounds
from tests.benchmarks.table import Row, peak_bytes

HEIGHT, WIDTH = 213, 320

COMPARISONS = [
    ("dense SIFT, 320x213, step 8, against OpenCV's SIFT on the same grid, size 16", "cv_sift", "sift", 10.0),
    ("the same, with OpenCV's window reduced to the same 16x16 patch", "cv_sift_patch", "sift", 10.0),
    ("Gabor, 24 filters, against 24 calls of `cv2.filter2D` with real kernels", "cv_gabor", "gabor", 3.0),
    ("decoding a 320x213 JPEG against color + Gabor + edges", "decode", "visual", 1 / 6),
    ("the same for JPEG of quality 88 with chroma subsampling", "decode_light", "visual", 1 / 6),
]
"""Comparisons: title, slow side, fast side, required ratio of their times."""


def picture(seed: int) -> np.ndarray:
    return np.asarray(Image.fromarray(photo_like(seed)).resize((WIDTH, HEIGHT), 3))


def jpeg(pixels: np.ndarray, **options: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", **options)
    return file.getvalue()


def gabor_kernel(one: GaborFilter) -> np.ndarray:
    """The real part of a filter in the plane, up to three standard deviations."""
    reach = int(3 / (2 * np.pi * min(one.along, one.across))) + 1
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    c, s = np.cos(one.angle), np.sin(one.angle)
    envelope = np.exp(
        -2 * np.pi**2 * ((one.along * (x * c + y * s)) ** 2 + (one.across * (y * c - x * s)) ** 2)
    )
    wave = np.cos(2 * np.pi * one.frequency * (x * c + y * s))
    return (2 * np.pi * one.along * one.across * envelope * wave).astype(np.float32)


def opencv_sift(grays: list[np.ndarray], size: float) -> Callable[[], object]:
    import cv2

    detector = cv2.SIFT_create()
    points = [
        cv2.KeyPoint(float(x + 7.5), float(y + 7.5), size, 0.0, 1.0, 0)
        for y in grid_starts(HEIGHT, 16, 8)
        for x in grid_starts(WIDTH, 16, 8)
    ]
    return lambda: [detector.compute(gray, points) for gray in grays]


def variants(pictures: list[np.ndarray]) -> dict[str, Callable[[], object]]:
    import cv2

    cv2.setNumThreads(1)
    grays = [gray_pixels(pixels) for pixels in pictures]
    files = [jpeg(pixels, quality=90, subsampling=0) for pixels in pictures]
    light = [jpeg(pixels, quality=88) for pixels in pictures]
    sizes = [np.mean([len(data) for data in some]) / 1000 for some in (files, light)]
    print(f"JPEG files of {sizes[0]:.0f} and {sizes[1]:.0f} kB")
    kernels = [gabor_kernel(one) for filters in filter_bank(4, 6, 0.05, 0.4) for one in filters]
    sift, gabor, visual = DenseSift(), Gabor(), LpssvmVisual()
    return {
        "sift": lambda: [sift.describe(gray) for gray in grays],
        "cv_sift": opencv_sift(grays[:1], 16.0),
        "cv_sift_patch": opencv_sift(grays, 16 / 6),
        "gabor": lambda: [gabor.describe(gray) for gray in grays],
        "cv_gabor": lambda: [cv2.filter2D(gray, cv2.CV_32F, one) for gray in grays for one in kernels],
        "visual": lambda: [visual.extract(pixels) for pixels in pictures],
        "decode": lambda: [simplejpeg.decode_jpeg(data) for data in files],
        "decode_light": lambda: [simplejpeg.decode_jpeg(data) for data in light],
    }


def plain_intersection(X: np.ndarray) -> np.ndarray:
    """NumPy with one row at a time: all pairs at once would take 20 GB."""
    K = np.empty((len(X), len(X)))
    for number, row in enumerate(X):
        K[number] = np.minimum(row, X).sum(axis=1)
    return K


def time_intersection(n: int, p: int, rounds: int) -> tuple[float, int, float]:
    """Ratio to plain NumPy by the best times of a few rounds, threads at work, largest difference."""
    X = np.random.default_rng(0).random((n, p))
    X /= X.sum(axis=1, keepdims=True)
    threads: set[int] = set()
    fast, plain = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        K = l1.intersection_kernel(X)
        fast.append(time.perf_counter() - started)
        started = time.perf_counter()
        expected = plain_intersection(X)
        plain.append(time.perf_counter() - started)
    distances = l1.l1_distances
    with patch.object(
        l1, "l1_distances", lambda A, B: (threads.add(threading.get_ident()), distances(A, B))[1]
    ):
        l1.intersection_kernel(X)
    return min(plain) / min(fast), len(threads), float(np.abs(K - expected).max())


def codebook_peak(n_images: int) -> float:
    """Peak memory (MB) of a fresh process that learns a codebook from images made on the way."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_picture_features", "--peak-of", str(n_images)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def print_peak(n_images: int) -> None:
    shown = picture(0)
    images = (np.roll(shown, 3 * number, axis=1) for number in range(n_images))
    fit_codebook(images, n_words=200)
    print(peak_bytes() / 1e6)


def measure(quick: bool = False, n_images: int = 8, rounds: int = 9) -> list[Row]:
    """Print every ratio and return the rows of the benchmark table."""
    n_images, rounds, size, counts = (2, 2, 150, (20, 40)) if quick else (n_images, rounds, 1530, (50, 400))
    times = time_rounds(variants([picture(seed) for seed in range(n_images)]), rounds)
    times["cv_sift"] = [n_images * one for one in times["cv_sift"]]  # measured on one picture
    rows = []
    for title, slow, fast, target in COMPARISONS:
        median, low, high, best = ratio(times, slow, fast)
        print(f"{title:80} {median:7.2f} ({low:.2f} to {high:.2f}, best {best:.2f}), target {target:.2f}")
        if target < 1:
            title = title.replace("decoding a 320x213 JPEG against color", "cost of color")
            title += " in units of decoding a 320x213 JPEG" if slow == "decode" else ""
            rows.append((title, f"at most {1 / target:.0f}", f"{1 / median:.2f}", ""))
        else:
            rows.append((title, f"at least {target:.0f}x", f"{median:.1f}x", ""))
    for name in ("sift", "cv_sift", "cv_sift_patch", "gabor", "cv_gabor", "visual", "decode", "decode_light"):
        print(f"{name:16} {1000 * float(np.median(times[name])) / n_images:8.3f} ms per picture")
    speed, threads, difference = time_intersection(size, 1050, 2 if quick else 3)
    print(f"intersection kernel: {speed:.1f}x, {threads} threads, largest difference {difference:.1e}")
    rows.append(
        (
            "intersection kernel, 1,530 x 1,530 x 1,050, against a NumPy broadcast; threads at work",
            "at least 5x; at least 2",
            f"{speed:.1f}x; {threads}",
            "",
        )
    )
    few, many = (codebook_peak(count) for count in counts)
    rows.append(
        (
            "peak memory of learning a codebook from 400 pictures against 50",
            "at most 1.1",
            f"{many / few:.3f}",
            f"{many:.0f} MB",
        )
    )
    print(f"codebook: {few:.0f} MB for {counts[0]} pictures, {many:.0f} MB for {counts[1]}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--peak-of", type=int, metavar="IMAGES", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak_of:
        print_peak(arguments.peak_of)
    else:
        measure(n_images=arguments.images, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
