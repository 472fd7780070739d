"""Classifiers composed of other methods."""

import numpy as np
import pytest

from embedding_core.annotator import Annotator
from embedding_core.classifiers.baselines import calibrate_votes
from embedding_core.classifiers.composed import ProjectedNeighbors, ScoreMean
from embedding_core.errors import InvalidInput
from embedding_core.evaluation import predict_fold
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.model_selection.inner_choice import rate_scores
from embedding_core.registry import method_modules
from tests.synthetic import multi_label


def test_the_number_of_neighbors_rates_best_out_of_fold():
    X, Y = multi_label(90)
    model = ProjectedNeighbors("mlda", candidates=(1, 5, 20)).fit(X, Y)
    gathered = np.zeros((3, *Y.shape))
    for train, test in stratified_folds(Y, 3, seed=0):
        found = predict_fold("mlda", None, X, Y, train, test, scale="zscore", n_neighbors=(1, 5, 20))
        for option, one in enumerate(found):
            gathered[option, test] = one.scores
    ratings = [rate_scores(Y, scores) for scores in gathered]
    assert model.n_neighbors_ == (1, 5, 20)[ratings.index(max(ratings))]
    same = Annotator("mlda", scale="zscore", n_neighbors=model.n_neighbors_).fit(X, Y)
    np.testing.assert_array_equal(model.predict_scores(X), same.predict_scores(X))


def test_votes_are_calibrated_on_those_of_the_inner_folds():
    X, Y = multi_label(120)
    given = Y.copy()
    given[80:] = -1
    gathered = np.zeros((80, Y.shape[1]))
    for train, test in stratified_folds(Y[:80], 3, seed=0):
        (found,) = predict_fold("mlda", None, X, given, train, test, scale="zscore", n_neighbors=(5,))
        gathered[test] = found.scores
    votes = ProjectedNeighbors("mlda", candidates=(5,)).fit(X, given).predict_scores(X)
    model = ProjectedNeighbors("mlda", candidates=(5,), calibrate=True).fit(X, given)
    expected = calibrate_votes(gathered, Y[:80]).apply(votes)
    np.testing.assert_allclose(model.predict_scores(X), expected)
    assert ((expected[80:] - Y[80:]) ** 2).mean() < ((votes[80:] - Y[80:]) ** 2).mean()


def test_votes_of_rows_with_one_label_each_add_up_to_one():
    X, _ = multi_label(60)
    Y = np.eye(2, dtype=np.int8)[(X[:, 0] > 0).astype(int)]
    model = ProjectedNeighbors("mlda", candidates=(5,), calibrate=True).fit(X, Y)
    np.testing.assert_allclose(model.predict_scores(X).sum(axis=1), 1)


def test_a_projection_with_a_graph_sees_unlabeled_rows():
    X, Y = multi_label(60)
    hidden = Y.copy()
    hidden[40:] = -1
    model = ProjectedNeighbors("discriminative_projections", candidates=(1,)).fit(X, hidden)
    alone = ProjectedNeighbors("discriminative_projections", candidates=(1,)).fit(X[:40], Y[:40])
    assert (model.annotator_.model_.projection_ != alone.annotator_.model_.projection_).any()


def test_few_rows_leave_few_neighbors_to_choose_from():
    X, Y = multi_label(9)
    assert ProjectedNeighbors("mlda").fit(X, Y).n_neighbors_ <= 6
    with pytest.raises(InvalidInput, match=r"candidates=\(50,\): an inner training fold has only 6 rows"):
        ProjectedNeighbors("mlda", candidates=(50,)).fit(X, Y)


def test_a_mean_is_the_mean_and_parameters_reach_its_members():
    X, Y = multi_label(60)
    params = {"random_forest": {"n_estimators": 7}}
    model = ScoreMean(("svm", "random_forest"), params).fit(X, Y)
    parts = [
        Annotator(name, params.get(name)).fit(X, Y).predict_scores(X) for name in ("svm", "random_forest")
    ]
    np.testing.assert_allclose(model.predict_scores(X), (parts[0] + parts[1]) / 2)
    assert len(model.annotators_[1].model_.roots_) == 7


def test_no_member_is_refused():
    with pytest.raises(InvalidInput, match="members is empty"):
        ScoreMean(()).fit(*multi_label(20))


def test_the_code_of_the_parts_counts():
    assert method_modules("mlda_knn", {}) == (
        "embedding_core.classifiers.composed",
        "embedding_core.discriminant.mlda",
    )
    assert "embedding_core.subspace.pca" in method_modules("mlda_knn", {"projection": "pca"})
    assert "embedding_core.classifiers.forest" in method_modules("kernel_dle_forest", {})
