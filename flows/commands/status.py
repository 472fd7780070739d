"""`status`: whether each stage is fresh, stale (and why) or missing; nothing is computed."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from flows.commands.options import read_config
from flows.config import DEFAULT_FILE, RunConfig, find_home
from flows.inspection import StageStatus, inspect_stages
from flows.recall import Watch, find_memo
from flows.stores import find_store_uri
from flows.terminal import show
from storage.sources.image_files import own_folders
from storage.tracking.engine import DATABASE


def status(options: argparse.Namespace) -> int:
    """Print what a run would do, and why."""
    config = read_config(options)
    watch = _watch(options, config)
    inspection = inspect_stages(config)
    found = inspection.stages
    answer = _as_json(found) if options.json else _as_text(found)
    show(answer)
    if watch and all(one.would_run == "no" for one in found):
        needed, others = _rest(options, config)
        watch.keep(answer, [*inspection.files, *needed], others)
    return 0


def _watch(options: argparse.Namespace, config: RunConfig) -> Watch | None:
    """The means to keep the answer, where all that it rests on are files of this machine."""
    home, folder = find_home(config), Path(config.source.path)
    elsewhere = find_store_uri(config.store.uri) or (config.tracking.enabled and config.tracking.uri)
    found_again = home in Path(find_memo(options.arguments)).resolve().parents
    if elsewhere or config.source.paranoid or not found_again or not folder.is_dir():
        return None
    return Watch(options.arguments, str(folder), own_folders(home / "cache"))


def _rest(options: argparse.Namespace, config: RunConfig) -> tuple[list[Path], list[str | Path]]:
    """Files beside items and store that the answer counts on, and those that count if they are there."""
    database = find_home(config) / DATABASE
    named = [options.source, config.source.labels, config.source.edges]
    others = [DEFAULT_FILE, *(database.with_name(f"{DATABASE}-{more}") for more in ("wal", "journal"))]
    return [database] if config.tracking.enabled else [], [*filter(None, named), *others]


def _as_json(found: list[StageStatus]) -> str:
    return json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False)


def _as_text(found: list[StageStatus]) -> str:
    width = max((len(one.label) for one in found), default=0)
    return "\n".join([*(_line(one, width) for one in found), _outlook(found)])


def _outlook(found: list[StageStatus]) -> str:
    """Say how many stages would run, and about how long that takes."""
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
