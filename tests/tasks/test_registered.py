"""Runs with a registered model are found wherever they were tracked; if unknown, a run counts as one."""

from storage.artifacts.run_log import LoggedRun
from storage.errors import TrackingError
from tasks.maintenance.registered import find_registered


class Answering:
    """A tracker that knows of one registered run."""

    def __init__(self, uri: str, known: frozenset[str] = frozenset()) -> None:
        self.uri = uri
        self.known = known

    def is_empty(self) -> bool:
        return "gone" in self.uri

    def exists(self, run_id: str) -> bool:
        return run_id in self.known

    def lost_runs(self, run_ids: set[str]) -> set[str]:
        return run_ids if "set aside" in self.uri else set()

    def registered_runs(self) -> set[str]:
        if "silent" in self.uri:
            raise TrackingError("no server answers")
        return {f"{self.uri} champion"} | {one for one in self.known if "champion" in one}


def runs_at(*uris: str) -> list[LoggedRun]:
    return [
        LoggedRun("a", "a", "/a", {"run": [uri, which]}, {}, tracked={"uri": uri, "run_id": f"{uri} {which}"})
        for uri in uris
        for which in ("champion", "other")
    ]


def test_every_tracker_is_asked_and_all_runs_of_an_unreachable_one_are_kept():
    runs = [*runs_at("here", "there", "silent", "gone"), LoggedRun("a", "a", "/a", {}, {})]
    found = find_registered(runs, Answering("here"), Answering)
    assert found.run_ids == {"here champion", "there champion"} | {
        f"{uri} {which}" for uri in ("silent", "gone") for which in ("champion", "other")
    }
    assert set(found.unreachable) == {"silent", "gone"}
    assert found.unreachable["silent"] == "no server answers"
    assert (
        found.unreachable["gone"]
        == "its file is missing or was set aside as damaged, and here does not know 2 of its runs"
    )
    kept = [run for run in runs if found.keeps(run)]
    assert len(kept) == 6


def test_runs_of_a_database_that_has_moved_here_are_found():
    runs = runs_at("gone")
    moved = Answering("here", frozenset({"gone champion", "gone other"}))
    found = find_registered(runs, moved, Answering)
    assert (found.run_ids, found.unreachable) == ({"gone champion"}, {})
    partly = find_registered(runs, Answering("here", frozenset({"gone other"})), Answering)
    assert partly.run_ids == {"gone champion"}, "nobody knows"
    assert partly.unreachable == {
        "gone": "its file is missing or was set aside as damaged, and here does not know 1 of its runs"
    }


def test_runs_of_a_damaged_database_that_was_set_aside_are_kept():
    found = find_registered(runs_at("set aside"), Answering("here"), Answering)
    assert found.run_ids == {"set aside champion", "set aside other"}
    assert list(found.unreachable) == ["set aside"]


def test_all_runs_are_kept_if_the_present_tracker_is_unreachable_too():
    known = frozenset({"gone champion", "gone other"})
    found = find_registered(runs_at("gone"), Answering("silent", known), Answering)
    assert found.run_ids == known
    assert found.unreachable == {"gone": "no server answers"}


def test_a_forgotten_tracker_keeps_no_runs():
    found = find_registered(
        runs_at("gone", "silent", "there"), Answering("here"), Answering, ["gone", "silent"]
    )
    assert (found.run_ids, found.unreachable) == ({"there champion"}, {})
