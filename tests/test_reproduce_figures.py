"""Figures of the experiments: each is written, and is a picture."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from embedding_core.protocols import separability
from embedding_core.protocols.placement import place_rows
from embedding_core.protocols.trial import Arm, TrialData
from storage.schemas import TrialCell
from storage.sources.toy_sets import draw_three_suns
from tasks.reproduce import few_labels_figure, neighborhood_figure, separability_figure, suns_figure
from tasks.reproduce.comparison import compare
from tasks.reproduce.eigenmaps import FIGS
from tasks.reproduce.label_places import near_groups
from tasks.reproduce.margin import TOY, UCI
from tasks.reproduce.page import Story
from tasks.reproduce.panels import curves_of
from tasks.reproduce.projections import USPS
from tasks.reproduce.trials import Trial, run_trial
from tests.test_separability import two_labels
from tests.trial_sets import blobs


def tell(experiment, sets, quick=True):
    """Run every trial in this process, and gather what a figure needs."""
    cells = {}
    for dataset in experiment.datasets:
        settings = experiment.settings(dataset, quick)
        for arm in experiment.arms_on(dataset):
            cells[dataset, arm.title] = [
                TrialCell(cell.condition, preprocessing, cell.metric, number, cell.value)
                for preprocessing in experiment.preprocessing_of(arm, dataset)
                for number in range(settings["trials"])
                for cell in run_trial(
                    Trial(experiment.protocol, arm, settings, preprocessing, number), sets[dataset]
                )[0]
            ]
    rows = compare(experiment, cells, quick)
    return Story(experiment, quick, rows, cells, sets.__getitem__, lambda name, row: np.zeros((1, 1, 3)))


def check_pictures(figures, names):
    assert set(figures) == set(names)
    for png in figures.values():
        image = Image.open(io.BytesIO(png)).convert("L")
        assert min(image.size) > 300
        assert len(np.unique(np.asarray(image))) > 20


def test_neighborhoods():
    small = {"labelled": 40, "dimensions": [2, 3], "neighbors": 3, "trials": 1}
    experiment = replace(
        USPS,
        arms=(
            Arm("DP", "discriminative_projections", {"n_components": 3}),
            Arm("LDA", "lda", {"n_components": 3}),
            Arm("DP, mu = 1000", "discriminative_projections", {"n_components": 2, "mu": 1000.0}),
            *USPS.baselines,
        ),
        quick=small,
        preprocessing=("raw",),
    )
    story = tell(experiment, {"usps": blobs(K=4)})
    figures = neighborhood_figure.draw(story)
    check_pictures(figures, ["hit-rates.png", "embeddings-3d.png", "embeddings-2d.png", "label-places.png"])
    curves = neighborhood_figure._curves(story.rows, "usps", "raw")
    assert list(curves) == ["DP 3-D", "1NN, all features", "LDA 3-D"]
    assert [point[0] for point in curves["1NN, all features"]] == [1, 2, 3]


def test_labels_that_lie_together_are_named_together():
    places = np.array([[0.0, 0.0], [0.1, 0.0], [10.0, 0.0]])
    groups = near_groups(places, ["0", "8", "5"])
    assert [name for _, name in groups] == ["0 8", "5"]
    np.testing.assert_allclose(groups[0][0], [0.05, 0.0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* items have no link", "ignore:The graph of neighbours")
def test_separability():
    data = blobs(80)
    arms = tuple(arm for arm in FIGS.arms if arm.role == "paper")
    experiment = replace(FIGS, datasets=("digits", "scene"), arms=arms)
    story = tell(experiment, {"digits": data, "scene": two_labels()})
    check_pictures(separability_figure.draw(story), ["digits-balance.png", "digits-others.png", "scene.png"])


def test_separability_draws_the_shuffle_that_was_measured(monkeypatch):
    """Else the number beside a picture would be that of another one."""
    data, placed = blobs(80), []

    def remember(arm, seen, *rest):
        placed.append(seen.Y)
        return place_rows(arm, seen, *rest)

    monkeypatch.setattr(separability, "place_rows", remember)
    experiment = replace(FIGS, datasets=("digits",), arms=(FIGS.arms[3],))
    story = tell(experiment, {"digits": data})
    given, dealt = separability_figure._both(story, "digits")
    np.testing.assert_array_equal(placed[0], given.Y)
    np.testing.assert_array_equal(placed[1], dealt.Y)


def suns() -> TrialData:
    toy = draw_three_suns()
    names, classes = np.unique(toy.classes, return_inverse=True)
    return TrialData(toy.X, np.eye(3, dtype=np.int8)[classes], tuple(names), single_label=True)


@pytest.mark.parametrize("count", [2, 6])
def test_suns(count):
    copies = tuple(replace(TOY.arms[0], title=f"SVM {number}") for number in range(count))
    experiment = replace(
        TOY,
        arms=(*copies, *TOY.baselines),
        quick={"trials": 2, "labelled": [0.2, 0.5], "neighbors": [10]},
    )
    check_pictures(suns_figure.draw(tell(experiment, {"three_suns": suns()})), ["decisions.png", "error.png"])


def test_few_labels():
    experiment = replace(
        UCI,
        datasets=("sonar",),
        arms=(UCI.arms[0], *UCI.baselines),
        quick={"trials": 2, "labelled": [5, 10], "neighbors": [10]},
    )
    story = tell(experiment, {"sonar": blobs(K=2)})
    check_pictures(few_labels_figure.draw(story), ["accuracy.png"])
    curves = curves_of([row for row in story.rows if row.preprocessing == "raw"])
    assert list(curves) == ["SVM", "1NN", "scaled SVM"]
    assert [point[0] for point in curves["SVM"]] == [5.0, 10.0]
