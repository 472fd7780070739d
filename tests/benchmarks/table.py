"""Rows of the benchmark table: what was measured, the bar to reach, and whether it was reached.

A benchmark module returns rows (work, bar, measured, peak) of text. A bar is a list of clauses separated by
`;`, each "at least", "at most" or "below" with a number: "at most 3; peak below 3". A clause with the word
"peak" is compared with the peak memory. The other clauses are compared, in order, with the clauses of the
measured text: with its first number, or with both numbers of "7.1 to 8.0". Units kB, MB and GB are
converted. A result that "failed" or is "not done" does not reach its bar.
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
    """Read the peak memory of this process; ru_maxrss would start at that of the parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return float(line.split()[1]) * 1024


def verdict(row: Row) -> str:
    """Return "yes" or "NO"; "?" if the bar has no number or there is nothing to compare with it."""
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
    """Find the first number of a text, and the second one after "to"."""
    first = re.search(rf"{_NUMBER}(?:\s*to\s*{_NUMBER})?", text)
    if first is None:
        return []
    low, low_unit, high, high_unit = first.groups()
    values = [_value(low, low_unit or high_unit)]
    return values if high is None else [*values, _value(high, high_unit)]


def _value(number: str, unit: str | None) -> float:
    return float(number.replace(",", "")) * UNITS.get(unit or "", 1.0)


def markdown(rows: Sequence[Row], judged: bool = True) -> str:
    """Format the table; unless `judged`, the last column is empty because the sizes are too small."""
    lines = [HEADER, ("---",) * len(HEADER)]
    lines += [(*row, verdict(row) if judged else "-") for row in rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
