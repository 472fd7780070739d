"""The run log: ids depend on results, runs are found by abbreviated ids, records are never partial."""

from dataclasses import replace

import pytest

from storage.artifacts import disk
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.remote import Remote
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import StoreError


def reference(stage, letter):
    return ArtifactRef(stage, letter * 64, letter * 64, "scores", 3)


def logged(**changes):
    run = LoggedRun(
        name="photos",
        experiment="photos",
        source="/data/photos",
        config={"evaluation": {"folds": 5}},
        stages={"ingest": reference("ingest", "a"), "evaluation[mlda]": reference("evaluation", "b")},
    )
    return replace(run, **changes)


@pytest.fixture(params=["local", "shared"])
def log(request, tmp_path):
    if request.param == "local":
        return RunLog(ArtifactStore.local(tmp_path / "store"))
    return RunLog(ArtifactStore.shared(tmp_path / "copies", Remote(f"file://{tmp_path}/store")))


def test_a_run_survives_a_round_trip(log):
    kept = log.add(logged(seconds=1.5, problem="no answer"))
    assert log.entries() == [kept]
    assert (kept.seconds, kept.problem, kept.stages) == (1.5, "no answer", logged().stages)


def test_the_id_depends_only_on_configuration_and_results():
    run = logged()
    tracking = {"tracking": reference("tracking", "c")}
    assert logged(name="other", seconds=9.0, stages={**run.stages, **tracking}).id == run.id
    for label in ("tracking[auto]", "tracking[dle-table3]"):
        assert logged(stages={**run.stages, label: reference("tracking", "c")}).id == run.id
    assert logged(config={"evaluation": {"folds": 3}}).id != run.id
    assert logged(stages={"ingest": reference("ingest", "d")}).id != run.id


def test_a_repeated_run_keeps_its_first_date_its_pin_and_its_tracker(log, monkeypatch):
    first = log.add(logged(tracked={"uri": "sqlite://", "run_id": "f" * 32}))
    log.pin(first)
    again = log.add(replace(logged(), problem="no answer"))
    assert (again.created, again.pinned, again.tracked) == (first.created, True, first.tracked)
    assert log.entries() == [again]
    log.pin(again, pinned=False)
    assert not log.find(again.id).pinned


def test_the_newest_run_comes_first_and_a_removed_one_is_gone(log, monkeypatch):
    runs = [logged(config={"seed": seed}) for seed in range(3)]
    for second, run in enumerate(runs):
        monkeypatch.setattr("storage.artifacts.run_log.datetime", FixedClock(second))
        log.add(run)
    assert [run.id for run in log.entries()] == [run.id for run in reversed(runs)]
    log.remove(runs[1])
    assert [run.id for run in log.entries()] == [runs[2].id, runs[0].id]


class FixedClock:
    """Stands in for `datetime`."""

    def __init__(self, second):
        self.second = second

    def now(self, zone):
        import datetime

        return datetime.datetime(2026, 1, 1, 0, 0, self.second, tzinfo=zone)


def test_a_run_is_found_by_the_prefix_of_either_id(log):
    run = log.add(logged(tracked={"uri": "sqlite://", "run_id": "feed" * 8}))
    assert log.find(run.id[:4]) == log.find("feedfe") == run


def test_a_prefix_of_no_run_or_of_several_is_refused(log):
    with pytest.raises(StoreError, match=r"no run 'abcd'.*Newest runs: none yet"):
        log.find("abcd")
    first = log.add(logged(tracked={"uri": "u", "run_id": "feed1"}))
    second = log.add(logged(config={}, tracked={"uri": "u", "run_id": "feed2"}))
    with pytest.raises(StoreError, match=f"{first.id[:3]!r}.*first 4 characters"):
        log.find(first.id[:3])
    with pytest.raises(StoreError, match="'feed' matches the runs") as refused:
        log.find("feed")
    assert first.id in str(refused.value)
    assert second.id in str(refused.value)


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_damaged_record_is_not_listed(log, tmp_path, cut):
    run = log.add(logged())
    file = tmp_path / "store" / "runs" / f"{run.id}.json"
    file.write_bytes(file.read_bytes()[:cut])
    assert log.entries() == []
    assert log.add(logged()).id == run.id
    assert len(log.entries()) == 1


def test_unknown_fields_of_a_record_are_ignored(log, tmp_path):
    run = log.add(logged())
    file = tmp_path / "store" / "runs" / f"{run.id}.json"
    file.write_bytes(disk.seal({**run.to_json(), "from_the_future": [1]}))
    assert log.entries() == [run]
    assert list(log.verify()) == []
    assert log.unreadable() == []
