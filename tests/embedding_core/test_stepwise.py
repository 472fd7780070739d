"""Methods tuned inside the training labels: what is hidden, what is chosen, and what a choice means."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from embedding_core import DiscriminativeProjections, InvalidInput
from embedding_core.annotator import Annotator
from embedding_core.classifiers.composed import ProjectedNeighbors
from embedding_core.errors import TooManyComponents
from embedding_core.evaluation import hide_labels
from embedding_core.knn_classifier import NeighborLabels
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.protocols import stepwise
from embedding_core.protocols.stepwise import FOLDS, fit_tuned
from embedding_core.protocols.trial import draw_share_per_class, trial_rng
from tasks.reproduce.fixed_protocol import ARMS, PLAIN
from tests.embedding_core.test_protocols import several_labels
from tests.trial_sets import blobs, shuffle_rows

pytestmark = pytest.mark.slow

EVERY = (*ARMS, *PLAIN)
SLOW = {"SLE-ML", "LPSSVM", "Kernel DLE (ours)", "random forest", "RBF-SVC"}


def split(data, share=0.4):
    """A draw of each class, or every second row."""
    if data.single_label:
        return draw_share_per_class(data.classes, share, trial_rng(0, 0))
    return np.arange(0, len(data.Y), 2), np.arange(1, len(data.Y), 2)


def tuned(arm, data, train, test):
    method = "multilabel_dle" if arm.method == "dle" and not data.single_label else arm.method
    return fit_tuned(method, arm.params, data.X, data.Y, train, test)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [blobs, several_labels], ids=["classes", "labels"])
@pytest.mark.parametrize(
    "arm",
    [pytest.param(one, id=one.title, marks=[pytest.mark.slow] if one.title in SLOW else []) for one in EVERY],
)
def test_labels_of_training_rows_alone_reach_the_choice_and_the_fit(arm, make):
    data = make()
    train, test = split(data)
    first, second = (tuned(arm, one, train, test) for one in (data, shuffle_rows(data, test)))
    assert first.params == second.params
    np.testing.assert_array_equal(first.scores, second.scores)
    if first.left_out is not None:
        np.testing.assert_array_equal(first.left_out, second.left_out)
    other = tuned(arm, shuffle_rows(data, train), train, test)
    assert not np.array_equal(first.scores, other.scores)
    assert data.single_label or first.left_out.shape == data.Y[train].shape


def test_neighbors_are_chosen_as_a_search_by_hand_chooses_them():
    data = blobs()
    train, test = split(data)
    found = fit_tuned("1nn", {"neighbors": [1, 3, 5, 10, 15]}, data.X, data.Y, train, test)
    folds = stratified_folds(data.Y[train], FOLDS, 0)
    X, Y = data.X[train], data.Y[train]

    def answers(k):
        scores = np.empty(Y.shape)
        for rest, held in folds:
            scores[held] = NeighborLabels(k).fit(X[rest], Y[rest]).predict_scores(X[held])
        return scores

    right = {k: (answers(k).argmax(axis=1) == Y.argmax(axis=1)).mean() for k in (1, 3, 5, 10, 15)}
    k = found.params["neighbors"]
    assert right[k] == max(right.values()) > right[1]
    np.testing.assert_array_equal(found.left_out, answers(k))
    np.testing.assert_array_equal(found.scores, NeighborLabels(k).fit(X, Y).predict_scores(data.X[test]))


def test_neighbors_in_an_embedding_are_those_of_the_composed_classifier():
    data = several_labels(noise=1.5)
    train, test = split(data)
    candidates = [1, 3, 5, 10, 20]
    found = fit_tuned("mlda", {"neighbors": candidates}, data.X, data.Y, train, test)
    whole = ProjectedNeighbors("mlda", candidates=candidates, scale="none", inner_folds=FOLDS)
    whole.fit(data.X[train], data.Y[train])
    assert found.params["neighbors"] == whole.n_neighbors_ > 1
    np.testing.assert_allclose(found.scores, whole.predict_scores(data.X[test]))


def test_rows_of_an_inner_fold_are_answered_without_their_labels():
    data = blobs()
    train, test = split(data)
    grid = {"n_neighbors": 10, "sigma_times": 1.0, "neighbors": [1, 3]}
    found = fit_tuned("dle", grid, data.X, data.Y, train, test)
    for rest, held in stratified_folds(data.Y[train], FOLDS, 0):
        known, asked = train[rest], train[held]
        Z = Annotator("dle").fit(data.X, hide_labels(data.Y, known, asked)).model_.embedding_
        voters = NeighborLabels(found.params["neighbors"]).fit(Z[known], data.Y[known])
        np.testing.assert_allclose(found.left_out[held], voters.predict_scores(Z[asked]))


def test_later_steps_keep_what_was_chosen_before(monkeypatch):
    data = blobs()
    train, test = split(data)
    tried = []

    def take_the_last(Y, n_options, score_options, *others):
        assert len(list(score_options(np.arange(30), np.arange(30, 48)))) == n_options
        return n_options - 1, None

    def remember(self, params, fitted, held, readings):
        tried.append(tuple(params[name] for name in grid))
        return [np.zeros((len(held), 3))] * len(readings)

    monkeypatch.setattr(stepwise, "choose_scored", take_the_last)
    monkeypatch.setattr(stepwise._Bench, "inner_scores", remember)
    grid = {"n_neighbors": [3, 10], "sigma_times": [1.0, 4.0], "projection": ["u", "g"]}
    found = fit_tuned("dle", {**grid, "neighbors": [1, 5]}, data.X, data.Y, train, test)
    assert tried == [
        *[(3, 1.0, "u"), (10, 1.0, "u")],
        *[(10, 1.0, "u"), (10, 4.0, "u")],
        *[(10, 4.0, "u"), (10, 4.0, "g")],
    ]
    chosen = {"n_neighbors": 10, "sigma_times": 4.0, "projection": "g"}
    assert found.params == {**chosen, "dimensions": None, "neighbors": 5}


@pytest.mark.parametrize(
    ("method", "params", "own"),
    [
        ("dle", {"n_neighbors": 7, "sigma_times": 1.0}, {"n_neighbors": 7}),
        ("lpssvm", {"theta_times": 1.0, "landmarks": 300}, {"theta": "auto", "landmarks": None}),
        ("sle_ml", {"n_neighbors": 5}, {"n_neighbors": 5}),
    ],
)
def test_multiples_of_one_are_the_methods_own_values(method, params, own):
    data = blobs(n=60)
    train, test = split(data)
    found = fit_tuned(method, params, data.X, data.Y, train, test)
    fitted = Annotator(method, own).fit(data.X, hide_labels(data.Y, train, test))
    if method == "lpssvm":
        expected = fitted.predict_scores(data.X[test])
    else:
        Z = fitted.model_.embedding_
        expected = NeighborLabels(1).fit(Z[train], data.Y[train]).predict_scores(Z[test])
    np.testing.assert_allclose(found.scores, expected)


def test_the_first_dimensions_of_one_fit_stand_for_fits_with_fewer():
    data = blobs()
    train, test = split(data)
    cut = fit_tuned("mlda", {"dimensions": 1, "neighbors": 3}, data.X, data.Y, train, test)
    own = fit_tuned("mlda", {"n_components": 1, "neighbors": 3}, data.X, data.Y, train, test)
    np.testing.assert_array_equal(cut.scores, own.scores)


def test_the_widest_embedding_has_no_more_dimensions_than_the_rows():
    data = blobs(p=5)
    data = replace(data, X=np.column_stack([data.X, np.zeros(len(data.Y)), data.X[:, 0]]))
    train, test = split(data)
    grid = {"n_neighbors": 10, "sigma_times": 1.0, "n_components": "widest", "dimensions": [2, 50]}
    found = fit_tuned("discriminative_projections", grid, data.X, data.Y, train, test)
    assert found.scores.shape == (len(test), 3)


def test_principal_components_are_learned_on_what_the_method_sees():
    data = blobs()
    train, test = split(data)
    moved = data.X.copy()
    moved[test[0]] *= 50
    answers = [fit_tuned("mlda", {"pca": True}, X, data.Y, train, test).scores for X in (data.X, moved)]
    np.testing.assert_array_equal(answers[0][1:], answers[1][1:])


def test_too_few_rows_for_any_number_of_neighbors_are_reported():
    data = blobs(n=12)
    with pytest.raises(InvalidInput, match="inner training fold has only 2 rows"):
        fit_tuned("1nn", {"neighbors": [5]}, data.X, data.Y, np.arange(3), np.arange(3, 12))


def remember_widths(monkeypatch):
    """The n_components of every fit of discriminative projections from now on."""
    widths, fit = [], DiscriminativeProjections.fit

    def remember(self, *arguments, **others):
        widths.append(self.n_components)
        return fit(self, *arguments, **others)

    monkeypatch.setattr(DiscriminativeProjections, "fit", remember)
    return widths


def test_the_widest_embedding_is_as_wide_as_labeled_and_linked_rows_allow(monkeypatch):
    """A far cloud without labels adds a direction to the rows, and none to the method."""
    data = blobs()
    far = np.zeros((len(data.X), 1))
    cloud = np.flatnonzero(data.Y[:, 0] > 0)
    far[cloud] = 1e3
    X = np.hstack([data.X, far])
    train = np.setdiff1d(np.arange(0, len(X), 2), cloud)
    test = np.setdiff1d(np.arange(len(X)), train)
    params = {"n_components": "widest", "dimensions": [X.shape[1]], "neighbors": [1]}
    widths = remember_widths(monkeypatch)
    found = fit_tuned("discriminative_projections", params, X, data.Y, train, test)
    assert np.isfinite(found.scores).all()
    assert widths == [X.shape[1], X.shape[1] - 1]
    with pytest.raises(InvalidInput, match="exceeds the"):
        fit_tuned(
            "discriminative_projections", {**params, "n_components": X.shape[1]}, X, data.Y, train, test
        )


def test_a_refusal_of_anything_but_the_width_is_raised_at_once(monkeypatch):
    data, widths = blobs(p=7), remember_widths(monkeypatch)
    params = {"n_components": "widest", "dimensions": [7], "mu": -1.0}
    with pytest.raises(InvalidInput, match="mu=-1"):
        fit_tuned("discriminative_projections", params, data.X, data.Y, *split(data))
    assert widths == [7]


def test_too_many_components_are_reported_across_processes():
    reported = pickle.loads(pickle.dumps(TooManyComponents("n_components=7 exceeds 3.", 3)))
    assert (str(reported), reported.most) == ("n_components=7 exceeds 3.", 3)


@pytest.mark.parametrize("dimensions", [{}, {"dimensions": [None, 2]}], ids=["default", "all-among-them"])
def test_the_widest_embedding_has_the_rank_of_the_rows_where_all_dimensions_count(dimensions, monkeypatch):
    data, widths = blobs(p=5), remember_widths(monkeypatch)
    data = replace(data, X=np.column_stack([data.X, data.X[:, 0]]))
    fit_tuned(
        "discriminative_projections", {"n_components": "widest", **dimensions}, data.X, data.Y, *split(data)
    )
    assert set(widths) == {5}


def test_landmarks_are_at_most_the_rows_that_the_method_sees():
    data = blobs(n=60)
    train, test = split(data)
    scores = [
        fit_tuned(
            "kernel_mddm", {"landmarks": count, "neighbors": [1, 3]}, data.X, data.Y, train, test
        ).scores
        for count in (len(train) + 1, 300)
    ]
    np.testing.assert_array_equal(*scores)
