"""`python -m tests.hostile`: run the hostile cases and print how they ended."""

import argparse
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from tests.hostile.case import REFUSED, SKIPPED, SURVIVED, Case
from tests.hostile.runner import Result, Section, load_section, run_cases
from tests.hostile.sections import SECTIONS


def choose(only: Sequence[str], names: Sequence[str], sample: int) -> list[tuple[Section, Case]]:
    """The chosen cases: of some sections, with a text in the name, or every `sample`-th of each section."""
    chosen = []
    for title in only or SECTIONS:
        section = load_section(title)
        cases = [case for case in section.cases if not names or any(text in case.name for text in names)]
        chosen += [(section, case) for case in cases[:: sample or 1]]
    return chosen


def describe(results: Sequence[Result]) -> str:
    """The last line: how many cases ended in which way."""
    counts = Counter(result.found for result in results)
    classes = ", ".join(f"{counts[name]} {name}" for name in (REFUSED, SKIPPED, SURVIVED))
    return f"{len(results)} cases: {classes}, {counts['bad']} bad"


def show(text: str) -> None:
    """Print one line."""
    sys.stdout.write(text.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def show_bad(result: Result) -> None:
    """Print a case that did not end as it must, with the beginning of its output."""
    if result.problems:
        show(f"BAD {result.name}: {'; '.join(result.problems)}")
        show("".join(f"    {line}\n" for line in result.output.splitlines()[:6]).rstrip("\n"))


def show_costs(results: Sequence[Result]) -> None:
    """Print the cases that took most time and memory."""
    for title, field in (("s", "seconds"), ("MB", "memory_mb")):
        key = attrgetter(field)
        for one in sorted(results, key=key, reverse=True)[:15]:
            show(f"{key(one):8.1f} {title}  {one.name}")


def main() -> int:
    """Run the cases; exit code 1 if one is bad."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--only", action="append", default=[], choices=SECTIONS, metavar="SECTION")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="part of a case's name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument(
        "--sample", type=int, default=0, metavar="N", help="only every N-th case of a section"
    )
    parser.add_argument("--list", action="store_true", help="print the cases and their classes; run nothing")
    parser.add_argument("--costs", action="store_true", help="print the cases that took most time and memory")
    options = parser.parse_args()
    # Stop the servers of a section also if this process is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = choose(options.only, options.case, options.sample)
    if options.list:
        for section, case in chosen:
            show(f"{section.name}/{case.name}  {case.expect}")
        return 0
    results = run_cases(chosen, options.jobs, show_bad)
    if options.costs:
        show_costs(results)
    show(describe(results))
    return 1 if any(result.problems for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
