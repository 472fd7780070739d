"""Stages read what their key names: the chosen labels, and the bytes that were hashed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from embedding_core.features import extraction
from storage.artifacts.schemas import unpack_edges, unpack_manifest
from storage.errors import SourceError
from storage.sources.image_folder import ImageFolder
from storage.sources.table import TableSource
from tasks.stages import affinity
from tests.conftest import TrainingRun, local_config, run_training

ROWS = [(0.1 * n, (7 * n) % 5, ("red", "blue")[n % 2], ("disc", "ring", "disc")[n % 3]) for n in range(24)]


def write_table(path: Path) -> Path:
    """Two columns that may both be the classes."""
    lines = [",".join(map(str, row)) for row in ROWS]
    path.write_text("\n".join(["f0,f1,color,shape", *lines]) + "\n", encoding="utf-8")
    return path


def write_arff(path: Path) -> Path:
    head = "@relation r\n@attribute f0 numeric\n@attribute f1 numeric\n"
    head += "@attribute color {red,blue}\n@attribute shape {disc,ring}\n@data\n"
    path.write_text(head + "\n".join(",".join(map(str, row)) for row in ROWS) + "\n", encoding="utf-8")
    return path


def run(source: Path, home: Path, *overrides: str) -> TrainingRun:
    """Run the stages up to the graph."""
    return run_training(local_config(source, home, *overrides), until="correlation")


def labels_of(done: TrainingRun) -> list[set[str]]:
    assert done.products.manifest is not None
    found = unpack_manifest(done.store.read(done.products.manifest))
    return [{found.label_names[k] for k in row.nonzero()[0]} for row in found.labels]


class TestChoiceOfLabels:
    @pytest.mark.slow
    @pytest.mark.parametrize("write", [write_table, write_arff])
    def test_another_column_gives_other_labels(self, tmp_path: Path, write: Callable[[Path], Path]) -> None:
        path = write(tmp_path / f"things.{'csv' if write is write_table else 'arff'}")
        home = tmp_path / "home"
        assert labels_of(run(path, home, "source.labels=color")) == [{row[2]} for row in ROWS]
        assert labels_of(run(path, home, "source.labels=shape")) == [{row[3]} for row in ROWS]
        back = run(path, home, "source.labels=color")
        assert labels_of(back) == [{row[2]} for row in ROWS]
        assert all(stage.cached for stage in back.stages)


class TestChangeWhileReading:
    """If the source changes during a run, nothing is stored under the old key and the run retries."""

    @pytest.mark.slow
    def test_of_the_labels_of_images(
        self, picture_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        labels = picture_folder / "labels.csv"
        before = labels.read_text(encoding="utf-8")
        meddle_before(
            monkeypatch, ImageFolder, "read", lambda: labels.write_text(before.replace("red", "sky"))
        )
        found = set().union(*labels_of(run(picture_folder, tmp_path / "home")))
        assert found == {"sky", "green", "blue"}
        labels.write_text(before, encoding="utf-8")
        assert set().union(*labels_of(run(picture_folder, tmp_path / "home"))) == {"red", "green", "blue"}

    def test_of_a_table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write_table(tmp_path / "things.csv")
        before = path.read_text(encoding="utf-8")
        meddle_before(monkeypatch, TableSource, "read", lambda: path.write_text(before.replace("red", "sky")))
        found = labels_of(run(path, tmp_path / "home", "source.labels=color"))
        assert set().union(*found) == {"sky", "blue"}
        path.write_text(before, encoding="utf-8")
        done = run(path, tmp_path / "home", "source.labels=color")
        assert labels_of(done) == [{row[2]} for row in ROWS]

    @pytest.mark.slow
    def test_of_given_edges(
        self, picture_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        edges = tmp_path / "edges.csv"
        edges.write_text("i,j,w\n0,1,1\n", encoding="utf-8")
        settings = (picture_folder, tmp_path / "home", f'source.edges="{edges}"')
        meddle_before(monkeypatch, affinity, "read_edges", lambda: edges.write_text("i,j,w\n0,1,9\n"))
        assert weight_of(run(*settings)) == 9
        edges.write_text("i,j,w\n0,1,1\n", encoding="utf-8")
        assert weight_of(run(*settings)) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("gone", [False, True])
    def test_of_an_image(
        self, picture_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
    ) -> None:
        image = picture_folder / "p20.png"
        other = (picture_folder / "p21.png").read_bytes()
        change = image.unlink if gone else lambda: image.write_bytes(other)
        meddle_before(monkeypatch, extraction, "extract_many", change)
        done = run(picture_folder, tmp_path / "home")
        assert done.products.manifest is not None
        found = unpack_manifest(done.store.read(done.products.manifest))
        digests = dict(zip(found.ids, found.digests, strict=True))
        assert digests.get("p20.png") == (None if gone else digests["p21.png"])
        assert all(stage.cached for stage in run(picture_folder, tmp_path / "home").stages)

    def test_that_does_not_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write_table(tmp_path / "things.csv")
        original, readings = TableSource.read, []

        def read(source: TableSource, cache_dir: Path) -> object:
            readings.append(path.write_text(path.read_text(encoding="utf-8") + "1,1,red,disc\n"))
            return original(source, cache_dir)

        monkeypatch.setattr(TableSource, "read", read)
        with pytest.raises(SourceError, match=r"things\.csv changed while it was being read; run again\.$"):
            run(path, tmp_path / "home", "source.labels=color")
        assert len(readings) == 4, "three times again"


def weight_of(done: TrainingRun) -> float:
    """Weight of the edge between the first two items."""
    graph = done.products.ref("affinity")
    assert graph is not None
    return float(unpack_edges(done.store.read(graph))[0, 1])


def meddle_before(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, change: Callable[[], object]
) -> None:
    """Change a file just before the next call of a function, once."""
    original = getattr(owner, name)

    def meddled(*arguments: object) -> object:
        monkeypatch.undo()
        change()
        return original(*arguments)

    monkeypatch.setattr(owner, name, meddled)
