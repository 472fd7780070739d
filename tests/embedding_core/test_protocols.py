"""Protocols of the papers: exact draws, and no test label that reaches training."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from embedding_core.annotator import Annotator
from embedding_core.errors import InvalidInput
from embedding_core.protocols import (
    faces,
    label_pairs,
    label_transfer,
    multilabel_folds,
    semi_supervised,
    two_classes,
)
from embedding_core.protocols.trial import (
    Arm,
    TrialData,
    corrupt,
    draw_labeled,
    draw_per_class,
    draw_rows,
    find_label,
    predict,
    prepare,
    trial_rng,
)
from embedding_core.subspace import principal
from embedding_core.subspace.pca import PCA
from tests.trial_sets import shuffle_rows

SEMI = {"labeled": 0.2, "wrong": 0.05, "readings": ["clean", "within", "more"], "seed": 3}
GRAPH = {"graph": "gaussian", "sigma": "cv"}
ARMS = [
    Arm("DLE", "dle", GRAPH),
    Arm("LPP", "lpp", GRAPH),
    Arm("HF", "harmonic_functions", GRAPH),
    Arm("KL", "kmeans_laplacian", GRAPH),
    Arm("transducer", "spectral_graph_transducer", {"sigma": "cv"}),
    Arm("1NN", "1nn"),
    Arm("SVM", "svm", {"scale": "none"}),
    Arm("faces", "laplacianfaces", fit_on="train"),
]


def iris() -> TrialData:
    """Every second row of iris."""
    X, y = load_iris(return_X_y=True)
    return TrialData(X[::2], np.eye(3, dtype=np.int8)[y[::2]], ("a", "b", "c"), single_label=True)


def several_labels(noise: float = 0.4) -> TrialData:
    """Rows with any number of three labels, which the features tell with some noise."""
    rng = np.random.default_rng(0)
    Y = (rng.random((80, 3)) < 0.4).astype(np.int8)
    Y[~Y.any(axis=1), 0] = 1
    X = Y @ rng.normal(size=(3, 6)) + noise * rng.normal(size=(80, 6))
    return TrialData(X, Y, ("red", "green", "blue"))


def fitted_state(model: object) -> dict[str, np.ndarray]:
    """The numbers that a fit left behind."""
    found = {}
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, (np.ndarray, float, int)):
            found[name] = np.asarray(value)
    return found


@pytest.fixture
def fits(monkeypatch):
    """Every model that is fitted."""
    models = []
    fit = Annotator.fit

    def remember(self, *arguments):
        models.append(fit(self, *arguments))
        return models[-1]

    monkeypatch.setattr(Annotator, "fit", remember)
    return models


def check_hidden(arm, data, train, test, preprocessing, fits):
    """Shuffled labels of test rows change neither an answer nor a number of the fit."""
    answers = [predict(arm, one, train, test, preprocessing) for one in (data, shuffle_rows(data, test))]
    np.testing.assert_array_equal(*answers)
    before, after = (fitted_state(model.model_) for model in fits)
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arm", "preprocessing"),
    [(arm, "raw") for arm in ARMS]
    + [(arm, made) for arm in ARMS[:1] + ARMS[-3:] for made in ("zscore", "pca")],
    ids=lambda given: given if isinstance(given, str) else given.title,
)
def test_test_labels_do_not_reach_the_fit(arm, preprocessing, fits):
    data = iris()
    train, test = draw_labeled(data.classes, 0.2, trial_rng(0, 0))
    check_hidden(arm, data, train, test, preprocessing, fits)


MULTI_LABEL_ARMS = [
    Arm("MLDA", "mlda"),
    Arm("Multi-label DLE", "multilabel_dle", GRAPH),
    Arm("MLGF", "mlgf", GRAPH),
    Arm("SMSE", "smse", GRAPH),
    Arm("MCGF", "mcgf", GRAPH),
    Arm("MDDM", "mddm"),
    Arm("MLSI", "mlsi"),
    Arm("MLLS", "mlls"),
    Arm("LDA-C1", "ldac1"),
    Arm("SVM", "svm"),
    Arm("1NN", "1nn"),
]


@pytest.mark.slow
@pytest.mark.parametrize("preprocessing", ["raw", "zscore"])
@pytest.mark.parametrize("arm", MULTI_LABEL_ARMS, ids=lambda arm: arm.title)
def test_several_test_labels_do_not_reach_the_fit(arm, preprocessing, fits):
    data = several_labels()
    train, test = multilabel_folds.fold_rows(data, {"folds": 4, "seed": 1}, 0)
    check_hidden(arm, data, train, test, preprocessing, fits)


@pytest.mark.slow
@pytest.mark.parametrize("arm", MULTI_LABEL_ARMS, ids=lambda arm: arm.title)
def test_several_training_labels_do_reach_the_fit(arm):
    data = several_labels()
    train, test = multilabel_folds.fold_rows(data, {"folds": 4, "seed": 1}, 0)
    answers = [predict(arm, one, train, test, "raw") for one in (data, shuffle_rows(data, train))]
    assert not np.array_equal(*answers)


@pytest.mark.slow
def test_training_labels_do_reach_the_fit():
    data = iris()
    train, test = draw_labeled(data.classes, 0.2, trial_rng(0, 0))
    wrong = corrupt(data.Y, train, len(train), trial_rng(0, 1))
    for arm in ARMS:
        answers = [predict(arm, replace(data, Y=Y), train, test, "raw") for Y in (data.Y, wrong)]
        assert not np.array_equal(*answers), arm.title


def test_sigma_depends_on_labeled_rows_alone():
    data = iris()
    train, test = draw_labeled(data.classes, 0.3, trial_rng(1, 0))

    def sigma(Y):
        hidden = np.full_like(Y, -1)
        hidden[train] = Y[train]
        return Annotator("dle", GRAPH).fit(data.X, hidden).model_.sigma_

    shuffled = data.Y.copy()
    shuffled[test] = shuffled[test[::-1]]
    assert sigma(data.Y) == sigma(shuffled)


@pytest.mark.parametrize("preprocessing", ["zscore", "pca"])
def test_preprocessing_is_learned_on_seen_rows(preprocessing):
    data = iris()
    seen = np.arange(30)
    moved = data.X.copy()
    moved[30:] *= 100
    before, after = (prepare(X, preprocessing, seen) for X in (data.X, moved))
    np.testing.assert_allclose(before[:30], after[:30])


def test_principal_components_are_those_of_pca_by_one_decomposition(monkeypatch):
    X, seen = iris().X, np.arange(0, 60, 2)
    expected = PCA(n_components=4).fit(X[seen]).transform(X)
    decomposed, decompose = [], principal.positive_part
    monkeypatch.setattr(principal, "positive_part", lambda S: decomposed.append(S) or decompose(S))
    places = prepare(X, "pca", seen)
    assert len(decomposed) == 1
    np.testing.assert_allclose(places, expected[:, : places.shape[1]], atol=1e-12)
    with pytest.raises(InvalidInput, match="The 30 rows of the fit are equal"):
        prepare(np.ones_like(X), "pca", seen)


def test_principal_components_of_columns_that_depend_on_each_other():
    X = iris().X
    wide = np.column_stack([X, np.zeros(len(X)), X[:, :2].sum(axis=1)])
    places = prepare(wide, "pca", np.arange(len(X)))
    assert places.shape[1] <= 4


def test_unknown_preprocessing_is_refused():
    with pytest.raises(InvalidInput, match="raw, zscore, unit, pca"):
        prepare(iris().X, "whitened", np.arange(5))


def test_drawn_rows_are_an_exact_share_and_disjoint():
    for n, fraction in ((562, 0.1), (150, 0.1), (178, 0.15)):
        drawn, rest = draw_rows(n, fraction, trial_rng(0, 0))
        assert len(drawn) == round(fraction * n)
        np.testing.assert_array_equal(np.sort([*drawn, *rest]), np.arange(n))


def test_draws_differ_by_trial_and_repeat_by_number():
    first, again, second = (draw_rows(200, 0.1, trial_rng(0, number))[0] for number in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)


def test_a_draw_has_two_classes_or_more():
    classes = np.zeros(60, dtype=int)
    classes[:3] = 1
    for number in range(10):
        labeled, _ = draw_labeled(classes, 0.1, trial_rng(0, number))
        assert len(np.unique(classes[labeled])) == 2


def test_draw_per_class_takes_as_many_of_each():
    classes = np.repeat([0, 1, 2], [5, 9, 7])
    train, test = draw_per_class(classes, 4, trial_rng(0, 0))
    assert np.bincount(classes[train]).tolist() == [4, 4, 4]
    assert not set(train) & set(test)
    with pytest.raises(InvalidInput, match="one class has 5"):
        draw_per_class(classes, 5, trial_rng(0, 0))


@pytest.mark.parametrize("count", [0, 1, 7, 20])
def test_corrupted_rows_are_exactly_as_many_as_asked(count):
    data = iris()
    rows = np.arange(10, 40)
    wrong = corrupt(data.Y, rows, count, trial_rng(0, 0))
    changed = np.flatnonzero((wrong != data.Y).any(axis=1))
    assert len(changed) == count
    assert set(changed) <= set(rows)
    assert (wrong.sum(axis=1) == 1).all()


def test_both_readings_of_the_wrong_labels():
    data = iris()
    cells = semi_supervised.trial(data, Arm("ceiling", "ceiling"), SEMI, "raw", 0)
    right = {cell.condition: cell.value for cell in cells}
    n, labeled = len(data.Y), round(0.2 * len(data.Y))
    more = round(0.05 * n)
    assert right["10 % labeled"] == 1.0
    assert right["5 % of the labeled wrong"] == 1 - round(0.05 * labeled) / labeled
    assert right["5 % more, all wrong"] == pytest.approx(labeled / (labeled + more))


def test_an_unknown_reading_is_refused():
    with pytest.raises(InvalidInput, match="clean, within, more"):
        semi_supervised.trial(iris(), ARMS[0], {**SEMI, "readings": ["some"]}, "raw", 0)


def test_wrong_labels_are_counted_as_errors_of_the_rest_only():
    data = iris()
    cells = semi_supervised.trial(data, Arm("1NN", "1nn"), SEMI, "raw", 0)
    assert [cell.metric for cell in cells] == ["accuracy"] * 3
    assert cells[0].value > 0.85
    assert cells[0].value > cells[2].value


def test_faces_give_an_error_for_each_number_of_images():
    settings = {"images": [2, 6], "most": 15, "seed": 0}
    cells = faces.trial(iris(), Arm("Fisherface", "fisherfaces"), settings, "raw", 0)
    assert [cell.condition for cell in cells] == ["2 per person", "6 per person"]
    assert all(0 <= cell.value < 0.5 for cell in cells)


def test_folds_of_a_sample_keep_labels_and_rows_together():
    data = several_labels()
    part = multilabel_folds.sample_rows(data, 30, 0)
    assert part.X.shape[0] == len(part.Y) == 30
    for x, y in zip(part.X, part.Y, strict=True):
        (row,) = np.flatnonzero((x == data.X).all(axis=1))
        np.testing.assert_array_equal(data.Y[row], y)


def test_a_sample_drops_labels_that_no_item_has():
    data = several_labels()
    data.Y[:, 1] = 0
    data.Y[~data.Y.any(axis=1), 0] = 1
    part = multilabel_folds.sample_rows(data, 30, 0)
    assert part.label_names == ("red", "blue")
    assert part.Y.shape == (30, 2)


def test_folds_measure_what_was_asked():
    settings = {"folds": 4, "seed": 1, "rows": 0, "metrics": ["macro_f1", "precision_class_mean"]}
    cells = multilabel_folds.trial(several_labels(), Arm("MLDA", "mlda"), settings, "zscore", 2)
    assert [cell.metric for cell in cells] == settings["metrics"]
    assert all(0.5 < cell.value <= 1 for cell in cells)


def test_label_pairs_come_largest_first():
    cells = label_pairs.trial(several_labels(), Arm("", "correlation"), {"pairs": 2}, "raw", 0)
    assert len(cells) == 2
    assert cells[0].value >= cells[1].value
    every = label_pairs.trial(several_labels(), Arm("", "correlation"), {"pairs": 9}, "raw", 0)
    assert {cell.condition for cell in every} == {"red and green", "red and blue", "green and blue"}


def test_planes_tell_fitted_held_out_and_shuffled_rows():
    settings = {"folds": 4, "seed": 1, "labels": ("red", "blue")}
    cells = two_classes.trial(several_labels(), Arm("MLDA", "mlda"), settings, "raw", 0)
    values = {cell.condition: cell.value for cell in cells}
    assert values[two_classes.FITTED] > 0.8
    assert values[two_classes.HELD_OUT] > 0.7
    assert values[two_classes.SHUFFLED] < values[two_classes.FITTED]


def test_a_baseline_names_held_out_rows_of_the_two_classes_in_all_features():
    data, settings = several_labels(), {"folds": 4, "seed": 1, "labels": ("red", "blue")}
    arm = Arm("1NN", "1nn", role="baseline")
    (cell,) = two_classes.trial(data, arm, settings, "raw", 0)
    train, test = multilabel_folds.fold_rows(data, settings, 0)
    red, blue = (data.Y[:, find_label(data, name)] > 0 for name in settings["labels"])
    known, asked = ([row for row in rows if red[row] != blue[row]] for rows in (train, test))
    right = [
        red[row] == red[min(known, key=lambda k: np.sum((data.X[k] - data.X[row]) ** 2))] for row in asked
    ]
    assert (cell.condition, cell.value) == (two_classes.HELD_OUT, pytest.approx(np.mean(right)))


def test_nearest_other_row_is_never_the_row_itself():
    twins = two_classes.Plane(np.zeros((4, 2)), np.array([True, True, True, True]))
    assert two_classes.neighbor_accuracy(twins) == 1.0
    apart = two_classes.Plane(
        np.array([[0.0, 0], [0, 1], [9, 0], [9, 1]]), np.array([True, False, True, False])
    )
    assert two_classes.neighbor_accuracy(apart) == 0.0


def test_a_plain_method_stands_in_for_each_of_the_others():
    """In its own place it says what it said; in another's its own old answers are in its way."""
    data = several_labels(noise=1.5)
    methods = {"1NN": ["1nn", {}], "MLDA": ["mlda", {}], "SVM": ["svm", {}]}
    settings = {"folds": 4, "seed": 1, "methods": methods, "labels": []}
    alone = label_transfer.lone_labels(data, settings, "raw", 0)
    plain = label_transfer.lone_labels(data, settings, "raw", 0, Arm("1NN", "1nn"))
    assert plain["1NN"] == alone["1NN"] != []
    assert plain["MLDA"] == plain["SVM"] == []
    values = {
        (cell.condition, cell.metric): cell.value
        for cell in label_transfer.trial(data, Arm("1NN", "1nn"), settings, "raw", 0)
    }
    assert sum(values.values()) == len(plain["1NN"])


def test_lone_labels_are_those_of_one_method_alone():
    data = several_labels(noise=1.5)
    methods = {"1NN": ["1nn", {}], "MLDA": ["mlda", {}], "SVM": ["svm", {}]}
    settings = {"folds": 4, "seed": 1, "methods": methods, "labels": ["green"]}
    found = label_transfer.lone_labels(data, settings, "raw", 0)
    train, test = multilabel_folds.fold_rows(data, settings, 0)
    answers = {title: predict(Arm(title, *spec), data, train, test, "raw") for title, spec in methods.items()}
    position = {row: place for place, row in enumerate(test.tolist())}
    assert sum(map(len, found.values())) > 0
    for title, lone in found.items():
        for one in lone:
            said = {name: bool(given[position[one.row], one.label]) for name, given in answers.items()}
            assert said.pop(title) and not any(said.values())
            assert one.right == bool(data.Y[one.row, one.label])
    cells = label_transfer.trial(data, Arm("", ""), settings, "raw", 0)
    in_all = [cell for cell in cells if cell.condition in methods]
    assert sum(cell.value for cell in in_all) == sum(map(len, found.values()))
    green = {cell.condition: cell.value for cell in cells if cell not in in_all}
    assert green == {
        f"{title}, green": sum(one.right and data.label_names[one.label] == "green" for one in lone)
        for title, lone in found.items()
    }
    assert sum(green.values()) > 0


def test_a_label_that_is_not_there_is_refused():
    with pytest.raises(InvalidInput, match="no label 'pink'; the labels are red, green, blue"):
        find_label(several_labels(), "pink")
