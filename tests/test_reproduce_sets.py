"""The data sets as the papers had them: rows, classes and splits."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from embedding_core.protocols.trial import Arm
from flows.config import load_config
from flows.pipeline import open_workspace
from flows.reproduction import reproduce_one
from storage.errors import SourceError
from storage.reference_sets import is_original, locate, reference_sets
from tasks.dataset import Dataset
from tasks.reporter import Reporter
from tasks.reproduce.comparison import compare
from tasks.reproduce.datasets import load_trial_data, open_dataset, paper_rows
from tasks.reproduce.dle import TABLE5
from tasks.stage import run_stage


def test_rows_of_the_papers_part_alone():
    Y = np.zeros((2407, 1), dtype=np.int8)
    Y[::2] = 1
    items = Dataset([], None, Y, ["label"], False, {}, {})
    assert len(paper_rows(items, "usps")) == 1204
    assert paper_rows(items, "scene").tolist() == list(range(0, 1211, 2))


def write_key_frames(folder: Path) -> None:
    """Twenty small images of two concepts as a user with a licence would have them."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir(parents=True)
    lines = ["filename,labels"]
    for number in range(20):
        name, labels = f"shot{number}.png", ("face", "face|person", "person|sky", "sky")[number % 4]
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(folder / "images" / name)
        lines.append(f"{name},{labels}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")


def test_a_licensed_set_is_run_where_a_user_has_it(tmp_path):
    write_key_frames(tmp_path / "trecvid2005")
    assert locate("trecvid", tmp_path) and is_original("trecvid", tmp_path)
    config = load_config(None, home=str(tmp_path / "home"), workers=1, tracking={"enabled": False})
    experiment = replace(
        TABLE5, arms=(Arm("MLLS", "mlls", {"alpha": 1.0, "beta": 1.0}),), preprocessing=("raw",)
    )
    rows = reproduce_one(experiment.only(["trecvid"]), False, tmp_path, config).rows
    (ours,) = [row for row in rows if row.dataset == "trecvid"]
    assert (ours.method, ours.trials, ours.paper) == ("MLLS", 5, pytest.approx(0.237))
    assert ours.verdict in ("reproduced", "better", "worse") and not ours.reason


def test_a_licensed_set_that_is_not_there_is_left_out_and_told(command, tmp_path, monkeypatch):
    monkeypatch.delenv("LABELSCAPE_DATA", raising=False)
    with pytest.raises(SourceError, match=r"trecvid2005/labels\.csv is expected \(licensed"):
        locate("trecvid", tmp_path)
    rows = compare(TABLE5.only([]), {})
    told = {(row.verdict, row.reason, row.primary) for row in rows if row.dataset == "trecvid"}
    assert told == {("not comparable", "TRECVID 2005 is licensed, and not at hand", True)}
    answer = command("reproduce", "list", "--json", "--home", tmp_path)
    missing = {one["name"]: one["missing"] for one in json.loads(answer.out)}
    for name in ("dle-table5", "mlda-table1", "mlda-fig3"):
        assert "trecvid" in missing[name]


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
