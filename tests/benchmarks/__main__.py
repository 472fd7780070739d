"""Run every benchmark in turn and print the results as Markdown tables.

    python -m tests.benchmarks [--quick] [--only NAME ...]

Each benchmark runs in its own process, so that its peak memory is its own. Progress goes to stderr; the
tables go to stdout at the end. --quick uses small sizes to check that everything works; the bars hold for
the full sizes only and are not judged. All benchmarks take about 40 minutes on two cores. Published figures
are in RESULTS.md.
"""

import argparse
import contextlib
import inspect
import json
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from tests.benchmarks.table import Row, markdown, peak_bytes

SECTIONS = {
    "Growth": ("knn_graph", "growth"),
    "Mathematics at scale": ("discriminant", "projections", "lpssvm", "sle_ml", "kernel_dle", "links"),
    "Image features": ("features", "picture_features", "deep_features"),
    "Past one machine": ("cluster",),
    "Re-running": ("second_run", "rerun"),
    "Many pictures": ("pictures",),
    "Pages": ("map",),
    "Care of labels": ("review",),
    "Annotation from few labels": ("annotation",),
    "Model selection": ("auto",),
}
NAMES = [name for names in SECTIONS.values() for name in names]


def measure_here(name: str, quick: bool) -> list[Row]:
    """Run one benchmark here; a row without peak memory gets that of this process."""
    measure = import_module(f"tests.benchmarks.bench_{name}").measure
    options = {"quick": True} if quick and "quick" in inspect.signature(measure).parameters else {}
    with contextlib.redirect_stdout(sys.stderr):
        rows = measure(**options)
    return [(*row[:3], row[3] or f"{peak_bytes() / 1e6:.0f} MB") for row in rows]


def measure_apart(name: str, quick: bool) -> list[Row]:
    """Run one benchmark in its own process; a failure becomes a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "tests.benchmarks", "--rows", str(file), "--only", name]
        done = subprocess.run([*command, *(["--quick"] if quick else [])], check=False)
        if done.returncode:
            return [(name, "", f"failed with code {done.returncode}, see above", "")]
        return [tuple(row) for row in json.loads(file.read_text(encoding="utf-8"))]


def run_all(names: list[str], quick: bool) -> None:
    """Run benchmarks, then print one table per section."""
    found: dict[str, list[Row]] = {}
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name} ...", file=sys.stderr, flush=True)
        started = time.perf_counter()
        found[name] = measure_apart(name, quick)
        seconds = time.perf_counter() - started
        print(f"[{number}/{len(names)}] {name}: {seconds:.0f} s", file=sys.stderr, flush=True)
    for title, members in SECTIONS.items():
        rows = [row for name in members for row in found.get(name, [])]
        if rows:
            print(f"### {title}\n\n{markdown(rows, judged=not quick)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that everything works")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.only or NAMES
    if given.rows:
        rows = measure_here(names[0], given.quick)
        given.rows.write_text(json.dumps(rows), encoding="utf-8")
    else:
        run_all(names, given.quick)


if __name__ == "__main__":
    main()
