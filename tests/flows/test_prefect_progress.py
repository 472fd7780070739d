"""Progress of long stages in Prefect, on a real server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tasks.reporter import Advance, Reporter


class Recorder(Reporter):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []
        self.lines: list[str] = []

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Advance]:
        yield self.counts.append

    def say(self, text: str) -> None:
        self.lines.append(text)


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
def test_long_work_has_a_progress_artifact_and_short_work_has_none() -> None:
    from prefect import flow
    from prefect.client.orchestration import get_client

    from flows.prefect_progress import PrefectReporter

    inner, clock, seen = Recorder(), Clock(), []

    def artifacts() -> dict[str, Any]:
        with get_client(sync_client=True) as client:
            found = client.read_artifacts()
        return {one.key: (one.type, one.data, one.description) for one in found if one.key}

    @flow(name="progress")
    def work() -> None:
        reporter = PrefectReporter(inner, "My photos", 10.0, 5.0, clock)
        with reporter.progress("features", 8) as advance:
            for done in range(1, 9):
                clock.now += 3
                advance(done)
                seen.append(artifacts().get("my-photos-features-progress"))
        with reporter.progress("short", 2) as advance:
            advance(2)
        reporter.warn("careful")

    work()
    assert seen[:3] == [None] * 3  # before ten seconds
    assert seen[3] == ("progress", 50.0, "features: 4 of 8")
    assert seen[4] == seen[3]  # updates at least five seconds apart
    assert seen[5] == ("progress", 75.0, "features: 6 of 8")
    found = artifacts()
    assert found["my-photos-features-progress"] == ("progress", 100.0, "features: 8 of 8")
    assert "my-photos-short-progress" not in found
    assert inner.counts == [*range(1, 9), 2]
    assert inner.lines == ["  warning: careful"]
    assert inner.warnings == ["careful"]


def test_a_failure_of_prefect_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.prefect_progress import PrefectReporter

    tried = []

    def fail(*arguments: Any) -> None:
        tried.append(arguments)
        raise ConnectionError("no server")

    monkeypatch.setattr("prefect.artifacts.create_progress_artifact", fail)
    inner = Recorder()
    with PrefectReporter(inner, "photos", 0.0, 0.0).progress("features", 3) as advance:
        for done in (1, 2, 3):
            advance(done)
    assert inner.counts == [1, 2, 3]
    assert len(tried) == 1
