"""What an unchanged second run costs beyond Prefect itself, measured side by side.

    python -m tests.benchmarks.bench_second_run [--rounds 7]

Starts a local server in a temporary home, runs the demo collection once, then times in turn: a process that
runs an empty Prefect flow on that server, and `labelscape run` with nothing changed. The bar is one second
between the two medians. A line by line breakdown of one unchanged run follows.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return time.perf_counter() - started, done.stdout


def labelscape(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "flows.cli", *arguments]


def server_environment(home: Path) -> dict[str, str]:
    """As `labelscape run` sets it for itself, so that both talk to the same server in the same way."""
    services = json.loads((home / "services.json").read_text(encoding="utf-8"))
    return {
        **os.environ,
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": services["urls"]["prefect"],
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }


def print_breakdown(stages: list[dict], empty: list[float], ours: list[float], parts: list[str]) -> None:
    imports, flows = zip(*(map(float, part.split()) for part in parts), strict=True)
    base, total = statistics.median(empty), statistics.median(ours)
    computed = [stage["stage"] for stage in stages if stage["state"] != "fresh"]
    print(f"{'seconds (median)':44}")
    print(f"{'  import prefect':44} {statistics.median(imports):6.2f}")
    print(f"{'  empty flow on the server':44} {statistics.median(flows):6.2f}")
    print(f"{'  process with an empty flow, whole':44} {base:6.2f}")
    print(f"{'  labelscape run, nothing changed, whole':44} {total:6.2f}")
    print(f"{'  difference':44} {total - base:6.2f}  {'ok' if total - base <= 1 else 'MISSED'} (bar: 1.00)")
    print(f"stages: {len(stages)} in all, computed again: {', '.join(computed) or 'none'}")
    print(f"looking the stages up took {sum(stage['seconds'] for stage in stages):.2f} s of it")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        environment = {**os.environ, "LABELSCAPE_HOME": str(home), "HOME": folder}
        timed(labelscape("up", "--prefect-port", "0", "--mlflow-port", "0"), environment)
        try:
            first, _ = timed(labelscape("run"), environment)
            print(f"first run, demo collection drawn and every stage computed: {first:.1f} s")
            empty, ours, parts, summary = [], [], [], ""
            for _ in range(rounds):
                seconds, part = timed([sys.executable, "-c", EMPTY_FLOW], server_environment(home))
                empty.append(seconds)
                parts.append(part)
                seconds, summary = timed(labelscape("run", "--json"), environment)
                ours.append(seconds)
            print_breakdown(json.loads(summary)["stages"], empty, ours, parts)
        finally:
            timed(labelscape("down"), environment)


if __name__ == "__main__":
    main()
