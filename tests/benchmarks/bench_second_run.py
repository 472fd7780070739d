"""Overhead of an unchanged second run over Prefect itself.

    python -m tests.benchmarks.bench_second_run [--rounds 7]

Start a local server in a temporary home, run the demo collection once, then time in turn a process that
runs an empty Prefect flow on that server, and `labelscape run` with nothing changed. The bar is one second
between the two medians.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from storage.servers import token_path
from tests.benchmarks.table import Row

EMPTY_FLOW = """
import time
started = time.perf_counter()
from prefect import flow
imported = time.perf_counter()

@flow
def empty():
    pass

empty()
print(imported - started, time.perf_counter() - imported)
"""


class Timing(NamedTuple):
    """Wall-clock and CPU seconds; other programs hardly disturb the latter."""

    clock: float
    processor: float


def timed(command: list[str], environment: dict[str, str]) -> tuple[Timing, str]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    clock, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Timing(clock, used), done.stdout


def medians(timings: list[Timing]) -> Timing:
    return Timing(*(statistics.median(values) for values in zip(*timings, strict=True)))


def labelscape(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "flows.cli", *arguments]


def server_environment(home: Path) -> dict[str, str]:
    """Build the environment that `labelscape run` sets for itself, so that both use the same server."""
    services = json.loads((home / "services.json").read_text(encoding="utf-8"))
    return {
        **os.environ,
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": services["urls"]["prefect"],
        "PREFECT_API_AUTH_STRING": token_path(home).read_text(encoding="utf-8").strip(),
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }


def print_breakdown(stages: list[dict], empty: list[Timing], ours: list[Timing], parts: list[str]) -> Timing:
    """Print the parts of a run; return its overhead over an empty flow."""
    imports, flows = zip(*(map(float, part.split()) for part in parts), strict=True)
    base, total = medians(empty), medians(ours)
    beyond = Timing(total.clock - base.clock, total.processor - base.processor)
    computed = [stage["stage"] for stage in stages if stage["state"] != "fresh"]
    print(f"{'seconds (median)':42} {'clock':>6} {'CPU':>10}")
    print(f"{'  import prefect':42} {statistics.median(imports):6.2f}")
    print(f"{'  empty flow on the server':42} {statistics.median(flows):6.2f}")
    print(f"{'  process with an empty flow, whole':42} {base.clock:6.2f} {base.processor:10.2f}")
    print(f"{'  labelscape run, nothing changed, whole':42} {total.clock:6.2f} {total.processor:10.2f}")
    verdict = f"{'ok' if beyond.clock <= 1 else 'MISSED'} (bar: 1.00, wall-clock)"
    print(f"{'  difference':42} {beyond.clock:6.2f} {beyond.processor:10.2f}  {verdict}")
    print(f"stages: {len(stages)} in total, computed again: {', '.join(computed) or 'none'}")
    return beyond


def largest_child_bytes() -> float:
    """Return the peak memory of the largest child process that has ended."""
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)


def measure(quick: bool = False, rounds: int = 7) -> list[Row]:
    """Print the parts of an unchanged run and return the row of the benchmark table."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        environment = {**os.environ, "LABELSCAPE_HOME": str(home), "HOME": folder}
        timed(labelscape("up", "--prefect-port", "0", "--mlflow-port", "0"), environment)
        try:
            first, _ = timed(labelscape("run"), environment)
            print(f"first run, including drawing the demo collection: {first.clock:.1f} s")
            empty, ours, parts, summary = [], [], [], ""
            for _ in range(1 if quick else rounds):
                timing, part = timed([sys.executable, "-c", EMPTY_FLOW], server_environment(home))
                empty.append(timing)
                parts.append(part)
                timing, summary = timed(labelscape("run", "--json"), environment)
                ours.append(timing)
            beyond = print_breakdown(json.loads(summary)["stages"], empty, ours, parts)
        finally:
            timed(labelscape("down"), environment)
    work = "overhead of an unchanged run over a process with an empty flow on the same server, in seconds"
    found = f"{beyond.clock:.2f} s wall-clock, {beyond.processor:.2f} s of CPU time"
    return [(work, "at most 1", found, f"{largest_child_bytes() / 1e6:.0f} MB")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    measure(rounds=parser.parse_args().rounds)


if __name__ == "__main__":
    main()
