"""`status`: every stage as fresh, stale with the reason, or missing; nothing is computed."""

import argparse
import json
from dataclasses import asdict

from flows.commands.options import read_config
from flows.inspection import StageStatus, inspect_stages
from flows.terminal import show


def status(options: argparse.Namespace) -> int:
    """Say what a run would do, and why."""
    found = inspect_stages(read_config(options))
    if options.json:
        show(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
        return 0
    for one in found:
        show(_line(one))
    show(_outlook(found))
    return 0


def _outlook(found: list[StageStatus]) -> str:
    """How many stages would run, and about how long that takes."""
    sure = [one for one in found if one.would_run == "yes"]
    perhaps = [one for one in found if one.would_run == "perhaps"]
    if not sure:
        return "Nothing would run."
    text = f"{len(sure)} of {len(found)} stages would run{_cost(sure)}"
    if perhaps:
        text += f"; {len(perhaps)} more if what they wait for comes out differently{_cost(perhaps)}"
    known = any(one.seconds is not None for one in (*sure, *perhaps))
    return f"{text}{' (by the timings of the last run)' if known else ''}."


def _cost(stages: list[StageStatus]) -> str:
    known = [one.seconds for one in stages if one.seconds is not None]
    if not known:
        return ""
    unknown = f" and {len(stages) - len(known)} that never ran" if len(known) < len(stages) else ""
    seconds = sum(known)
    return f", about {seconds:.{0 if seconds >= 10 else 1}f} s{unknown}"


def _line(one: StageStatus) -> str:
    reason = f" because {'; '.join(one.reasons)}" if one.reasons else ""
    cost = f" ({one.seconds:.1f} s)" if one.seconds is not None and one.would_run != "no" else ""
    return f"{one.label:<38} {one.state}{reason}{cost}"
