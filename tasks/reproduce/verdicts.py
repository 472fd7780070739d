"""What the verdicts of an experiment amount to, in one line."""

from collections.abc import Sequence

from tasks.reproduce.comparison import NOT_RUN, REPRODUCED, Row, count_impossible, count_verdicts
from tasks.reproduce.experiment import TRIALS, Experiment

_HOLDS = ("does not hold", "holds")


def verdict_line(experiment: Experiment, rows: Sequence[Row]) -> str:
    """The count of verdicts in words; that of a quick run begins with its number of trials."""
    impossible = count_impossible(rows)
    left_out = sum(row.verdict == NOT_RUN for row in rows)
    parts = [
        _printed(experiment, rows),
        f"{impossible} of them impossible under one reading of the paper's words" if impossible else "",
        f"{left_out} printed cells are of sets that are not in this run" if left_out else "",
        _said(experiment, rows),
    ]
    line = "; ".join(part for part in parts if part)
    if not line and not experiment.against_plain:
        line = "the paper prints no number here"
    return ": ".join(part for part in (_how_quick(experiment, rows), line) if part)


def _printed(experiment: Experiment, rows: Sequence[Row]) -> str:
    counted = count_verdicts(rows)
    total = sum(counted.values())
    told = ", ".join(f"{count} {verdict}" for verdict, count in counted.items())
    under = " and ".join(part for part in (experiment.primary, experiment.primary_condition) if part)
    return f"of {total} printed cells ({under}): {told}" if total else ""


def _said(experiment: Experiment, rows: Sequence[Row]) -> str:
    claims = [row for row in rows if row.claim and row.primary and row.paper is None]
    held = sum(row.verdict == REPRODUCED for row in claims)
    if not claims:
        return ""
    many = f"of {len(claims)} claims in words ({experiment.primary}) {held} hold"
    return many if len(claims) > 1 else f"the claim in words ({experiment.primary}) {_HOLDS[held]}"


def _how_quick(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Which share of the trials was run, where it was not all: few trials move means by many points."""
    done: dict[str, int] = {}
    for row in rows:
        if row.trials:
            done[row.dataset] = max(row.trials, done.get(row.dataset, 0))
    short = {
        (count, full)
        for dataset, count in done.items()
        if count < (full := experiment.settings(dataset, quick=False)[TRIALS])
    }
    told = " or ".join(f"{count} of {full}" for count, full in sorted(short))
    return f"quick, {told} trials" if told else ""
