"""Which runs have a registered model: every tracker of theirs is asked, and in doubt a run counts as such."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from storage.artifacts.run_log import LoggedRun
from storage.errors import TrackingError
from storage.tracking.client import Tracker
from storage.tracking.engine import redact


@dataclass(frozen=True)
class Registered:
    """What the trackers answered.

    Attributes
    ----------
    run_ids : set of str
        Tracker's ids of runs that have, or may have, a registered model.
    silent : mapping of str to str
        Addresses of trackers of which every run counts, or every one that is not known elsewhere; and why.
    asked : mapping of str to LoggedRun
        The runs by id, as they were then.
    """

    run_ids: set[str]
    silent: Mapping[str, str]
    asked: Mapping[str, LoggedRun]

    def keeps(self, run: LoggedRun) -> bool:
        """Whether a run has or may have a registered model, or was recorded after the trackers were asked."""
        tracked = run.tracked is not None and run.tracked["run_id"] in self.run_ids
        return tracked or self.asked.get(run.id) != run


def find_registered(
    runs: Iterable[LoggedRun],
    here: Tracker,
    open_tracker: Callable[[str], Tracker],
    given_up: Collection[str] = (),
) -> Registered:
    """Ask every tracker of these runs for its registered models; of one that is silent every run counts.

    Parameters
    ----------
    runs : iterable of LoggedRun
    here : Tracker
        The present one. It is asked for runs whose database file is gone: it may have moved here.
    open_tracker : callable
        Gives the tracker of an address, which was kept without its password.
    given_up : collection of str
        Addresses of trackers that are gone for good.
    """
    asked = {run.id: run for run in runs}
    by_uri: dict[str, set[str]] = {}
    for run in asked.values():
        if run.tracked and run.tracked["uri"] not in given_up:
            by_uri.setdefault(run.tracked["uri"], set()).add(run.tracked["run_id"])
    found: set[str] = set()
    silent: dict[str, str] = {}
    for uri, run_ids in by_uri.items():
        try:
            registered, unknown = _ask(open_tracker(uri), here, run_ids)
            found |= registered | unknown
            if unknown:
                silent[uri] = (
                    f"its file is gone, and {redact(here.uri)} does not know {len(unknown)} runs of it"
                )
        except TrackingError as error:
            silent[uri] = str(error)
            found |= run_ids
    return Registered(found, silent, asked)


def _ask(tracker: Tracker, here: Tracker, run_ids: set[str]) -> tuple[set[str], set[str]]:
    """Which of a tracker's runs have a registered model, and of which nobody knows."""
    if not tracker.is_empty():
        return tracker.registered_runs() & run_ids, set()
    # A database whose file is gone has perhaps moved here together with the home folder.
    known = {run_id for run_id in run_ids if here.exists(run_id)}
    return (here.registered_runs() & known if known else set()), run_ids - known
