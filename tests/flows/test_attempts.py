"""A run in a flow: which result or error counts if Prefect itself fails."""

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flows.config import RunConfig
from flows.pipeline import TrainingPlan
from flows.runner import Run, RunResult
from storage.errors import SourceError

pytestmark = pytest.mark.slow  # imports Prefect

Work = Callable[[], RunResult[Any]]


def result(run_id: str) -> RunResult[Any]:
    return RunResult(None, [], None, None, None, None, run_id)  # type: ignore[arg-type]


class ScriptedRun(Run[Any]):
    """A run whose executions are given."""

    def __init__(self, *executions: Work) -> None:
        super().__init__(TrainingPlan(RunConfig()))
        self._executions: Iterator[Work] = iter(executions)

    def run_stages(self, *arguments: Any) -> RunResult[Any]:
        return next(self._executions)()


@pytest.fixture
def prefect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace the flow by one that does the work, unless it fails before, and may fail after it."""
    from flows import prefect_engine

    def install(before: Exception | None = None, after: Exception | None = None) -> None:
        def make_flow(name: str, parameters: object, work: Work, flow_run_name: object) -> Work:
            def body(**given: object) -> RunResult[Any]:
                if before:
                    raise before
                try:
                    return work()
                finally:
                    if after:
                        raise after

            return body

        monkeypatch.setattr(prefect_engine, "_make_flow", make_flow)

    return install


def interrupt() -> RunResult[Any]:
    raise KeyboardInterrupt


def refuse() -> RunResult[Any]:
    raise SourceError("no such folder")


def test_a_failure_of_prefect_after_the_work_loses_no_result(prefect: Callable[..., None]) -> None:
    from flows.prefect_engine import run_in_flow

    prefect(after=ConnectionError("refused"))
    run = ScriptedRun(lambda: result("first"), lambda: result("second"))
    found = run_in_flow(run)
    assert found.run_id == "first"
    assert "ConnectionError: refused" in str(found.unrecorded)
    assert run.session.prefect_failed


def test_a_failure_of_prefect_before_the_work_leads_to_a_run_without_it(prefect: Callable[..., None]) -> None:
    from flows.prefect_engine import run_in_flow

    prefect(before=ConnectionError("refused"))
    found = run_in_flow(ScriptedRun(lambda: result("only")))
    assert found.run_id == "only"
    assert "ConnectionError: refused" in str(found.unrecorded)


@pytest.mark.parametrize("after", [None, ConnectionError("refused")])
@pytest.mark.parametrize(("work", "error"), [(interrupt, KeyboardInterrupt), (refuse, SourceError)])
def test_an_error_of_the_work_takes_precedence_over_errors_of_prefect(
    prefect: Callable[..., None], work: Work, error: type[BaseException], after: Exception | None
) -> None:
    from flows.prefect_engine import run_in_flow

    prefect(after=after)
    with pytest.raises(error):
        run_in_flow(ScriptedRun(work))


def test_a_flow_shows_the_parameters_and_passes_the_result_through() -> None:
    from flows.prefect_engine import _make_flow

    made = _make_flow("a-name", {"config": {}, "quick": True}, lambda: "result")
    assert made.name == "a-name"
    assert set(made.parameters.properties) == {"config", "quick"}
    assert made.fn(config={}, quick=True) == "result"


def test_prefect_sees_no_secret_of_an_error() -> None:
    from flows.prefect_engine import Attempt, WithoutSecrets

    class OddError(Exception):
        """An error of a library."""

    def fail() -> None:
        raise OddError("no answer from http://me:hush@host/x") from ValueError("http://me:hush@host")

    attempt: Attempt[None] = Attempt()
    with pytest.raises(WithoutSecrets, match="OddError: no answer from http://host/x") as shown:
        attempt.run(fail)
    assert isinstance(attempt.error, OddError), "the command line explains the error itself"
    assert "hush" not in "".join(traceback.format_exception(shown.value))
    with pytest.raises(KeyboardInterrupt):
        Attempt[Any]().run(interrupt)
