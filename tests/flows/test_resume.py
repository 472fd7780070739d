"""After a failure or Ctrl-C the last line is the command that goes on, and it does no work twice."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from flows.runner import repairing
from storage.artifacts.store import ArtifactStore
from storage.errors import (
    ArtifactDamaged,
    SourceChanged,
    SourceError,
    StoreError,
    StoreUnreachable,
    TransientError,
)
from tasks.reporter import Reporter
from tasks.stage import Workspace
from tests.conftest import REPOSITORY, UNTRACKED, Command, start_command

PLAIN = pytest.mark.usefixtures("without_engine")


@PLAIN
@pytest.mark.parametrize(
    ("how", "renewed"),
    [
        (("run", "--refresh", "features"), "features"),
        (("run", "--from", "affinity"), "affinity"),
        (("stage", "features", "--force"), "features"),
    ],
)
def test_after_a_failure(command: Command, picture_folder: Path, how: tuple[str, ...], renewed: str) -> None:
    command("run", picture_folder, *UNTRACKED, "--until", "correlation")
    name, *more = how
    place = [more.pop(0)] if name == "stage" else []
    refusing = ("--set", "embedding.n_components=9", "--methods", "mlda")
    done = command(name, *place, picture_folder, *UNTRACKED, *more, *refusing)
    assert done.code == 2
    assert f"  {renewed:<38} computed" in done.err
    line = done.err.splitlines()[-1]
    assert line.endswith(f" --done {renewed}")
    again = command(*shlex.split(line)[3:])
    assert "embedding[mlda]: n_components=9" in again.err, "it goes on where it failed"
    assert f"  {renewed:<38} fresh" in again.err
    assert again.err.splitlines()[-1] == line, "nothing more was done"


@PLAIN
def test_of_several_methods_those_that_are_done(command: Command, picture_folder: Path) -> None:
    given = (*UNTRACKED, "--until", "embedding", "--methods", "mlda,multilabel_dle")
    command("run", picture_folder, *given)
    (picture_folder / "p07.png").write_bytes((picture_folder / "p08.png").read_bytes())
    fails = ("--set", "embedding.params.multilabel_dle.n_components=999")
    done = command("run", picture_folder, *given, "--from", "embedding", *fails)
    line = done.err.splitlines()[-1]
    assert line.endswith("--from embedding " + " ".join(fails) + " --done 'embedding[mlda]'")
    again = command(*shlex.split(line)[3:])
    for label in ("ingest", "features", "embedding[mlda]"):
        assert f"  {label:<38} fresh" in again.err, "what lies before is taken as it was left"


@PLAIN
def test_what_is_no_stage_is_refused(command: Command, picture_folder: Path) -> None:
    refused = command("run", picture_folder, *UNTRACKED, "--done", "featurs[mlda]")
    assert refused.code == 2
    assert "featurs: no such stage. Did you mean features?" in refused.err


@pytest.mark.parametrize(
    ("given", "goes_on"),
    [
        (("annotate", "new pictures"), True),
        (("sync",), True),
        (("store", "gc"), True),
        (("store", "verify"), True),
        (("store", "ls"), False),
        (("status",), False),
    ],
)
def test_of_other_commands(
    command: Command, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], goes_on: bool
) -> None:
    def interrupt(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"flows.commands.{given[0]}.{given[0]}", interrupt)
    done = command(*given)
    assert done.code == 130
    resume = f"resume with: {shlex.join(['labelscape', *given])}\n" if goes_on else ""
    assert done.err == f"interrupted.\n{resume}", "these have no stages"


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [
        (SourceError("there is no such folder"), False),
        (StoreError("a note is damaged; run `store verify` first"), False),
        (StoreUnreachable("nobody answers at s3://bucket"), True),
        (RuntimeError("ours"), True),
    ],
)
@pytest.mark.parametrize("given", [("annotate", "new"), ("sync",), ("store", "gc"), ("run", "demo")])
def test_what_asks_for_something_else_is_not_to_be_repeated(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    error: Exception,
    goes_on: bool,
) -> None:
    def fail(options: object) -> int:
        raise error

    monkeypatch.setattr(f"flows.commands.{given[0]}.{given[0]}", fail)
    done = command(*given)
    assert str(error) in done.err
    resume = f"resume with: {shlex.join(['labelscape', *given])}"
    # A run goes on where it was, once the source or the store is mended.
    assert (done.err.splitlines()[-1] == resume) == (goes_on or given[0] == "run")
    assert ("resume" in done.err) == (goes_on or given[0] == "run")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ArtifactDamaged("a/b is damaged", "run again to compute it"), "a/b is damaged. Computing it again."),
        (SourceChanged("a.csv changed", "run again"), "a.csv changed. Reading it again."),
    ],
)
def test_what_is_done_again_at_once_is_not_asked_for(
    tmp_path: Path, error: TransientError, says: str
) -> None:
    told: list[str] = []
    errors = [error]

    class Listener(Reporter):
        def say(self, text: str) -> None:
            told.append(text)

    def walk() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert repairing(Workspace(tmp_path, ArtifactStore.local(tmp_path), reporter=Listener()), walk) == "done"
    assert told == [says]


@pytest.mark.slow
def test_in_a_process_of_its_own_under_prefect(tmp_path: Path) -> None:
    given = ("run", "iris", *UNTRACKED, "--set", "embedding.n_components=7", "--refresh", "features")
    done = start_command(tmp_path, *given)
    err = done.communicate(timeout=120)[1]
    assert done.returncode == 2
    assert err.splitlines()[-1].endswith(" --done features")


@pytest.mark.slow
@pytest.mark.parametrize("verbose", [False, True])
def test_a_server_of_its_own_says_nothing_after_the_last_line(verbose: bool, tmp_path: Path) -> None:
    """What it logs while it is stopped would else stand below the command that resumes."""
    code = (
        f"from flows.prefect_engine import prepare_libraries\nprepare_libraries({verbose})\n"
        "import logging\nfrom prefect.logging.configuration import setup_logging\nsetup_logging()\n"
        "logging.getLogger('uvicorn.error').error('stopped amid a message')\n"
        "logging.getLogger('asyncio').error('stopped amid a message')"
    )
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PREFECT")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("stopped amid a message") == (2 if verbose else 0), done.stderr
