"""The data sets as the papers use them: rows, classes and splits."""

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from PIL import Image

from embedding_core.features.color_moments import BANDS, ColorMoments
from embedding_core.protocols.trial import Arm
from flows.config import load_config
from flows.experiments import ExperimentPlan
from flows.runner import Run, open_workspace
from storage.errors import SourceError
from storage.reference.sets import is_original, locate, reference_sets
from tasks.dataset import Dataset
from tasks.reporter import Reporter
from tasks.reproduce import trials
from tasks.reproduce.comparison import compare
from tasks.reproduce.datasets import DatasetRef, load_trial_data, open_dataset, paper_rows
from tasks.reproduce.dle import TABLE5
from tasks.reproduce.kernel_dle import SPLITS
from tasks.reproduce.provenance import trace
from tasks.stage import Workspace, run_stage


def test_only_rows_that_the_paper_uses():
    Y = np.zeros((2407, 1), dtype=np.int8)
    Y[::2] = 1
    items = Dataset([], None, Y, ["label"], False, {}, {})
    assert len(paper_rows(items, "usps")) == 1204
    assert paper_rows(items, "scene").tolist() == list(range(0, 1211, 2))


def write_key_frames(folder: Path) -> None:
    """Twenty small images of a few concepts as a user with a license would have them."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir(parents=True)
    lines = ["filename,labels"]
    for number in range(20):
        name, labels = f"shot{number}.png", ("face", "face|person", "person|sky", "sky|horse")[number % 4]
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(folder / "images" / name)
        lines.append(f"{name},{labels}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")


def test_a_licensed_set_is_run_if_the_user_has_it(tmp_path):
    write_key_frames(tmp_path / "trecvid2005")
    assert locate("trecvid", tmp_path) and is_original("trecvid", tmp_path)
    config = load_config(None, home=str(tmp_path / "home"), executor="serial", tracking={"enabled": False})
    experiment = replace(
        TABLE5, arms=(Arm("MLLS", "mlls", {"alpha": 1.0, "beta": 1.0}),), preprocessing=("raw",)
    )
    plan = ExperimentPlan(config, experiment.only(["trecvid"]), False, tmp_path)
    rows = Run(plan).run_stages().products.rows
    (ours,) = [row for row in rows if row.dataset == "trecvid"]
    assert (ours.method, ours.trials, ours.paper) == ("MLLS", 5, pytest.approx(0.237))
    assert ours.verdict in ("reproduced", "better", "worse") and not ours.reason


def test_a_missing_licensed_set_is_skipped_and_reported(command, tmp_path, monkeypatch):
    monkeypatch.delenv("LABELSCAPE_DATA", raising=False)
    with pytest.raises(SourceError, match=r"expected .*trecvid2005/labels\.csv \(licensed"):
        locate("trecvid", tmp_path)
    rows = compare(TABLE5.only([]), {})
    reported = {(row.verdict, row.reason, row.primary) for row in rows if row.dataset == "trecvid"}
    assert reported == {("not comparable", "TRECVID 2005 is licensed and not available here", True)}
    answer = command("reproduce", "list", "--json", "--home", tmp_path)
    missing = {one["name"]: one["missing"] for one in json.loads(answer.out)}
    for name in ("dle-table5", "mlda-table1", "mlda-fig3"):
        assert "trecvid" in missing[name]


@pytest.fixture
def workspace(tmp_path):
    config = load_config(None, home=str(tmp_path / "home"), tracking={"enabled": False})
    return open_workspace(config, Reporter())


def opened(name: str, folder: Path, workspace: Workspace) -> DatasetRef:
    """A data set with all its stages run."""
    return open_dataset(name, folder, workspace, lambda stage: run_stage(stage, workspace).ref)


def test_moments_of_all_color_spaces_are_concatenated(tmp_path, workspace):
    write_key_frames(tmp_path / "msrc_v2")
    data = load_trial_data(workspace.store, opened("msrc_spaces", tmp_path, workspace))
    images = [np.asarray(Image.open(path)) for path in sorted((tmp_path / "msrc_v2" / "images").iterdir())]
    expected = [[ColorMoments(color_space=space).extract(one) for space in BANDS] for one in images]
    np.testing.assert_array_equal(data.X, np.reshape(expected, (20, 4 * 384)))
    # Every space that the features stage offers, named in the order of the columns.
    offered = get_args(get_type_hints(ColorMoments)["color_space"])
    assert (
        SPLITS.settings("msrc_spaces", quick=True)["blocks"]
        == list(BANDS)
        == [name for name in offered if name != "auto"]
    )


@pytest.mark.slow
def test_keys_and_page_cover_the_features_of_every_color_space(tmp_path, workspace):
    write_key_frames(tmp_path / "msrc_v2")
    plain, several = (opened(name, tmp_path, workspace) for name in ("msrc_rows", "msrc_spaces"))
    inputs = several.inputs(workspace.store)
    assert set(plain.inputs(workspace.store).items()) < set(inputs.items())
    assert len(set(inputs.values())) == 5  # of labels, and of four color spaces
    experiment = replace(SPLITS, overrides={}, full={"trials": 1, "seed": 0, "sizes": [12, 8]})
    refs = {}
    for one in (plain, several):
        stage = trials.stage(experiment, SPLITS.arms[0], one, False, workspace)
        refs[one.name, "Kernel DLE"] = run_stage(stage, workspace).ref
    made = trace(workspace.store, refs)
    assert made["msrc_rows", "Kernel DLE"].features == inputs["features"]
    assert made["msrc_spaces", "Kernel DLE"].features not in inputs.values()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("scene", (1211, 294), {"Beach": 227, "Sunset": 165}),
        ("tdt2", (5705, 36771), {}),
        ("usps", (9298, 256), {}),
        ("scene_split", (2407, 294), {}),
        ("mediamill", (1911, 120), {}),
        ("mediamill_rows", (2000, 120), {}),
        ("yahoo", (6345, 37187), {}),
        ("pie", (11554, 1024), {}),
        ("msrc_rows", (591, 384), {}),
        ("msrc_spaces", (591, 4 * 384), {}),
        ("ionosphere", (351, 34), {}),
        ("sonar", (208, 60), {}),
    ],
)
def test_available_sets_match_the_papers(name, shape, counts, shared_data: Path, workspace):
    data = load_trial_data(workspace.store, opened(name, shared_data, workspace))
    assert data.X.shape == shape
    assert data.Y.shape == reference_sets()[name].size
    sizes = dict(zip(data.label_names, data.Y.sum(axis=0).tolist(), strict=True))
    assert counts.items() <= sizes.items()
    if name == "tdt2":
        assert sorted(sizes.values()) == [811, 1222, 1828, 1844]
    if name == "scene":
        assert len(np.unique(data.Y, axis=0)) == 14
