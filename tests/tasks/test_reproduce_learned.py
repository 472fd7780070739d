"""Features that are learned in each trial: visual words of training rows, kernels, joined blocks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from embedding_core.features.codebook import fit_codebook
from embedding_core.features.gray import gray_pixels
from embedding_core.protocols import new_rows, tuned_split
from flows.config import load_config
from flows.experiments import ExperimentPlan
from flows.runner import Run, RunResult, open_workspace
from storage.artifacts.schemas import Features
from storage.errors import SourceChanged, SourceError
from storage.reference import sets
from storage.reference.published import published_cells, published_claims
from storage.sources.base import Part
from tasks.reporter import Reporter
from tasks.reproduce import datasets, learned
from tasks.reproduce.datasets import DatasetRef, load_trial_data, open_dataset
from tasks.reproduce.experiment import Draws, Experiment
from tasks.reproduce.features import MSRC
from tasks.reproduce.margin import CALTECH
from tasks.reproduce.mlda import TABLE1
from tasks.stage import Stage, Workspace, run_stage

SETTINGS = {"trials": 2, "labeled": 2, "unlabeled": 3, "new": 2, "classes": 0, "seed": 0}
SMALL = replace(
    CALTECH, datasets=("caltech101",), full=SETTINGS, arms=(CALTECH.arms[0], *CALTECH.baselines[:1])
)
CLASSES = ("BACKGROUND_Google", "ants", "beaver", "crab")


def draw_shape(kind: int, rng: np.random.Generator) -> Image.Image:
    """A gray picture with shapes of one kind on noise."""
    image = Image.fromarray(rng.integers(90, 130, (48, 56), dtype=np.uint8))
    pen = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = rng.integers(2, 40, 2).tolist()
        box = (x, y, x + 12, y + 9)
        (pen.line, pen.line, pen.rectangle, pen.ellipse)[kind](box, fill=250)
    return image.convert("RGB")


def write_categories(data: Path, per_class: int = 7) -> Path:
    """Caltech-101 as a user has it, with three categories and the background class."""
    folder = data / "caltech101"
    (folder / "images").mkdir(parents=True)
    rng, lines = np.random.default_rng(0), ["filename,labels,part"]
    for kind, name in enumerate(CLASSES):
        for number in range(per_class):
            file = f"images/{name}__{number:04d}.png"
            draw_shape(kind, rng).save(folder / file)
            lines.append(f"{file},{name},a")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(autouse=True)
def few_words(monkeypatch):
    """Small codebooks."""
    known = dict(sets.reference_sets())
    for name in ("caltech101", "msrc_sift", "msrc_joined"):
        words = {**known[name].words, "n_words": 5, "levels": 1}
        extractors = tuple(one for one in known[name].extractors if one in ("color_moments", "bow_sift"))
        known[name] = replace(known[name], words=words, extractors=extractors)
    monkeypatch.setattr(datasets, "reference_sets", lambda: known)


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    config = load_config(None, home=str(tmp_path / "home"), executor="serial", tracking={"enabled": False})
    return open_workspace(config, Reporter())


def opened(workspace: Workspace, folder: Path, draws: Draws, name: str = "caltech101") -> DatasetRef:
    return open_dataset(name, folder, workspace, lambda stage: run_stage(stage, workspace).ref, draws)


def run_experiment(experiment: Experiment, folder: Path, quick: bool = False) -> RunResult:
    config = load_config(None, home=str(folder / "home"), executor="serial", tracking={"enabled": False})
    return Run(ExperimentPlan(config, experiment, quick, folder)).run_stages()


@pytest.mark.slow
def test_the_experiment_runs_and_a_second_run_computes_nothing(tmp_path):
    write_categories(tmp_path)
    result = run_experiment(SMALL, tmp_path)
    ours = {row.condition: row for row in result.products.rows if row.mean is not None}
    assert set(ours) == {"unlabeled rows", "new rows"}
    assert all(row.trials == 2 and row.method == "SVM" for row in ours.values())
    assert ours["unlabeled rows"].paper == pytest.approx(0.302)
    assert ours["unlabeled rows"].verdict in ("reproduced", "better", "worse")
    assert set(ours["new rows"].baselines) == {"1NN"}
    assert ours["new rows"].mean > 0.4  # chance is a third
    assert run_experiment(SMALL, tmp_path).computed == 0


def test_a_quick_run_on_fewer_categories_is_not_comparable(tmp_path):
    write_categories(tmp_path)
    few = replace(SMALL, quick={"trials": 1, "classes": 2})
    rows = [row for row in run_experiment(few, tmp_path, quick=True).products.rows if row.trials]
    assert {row.reason for row in rows} == {"a quick run uses 2 classes of this set"}
    assert {row.verdict for row in rows} == {"not comparable"}


def test_words_are_those_of_the_labeled_rows_and_the_kernel_intersects_them(tmp_path, workspace):
    folder = write_categories(tmp_path)
    stages: list[Stage] = []

    def execute(stage: Stage):
        stages.append(stage)
        return run_stage(stage, workspace).ref

    draws = Draws("embedding_core.protocols.new_rows", SETTINGS)
    ref = open_dataset("caltech101", tmp_path, workspace, execute, draws)
    data = load_trial_data(workspace.store, ref, number=1)
    assert data.label_names == CLASSES[1:] and data.X.shape == (21, 21) and data.single_label
    train = new_rows.training_rows(data, SETTINGS, 1)
    files = sorted(folder.glob("images/[abc]*.png"))
    book = fit_codebook(
        [files[row].read_bytes() for row in train],
        [[int(data.classes[row])] for row in train],
        n_words=5,
        sample=1000000,
    )
    images = [gray_pixels(np.asarray(Image.open(file))) for file in files]
    X = np.stack([book.histogram(image, 1) for image in images]).astype(np.float64)
    literal = np.array([[np.minimum(x, z).sum() for z in X] for x in X])
    np.testing.assert_allclose(data.X, literal, atol=1e-6)
    labels = [stage.label for stage in stages]
    assert labels[-2:] == ["kernel[caltech101/trial 0]", "kernel[caltech101/trial 1]"]
    assert not np.allclose(data.X, load_trial_data(workspace.store, ref, number=0).X)


def test_wide_rows_of_words_are_sparse_and_give_the_same_kernel(tmp_path, workspace, monkeypatch):
    write_categories(tmp_path)
    draws = Draws("embedding_core.protocols.new_rows", {**SETTINGS, "trials": 1})
    dense = load_trial_data(workspace.store, opened(workspace, tmp_path, draws)).X
    monkeypatch.setattr(learned, "_WIDEST_DENSE", 10)
    config = load_config(None, home=str(tmp_path / "other"), executor="serial", tracking={"enabled": False})
    other = open_workspace(config, Reporter())
    sparse = load_trial_data(other.store, opened(other, tmp_path, draws)).X
    np.testing.assert_allclose(sparse, dense, atol=1e-6)


def words_key(workspace: Workspace, folder: Path, settings: dict, name: str = "caltech101") -> str:
    """Key of the words of the first trial."""
    keys: list[str] = []

    def execute(stage: Stage):
        if stage.name == "visual_words":
            keys.append(stage.recipe().key)
        return run_stage(stage, workspace).ref

    open_dataset(name, folder, workspace, execute, Draws("embedding_core.protocols.new_rows", settings))
    return keys[0]


@pytest.mark.slow
def test_the_key_of_words_covers_rows_and_parameters_but_not_the_number_of_trials(
    tmp_path, workspace, monkeypatch
):
    folder = write_categories(tmp_path)
    key = words_key(workspace, tmp_path, SETTINGS)
    assert words_key(workspace, tmp_path, {**SETTINGS, "trials": 1}) == key
    others = {
        words_key(workspace, tmp_path, {**SETTINGS, "seed": 1}),
        words_key(workspace, tmp_path, {**SETTINGS, "labeled": 3}),
        words_key(workspace, tmp_path, {**SETTINGS, "classes": 2}),
    }
    known = dict(datasets.reference_sets())
    known["caltech101"] = replace(known["caltech101"], words={**known["caltech101"].words, "n_words": 4})
    with monkeypatch.context() as patch:
        patch.setattr(datasets, "reference_sets", lambda: known)
        others.add(words_key(workspace, tmp_path, SETTINGS))
    draw_shape(1, np.random.default_rng(9)).save(folder / "images" / "ants__0000.png")
    others.add(words_key(workspace, tmp_path, SETTINGS))
    assert len(others | {key}) == 6


def test_joined_blocks_are_described_and_prepared_in_each_fit(tmp_path, workspace):
    folder = write_categories(tmp_path).rename(tmp_path / "msrc_v2")
    labels = (folder / "labels.csv").read_text().replace("BACKGROUND_Google,a", "horse|crab,a")
    (folder / "labels.csv").write_text(labels)
    settings = {"trials": 1, "seed": 0, "sizes": [18, 10]}
    ref = opened(workspace, tmp_path, Draws(MSRC.protocol, settings), "msrc_joined")
    data = load_trial_data(workspace.store, ref)
    assert [(one["name"], one["width"], one["scale"]) for one in data.blocks] == [
        ("color_moments", 384, "zscore"),
        ("bow_sift", 25, "zscore"),
    ]
    assert data.X.shape == (28, 384 + 25)
    (_, micro, *_) = tuned_split.trial(data, MSRC.arms[0], settings, "zscore", 0)
    assert micro.metric == "micro_f1" and micro.value > 0.4
    assert set(ref.inputs(workspace.store)) == {"labels", "features", "features[trial 0]"}


def test_an_image_that_changed_or_is_unreadable_is_an_error(tmp_path, workspace):
    folder = write_categories(tmp_path)
    paths = sorted(folder.glob("images/*.png"))
    part = Part("images", "images", ["0" * 32] * len(paths), paths=paths)
    every = np.arange(len(paths))
    pictures = learned.Pictures([path.name for path in paths], part, every, every % 4)
    with pytest.raises(SourceChanged, match=r"BACKGROUND_Google__0000\.png changed"):
        learned._learn_words(pictures, every[:1], {"n_words": 2})
    paths[1].unlink()
    with pytest.raises(SourceChanged, match="cannot be read"):
        learned._learn_words(pictures, every[1:2], {"n_words": 2, "per_class": True})
    found = Features(["a.png", "b.png"], ["", ""], np.ones((2, 3)), [None, "not an image"])
    assert learned.readable_rows(found, [0]).shape == (1, 3)
    with pytest.raises(SourceError, match=r"b\.png: not an image\. Replace the image"):
        learned.readable_rows(found, [0, 1])


def test_the_published_numbers_are_those_of_the_papers():
    printed = {(cell.method, cell.condition): cell.value for cell in published_cells("lpssvm-caltech")}
    methods = ("SVM", "LapSVM", "LapRLS", "LPP+SVM", "LPSSVM")
    for condition, values in (
        ("unlabeled rows", (30.2, 25.1, 28.6, 14.3, 33.7)),
        ("new rows", (29.8, 24.5, 26.1, 11.7, 30.1)),
    ):
        assert [printed[name, condition] for name in methods] == pytest.approx([v / 100 for v in values])
    assert set(methods) <= {arm.title for arm in CALTECH.arms}
    assert len(published_claims("lpssvm-caltech")) == 8
    sift = {cell.method: cell for cell in published_cells("mlda-table1") if cell.dataset == "msrc_sift"}
    assert set(sift) <= {arm.title for arm in TABLE1.arms} and len(sift) == 6
    assert {cell.status for cell in sift.values()} == {"ambiguous"}
