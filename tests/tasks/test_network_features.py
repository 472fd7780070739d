"""Extractors that run a network, through the stages: what is part of the key, and what `annotate` accepts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from embedding_core.errors import InvalidInput
from embedding_core.features.onnx_model import OnnxModel
from flows.runner import open_workspace
from storage.errors import SourceChanged, SourceError
from storage.sources import SourceOptions, open_source
from tasks.annotation import check_recipe
from tasks.dataset import load_features
from tasks.reporter import Reporter
from tasks.settings import FeatureSettings
from tasks.stages.features import compute_features, extractor_recipe, load_skipped
from tests.conftest import local_config
from tests.onnx_models import NORMALIZED, build, write_model
from tests.tasks.test_feature_extractors import run_features


def settings_of(file: Path, **parameters: Any) -> FeatureSettings:
    table = {"mean": [0.5] * 3, "std": [0.5] * 3, **parameters}
    return FeatureSettings.model_validate({"extractors": f"onnx:{file}", "onnx": table})


def recipe_of(file: Path, **parameters: Any) -> dict[str, Any]:
    return extractor_recipe("onnx", settings_of(file, **parameters).parameters(f"onnx:{file}"))


def test_the_path_after_the_colon_is_a_parameter(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "m.onnx", path="replaced")
    assert settings.parameters(settings.extractors[0])["path"] == str(tmp_path / "m.onnx")
    assert FeatureSettings.model_validate(settings.model_dump()) == settings
    with pytest.raises(ValueError, match="color_moments takes nothing after a colon"):
        FeatureSettings.model_validate({"extractors": "color_moments:8"})


def test_every_file_of_a_model_is_part_of_the_recipe(tmp_path: Path) -> None:
    file = write_model(tmp_path / "m.onnx", external=True)
    recipes = [recipe_of(file)]
    data = tmp_path / "m.onnx_data"
    data.write_bytes(data.read_bytes()[:-4] + b"\0\0\0\0")
    recipes.append(recipe_of(file))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"size": 8}))
    recipes.append(recipe_of(file))
    recipes += [recipe_of(file, **one) for one in ({"fit": "crop"}, {"pool": "mean"}, {"std": [1, 1, 1]})]
    write_model(file)
    recipes.append(recipe_of(file))
    assert len({json.dumps(recipe, sort_keys=True) for recipe in recipes}) == len(recipes)
    assert recipe_of(file) == recipes[-1]


def test_parameters_of_efficientnet_are_part_of_the_recipe() -> None:
    name = "efficientnet_lite0"
    one, other = (
        extractor_recipe(
            name,
            FeatureSettings.model_validate({name: {"fit": fit}}).parameters(name),
        )
        for fit in ("squash", "pad")
    )
    assert one != other
    assert one["code"] == other["code"]


@pytest.mark.parametrize(
    "executor", ["serial", "threads:3", pytest.param("processes:2", marks=pytest.mark.slow)]
)
def test_new_weights_make_the_features_stale(picture_folder: Path, tmp_path: Path, executor: str) -> None:
    config = local_config(picture_folder, tmp_path / "home", f"executor={executor}")
    file = write_model(tmp_path / "m.onnx", external=True)
    workspace = open_workspace(config, Reporter())
    with workspace.executor:
        first = run_features(picture_folder, settings_of(file), workspace)
        assert not first.cached
        assert run_features(picture_folder, settings_of(file), workspace).cached
        data = tmp_path / "m.onnx_data"
        data.write_bytes((2 * np.frombuffer(data.read_bytes(), np.float32)).tobytes())
        second = run_features(picture_folder, settings_of(file), workspace)
    assert not second.cached
    before, after = (load_features(workspace.store, one.ref) for one in (first, second))
    assert_allclose(after.X, 2 * before.X, rtol=1e-5)
    expected = OnnxModel(str(file), **NORMALIZED).extract_bytes((picture_folder / "p07.png").read_bytes())
    assert_array_equal(after.X[7], expected)


def test_a_model_that_changes_during_extraction_is_noticed(picture_folder: Path, tmp_path: Path) -> None:
    file = write_model(tmp_path / "m.onnx", external=True)
    recipe = recipe_of(file)
    (tmp_path / "m.onnx_data").write_bytes(bytes(60))
    source = open_source(SourceOptions(path=str(picture_folder)), tmp_path / "cache")
    found = source.read(tmp_path / "cache")
    workspace = open_workspace(local_config(picture_folder, tmp_path / "home"), Reporter())
    with pytest.raises(
        SourceChanged, match="a file of the extractor onnx changed during extraction; run again"
    ):
        compute_features(found.ids, found.parts[0], range(2), recipe, workspace, lambda done: None)


def test_annotate_needs_the_same_model_file(picture_folder: Path, tmp_path: Path) -> None:
    file = write_model(tmp_path / "m.onnx", external=True)
    source = open_source(SourceOptions(path=str(picture_folder), labeled=False), tmp_path / "cache")
    recipe = recipe_of(file)
    check_recipe(recipe, source)
    (tmp_path / "m.onnx_data").write_bytes(bytes(60))
    with pytest.raises(
        SourceError, match=r"another content of m\.onnx_data \(model .*m\.onnx\)\. Restore it, or train"
    ):
        check_recipe(recipe, source)
    file.unlink()
    with pytest.raises(InvalidInput, match=r"m\.onnx does not exist"):
        check_recipe(recipe, source)


def test_a_row_that_is_not_finite_is_skipped_and_listed(picture_folder: Path, tmp_path: Path) -> None:
    """The model takes the logarithm of the mean color, and one picture is black."""
    nodes = [("GlobalAveragePool", ["x"], ["m"], {}), ("Log", ["m"], ["y"], {})]
    file = write_model(tmp_path / "m.onnx", build(nodes))
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(picture_folder / "p03.png")
    workspace = open_workspace(local_config(picture_folder, tmp_path / "home"), Reporter())
    settings = settings_of(file, mean=[0, 0, 0], std=[1, 1, 1])
    done = run_features(picture_folder, settings, workspace)
    (skipped,) = load_skipped(workspace.store, done.ref).items()
    assert skipped == ("p03.png", "the network's output for it contains values that are not finite")
