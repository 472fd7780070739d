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
    stale = [one for one in found if one.state != "fresh"]
    known = sum(one.seconds for one in stale if one.seconds is not None)
    cost = f", about {known:.0f} s by the last run's timings" if known else ""
    show(f"{len(stale)} of {len(found)} stages would run{cost}." if stale else "Nothing would run.")
    return 0


def _line(one: StageStatus) -> str:
    reason = f": {'; '.join(one.reasons)}" if one.reasons else ""
    return f"{one.label:<38} {one.state}{reason}"
