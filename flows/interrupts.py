"""Stop a command on Ctrl-C and SIGTERM within a few seconds, even inside a long call to C code.

Python runs signal handlers in the main thread, between two bytecodes. A fit inside LIBSVM delays that for
minutes. Normally the handler raises an exception in the main thread, which unwinds, and the command prints
how to resume. In addition a daemon thread reads signals from a pipe (`signal.set_wakeup_fd`). If the main
thread does not leave its stage in time, this thread stops the child processes, prints the same lines and ends
the process. The store survives a kill at any instant, so only the stage that was computing is lost.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable

from flows.terminal import tell

STAGE_SECONDS = 3.0
"""Time for the main thread to leave the stage it computes."""
EXIT_SECONDS = 15.0
"""Time for the process to end after a signal: Prefect reports a crash to its server before."""
_CHILD_SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as systemd, cron and containers send it; handled like Ctrl-C."""


class Interrupts:
    """Watches the signals of this process.

    Parameters
    ----------
    last_words : callable
        Text to print before the process ends, given the number of the signal. It is printed once, by
        `say_last_words` or by the watching thread.
    """

    def __init__(self, last_words: Callable[[int], str]) -> None:
        self._last_words = last_words
        self._said = threading.Lock()
        self.received: int | None = None

    def install(self) -> None:
        """Handle Ctrl-C and SIGTERM from now on; only the main thread may call it.

        A signal that this process ignores, as Ctrl-C in a background job of a shell, stays ignored.
        """
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _raise)
        readable, writable = os.pipe()
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(readable,), name="interrupts", daemon=True).start()

    def say_last_words(self, number: int) -> None:
        """Print the last words, unless they were printed already."""
        if self._said.acquire(blocking=False):
            tell(self._last_words(number))

    def leave(self, code: int) -> int:
        """Exit code of an interrupted command; exit at once if jobs still run in threads of this process."""
        from tasks.executor import THREAD_NAME

        if self.received and any(one.name.startswith(THREAD_NAME) for one in threading.enumerate()):
            _stop_children()
            os._exit(code)
        return code

    def _watch(self, readable: int) -> None:
        first = _next_signal(readable, None)
        assert first is not None
        self.received = first
        if not _second_interrupt(readable, STAGE_SECONDS) and not _computing():
            _second_interrupt(readable, EXIT_SECONDS - STAGE_SECONDS)
        _stop_children()
        if self._said.acquire(blocking=False):
            # Not `print`: the main thread may hold the lock of the stream.
            os.write(2, f"{self._last_words(first)}\n".encode())
        os._exit(128 + first)


def _raise(number: int, frame: object) -> None:
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _next_signal(readable: int, seconds: float | None) -> int | None:
    """Number of the next SIGINT or SIGTERM; None after some seconds without one."""
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left = None if end is None else max(0.0, end - time.monotonic())
        if not select.select([readable], [], [], left)[0]:
            return None
        number = os.read(readable, 1)[0]
        if number in _SIGNALS:
            return number


def _second_interrupt(readable: int, seconds: float) -> bool:
    """Whether Ctrl-C is pressed again. A second SIGTERM does not count: Prefect sends itself one."""
    end = time.monotonic() + seconds
    while (number := _next_signal(readable, max(0.0, end - time.monotonic()))) is not None:
        if number == signal.SIGINT:
            return True
    return False


def _computing() -> bool:
    """Whether the main thread is still inside a stage."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "run_stage":
            return True
        frame = frame.f_back
    return False


def _stop_children() -> None:
    """Terminate child processes, and kill those that do not end soon."""
    import psutil

    children = psutil.Process().children(recursive=True)
    for ask in ("terminate", "kill"):
        for child in children:
            try:
                getattr(child, ask)()
            except psutil.NoSuchProcess:
                continue
        _, children = psutil.wait_procs(children, timeout=_CHILD_SECONDS)
