"""The tracker a command reads from."""

import argparse

from flows.commands.options import read_default_config
from flows.config import find_home
from flows.prefect_engine import prepare_libraries
from storage.tracking.client import Tracker
from tasks.stages.tracking import make_tracker


def open_tracker(options: argparse.Namespace) -> Tracker:
    """The tracker at `--uri`, else where runs of this folder are tracked."""
    config = read_default_config(options)
    home = find_home(config)
    prepare_libraries()
    return make_tracker(options.uri or config.tracking.uri, home)
