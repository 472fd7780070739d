"""Runs that are killed, stopped, started twice: what was computed stays, and the next run completes."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from tests.hostile.case import QUIET, REFUSED, SURVIVED, Case, Place, start
from tests.hostile.samples import write_table
from tests.hostile.templates import QUICK, command

RUN = ("run", "{source}/t.csv", *QUICK, *QUIET, "--home", "{home}")
STAGES = ("ingest", "features", "affinity", "embedding[mlda]", "evaluation[mlda]")


def given_table(place: Place) -> None:
    """A good table."""
    write_table(place.source)


def begin(place: Place) -> "subprocess.Popen[bytes]":
    """Start a run whose messages can be read."""
    return start(place, *RUN, files=(subprocess.PIPE, subprocess.PIPE))


def wait_for(process: "subprocess.Popen[bytes]", stage: str) -> None:
    """Read the messages of a run until a stage is done."""
    assert process.stderr
    for line in process.stderr:
        if line.decode().strip().startswith(stage):
            return


def end(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Exit code and the messages that follow."""
    out, err = process.communicate(timeout=100)
    return process.returncode, (out + err).decode()


def intact(place: Place) -> bool:
    """Whether another run completes and the store is then intact; prints what they say."""
    for arguments in (RUN, ("store", "verify", "--home", "{home}")):
        code, said = command(*(place.fill(part) for part in arguments))
        os.write(1, said[-1500:].encode())
        if code:
            return False
    return True


def signaled(stage: str, number: signal.Signals) -> Case:
    """A run that gets a signal after a stage."""

    def act(place: Place) -> int:
        process = begin(place)
        wait_for(process, stage)
        process.send_signal(number)
        code, said = end(process)
        os.write(1, said[-1500:].encode())
        wanted = {
            signal.SIGKILL: (-9,),
            signal.SIGTERM: (143,),
            signal.SIGINT: (130,),
            signal.SIGHUP: (-1, 129),
        }[number]
        if code not in (*wanted, 0):
            return 1
        if number in (signal.SIGTERM, signal.SIGINT) and code and "resume with:" not in said:
            os.write(1, b"no resume line\n")
            return 1
        return 0 if intact(place) else 1

    return Case(
        f"{number.name} after {stage}", given_table, act=act, expect=SURVIVED, seconds=240, long_output=True
    )


def paused(place: Place) -> int:
    """A run that is stopped for a while and continued."""
    process = begin(place)
    wait_for(process, "ingest")
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    process.send_signal(signal.SIGCONT)
    code, said = end(process)
    os.write(1, said[-1500:].encode())
    return code or (0 if intact(place) else 1)


def together(place: Place) -> int:
    """Two runs at once."""
    runs = [begin(place) for _ in range(2)]
    ended = [end(process) for process in runs]
    for _, said in ended:
        os.write(1, said[-1500:].encode())
    return max(code for code, _ in ended) or (0 if intact(place) else 1)


def collected(place: Place) -> int:
    """Garbage collection while a run is stopped in the middle: it refuses to start."""
    process = begin(place)
    wait_for(process, "ingest")
    process.send_signal(signal.SIGSTOP)
    try:
        code, said = command("store", "gc", "--home", place.fill("{home}"))
    finally:
        process.send_signal(signal.SIGCONT)
    os.write(1, said.encode())
    run_code, _ = end(process)
    return code if run_code == 0 and intact(place) else 1


def killed_often(place: Place) -> int:
    """A run that is killed again and again, at a later instant each time."""
    for delay in (0.3, 0.9, 1.4, 1.8, 2.2):
        process = begin(place)
        time.sleep(delay)
        process.kill()
        end(process)
    return 0 if intact(place) else 1


def cases() -> list[Case]:
    """The cases of this section."""
    return list(_cases())


def _cases() -> Iterator[Case]:
    for stage in STAGES:
        yield signaled(stage, signal.SIGKILL)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        yield signaled("features", number)
    options: dict[str, Any] = {"seconds": 240, "long_output": True}
    yield Case("SIGSTOP and SIGCONT", given_table, act=paused, expect=SURVIVED, **options)
    yield Case("two runs at once", given_table, act=together, expect=SURVIVED, **options)
    yield Case("gc during a run", given_table, act=collected, expect=REFUSED, **options)
    yield Case("killed five times", given_table, act=killed_often, expect=SURVIVED, **options)
