"""LDA-C1: the direction of each label, neighbors on its line, odd labels, errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from embedding_core import MLDA
from embedding_core.classifiers.ldac1 import LDAC1, SCATTERS, binary_lda_directions, mean_contrasts
from embedding_core.errors import InvalidInput
from tests.synthetic import literal_scatter, multi_label, positive_power, sparse_items

BOTH = pytest.mark.parametrize("scatter", SCATTERS)


def literal_direction(X: np.ndarray, y: np.ndarray, scatter: str = "total") -> np.ndarray:
    """S^+ (m_1 - m_0), Eq. 2-5 of the MLDA paper for two classes, of unit length."""
    _, S_w, S_t = literal_scatter(X, np.column_stack([1 - y, y]).astype(float))
    g = positive_power(S_t if scatter == "total" else S_w, -1) @ (
        X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    )
    return g / np.linalg.norm(g)


@pytest.mark.parametrize("shape", [(60, 7), (12, 11), (12, 12), (25, 40)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@BOTH
def test_directions_are_those_of_the_formula(shape, form, scatter):
    X, Y = multi_label(*shape)
    G = binary_lda_directions(form(X), Y, scatter)
    expected = np.column_stack([literal_direction(X, y, scatter) for y in Y.T])
    np.testing.assert_allclose(G, expected, atol=1e-8)


@BOTH
def test_directions_are_those_of_scikit_learn_where_s_w_is_regular(scatter):
    X, Y = multi_label()
    G = LDAC1(scatter=scatter).fit(X, Y).projection_
    for k in range(4):
        lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, Y[:, k])
        np.testing.assert_allclose(G[:, k], lda.coef_[0] / np.linalg.norm(lda.coef_), atol=1e-9)


@pytest.mark.parametrize("shape", [(60, 7), (25, 40)])
def test_within_gives_mlda_of_each_label_and_its_opposite(shape):
    X, Y = multi_label(*shape)
    G = LDAC1(scatter="within").fit(X, Y).projection_
    for k in range(4):
        g = MLDA(weights="binary").fit(X, np.column_stack([1 - Y[:, k], Y[:, k]])).projection_[:, 0]
        np.testing.assert_allclose(np.abs(g @ G[:, k]), 1.0, atol=1e-9)


def test_a_feature_that_gives_the_label_away_without_spread_is_all_to_total_and_nothing_to_within():
    # it lies outside the range of S_w, and S_w^+ drops it; S_w is regular for the other labels
    X, Y = multi_label()
    given_away = np.column_stack([X, Y[:, 0]])
    total, within = (binary_lda_directions(given_away, Y, scatter) for scatter in SCATTERS)
    np.testing.assert_allclose(total[:, 0], np.eye(8)[-1], atol=1e-9)
    np.testing.assert_allclose(within[:, 0], literal_direction(given_away, Y[:, 0], "within"), atol=1e-9)
    np.testing.assert_allclose(within[-1, 0], 0.0, atol=1e-12)
    np.testing.assert_allclose(within[:, 1:], total[:, 1:], atol=1e-9)
    assert abs(within[-1, 1]) > 0.01


@BOTH
def test_repeated_and_constant_features_and_repeated_rows(scatter):
    X, Y = multi_label(20, 25)
    X[:, 2], X[:, 3] = 4.0, X[:, 0]
    X[5], Y[5] = X[4], 1 - Y[4]
    G = binary_lda_directions(X, Y, scatter)
    np.testing.assert_allclose(G, np.column_stack([literal_direction(X, y, scatter) for y in Y.T]), atol=1e-8)


def test_contrasts_give_differences_of_means():
    X, Y = multi_label()
    Y[:, 3] = 1
    expected = [X[Y[:, k] == 1].mean(axis=0) - X[Y[:, k] == 0].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose((X.T @ mean_contrasts(Y))[:, :3].T, expected)
    assert not mean_contrasts(Y)[:, 3].any()


@pytest.mark.parametrize("n_neighbors", [1, 3])
def test_neighbors_on_each_line_classify(n_neighbors):
    X, Y = multi_label(100)
    model = LDAC1(n_neighbors=n_neighbors).fit(X[:60], Y[:60])
    scores = model.predict_scores(X[60:])
    for k in range(4):
        g = literal_direction(X[:60], Y[:60, k])[:, None]
        line = KNeighborsClassifier(n_neighbors).fit(X[:60] @ g, Y[:60, k])
        np.testing.assert_allclose(scores[:, k], line.predict_proba(X[60:] @ g)[:, 1], atol=1e-12)


def test_fitted_attributes():
    X, Y = multi_label()
    model = LDAC1().fit(X, Y)
    assert model.projection_.shape == (7, 4)
    np.testing.assert_allclose(np.linalg.norm(model.projection_, axis=0), 1.0)
    np.testing.assert_allclose(model.places_, X @ model.projection_)
    np.testing.assert_array_equal(model.Y_, Y)
    np.testing.assert_allclose(model.shares_, Y.mean(axis=0))
    for k in range(4):  # the line rises towards the items with the label
        assert model.places_[Y[:, k] == 1, k].mean() > model.places_[Y[:, k] == 0, k].mean()


def test_scale_and_origin_of_the_features_do_not_matter():
    X, Y = multi_label(100)
    expected = LDAC1().fit(X[:60], Y[:60]).predict_scores(X[60:])
    d = 10.0 ** np.linspace(-9, 9, 7)
    scaled = LDAC1().fit(X[:60] * d, Y[:60]).predict_scores(X[60:] * d)
    np.testing.assert_array_equal(scaled, expected)
    moved = LDAC1().fit(X[:60] + 1000, Y[:60]).predict_scores(X[60:] + 1000)
    np.testing.assert_array_equal(moved, expected)


def test_float32_is_fitted_in_float64():
    X, Y = multi_label()
    X = X.astype(np.float32)
    single, double = LDAC1().fit(X, Y), LDAC1().fit(X.astype(np.float64), Y)
    np.testing.assert_allclose(single.projection_, double.projection_, atol=1e-12)


def test_wide_sparse_items_never_need_a_p_by_p_matrix():
    X, (_, Y) = sparse_items(30, 200_000, density=1e-3), multi_label(30)
    model = LDAC1().fit(X, Y)  # p x p would be 320 GB
    assert model.projection_.shape == (200_000, 4)
    np.testing.assert_array_equal(model.predict(X), Y)


@pytest.mark.parametrize(
    ("lost", "scatter"), [("same means", "total"), ("same means", "within"), ("no spread", "within")]
)
def test_a_label_without_a_line_gets_its_share_and_a_warning(lost, scatter):
    X, Y = multi_label()
    if lost == "same means":
        X, Y = np.vstack([X, X]), np.vstack([Y, Y])
        Y[:60, 2], Y[60:, 2] = 1, 0
    else:
        X, Y = np.zeros((60, 3)), Y[:, :3]
        X[:20], Y[:, 2] = [1.0, -0.3, 1 / 7], 0
        Y[:20, 2] = 1
    with pytest.warns(UserWarning, match=r"1 of . labels \(2\) have means") as caught:
        model = LDAC1(scatter=scatter).fit(X, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert not model.projection_[:, 2].any()
    np.testing.assert_allclose(model.predict_scores(X)[:, 2], Y[:, 2].mean())


def test_constant_items_leave_no_line():
    _, Y = multi_label()
    with pytest.warns(UserWarning, match="4 of 4 labels .0, 1, 2, 3. have means that no line separates"):
        model = LDAC1().fit(np.ones((60, 3)), Y)
    np.testing.assert_allclose(model.predict_scores(np.ones((2, 3))), np.tile(Y.mean(axis=0), (2, 1)))


def test_one_class_is_predicted_as_seen():
    X, _ = multi_label()
    assert (LDAC1().fit(X, np.full(60, 7)).predict(X) == 7).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors=0 is not legal; give an integer >= 1"),
        ({"n_neighbors": 1.5}, "n_neighbors=1.5 is not legal"),
        ({"n_neighbors": 61}, "n_neighbors=61 exceeds the 60 rows that a row can choose from"),
        ({"scatter": "between"}, "scatter='between' is not legal; choose one of total, within"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        LDAC1(**parameters).fit(*multi_label())
