"""The tracker a command reads from."""

from flows.config import find_home, load_config
from flows.engine import prepare_engine
from storage.tracking import Tracker
from tasks.tracking import make_tracker


def open_tracker(uri: str | None) -> Tracker:
    """The tracker of the home folder, or of a given address."""
    home = find_home(load_config(None))
    prepare_engine(home)
    return make_tracker(uri, home)
