"""Find the runs with a registered model by asking every tracker; if unknown, a run counts as having one."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from storage.artifacts.run_log import LoggedRun
from storage.errors import TrackingError
from storage.tracking.client import Tracker


@dataclass(frozen=True)
class Registered:
    """The answers of the trackers.

    Attributes
    ----------
    run_ids : set of str
        Tracker ids of runs that have, or may have, a registered model.
    unreachable : mapping of str to str
        Addresses of trackers that could not answer for all their runs, and why. Those runs are included.
    asked : mapping of str to LoggedRun
        The runs by id, as they were when the trackers were asked.
    """

    run_ids: set[str]
    unreachable: Mapping[str, str]
    asked: Mapping[str, LoggedRun]

    def keeps(self, run: LoggedRun) -> bool:
        """Return whether a run has or may have a registered model, or was recorded after asking."""
        tracked = run.tracked is not None and run.tracked["run_id"] in self.run_ids
        return tracked or self.asked.get(run.id) != run


def find_registered(
    runs: Iterable[LoggedRun],
    here: Tracker,
    open_tracker: Callable[[str], Tracker],
    given_up: Collection[str] = (),
) -> Registered:
    """Ask every tracker of these runs for its registered models; all runs of an unreachable tracker count.

    Parameters
    ----------
    runs : iterable of LoggedRun
    here : Tracker
        The configured tracker. It is also asked about runs whose database file is missing, because the file
        may have moved here.
    open_tracker : callable
        Returns the tracker of an address; addresses are stored without passwords.
    given_up : collection of str
        Addresses of trackers that no longer exist.
    """
    asked = {run.id: run for run in runs}
    by_uri: dict[str, set[str]] = {}
    for run in asked.values():
        if run.tracked and run.tracked["uri"] not in given_up:
            by_uri.setdefault(run.tracked["uri"], set()).add(run.tracked["run_id"])
    found: set[str] = set()
    unreachable: dict[str, str] = {}
    for uri, run_ids in by_uri.items():
        try:
            registered, unknown = _ask(open_tracker(uri), here, run_ids)
            found |= registered | unknown
            if unknown:
                unreachable[uri] = (
                    "its file is missing or was set aside as damaged, and "
                    f"{here.uri} does not know {len(unknown)} of its runs"
                )
        except TrackingError as error:
            unreachable[uri] = str(error)
            found |= run_ids
    return Registered(found, unreachable, asked)


def _ask(tracker: Tracker, here: Tracker, run_ids: set[str]) -> tuple[set[str], set[str]]:
    """Return the runs of a tracker that have a registered model, and the runs that no tracker knows."""
    if not tracker.is_empty():
        return tracker.registered_runs() & run_ids, tracker.lost_runs(run_ids)
    # If the database file is missing, it may have moved here with the home folder.
    known = {run_id for run_id in run_ids if here.exists(run_id)}
    return (here.registered_runs() & known if known else set()), run_ids - known
