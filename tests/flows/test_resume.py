"""After Ctrl-C, a crash, a full disk or an outage the last line is the command to resume with.

It repeats no work. After an error that the same command would meet again, no such line is printed.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.runner import repair
from storage.artifacts.keys import Recipe, stage_label
from storage.artifacts.store import ArtifactStore, Outcome
from storage.errors import (
    ArtifactDamaged,
    DiskFull,
    SourceChanged,
    SourceError,
    StoreError,
    StoreUnreachable,
    TransientError,
)
from tasks.reporter import Reporter
from tasks.stage import Workspace
from tests.conftest import REPOSITORY, UNTRACKED, Command, interrupt_at, start_command

PLAIN = pytest.mark.usefixtures("without_engine")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The disk is full when the stage with a label is stored."""
    compute = ArtifactStore.compute

    def fill_at(label: str) -> None:
        def refuse(store: ArtifactStore, recipe: Recipe, *args: Any, **kwargs: Any) -> Outcome:
            if stage_label(recipe.stage, recipe.variant) == label:
                raise DiskFull("No room to write.")
            return compute(store, recipe, *args, **kwargs)

        monkeypatch.setattr(ArtifactStore, "compute", refuse)

    return fill_at


@pytest.mark.slow
@PLAIN
@pytest.mark.parametrize(
    ("how", "recomputed"),
    [
        (("run", "--refresh", "features"), "features"),
        (("run", "--from", "affinity"), "affinity"),
        (("stage", "features", "--force"), "features"),
    ],
)
def test_after_a_failure(
    command: Command,
    picture_folder: Path,
    full_disk: Callable[[str], None],
    how: tuple[str, ...],
    recomputed: str,
) -> None:
    command("run", picture_folder, *UNTRACKED, "--until", "correlation")
    name, *more = how
    place = [more.pop(0)] if name == "stage" else []
    full_disk("embedding[multilabel_dle]")
    done = command(name, *place, picture_folder, *UNTRACKED, *more, "--methods", "multilabel_dle")
    assert done.code == 2
    assert f"  {recomputed:<38} computed" in done.err
    line = done.err.splitlines()[-1]
    assert line.endswith(f" --done {recomputed}")
    again = command(*shlex.split(line)[3:])
    assert "labelscape: No room to write." in again.err, "it resumes where it failed"
    assert f"  {recomputed:<38} fresh" in again.err
    assert again.err.splitlines()[-1] == line, "nothing more was done"


@pytest.mark.slow
@PLAIN
def test_finished_methods_are_not_recomputed(
    command: Command, picture_folder: Path, full_disk: Callable[[str], None]
) -> None:
    given = (*UNTRACKED, "--until", "embedding", "--methods", "mlda,multilabel_dle")
    command("run", picture_folder, *given)
    (picture_folder / "p07.png").write_bytes((picture_folder / "p08.png").read_bytes())
    full_disk("embedding[multilabel_dle]")
    done = command("run", picture_folder, *given, "--from", "embedding")
    line = done.err.splitlines()[-1]
    assert line.endswith("--from embedding --done 'embedding[mlda]'")
    again = command(*shlex.split(line)[3:])
    for label in ("ingest", "features", "embedding[mlda]"):
        assert f"  {label:<38} fresh" in again.err, "earlier stages come from the last run"


@PLAIN
def test_an_unknown_stage_is_refused(command: Command, picture_folder: Path) -> None:
    refused = command("run", picture_folder, *UNTRACKED, "--done", "featurs[mlda]")
    assert refused.code == 2
    assert "featurs: no such stage. Did you mean features?" in refused.err


@pytest.mark.parametrize(
    ("given", "resumable"),
    [
        (("annotate", "new pictures"), True),
        (("sync",), True),
        (("store", "gc"), True),
        (("store", "verify"), True),
        (("store", "ls"), False),
        (("status",), False),
    ],
)
def test_which_interrupted_commands_can_be_resumed(
    command: Command, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], resumable: bool
) -> None:
    def interrupt(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"flows.commands.{given[0]}.{given[0]}", interrupt)
    done = command(*given)
    assert done.code == 130
    resume = f"resume with: {shlex.join(['labelscape', *given])}\n" if resumable else ""
    kept = "; finished stages are kept" if given[0] == "annotate" else ""
    assert done.err == f"interrupted{kept}.\n{resume}", "the others have no stages"


@pytest.mark.parametrize(
    ("error", "resumable"),
    [
        (SourceError("there is no such folder"), False),
        (StoreError("a note is damaged; run `store verify` first"), False),
        (StoreUnreachable("nobody answers at s3://bucket"), True),
        (DiskFull("no room"), True),
        (RuntimeError("ours"), True),
    ],
)
@pytest.mark.parametrize("given", [("annotate", "new"), ("sync",), ("store", "gc"), ("run", "demo")])
def test_after_which_errors_a_command_can_be_resumed(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    error: Exception,
    resumable: bool,
) -> None:
    def fail(options: object) -> int:
        raise error

    monkeypatch.setattr(f"flows.commands.{given[0]}.{given[0]}", fail)
    done = command(*given)
    assert str(error) in done.err
    resume = f"resume with: {shlex.join(['labelscape', *given])}"
    assert (done.err.splitlines()[-1] == resume) == resumable
    assert ("resume" in done.err) == resumable


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ArtifactDamaged("a/b is damaged", "run again to compute it"), "a/b is damaged. Computing it again."),
        (SourceChanged("a.csv changed", "run again"), "a.csv changed. Reading it again."),
    ],
)
def test_transient_errors_are_retried(tmp_path: Path, error: TransientError, says: str) -> None:
    reported: list[str] = []
    errors = [error]

    class Listener(Reporter):
        def say(self, text: str) -> None:
            reported.append(text)

    def walk() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert repair(Workspace(tmp_path, ArtifactStore.local(tmp_path), reporter=Listener()), walk) == "done"
    assert reported == [says]


@pytest.mark.slow
def test_in_a_separate_process_with_prefect(tmp_path: Path) -> None:
    given = ("run", "iris", *UNTRACKED, "--refresh", "features")
    err = interrupt_at(start_command(tmp_path, *given), "  features ")
    assert err.splitlines()[-1].endswith(" --done features")


@pytest.mark.slow
@pytest.mark.parametrize("verbose", [False, True])
def test_a_temporary_server_prints_nothing_after_the_last_line(verbose: bool, tmp_path: Path) -> None:
    """Its log messages during shutdown would appear below the command to resume with."""
    code = (
        f"from flows.prefect_settings import prepare_libraries\nprepare_libraries({verbose})\n"
        "import logging\nfrom prefect.logging.configuration import setup_logging\nsetup_logging()\n"
        "logging.getLogger('uvicorn.error').error('stopped during a message')\n"
        "logging.getLogger('asyncio').error('stopped during a message')"
    )
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PREFECT")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("stopped during a message") == (2 if verbose else 0), done.stderr
