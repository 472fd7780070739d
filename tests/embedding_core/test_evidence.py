"""Evidence for predicted labels: similar carriers, novelty, margins and doubt."""

import numpy as np
import pytest

from embedding_core import InvalidInput, knn_classifier
from embedding_core.annotation import evidence
from embedding_core.annotation.evidence import (
    margins,
    most_isolated,
    nearest_carriers,
    novelty,
    rank_by_doubt,
)
from tests.synthetic import multi_label, sparse_items


@pytest.fixture
def placed():
    Z, Y = multi_label(50, 3, 4)
    queries, _ = multi_label(20, 3, 4, seed=1)
    decided = np.random.default_rng(2).random((20, 4)) < 0.4
    return Z, Y, queries, decided


@pytest.mark.parametrize("block_rows", [1024, 3])
def test_nearest_carriers_label_by_label(placed, monkeypatch, block_rows):
    monkeypatch.setattr(knn_classifier, "BLOCK_ROWS", block_rows)
    Z, Y, queries, decided = placed
    found = nearest_carriers(Z, Y, queries, decided, 3)
    expected = [(i, k) for i in range(20) for k in range(4) if decided[i, k]]
    assert list(zip(found.rows.tolist(), found.labels.tolist(), strict=True)) == expected
    for entry, (i, k) in enumerate(expected):
        distances = {j: np.linalg.norm(Z[j] - queries[i]) for j in range(50) if Y[j, k]}
        near = sorted(distances, key=distances.get)[:3]
        assert found.indices[entry].tolist() == near
        np.testing.assert_allclose(found.distances[entry], [distances[j] for j in near])


def test_labels_with_few_carriers_are_padded(placed):
    Z, Y, queries, _ = placed
    Y = Y.copy()
    Y[:, 0], Y[:, 1] = 0, 0
    Y[7, 1] = 1
    Y[8] = -1  # unlabeled items carry nothing
    found = nearest_carriers(Z, Y, queries[:1], [[1, 1, 0, 0]], 2)
    assert found.indices.tolist() == [[-1, -1], [7, -1]]
    assert found.distances[0].tolist() == [np.inf, np.inf]
    assert found.distances[1, 1] == np.inf
    none = nearest_carriers(Z, Y, queries, np.zeros((20, 4)))
    assert none.indices.shape == (0, 3)


def test_novelty_literally(placed):
    Z, _, queries, _ = placed

    def reach(point, others):
        return np.sort(np.linalg.norm(others - point, axis=1))[:5].mean()

    among = np.array([reach(Z[i], np.delete(Z, i, axis=0)) for i in range(50)])
    expected = [(among < reach(query, Z)).mean() for query in queries]
    np.testing.assert_allclose(novelty(Z, queries), expected)


def test_novelty_of_rows_drawn_alike_is_spread_evenly():
    rng = np.random.default_rng(0)
    Z, queries = rng.normal(size=(2000, 3)), rng.normal(size=(2000, 3))
    found = novelty(Z, queries)
    for share in (0.1, 0.5, 0.9, 0.95):
        assert (found <= share).mean() == pytest.approx(share, abs=0.03)
    assert (novelty(Z, queries + 20) == 1).all()


def test_novelty_does_not_depend_on_scale_rotation_or_order(placed):
    Z, _, queries, _ = placed
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_allclose(novelty(7 * Z[order] @ turn + 3, 7 * queries @ turn + 3), novelty(Z, queries))


def test_the_most_isolated_items_are_those_of_all_distances(monkeypatch):
    rng = np.random.default_rng(0)
    Z, near, far = (rng.normal(size=(n, 2)) for n in (500, 2000, 9))
    queries = np.vstack([near, far + 8])
    reach = np.sort(np.linalg.norm(queries[:, None] - Z[None], axis=2), axis=1)[:, :5].mean(axis=1)
    compared = []
    search = evidence.nearest_rows

    def count(known, new, k):
        compared.append(len(known) * len(new))
        return search(known, new, k)

    monkeypatch.setattr(evidence, "nearest_rows", count)
    monkeypatch.setattr(evidence, "BLOCK_ROWS", 100)
    rows, shares = most_isolated(Z, queries, 30)
    assert sum(compared) < 0.5 * Z.shape[0] * queries.shape[0]
    assert rows.tolist() == np.argsort(-reach, kind="stable")[:30].tolist()  # though many are 100 % novel
    np.testing.assert_allclose(shares, novelty(Z, queries)[rows])
    assert (shares == 1).sum() == 9
    everything, _ = most_isolated(Z[:4], queries[:7], 100)
    assert sorted(everything.tolist()) == list(range(7))


def test_novelty_of_copies_and_of_few_items():
    assert novelty(np.ones((6, 2)), np.ones((1, 2))).tolist() == [0.5]
    assert novelty([[0.0], [2.0]], [[1.0], [5.0]]).tolist() == [0.0, 1.0]
    with pytest.raises(InvalidInput, match="1 labeled item"):
        novelty([[0.0]], [[1.0]])


def test_sparse_coordinates():
    Z, queries = sparse_items(40, 12), sparse_items(6, 12, seed=3)
    Y = np.ones((40, 1), dtype=np.int8)
    np.testing.assert_allclose(novelty(Z, queries), novelty(Z.toarray(), queries.toarray()))
    sparse = nearest_carriers(Z, Y, queries, np.ones((6, 1)))
    dense = nearest_carriers(Z.toarray(), Y, queries.toarray(), np.ones((6, 1)))
    np.testing.assert_allclose(sparse.distances, dense.distances)  # some distances are tied


def test_margins_have_the_sign_of_the_decision():
    scores = np.array([[0.2, 0.8, 0.5], [0.6, 0.1, 0.5]])
    found = margins(scores, [0.3, -np.inf, np.inf])
    assert (found > 0).tolist() == [[False, True, False], [True, True, False]]
    assert np.isinf(found[:, 1:]).all()
    np.testing.assert_allclose(margins(scores, 0.5), scores - 0.5)


def test_doubt_is_the_label_closest_to_its_threshold():
    margin = np.array([[0.3, -0.2], [np.inf, -np.inf], [-0.01, 5.0], [0.2, 0.9]])
    rows, labels = rank_by_doubt(margin)
    assert rows.tolist() == [2, 0, 3, 1]
    assert labels.tolist() == [0, 1, 0, 0]
    assert rank_by_doubt(np.empty((0, 2)))[0].tolist() == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: margins([0.5], [0.5]), r"scores have shape \(1,\)"),
        (lambda: margins([[0.5, 0.4]], [0.5]), r"thresholds \(1,\)"),
        (lambda: margins([[np.nan]], [0.5]), "must be finite"),
        (lambda: margins([[0.1]], [np.nan]), "must be finite"),
        (lambda: rank_by_doubt([0.1]), r"shape \(1,\)"),
        (lambda: rank_by_doubt([[np.nan]]), "NaN"),
        (lambda: novelty([[0.0], [1.0]], [[1.0, 2.0]]), "features"),
        (lambda: novelty([[0.0], [1.0]], [[1.0]], n_neighbors=0), "n_neighbors=0"),
        (lambda: nearest_carriers([[0.0]], [[1, 0]], [[1.0]], [[1]]), "one column per label"),
        (lambda: nearest_carriers([[0.0]], [[1], [0]], [[1.0]], [[1]]), "for 1 labeled items"),
        (lambda: nearest_carriers([[0.0]], [[1]], [[1.0]], [[1]], 0), "n_neighbors=0"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
