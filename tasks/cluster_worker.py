"""What runs inside a worker of a cluster: it checks that it equals the client, then runs jobs.

A worker with other code or other versions of numeric packages could give other numbers, so it runs no job.
"""

import hashlib
import os
import pickle
import platform
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from embedding_core.errors import InvalidInput
from storage.artifacts.fingerprint import digest_sources
from tasks.executor import ONE_THREAD
from tasks.store_handle import keep_copies_in

CODE = "labelscape's code"
"""Name of the code among the facts of an installation."""
# Packages whose version may change a number, and the decoders of images.
_NUMERIC = (
    "numpy",
    "scipy",
    "scikit-learn",
    "pyarrow",
    "numba",
    "pillow",
    "simplejpeg",
    "threadpoolctl",
    "onnxruntime",
)
_PACKAGES = ("embedding_core", "storage", "tasks")
_COPIES = "labelscape-store"
_collected = threading.local()


class WorkerRefused(InvalidInput):
    """A worker that differs from the client has received a job."""


@cache
def describe_installation() -> dict[str, str]:
    """Return what must be equal on the client and on every worker."""
    facts = {"Python": platform.python_version(), "the processor": platform.machine()}
    facts |= {name: _version(name) for name in _NUMERIC}
    code = "\n".join(f"{file} {digest}" for file, digest in describe_code().items())
    return {**facts, CODE: hashlib.sha256(code.encode()).hexdigest()}


@cache
def describe_code() -> dict[str, str]:
    """Return a digest of each source file that a job may use."""
    return digest_sources(_PACKAGES)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def find_mismatch(expected: Mapping[str, str], code: Mapping[str, str] | None = None) -> str | None:
    """Say how this installation differs from the expected one; None if it does not.

    Parameters
    ----------
    expected : mapping
        The installation of the client, see `describe_installation`.
    code : mapping, optional
        Its source files, see `describe_code`; those that differ are then named.
    """
    found = describe_installation()
    differing = [name for name, value in expected.items() if found.get(name) != value]
    words = [
        f"{CODE} differs{_name_files(code)}"
        if name == CODE
        else f"{name} is {found.get(name)} instead of {expected[name]}"
        for name in differing
    ]
    return ", ".join(words) or None


def _name_files(expected: Mapping[str, str] | None) -> str:
    if expected is None:
        return ""
    found = describe_code()
    files = sorted(file for file in {*expected, *found} if expected.get(file) != found.get(file))
    more = f" and {len(files) - 3} more files" if len(files) > 3 else ""
    return f" ({', '.join(files[:3])}{more})"


def run_jobs(expected: Mapping[str, str], payload: bytes) -> tuple[list[Any], list[str], float]:
    """Run a function over jobs.

    Parameters
    ----------
    expected : mapping
        The installation of the client, see `describe_installation`.
    payload : bytes
        A function and its jobs. They are unpickled after the check, because other code may not have them.

    Returns
    -------
    results : list
    texts : list of str
        Warnings of the jobs, each once.
    seconds : float
        How long the jobs took.
    """
    if reason := find_mismatch(expected):
        raise WorkerRefused(reason)
    _prepare_process()
    begun = time.perf_counter()
    function, jobs = pickle.loads(payload)  # noqa: S301  what a scheduler sends is code in any case
    _limit_threads()
    _collected.texts = []
    try:
        return (
            [function(job) for job in jobs],
            list(dict.fromkeys(_collected.texts)),
            time.perf_counter() - begun,
        )
    finally:
        del _collected.texts


@cache
def _prepare_process() -> None:
    """Prepare a worker once: one thread per job, its own copies of a shared store, warnings are collected."""
    from distributed import get_worker

    for name in ONE_THREAD:
        if name != "NUMBA_NUM_THREADS" or "numba" not in sys.modules:  # numba refuses a later change
            os.environ[name] = "1"
    keep_copies_in(Path(get_worker().local_directory) / _COPIES)
    show = warnings.showwarning

    def collect(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        texts = getattr(_collected, "texts", None)
        if texts is None or not issubclass(category, UserWarning):
            show(message, category, *place, **more)
        else:
            texts.append(str(message))

    # Not `catch_warnings`, which is not safe in several threads.
    warnings.showwarning = collect
    warnings.filterwarnings("always", category=UserWarning)


def _limit_threads() -> None:
    """Limit linear algebra of this process to one thread; other jobs may run in it, so it stays limited."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
