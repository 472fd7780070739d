"""Fixtures shared by all tests."""

import os

# Test processes run side by side: threads of linear algebra in each would only wait for each other.
for _library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_library, "1")

import signal
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flows.config import RunConfig, load_config
from flows.pipeline import TrainingPlan, TrainingProducts, walk
from flows.runner import Run, RunResult, open_workspace
from flows.stages import Compute, StageSelection
from storage import credentials
from storage.artifacts.keys import ArtifactRef
from storage.artifacts.store import ArtifactStore, Outcome
from tasks.reporter import Reporter
from tasks.runs import remember_run
from tasks.stage import Stage, Workspace, run_stage

REPOSITORY = Path(__file__).resolve().parent.parent
TrainingRun = RunResult[TrainingProducts]


UNTRACKED = ("--set", "tracking.enabled=false")


def leftovers(folder: Path) -> list[Path]:
    """Files that a refused command must not leave behind."""
    return [*folder.rglob("*.tmp"), *folder.rglob("*.part"), *folder.rglob("crash-*")]


@pytest.fixture(autouse=True)
def unchanged_environment() -> Iterator[None]:
    """Restore variables that a test sets through the program, such as PYTHONSAFEPATH for its children."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    for name in before.keys() | after.keys():
        if before.get(name) != after.get(name) and name != "PYTEST_CURRENT_TEST":
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


@pytest.fixture(autouse=True)
def unchanged_secrets() -> Iterator[None]:
    """Forget the secrets that a test made known: they would be hidden in the messages of later tests."""
    before = credentials._secrets.copy(), credentials._entered.copy()
    yield
    for known, earlier in zip((credentials._secrets, credentials._entered), before, strict=True):
        known.clear()
        known.update(earlier)


@pytest.fixture(scope="session")
def project() -> dict[str, Any]:
    """The table "project" of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return found


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real data sets; tests that need it are skipped where it does not exist."""
    folder = Path(os.environ.get("LABELSCAPE_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data sets are not at {folder}; set LABELSCAPE_DATA to their folder")
    return folder


@pytest.fixture(params=["local", "shared"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ArtifactStore]:
    """An empty store, in a folder of this machine or at an address."""
    if request.param == "local":
        yield ArtifactStore.local(tmp_path / "store")
        return
    import fsspec

    from storage.artifacts.remote import Remote

    place = f"memory://{uuid.uuid4().hex}"
    yield ArtifactStore.shared(tmp_path / "cache", Remote(place), grace=timedelta(0))
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm(place, recursive=True)


@pytest.fixture
def picture_folder(tmp_path: Path) -> Path:
    """Forty small pictures of colored bands, labeled by their colors; eight are unlabeled."""
    return write_pictures(tmp_path / "pictures", 40)


def write_pictures(folder: Path, count: int) -> Path:
    """Draw `count` pictures and their labels.csv."""
    rng = np.random.default_rng(3)
    colors = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (40, 60, 200)}
    folder.mkdir(parents=True)
    lines = ["filename,labels"]
    for number in range(count):
        chosen = rng.permutation(list(colors))[: rng.integers(1, 3)]
        bands = [colors[name] for name in chosen for _ in range(24 // len(chosen))]
        pixels = np.repeat(np.array(bands, dtype=float)[:, None, :], 32, axis=1)
        noisy = np.clip(pixels + rng.normal(0, 25, pixels.shape), 0, 255).astype(np.uint8)
        name = f"p{number:02d}.png"
        Image.fromarray(noisy).save(folder / name)
        lines.append(f"{name},{'' if number % 5 == 4 else '|'.join(sorted(chosen))}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def small_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forests of 20 instead of 500 trees, for tests of what surrounds them."""
    from embedding_core.classifiers.forest import RandomForest

    _, *others = RandomForest.__init__.__defaults__ or ()
    monkeypatch.setattr(RandomForest.__init__, "__defaults__", (20, *others))


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat files written just now as old, so that cached digests of them are trusted."""
    from storage.artifacts import file_stats

    monkeypatch.setattr(file_stats, "TICK_NS", -1)


@dataclass
class LocalRun:
    """One walk over all stages in this process, without Prefect."""

    products: TrainingProducts
    outcomes: dict[str, Outcome]
    workspace: Workspace

    @property
    def computed(self) -> set[str]:
        return {label for label, outcome in self.outcomes.items() if not outcome.cached}


def local_config(source: Path | str, home: Path, *overrides: str) -> RunConfig:
    """A configuration for quick runs: three folds, no tracker."""
    settings = ["tracking.enabled=false", "evaluation.folds=3", *overrides]
    return load_config(None, settings, home=str(home), source={"path": str(source)})


def run_training(config: RunConfig, until: str | None = None, compute: Compute = run_stage) -> TrainingRun:
    """Run the pipeline in this process, without Prefect, up to a stage."""
    return Run(TrainingPlan(config), StageSelection(until=until)).run_stages(compute)


def run_locally(
    source: Path | str, home: Path, *overrides: str, refresh: str = "", report: bool = False
) -> LocalRun:
    """Run every stage on a source as the flow does, and record the run; report and map only on request."""
    config = local_config(source, home, *overrides)
    workspace = open_workspace(config, Reporter())
    outcomes: dict[str, Outcome] = {}

    def execute(stage: Stage) -> ArtifactRef | None:
        if stage.name in ("report", "map") and not report:
            return None
        outcomes[stage.label] = run_stage(stage, workspace, force=stage.name == refresh)
        return outcomes[stage.label].ref

    products = walk(config, workspace, execute)
    remember_run(workspace.store, config.source, {label: outcome.ref for label, outcome in outcomes.items()})
    return LocalRun(products, outcomes, workspace)


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Run `labelscape` commands in this process, in an empty folder; their environment changes are undone."""
    from flows.cli import main

    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)

    def give(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    yield give
    os.environ.clear()
    os.environ.update(before)


def start_command(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a `labelscape` command in a separate process, with its home in the folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *arguments, "--home", str(folder / "home")],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job has Ctrl-C switched off, and would hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def interrupt_at(run: "subprocess.Popen[str]", beginning: str, number: int = signal.SIGINT) -> str:
    """Send SIGINT, or another signal, when a message begins with a text; return the messages that follow."""
    assert run.stderr
    said = []
    for line in run.stderr:
        said.append(line)
        if line.startswith(beginning):
            break
    else:
        pytest.fail(f"it ended before {beginning!r}: {''.join(said)}")
    run.send_signal(number)
    err = run.communicate(timeout=240)[1]
    assert run.returncode == 128 + number, err
    assert "Traceback" not in err, err
    return err


@pytest.fixture
def without_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages run as plain functions, so that a run needs no Prefect server."""
    monkeypatch.setattr(Run, "execute", lambda run, verbose=False: run.run_stages())


@pytest.fixture(scope="session")
def prefect_variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables to use one real Prefect server for all slow tests; its start takes many seconds."""
    from flows import services
    from storage.servers import token_path

    home = tmp_path_factory.mktemp("prefect-server")
    server = services._start("prefect", home, services.choose_port("Prefect", 0, 0, ()))
    try:
        services._wait([server])
        yield {
            "PREFECT_API_URL": f"http://{services.HOST}:{server.port}/api",
            "PREFECT_API_AUTH_STRING": token_path(home).read_text().strip(),
        }
    finally:
        if process := server.process:
            services.stop_group(process)


@pytest.fixture
def engine(prefect_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make this process, and those it starts, use the test server."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    for name, value in prefect_variables.items():
        monkeypatch.setenv(name, value)
    url, login = prefect_variables.values()
    with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: login}):
        yield url
