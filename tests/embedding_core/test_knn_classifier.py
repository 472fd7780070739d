"""Neighbors' labels against a literal version, and where rounding would mislead."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

from embedding_core import knn_classifier
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import NeighborLabels, decide_labels, nearest_rows, uses_index, vote


def draw(n=80, m=30, r=4, n_labels=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, r)), (rng.random((n, n_labels)) < 0.4).astype(np.int8), rng.normal(size=(m, r))


def naive_scores(Z, Y, queries, k, weights):
    scores = []
    for query in queries:
        distances = np.sqrt(((Z - query) ** 2).sum(axis=1))
        order = np.argsort(distances, kind="stable")[:k]
        share = np.ones(k) if weights == "uniform" else 1 / distances[order]
        scores.append(share @ Y[order] / share.sum())
    return np.array(scores)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("k", [1, 3, 10, 80])
@pytest.mark.parametrize("form", [np.asarray, np.float32, sp.csr_array, sp.csr_matrix])
def test_scores_equal_the_literal_version(form, k, weights):
    Z, Y, queries = draw()
    model = NeighborLabels(k, weights).fit(form(Z), Y)
    tolerance = 1e-5 if form is np.float32 else 1e-12
    np.testing.assert_allclose(
        model.predict_scores(form(queries)), naive_scores(Z, Y, queries, k, weights), atol=tolerance
    )


@pytest.mark.parametrize("k", [1, 4, 5])
def test_one_class_at_a_time_gives_the_same_labels(k):
    Z, Y, queries = draw()
    single = [KNeighborsClassifier(k, algorithm="brute").fit(Z, column).predict(queries) for column in Y.T]
    np.testing.assert_array_equal(NeighborLabels(k).fit(Z, Y).predict(queries), np.array(single).T)


def test_one_neighbor_gives_its_whole_label_row():
    Z, Y, _ = draw()
    np.testing.assert_array_equal(NeighborLabels().fit(Z, Y).predict(Z + 1e-9), Y)


def test_many_blocks_equal_one_block(monkeypatch):
    Z, Y, queries = draw(m=50)
    whole = NeighborLabels(3, "distance").fit(Z, Y).predict_scores(queries)
    monkeypatch.setattr(knn_classifier, "BLOCK_ROWS", 7)
    np.testing.assert_array_equal(NeighborLabels(3, "distance").fit(Z, Y).predict_scores(queries), whole)


def test_blocks_shrink_for_wide_rows():
    assert knn_classifier._block_rows(5, 20) == knn_classifier.BLOCK_ROWS
    assert knn_classifier._block_rows(14, 40_000) * 14 * 40_000 <= knn_classifier.BLOCK_NUMBERS
    assert knn_classifier._block_rows(14, 10**9) == 1


def test_rows_far_from_zero_keep_their_neighbors():
    Z, Y, queries = draw()
    near = NeighborLabels().fit(Z, Y).predict(queries)
    np.testing.assert_array_equal(NeighborLabels().fit(Z + 1e8, Y).predict(queries + 1e8), near)


@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 2.0**26), (np.float32, 2.0**16)])
def test_sparse_rows_far_from_zero_keep_their_neighbors(dtype, offset):
    rng = np.random.default_rng(0)
    Z, queries = (rng.integers(-64, 64, size=(n, 30)) / 8.0 for n in (200, 50))
    far = [sp.csr_array((rows + offset).astype(dtype)) for rows in (Z, queries)]
    expected, found = nearest_rows(Z, queries, 5), nearest_rows(*far, 5)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)


def test_equal_distances_fall_to_the_first_row():
    Z = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    distances, indices = nearest_rows(Z, np.zeros((1, 1)), 2)
    assert indices.tolist() == [[0, 1]]
    assert distances.tolist() == [[1.0, 1.0]]


def test_fewer_neighbors_are_the_first_of_more():
    Z, _, queries = draw()
    distances, indices = nearest_rows(Z, queries, 10)
    few = nearest_rows(Z, queries, 3)
    np.testing.assert_array_equal(distances[:, :3], few[0])
    np.testing.assert_array_equal(indices[:, :3], few[1])


def test_neighbors_at_distance_zero_take_all_the_weight():
    Z, Y = np.array([[0.0], [0.0], [1e-100], [5.0]]), np.array([[1, 0], [0, 0], [0, 1], [0, 1]])
    scores = NeighborLabels(4, "distance").fit(Z, Y).predict_scores([[0.0]])
    np.testing.assert_allclose(scores, [[0.5, 0.0]], atol=1e-12)


def test_unlabeled_rows_do_not_vote():
    Z, Y, queries = draw()
    hidden = Y.copy()
    hidden[::3] = -1
    kept = NeighborLabels(3).fit(Z, hidden).predict_scores(queries)
    alone = NeighborLabels(3).fit(Z[hidden[:, 0] >= 0], Y[hidden[:, 0] >= 0]).predict_scores(queries)
    np.testing.assert_array_equal(kept, alone)


def test_scores_stay_in_the_unit_interval():
    Y = np.ones((10, 1), dtype=np.int8)
    distances = np.linspace(0.1, 0.7, 10)[None]
    for weights in knn_classifier.WEIGHTS:
        assert vote(Y, distances, np.arange(10)[None], weights).max() <= 1.0


def test_half_is_no_majority_and_single_labels_take_the_best():
    scores = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]])
    assert decide_labels(scores).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert decide_labels(scores, single_label=True).tolist() == [[1, 0, 0], [1, 0, 0]]
    assert decide_labels(np.array([[0.6, 0.7]])).tolist() == [[1, 1]]


def test_parameters_survive_clone():
    assert clone(NeighborLabels(3, "distance")).get_params() == {"n_neighbors": 3, "weights": "distance"}


@pytest.mark.parametrize(
    ("model", "Z", "Y", "message"),
    [
        (
            NeighborLabels(3),
            [[0.0], [1.0]],
            [[1], [0]],
            "n_neighbors=3 with 2 labeled rows; choose from 1 to 2",
        ),
        (NeighborLabels(0), [[0.0], [1.0]], [[1], [0]], "n_neighbors=0"),
        (NeighborLabels(1, "odd"), [[0.0]], [[1]], "uniform, distance"),
        (NeighborLabels(), [[0.0], [1.0]], [[1]], "X has 2 rows and Y has 1"),
        (NeighborLabels(), [[np.nan]], [[1]], "1 NaN"),
        (NeighborLabels(2), [[0.0], [1.0]], [[1], [-1]], "with 1 labeled rows"),
    ],
)
def test_bad_input_is_named(model, Z, Y, message):
    with pytest.raises(InvalidInput, match=message):
        model.fit(Z, Y)


def test_queries_of_another_kind_are_refused():
    Z, Y, queries = draw()
    model = NeighborLabels().fit(Z, Y)
    with pytest.raises(InvalidInput, match="X has 3 features, the model was fitted with 4"):
        model.predict(queries[:, :3])
    with pytest.raises(InvalidInput, match="both be sparse"):
        model.predict(sp.csr_array(queries))


def test_an_index_answers_many_queries_among_many_rows():
    """Comparing with all rows and building an index both cost n: the number of queries decides."""
    assert uses_index(30_000, 600) and not uses_index(30_000, 599)
    assert uses_index(5_000_000, 2_000) and not uses_index(5_000_000, 1_999)
    assert not uses_index(20_000, 20_000)
