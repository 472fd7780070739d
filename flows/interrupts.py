"""Stop a command on Ctrl-C and SIGTERM within a few seconds, even inside a long call to C code.

Python runs signal handlers in the main thread, between two bytecodes. A fit inside LIBSVM delays that for
minutes. Three mechanisms are tried in turn:

1. The handler raises an exception in the main thread, which unwinds, and the command prints how to resume.
2. If the main thread does not leave its stage in time, a watching thread stops the child processes, prints
   the same lines and ends the process.
3. No thread runs while C code holds Python's lock, as SciPy's dense `eigh` does. A guard process, forked at
   the start of the command, then kills the process (exit code 137) and prints the lines.

Signals reach the guard through `signal.set_wakeup_fd`, which works in all these cases, and from there the
watching thread. The store survives a kill at any instant, so only the stage that was computing is lost.

A deployed flow runs in a process of Prefect, which has threads already and handles SIGTERM itself. There only
the second mechanism is added, see `Interrupts.watching`.
"""

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flows.terminal import tell

if TYPE_CHECKING:
    import psutil

STAGE_SECONDS = 3.0
"""Time for the main thread to leave the stage it computes."""
EXIT_SECONDS = 15.0
"""Time for the process to end after a signal; Prefect first reports a crash to its server."""
LOCK_SECONDS = 5.0
"""Time for the watching thread to answer the guard process."""
_CHILD_SECONDS = 1.0
# In a terminal, a command that takes longer to stop says so.
_SILENT_SECONDS = 1.0
_POLL_SECONDS = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as sent by systemd, cron and containers; handled like Ctrl-C."""


class Interrupts:
    """Handles the signals of this process.

    Parameters
    ----------
    last_words : callable
        Text to print before the process ends, given the number of the signal. It is printed once.

    Attributes
    ----------
    received : int or None
        Number of the first signal; an error after it is a consequence of stopping.
    """

    def __init__(self, last_words: Callable[[int], str]) -> None:
        self._last_words = last_words
        self._said = threading.Lock()
        self._guard = 0
        self.received: int | None = None

    def install(self) -> None:
        """Handle Ctrl-C and SIGTERM from now on; called by the main thread before others start.

        A signal that this process ignores, such as Ctrl-C in a background job of a shell, stays ignored.
        """
        readable, writable = os.pipe()
        os.set_blocking(writable, False)
        here, there = socket.socketpair()
        parent = os.getpid()
        self._guard = os.fork()
        if self._guard == 0:
            os.close(writable)
            here.close()
            _guard(parent, readable, there, self._last_words)
        os.close(readable)
        there.close()
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._raise)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(here,), name="interrupts", daemon=True).start()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """End the process if a signal arrives during the block and the main thread does not react in time.

        The handlers of the process stay: Prefect relies on its own to record a cancellation. No process is
        forked, because other threads are running. If a call holds Python's lock, only SIGKILL from outside
        ends the process. Outside the main thread, or if the signals are watched already, nothing is done.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        here, there = socket.socketpair()
        there.setblocking(False)
        before = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            here.close()
            there.close()
            yield
            return
        watcher = threading.Thread(target=self._watch, args=(here,), name="interrupts", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            # After a signal the process is ending, and must do so in time.
            if self.received is None and not _is_interrupt(sys.exception()):
                signal.set_wakeup_fd(-1)
                there.close()  # the watching thread reads the end of the stream
                watcher.join()
                here.close()

    def say_last_words(self, number: int) -> None:
        """Print the last words, unless they were printed already."""
        if self._said.acquire(blocking=False):
            tell(self._last_words(number))

    def leave(self, code: int) -> int:
        """Exit code of an interrupted command; exit at once if jobs still run in threads of this process."""
        from tasks.executor import THREAD_NAME

        if self.received and any(one.name.startswith(THREAD_NAME) for one in threading.enumerate()):
            _stop_children(os.getpid())
            os._exit(code)
        return code

    def _raise(self, number: int, frame: object) -> None:
        self.received = self.received or number
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def _watch(self, guard: socket.socket) -> None:
        """End the process if the main thread does not."""
        first = _next_signal(guard, None)
        if first is None:  # the guard is gone
            return
        self.received = first
        guard.send(b"1")
        children = _Children(besides=self._guard)
        if not self._wait_for_stage(guard, first) and not _computing():
            _wait_for_exit(guard, children)
        _stop_children(os.getpid())
        if self._said.acquire(blocking=False):
            # Not `print`: the main thread may hold the lock of the stream.
            os.write(2, f"{self._last_words(first)}\n".encode())
        os._exit(128 + first)

    def _wait_for_stage(self, guard: socket.socket, first: int) -> bool:
        """Give the main thread time to leave its stage; whether Ctrl-C is pressed again meanwhile."""
        if _second_interrupt(guard, _SILENT_SECONDS):
            return True
        if first == signal.SIGINT and sys.stderr.isatty() and not self._said.locked():
            os.write(2, b"stopping; press Ctrl-C again to stop at once\n")
        return _second_interrupt(guard, STAGE_SECONDS - _SILENT_SECONDS)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an exception is what a handler of a signal raised, here or in Prefect."""
    return error is not None and not isinstance(error, Exception)


def _next_signal(guard: socket.socket, seconds: float | None) -> int | None:
    """Number of the next SIGINT or SIGTERM; None after some seconds without one, or without a guard."""
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left = None if end is None else max(0.0, end - time.monotonic())
        if not select.select([guard], [], [], left)[0]:
            return None
        data = guard.recv(1)
        if not data:
            return None
        if data[0] in _SIGNALS:
            return data[0]


def _second_interrupt(guard: socket.socket, seconds: float) -> bool:
    """Whether Ctrl-C is pressed again. A second SIGTERM does not count: Prefect sends itself one."""
    end = time.monotonic() + seconds
    while (number := _next_signal(guard, max(0.0, end - time.monotonic()))) is not None:
        if number == signal.SIGINT:
            return True
    return False


class _Children:
    """The child processes at the time of a signal, without the guard process."""

    def __init__(self, besides: int) -> None:
        import psutil

        self._found = [one for one in psutil.Process().children() if one.pid != besides]

    def all_ended(self) -> bool:
        """Whether there were some and none is left."""
        return bool(self._found) and not any(_is_alive(one) for one in self._found)


def _is_alive(process: "psutil.Process") -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _wait_for_exit(guard: socket.socket, children: _Children) -> None:
    """Give Prefect time to report to its server, unless that has ended.

    Ctrl-C in a terminal also stops a server that was started for this run; Prefect would wait for its answer.
    """
    end = time.monotonic() + EXIT_SECONDS - STAGE_SECONDS
    while time.monotonic() < end and not children.all_ended():
        if _second_interrupt(guard, _POLL_SECONDS):
            return


def _computing() -> bool:
    """Whether the main thread is still inside a stage."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "run_stage":
            return True
        frame = frame.f_back
    return False


def _guard(parent: int, signals: int, watcher: socket.socket, last_words: Callable[[int], str]) -> None:
    """Forward signals to the watching thread, and kill the parent if it does not end; never returns."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    first, end = 0, 0.0
    while True:
        left = max(0.0, end - time.monotonic()) if first else None
        ready = select.select([signals, watcher.fileno()], [], [], left)[0]
        if not ready:
            break
        if signals in ready:
            data = os.read(signals, 1)
            if not data:  # the parent has ended
                os._exit(0)
            watcher.send(data)
            if data[0] in _SIGNALS and not first:
                first, end = data[0], time.monotonic() + LOCK_SECONDS
        elif watcher.recv(1):  # threads of the parent run
            end = time.monotonic() + EXIT_SECONDS + LOCK_SECONDS
        else:
            os._exit(0)
    _stop_children(parent)
    os.kill(parent, signal.SIGKILL)
    os.write(2, f"{last_words(first)}\n".encode())
    os._exit(0)


def _stop_children(parent: int) -> None:
    """Terminate the child processes of a process, and kill those that do not end soon."""
    import psutil

    children = [one for one in psutil.Process(parent).children(recursive=True) if one.pid != os.getpid()]
    for ask in ("terminate", "kill"):
        for child in children:
            try:
                getattr(child, ask)()
            except psutil.NoSuchProcess:
                continue
        _, children = psutil.wait_procs(children, timeout=_CHILD_SECONDS)
