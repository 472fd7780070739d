"""`up`, `down`, `serve`, `deploy`, `worker`: the local servers and the schedule."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from flows.commands.options import (
    Subparsers,
    add_command,
    add_configuration,
    read_config,
    read_default_config,
)

if TYPE_CHECKING:
    from flows.config import RunConfig


def add_parser(commands: Subparsers) -> None:
    """Declare the commands."""
    parser = add_command(commands, "up", up)
    parser.add_argument("--prefect-port", type=int, help="default: 4200 if it is free, else any")
    parser.add_argument("--mlflow-port", type=int, help="default: 5000 if it is free, else any")
    add_command(commands, "down", down)
    for name, function in (("serve", serve), ("deploy", deploy)):
        parser = add_command(commands, name, function)
        add_configuration(parser)
        parser.add_argument("--cron", default="0 3 * * *", help="when to run (default: %(default)s)")
        parser.add_argument("--name", default="train", help="name of the deployment (default: %(default)s)")
    parser.add_argument(
        "--pool", default="labelscape", help="process work pool, created if missing (default: %(default)s)"
    )
    parser = add_command(commands, "worker", worker)
    parser.add_argument("--pool", default="labelscape", help="process work pool (default: %(default)s)")
    parser.add_argument("--run-once", action="store_true", help="stop when nothing is due")


def up(options: argparse.Namespace) -> int:
    """Start both servers and print their addresses."""
    from flows.config import find_home
    from flows.services import browser_links
    from flows.services import up as start
    from flows.stores import warn_if_open
    from flows.terminal import TerminalReporter, show

    home = find_home(read_default_config(options))
    warn_if_open(home)
    ports = {"prefect_port": options.prefect_port, "mlflow_port": options.mlflow_port}
    services = start(home, **ports, warn=TerminalReporter().warn)
    prefect, mlflow = browser_links(home, services)
    show(f"Prefect  {prefect}\nMLflow   {mlflow}")
    show("The links log your browser in; do not share them.\nStop both with: labelscape down")
    return 0


def down(options: argparse.Namespace) -> int:
    """Stop both servers."""
    from flows.config import find_home
    from flows.services import down as stop
    from flows.terminal import show

    show("stopped" if stop(find_home(read_default_config(options))) else "nothing was running")
    return 0


def serve(options: argparse.Namespace) -> int:
    """Serve a deployment until interrupted."""
    config = _prepare(options, verbose=True)
    from flows.schedule import serve as keep_serving

    keep_serving(config, options.cron, options.name)
    return 0


def deploy(options: argparse.Namespace) -> int:
    """Register a deployment on a work pool."""
    config = _prepare(options, options.verbose)
    from flows.schedule import deploy as register
    from flows.terminal import show

    show(register(config, options.cron, options.pool, options.name))
    return 0


def worker(options: argparse.Namespace) -> int:
    """Run what is registered on a work pool until interrupted."""
    from flows.config import find_home
    from flows.prefect_settings import prepare_engine
    from flows.schedule import start_worker

    home = find_home(read_default_config(options))
    prepare_engine(home, verbose=True)
    start_worker(home, options.pool, options.run_once)


def _prepare(options: argparse.Namespace, verbose: bool) -> RunConfig:
    """Check the configuration now rather than in the scheduled run, then choose the Prefect server."""
    from flows.config import find_home
    from flows.prefect_settings import load_prefect, prepare_engine
    from flows.run_settings import check_config

    config = read_config(options)
    check_config(config)
    prepare_engine(find_home(config), verbose)
    load_prefect()
    return config
