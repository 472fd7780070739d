"""`status`: every stage as fresh, stale with the reason, or missing."""

import argparse
import json
from dataclasses import asdict

from flows.commands.options import Subparsers, add_command, add_configuration, add_paranoid, read_config
from flows.status import StageStatus, inspect_stages
from flows.terminal import show


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "status", status, json=True)
    add_configuration(parser)
    add_paranoid(parser)


def status(options: argparse.Namespace) -> int:
    """Print what a run would do, and why."""
    found = inspect_stages(read_config(options))
    show(_as_json(found) if options.json else _as_text(found))
    return 0


def _as_json(found: list[StageStatus]) -> str:
    return json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False)


def _as_text(found: list[StageStatus]) -> str:
    width = max((len(one.label) for one in found), default=0)
    return "\n".join([*(_line(one, width) for one in found), _outlook(found)])


def _outlook(found: list[StageStatus]) -> str:
    """Say how many stages would run, and about how long that would take."""
    sure = [one for one in found if one.would_run == "yes"]
    perhaps = [one for one in found if one.would_run == "perhaps"]
    if not sure:
        return "Nothing would run."
    text = f"{len(sure)} of {len(found)} stages would run{_cost(sure)}"
    if perhaps:
        text += f"; {len(perhaps)} more if their inputs change{_cost(perhaps)}"
    known = any(one.seconds is not None for one in (*sure, *perhaps))
    return f"{text}{' (as timed in the last run)' if known else ''}."


def _cost(stages: list[StageStatus]) -> str:
    known = [one.seconds for one in stages if one.seconds is not None]
    if not known:
        return ""
    unknown = f" and {len(stages) - len(known)} that never ran" if len(known) < len(stages) else ""
    seconds = sum(known)
    return f", about {seconds:.{0 if seconds >= 10 else 1}f} s{unknown}"


def _line(one: StageStatus, width: int) -> str:
    reason = f" because {'; '.join(one.reasons)}" if one.reasons else ""
    cost = f" ({one.seconds:.1f} s)" if one.seconds is not None and one.would_run != "no" else ""
    return f"{one.label:<{width}}  {one.state}{reason}{cost}"
