"""Extractors that learn: a stage of their own, on training items only, shared by new items."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from embedding_core.features.bow_sift import BowSift
from flows.status import inspect_stages
from storage.errors import ConfigError
from tasks.dataset import load_dataset, load_features
from tasks.settings import NewItems
from tasks.stage import task_code
from tasks.stages import ingest
from tasks.stages.feature_blocks import block_stages, blocks_of_recipe
from tasks.stages.features import compute_features
from tasks.stages.learning import load_learned
from tasks.training_rows import MAX_ITEMS, training_rows
from tests.tasks.test_feature_blocks import Walk

BOW = {"n_words": 8, "levels": 1, "sample": 20}
LEARNING = "features[bow_sift learning]"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Pictures of stripes; those of the split test are noise."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = ["filename,labels,split"]
    for number in range(12):
        stripes = np.tile(np.arange(40) // (2 + number % 3) % 2 * 255, (40, 1))
        pixels = rng.integers(0, 256, (40, 40)) if number >= 8 else stripes
        Image.fromarray(pixels.astype(np.uint8)).convert("RGB").save(folder / f"{number:02}.png")
        lines.append(f"{number:02}.png,{'ab'[number % 2]},{'test' if number >= 8 else 'train'}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def walk(pictures: Path, home: Path, **bow: object) -> Walk:
    return Walk(pictures, home, extractors=("bow_sift",), bow_sift={**BOW, **bow})


def test_the_codebook_is_learned_from_training_items_only(pictures: Path, tmp_path: Path) -> None:
    made = walk(pictures, tmp_path / "home")
    features = load_features(made.workspace.store, made.refs["features"])
    learned = load_learned(features.recipe, made.workspace.store)
    files = [(pictures / f"{number:02}.png").read_bytes() for number in range(8)]
    expected = BowSift(**BOW).learn(files)  # type: ignore[arg-type]
    np.testing.assert_array_equal(learned["words"], expected["words"])
    row = BowSift(**BOW).with_learned(expected).extract_bytes(files[3])  # type: ignore[arg-type]
    np.testing.assert_array_equal(features.X[3], row)


@pytest.mark.slow
def test_a_changed_test_item_leaves_the_codebook_fresh(pictures: Path, tmp_path: Path) -> None:
    walk(pictures, tmp_path / "home")
    Image.new("RGB", (40, 40), (9, 200, 30)).save(pictures / "10.png")
    second = walk(pictures, tmp_path / "home")
    assert LEARNING not in second.computed
    assert "features" in second.computed


@pytest.mark.slow
def test_a_changed_training_item_learns_again_and_status_says_so(pictures: Path, tmp_path: Path) -> None:
    first = walk(pictures, tmp_path / "home")
    Image.new("RGB", (40, 40), (9, 200, 30)).save(pictures / "02.png")
    states = {one.label: one.state for one in inspect_stages(first.config)}
    assert states[LEARNING] == "stale"
    second = walk(pictures, tmp_path / "home")
    assert {LEARNING, "features"} <= second.computed
    assert not walk(pictures, tmp_path / "home").computed


def test_new_items_use_the_codebook_of_the_model(pictures: Path, tmp_path: Path) -> None:
    made = walk(pictures, tmp_path / "home")
    dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
    new = tmp_path / "new"
    new.mkdir()
    (new / "x.png").write_bytes((pictures / "03.png").read_bytes())
    place, refs = NewItems(path=str(new)), {}
    source = ingest.open_collection(place, made.workspace)
    manifest = made.execute(ingest.stage(place, source, made.workspace))
    blocks = blocks_of_recipe(dataset.recipe)
    for stage in block_stages(blocks, place, source, manifest, refs, made.workspace):
        assert stage.label == "features"
        refs[stage.variant] = made.execute(stage)
    found = load_features(made.workspace.store, refs[""])
    np.testing.assert_array_equal(found.X[0], dataset.X[3])


@pytest.mark.slow
def test_a_store_without_the_codebook_is_named(pictures: Path, tmp_path: Path) -> None:
    made, other = walk(pictures, tmp_path / "home"), walk(pictures, tmp_path / "other", seed=1)
    recipe = load_features(made.workspace.store, made.refs["features"]).recipe
    source = ingest.open_collection(made.config.source, made.workspace)
    found = source.read(made.workspace.cache_dir)
    with pytest.raises(ConfigError, match=r"what the extractor bow_sift learned .* is not in the store"):
        compute_features(found.ids, found.parts[0], range(1), recipe, other.workspace, lambda done: None)


def test_words_per_class_are_refused_because_folds_would_leak(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"every score would be too good.*per_class=false"):
        walk(pictures, tmp_path / "home", per_class=True)


def test_a_large_collection_learns_from_a_fixed_choice() -> None:
    ids = [f"{number}.jpg" for number in range(3 * MAX_ITEMS)]
    rows = training_rows(ids, None)
    assert len(rows) == MAX_ITEMS
    assert rows == sorted(rows)
    more = training_rows([*ids, "new.jpg"], None)
    assert len(set(more) & set(rows)) >= MAX_ITEMS - 1


@pytest.mark.parametrize(
    ("split", "rows"),
    [
        (["train", "TEST", None, "val"], [0, 2]),
        (["train", "eval", "testing", " test"], [0]),
        (["Training ", "b", "", "c"], [0, 2]),
        (["", "test", "", "holdout"], [0, 2]),
        (["a", "b", "a", "b"], [0, 1, 2, 3]),
    ],
)
def test_items_of_other_splits_are_not_learned_from(split: list[str | None], rows: list[int]) -> None:
    assert training_rows(["a", "b", "c", "d"], split) == rows


def test_the_rule_is_part_of_the_keys() -> None:
    assert "tasks.training_rows" in task_code((), "tasks.stages.ingest")
    assert "tasks.training_rows" in task_code((), "tasks.stages.learning")


def test_a_codebook_that_was_learned_again_is_not_the_one_of_the_model(
    pictures: Path, tmp_path: Path
) -> None:
    made = walk(pictures, tmp_path / "home")
    recipe = dict(load_features(made.workspace.store, made.refs["features"]).recipe)
    recipe["learned"] = {**recipe["learned"], "digest": "another"}
    with pytest.raises(ConfigError, match="is not in the store"):
        load_learned(recipe, made.workspace.store)
