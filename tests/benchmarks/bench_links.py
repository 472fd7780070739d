"""Cost and memory of propagating features along links, against sparse times dense products.

    python -m tests.benchmarks.bench_links [--items 1000000] [--links 10000000] [--wide 2000]

The measure of cost is one product S X of the same operator and features in float32. A propagation with three
restart probabilities and ten steps contains thirty of them. Two collections are measured, each in its own
process: dense features that fit into the memory budget and are propagated in blocks of columns, and sparse
features (words) that are too wide for it and are replaced by principal components.
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from embedding_core.graph.propagation import RESTARTS, STEPS, LinkPropagation, link_operator
from tests.benchmarks.table import Row, peak_bytes

DENSE, WORDS_PER_ITEM = 64, 20
PRODUCTS = len(RESTARTS) * STEPS
FORMS = {"dense": "in blocks of columns", "words": "by principal components"}
ITEMS, LINKS, WIDE = 1_000_000, 10_000_000, 2000


def make_links(items: int, links: int) -> Any:
    """Links between random items, most of them within a few hundred places."""
    rng = np.random.default_rng(0)
    i = rng.integers(items, size=links, dtype=np.int32)
    near = np.clip(i + rng.integers(-200, 201, size=links, dtype=np.int32), 0, items - 1)
    j = np.where(
        rng.random(links, dtype=np.float32) < 0.8, near, rng.integers(items, size=links, dtype=np.int32)
    )
    ones = np.ones(links, dtype=np.float32)
    return sp.csr_array((ones, (i, j.astype(np.int32))), shape=(items, items))


def make_features(form: str, items: int, wide: int) -> Any:
    """Dense features, or occurrences of words."""
    rng = np.random.default_rng(1)
    if form == "dense":
        return rng.standard_normal((items, DENSE), dtype=np.float32)
    words = rng.zipf(1.3, size=items * WORDS_PER_ITEM) % wide
    starts = np.arange(0, items * WORDS_PER_ITEM + 1, WORDS_PER_ITEM, dtype=np.int32)
    ones = np.ones(len(words), dtype=np.float32)
    return sp.csr_array((ones, words.astype(np.int32), starts), shape=(items, wide))


def time_product(spread: LinkPropagation, width: int) -> float:
    """CPU seconds of one product S X in float32; the best of three."""
    S = link_operator(spread.graph_, spread.unit_).astype(np.float32)
    X = np.ones((S.shape[0], width), dtype=np.float32)
    seconds = []
    for _ in range(3):
        started = time.process_time()
        S @ X
        seconds.append(time.process_time() - started)
    return min(seconds)


def measure_form(form: str, items: int, links: int, wide: int) -> dict[str, float]:
    """CPU times and peak memory of a propagation; the peak includes the given links and features."""
    A, X = make_links(items, links), make_features(form, items, wide)
    before = peak_bytes()
    started = time.process_time()
    spread = LinkPropagation().fit(X, A)
    fitted = time.process_time() - started
    result = spread.propagated()
    seconds = time.process_time() - started
    peak = peak_bytes()
    width = result.shape[1] // len(RESTARTS)
    del result, X, A
    product = time_product(spread, width)
    return {
        "links": spread.graph_.nnz / 2,
        "width": width,
        "fit": fitted,
        "seconds": seconds,
        "product": product,
        "before": before,
        "peak": peak,
    }


def measure_apart(form: str, items: int, links: int, wide: int) -> dict[str, float]:
    """Measure in a process of its own."""
    sizes = ["--items", str(items), "--links", str(links), "--wide", str(wide)]
    command = [sys.executable, "-m", "tests.benchmarks.bench_links", "--form", form, *sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(quick: bool = False, items: int = ITEMS, links: int = LINKS, wide: int = WIDE) -> list[Row]:
    """Print the costs and return the rows of the benchmark table."""
    items, links, wide = (2000, 20_000, 200) if quick else (items, links, wide)
    rows = []
    for form, way in FORMS.items():
        found = measure_apart(form, items, links, wide)
        ratio = (found["seconds"] - found["fit"]) / (PRODUCTS * found["product"])
        print(form, {name: round(value, 3) for name, value in found.items()}, f"ratio {ratio:.2f}")
        columns = DENSE if form == "dense" else wide
        rows.append(
            (
                f"propagation, {items:,} items, {links:,} links, {columns} columns ({form}), {way}: "
                f"CPU time of {PRODUCTS} steps against {PRODUCTS} products S X",
                "peak below 3 GB",
                f"{ratio:.2f}x ({found['seconds']:.0f} s, {found['fit']:.0f} s of them scaling and axes; "
                f"{found['width']:.0f} columns propagated)",
                f"{found['peak'] / 1e9:.2f} GB",
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--links", type=int, default=LINKS)
    parser.add_argument("--wide", type=int, default=WIDE, help="columns of the sparse features")
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.form:
        print(json.dumps(measure_form(given.form, given.items, given.links, given.wide)))
    else:
        measure(items=given.items, links=given.links, wide=given.wide)


if __name__ == "__main__":
    main()
