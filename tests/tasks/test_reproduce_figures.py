"""Figures of the experiments: each one is a PNG file and shows what was measured."""

import importlib
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import tasks.report.figures
from embedding_core.labels import label_correlation
from embedding_core.protocols import separability, two_classes
from embedding_core.protocols.label_transfer import lone_labels
from embedding_core.protocols.neighborhoods import draw_split
from embedding_core.protocols.placement import place_rows
from embedding_core.protocols.trial import Arm, TrialData
from storage.artifacts.schemas import TrialCell
from storage.sources.toy_sets import draw_three_suns
from tasks.report.figure_style import to_png
from tasks.reproduce import (
    correlation_figure,
    face_figure,
    few_labels_figure,
    neighborhood_figure,
    plane_figure,
    separability_figure,
    suns_figure,
    transfer_figure,
)
from tasks.reproduce.comparison import compare
from tasks.reproduce.dle import FIG2
from tasks.reproduce.eigenmaps import FIGS
from tasks.reproduce.margin import TOY, UCI
from tasks.reproduce.mlda import FIG3, FIG4, FIG5
from tasks.reproduce.neighborhood_figure import near_groups
from tasks.reproduce.page import Story
from tasks.reproduce.panels import curves_of
from tasks.reproduce.projections import USPS
from tests.embedding_core.test_protocols import several_labels
from tests.embedding_core.test_separability import two_labels
from tests.trial_sets import blobs


def blank(name, row):
    return np.zeros((1, 1, 3))


def tell(experiment, sets, quick=True, picture=blank):
    """Run every trial in this process, and collect the input of a figure."""
    protocol, cells = importlib.import_module(experiment.protocol), {}
    for dataset in experiment.datasets:
        settings = experiment.settings(dataset, quick)
        for arm in experiment.arms_on(dataset):
            cells[dataset, arm.title] = [
                TrialCell(cell.condition, preprocessing, cell.metric, number, cell.value)
                for preprocessing in experiment.preprocessing_of(arm, dataset)
                for number in range(settings["trials"])
                for cell in protocol.trial(sets[dataset], arm, settings, preprocessing, number)
            ]
    rows = compare(experiment, cells, quick)
    return Story(experiment, quick, rows, cells, sets.__getitem__, picture)


@pytest.fixture
def drawn(monkeypatch):
    """Record the figures that a module draws, in order."""

    def watch(module):
        figures = []

        def keep(figure):
            figures.append(figure)
            return to_png(figure)

        monkeypatch.setattr(module, "to_png", keep)
        return figures

    return watch


def check_pictures(figures, names):
    assert set(figures) == set(names)
    for png in figures.values():
        image = Image.open(io.BytesIO(png)).convert("L")
        assert min(image.size) > 300
        assert len(np.unique(np.asarray(image))) > 20


@pytest.mark.slow
def test_neighborhoods(drawn):
    figures_drawn = drawn(neighborhood_figure)
    small = {"labeled": 40, "dimensions": [2, 3], "neighbors": 3, "trials": 1}
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
    _, split = draw_split(blobs(K=4), experiment.settings("usps", quick=True), 0)
    for figure, name in zip(figures_drawn[1:3], ("3d", "rectilinear"), strict=True):
        assert [axes.name for axes in figure.axes] == [name] * 4  # two methods; labeled and test rows
        titles = [axes.get_title("left") or axes.get_title() for axes in figure.axes]
        assert titles == ["DP, labeled", "DP, test", "LDA, labeled", "LDA, test"]
        shown = [len(axes.collections[0].get_offsets()) for axes in figure.axes]
        assert shown == [len(rows) for rows in split] * 2
        for above, below in (figure.axes[:2], figure.axes[2:]):
            assert above.get_xlim() == below.get_xlim()
            assert above.get_ylim() == below.get_ylim()
    curves = neighborhood_figure._curves(story.rows, "usps", "raw")
    assert list(curves) == ["DP 3-D", "1NN, all features", "LDA 3-D"]
    assert [point[0] for point in curves["1NN, all features"]] == [1, 2, 3]
    assert len(figures_drawn[0].axes[0].containers) == 3


@pytest.mark.slow
def test_faces_have_a_curve_with_error_bars_for_every_method(drawn):
    experiment = replace(
        FIG2,
        datasets=("yale", "orl"),
        quick={"trials": 3, "images": [4, 8]},
        quick_overrides={"orl": {"trials": 2}},
        overrides={},
    )
    story = tell(experiment, {"yale": blobs(K=4), "orl": blobs(K=3)})
    figures = drawn(face_figure)
    check_pictures(face_figure.draw(story), ["error.png"])
    expected = [
        "Eigenface",
        "Fisherface",
        "Laplacianface",
        "DLE (pca)",
        "DLE (raw)",
        "DLE, training images only",
        "1NN",
        "scaled SVM",
    ]
    for panel, dataset in zip(figures[0].axes, experiment.datasets, strict=True):
        curves = {curve.get_label(): curve for curve in panel.containers}
        assert list(curves) == expected
        assert all(curve.has_yerr for curve in curves.values())
        means = [row.mean for row in story.rows if (row.dataset, row.method) == (dataset, "Eigenface")]
        np.testing.assert_array_equal(curves["Eigenface"].lines[0].get_ydata(), means)
        first = next(row for row in story.rows if row.dataset == dataset)
        (bar,) = curves["1NN"].lines[2]
        low, high = bar.get_segments()[0][:, 1]
        assert (high - low) / 2 == pytest.approx(first.baseline_spreads["1NN"])
        assert (high + low) / 2 == pytest.approx(first.baselines["1NN"])
    remark = figures[0].get_supxlabel()
    assert "random splits: Yale faces 3, ORL faces 2." in remark


@pytest.mark.slow
def test_planes_show_the_rows_and_numbers_that_were_measured(drawn):
    data = several_labels(noise=1.6)
    experiment = replace(FIG4, full={**FIG4.full, "folds": 4, "trials": 2, "labels": ("red", "blue")})
    story = tell(experiment, {"music": data})
    figures = drawn(plane_figure)
    check_pictures(plane_figure.draw(story), ["planes.png"])
    panels = figures[0].axes
    either = data.Y[:, 0] != data.Y[:, 2]
    for panel in (panels[0], panels[1]):
        counts = [len(dots.get_offsets()) for dots in panel.collections]
        assert counts == [(data.Y[either, 0] > 0).sum(), (data.Y[either, 2] > 0).sum()]
    measured = {
        (cell.condition, title): cell.value
        for (_, title), cells in story.cells.items()
        for cell in cells
        if (cell.trial, cell.preprocessing) == (0, "raw")
    }
    wanted = [
        (two_classes.FITTED, "principal components"),
        (two_classes.FITTED, "MLDA"),
        (two_classes.HELD_OUT, "MLDA"),
        (two_classes.SHUFFLED, "MLDA"),
    ]
    reported = [panel.get_title("left").split()[-1] for panel in panels]
    assert reported == [f"{measured[one]:.2f}" for one in wanted]
    assert len(set(reported)) == 4  # otherwise one could be mistaken for another


@pytest.mark.slow
def test_correlation_maps_hold_the_label_correlation(drawn):
    sets = {"msrc": several_labels(), "music": two_labels()}
    figures = drawn(tasks.report.figures)
    pictures = correlation_figure.draw(tell(FIG3.only(list(sets)), sets))
    check_pictures(pictures, ["correlation-msrc.png", "correlation-music.png"])
    for figure, data in zip(figures, sets.values(), strict=True):
        shown = figure.axes[0].images[0].get_array()
        names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
        order = [data.label_names.index(name) for name in names]
        C = label_correlation(data.Y)[np.ix_(order, order)]
        assert sorted(order) == [0, 1, 2]
        np.testing.assert_array_equal(shown.mask, np.eye(3, dtype=bool))
        np.testing.assert_allclose(shown.compressed(), C[~np.eye(3, dtype=bool)])


@pytest.mark.slow
def test_transfer_shows_the_images_with_a_label_that_only_mlda_predicts(drawn):
    data = several_labels(noise=1.5)
    methods = {"1NN": ["1nn", {}], "MLDA": ["mlda", {}], "SVM": ["svm", {}]}
    settings = {"trials": 4, "folds": 4, "seed": 1, "methods": methods, "labels": []}
    experiment = replace(FIG5, full=settings, quick={}, arms=FIG5.arms[:1], preprocessing=("raw",))
    story = tell(experiment, {"msrc": data}, picture=lambda name, row: np.full((2, 2, 3), row, np.uint8))
    figures = drawn(transfer_figure)
    check_pictures(transfer_figure.draw(story), ["transfer.png", "correlation.png"])
    found = [one for number in range(4) for one in lone_labels(data, settings, "raw", number)["MLDA"]]
    right = {(one.row, data.label_names[one.label]) for one in found if one.right}
    shown = [
        (int(panel.images[0].get_array()[0, 0, 0]), panel.get_title("left").split()[1])
        for panel in figures[0].axes
        if panel.get_visible()
    ]
    assert 0 < len(shown) == min(len(right), 8)
    assert set(shown) <= right
    support = [
        float(re.search(r"\(([\d.]+)\)", panel.get_title("left"))[1])
        for panel in figures[0].axes[: len(shown)]
    ]
    assert support == sorted(support, reverse=True)
    assert len(set(support)) > 1
    remark = " ".join(figures[0].get_supxlabel().split())
    assert f"predicts {len(right)} correct labels in 4 folds, and {len(found) - len(right)} wrong" in remark


def test_labels_at_the_same_position_share_a_name():
    places = np.array([[0.0, 0.0], [0.1, 0.0], [10.0, 0.0]])
    groups = near_groups(places, ["0", "8", "5"])
    assert [name for _, name in groups] == ["0 8", "5"]
    np.testing.assert_allclose(groups[0][0], [0.05, 0.0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* items have no link", "ignore:The graph of neighbors")
def test_separability():
    data = blobs(80)
    arms = tuple(arm for arm in FIGS.arms if arm.role == "paper")
    experiment = replace(FIGS, datasets=("digits", "scene"), arms=arms)
    story = tell(experiment, {"digits": data, "scene": two_labels()})
    check_pictures(separability_figure.draw(story), ["digits-balance.png", "digits-others.png", "scene.png"])


def test_separability_draws_the_shuffle_that_was_measured(monkeypatch):
    """Otherwise the number beside a picture would belong to another one."""
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


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 6])
def test_suns(count):
    copies = tuple(replace(TOY.arms[0], title=f"SVM {number}") for number in range(count))
    experiment = replace(
        TOY,
        arms=(*copies, *TOY.baselines),
        quick={"trials": 2, "labeled": [0.2, 0.5], "neighbors": [10]},
    )
    check_pictures(suns_figure.draw(tell(experiment, {"three_suns": suns()})), ["decisions.png", "error.png"])


@pytest.mark.slow
def test_few_labels():
    experiment = replace(
        UCI,
        datasets=("sonar",),
        arms=(UCI.arms[0], *UCI.baselines),
        quick={"trials": 2, "labeled": [5, 10], "neighbors": [10]},
    )
    story = tell(experiment, {"sonar": blobs(K=2)})
    check_pictures(few_labels_figure.draw(story), ["accuracy.png"])
    curves = curves_of([row for row in story.rows if row.preprocessing == "raw"])
    assert list(curves) == ["SVM", "1NN", "scaled SVM"]
    assert [point[0] for point in curves["SVM"]] == [5.0, 10.0]
