"""An answer of `status` given again: at once while all stands, never once anything has changed."""

import json
import marshal
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows import recall as recalling
from flows.cli import main
from flows.recall import find_memo, recall
from storage.artifacts.disk import TEMPORARY
from storage.errors import SourceError
from tasks.maintenance.gc import remove_home_orphans
from tests.conftest import REPOSITORY, UNTRACKED, Command, run_locally, write_pictures

SETTINGS = ("evaluation.folds=3", "embedding.methods=['mlda']", "evaluation.baselines=['1nn']")
SLOW_TO_LOAD = {"argparse", "numpy", "pydantic", "pyarrow", "dataclasses", "hashlib", "json", "typing"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures and a home in which every stage is fresh, though the last run was another."""
    folder = tmp_path_factory.mktemp("recall")
    pictures, home = write_pictures(folder / "pictures", 40), folder / "home"
    run_locally(pictures, home, *SETTINGS, report=True)
    run_locally(pictures, home, *SETTINGS, "affinity.n_neighbors=3")
    return folder


@pytest.fixture
def words(place: Path) -> list[str]:
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    return ["status", str(place / "pictures"), "--home", str(place / "home"), *UNTRACKED, *settings]


@pytest.fixture
def known(words: list[str], place: Path, command: Command, settled: None) -> str:
    """The answer, sought and kept."""
    shutil.rmtree(place / "home" / "cache" / "status", ignore_errors=True)
    assert recall(words) is None
    answer = command(*words).out
    assert answer.endswith("Nothing would run.\n")
    return answer


def python(
    folder: Path, *arguments: str, stdout: int = subprocess.PIPE
) -> "subprocess.CompletedProcess[str]":
    """A process of its own that starts in a folder and ends well."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )


def read_memo(words: list[str]) -> tuple:
    return marshal.loads(Path(find_memo(words)).read_bytes()[4:])


def an_artifact(place: Path) -> Path:
    return next((place / "home" / "store" / "features_part").rglob("*.parquet"))


def change_in_place(file: Path, content: bytes) -> Callable[[], object]:
    """Write a file without its times of content telling so, as `cp -p` and `rsync -t` may."""
    before, times = file.read_bytes(), file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    return lambda: file.write_bytes(before)


def other_pixels(place: Path) -> Callable[[], object]:
    file = place / "pictures" / "p00.png"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    return change_in_place(file, bytes(content))


def other_labels(place: Path) -> Callable[[], object]:
    file = place / "pictures" / "labels.csv"
    return change_in_place(file, file.read_bytes().replace(b"red", b"der"))


def one_more(place: Path) -> Callable[[], object]:
    file = place / "pictures" / "more" / "new.png"
    file.parent.mkdir()
    shutil.copy2(place / "pictures" / "p00.png", file)
    return lambda: shutil.rmtree(file.parent)


def one_less(place: Path) -> Callable[[], object]:
    return move(place / "pictures" / "p01.png", place / "p01.png")


def another_name(place: Path) -> Callable[[], object]:
    return move(place / "pictures" / "p01.png", place / "pictures" / "p0x.png")


def no_pictures(place: Path) -> Callable[[], object]:
    return move(place / "pictures", place / "elsewhere")


def lost_data(place: Path) -> Callable[[], object]:
    file = an_artifact(place)
    return move(file, place / file.name)


def short_data(place: Path) -> Callable[[], object]:
    file = an_artifact(place)
    return change_in_place(file, file.read_bytes()[:-1])


def lost_manifest(place: Path) -> Callable[[], object]:
    data = an_artifact(place)
    file = data.with_name(f"{data.name.partition('-')[0]}.json")
    return move(file, place / file.name)


def another_last_run(place: Path) -> Callable[[], object]:
    (note,) = (place / "home" / "store" / "pointers").glob("run-*.json")
    return move(note, place / note.name)


def a_configuration(place: Path) -> Callable[[], object]:
    file = Path("labelscape.toml")
    file.write_text("", encoding="utf-8")
    return file.unlink


def move(file: Path, target: Path) -> Callable[[], object]:
    file.rename(target)
    return lambda: target.rename(file)


CHANGES = [
    other_pixels,
    other_labels,
    one_more,
    one_less,
    another_name,
    no_pictures,
    lost_data,
    short_data,
    lost_manifest,
    another_last_run,
    a_configuration,
]


class TestAnAnswerThatStands:
    def test_is_given_again(self, words: list[str], known: str) -> None:
        assert f"{recall(words)}\n" == known

    def test_is_given_again_as_json(self, words: list[str], known: str, command: Command) -> None:
        asked = [*words, "--json"]
        answer = command(*asked).out
        assert json.loads(answer) == json.loads(recall(asked) or "")
        assert f"{recall(words)}\n" == known

    def test_needs_no_library(self, words: list[str], known: str, tmp_path: Path) -> None:
        code = (
            "import sys\nbefore = set(sys.modules)\nfrom flows.entry import start\nassert start() == 0\n"
            f"print(sorted((set(sys.modules) - before) & {SLOW_TO_LOAD!r}), file=sys.stderr)"
        )
        done = python(tmp_path, "-c", code, *words)
        assert done.stdout == known
        assert done.stderr.strip() == "[]"

    def test_rests_on_every_file_that_was_opened(
        self, words: list[str], known: str, place: Path, tmp_path: Path
    ) -> None:
        """Whatever `status` reads, in the store, among the items or beside them, is looked at again."""
        code = (
            "import sys\nopened = set()\n"
            "def hook(event, given):\n"
            "    if event == 'open' and isinstance(given[0], str): opened.add(given[0])\n"
            "sys.addaudithook(hook)\nfrom storage.artifacts import file_stats\nfile_stats.TICK_NS = -1\n"
            "from flows.cli import main\nassert main(sys.argv[1:]) == 0\n"
            "print(*opened, sep='\\n', file=sys.stderr)"
        )
        (place / "pictures" / "labels.csv").touch()  # else its digest is remembered, and it is not opened
        done = python(tmp_path, "-c", code, *words)
        _, files, _, folder, *_ = read_memo(words)
        cache = place / "home" / "cache"
        opened = [Path(name) for name in done.stderr.splitlines() if name.startswith(str(place))]
        ours = [file for file in opened if cache not in (file, *file.parents)]
        assert {file.relative_to(place).parts[0] for file in ours} == {"home", "pictures"}
        covered = set(map(Path, files))
        notes = place / "home" / "store" / "pointers"
        assert notes in covered
        for file in ours:
            assert file in covered or Path(folder) in file.parents or file.parent == notes, file


class TestAnAnswerThatNoLongerStands:
    @pytest.mark.parametrize("change", CHANGES)
    def test_is_sought_anew(
        self, words: list[str], known: str, place: Path, change: Callable[[Path], Callable[[], object]]
    ) -> None:
        undo = change(place)
        try:
            assert recall(words) is None
        finally:
            undo()

    def test_other_code(self, words: list[str], known: str, monkeypatch, tmp_path: Path) -> None:
        copy = tmp_path / "copy"
        for package in recalling._PACKAGES:
            (copy / package / "__pycache__").mkdir(parents=True)
            (copy / package / "a.py").write_text("", encoding="utf-8")
        monkeypatch.setattr(recalling, "_ROOT", str(copy))
        assert main(words) == 0
        (copy / "tasks" / "__pycache__" / "a.pyc").touch()
        assert recall(words)
        (copy / "tasks" / "a.py").write_text("1", encoding="utf-8")
        assert recall(words) is None

    @pytest.mark.parametrize("name", ["LABELSCAPE_STORE", "HOME"])
    def test_another_environment(self, words: list[str], known: str, name: str, monkeypatch) -> None:
        monkeypatch.setenv(name, "elsewhere")
        assert recall(words) is None

    def test_other_words_and_another_folder(
        self, words: list[str], known: str, place: Path, monkeypatch
    ) -> None:
        assert recall([*words, "--json"]) is None
        monkeypatch.chdir(place)
        assert recall(words) is None

    def test_a_damaged_note(self, words: list[str], known: str) -> None:
        memo = Path(find_memo(words))
        whole = memo.read_bytes()
        for position in range(0, len(whole), 97):
            flipped = bytearray(whole)
            flipped[position] ^= 8
            memo.write_bytes(flipped)
            assert recall(words) is None
        for length in (0, 3, 4, 5, len(whole) - 1):
            memo.write_bytes(whole[:length])
            assert recall(words) is None
        memo.write_bytes(whole)
        assert recall(words)

    def test_a_note_of_another_form(self, words: list[str], known: str) -> None:
        content = marshal.dumps((1, 2), 2)
        Path(find_memo(words)).write_bytes(recalling._checksum(content) + content)
        assert recall(words) is None


class TestAnAnswerThatIsNotKept:
    @pytest.fixture(autouse=True)
    def _forget(self, place: Path) -> None:
        shutil.rmtree(place / "home" / "cache" / "status", ignore_errors=True)

    def test_while_files_may_still_change_unseen(
        self, words: list[str], place: Path, command: Command
    ) -> None:
        (place / "pictures" / "p00.png").touch()
        assert command(*words).out.endswith("Nothing would run.\n")
        assert not Path(find_memo(words)).exists()

    def test_where_something_would_run(
        self, words: list[str], place: Path, command: Command, settled: None
    ) -> None:
        asked = [*words, "--set", "affinity.n_neighbors=4"]
        assert "would run" in command(*asked).out
        assert not Path(find_memo(asked)).exists()

    def test_where_every_file_is_to_be_read(self, words: list[str], command: Command, settled: None) -> None:
        asked = [*words, "--paranoid"]
        assert command(*asked).out.endswith("Nothing would run.\n")
        assert not Path(find_memo(asked)).exists()

    def test_where_its_home_cannot_be_told_from_the_words(
        self, words: list[str], place: Path, command: Command, settled: None
    ) -> None:
        asked = [*words[:2], *words[4:], "--set", f"home={json.dumps(str(place / 'home'))}"]
        assert command(*asked).out.endswith("Nothing would run.\n")
        assert not Path(find_memo(asked)).exists()

    def test_where_the_disk_refuses(
        self, words: list[str], place: Path, command: Command, settled: None
    ) -> None:
        blocked = place / "home" / "cache" / "status"
        blocked.write_text("", encoding="utf-8")
        try:
            assert command(*words).out.endswith("Nothing would run.\n")
        finally:
            blocked.unlink()

    def test_of_many_only_the_newest_are(
        self, words: list[str], place: Path, command: Command, settled: None, monkeypatch
    ) -> None:
        monkeypatch.setattr(recalling, "_KEPT", 2)
        asked = [[*words, *["--json"] * times] for times in range(4)]
        for one in asked:
            assert command(*one).code == 0
            time.sleep(0.01)
        assert [bool(recall(one)) for one in asked] == [False, False, True, True]


def test_a_folder_that_cannot_be_listed_is_no_answer(words: list[str], known: str, monkeypatch) -> None:
    def refuse(*given: object) -> Iterator:
        raise SourceError("cannot be listed")

    monkeypatch.setattr(recalling, "states_below", refuse)
    assert recall(words) is None


def test_tidying_up_removes_half_written_answers(place: Path) -> None:
    half = place / "home" / "cache" / "status" / f"1.memo{TEMPORARY}"
    half.parent.mkdir(exist_ok=True)
    half.touch()
    assert remove_home_orphans(place / "home") == [half]


def test_a_reader_that_goes_away_is_no_error(words: list[str], known: str, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = python(tmp_path, "-m", "flows.entry", *words, stdout=pipe.fileno())
    assert not done.stderr


@pytest.mark.slow
def test_a_tracked_run_that_was_deleted(tmp_path: Path, engine: str) -> None:
    write_pictures(tmp_path / "pictures", 40)
    given = ["pictures", "--set", "evaluation.folds=2", "--methods", "mlda"]

    def give(*arguments: str) -> str:
        return python(tmp_path, "-m", "flows.entry", *arguments).stdout

    give("run", *given)
    time.sleep(2.1)
    answer = give("status", *given)
    assert answer.endswith("Nothing would run.\n")
    assert len(list((tmp_path / ".labelscape" / "cache" / "status").glob("*.memo"))) == 1
    assert give("status", *given) == answer
    with sqlite3.connect(tmp_path / ".labelscape" / "mlflow.db") as database:
        database.execute("UPDATE runs SET lifecycle_stage = 'deleted'")
    database.close()
    assert "1 of" in give("status", *given).splitlines()[-1]
