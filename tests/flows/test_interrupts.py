"""Ctrl-C and SIGTERM end a command that is computing, and the next one resumes."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from flows.interrupts import Interrupts, _Children
from tests.conftest import REPOSITORY, UNTRACKED

pytestmark = pytest.mark.slow

SECONDS = 240
"""Far more than it takes; the fits would take minutes. Only a hang fails."""
WITHOUT_PREFECT = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}


def start(folder: Path, how: str, *arguments: str, **surroundings: str) -> "subprocess.Popen[str]":
    return launch(folder, how, "run", *arguments, *UNTRACKED, "--home", "home", **surroundings)


def launch(folder: Path, *words: str, **surroundings: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stuck_run", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **surroundings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def stop(run: "subprocess.Popen[str]", *numbers: int, code: int | None = None) -> list[str]:
    """Send signals when the run is stuck; gives its last lines."""
    assert run.stderr
    assert any(line == "stuck\n" for line in run.stderr), "it ended before it was stuck"
    family = psutil.Process(run.pid).children(recursive=True)
    try:
        for number in numbers:
            run.send_signal(number)
        err = run.communicate(timeout=SECONDS)[1]
    finally:
        run.kill()
    assert run.returncode == (128 + numbers[0] if code is None else code), err
    assert "Traceback" not in err, err
    _, alive = psutil.wait_procs(family, timeout=SECONDS)
    assert alive == [], "no child process is left"
    return [line for line in err.splitlines() if line != "stuck"]


@pytest.fixture
def noise(tmp_path: Path) -> str:
    """A table on which an SVM takes minutes: many rows whose classes are random."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(30000, 2)), rng.integers(0, 2, 30000)])
    header = "f0,f1,class"
    np.savetxt(tmp_path / "noise.csv", rows, "%.5f,%.5f,c%d", header=header, comments="")
    return "noise.csv"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_long_fit_in_the_main_thread_ends_and_the_run_resumes(
    tmp_path: Path, noise: str, number: int
) -> None:
    given = (noise, "--methods", "mlda", "--set", "evaluation.baselines=['svm']")
    given += ("--set", "embedding.params.svm.C=1000.0", "--set", "evaluation.exact_items=1000000")
    last = stop(start(tmp_path, "fit", *given, **WITHOUT_PREFECT), number)
    what = "terminated" if number == signal.SIGTERM else "interrupted"
    assert last[-2] == f"{what}; finished stages are kept."
    assert last[-1].startswith("resume with: labelscape run noise.csv")
    again = shlex.split(last[-1].removeprefix("resume with: labelscape "))
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", *again, "--until", "correlation", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **WITHOUT_PREFECT},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {one["state"] for one in json.loads(done.stdout)["stages"]} == {"fresh"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("executor", ["threads:2", "processes:2"])
def test_jobs_in_threads_and_processes_end(tmp_path: Path, executor: str, number: int) -> None:
    run = start(tmp_path, "jobs", "iris", "--set", f"executor={executor}", **WITHOUT_PREFECT)
    last = stop(run, number)
    assert last[-1].startswith("resume with: labelscape run iris")
    assert sum(line.startswith("resume with:") for line in last) == 1


def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    run = start(tmp_path, "jobs", "iris", "--set", "executor=serial", **WITHOUT_PREFECT)
    assert stop(run, signal.SIGINT, signal.SIGINT)[-1].startswith("resume with: labelscape run iris")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_error_after_the_signal_is_no_other_end(tmp_path: Path, number: int) -> None:
    run = start(tmp_path, "pool", "iris", "--set", "executor=serial", **WITHOUT_PREFECT)
    last = stop(run, number)
    assert last[-1].startswith("resume with: labelscape run iris")
    assert not any("worker process" in line for line in last)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_call_that_holds_the_lock_of_python_is_killed(tmp_path: Path, number: int) -> None:
    run = start(tmp_path, "lock", "iris", "--set", "executor=serial", **WITHOUT_PREFECT)
    last = stop(run, number, code=-signal.SIGKILL)
    assert last[-1].startswith("resume with: labelscape run iris")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_under_prefect_too(tmp_path: Path, engine: str, number: int) -> None:
    last = stop(start(tmp_path, "jobs", "iris", "--set", "executor=threads:2"), number)
    assert last[-1].startswith("resume with: labelscape run iris")
    assert sum(line.startswith("resume with:") for line in last) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_deployed_flow_ends_too(tmp_path: Path, engine: str, number: int) -> None:
    last = stop(launch(tmp_path, "call", "train", "iris", "home"), number)
    name = signal.Signals(number).name
    assert last[-1] == f"stopped by {name}; finished stages are kept, and the next run resumes."


class TestWatching:
    def test_it_keeps_the_handlers_and_leaves_nothing(self) -> None:
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        with Interrupts(str).watching():
            assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
            assert "interrupts" in {one.name for one in threading.enumerate()}
        with pytest.raises(ValueError, match="of the flow"), Interrupts(str).watching():
            raise ValueError("of the flow")
        assert "interrupts" not in {one.name for one in threading.enumerate()}
        assert signal.set_wakeup_fd(-1) == -1

    def test_signals_that_are_watched_already_stay_so(self) -> None:
        here, there = socket.socketpair()
        here.setblocking(False)
        signal.set_wakeup_fd(here.fileno())
        try:
            with Interrupts(str).watching():
                assert "interrupts" not in {one.name for one in threading.enumerate()}
        finally:
            assert signal.set_wakeup_fd(-1) == here.fileno()
            here.close()
            there.close()

    def test_outside_the_main_thread_nothing_is_watched(self) -> None:
        def watch() -> bool:
            with Interrupts(str).watching():
                return "interrupts" in {one.name for one in threading.enumerate()}

        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(watch).result() is False


def test_the_last_words_are_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    interrupts = Interrupts(lambda number: f"stopped by {number}")
    interrupts.say_last_words(2)
    interrupts.say_last_words(2)
    assert capsys.readouterr().err == "stopped by 2\n"


def test_nothing_waits_for_a_server_that_ctrl_c_has_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server:
        found = [psutil.Process(server.pid)]
        monkeypatch.setattr(psutil.Process, "children", lambda *_: found)
        children, without_it = _Children(besides=0), _Children(besides=server.pid)
        assert not children.all_ended()
    assert children.all_ended()
    assert not without_it.all_ended(), "there was nothing to end"
