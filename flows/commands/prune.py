"""`prune`: remove old flow runs, events, logs, deleted runs and reports."""

import argparse

from flows.commands.options import Subparsers, add_command, read_default_config


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "prune", prune)
    parser.add_argument(
        "--days", type=float, help="remove what is older (default: schedule.keep_days, 30 if not set)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def prune(options: argparse.Namespace) -> int:
    """Remove what is old and say how much."""
    from flows.config import RunConfig, find_home, load_config
    from flows.prefect_settings import prepare_libraries
    from flows.prune import prune_all
    from flows.terminal import show

    config = read_default_config(options)
    if options.days is not None:
        checked = load_config(None, [f"schedule.keep_days={options.days}"])
        schedule = config.schedule.model_copy(update={"keep_days": checked.schedule.keep_days})
        config = RunConfig.model_validate({**config.model_dump(), "schedule": schedule})
    prepare_libraries()
    show("\n".join(prune_all(config, find_home(config), options.dry_run)))
    return 0
