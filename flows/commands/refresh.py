"""`refresh` and `watch`: bring a collection up to date, once or whenever its files change."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flows.commands.options import Subparsers, add_command, add_configuration, add_paranoid, read_config
from storage.quoting import count_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from flows.config import RunConfig
    from flows.refresh_result import RefreshResult
    from tasks.report.tables import Table


def add_parser(commands: Subparsers) -> None:
    """Declare the commands."""
    parser = add_command(commands, "refresh", refresh, json=True, staged=True)
    add_configuration(parser)
    add_paranoid(parser)
    parser.add_argument("--force", action="store_true", help="compare again even if nothing has changed")
    parser = add_command(commands, "watch", watch)
    add_configuration(parser)
    parser.add_argument(
        "--settle",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="time without a change after which a burst of changes counts as over (default: %(default)g)",
    )
    parser.add_argument(
        "--event",
        action="store_true",
        help="send the event labelscape.changed to Prefect instead, for deployments with --on-change",
    )
    parser.add_argument("--name", help="name of the deployment for --event, as that of `serve --name`")
    parser.add_argument("--once", action="store_true", help="stop after the first change")


def refresh(options: argparse.Namespace) -> int:
    """Refresh once and print what moved."""
    config = _check(options)  # without the source: one that vanished is worth a notice
    result = refresh_here(config, options)
    from flows.terminal import show

    if options.json:
        known = asdict(result)
        known |= {name: [str(file) for file in known[name]] for name in ("files", "queue")}
        show(json.dumps(known, indent=2, ensure_ascii=False))
    else:
        show(refresh_text(config, result))
    return 0


def refresh_here(config: RunConfig, options: argparse.Namespace, force: bool | None = None) -> RefreshResult:
    """Refresh in this process, and send notices, also about a failure."""
    from flows.notifications import Notice, collection_name, send
    from flows.refresh import Refresh
    from flows.runner import Run
    from storage.credentials import hide_secrets
    from tasks.safe_text import printable

    def execute(plan: Any) -> Any:
        return Run(plan, session=options.session).execute(options.verbose)

    warn = options.session.reporter.warn
    try:
        work = Refresh(config, execute, lambda notice: send(config, notice, warn))
        return work.run(options.force if force is None else force)
    except Exception as error:
        text = printable(hide_secrets(f"{type(error).__name__}: {error}"))
        send(config, Notice("failure", collection_name(config), text), warn)
        raise


def refresh_text(config: RunConfig, result: RefreshResult) -> list[str | Table]:
    """The result for a terminal."""
    from flows.score_moves import moves_table

    merged = [f"{'merged':<11}{result.merged}"] if result.merged else []
    notes = [f"{'note':<11}{note}" for note in result.notes]
    if result.cached:
        return [f"{'Cached':<11}{result.line}", *merged, *notes]
    lines: list[str | Table] = ["", moves_table(result.moves, config.evaluation.sort_by), ""]
    lines += [f"{'changed' if not place else '':<11}{cause}" for place, cause in enumerate(result.causes)]
    lines += [f"{'drop':<11}{result.drop}"] if result.drop else []
    lines += [f"{'champion':<11}{result.champion}"] if result.champion else []
    place = f", {result.files[0].with_suffix('')}.*" if result.files else ""
    lines += [f"{'annotated':<11}{result.annotated} items without labels{place}", *merged]
    lines += [f"{'' if row else 'gained':<11}{line}" for row, line in enumerate(result.gained)]
    lines += [f"{'next':<11}{result.queue[0]}", *notes] if result.queue else notes
    return [*lines, *(f"{kind:<11}{run}" for kind, run in result.runs.items())]


def watch(options: argparse.Namespace) -> int:
    """Refresh, or send an event, after each burst of changes."""
    from flows.run_settings import check_source
    from flows.watch import check_settle, watch_files, watched_places

    check_settle(options.settle)
    _check_name(options)
    config = _check(options)
    check_source(config)
    watched_places(config)  # refuse what cannot be watched before the first refresh
    from flows.terminal import show

    announce = _Announcer(config, options.name)

    def changed(count: int) -> bool:
        if options.event:
            return announce(count)
        show(f"changed    {count_of(count, 'file', 'files')}")
        _go_on(refreshed)
        return True

    def refreshed() -> list[str | Table]:
        return refresh_text(config, refresh_here(config, options, force=False))

    def first() -> None:
        if not options.event:
            _go_on(refreshed, first=True)
        show(f"watching   {config.source.path}; stop with Ctrl-C")

    watch_files(config, changed, options.settle, options.once, first=first)
    return 0


class _Announcer:
    """Sends the event of a change; reports once that it cannot be sent."""

    def __init__(self, config: RunConfig, name: str | None) -> None:
        self._config = config
        self._name = name
        self._waiting = False

    def __call__(self, count: int) -> bool:
        """Return whether the event was sent."""
        from flows.terminal import show, tell
        from flows.watch import announce_change
        from storage.credentials import hide_secrets
        from storage.errors import ServiceError

        if not self._waiting:
            show(f"changed    {count_of(count, 'file', 'files')}")
        try:
            show(f"event      {announce_change(self._config, count, self._name)}")
        except ServiceError as error:
            if not self._waiting:
                text = f"failed     {hide_secrets(str(error))}"
                tell(f"{text}\nThe event is sent as soon as the server answers.")
            self._waiting = True
            return False
        self._waiting = False
        return True


def _go_on(work: Callable[[], list[str | Table]], first: bool = False) -> None:
    """Show the result of some work, or why it failed, such as a file that is only half saved.

    At the first attempt, an error in the settings is raised: they are not read again.
    """
    from embedding_core.errors import InvalidInput
    from flows.terminal import show, tell
    from storage.credentials import hide_secrets
    from storage.errors import ConfigError, LabelscapeError

    try:
        show(work())
    except (LabelscapeError, InvalidInput) as error:
        if first and isinstance(error, ConfigError):
            raise
        tell(f"failed     {hide_secrets(str(error))}\nwatching goes on; the next change is a new attempt.")


def _check_name(options: argparse.Namespace) -> None:
    from flows.schedule import check_name
    from storage.errors import ConfigError

    if options.name is None:
        return
    check_name(options.name, "--name")
    if not options.event:
        raise ConfigError("--name names a deployment and needs --event; leave it out, or add --event.")


def _check(options: argparse.Namespace) -> RunConfig:
    from flows.run_settings import check_config
    from storage.credentials import keep

    config = read_config(options)
    check_config(config)
    from flows.config import find_home

    keep(config.notify.webhook, find_home(config))
    return config
