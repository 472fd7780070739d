"""Speed, agreement and memory of pretrained features, as ratios measured side by side.

    python -m tests.benchmarks.bench_deep_features [--images 16] [--rounds 15]

The reference is a bare onnxruntime session that gets finished arrays, one image at a time. It is compared
with the whole way from a JPEG file to a feature row, and with the network in NumPy. All use one thread, and
CPU time is compared, which other programs hardly disturb. See `bench_features` for the columns.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from embedding_core.features.efficientnet_lite0 import EfficientNetLite0
from embedding_core.features.extraction import extract_file, extract_many
from embedding_core.features.images import decode_image
from embedding_core.features.network import Network
from tests.benchmarks.bench_features import Times, ratio, time_rounds, write_photos
from tests.benchmarks.table import Row, peak_bytes

COMPARISONS = [
    ("pretrained features, JPEG file to row, against a bare onnxruntime session", "session", "file", 0.7),
    ("the network in NumPy against onnxruntime", "session", "numpy", 0.2),
    ("JPEG file to row in NumPy against a bare onnxruntime session", "session", "numpy_file", 0.2),
]
"""Comparisons: title, reference, measured side, required speed relative to the reference."""


def numpy_row(network: Network, path: Path) -> np.ndarray:
    """The whole way of a file with the network in NumPy."""
    pixels = decode_image(path.read_bytes(), least_side=network.preprocessing.least_side)
    return network.run(network.preprocessing.apply(pixels)[np.newaxis])[0]


def variants(paths: list[Path]) -> dict[str, Callable[[], object]]:
    extractor = EfficientNetLite0()
    fast, plain = extractor.network, extractor.load_with("numpy")
    ready = [fast.preprocessing.apply(decode_image(path.read_bytes()))[np.newaxis] for path in paths]
    return {
        "session": lambda: [fast.run(array) for array in ready],
        "file": lambda: [extract_file(path, extractor) for path in paths],
        "numpy": lambda: [plain.run(array) for array in ready],
        "numpy_file": lambda: [numpy_row(plain, path) for path in paths],
    }


def largest_differences(paths: list[Path]) -> dict[str, float]:
    """Largest difference of a feature between batch sizes, numbers of threads, and engines."""
    extractor = EfficientNetLite0()
    network, plain = extractor.network, extractor.load_with("numpy")
    batch = np.stack([network.preprocessing.apply(decode_image(path.read_bytes())) for path in paths])
    single = np.concatenate([network.run(image[np.newaxis]) for image in batch])
    one = np.array([row for row, _ in extract_many(paths, extractor)])
    with ThreadPoolExecutor(2) as pool:
        two = np.array([row for row, _ in extract_many(paths, extractor, map_files=pool.map)])
    return {
        "batch sizes": float(np.abs(network.run(batch) - single).max()),
        "numbers of threads": float(np.abs(two - one).max()),
        "onnxruntime and NumPy": float(np.abs(plain.run(batch) - single).max()),
    }


def peak_memory(folder: Path, engine: str) -> float:
    """Peak memory (MB) of a fresh process that extracts all files of a folder."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_deep_features", "--peak-of", str(folder), engine]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def print_peak(folder: Path, engine: str) -> None:
    network = EfficientNetLite0().load_with(engine)
    for path in sorted(folder.glob("*.jpg")):
        numpy_row(network, path)
    print(peak_bytes() / 1e6)


def print_table(times: Times, n_images: int) -> None:
    print(f"\n{'speed ratio':76} {'median':>7} {'quartiles':>15} {'best':>7} {'target':>7}")
    for title, slow, fast, target in COMPARISONS:
        median, low, high, best = ratio(times, slow, fast)
        verdict = "ok" if median >= target else "MISSED"
        print(f"{title:76} {median:7.2f} {low:7.2f} {high:7.2f} {best:7.2f} {target:7.2f}  {verdict}")
    print(f"\n{'milliseconds per image':42} {'median':>7}")
    for name in ("session", "file", "numpy", "numpy_file"):
        print(f"{name:42} {1000 * float(np.median(times[name])) / n_images:7.2f}")


def measure(quick: bool = False, n_images: int = 16, rounds: int = 15) -> list[Row]:
    """Print every ratio and return the rows of the benchmark table."""
    n_images, rounds = (3, 2) if quick else (n_images, rounds)
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
        paths = write_photos(Path(name), n_images)
        times = time_rounds(variants(paths), rounds)
        print_table(times, n_images)
        differences = largest_differences(paths)
        peaks = {engine: f"{peak_memory(Path(name), engine):.0f} MB" for engine in ("onnxruntime", "numpy")}
    print(
        "\nlargest differences between "
        + ", ".join(f"{one}: {value:.1e}" for one, value in differences.items())
    )
    print(f"peak memory: {peaks}")
    rows = [
        (
            title,
            f"at least {target}",
            f"{ratio(times, slow, fast)[0]:.2f}",
            peaks["numpy" if "numpy" in fast else "onnxruntime"],
        )
        for title, slow, fast, target in COMPARISONS
    ]
    compared = [
        (f"largest difference between {one}", "at most 0.00001", f"{value:.7f}", peaks["onnxruntime"])
        for one, value in differences.items()
    ]
    return [*rows, *compared]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peak-of", nargs=2, metavar=("FOLDER", "ENGINE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak_of:
        print_peak(Path(arguments.peak_of[0]), arguments.peak_of[1])
    else:
        measure(n_images=arguments.images, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
