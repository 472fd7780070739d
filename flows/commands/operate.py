"""`up`, `down`, `serve`, `deploy`: the servers and the schedule."""

import argparse

from flows.commands.options import read_config, read_default_config
from flows.config import RunConfig, find_home
from flows.prefect_engine import prepare_engine
from flows.terminal import show


def up(options: argparse.Namespace) -> int:
    """Start both servers, say where they are."""
    from flows.services import up as start

    services = start(
        find_home(read_default_config(options)),
        prefect_port=options.prefect_port,
        mlflow_port=options.mlflow_port,
    )
    show(f"Prefect  {services.prefect_ui}\nMLflow   {services.mlflow_url}\nStop both with: labelscape down")
    return 0


def down(options: argparse.Namespace) -> int:
    """Stop both servers."""
    from flows.services import down as stop

    show("stopped" if stop(find_home(read_default_config(options))) else "nothing was running")
    return 0


def serve(options: argparse.Namespace) -> int:
    """Keep a served deployment until interrupted."""
    config = _checked(options)
    prepare_engine(find_home(config), verbose=True)
    from flows.schedule import serve as keep_serving

    keep_serving(config, options.cron, options.name)
    return 0


def deploy(options: argparse.Namespace) -> int:
    """Register a deployment on a work pool."""
    config = _checked(options)
    prepare_engine(find_home(config), options.verbose)
    from flows.schedule import deploy as register

    show(register(config, options.cron, options.pool, options.name))
    return 0


def _checked(options: argparse.Namespace) -> RunConfig:
    """The configuration of a schedule, refused here and now rather than at night."""
    from flows.pipeline import check_config

    config = read_config(options)
    check_config(config)
    return config
