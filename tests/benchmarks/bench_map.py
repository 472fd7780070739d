"""The map with 100,000 items in a real browser: how soon it can be used, and how smoothly it moves.

    python -m tests.benchmarks.bench_map [--items 100000]

Both figures are measured by the page itself: the time from the start of loading until the map is drawn and
answers, and the frames per second while it is moved. The browser is a headless Chromium that draws without a
graphics card. Needs Chromium and the `test` extra.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from tasks.map.data import MapData, MapView
from tasks.map.packing import pack_map
from tasks.map.page import render_map
from tasks.report.judged import JudgedItems
from tests.benchmarks.table import Row, markdown
from tests.browser import open_browser, visiting

LABELS = 20
POINTS = 100_000
FRAMES = 60
ROUNDS = 3


def make_data(n: int) -> MapData:
    """Items in twenty clusters with one to three labels each, a fifth unlabeled."""
    rng = np.random.default_rng(0)
    Y = np.zeros((n, LABELS), dtype=np.int8)
    home = rng.integers(0, LABELS, n)
    Y[np.arange(n), home] = 1
    Y[np.arange(n), rng.integers(0, LABELS, n)] = 1
    scores = np.clip(np.where(Y == 1, 0.8, 0.1) + rng.normal(0, 0.2, Y.shape), 0, 1)
    Y[rng.random(n) < 0.2] = -1
    Z = rng.normal(size=(LABELS, 4))[home] * 3 + rng.normal(size=(n, 4))
    judged = JudgedItems("mlda", "MLDA, 10NN", scores, (scores > 0.5).astype(np.int8), False)
    ids = [f"folder/item_{i:07d}.jpg" for i in range(n)]
    names = [f"label {k}" for k in range(LABELS)]
    split = ["train" if i % 5 else "test" for i in range(n)]
    return MapData("benchmark", "synthetic", ids, Y, names, split, [MapView("MLDA", Z)], judged)


def measure_page(page: Path) -> tuple[list[float], list[float], list[float]]:
    """Seconds until the map can be used, frames per second, and milliseconds to draw one, of each round."""
    ready, speed, drawing = [], [], []
    with open_browser() as context:
        for _ in range(ROUNDS):
            with visiting(context, page.as_uri()) as visit:
                visit.page.wait_for_function("labelscapeMap.ready > 0")
                ready.append(visit.page.evaluate("labelscapeMap.ready") / 1000)
                found = visit.page.evaluate(f"labelscapeMap.measurePan({FRAMES})")
                speed.append(found[0])
                drawing.append(found[1])
                assert visit.errors == []
    return ready, speed, drawing


def measure(quick: bool = False, n: int = POINTS) -> list[Row]:
    """Measure collections whose items are all drawn, and one of a million items (not with `quick`)."""
    rows: list[Row] = []
    for size in (2_000,) if quick else (n, 10 * n):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "map.html"
            page.write_bytes(render_map(pack_map(make_data(size), POINTS), {}))
            ready, speed, drawing = measure_page(page)
            megabytes = page.stat().st_size / 1e6
        how = "" if size <= POINTS else f", a sample of {POINTS:,} over the density of all"
        work = f"map of {size:,} items{how} ({megabytes:.1f} MB): usable after, in seconds; frames per second"
        found = f"{min(ready):.2f} to {max(ready):.2f} s; {min(speed):.0f} to {max(speed):.0f} fps"
        found += f" ({min(drawing):.0f} to {max(drawing):.0f} ms to draw a frame)"
        rows.append((work, "at most 3; at least 20", found, ""))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=POINTS)
    print(markdown(measure(n=parser.parse_args().items)))


if __name__ == "__main__":
    main()
