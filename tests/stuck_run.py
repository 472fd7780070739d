"""`python -m tests.stuck_run HOW ARGUMENTS...`: a command that computes in C code until it is stopped.

With the arguments `train SOURCE HOME` it runs the deployed flow, as a process of Prefect does.

It writes the line "stuck" when it is there. HOW is "fit": a real SVM fit in the main thread; "jobs": every
fold sleeps in the C library, in whichever thread or process the executor runs it; "call": a fold waits in the
C library, which no signal interrupts; "lock": it also holds Python's lock; or "pool": a fold that is stopped
fails as a pool does whose workers were stopped first.
"""

import ctypes
import os
import sys
import threading
import time

import psutil

from tasks.executor import WorkerKilled
from tasks.folds import FoldJob


def sleep_in_c(job: FoldJob) -> list[object]:
    """Stand-in for a fold that never ends; ctypes releases Python's lock."""
    os.write(2, b"stuck\n")
    while True:
        ctypes.CDLL(None).sleep(1000)


def wait_in_c(job: FoldJob) -> list[object]:
    """Stand-in for a call that no signal interrupts; other threads run."""
    return _lock_twice(ctypes.CDLL(None))


def wait_with_the_lock(job: FoldJob) -> list[object]:
    """Stand-in for a call that keeps all Python threads from running."""
    return _lock_twice(ctypes.PyDLL(None))


def lose_the_pool(job: FoldJob) -> list[object]:
    """Stand-in for a pool whose workers are gone before the main thread reacts to the signal."""
    try:
        sleep_in_c(job)
    finally:
        raise WorkerKilled("a worker process was killed")


def _lock_twice(library: ctypes.CDLL) -> list[object]:
    mutex = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    run = psutil.Process()
    if os.fork() == 0:
        say_when_asleep(run)
    library.pthread_mutex_lock(mutex)
    raise AssertionError("the mutex is never unlocked")


def say_when_asleep(run: psutil.Process) -> None:
    """Write the line once the main thread of a process sleeps twice in a row; ends this process."""
    before = False
    while True:
        asleep = run.status() == psutil.STATUS_SLEEPING
        if asleep and before:
            os.write(2, b"stuck\n")
            os._exit(0)
        before = asleep
        time.sleep(0.3)


def say_when_inside(function: str) -> None:
    """Write the line once the main thread is at the same instruction of a function twice in a row."""
    before = None
    while True:
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        here = (id(frame), frame.f_lasti) if frame.f_code.co_name == function else None
        if here is not None and here == before:
            os.write(2, b"stuck\n")
            return
        before = here
        time.sleep(0.3)


if __name__ == "__main__":
    how, *arguments = sys.argv[1:]
    if how == "fit":
        threading.Thread(target=say_when_inside, args=("_dense_fit",), daemon=True).start()
    else:
        import tasks.stages.evaluation

        ways = {"jobs": sleep_in_c, "call": wait_in_c, "lock": wait_with_the_lock, "pool": lose_the_pool}
        stuck = ways[how]
        tasks.stages.evaluation.evaluate_fold = stuck  # type: ignore[assignment]
    if arguments[0] == "train":
        from flows.config import load_config
        from flows.prefect_engine import train

        chosen = ["tracking.enabled=false", "executor=serial"]
        train(load_config(None, chosen, home=arguments[2], source={"path": arguments[1]}))
        sys.exit("the flow ended")
    from flows.cli import start

    sys.argv[1:] = arguments
    sys.exit(start())
