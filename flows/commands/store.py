"""`store`: list, measure, verify and clean up the artifact store."""

import argparse
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from flows.commands.options import Subparsers, add_command, add_json, read_default_config
from flows.config import RunConfig, find_home
from flows.stores import open_store
from flows.terminal import TerminalReporter, show, tell
from storage.artifacts.keys import QUARANTINE, stage_label
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError
from tasks.maintenance import fsck, gc
from tasks.maintenance.damaged_runs import describe_damaged, find_run, quarantine_runs
from tasks.maintenance.registered import Registered, find_registered
from tasks.report.tables import Table, format_time

_UNITS = ("B", "kB", "MB", "GB", "TB")
_GIVE_UP = "`labelscape store gc --forget-damaged` discards the damaged records"


def add_parser(commands: Subparsers) -> None:
    """Declare the command and its actions."""
    parser = add_command(commands, "store", store)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    texts = {
        "ls": "list every artifact, or with --runs every run",
        "du": "show disk usage by stage",
        "verify": "read and check every artifact; damaged ones are quarantined",
        "gc": "remove artifacts that no kept run needs",
        "pin": "keep a run regardless of its age",
        "unpin": "undo pin",
    }
    made = {name: actions.add_parser(name, help=text, description=text) for name, text in texts.items()}
    for name, action in made.items():
        add_json(action)
        action.add_argument("--home", default=argparse.SUPPRESS, help="folder of the store")
        action.set_defaults(resumable=name in ("verify", "gc"))
    made["ls"].add_argument("--runs", action="store_true", help="list the runs instead")
    made["gc"].add_argument("--dry-run", action="store_true", help="only print what would be removed")
    made["gc"].add_argument(
        "--keep", type=int, default=5, metavar="N", help="newest runs of each experiment to keep (default: 5)"
    )
    made["gc"].add_argument(
        "--forget-damaged",
        action="store_true",
        help="discard damaged run records and pointers, pinned runs included",
    )
    made["gc"].add_argument(
        "--forget-tracker",
        action="append",
        default=[],
        metavar="URI",
        help="do not keep the runs of this MLflow server or database, which is gone; may be repeated",
    )
    for name in ("pin", "unpin"):
        made[name].add_argument("run", metavar="RUN", help="id of a run, or its first characters")


def store(options: argparse.Namespace) -> int:
    """Run the chosen action on the configured store."""
    held = open_store(read_default_config(options), must_exist=True)
    return _ACTIONS[options.action](options, held, RunLog(held))


def _ls(options: argparse.Namespace, held: ArtifactStore, log: RunLog) -> int:
    if options.runs:
        return _ls_runs(options, held, log)
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
            stage_label(one["stage"], one["variant"]),
            one["key"][:12],
            f"{one['rows']}",
            format_bytes(one["bytes"]),
            f"{one['seconds']:.1f} s",
            format_time(one["created"]),
            f"{one['runs']}",
        )
        for one in records
    )
    header = ("artifact", "key", "rows", "size", "time", "created (UTC)", "runs that use it")
    show(Table(header, rows, optional=(4, 6, 2, 5, 3)) if rows else "The store contains no artifacts yet.")
    return 0


def _ls_runs(options: argparse.Namespace, held: ArtifactStore, log: RunLog) -> int:
    runs = log.entries()
    if damaged := quarantine_runs(held):
        tell(describe_damaged(damaged, held))
    if options.json:
        return _show_json([{"id": run.id, **run.to_json()} for run in runs])
    rows = tuple(
        (
            run.id,
            run.kind,
            run.name,
            run.experiment,
            format_time(run.created),
            format_time(run.repeated),
            run.tracked["run_id"][:8] if run.tracked else "not tracked",
            "pinned" if run.pinned else "",
        )
        for run in runs
    )
    header = ("run", "kind", "name", "experiment", "first (UTC)", "latest (UTC)", "tracked as", "")
    texts = frozenset(range(len(header)))
    show(Table(header, rows, texts=texts, optional=(4, 3, 6, 5)) if rows else "No runs yet.")
    return 0


def _du(options: argparse.Namespace, held: ArtifactStore, log: RunLog) -> int:
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


def _verify(options: argparse.Namespace, held: ArtifactStore, log: RunLog) -> int:
    total = sum(1 for _ in held.checks())
    with TerminalReporter(quiet=options.json).progress("verify", total) as advance:
        damages = fsck.verify_store(held, log, advance)
    if options.json:
        _show_json({"artifacts": total, "damaged": [asdict(one) for one in damages]})
        return 1 if damages else 0
    for one in damages:
        show(f"damaged  {one.name}: {one.reason}; {one.loss}")
    if damages:
        _explain_damage(damages, f"{held.place}/{QUARANTINE}")
        return 1
    show(f"{total} artifacts read, all intact.")
    return 0


def _explain_damage(damages: Sequence[fsck.Damage], place: str) -> None:
    show(f"{len(damages)} moved to quarantine under {place}.")
    if any(one.recomputable for one in damages):
        show("`labelscape run` recomputes damaged artifacts.")
    if not all(one.recomputable for one in damages):
        show(f"While a run record or pointer is damaged, `store gc` removes no run or artifact; {_GIVE_UP}.")


def _gc(options: argparse.Namespace, held: ArtifactStore, log: RunLog) -> int:
    if options.keep < 0:
        raise ConfigError(f"--keep {options.keep}: give 0 or a positive number.")
    config = read_default_config(options)
    home = find_home(config)
    # Ask before locking the store, so that no run waits for a tracker. Runs recorded meanwhile are kept.
    registered = _registered(log, config, options.forget_tracker)
    with held.exclusive():
        found = gc.find_garbage(held, log, options.keep, registered.keeps, options.forget_damaged)
        freed, orphans = (
            (found.bytes, gc.find_orphans(held, home))
            if options.dry_run
            else gc.remove_garbage(held, log, found, home)
        )
    if options.json:
        return _show_json(
            {
                "dry_run": options.dry_run,
                "runs": [run.id for run in found.runs],
                "artifacts": [f"{one['stage']}/{one['key']}" for one in found.artifacts],
                "bytes": freed,
                "orphans": [str(path) for path in orphans],
                "unreachable": dict(registered.unreachable),
                "unresolved": [str(one) for one in found.unresolved],
                "forgotten": [str(one) for one in found.records],
                "loose_parts": list(found.parts),
            }
        )
    for run in found.runs:
        show(f"run       {_describe(run)}")
    for one in found.artifacts:
        show(f"artifact  {one['stage']}/{one['key'][:12]}, {format_bytes(one['bytes'])}")
    _show_kept(found, registered)
    verb, files = "would be" if options.dry_run else "were", len(orphans) + len(found.records)
    show(
        f"{len(found.artifacts)} artifacts ({format_bytes(freed)}) and {len(found.runs)} runs {verb} removed"
        + (f", and {files} files that are damaged or left by killed processes." if files else ".")
    )
    return 0


def _show_kept(found: gc.Garbage, registered: Registered) -> None:
    """Show what is kept although it may be unused, why, and what to do about it."""
    for uri, problem in registered.unreachable.items():
        given_up = f"`labelscape store gc --forget-tracker {shlex.quote(uri)}`"
        show(
            f"kept      runs tracked at {uri}, which may have registered models: {problem.rstrip('.')}. "
            f"If it has moved, set tracking.uri; if it no longer exists, run {given_up}."
        )
    if found.parts:
        show(
            f"kept      {len(found.parts)} parts of features that no artifact links to: features that a kept "
            "run uses are missing, and `labelscape run` can rebuild them from these parts."
        )
    for one in found.unresolved:
        show(f"lost      {fsck.describe_record(one)}.")
    if found.unresolved:
        show(
            "kept      all runs and artifacts, because it is unknown which artifacts these records use; "
            f"{_GIVE_UP}."
        )


def _registered(log: RunLog, config: RunConfig, given_up: Sequence[str]) -> Registered:
    from flows.prefect_settings import prepare_libraries
    from storage.urls import redact
    from tasks.stages.tracking import make_tracker

    here = make_tracker(config.tracking.uri, find_home(config))
    prepare_libraries()
    home = find_home(config)
    return find_registered(
        log.entries(),
        here,
        lambda uri: here if uri == here.uri else make_tracker(uri, home),
        [redact(uri) for uri in given_up],
    )


def _pin(options: argparse.Namespace, held: ArtifactStore, log: RunLog) -> int:
    run = find_run(held, options.run)
    log.pin(run, pinned=options.action == "pin")
    if options.json:
        return _show_json({"id": run.id, "pinned": options.action == "pin"})
    kept = "is pinned" if options.action == "pin" else "is no longer pinned"
    show(f"run {_describe(run)} {kept}.")
    return 0


def _describe(run: LoggedRun) -> str:
    return f"{run.id} ({run.name}, {run.created[:10]})"


def _show_json(record: Any) -> int:
    show(json.dumps(record, indent=2, ensure_ascii=False))
    return 0


def format_bytes(size: float) -> str:
    """Return a size with a unit."""
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_UNITS[-1]}"


_ACTIONS: dict[str, Callable[[argparse.Namespace, ArtifactStore, RunLog], int]] = {
    "ls": _ls,
    "du": _du,
    "verify": _verify,
    "gc": _gc,
    "pin": _pin,
    "unpin": _pin,
}
