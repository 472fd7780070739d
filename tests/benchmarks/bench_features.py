"""Speed, exactness and memory of feature extraction, as ratios measured side by side.

    python -m tests.benchmarks.bench_features [--images 24] [--rounds 25]

Every round runs each variant once over all images, in rotating order. A line shows medians over the rounds
of ratios within a round. Single-threaded variants are compared by CPU time, which other programs hardly
disturb. Two threads must be compared by wall-clock time; the gain of bare decoding with two threads in the
same rounds shows how much of the second core was available. `best` compares the fastest round of each side,
the closest to an idle machine on a busy one.
"""

import argparse
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image

from embedding_core.features.color_moments import ColorMoments
from embedding_core.features.extraction import extract_many
from tests.benchmarks.table import Row, peak_bytes

HEIGHT, WIDTH, GRID = 480, 640, 8
THREADED = ("decode_two", "one", "two")
Times = dict[str, list[float]]


def photo_like(seed: int) -> np.ndarray:
    """Draw noise whose strength grows with its scale, as in photographs, with some grain.

    The exponent makes files of about 90 kB: photographs of this size and quality take 70 to 130 kB.
    """
    rng = np.random.default_rng(seed)
    picture = np.zeros((HEIGHT, WIDTH, 3))
    for scale in (2, 4, 8, 16, 32, 64, 128):
        coarse = rng.normal(size=(HEIGHT // scale + 2, WIDTH // scale + 2, 3)).astype(np.float32)
        planes = [Image.fromarray(coarse[:, :, band]).resize((WIDTH, HEIGHT), 3) for band in range(3)]
        picture += scale**0.3 * np.stack([np.asarray(plane) for plane in planes], axis=2)
    picture = 128 + 50 * picture / picture.std() + rng.normal(scale=2, size=picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def write_photos(folder: Path, n_images: int) -> list[Path]:
    paths = [folder / f"{index:03d}.jpg" for index in range(n_images)]
    for index, path in enumerate(paths):
        Image.fromarray(photo_like(index)).save(path, "JPEG", quality=88)
    return paths


def naive_features(data: bytes) -> np.ndarray:
    """Compute the features the simple way: Pillow, a loop over blocks and bands."""
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    features = []
    for row in range(GRID):
        for column in range(GRID):
            block = pixels[
                row * HEIGHT // GRID : (row + 1) * HEIGHT // GRID,
                column * WIDTH // GRID : (column + 1) * WIDTH // GRID,
            ]
            for band in range(3):
                features += [block[:, :, band].mean(), block[:, :, band].var()]
    return np.array(features, dtype=np.float32)


def exact_features(data: bytes) -> np.ndarray:
    """Compute the features from integer sums with one division."""
    pixels = simplejpeg.decode_jpeg(data).astype(np.int64)
    blocks = pixels.reshape(GRID, HEIGHT // GRID, GRID, WIDTH // GRID, 3)
    n = blocks.shape[1] * blocks.shape[3]
    sums, squares = blocks.sum(axis=(1, 3)), (blocks**2).sum(axis=(1, 3))
    return np.stack([sums / n, (n * squares - sums**2) / n**2], axis=3).astype(np.float32).reshape(-1)


def decode_all(files: list[bytes], buffer: np.ndarray | None = None) -> None:
    for data in files:  # no list of results: bare decoding must not keep the images either
        simplejpeg.decode_jpeg(data, buffer=buffer)


def variants(paths: list[Path]) -> dict[str, Callable[[], object]]:
    files = [path.read_bytes() for path in paths]
    moments = ColorMoments((GRID, GRID))
    kept = np.empty(HEIGHT * WIDTH * 3, np.uint8)
    pool = ThreadPoolExecutor(2)
    half = len(files) // 2
    halves = [files[:half], files[half:]]
    return {
        "decode": lambda: decode_all(files),
        "decode_kept": lambda: decode_all(files, kept),
        "extract": lambda: [moments.extract_bytes(data) for data in files],
        "naive": lambda: [naive_features(data) for data in files],
        "decode_two": lambda: list(pool.map(decode_all, halves)),
        "one": lambda: sum(1 for _ in extract_many(paths * 4, moments)),
        "two": lambda: sum(1 for _ in extract_many(paths * 4, moments, map_files=pool.map)),
    }


def time_rounds(runs: dict[str, Callable[[], object]], rounds: int) -> Times:
    times: Times = {f"{name}{clock}": [] for name in runs for clock in ("", " (clock)")}
    names = list(runs)
    for run in runs.values():
        run()
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            wall, processor = time.perf_counter(), time.thread_time()
            runs[name]()
            times[name].append(time.thread_time() - processor)
            times[f"{name} (clock)"].append(time.perf_counter() - wall)
    return times


def ratio(times: Times, slow: str, fast: str) -> tuple[float, float, float, float]:
    """Return how many times faster `fast` is: median over rounds, quartiles, ratio of the best rounds."""
    low, median, high = np.percentile(np.divide(times[slow], times[fast]), [25, 50, 75])
    return float(median), float(low), float(high), min(times[slow]) / min(times[fast])


def peak_memory(folder: Path, n_files: int) -> float:
    """Measure the peak memory (MB) of a fresh process that extracts `n_files` files with two threads."""
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.bench_features",
        "--peak-of",
        str(folder),
        str(n_files),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def print_peak(folder: Path, n_files: int) -> None:
    paths = sorted(folder.glob("*.jpg"))
    many = [paths[index % len(paths)] for index in range(n_files)]
    with ThreadPoolExecutor(2) as pool:
        for _ in extract_many(many, ColorMoments((GRID, GRID)), map_files=pool.map):
            pass
    print(peak_bytes() / 1e6)


COMPARISONS = [
    ("features of 640x480 JPEGs against bare libjpeg-turbo decoding", "decode", "extract", 0.85),
    ("the same, decoded into a reused buffer", "decode_kept", "extract", 0.85),
    ("features against a block loop on Pillow", "naive", "extract", 5.0),
    ("features with two threads against one", "one (clock)", "two (clock)", 1.5),
    ("bare decoding with two threads against one", "decode (clock)", "decode_two (clock)", None),
]
"""Comparisons: title, slow side, fast side, required ratio."""


def print_table(times: Times, n_images: int) -> None:
    print(f"\n{'speed ratio':62} {'median':>7} {'quartiles':>15} {'best':>7} {'target':>7}")
    for title, slow, fast, target in COMPARISONS:
        median, low, high, best = ratio(times, slow, fast)
        verdict = "" if target is None else f"{target:7.2f}  {'ok' if median >= target else 'MISSED'}"
        print(f"{title:62} {median:7.2f} {low:7.2f} {high:7.2f} {best:7.2f} {verdict}")
    print(f"\n{'milliseconds per image':42} {'median':>7}")
    for name, values in times.items():
        if (name.split()[0] in THREADED) == name.endswith("(clock)"):
            count = n_images * (4 if name.startswith(("one", "two")) else 1)
            print(f"{name:42} {1000 * float(np.median(values)) / count:7.2f}")


def largest_difference(paths: list[Path]) -> float:
    """Return the largest difference of a feature from integer sums."""
    moments = ColorMoments((GRID, GRID))
    differences = [
        np.abs(moments.extract_bytes(data) - exact_features(data)).max()
        for data in (path.read_bytes() for path in paths)
    ]
    return float(max(differences))


def measure(quick: bool = False, n_images: int = 24, rounds: int = 25) -> list[Row]:
    """Print every ratio and return the rows of the benchmark table."""
    n_images, rounds, many_files = (4, 2, 400) if quick else (n_images, rounds, 4000)
    with tempfile.TemporaryDirectory() as name:
        paths = write_photos(Path(name), n_images)
        size = np.mean([path.stat().st_size for path in paths]) / 1000
        print(f"{len(paths)} JPEGs of {WIDTH} x {HEIGHT}, {size:.0f} kB each, {rounds} rounds")
        times = time_rounds(variants(paths), rounds)
        print_table(times, len(paths))
        difference = largest_difference(paths)
        print(f"\nlargest difference from integer sums over {len(paths)} images: {difference}")
        few, many = (peak_memory(Path(name), count) for count in (200, many_files))
    grown = many / few
    print(
        f"peak memory, two threads: {few:.0f} MB for 200 files, {many:.0f} MB for {many_files} (x{grown:.2f})"
    )
    rows = [
        (title, f"at least {target}", f"{ratio(times, slow, fast)[0]:.2f}", f"{many:.0f} MB")
        for title, slow, fast, target in COMPARISONS
        if target is not None
    ]
    rows.append(("largest difference from integer sums", "at most 0", f"{difference:g}", f"{many:.0f} MB"))
    memory = (
        f"peak memory for {many_files:,} images against 200",
        "at most 1.1",
        f"{grown:.2f}",
        f"{many:.0f} MB",
    )
    return [*rows, memory]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--peak-of", nargs=2, metavar=("FOLDER", "N"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak_of:
        print_peak(Path(arguments.peak_of[0]), int(arguments.peak_of[1]))
    else:
        measure(n_images=arguments.images, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
