"""What becomes of a run when the engine around it ends in another way than the work itself."""

from dataclasses import dataclass
from typing import Any

import pytest

from storage.errors import SourceError

pytestmark = pytest.mark.slow  # imports Prefect


@dataclass(frozen=True)
class Done:
    value: int
    unrecorded: str | None = None


def engine(work: Any, ends_with: Exception | None) -> Any:
    """An engine that does the work, then fails by itself."""
    from flows.prefect_flows import _ATTEMPT, Attempt

    def flow() -> Any:
        try:
            result = _ATTEMPT.get(Attempt()).run(work)
        except BaseException:
            if ends_with:
                raise ends_with from None
            raise
        if ends_with:
            raise ends_with
        return result

    return flow


def interrupt() -> Done:
    raise KeyboardInterrupt


def refuse() -> Done:
    raise SourceError("no such folder")


def test_an_engine_that_fails_afterwards_loses_no_result() -> None:
    from flows.prefect_flows import run_anyhow

    found = run_anyhow(engine(lambda: Done(1), ConnectionError("refused")), lambda: Done(2))
    assert found.value == 1
    assert "ConnectionError: refused" in found.unrecorded


def test_an_engine_that_fails_before_is_done_without() -> None:
    from flows.prefect_flows import run_anyhow

    def fail() -> Done:
        raise ConnectionError("refused")

    assert run_anyhow(fail, lambda: Done(2)).value == 2


@pytest.mark.parametrize("ends_with", [None, ConnectionError("refused")])
def test_an_interrupt_ends_the_run_whatever_the_engine_makes_of_it(ends_with: Exception | None) -> None:
    from flows.prefect_flows import run_anyhow

    with pytest.raises(KeyboardInterrupt):
        run_anyhow(engine(interrupt, ends_with), lambda: Done(2))


@pytest.mark.parametrize("ends_with", [None, ConnectionError("refused")])
def test_an_error_of_the_work_is_the_one_to_see(ends_with: Exception | None) -> None:
    from flows.prefect_flows import run_anyhow

    with pytest.raises(SourceError, match="no such folder"):
        run_anyhow(engine(refuse, ends_with), lambda: Done(2))
