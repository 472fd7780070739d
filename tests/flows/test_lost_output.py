"""Output that is closed, full or not read to its end: no internal error, and results are kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows import terminal
from flows.cli import main
from flows.terminal import OutputLost, show, tell
from tests.conftest import REPOSITORY, write_pictures

PIPE_CLOSED = 141


def shell(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `labelscape` is this program."""
    program = f'labelscape() {{ "{sys.executable}" -m flows.cli "$@"; }}'
    return subprocess.run(
        ["bash", "-c", f"{program}\nset -o pipefail\n{text}"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "PREFECT_API_URL": "http://127.0.0.1:1/api"},
        capture_output=True,
        text=True,
        timeout=120,
    )


class FullDisk:
    """A standard output on a full disk."""

    encoding = "utf-8"

    def __init__(self, error: OSError) -> None:
        self.error = error

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> None:
        raise self.error

    def flush(self) -> None:
        """Nothing was written."""

    def fileno(self) -> int:
        raise OSError("no file")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            OSError(28, "No space left on device"),
            1,
            "labelscape: standard output cannot be written (No space",
        ),
        (BrokenPipeError(32, "Broken pipe"), PIPE_CLOSED, ""),
    ],
)
def test_a_result_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, code: int, said: str
) -> None:
    for arguments in (["methods"], ["methods", "--json"], ["config"], ["--version"], []):
        monkeypatch.setattr(sys, "stdout", FullDisk(error))
        assert main(arguments) == code
        assert capsys.readouterr().err.startswith(said)


def test_a_lost_message_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal.sys, "stderr", FullDisk(OSError(28, "No space left on device")))
    tell("a message")
    monkeypatch.setattr(terminal.sys, "stdout", FullDisk(BrokenPipeError()))
    with pytest.raises(OutputLost):
        show("a result")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("labelscape methods >&-", 0, ""),
        ("labelscape methods 2>&- | wc -l > lines", 0, ""),
        ("labelscape config >&- 2>&- <&-", 0, ""),
        ("labelscape methods --json | true", PIPE_CLOSED, ""),  # ends before anything is written
        ("labelscape config | true", PIPE_CLOSED, ""),
        ("labelscape methods > /dev/full", 1, "standard output cannot be written"),
        ("labelscape --help > /dev/full", 1, "standard output cannot be written"),
        ("labelscape methods > /dev/full 2> /dev/full", 1, ""),
        ("labelscape nonsense 2> /dev/full", 2, ""),
        ("labelscape nonsense 2>&-", 2, ""),
        ("labelscape store ls 2>&1 >&- | head -0", 2, ""),
    ],
)
def test_a_real_process_ends_quietly(tmp_path: Path, line: str, code: int, says: str) -> None:
    done = shell(line, tmp_path)
    assert done.returncode == code
    assert done.stderr.count("\n") == bool(says)
    assert says in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "code"), [(">&-", 0), ("> /dev/full", 1), ("2>&-", 0), ("2> /dev/full", 0)]
)
def test_a_run_keeps_its_results(tmp_path: Path, output: str, code: int) -> None:
    write_pictures(tmp_path / "pictures", 12)
    run = "labelscape run pictures --until features --set tracking.enabled=false"
    done = shell(f"{run} {output}", tmp_path)
    assert done.returncode == code
    assert "unexpected" not in done.stderr
    assert "0 computed, 2 fresh" in shell(run, tmp_path).stdout
