"""The data sets as the papers had them: rows, classes and splits."""

from pathlib import Path

import numpy as np
import pytest

from flows.config import load_config
from flows.pipeline import open_workspace
from storage.reference_sets import reference_sets
from tasks.dataset import Dataset
from tasks.reporter import Reporter
from tasks.reproduce.datasets import load_trial_data, open_dataset, paper_rows
from tasks.stage import run_stage


def test_rows_of_the_papers_part_alone():
    Y = np.zeros((2407, 1), dtype=np.int8)
    Y[::2] = 1
    items = Dataset([], None, Y, ["label"], False, {}, {})
    assert len(paper_rows(items, "usps")) == 1204
    assert paper_rows(items, "scene").tolist() == list(range(0, 1211, 2))


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
        ("ionosphere", (351, 34), {}),
        ("sonar", (208, 60), {}),
    ],
)
def test_sets_at_hand_are_the_papers(name, shape, counts, shared_data: Path, tmp_path: Path):
    config = load_config(None, home=str(tmp_path), tracking={"enabled": False})
    workspace = open_workspace(config, Reporter())
    found = open_dataset(name, shared_data, workspace, lambda stage: run_stage(stage, workspace).ref)
    data = load_trial_data(workspace.store, found)
    assert data.X.shape == shape
    assert data.Y.shape == reference_sets()[name].size
    sizes = dict(zip(data.label_names, data.Y.sum(axis=0).tolist(), strict=True))
    assert counts.items() <= sizes.items()
    if name == "tdt2":
        assert sorted(sizes.values()) == [811, 1222, 1828, 1844]
    if name == "scene":
        assert len(np.unique(data.Y, axis=0)) == 14
