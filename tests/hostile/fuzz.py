"""Fuzz the readers: `python -m tests.hostile.fuzz [arff parquet ...] --seconds 60 --keep FOLDER`.

Random files, most of them nearly valid, are read in forked processes with bounded time and memory. A reader
must accept a file or refuse it with an error of our own family. Failing inputs are kept in a folder.
"""

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.reading import READINGS, answer
from tests.hostile.seeds import NUMBERS, SEEDS, TEXTS

BATCH = 100
# A file system in memory, where it exists: flushing to a disk takes longer than reading.
MEMORY = Path("/dev/shm")
SECONDS_PER_INPUT = 20
MOST_BYTES = 10**9
TOKENS = [text.encode("utf-8", "surrogatepass") for text in [*NUMBERS, *TEXTS]]
TOKENS += [
    b"\n",
    b",",
    b"{",
    b"}",
    b"[",
    b"]",
    b"'",
    b'"',
    b".",
    b"\0",
    b"\xff",
    b"\xff\xff\xff\x7f",
    b"@data\n",
]


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Change some bytes: flip, delete, repeat, insert."""
    data = bytearray(content)
    for _ in range(rng.choice([0, 0, 1, 1, 2, 4])):
        start = rng.randrange(len(data) + 1)
        stop = min(len(data), start + rng.choice([1, 1, 2, 8, 64]))
        action = rng.randrange(6)
        if action == 0 and start < len(data):
            data[start] ^= 1 << rng.randrange(8)
        elif action == 1:
            del data[start:stop]
        elif action == 2:
            data[start:start] = data[start:stop] * rng.choice([1, 2, 100, 5_000])
        elif action == 3:
            data[start:start] = rng.choice(TOKENS)
        elif action == 4:
            data[start:stop] = rng.choice(TOKENS) * rng.choice([1, 1, 50, 20_000])
        else:
            data[start:stop] = rng.randbytes(stop - start)
    return bytes(data[: 2**22])


@dataclass
class Tally:
    """What was seen: the number of inputs of each outcome, and one text per distinct failure."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Path] = field(default_factory=dict)


def peak_bytes() -> int:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def outcome(kind: str, content: bytes, folder: Path) -> str:
    """ "accepted", "refused", or a text that describes a failure."""
    before = peak_bytes()
    signal.alarm(SECONDS_PER_INPUT)
    try:
        refused = answer(kind, content, folder)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {str(error)[:150]}"
    finally:
        signal.alarm(0)
    if peak_bytes() - before > MOST_BYTES:
        return f"{peak_bytes() - before:,} bytes of memory"
    return "accepted" if refused is None else "refused"


def run_batch(kind: str, seed: int, folder: Path, log: Path) -> None:
    """Read some inputs and write one line per outcome; the current input is kept in a file."""
    for number in range(BATCH):
        rng = random.Random(f"{kind} {seed} {number}")
        content = mutate(SEEDS[kind](rng), rng)
        log.with_suffix(".input").write_bytes(content)
        found = outcome(kind, content, folder)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{number}\t{found!r}\n")


def fork_batch(kind: str, seed: int, keep: Path, tally: Tally) -> None:
    """Run a batch in a child with bounded memory, and count its outcomes."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        log = Path(place) / "log"
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_AS, (16 * MOST_BYTES, 16 * MOST_BYTES))
            code = 1
            try:
                run_batch(kind, seed, Path(place) / "folder", log)
                code = 0
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        for line in lines:
            number, text = line.split("\t", 1)
            found = text.strip("'\"")
            if found not in ("accepted", "refused"):
                rng = random.Random(f"{kind} {seed} {number}")
                _keep(kind, found, mutate(SEEDS[kind](rng), rng), keep, tally)
                found = "failed"
            tally.outcomes[found] += 1
        if status != 0:
            what = "too slow" if status == -signal.SIGALRM else f"the process ended with {status}"
            _keep(kind, what, log.with_suffix(".input").read_bytes(), keep, tally)
            tally.outcomes["failed"] += 1


def _keep(kind: str, what: str, content: bytes, keep: Path, tally: Tally) -> None:
    if what not in tally.failures:
        file = keep / f"{kind}-{len(tally.failures)}-{READINGS[kind].file}"
        file.write_bytes(content)
        tally.failures[what] = file


def fuzz(kind: str, seconds: float, keep: Path, first_seed: int = 0) -> Tally:
    """Fuzz one reader for some seconds."""
    keep.mkdir(parents=True, exist_ok=True)
    tally = Tally()
    end = time.monotonic() + seconds
    seed = first_seed
    while time.monotonic() < end:
        fork_batch(kind, seed, keep, tally)
        seed += 1
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the named readers and print a summary; 1 if a reader failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(SEEDS)}; default: all")
    parser.add_argument("--seconds", type=float, default=60, help="per kind; default: 60")
    parser.add_argument("--keep", type=Path, help="folder of failing inputs; default: a temporary one")
    parser.add_argument("--seed", type=int, default=0, help="first seed; default: 0")
    options = parser.parse_args(arguments)
    if unknown := [kind for kind in options.kinds if kind not in SEEDS]:
        parser.error(f"unknown kind {unknown[0]}; choose from {', '.join(SEEDS)}")
    keep = options.keep or Path(tempfile.mkdtemp(prefix="fuzz-"))
    failed = 0
    for kind in options.kinds or SEEDS:
        tally = fuzz(kind, options.seconds, keep, options.seed)
        counts = ", ".join(f"{tally.outcomes[name]:,} {name}" for name in ("accepted", "refused", "failed"))
        print(f"{kind}: {sum(tally.outcomes.values()):,} inputs, {counts}", flush=True)
        for what, file in tally.failures.items():
            print(f"  {what}\n    {file}", flush=True)
        failed += tally.outcomes["failed"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
