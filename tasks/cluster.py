"""The executor for a Dask cluster: jobs run in its workers, which read and write the shared store.

A stage stays one task of Prefect. Inside it, jobs are sent to the cluster in small groups whose size follows
the time that the jobs take. Jobs do not depend on each other, so the groups do not change a result. Dask runs
a job again if its worker dies; the result is the same, because jobs only read what is in the store.
"""

import gc
import logging
import pickle
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from storage.cluster_record import find_certificates
from storage.errors import ConfigError
from tasks.budget import Budget
from tasks.cluster_worker import WorkerRefused, describe_code, describe_installation, find_mismatch, run_jobs
from tasks.executor import Executor, Job, Prefer, Result, WorkerKilled

CONNECT_SECONDS = 10.0
"""Time for a scheduler to answer."""
WORKER_SECONDS = 60.0
"""Time without any usable worker after which a run gives up; a cluster may be starting one."""
# The state of the cluster is looked at once in so many seconds.
_LOOK_SECONDS = 2.0
# Jobs are grouped so that a group takes about this long: a task costs the scheduler about a millisecond.
_GROUP_SECONDS = 0.5
_MAX_GROUP = 256
# Groups sent per thread of the cluster before the first result is taken.
_AHEAD = 3
_CLOSE_SECONDS = 2.0
# What a worker raises that cannot unpickle a job.
_FOREIGN = (WorkerRefused, ImportError, AttributeError)


class ClusterLost(WorkerKilled):
    """The cluster cannot be used now; the same command can succeed later."""


@dataclass(eq=False)
class _Group:
    """Jobs that were sent together; `allowed` are the only workers that may run them, None for all."""

    jobs: list[Any]
    future: Any
    allowed: frozenset[str] | None


class ClusterExecutor(Executor):
    """Runs jobs on the workers of a Dask cluster.

    Parameters
    ----------
    setting : str
        `dask://host:port` for a scheduler without encryption, `tls://host:port` for one with.
    home : Path, optional
        Its own local cluster (`labelscape up --workers`) is reached with the certificate in it. For other
        clusters with TLS, the certificates are those of Dask's configuration.
    """

    shares_store: ClassVar[bool] = True

    def __init__(self, setting: str, home: Path | None = None) -> None:
        if find_spec("distributed") is None:
            raise ConfigError(
                f'executor={setting} needs the package distributed; pip install "labelscape[dask]", or '
                "choose executor=auto."
            )
        self.setting = setting
        self.refused: dict[str, str] = {}
        self._home = home
        self._client: Any = None
        self._accepted: dict[str, int] = {}
        self._looked = self._usable = 0.0

    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        budget: Budget | None = None,
        prefer: Prefer = "threads",
    ) -> Iterator[Result]:
        """Yield the results in order; warnings of the workers are raised again here."""
        call = _Call(self, function, jobs)
        try:
            while call.send():
                for results, texts in call.receive(budget):
                    for text in texts:
                        warnings.warn(text, UserWarning, stacklevel=2)
                    yield from results
        finally:
            self._cancel([group.future for group in call.sent])

    def close(self) -> None:
        """Leave the cluster; its workers stay."""
        if self._client is not None:
            with suppress(Exception):  # the scheduler may be gone
                self._client.close(timeout=_CLOSE_SECONDS)
            self._client = None
            self._accepted = {}

    @property
    def threads(self) -> int:
        """Number of threads of the usable workers, at least 1."""
        return max(1, sum(self._accepted.values()))

    def submit(self, function: Callable[[Any], Any], jobs: list[Any]) -> _Group:
        """Send jobs as one task; workers that were refused do not get them."""
        client = self._connected()
        self.look(_LOOK_SECONDS)
        allowed = frozenset(self._accepted) if self.refused else None
        name = getattr(function, "func", function).__name__.lstrip("_")
        future = client.submit(
            run_jobs,
            describe_installation(),
            pickle.dumps((function, jobs)),
            key=f"{name}-{uuid.uuid4().hex}",
            workers=sorted(allowed) if allowed else None,
            pure=False,
        )
        return _Group(jobs, future, allowed)

    def excludes_more_than(self, group: _Group) -> bool:
        """Whether a worker that could have run a group has been refused since."""
        if group.allowed is None:
            return bool(self.refused)
        return bool(group.allowed & self.refused.keys())

    def is_stranded(self, group: _Group) -> bool:
        """Whether every worker that may run a group has gone."""
        return group.allowed is not None and not group.allowed & self._accepted.keys()

    def look(self, seconds: float = 0.0) -> None:
        """Learn which workers the cluster has and check new ones, unless that was done some seconds ago.

        Raises
        ------
        ClusterLost
            The scheduler is gone, or the cluster has no usable worker for `WORKER_SECONDS`.
        """
        if self._client.status != "running":
            raise self.lost()
        if time.monotonic() - self._looked < seconds:
            return
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"]
            self._check_new(set(found) - self._accepted.keys() - self.refused.keys())
        except (OSError, TimeoutError, CancelledError) as error:
            raise self.lost() from error
        self._accepted = {
            one: int(facts["nthreads"]) for one, facts in found.items() if one not in self.refused
        }
        self._looked = time.monotonic()
        self._usable = self._looked if self._accepted else self._usable
        if self._looked - self._usable > WORKER_SECONDS or (found and not self._accepted):
            raise self._unusable()

    def lost(self) -> ClusterLost:
        """The error of a scheduler that no longer answers."""
        return ClusterLost(
            f"the scheduler {self.setting} no longer answers. What is stored is kept; start the cluster "
            "again, or choose another one with --set executor=, and run again"
        )

    def _unusable(self) -> ClusterLost:
        if not self.refused:
            return ClusterLost(
                f"the cluster {self.setting} has no worker for {WORKER_SECONDS:.0f} s; start one with `dask "
                "worker`, and run again"
            )
        reasons = "; ".join(f"{worker}: {reason}" for worker, reason in sorted(self.refused.items())[:3])
        return ClusterLost(
            f"every worker of the cluster {self.setting} ({len(self.refused)}) differs from this process: "
            f"{reasons}. Install the same labelscape and the same packages for the workers, and restart them"
        )

    def _check_new(self, workers: set[str]) -> None:
        """Refuse new workers whose code or packages differ from those of this process."""
        if not workers:
            return
        found = self._client.run(
            find_mismatch,
            describe_installation(),
            describe_code(),
            workers=sorted(workers),
            on_error="return",
        )
        for worker, reason in sorted(found.items()):
            if isinstance(reason, OSError):  # it has just ended
                continue
            if isinstance(reason, Exception):
                reason = f"it cannot import labelscape ({reason})"
            if reason is not None:
                self.refused[worker] = str(reason)
                warnings.warn(f"the worker {worker} gets no jobs: {reason}", UserWarning, stacklevel=2)

    def _connected(self) -> Any:
        if self._client is not None:
            return self._client
        address = self.setting.replace("dask://", "tcp://")
        certificate = find_certificates(self._home, address)
        try:
            self._client = connect(address, certificate, CONNECT_SECONDS)
        except OSError as error:
            raise ClusterLost(
                f"no Dask scheduler answers at {self.setting} ({error}). Start one with `dask scheduler`, or "
                "with `labelscape up --workers 2` on this machine, and run again"
            ) from None
        self._usable, self._looked, self.refused = time.monotonic(), 0.0, {}
        return self._client

    def _cancel(self, futures: list[Any]) -> None:
        if futures and self._client is not None and self._client.status == "running":
            with suppress(Exception):  # the error that led here is the one to show
                self._client.cancel(futures)


class _Call:
    """One call of `ClusterExecutor.map`: the groups that were sent, in the order of the jobs."""

    def __init__(self, cluster: ClusterExecutor, function: Callable[[Any], Any], jobs: Iterable[Any]) -> None:
        self.sent: deque[_Group] = deque()
        self._cluster = cluster
        self._submit = partial(cluster.submit, function)
        self._jobs = iter(jobs)
        self._size = 1

    def send(self) -> bool:
        """Send groups until enough are under way; whether any is."""
        while len(self.sent) <= _AHEAD * self._cluster.threads:
            jobs = list(islice(self._jobs, self._size))
            if not jobs:
                break
            self.sent.append(self._submit(jobs))
        return bool(self.sent)

    def receive(self, budget: Budget | None) -> Iterator[tuple[list[Any], list[str]]]:
        """Yield results and warnings of the first group; nothing if it must be sent again."""
        from distributed import KilledWorker

        group = self.sent[0]
        try:
            results, texts, seconds = self._await(group, budget)
        except KilledWorker as error:
            self._send_smaller(group, error)
        except _FOREIGN:
            self._cluster.look()
            if not self._cluster.excludes_more_than(group):
                raise
            self.sent[0] = self._submit(group.jobs)
        except CancelledError:
            raise self._cluster.lost() from None
        except OSError as error:
            if group.future.status == "error":  # that of a job
                raise
            raise self._cluster.lost() from error
        else:
            self.sent.popleft()
            wanted = int(_GROUP_SECONDS * len(group.jobs) / max(seconds, 1e-6))
            self._size = max(1, min(wanted, 2 * self._size, _MAX_GROUP))
            yield results, texts

    def _await(self, group: _Group, budget: Budget | None) -> tuple[list[Any], list[str], float]:
        while True:
            left = _LOOK_SECONDS if budget is None else min(budget.left, _LOOK_SECONDS)
            try:
                found: tuple[list[Any], list[str], float] = group.future.result(timeout=left)
                return found
            except TimeoutError:
                if group.future.done():  # the job itself raised it, or it ended in this instant
                    return group.future.result()  # type: ignore[no-any-return]
            if budget is not None and not budget.left:
                raise budget.over()
            self._cluster.look()
            if self._cluster.is_stranded(group):
                again = self._submit(group.jobs)
                group.future, group.allowed = again.future, again.allowed

    def _send_smaller(self, group: _Group, error: Exception) -> None:
        """Send the halves of a group that killed its workers; a single job is named."""
        self.sent.popleft()
        half = len(group.jobs) // 2
        if not half:
            raise WorkerKilled(
                f"{_name(group.jobs[0])}: every worker that ran this was killed, which usually means that "
                "memory ran out; give the workers more memory (dask worker --memory-limit), or fewer threads"
            ) from error
        self.sent.extendleft(self._submit(jobs) for jobs in (group.jobs[half:], group.jobs[:half]))


def _name(job: Any) -> str:
    """A job in words, for messages."""
    if isinstance(job, tuple) and job and isinstance(job[0], Path):  # a file with its digest
        return str(job[0])
    return str(getattr(job, "title", None) or type(job).__name__)


def connect(address: str, certificate: Path | None, seconds: float) -> Any:
    """Open a client of a scheduler, with the certificate of a local cluster or Dask's own configuration.

    Raises
    ------
    OSError
        No scheduler answers, or it demands another certificate.
    """
    from distributed import Client
    from distributed.security import Security

    for name in ("distributed", "distributed.client"):  # errors are reported by the caller
        logging.getLogger(name).setLevel(logging.CRITICAL)
    security = None
    if certificate is not None:
        files = dict.fromkeys(("tls_ca_file", "tls_client_cert", "tls_client_key"), str(certificate))
        security = Security(require_encryption=True, **files)
    try:
        return Client(address, timeout=seconds, name="labelscape", set_as_default=False, security=security)
    except (OSError, TimeoutError, TypeError) as error:  # a missing certificate is a TypeError
        reason = str(error) or type(error).__name__
    # Ends the failed client here. If that happens while the next one starts, Dask waits for itself.
    gc.collect()
    raise OSError(reason)
