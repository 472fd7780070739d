"""Every command in a real terminal of 80, 100 and 160 columns, and in a pipe."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from storage.artifacts.run_log import RunLog
from storage.artifacts.store import ArtifactStore
from tasks.report.tables import display_width
from tests.conftest import REPOSITORY, write_pictures

WIDTHS = (80, 100, 160)
COMMANDS = (
    ("methods",),
    ("config", "--show"),
    ("inspect", "pictures"),
    ("inspect", "mixed.csv"),
    ("status", "pictures"),
    ("status", "pictures", "--set", "affinity.n_neighbors=4", "--set", "evaluation.seed=7"),
    ("compare",),
    ("store", "ls"),
    ("store", "ls", "--runs"),
    ("store", "du"),
    ("store", "gc", "--dry-run"),
    ("lineage",),
    ("reproduce", "list"),
    ("annotate", "pictures"),
    ("stage", "featurs"),
)
_RUN_ALL = """
import json, sys
from flows.cli import main
for words in json.loads(sys.argv[1]):
    print("$", *words, flush=True)
    main(words)
"""
# An erased line (a progress bar) leaves nothing; other codes leave their text.
_CONTROL_CODE = re.compile(r"[^\n]*\r\x1b\[2K|\x1b\[[0-9;?]*[A-Za-z]|\r")
_TIME = re.compile(r"\d\d:\d\d:\d\d")
_DROPPED = re.compile(r"\d+ more columns? at a width of \d+ or with --json: ")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with a short path, a collection in it, and a home with one tracked run."""
    with tempfile.TemporaryDirectory(prefix="ls") as name:
        place = Path(name)
        write_pictures(place / "pictures", 40)
        names = ["a column with quite a long name", "Unnamed: 0", "when", "color", "size", "one", "kind"]
        rows = [
            f"{k / 7},{k},2020-01-{k + 1:02},{'red' if k % 2 else 'blue'},{k * k},1,k{k}" for k in range(20)
        ]
        (place / "mixed.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
        words = ["run", str(place / ".labelscape"), "pictures", "tracking.enabled=true"]
        subprocess.run(
            [sys.executable, "-m", "tests.run_driver", *words],
            cwd=place,
            env=environment(),
            check=True,
            capture_output=True,
        )
        # Now, so that the commands below leave the home as it is.
        subprocess.run(
            [sys.executable, "-m", "flows.cli", "annotate", "pictures"],
            cwd=place,
            env=environment(),
            check=True,
            capture_output=True,
        )
        yield place


def commands_in(folder: Path) -> list[tuple[str, ...]]:
    """The commands, and `lineage` of every run: the newest one is an annotation."""
    runs = RunLog(ArtifactStore.local(folder / ".labelscape" / "store")).entries()
    return [*COMMANDS, *(("lineage", run.id) for run in runs)]


def environment(**more: str) -> dict[str, str]:
    left_out = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "LABELSCAPE_HOME", "LABELSCAPE_STORE")
    known = {name: value for name, value in os.environ.items() if name not in left_out}
    return known | {"PYTHONPATH": str(REPOSITORY), "TERM": "xterm-256color"} | more


def in_terminal(folder: Path, arguments: Sequence[str], width: int, **more: str) -> str:
    """What a process writes to a terminal of a width, standard error included."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(**more),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    found = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux reports the end of a terminal as an error
            piece = b""
        if not piece:
            break
        found += piece
    os.close(master)
    assert process.wait() == 0, found.decode()
    return found.decode()


@pytest.fixture(scope="module")
def piped(folder: Path) -> str:
    """The output of all commands in a pipe, standard error included."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN_ALL, json.dumps(commands_in(folder))],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout


def words_of(text: str) -> set[str]:
    """All words, without commas between names, lines of tables and trees, and times, which change."""
    words = (word.rstrip(",") for word in text.split() if word.strip("─│├└\\"))
    return {word for word in words if not _TIME.fullmatch(word)}


@pytest.mark.slow
def test_a_pipe_gets_no_control_codes(piped: str) -> None:
    assert "\x1b" not in piped
    assert "\r" not in piped
    assert "more columns at" not in piped
    assert piped.count("$ ") >= len(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_every_line_fits_and_no_word_is_broken(folder: Path, piped: str, width: int) -> None:
    raw = in_terminal(folder, ["-c", _RUN_ALL, json.dumps(commands_in(folder))], width)
    assert "\x1b[1m" in raw
    text = _CONTROL_CODE.sub("", raw)
    too_long = [line for line in text.splitlines() if display_width(line) > width]
    assert not too_long
    dropped = {word for line in text.splitlines() if _DROPPED.match(line) for word in words_of(line)}
    assert words_of(text) - words_of(piped) - dropped == set()


@pytest.mark.slow
def test_no_color_leaves_only_emphasis(folder: Path) -> None:
    raw = in_terminal(folder, ["-m", "flows.cli", "status", "pictures"], 80, NO_COLOR="1")
    assert "fresh" in raw
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", raw)


@pytest.mark.slow
def test_json_is_the_same_in_a_terminal(folder: Path) -> None:
    raw = in_terminal(folder, ["-m", "flows.cli", "compare", "--json"], 80)
    assert [run["method"] for run in json.loads(raw)]
