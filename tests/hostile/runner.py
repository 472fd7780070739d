"""Run cases in forked processes that have already imported everything, several at a time."""

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

import psutil

from tests.hostile.case import QUIET, Case, Place
from tests.hostile.child import leave_out_prefect
from tests.hostile.judge import Ended, find_class, find_problems

# A case may reserve this much before its allocations fail, so that no case can exhaust the machine.
_RESERVED = 6 * 1024**3
_POLL_SECONDS = 0.003
_SHOWN = 400
_STAGES = ("ingest", "features", "embedding")
_INDEX = struct.Struct("<i")


@dataclass(frozen=True)
class Result:
    """How one case ended: its class, what was wrong, what it cost and the beginning of its output."""

    name: str
    found: str
    problems: list[str]
    memory_mb: float
    seconds: float
    output: str


@dataclass(frozen=True)
class Section:
    """The cases of one module; `prepare` fills a folder that they share, `clean_up` ends what it started."""

    name: str
    module: ModuleType

    @property
    def cases(self) -> list[Case]:
        """The cases, with unique names."""
        found: list[Case] = self.module.cases()
        names = [case.name for case in found]
        repeated = sorted({name for name in names if names.count(name) > 1})
        assert not repeated, f"{self.name}: repeated names {repeated[:5]}"
        return found

    @property
    def warm_up(self) -> str:
        """The last stage that the processes of its cases should have imported."""
        return str(getattr(self.module, "WARM_UP", _STAGES[-1]))

    def call(self, function: str, shared: Path) -> None:
        """Call `prepare` or `clean_up` of the module, if it has one."""
        if hasattr(self.module, function):
            getattr(self.module, function)(shared)


def load_section(name: str) -> Section:
    """Import a section."""
    return Section(name, importlib.import_module(f"tests.hostile.sections.{name}"))


def run_cases(
    chosen: Sequence[tuple[Section, Case]],
    jobs: int,
    on_result: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Run cases in `jobs` processes; the results are in the order of the cases."""
    # Sources and homes of cases are beside each other; nothing else of this machine may change them.
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    sections = {section.name: section for section, _ in chosen}
    _set_environment(folder)
    warm_up(folder / "warm-up", max((one.warm_up for one in sections.values()), key=_STAGES.index))
    try:
        for section in sections.values():
            for name in getattr(section.module, "PRELOAD", ()):
                importlib.import_module(name)
            shared = folder / f"shared-{section.name}"
            shared.mkdir()
            section.call("prepare", shared)
        return _distribute(chosen, folder, jobs, on_result)
    finally:
        for section in sections.values():
            section.call("clean_up", folder / f"shared-{section.name}")
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder; folders that are nested too deep for Python are left to the system's command."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", folder], check=False)


def _set_environment(folder: Path) -> None:
    """The same for every case: one thread, no color, no servers or folders of the user."""
    for name in list(os.environ):
        if name.startswith(("LABELSCAPE_", "PREFECT_", "MLFLOW_", "AWS_")):
            del os.environ[name]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    (folder / "user").mkdir()
    os.environ.update(
        threads | {"NO_COLOR": "1", "HOME": str(folder / "user"), "MPLCONFIGDIR": str(folder / "user")}
    )


def warm_up(folder: Path, stage: str) -> None:
    """Run the stages once up to one, so that forked processes have imported and compiled what they need."""
    from tests.hostile.samples import pictures
    from tests.hostile.templates import command

    leave_out_prefect()
    pictures(folder / "source")
    given = ["--home", str(folder / "home"), *QUIET]
    code, said = command("run", folder / "source", "--until", stage, *given)
    assert code == 0, said


def _distribute(
    chosen: Sequence[tuple[Section, Case]], folder: Path, jobs: int, on_result: Callable[[Result], None]
) -> list[Result]:
    """Start the workers; each takes the next case from a pipe and writes a line per result to another."""
    tasks, results = os.pipe(), os.pipe()
    os.write(tasks[1], b"".join(_INDEX.pack(number) for number in range(len(chosen))))
    os.close(tasks[1])
    workers = [_fork(lambda: _work(chosen, folder, tasks[0], results)) for _ in range(max(1, jobs))]
    os.close(tasks[0])
    os.close(results[1])
    found: dict[int, Result] = {}
    with open(results[0], encoding="utf-8") as lines:
        for line in lines:
            number, values = json.loads(line)
            found[number] = Result(**values)
            on_result(found[number])
    for worker in workers:
        os.waitpid(worker, 0)
    lost = [Result(f"{s.name}/{c.name}", "bad", ["the worker died"], 0, 0, "") for s, c in chosen]
    return [found.get(number, lost[number]) for number in range(len(chosen))]


def _work(chosen: Sequence[tuple[Section, Case]], folder: Path, tasks: int, results: tuple[int, int]) -> None:
    os.close(results[0])
    while raw := os.read(tasks, _INDEX.size):
        (number,) = _INDEX.unpack(raw)
        section, case = chosen[number]
        place = Place(folder / f"{number:04d}", folder / f"shared-{section.name}")
        result = _run_case(f"{section.name}/{case.name}", case, place)
        os.write(results[1], (json.dumps([number, asdict(result)]) + "\n").encode())


def _run_case(name: str, case: Case, place: Place) -> Result:
    place.folder.mkdir()
    made = _run_process(lambda: _make(case, place), place, "make", 60)
    if made.code != 0:
        text = made.err.decode("utf-8", "replace")[-_SHOWN:]
        return Result(name, "bad", [f"the input could not be made: {text}"], 0, 0, "")
    ended = _run_process(lambda: _act(case, place), place, "command", case.seconds)
    problems = find_problems(case, place, ended)
    output = (ended.out + ended.err).decode("utf-8", "replace")[:_SHOWN]
    _remove(place.folder)
    found = "bad" if problems else find_class(ended, case)
    return Result(name, found, problems, round(ended.memory_mb), round(ended.seconds, 2), output)


def _make(case: Case, place: Place) -> int:
    case.make(place)
    return 0


def _act(case: Case, place: Place) -> int:
    _limit_memory()
    if case.act is not None:
        return case.act(place)
    from flows.cli import main

    arguments = case.arguments(place)
    sys.argv = ["labelscape", *arguments]
    try:
        return main(arguments)
    except SystemExit as leave:  # argparse
        return leave.code if isinstance(leave.code, int) else 1


def _limit_memory() -> None:
    own = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (own + _RESERVED, own + _RESERVED))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run_process(work: Callable[[], int], place: Place, title: str, seconds: float) -> Ended:
    """Fork a process that leads its own group; kill the group when it ends or its time is up."""
    out, err = (place.folder.with_name(f"{place.folder.name}.{title}.{end}") for end in ("out", "err"))
    baseline, begun = psutil.Process().memory_info().rss, time.monotonic()
    child = _fork(lambda: _redirected(work, place.folder, out, err))
    code, peak = _wait(child, begun + seconds)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    ended = Ended(
        code, out.read_bytes(), err.read_bytes(), (peak - baseline) / 2**20, time.monotonic() - begun
    )
    out.unlink()
    err.unlink()
    return ended


def _wait(child: int, deadline: float) -> tuple[int | None, int]:
    """Exit code, None if the time was up, and the peak memory in bytes."""
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            _, _, used = os.wait4(child, 0)
            return None, used.ru_maxrss * 1024
        time.sleep(_POLL_SECONDS)


def _redirected(work: Callable[[], int], folder: Path, out: Path, err: Path) -> int:
    os.setsid()
    for path, number in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    with _fresh_streams():
        return work()


@contextlib.contextmanager
def _fresh_streams() -> Iterator[None]:
    """Streams of this process: those of the parent may belong to pytest."""
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    yield
    sys.stdout.flush()
    sys.stderr.flush()


def _fork(work: Callable[[], int | None]) -> int:
    child = os.fork()
    if child == 0:
        code = 70
        try:
            code = work() or 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            sys.stderr.flush()
        finally:
            os._exit(code)
    return child
