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

# The keys of `flows.schedule.ENTRYPOINTS`, which takes a second to import.
_WHAT = ("run", "auto", "annotate", "refresh", "prune")


def add_parser(commands: Subparsers) -> None:
    """Declare the commands."""
    parser = add_command(commands, "up", up)
    parser.add_argument("--prefect-port", type=int, help="default: 4200 if it is free, else any")
    parser.add_argument("--mlflow-port", type=int, help="default: 5000 if it is free, else any")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="also start a Dask cluster of N workers on this machine"
    )
    parser.add_argument(
        "--server-workers",
        type=int,
        default=1,
        metavar="N",
        help="processes of the MLflow server (default: 1); Prefect's server always has one",
    )
    add_command(commands, "down", down)
    for name, function in (("serve", serve), ("deploy", deploy)):
        parser = add_command(commands, name, function)
        add_configuration(parser)
        parser.add_argument("--what", default="run", help=f"{', '.join(_WHAT)} (default: %(default)s)")
        parser.add_argument("--cron", default="0 3 * * *", help="when to run, in UTC (default: %(default)s)")
        parser.add_argument("--name", help="name of the deployment (default: that of the run or source)")
        parser.add_argument(
            "--replace", action="store_true", help="replace a deployment of this name with other settings"
        )
        parser.add_argument(
            "--on-change", action="store_true", help="also run when the event labelscape.changed arrives"
        )
    parser.add_argument(
        "--pool", default="labelscape", help="process work pool, created if missing (default: %(default)s)"
    )
    parser = add_command(commands, "worker", worker)
    parser.add_argument("--pool", default="labelscape", help="process work pool (default: %(default)s)")
    parser.add_argument("--run-once", action="store_true", help="stop when nothing is due")


def up(options: argparse.Namespace) -> int:
    """Start both servers, and a cluster if it is asked for, and print their addresses."""
    from flows.config import find_home
    from flows.local_cluster import check_count, start_cluster
    from flows.rerun import command_here
    from flows.server_options import choose_server_options
    from flows.services import browser_links
    from flows.services import up as start
    from flows.stores import warn_if_open
    from flows.terminal import TerminalReporter, show

    config = read_default_config(options)
    home = find_home(config)
    check_count(options.workers)
    warn_if_open(home)
    ports = {"prefect_port": options.prefect_port, "mlflow_port": options.mlflow_port}
    chosen = choose_server_options(config, options.server_workers)
    services = start(home, **ports, warn=TerminalReporter().warn, options=chosen)
    prefect, mlflow = browser_links(home, services)
    show(f"Prefect  {prefect}\nMLflow   {mlflow}")
    if options.workers is not None:
        cluster = start_cluster(home, options.workers)
        show(f"Dask     {cluster.dashboard}\n         run there with: --set executor={cluster.address}")
    show(f"The links log your browser in; do not share them.\nStop all with: {command_here(config, 'down')}")
    return 0


def down(options: argparse.Namespace) -> int:
    """Stop both servers and the cluster."""
    from flows.config import find_home
    from flows.local_cluster import stop_cluster
    from flows.services import down as stop
    from flows.terminal import show

    home = find_home(read_default_config(options))
    stopped = [stop_cluster(home), stop(home)]
    show("stopped" if any(stopped) else "nothing was running")
    return 0


def serve(options: argparse.Namespace) -> int:
    """Serve a deployment until interrupted."""
    config = _prepare(options, verbose=True)
    from flows.schedule import ENTRYPOINTS
    from flows.schedule import serve as keep_serving

    keep_serving(
        config,
        options.cron,
        options.name,
        entrypoint=ENTRYPOINTS[options.what],
        replace=options.replace,
        on_change=options.on_change,
    )
    return 0


def deploy(options: argparse.Namespace) -> int:
    """Register a deployment on a work pool."""
    config = _prepare(options, options.verbose)
    from flows.schedule import ENTRYPOINTS
    from flows.schedule import deploy as register
    from flows.terminal import show

    text = register(
        config,
        options.cron,
        options.pool,
        options.name,
        entrypoint=ENTRYPOINTS[options.what],
        replace=options.replace,
        on_change=options.on_change,
    )
    show(text)
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
    from storage.errors import ConfigError

    if options.what not in _WHAT:
        raise ConfigError(f"--what {options.what!r} cannot be scheduled; choose from {', '.join(_WHAT)}.")
    config = read_config(options)
    check_config(config)
    prepare_engine(find_home(config), verbose)
    load_prefect()
    return config
