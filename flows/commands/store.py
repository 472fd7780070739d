"""`store`: what lies in it, whether it is whole, and what can go."""

import argparse
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from flows.commands.options import read_default_config
from flows.config import RunConfig, find_home
from flows.stores import open_store
from flows.terminal import TerminalReporter, show
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import Store
from storage.errors import ConfigError
from tasks.maintenance import fsck, gc
from tasks.maintenance.registered import Registered, find_registered
from tasks.report.tables import Table

_UNITS = ("B", "kB", "MB", "GB", "TB")
_GIVE_UP = "`labelscape store gc --forget-damaged` gives up what is lost"


def store(options: argparse.Namespace) -> int:
    """Do what was asked with the store of this folder."""
    held = open_store(read_default_config(options), must_exist=True)
    return _ACTIONS[options.action](options, held, RunLog.of(held))


def _ls(options: argparse.Namespace, held: Store, log: RunLog) -> int:
    if options.runs:
        return _ls_runs(options, log)
    manifests = fsck.load_manifests(held)
    needed = [fsck.reach(run.stages.values(), manifests) for run in log.entries()]
    records = [
        {
            "stage": one["stage"],
            "variant": one["recipe"]["variant"],
            "key": one["key"],
            "kind": one["kind"],
            "rows": one["rows"],
            "bytes": one["bytes"],
            "seconds": one["seconds"],
            "created": one["created"],
            "runs": sum(name in names for names in needed),
        }
        for name, one in manifests.items()
    ]
    if options.json:
        return _show_json(records)
    rows = tuple(
        (
            f"{one['stage']}[{one['variant']}]" if one["variant"] else one["stage"],
            one["key"][:12],
            f"{one['rows']}",
            format_bytes(one["bytes"]),
            f"{one['seconds']:.1f} s",
            one["created"][:19].replace("T", " "),
            f"{one['runs']}",
        )
        for one in records
    )
    header = ("artifact", "key", "rows", "size", "took", "made (UTC)", "runs that need it")
    show(Table(header, rows, optional=(4, 6, 2, 5, 3)) if rows else "The store holds no artifact yet.")
    return 0


def _ls_runs(options: argparse.Namespace, log: RunLog) -> int:
    runs = log.entries()
    if options.json:
        return _show_json([{"id": run.id, **run.to_json()} for run in runs])
    rows = tuple(
        (
            run.id,
            run.name,
            run.experiment,
            run.created[:19].replace("T", " "),
            run.repeated[:19].replace("T", " "),
            run.tracked["run_id"][:8] if run.tracked else "not tracked",
            "pinned" if run.pinned else "",
        )
        for run in runs
    )
    header = ("run", "name", "experiment", "first (UTC)", "last (UTC)", "tracked as", "")
    texts = frozenset(range(len(header)))
    show(Table(header, rows, texts=texts, optional=(3, 2, 5, 4)) if rows else "No run yet.")
    return 0


def _du(options: argparse.Namespace, held: Store, log: RunLog) -> int:
    found = fsck.measure_usage(held)
    if options.json:
        return _show_json([asdict(one) for one in found])
    total = fsck.Usage(
        "all",
        sum(one.artifacts for one in found),
        sum(one.bytes for one in found),
        sum(one.seconds for one in found),
    )
    rows = tuple(
        (one.stage, f"{one.artifacts}", format_bytes(one.bytes), f"{one.seconds:.1f} s")
        for one in (*found, total)
    )
    show(Table(("stage", "artifacts", "size", "time to compute"), rows))
    return 0


def _verify(options: argparse.Namespace, held: Store, log: RunLog) -> int:
    total = sum(1 for _ in held.looks())
    with TerminalReporter(quiet=options.json).progress("verify", total) as advance:
        damages = fsck.verify_store(held, log, advance)
    if options.json:
        _show_json({"artifacts": total, "damaged": [asdict(one) for one in damages]})
        return 1 if damages else 0
    for one in damages:
        show(f"damaged  {one.name}: {one.reason}; {one.loss}")
    if damages:
        _explain_damage(damages, f"{held.place}/damaged")
        return 1
    show(f"{total} artifacts read, all whole.")
    return 0


def _explain_damage(damages: Sequence[fsck.Damage], place: str) -> None:
    show(f"{len(damages)} set aside under {place}.")
    if any(one.remade for one in damages):
        show("`labelscape run` computes damaged artifacts anew.")
    if not all(one.remade for one in damages):
        show(f"While a record or a note is lost, `store gc` removes no run and no artifact; {_GIVE_UP}.")


def _gc(options: argparse.Namespace, held: Store, log: RunLog) -> int:
    if options.keep < 0:
        raise ConfigError(f"--keep {options.keep}: give a number from 0 up.")
    config = read_default_config(options)
    home = find_home(config)
    # Asked first: nobody should wait for a tracker. What is recorded meanwhile is kept.
    registered = _registered(log, config, options.forget_tracker)
    with held.alone():
        found = gc.find_waste(held, log, options.keep, registered.keeps, options.forget_damaged)
        freed, leftovers = (
            (found.bytes, gc.find_leftovers(held, log, home))
            if options.dry_run
            else gc.remove_waste(held, log, found, home)
        )
    if options.json:
        return _show_json(
            {
                "dry_run": options.dry_run,
                "runs": [run.id for run in found.runs],
                "artifacts": [f"{one['stage']}/{one['key']}" for one in found.artifacts],
                "bytes": freed,
                "leftovers": [str(path) for path in leftovers],
                "silent": dict(registered.silent),
                "lost": [f"{one.folder}/{one.name}" for one in found.missed],
                "forgotten": [f"{one.folder}/{one.name}" for one in found.records],
                "loose_parts": list(found.parts),
            }
        )
    for run in found.runs:
        show(f"run       {_describe(run)}")
    for one in found.artifacts:
        show(f"artifact  {one['stage']}/{one['key'][:12]}, {format_bytes(one['bytes'])}")
    _tell_kept(found, registered)
    verb, files = "would be" if options.dry_run else "were", len(leftovers) + len(found.records)
    show(
        f"{len(found.artifacts)} artifacts ({format_bytes(freed)}) and {len(found.runs)} runs {verb} removed"
        + (f", and {files} files, damaged or left by killed processes." if files else ".")
    )
    return 0


def _tell_kept(found: gc.Waste, registered: Registered) -> None:
    """Say what stays though it may not be needed, why, and what to do about it."""
    for uri, problem in registered.silent.items():
        given_up = f"`labelscape store gc --forget-tracker {shlex.quote(uri)}`"
        show(
            f"kept      runs tracked at {uri}, which may have registered models: {problem.rstrip('.')}. "
            f"If it has moved, set tracking.uri; if it is gone for good, {given_up}."
        )
    if found.parts:
        show(
            f"kept      {len(found.parts)} portions of features that no artifact links to: features that a "
            "kept run needs are missing, and `labelscape run` may make them from these."
        )
    for one in found.missed:
        show(f"lost      {fsck.describe_lost(one)}.")
    if found.missed:
        show(f"kept      every run and artifact, since what these need cannot be told; {_GIVE_UP}.")


def _registered(log: RunLog, config: RunConfig, given_up: Sequence[str]) -> Registered:
    from flows.prefect_engine import prepare_libraries
    from storage.tracking.client import Tracker
    from storage.tracking.engine import redact
    from tasks.stages.tracking import make_tracker

    here = make_tracker(config.tracking.uri, find_home(config))
    prepare_libraries()
    # Addresses of runs are kept without their passwords.
    return find_registered(
        log.entries(), here, lambda uri: here if uri == redact(here.uri) else Tracker(uri), given_up
    )


def _pin(options: argparse.Namespace, held: Store, log: RunLog) -> int:
    run = log.find(options.run)
    log.pin(run, pinned=options.action == "pin")
    if options.json:
        return _show_json({"id": run.id, "pinned": options.action == "pin"})
    kept = "is kept whatever its age" if options.action == "pin" else "is kept as long as it is new"
    show(f"run {_describe(run)} {kept}.")
    return 0


def _describe(run: LoggedRun) -> str:
    return f"{run.id} ({run.name}, {run.created[:10]})"


def _show_json(record: Any) -> int:
    show(json.dumps(record, indent=2, ensure_ascii=False))
    return 0


def format_bytes(size: float) -> str:
    """A size that a person reads."""
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_UNITS[-1]}"


_ACTIONS: dict[str, Callable[[argparse.Namespace, Store, RunLog], int]] = {
    "ls": _ls,
    "du": _du,
    "verify": _verify,
    "gc": _gc,
    "pin": _pin,
    "unpin": _pin,
}
