"""The data of the map: what is stored of items, labels, predictions, support and pictures."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from storage.artifacts.schemas import unpack_embedding, unpack_files, unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.sources.base import Part
from tasks.map.data import MapData, MapView, sample_rows
from tasks.map.packing import FACTS, pack_map
from tasks.map.pictures import ABOUT, pack_pictures, sheet_name
from tasks.report.judged import JudgedItems
from tasks.report.limits import robust_limits
from tasks.report.quality import most_wrong
from tasks.stage import Workspace
from tests.conftest import local_config, run_training, write_pictures


def judged_items(Y: np.ndarray, rng: np.random.Generator) -> JudgedItems:
    """Predictions that are mostly right."""
    scores = np.clip(np.where(Y == 1, 0.8, 0.2) + rng.normal(0, 0.25, Y.shape), 0, 1)
    return JudgedItems("mlda", "MLDA, 10NN", scores, (scores > 0.5).astype(np.int8), False)


def map_data(n: int = 120, K: int = 3, **changes: object) -> MapData:
    rng = np.random.default_rng(0)
    Y = (rng.random((n, K)) < 0.4).astype(np.int8)
    Y[::4] = -1
    known: dict[str, object] = {
        "title": "beach",
        "source": "pictures",
        "ids": [f"item {i:03d}" for i in range(n)],
        "Y": Y,
        "label_names": [f"label {k}" for k in range(K)],
        "split": ["train" if i % 3 else "test" for i in range(n)],
        "views": [MapView("MLDA", rng.normal(size=(n, 3))), MapView("LPP", rng.normal(size=(n, 2)))],
        "judged": judged_items(Y, rng),
    }
    return MapData(**{**known, **changes})  # type: ignore[arg-type]


def unpack(files: dict[str, bytes]) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    facts = json.loads(files[FACTS])
    return facts, {name: np.frombuffer(files[name], dtype=kind) for name, kind in facts["arrays"].items()}


def test_labels_and_scores_come_back() -> None:
    data = map_data()
    _, arrays = unpack(pack_map(data, 1000))
    assert data.judged
    for i in range(len(data.ids)):
        entries = slice(arrays["start"][i], arrays["start"][i + 1])
        labels, flags = arrays["label"][entries], arrays["flag"][entries]
        assert labels[flags & 1 > 0].tolist() == np.flatnonzero(data.Y[i] == 1).tolist()
        assert labels[flags & 2 > 0].tolist() == np.flatnonzero(data.judged.decided[i]).tolist()
        np.testing.assert_allclose(arrays["score"][entries] / 1000, data.judged.scores[i][labels], atol=6e-4)
    assert arrays["labeled"].tolist() == (data.Y >= 0).all(axis=1).astype(int).tolist()


def test_supporting_items_are_the_nearest_other_carriers() -> None:
    data = map_data()
    _, arrays = unpack(pack_map(data, 1000))
    support, place = arrays["support"].reshape(-1, 3), 0
    Z = data.views[0].coordinates
    assert data.judged
    for i in range(len(data.ids)):
        for k in np.flatnonzero(data.judged.decided[i]):
            carriers = [j for j in np.flatnonzero(data.Y[:, k] == 1) if j != i]
            nearest = sorted(carriers, key=lambda j: float(np.linalg.norm(Z[j] - Z[i])))[:3]
            assert support[place].tolist() == nearest
            place += 1
    assert place == len(support)


def test_a_large_collection_is_sampled_over_its_density() -> None:
    data = map_data(900)
    facts, arrays = unpack(pack_map(data, 200))
    rows = sample_rows(900, 200)
    assert (facts["items"], facts["ids"]) == (900, [data.ids[row] for row in rows])
    np.testing.assert_array_equal(arrays["axis_0_1"], data.views[0].coordinates[rows, 1].astype(np.float32))
    assert arrays["density_0"].reshape(256, 256).max() == 255
    assert set(rows) > set(sample_rows(900, 50))
    assert "density_0" not in unpack(pack_map(data, 900))[1]


def test_same_data_same_bytes() -> None:
    assert pack_map(map_data(), 100) == pack_map(map_data(), 100)


def test_a_run_without_predictions_or_embeddings_has_a_map_too() -> None:
    facts, arrays = unpack(pack_map(map_data(judged=None, views=[], split=None), 100))
    assert (facts["predictor"], facts["views"], facts["splits"]) == ("", [], [])
    assert (arrays["doubt"] == 255).all()


def test_outliers_do_not_squeeze_the_others() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=980), np.full(10, 1e6), [np.inf]])
    low, high = robust_limits(values)
    assert -6 < low < -1.5
    assert 1.5 < high < 6


def test_doubt_and_error_of_items() -> None:
    scores = np.array([[0.5, 0.9], [0.1, 1.0], [np.nan, np.nan]])
    found = JudgedItems("m", "M", scores, (scores > 0.5).astype(np.int8), False)
    np.testing.assert_allclose(found.doubt(), [1.0, 0.2, np.nan], atol=1e-12)
    error, worst = found.error(np.array([[0, 0], [1, 1], [-1, -1]], dtype=np.int8))
    assert error[:2].tolist() == pytest.approx([0.9, 0.9])
    assert np.isnan(error[2])
    assert worst[:2].tolist() == [1, 0]
    single = JudgedItems(
        "m", "M", np.array([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]]), np.eye(2, 3, dtype=np.int8), True
    )
    assert single.doubt().tolist() == pytest.approx([1.0, 0.2])
    # the best class is right although its score is below one half
    unsure = JudgedItems("m", "M", np.array([[0.4, 0.3, 0.3]]), np.eye(1, 3, dtype=np.int8), True)
    assert unsure.error(np.eye(1, 3, dtype=np.int8))[0].tolist() == [0.0]
    assert most_wrong(np.eye(1, 3, dtype=np.int8), unsure, ["a", "b", "c"]) == []


def test_pictures_are_on_the_sheet_in_order_and_unreadable_ones_are_left_out(tmp_path: Path) -> None:
    colors = [(200, 10, 10), (10, 200, 10), (10, 10, 200)]
    paths = []
    for number, color in enumerate(colors):
        paths.append(tmp_path / f"{number}.png")
        Image.new("RGB", (60, 30), color).save(paths[-1])
    paths[1].write_bytes(b"torn")
    workspace = Workspace(tmp_path, ArtifactStore.local(tmp_path / "store"))
    part = Part("images", "images", ["a", "b", "c"], paths=paths)
    files = pack_pictures(["x", "y", "z"], part, [0, 1, 2], workspace)
    about = json.loads(files[ABOUT])
    assert (about["ids"], about["sizes"]) == (["x", "y", "z"], [[60, 30], [0, 0], [60, 30]])
    (tmp_path / "sheet.jpg").write_bytes(files[sheet_name(0)])
    pixels = np.asarray(Image.open(tmp_path / "sheet.jpg")).astype(int)
    for number in (0, 2):
        middle = pixels[15, number * about["tile"] + 30]
        assert np.abs(middle - colors[number]).max() < 12


def test_texts_and_rows_are_shown_where_there_are_no_pictures(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, ArtifactStore.local(tmp_path / "store"))
    text = Part("text", "text", ["a", "b"], texts=["one " * 200, None])
    about = json.loads(pack_pictures(["x", "y"], text, [0, 1], workspace)[ABOUT])
    assert [len(one) for one in about["texts"]] == [280, 0]
    (tmp_path / "b.txt").write_text("größer " * 200, encoding="utf-8")
    files = Part("text", "text", ["a", "b"], paths=[None, tmp_path / "b.txt"])
    about = json.loads(pack_pictures(["x", "y"], files, [0, 1], workspace)[ABOUT])
    assert about["texts"] == ["", ("größer " * 200)[:280]]
    X = np.arange(60, dtype=np.float32).reshape(2, 30) / 7
    rows = Part("given", "features", ["a", "b"], X=X, feature_names=[f"f{i}" for i in range(30)])
    about = json.loads(pack_pictures(["x", "y"], rows, [1], workspace)[ABOUT])
    assert (about["ids"], about["more"]) == (["y"], 18)
    assert about["values"][0][0] == f"{X[1, 0]:.4g}"


@pytest.mark.slow
def test_the_map_is_a_stage_and_a_page_beside_the_report(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "pictures", 40)
    config = local_config(
        folder, tmp_path / "home", "embedding.methods=['mlda']", "evaluation.baselines=['1nn']"
    )
    first = run_training(config)
    assert {"map", "map[pictures]"} <= {one.label for one in first.stages}
    assert first.report
    page = first.report.parent / "map.html"
    assert page.is_file()
    assert 'href="map.html"' in first.report.read_text()
    assert all(one.cached for one in run_training(config).stages)
    labels = (folder / "labels.csv").read_text()
    (folder / "labels.csv").write_text(labels.replace("p04.png,", "p04.png,red"))
    again = {one.label: one for one in run_training(config).stages}
    assert (again["map"].cached, again["map[pictures]"].cached) == (False, True)
    facts = json.loads(unpack_files(first.store.read(again["map"].ref))[FACTS])
    assert facts["predictor"] in ("MLDA, 10NN", "1NN, input as given")


@pytest.mark.slow
def test_sle_ml_is_shown_with_two_balances_and_shuffled_labels(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "pictures", 40)
    given = ("embedding.methods=['mlda', 'sle_ml']", "evaluation.baselines=['1nn']", "report.thumbnails=0")
    done = run_training(local_config(folder, tmp_path / "home", *given))
    refs = {one.label: one.ref for one in done.stages}
    facts, _ = unpack(unpack_files(done.store.read(refs["map"])))
    shown = [view["title"] for view in facts["views"] if view["group"]]  # type: ignore[index, attr-defined]
    assert shown == [f"SLE-ML, λ = {b}{end}" for end in ("", ", labels shuffled") for b in (0.9, 0.5)]
    true, control = (
        unpack_embedding(done.store.read(refs[f"map[sle_ml 0.5{end}]"])) for end in ("", " shuffled")
    )
    # In both, items of one label set are drawn together: by their own labels, and by shuffled ones.
    Y = unpack_manifest(done.store.read(refs["ingest"])).labels
    labeled = np.flatnonzero((Y >= 0).all(axis=1))
    sets = Y[labeled] @ [1, 2, 4]
    for found in (true, control):
        Z = found.coordinates[labeled]
        apart = np.linalg.norm(Z[:, None] - Z[None], axis=2)
        same = sets[:, None] == sets[None]
        assert apart[same].mean() < 0.8 * apart[~same].mean()
    assert not np.allclose(true.coordinates, control.coordinates)


@pytest.mark.slow
def test_the_map_is_an_artifact_of_the_tracked_run(tmp_path: Path) -> None:
    folder, home = write_pictures(tmp_path / "pictures", 30), tmp_path / "home"
    given = ("embedding.methods=['mlda']", "evaluation.baselines=['1nn']", "tracking.enabled=true")
    done = run_training(local_config(folder, home, *given))
    assert done.report
    written = (done.report.parent / "map.html").read_text(encoding="utf-8")
    (tracked,) = (file for file in home.rglob("map.html") if "artifacts" in file.parts)
    # The same map; the page in the home folder also names the run.
    assert tracked.read_text(encoding="utf-8").count('id="array-') == written.count('id="array-') > 5
