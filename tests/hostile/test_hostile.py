"""A sample of the hostile cases, and the soak as slow tests; `test_files` and others run all cases."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.__main__ import choose
from tests.hostile.case import REFUSED, SURVIVED, Case, Place
from tests.hostile.judge import Ended, find_problems
from tests.hostile.sections import GROUPS

LAST_LINE = re.compile(r"(\d+) cases: \d+ refused, \d+ skipped, \d+ survived, 0 bad")
MINIMUM = 800


def run_module(module: str, *arguments: str) -> str:
    """Run a module of this package in its own process; its output."""
    found = subprocess.run(
        [sys.executable, "-m", f"tests.hostile{module}", *arguments],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-3000:]
    return found.stdout


@pytest.mark.slow
def test_a_sample_of_the_cases() -> None:
    sections = [part for name in ("labels", "arff", "tables", "arrays") for part in ("--only", name)]
    assert LAST_LINE.search(run_module("", *sections, "--sample", "41", "--jobs", "2"))


@pytest.mark.slow
def test_there_are_many_cases_and_their_names_are_unique() -> None:
    names = [f"{section.name}/{case.name}" for section, case in choose([], [], 0)]
    assert len(names) >= MINIMUM
    assert len({*names}) == len(names)


def run_group(name: str) -> None:
    """Run every case of a group of sections, one at a time: groups run at once in several test processes."""
    sections = [part for section in GROUPS[name] for part in ("--only", section)]
    found = LAST_LINE.search(run_module("", *sections, "--jobs", "1"))
    assert found and int(found[1]) > 50


def test_every_group_has_a_test_module() -> None:
    here = Path(__file__).parent
    assert {path.stem for path in here.glob("test_*.py")} - {Path(__file__).stem} == {
        f"test_{name}" for name in GROUPS
    }


@pytest.mark.slow
def test_a_short_soak() -> None:
    assert "3 runs: flat" in run_module(".soak", "--runs", "3")
    assert "50 refreshes: flat" in run_module(".refreshes", "--runs", "50", "--watch")


@pytest.mark.slow
def test_a_short_storm() -> None:
    assert ", 0 lost" in run_module(".soak", "--storm", "--minutes", "0.6")


GOOD = Ended(2, b"", b"labelscape: the file is not a table. Give another.\n", 10.0, 0.1)
BAD = {
    "exit code": Ended(1, b"", GOOD.err, 10.0, 0.1),
    "signal": Ended(-11, b"", GOOD.err, 10.0, 0.1),
    "time": Ended(None, b"", GOOD.err, 10.0, 60.0),
    "class": Ended(0, b"done\n", b"", 10.0, 0.1),
    "traceback": Ended(2, b"", b"Traceback (most recent call last):\n", 10.0, 0.1),
    "crash": Ended(2, b"", b"labelscape: unexpected ValueError: x\n", 10.0, 0.1),
    "escape": Ended(2, b"", GOOD.err + b"\x1b[2J", 10.0, 0.1),
    "right-to-left": Ended(2, b"", GOOD.err + "\u202e".encode(), 10.0, 0.1),
    "long": Ended(2, b"", GOOD.err * 1000, 10.0, 0.1),
    "memory": Ended(2, b"", GOOD.err, 2000.0, 0.1),
    "silence": Ended(2, b"", b"", 10.0, 0.1),
    "secret": Ended(2, b"", GOOD.err + b"hunter2", 10.0, 0.1),
    "words": Ended(2, b"", b"labelscape: something else entirely is wrong.\n", 10.0, 0.1),
}


class TestJudge:
    case = Case("x", expect=REFUSED, says=("not a table",), secrets=("hunter2",))

    def test_a_correct_refusal(self, tmp_path: Path) -> None:
        assert find_problems(self.case, Place(tmp_path, tmp_path), GOOD) == []

    @pytest.mark.parametrize("name", BAD)
    def test_a_bad_end(self, tmp_path: Path, name: str) -> None:
        assert find_problems(self.case, Place(tmp_path, tmp_path), BAD[name])

    def test_a_secret_in_a_file(self, tmp_path: Path) -> None:
        place = Place(tmp_path, tmp_path)
        place.home.mkdir()
        (place.home / "mlflow.db").write_bytes(b"..hunter2..")
        assert "wrote the secret" in find_problems(self.case, place, GOOD)[0]

    def test_what_a_crash_leaves_behind(self, tmp_path: Path) -> None:
        place = Place(tmp_path, tmp_path)
        place.home.mkdir()
        (place.home / "x.tmp").write_bytes(b"")
        assert "left behind" in find_problems(self.case, place, GOOD)[0]

    def test_the_wrong_number_of_items(self, tmp_path: Path) -> None:
        case = Case("x", expect=SURVIVED, items=5)
        place = Place(tmp_path, tmp_path)
        assert find_problems(case, place, Ended(0, b"done\n", b"", 1.0, 0.1)) == ["None items, not 5"]
