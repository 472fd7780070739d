"""Rows of the benchmark table: what was measured, what must be reached, and whether it was.

A benchmark module gives rows (work, bar, measured, peak), all text. A bar is one clause or several with `;`
between them, each "at least", "at most" or "below" and a number: "at most 3; peak below 3". A clause with the
word "peak" is held against the peak, the others in their order against the clauses of what was measured, of
which the first number counts, or both of "7.1 to 8.0". Numbers with kB, MB and GB are compared as such. What
"failed" or was "not done" is not reached, whatever its memory.
"""

import re
from collections.abc import Sequence
from pathlib import Path

Row = tuple[str, str, str, str]
"""Work, bar, measured, peak memory."""

HEADER = ("work", "must reach", "measured", "peak memory", "reached")
UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
_NUMBER = r"(\d[\d,]*\.?\d*|\.\d+)\s*(kB|MB|GB)?"
_CLAUSE = re.compile(rf"(at least|at most|below)\D*?{_NUMBER}")


def peak_bytes() -> float:
    """Peak memory of this process; unlike ru_maxrss it does not start at that of the parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return float(line.split()[1]) * 1024


def verdict(row: Row) -> str:
    """Say "yes" or "NO"; "?" where the bar names no number, or nothing stands against it."""
    _, bar, measured, peak = row
    if re.search("failed|not done", measured):
        return "NO"
    found, results = iter(measured.split(";")), []
    for clause in bar.split(";"):
        asked = _CLAUSE.search(clause)
        values = _numbers(peak if "peak" in clause else next(found, ""))
        if asked is None or not values:
            return "?"
        limit = _value(*asked.group(2, 3))
        kind = asked.group(1)
        results.append(
            min(values) >= limit
            if kind == "at least"
            else max(values) <= limit and (kind == "at most" or max(values) < limit)
        )
    return "yes" if all(results) else "NO"


def _numbers(text: str) -> list[float]:
    """The first number of a text, with a second one after "to"."""
    first = re.search(rf"{_NUMBER}(?:\s*to\s*{_NUMBER})?", text)
    if first is None:
        return []
    low, low_unit, high, high_unit = first.groups()
    values = [_value(low, low_unit or high_unit)]
    return values if high is None else [*values, _value(high, high_unit)]


def _value(number: str, unit: str | None) -> float:
    return float(number.replace(",", "")) * UNITS.get(unit or "", 1.0)


def markdown(rows: Sequence[Row], judged: bool = True) -> str:
    """The table; where the sizes are too small for the bars, nothing is said of reaching them."""
    lines = [HEADER, ("---",) * len(HEADER)]
    lines += [(*row, verdict(row) if judged else "-") for row in rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
