"""A map that never moves: old places are byte-equal until a new version is made on purpose."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flows.config import RunConfig
from storage.artifacts.run_log import RunLog
from storage.artifacts.schemas import Embedding, unpack_embedding
from storage.artifacts.store import ArtifactStore
from tasks.maintenance.gc import find_garbage, remove_garbage
from tasks.map.movement import align, measure_movement
from tasks.map.versions import load_versions
from tests.conftest import Command, TrainingRun, local_config, run_training, write_pictures


def rotated(Z: np.ndarray) -> np.ndarray:
    turn = np.array([[0.6, -0.8], [-0.8, -0.6]])  # also a reflection
    return np.asarray(3.5 * Z @ turn + [7.0, -2.0])


def test_shift_turn_reflection_and_scale_are_no_movement() -> None:
    Z = np.random.default_rng(0).normal(size=(80, 2))
    np.testing.assert_allclose(align(Z, rotated(Z)), Z, atol=1e-12)
    ids = [str(i) for i in range(80)]
    moved = measure_movement(ids, Z, ids[::-1], rotated(Z)[::-1])
    assert moved
    assert (moved.items, moved.kept) == (80, 1.0)
    assert moved.most < 1e-12


def test_items_that_move_are_counted() -> None:
    Z = np.random.default_rng(0).normal(size=(200, 2))
    after = Z.copy()
    after[:60] = np.random.default_rng(1).normal(size=(60, 2))
    ids = [str(i) for i in range(200)]
    moved = measure_movement(ids, Z, ids, after)
    assert moved
    assert moved.median < 0.1 < moved.most
    assert 0.3 < moved.kept < 0.95
    assert measure_movement(ids, Z, ["x"], Z[:1]) is None


def config_of(folder: Path, home: Path) -> RunConfig:
    given = ("embedding.methods=['mlda']", "evaluation.baselines=['1nn']", "report.thumbnails=0")
    return local_config(folder, home, *given)


def read_places(done: TrainingRun) -> Embedding:
    ref = next(one.ref for one in done.stages if one.label == "map[places]")
    return unpack_embedding(done.store.read(ref))


def bytes_of(places: Embedding, names: list[str]) -> bytes:
    row = {name: number for number, name in enumerate(places.ids)}
    return places.coordinates[[row[name] for name in names]].tobytes()


@pytest.mark.slow
def test_old_places_are_byte_equal_until_a_new_version(tmp_path: Path, command: Command) -> None:
    folder, home = write_pictures(tmp_path / "pictures", 40), tmp_path / "home"
    config = config_of(folder, home)
    assert "map[places]" not in {one.label for one in run_training(config).stages}
    made = command("map", folder, "--home", home, "--new")
    assert made.code == 0, made.err
    assert "version 1  mlda, 40 items" in made.out
    first = run_training(config)
    old = read_places(first)
    embedded = unpack_embedding(
        first.store.read(next(one.ref for one in first.stages if one.label == "embedding[mlda]"))
    )
    assert bytes_of(old, embedded.ids) == embedded.coordinates.tobytes()

    for number in range(6):  # new items, new labels, and one item with another content
        Image.new("RGB", (32, 24), (30 * number, 200 - 20 * number, 90)).save(folder / f"new{number}.png")
    labels = (folder / "labels.csv").read_text() + "new0.png,red\nnew1.png,green\n"
    (folder / "labels.csv").write_text(labels.replace("p04.png,", "p04.png,red"))
    Image.new("RGB", (32, 24), (250, 250, 10)).save(folder / "p07.png")
    second = run_training(config)
    grown = read_places(second)
    unchanged = [name for name in old.ids if name != "p07.png"]
    assert bytes_of(grown, unchanged) == bytes_of(old, unchanged)
    assert bytes_of(grown, ["p07.png"]) != bytes_of(old, ["p07.png"])
    assert len(grown.ids) == 46
    assert np.isfinite(grown.coordinates).all()
    again = unpack_embedding(
        second.store.read(next(one.ref for one in second.stages if one.label == "embedding[mlda]"))
    )
    assert bytes_of(again, unchanged) != bytes_of(old, unchanged), "the embedding itself has moved"

    for number in range(3):  # what was added keeps its place too, also if other items go
        (folder / f"new{number + 3}.png").unlink()
    Image.new("RGB", (32, 24), (1, 2, 3)).save(folder / "last.png")
    third = read_places(run_training(config))
    assert bytes_of(third, grown.ids) == bytes_of(grown, grown.ids)
    assert all(one.cached for one in run_training(config).stages)

    renewed = command("map", folder, "--home", home, "--new", "--by", "mlda")
    assert "version 2  mlda, 44 items" in renewed.out
    assert "44 items on both versions: half moved less than" in " ".join(renewed.out.split())
    (one, two) = json.loads(command("map", folder, "--home", home, "--json").out)
    assert (one["movement"], two["movement"]["items"]) == (None, 44)
    fourth = run_training(config)
    page = fourth.report
    assert page
    assert "Map version 2 (MLDA)" in (page.parent / "map.html").read_text()
    check_garbage(fourth.store, config)


def check_garbage(store: ArtifactStore, config: RunConfig) -> None:
    """Garbage collection keeps both versions."""
    log = RunLog(store)
    remove_garbage(store, log, find_garbage(store, log, keep=0))
    for version in load_versions(store, config.source):
        assert len(unpack_embedding(store.read(version.places)).ids) == version.places.rows
        assert store.read(version.base).num_rows


def test_without_a_run_there_is_nothing_to_fix(command: Command, picture_folder: Path) -> None:
    assert "No version of the map yet" in command("map", picture_folder).out
    refused = command("map", picture_folder, "--new")
    assert refused.code == 2
    assert "start with `labelscape run`" in " ".join(refused.err.split())
