"""The home folder of a command: created for its owner only; a warning if others may enter an older one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.cli import _write_crash
from tests.conftest import REPOSITORY, UNTRACKED, Command


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def too_open(home: Path) -> list[Path]:
    """Folders and files that anybody but their owner may use."""
    return [
        path for path in (home, *home.rglob("*")) if path.lstat().st_mode & 0o077 and not path.is_symlink()
    ]


@pytest.mark.usefixtures("open_umask", "without_engine")
def test_a_run_writes_private_files_only(command: Command, tmp_path: Path) -> None:
    done = command("run", "iris", "--methods", "pca", "--home", "home", *UNTRACKED, "--until", "features")
    assert done.code == 0, done.err
    assert "warning" not in done.err
    assert len(list((tmp_path / "home").rglob("*"))) > 8
    assert too_open(tmp_path / "home") == []
    assert os.umask(0) == 0  # restored


@pytest.mark.usefixtures("open_umask")
def test_an_older_home_that_is_open_is_mentioned_once(command: Command, tmp_path: Path) -> None:
    (tmp_path / "my home" / "store").mkdir(parents=True)
    said = command("status", "iris", "--home", "my home").err
    assert said.count("warning:") == 1
    assert f"{tmp_path / 'my home'} is open to every user of this machine" in said
    assert f"chmod -R go= '{tmp_path / 'my home'}'" in said
    assert (tmp_path / "my home").stat().st_mode & 0o777 == 0o777  # it may be open on purpose


@pytest.mark.usefixtures("open_umask")
def test_a_crash_file_does_not_follow_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("time.strftime", lambda form: "now")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"crash-now-{os.getpid()}.txt").symlink_to(victim)
    file = _write_crash(ValueError("x"), tmp_path)
    assert "ValueError: x" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert victim.read_text() == "precious"


@pytest.mark.slow
def test_prefect_mlflow_and_annotations(tmp_path: Path) -> None:
    """Everything that a tracked run in Prefect writes is private; a file named with --out is not."""
    for arguments in (["run", "iris", "--methods", "pca"], ["annotate", "iris", "--out", "labels"]):
        subprocess.run(
            [sys.executable, "-m", "flows.cli", *arguments, "--home", str(tmp_path / "home")],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            umask=0o000,
            check=True,
            capture_output=True,
        )
    assert {"mlflow.db", "mlartifacts", "prefect", "reports"} <= {
        path.name for path in tmp_path.glob("home/*")
    }
    assert too_open(tmp_path / "home") == []
    assert (tmp_path / "labels.csv").stat().st_mode & 0o777 == 0o666
