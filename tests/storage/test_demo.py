"""The demo collection: reproducible bytes, labels of what is visible, a folder that is complete or absent."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from storage.errors import SourceError, StoreError
from storage.sources import demo, demo_scenes
from storage.sources.demo import choose_unlabeled, write_demo
from storage.sources.demo_scenes import LABELS, VISIBLE, Scene, draw_scene, visible_labels

SMALL = (72, 48)


def read_labels(folder: Path) -> dict[str, set[str]]:
    """Name of each image with its labels, in file order."""
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as stream:
        return {row["filename"]: set(row["labels"].split("|")) - {""} for row in csv.DictReader(stream)}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of twelve small scenes; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("demo") / "small"
    write_demo(folder, n=12, seed=3, size=SMALL)
    return folder


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    """Enough scenes for frequencies, small enough to be drawn in seconds."""
    return [draw_scene(7, index, SMALL) for index in range(120)]


def members(scenes: list[Scene], *labels: str) -> int:
    return sum(set(labels) <= set(scene.labels) for scene in scenes)


def share_with(scenes: list[Scene], other: str, given: str | None = None) -> float:
    """Share of the scenes (of those labeled `given`) that are labeled `other`."""
    among = [scene for scene in scenes if given is None or given in scene.labels]
    return members(among, other) / len(among)


def test_same_request_gives_same_bytes(small: Path, tmp_path: Path) -> None:
    write_demo(tmp_path / "again", n=12, seed=3, size=SMALL)
    assert contents(tmp_path / "again") == contents(small)


def test_another_seed_gives_other_pictures(small: Path, tmp_path: Path) -> None:
    write_demo(tmp_path / "other", n=3, seed=4, size=SMALL)
    ours, theirs = contents(small), contents(tmp_path / "other")
    assert all(ours[f"images/scene_00{k}.jpg"] != theirs[f"images/scene_00{k}.jpg"] for k in range(3))


def test_a_scene_does_not_depend_on_the_number_of_scenes(small: Path, tmp_path: Path) -> None:
    write_demo(tmp_path / "few", n=2, seed=3, size=SMALL)
    assert contents(tmp_path / "few")["images/scene_001.jpg"] == contents(small)["images/scene_001.jpg"]


def test_table_and_images_agree(small: Path) -> None:
    labels = read_labels(small)
    assert list(labels) == [f"images/scene_{k:03d}.jpg" for k in range(12)]
    assert set(contents(small)) == {*labels, "labels.csv", "demo.json"}
    for index, (name, given) in enumerate(labels.items()):
        with Image.open(small / name) as image:
            assert (image.format, image.mode, image.height) == ("JPEG", "RGB", SMALL[1])
            assert SMALL[0] - SMALL[0] // 8 <= image.width <= SMALL[0]
        hidden = index in choose_unlabeled(12, 3)
        assert given == (set() if hidden else set(draw_scene(3, index, SMALL).labels))


@pytest.mark.parametrize("n", [1, 12, 360])
def test_a_quarter_is_unlabeled(n: int) -> None:
    hidden = choose_unlabeled(n, 7)
    assert len(hidden) == round(n / 4)
    assert hidden <= set(range(n))
    assert hidden == choose_unlabeled(n, 7)


def test_unlabeled_cells_are_empty(small: Path) -> None:
    assert [not given for given in read_labels(small).values()].count(True) == 3


@pytest.mark.slow
def test_every_label_occurs_and_is_absent(scenes: list[Scene]) -> None:
    for label in LABELS:
        assert 8 <= members(scenes, label) <= 90, label
    assert 2.0 < np.mean([len(scene.labels) for scene in scenes]) < 4.0


def test_labels_keep_their_order(scenes: list[Scene]) -> None:
    assert all(scene.labels == tuple(name for name in LABELS if name in scene.labels) for scene in scenes)
    assert len({scene.labels for scene in scenes}) > 40


def test_sunset_and_night_exclude_each_other(scenes: list[Scene]) -> None:
    assert members(scenes, "sunset", "night") == 0


@pytest.mark.parametrize(("given", "other"), [("snow", "mountains"), ("mountains", "snow")])
def test_correlated_labels(scenes: list[Scene], given: str, other: str) -> None:
    assert share_with(scenes, other, given) > 1.1 * share_with(scenes, other)


def test_night_is_dark_and_sunset_is_warm(scenes: list[Scene]) -> None:
    pixels = [np.asarray(scene.image, dtype=float) for scene in scenes]
    brightness = np.array([p.mean() for p in pixels])
    warmth = np.array([p[: SMALL[1] // 2, :, 0].mean() - p[: SMALL[1] // 2, :, 2].mean() for p in pixels])
    night, sunset = (np.array([k in s.labels for s in scenes]) for k in ("night", "sunset"))
    assert brightness[night].max() < np.median(brightness[~night])
    assert np.median(warmth[sunset]) > np.quantile(warmth[~sunset & ~night], 0.9)


def test_light_and_framing_vary(scenes: list[Scene]) -> None:
    assert len({scene.image.size for scene in scenes}) > 3
    day = [s for s in scenes if not {"night", "sunset"} & set(s.labels)]
    assert np.std([np.asarray(s.image).mean() for s in day]) > 15


@pytest.mark.parametrize("size", [(48, 48), (50, 120), (171, 49)])
def test_odd_sizes_are_drawn(size: tuple[int, int]) -> None:
    for index in range(12):
        scene = draw_scene(1, index, size)
        assert scene.image.height == size[1]
        assert scene.labels


def material_map(**shares: float) -> np.ndarray:
    """A map with the given share of each material; the rest has none."""
    flat = np.zeros(2000, dtype=np.uint8)
    start = 0
    for name, share in shares.items():
        stop = start + round(share * flat.size)
        flat[start:stop] = demo_scenes._MATERIALS[name]
        start = stop
    return flat.reshape(40, 50)


def test_labels_are_read_off_the_pixels() -> None:
    assert visible_labels(material_map(water=0.3, trees=0.2), "noon") == ("trees", "water")
    assert visible_labels(material_map(buildings=0.9), "night") == ("night", "buildings")
    assert visible_labels(material_map(clouds=0.4, snow=VISIBLE), "sunset") == ("clouds", "sunset", "snow")
    assert visible_labels(material_map(mountains=VISIBLE / 2), "overcast") == ()


def test_a_complete_collection_is_not_rewritten(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw_nothing(*_: object) -> Scene:
        raise AssertionError("drawn again")

    monkeypatch.setattr(demo_scenes, "draw_scene", draw_nothing)
    before = {p: p.stat().st_mtime_ns for p in small.rglob("*")}
    write_demo(small, n=12, seed=3, size=SMALL)
    assert {p: p.stat().st_mtime_ns for p in small.rglob("*")} == before


def flip_a_byte(folder: Path) -> None:
    path = folder / "images" / "scene_001.jpg"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: list[Callable[[Path], object]] = [
    flip_a_byte,
    lambda folder: (folder / "images" / "scene_000.jpg").unlink(),
    lambda folder: (folder / "labels.csv").write_text("filename,labels\n"),
    lambda folder: (folder / "images" / "scene_009.jpg").write_bytes(b"left over"),
    lambda folder: (folder / "demo.json").unlink(),
    lambda folder: (folder / "demo.json").write_text("{"),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_collection_is_redrawn(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    folder = tmp_path / "demo"
    write_demo(folder, n=3, seed=3, size=SMALL)
    whole = contents(folder)
    damage(folder)
    write_demo(folder, n=3, seed=3, size=SMALL)
    assert contents(folder) == whole
    assert list(tmp_path.iterdir()) == [folder]


def test_another_request_replaces_the_collection(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    write_demo(folder, n=3, seed=3, size=SMALL)
    write_demo(folder, n=2, seed=3, size=SMALL)
    assert len(read_labels(folder)) == len(list((folder / "images").iterdir())) == 2
    assert json.loads((folder / "demo.json").read_text())["n"] == 2


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "demo"
    write_demo(folder, n=2, seed=3, size=SMALL)
    before = contents(folder)

    def draw_two(seed: int, index: int, size: tuple[int, int]) -> Scene:
        if index == 2:
            raise OSError(28, "No space left on device")
        return draw_scene(seed, index, size)

    monkeypatch.setattr(demo_scenes, "draw_scene", draw_two)
    with pytest.raises(StoreError, match=r"demo.*No space left on device.*Free disk space"):
        write_demo(folder, n=4, seed=3, size=SMALL)
    with pytest.raises(StoreError):
        write_demo(tmp_path / "fresh", n=4, seed=3, size=SMALL)
    assert contents(folder) == before
    assert list(tmp_path.iterdir()) == [folder]


def test_the_first_of_two_processes_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "demo"
    request = (2, 3, SMALL)
    write_files = demo._write_files

    def write_slowly(fresh: Path, n: int, seed: int, size: tuple[int, int]) -> None:
        write_files(fresh, n, seed, size)
        monkeypatch.setattr(demo, "_write_files", write_files)
        write_demo(folder, *request)
        inodes.append(folder.stat().st_ino)

    inodes: list[int] = []
    monkeypatch.setattr(demo, "_write_files", write_slowly)
    write_demo(folder, *request)
    assert len(inodes) == 1
    assert list(tmp_path.iterdir()) == [folder]
    assert demo._is_complete(folder, {"version": demo.VERSION, "n": 2, "seed": 3, "size": list(SMALL)})


def test_a_concurrently_written_collection_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "demo"
    write_demo(folder, n=2, seed=3, size=SMALL)
    request = json.loads((folder / "demo.json").read_text())
    del request["digest"]
    fresh = tmp_path / "fresh"
    (fresh / "images").mkdir(parents=True)
    rename = Path.rename

    def as_if_absent(path: Path, target: Path) -> Path:
        if path == folder:
            raise FileNotFoundError(path)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", as_if_absent)
    whole = contents(folder)
    demo._put_in_place(fresh, folder, request)
    assert contents(folder) == whole
    with pytest.raises(OSError, match="not empty"):
        demo._put_in_place(fresh, folder, {**request, "n": 5})


def test_foreign_files_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"precious")
    with pytest.raises(SourceError, match=r"holiday\.jpg.*Move them away"):
        write_demo(tmp_path, n=2, seed=3, size=SMALL)
    assert contents(tmp_path) == {"holiday.jpg": b"precious"}


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("a note")
    with pytest.raises(SourceError, match="is a file"):
        write_demo(tmp_path / "demo", n=2, seed=3, size=SMALL)
    with pytest.raises(StoreError, match="cannot be written"):
        write_demo(tmp_path / "demo" / "below", n=2, seed=3, size=SMALL)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"n": 0}, "n=0: .*at least one scene"),
        ({"seed": -1}, "seed=-1"),
        ({"size": (40, 128)}, "size=40x128"),
    ],
)
def test_invalid_parameters_are_rejected(tmp_path: Path, request_: dict[str, object], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        write_demo(tmp_path / "demo", **request_)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_default_collection(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    labels = read_labels(tmp_path / "demo")
    given = [found for found in labels.values() if found]
    assert (len(labels), len(given)) == (360, 270)
    for label in LABELS:
        assert 25 <= sum(label in found for found in given) <= 240, label
