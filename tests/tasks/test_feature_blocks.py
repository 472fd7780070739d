"""Several extractors at once: one stage each, joined, prepared by block, and the same for new items."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from embedding_core.annotator import Annotator
from flows.config import RunConfig
from flows.pipeline import PipelineState, walk_data
from flows.runner import open_workspace
from flows.status import inspect_stages
from storage.artifacts.keys import ArtifactRef
from storage.errors import ConfigError
from tasks import annotation
from tasks.dataset import load_dataset, load_features
from tasks.reporter import Reporter
from tasks.runs import remember_run
from tasks.settings import NewItems, make_feature_settings
from tasks.stage import Stage, Workspace, run_stage
from tasks.stages import evaluation, ingest
from tasks.stages.feature_blocks import block_stages
from tests.conftest import local_config

Probe = Callable[[str], None]


class Listener(Reporter):
    """Keeps what the stages say."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def say(self, text: str) -> None:
        self._lines.append(text)


class Walk:
    """Runs the stages up to the graph and keeps what was computed."""

    def __init__(self, folder: Path, home: Path, overrides: tuple[str, ...] = (), **features: Any) -> None:
        config = local_config(folder, home, *overrides)
        settings = make_feature_settings()(**{"extractors": ("color_moments", "probe"), **features})
        self.config: RunConfig = config.model_copy(update={"features": settings})
        self.said: list[str] = []
        self.workspace: Workspace = open_workspace(self.config, Listener(self.said))
        self.computed: set[str] = set()
        self.refs: dict[str, ArtifactRef] = {}
        self.state: PipelineState = walk_data(self.config, self.workspace, self.execute)
        remember_run(self.workspace.store, self.config.source, self.refs)

    def execute(self, stage: Stage) -> ArtifactRef:
        outcome = run_stage(stage, self.workspace)
        if not outcome.cached:
            self.computed.add(stage.label)
        self.refs[stage.label] = outcome.ref
        return outcome.ref


@pytest.mark.slow
def test_blocks_stand_side_by_side(picture_folder: Path, tmp_path: Path, write_probe: Probe) -> None:
    write_probe("mean")
    made = Walk(picture_folder, tmp_path / "home")
    store = made.workspace.store
    moments, probe, joined = (
        load_features(store, made.refs[label])
        for label in ("features[color_moments]", "features[probe]", "features")
    )
    np.testing.assert_array_equal(joined.X, np.hstack([moments.X, probe.X]))
    assert joined.ids == moments.ids
    assert joined.feature_names is not None
    assert joined.feature_names[-1] == "probe:probe_0"
    dataset = load_dataset(store, made.refs["ingest"], made.refs["features"])
    assert [(one["name"], one["width"], one["scale"]) for one in dataset.blocks or []] == [
        ("color_moments", 384, "zscore"),
        ("probe", 1, "zscore"),
    ]


@pytest.mark.slow
def test_a_changed_block_recomputes_that_block_alone(
    picture_folder: Path, tmp_path: Path, write_probe: Probe
) -> None:
    write_probe("mean")
    first = Walk(picture_folder, tmp_path / "home")
    assert not Walk(picture_folder, tmp_path / "home").computed
    write_probe("max")
    states = {one.label: one.state for one in inspect_stages(first.config)}
    assert states["features[color_moments]"] == "fresh"
    assert states["features[probe]"] == "stale"
    computed = Walk(picture_folder, tmp_path / "home").computed
    assert {label for label in computed if label.startswith("features")} == {"features[probe]", "features"}


@pytest.mark.slow
def test_a_changed_image_is_extracted_in_every_block_and_no_other(
    picture_folder: Path, tmp_path: Path, write_probe: Probe
) -> None:
    write_probe("mean")
    first = Walk(picture_folder, tmp_path / "home")
    Image.new("RGB", (20, 20), (9, 200, 30)).save(picture_folder / "p05.png")
    found = {one.label: one for one in inspect_stages(first.config)}
    for label in ("features[color_moments]", "features[probe]"):
        assert found[label].reasons[0] == "1 of 40 items to extract"


@pytest.mark.slow
def test_a_new_weight_leaves_the_blocks_fresh(
    picture_folder: Path, tmp_path: Path, write_probe: Probe
) -> None:
    write_probe("mean")
    Walk(picture_folder, tmp_path / "home")
    heavy = Walk(picture_folder, tmp_path / "home", weights={"probe": 3.0}, scales={"probe": "unit"})
    assert {label for label in heavy.computed if label.startswith("features")} == {"features"}
    assert "affinity" in heavy.computed
    dataset = load_dataset(heavy.workspace.store, heavy.refs["ingest"], heavy.refs["features"])
    assert [(one["scale"], one["weight"]) for one in dataset.blocks or []] == [("zscore", 1.0), ("unit", 3.0)]


@pytest.mark.slow
def test_methods_are_scored_on_joined_blocks(
    picture_folder: Path, tmp_path: Path, write_probe: Probe
) -> None:
    write_probe("mean")
    scores = []
    for weight in (1e-3, 1e3):
        made = Walk(picture_folder, tmp_path / "home", weights={"probe": weight})
        stage = evaluation.stage("1nn", {}, made.config.evaluation, made.state.data, made.workspace)
        scores.append(evaluation.load_scores(made.workspace.store, made.execute(stage)))
    assert scores[0] != scores[1], "a block of little weight and one of much decide alike"


@pytest.mark.slow
def test_new_items_get_the_features_of_the_model(
    picture_folder: Path, tmp_path: Path, write_probe: Probe
) -> None:
    write_probe("mean")
    made = Walk(picture_folder, tmp_path / "home", weights={"probe": 2.0})
    workspace, store = made.workspace, made.workspace.store
    dataset = load_dataset(store, made.refs["ingest"], made.refs["features"])
    annotator = Annotator(
        "svm", blocks=dataset.blocks, recipe=dataset.recipe, label_names=dataset.label_names
    ).fit(dataset.X, dataset.Y)
    model = annotation.FittedModel(annotator, "digest", "run", "svm")

    place = NewItems(path=str(picture_folder))
    source = ingest.open_collection(place, workspace)
    manifest = made.execute(ingest.stage(place, source, workspace))
    new: dict[str, ArtifactRef | None] = {}
    for stage in block_stages(model.blocks, place, source, manifest, new, workspace):
        new[stage.variant] = made.execute(stage)
    labels = made.execute(annotation.stage(model, place.path, new[""], workspace))
    found = annotation.load_annotations(store, labels)
    np.testing.assert_array_equal(found.scores, annotator.predict_scores(dataset.X))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"weights": {"gabor": 2.0}}, r"features\.weights names 'gabor'.*color_moments, probe"),
        ({"scales": {"gabor": "unit"}}, r"features\.scales names 'gabor'"),
    ],
)
def test_settings_of_absent_extractors_are_refused(
    picture_folder: Path, tmp_path: Path, write_probe: Probe, features: Any, message: str
) -> None:
    write_probe("mean")
    with pytest.raises(ConfigError, match=message):
        Walk(picture_folder, tmp_path / "home", **features)


def test_extractors_of_images_are_refused_for_a_table(tmp_path: Path, write_probe: Probe) -> None:
    write_probe("mean")
    with pytest.raises(ConfigError, match=r"probe reads images, but iris contains features"):
        Walk(Path("iris"), tmp_path / "home", extractors=("probe",))


@pytest.mark.slow
def test_color_space_auto_is_chosen_by_each_fit_and_used_for_new_items(
    picture_folder: Path, tmp_path: Path
) -> None:
    moments = {"grid": (2, 2), "color_space": "auto"}
    made = Walk(picture_folder, tmp_path / "home", extractors=("color_moments",), color_moments=moments)
    dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
    (block,) = dataset.blocks or []
    assert (block["width"], block["alternatives"]) == (4 * 24, 4)
    model = Annotator("1nn", blocks=dataset.blocks, recipe=dataset.recipe).fit(dataset.X, dataset.Y)
    assert model.scaler_.choices_[0] in range(4)
    assert model.scaler_.transform(dataset.X).shape[1] == 24
    fitted = annotation.FittedModel(model, "digest", "run", "1nn")
    assert [plan.is_prepared for plan in fitted.blocks] == [True]
    stage = evaluation.stage("1nn", {}, made.config.evaluation, made.state.data, made.workspace)
    assert evaluation.load_scores(made.workspace.store, made.execute(stage))


class TestSuppliedBlocks:
    """What `features.scale=auto` means for features that a user brings."""

    def scales(self, made: Walk) -> dict[str, str]:
        return {block.name: block.preparation["scale"] for block in made.state.blocks}

    @pytest.mark.slow
    def test_joined_tables_are_scaled_by_column(self, picture_folder: Path, tmp_path: Path) -> None:
        """A column of large numbers does not drown the others of its table, nor the block beside it."""
        names = sorted(path.name for path in picture_folder.glob("*.png"))
        rng = np.random.default_rng(3)
        rows = [f"{name},{rng.normal() * 1e6},{rng.normal()}" for name in names]
        table = tmp_path / "more.csv"
        table.write_text("id,income,age\n" + "\n".join(rows) + "\n")
        made = Walk(picture_folder, tmp_path / "home", extractors=("color_moments", f"table:{table}"))
        assert self.scales(made) == {"color_moments": "zscore", "table:more.csv": "zscore"}
        dataset = load_dataset(made.workspace.store, made.refs["ingest"], made.refs["features"])
        model = Annotator(
            "1nn",
            blocks=dataset.blocks,
            recipe=dataset.recipe,
            label_names=dataset.label_names,
            single_label=dataset.single_label,
        ).fit(dataset.X, dataset.Y)
        labeled = (dataset.Y >= 0).all(axis=1)
        variances = model.scaler_.transform(dataset.X)[labeled].var(axis=0)
        np.testing.assert_allclose(variances[-2], variances[-1], rtol=1e-3)
        np.testing.assert_allclose(variances[-2:].sum(), variances[:-2].sum(), rtol=1e-3)

    def test_settings_win(self, picture_folder: Path, tmp_path: Path) -> None:
        names = sorted(path.name for path in picture_folder.glob("*.png"))
        table = tmp_path / "more.csv"
        table.write_text("id,x\n" + "\n".join(f"{name},{k}" for k, name in enumerate(names)) + "\n")
        choice = {"extractors": ("color_moments", f"table:{table}"), "scales": {"table:more.csv": "none"}}
        made = Walk(picture_folder, tmp_path / "home", **choice)
        assert self.scales(made) == {"color_moments": "zscore", "table:more.csv": "none"}
        alone = Walk(picture_folder, tmp_path / "home", extractors=(f"table:{table}",))
        assert self.scales(alone) == {"table:more.csv": "none"}
