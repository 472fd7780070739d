"""SLE-ML against a literal version: theorems, limits, graph, degenerate data, errors."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from embedding_core.eigenmaps.combined_graph import (
    CombinedGraph,
    build_half_knn_graph,
    find_label_sets,
    jaccard_similarity,
)
from embedding_core.eigenmaps.eigenmap import auto_neighbors
from embedding_core.eigenmaps.sle_ml import SLEML
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.labels import as_indicator
from tests.literal_eigenmaps import (
    MAPS,
    check_laplacian_pairs,
    literal_eigenmap,
    literal_weights,
    overlapping,
    partly_labeled,
    same_span,
)
from tests.odd_data import FORMS, mostly_slowly_over_all_data, odd_data
from tests.synthetic import multi_label, single_label


@pytest.mark.parametrize("make", [overlapping, multi_label])
@pytest.mark.parametrize("balance", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("form", ["dense", "sparse", "float32", "wide"])
def test_eigenmap_is_the_literal_one(make, balance, form):
    X, Y = partly_labeled(make)
    if form == "wide":
        X = np.hstack([X, np.random.default_rng(0).normal(size=(60, 80))])
    X = X.astype(np.float32) if form == "float32" else X
    items = sp.csr_array(X) if form == "sparse" else X
    model = SLEML(balance=balance, n_neighbors=12).fit(items, Y)
    W = literal_weights(X.astype(np.float64), as_indicator(Y).Y, 12, balance)
    mu, Z = literal_eigenmap(W, 3)
    np.testing.assert_allclose(model.degree_, W.sum(axis=1))
    np.testing.assert_allclose(model.eigenvalues_, mu, atol=1e-12)
    same_span(model.embedding_, Z, model.degree_)


@pytest.mark.parametrize("balance", [0.0, 0.4, 1.0])
def test_theorems_of_the_eigenproblem(balance):
    X, Y = multi_label(80)
    model = SLEML(balance=balance, n_components=5, n_neighbors=9).fit(X, Y)
    W = literal_weights(X, Y, 9, balance)
    Z, D = model.embedding_, np.diag(W.sum(axis=1))
    np.testing.assert_allclose(Z.T @ D @ Z, np.eye(5), atol=1e-10)
    np.testing.assert_allclose((D - W) @ Z, D @ Z * model.eigenvalues_, atol=1e-9)
    np.testing.assert_allclose(D.sum(axis=0) @ Z, 0, atol=1e-9)
    assert ((model.eigenvalues_ >= 0) & (model.eigenvalues_ <= 2)).all()


def test_balance_one_is_the_laplacian_eigenmap_with_weights_of_halves():
    X, y = overlapping()
    W = build_half_knn_graph(X, 10)
    assert set(np.unique(W.toarray())) == {0.0, 0.5, 1.0}
    mu, Z = literal_eigenmap(W.toarray(), 3)
    model = SLEML(balance=1.0, n_neighbors=10).fit(X, y)
    np.testing.assert_allclose(model.eigenvalues_, mu, atol=1e-12)
    same_span(model.embedding_, Z, model.degree_)
    other = SLEML(balance=1.0, n_neighbors=10).fit(X, np.random.default_rng(0).permutation(y))
    np.testing.assert_array_equal(other.embedding_, model.embedding_)


def test_neighbors_far_from_the_origin_are_the_same():
    X, _ = overlapping(
        60, 20
    )  # with up to 15 features scikit-learn searches a tree, which does not have this problem
    far = build_half_knn_graph(X + 2.0**24, 5)
    np.testing.assert_array_equal(far.toarray(), build_half_knn_graph(X, 5).toarray())
    assert far.indices.dtype == np.int32


def test_balance_zero_puts_each_class_on_one_point():
    X, y = overlapping()
    model = SLEML(balance=0.0).fit(X, y)
    points = np.unique(model.embedding_, axis=0)
    assert points.shape == (4, 3)
    np.testing.assert_array_equal(model.eigenvalues_, 0)
    for k in range(4):
        assert np.ptp(model.embedding_[y == k], axis=0).max() == 0
    with pytest.raises(InvalidInput, match="exceeds the 3 dimensions that 4 distinct label sets span"):
        SLEML(balance=0.0, n_components=4).fit(X, y)
    with pytest.raises(InvalidInput, match="finds 1 distinct label sets: there is nothing to separate"):
        SLEML(balance=0.0).fit(X, np.ones((60, 2), dtype=int))


def test_balance_zero_puts_each_label_set_on_one_point():
    X, Y = multi_label(80)
    S = len(np.unique(Y, axis=0))
    model = SLEML(balance=0.0, n_components=S - 1).fit(X, Y)
    mu, Z = literal_eigenmap(literal_weights(X, Y, 1, 0.0), S - 1)
    np.testing.assert_allclose(model.eigenvalues_, mu, atol=1e-10)
    same_span(model.embedding_, Z, model.degree_)
    assert len(np.unique(model.embedding_, axis=0)) == S


@pytest.mark.filterwarnings("ignore:All")
def test_two_labels_lie_between_their_classes():
    """Fig. 5 of the paper."""
    Y = np.repeat([[1, 0], [1, 1], [0, 1]], 10, axis=0)
    Z = SLEML(balance=0.0, n_components=1).fit(np.zeros((30, 1)), Y).embedding_
    assert Z[0] * Z[-1] < 0
    np.testing.assert_allclose(Z[10:20], 0, atol=1e-12)


@pytest.mark.slow
def test_shuffled_labels_give_chance_at_09_and_fake_classes_at_a_small_balance():
    X, y = load_digits(return_X_y=True)
    X, y = X[::2], np.random.default_rng(0).permutation(y[::2])
    score = {}
    for balance in (0.9, 0.1):
        Z = SLEML(balance=balance, n_components=2).fit(X, y).embedding_
        nearest = KNeighborsClassifier(1).fit(Z, y).kneighbors(n_neighbors=1, return_distance=False)
        score[balance] = np.mean(y[nearest[:, 0]] == y)
    assert score[0.9] < 0.16
    assert score[0.1] > 0.3


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_label_operator_is_the_literal_matrix(class_weight, monkeypatch):
    _, Y = partly_labeled(multi_label)
    Y[0] = 0
    expected = literal_weights(np.arange(60.0)[:, None], Y, 1, 0.0)
    if class_weight == "balanced":
        size = (Y == 1).sum(axis=0)
        s = np.sqrt([np.mean(size.mean() / size[row == 1]) if (row == 1).any() else 0 for row in Y])
        expected = s[:, None] * expected * s
    for dense_sets in (2048, 0):
        monkeypatch.setattr("embedding_core.eigenmaps.combined_graph._DENSE_SETS", dense_sets)
        sets = find_label_sets(Y, class_weight)
        assert sp.issparse(sets.J) == (dense_sets == 0)
        np.testing.assert_allclose(sets.apply(np.eye(60)), expected, atol=1e-14)
        np.testing.assert_allclose(
            CombinedGraph(sp.csr_array((60, 60)), sets, 0.5).degree, expected.sum(axis=1) / 2
        )
        P = sets.P.toarray()
        quotient = sets.quotient()
        quotient = quotient.toarray() if sp.issparse(quotient) else quotient
        np.testing.assert_allclose(quotient, P.T @ expected @ P, atol=1e-12)


def test_jaccard_is_positive_definite_with_unit_diagonal():
    J = jaccard_similarity(np.unique(multi_label(200)[1], axis=0).astype(float))
    np.testing.assert_array_equal(np.diag(J), 1)
    assert np.linalg.eigvalsh(J).min() > 0


def test_too_many_label_sets_are_refused(monkeypatch):
    monkeypatch.setattr("embedding_core.eigenmaps.combined_graph._DENSE_SETS", 2)
    monkeypatch.setattr("embedding_core.eigenmaps.combined_graph.BUDGET_BYTES", 100.0)
    with pytest.raises(InvalidInput, match="distinct label sets that share labels"):
        find_label_sets(multi_label()[1])
    with pytest.raises(InvalidInput, match="12 neighbors of each of 60 items needs"):
        build_half_knn_graph(multi_label()[0], 12)


def test_balanced_weights_give_every_item_the_same_label_degree():
    X, y = overlapping()
    model = SLEML(balance=0.0, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(model.degree_, 60 / 4)
    plain = SLEML(balance=0.0).fit(X, y)
    np.testing.assert_allclose(plain.degree_, np.bincount(y)[y])


def test_auto_neighbors_are_one_and_a_half_class_sizes():
    X, Y = multi_label()
    assert SLEML().fit(X, Y).n_neighbors_ == round(1.5 * Y.sum() / 4)
    y = np.repeat([0, 1, 2], 20)
    assert auto_neighbors(as_indicator(y)) == 30
    y[::2] = -1
    assert auto_neighbors(as_indicator(y)) == 30
    assert auto_neighbors(as_indicator([0, 0, 0, 1])) == 3


def test_unlabeled_items_are_placed_near_their_neighbors():
    X, y = overlapping(120, K=3)
    hidden = y.copy()
    hidden[1::3] = -1
    model = SLEML(balance=0.5, n_neighbors=10).fit(X, hidden)
    known = hidden >= 0
    classifier = KNeighborsClassifier(1).fit(model.embedding_[known], y[known])
    assert classifier.score(model.embedding_[~known], y[~known]) > 0.8


def test_items_without_links_are_placed_by_the_map_with_a_warning():
    X, y = partly_labeled(overlapping)
    for kind in MAPS:
        with pytest.warns(UserWarning, match=r"20 of 60 items have no link .*first is row 1.*places them"):
            model = SLEML(balance=0.0, out_of_sample=kind).fit(X, y)
        np.testing.assert_allclose(model.embedding_[1::3], model.transform(X[1::3]), atol=1e-12)
        known = y >= 0
        kept = SLEML(balance=0.0, out_of_sample=kind, n_neighbors=model.n_neighbors_).fit(X[known], y[known])
        np.testing.assert_allclose(model.embedding_[known], kept.embedding_, atol=1e-12)
    W = np.zeros((60, 60))
    W[:40, :40] = build_knn_graph(X[:40], 8).toarray()
    with pytest.warns(UserWarning, match="20 of 60 items have no link"):
        isolated = SLEML(balance=1.0).fit(X, y, affinity=W)
    same_span(isolated.embedding_[:40], literal_eigenmap(W[:40, :40], 3)[1], W[:40].sum(axis=1))
    assert np.isfinite(isolated.embedding_).all()


@pytest.mark.parametrize("balance", [0.5, 1.0])
def test_components_of_the_graph_are_separated_with_a_warning(balance):
    X, y = single_label(60, K=2)
    X[y == 1] += 1e3
    with pytest.warns(UserWarning, match=r"has 2 components \(sizes .*separates them first"):
        model = SLEML(balance=balance, n_neighbors=6, n_components=3).fit(X, y)
    mu, Z = literal_eigenmap(literal_weights(X, as_indicator(y).Y, 6, balance), 3)
    np.testing.assert_allclose(model.eigenvalues_, mu, atol=1e-10)
    assert np.ptp(model.embedding_[y == 0, 0]) == np.ptp(model.embedding_[y == 1, 0]) == 0
    same_span(
        model.embedding_[:, 1:], Z[:, 1:], model.degree_
    )  # the first coordinate mixes with the constant vector


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_supplied_affinity_replaces_the_neighbors(form):
    X, Y = partly_labeled(multi_label)
    W = build_half_knn_graph(X, 12)
    before = W.toarray()
    given = SLEML(balance=0.7).fit(X, Y, affinity=W if form == "sparse" else before.copy())
    own = SLEML(balance=0.7, n_neighbors=12).fit(X, Y)
    np.testing.assert_allclose(given.embedding_, own.embedding_, atol=1e-9)
    np.testing.assert_array_equal(W.toarray(), before)


def test_duplicates_constant_features_empty_and_full_labels():
    X, Y = multi_label()
    X, Y = np.vstack([X, X[:20]]), np.vstack([Y, Y[:20]])
    X[:, 2] = 1.0
    Y = np.hstack([Y, np.zeros((80, 1), dtype=np.int8), np.ones((80, 1), dtype=np.int8)])
    for kind in MAPS:
        model = SLEML(out_of_sample=kind, n_components=2).fit(X, Y)
        assert np.isfinite(model.embedding_).all()
        assert np.isfinite(model.transform(X)).all()
    with pytest.warns(UserWarning, match="All 80 items have the same features"):
        same = SLEML(n_components=2).fit(np.ones((80, 3)), Y)
    np.testing.assert_allclose(same.transform(np.ones((1, 3)))[0], same.embedding_.mean(axis=0))


def test_no_n_by_n_matrix_is_made():
    n = 6000
    X, Y = multi_label(n, 3)
    W = build_knn_graph(X, 6)
    SLEML(n_neighbors=5, n_components=2).fit(X[:50], Y[:50])  # imports
    tracemalloc.start()
    SLEML(n_components=2).fit(X, Y, W)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n / 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"balance": 1.5}, "balance=1.5 is not legal; give a number from 0 to 1"),
        ({"balance": "auto"}, "balance='auto' is not legal"),
        ({"balance": np.nan}, "balance=nan is not legal"),
        ({"n_neighbors": 0}, "n_neighbors=0 is not legal"),
        ({"n_neighbors": "many"}, "n_neighbors='many' is not legal"),
        ({"class_weight": "even"}, "class_weight='even' is not legal; choose one of None, balanced"),
        ({"out_of_sample": "knn"}, "out_of_sample='knn' is not legal; choose one of linear, nystrom"),
        ({"alpha": -1}, "alpha=-1 is not legal"),
        ({"gamma": 0.0}, "gamma=0.0 is not legal"),
        ({"gamma": "wide"}, "gamma='wide' is not legal"),
        ({"n_components": 60}, "n_components=60 exceeds n-1=59 for SLEML"),
        ({"n_components": 0}, "n_components=0 is not legal"),
        ({"n_components": 59, "out_of_sample": "nystrom"}, "divides by 1 - μ, but component"),
    ],
)
def test_bad_parameters_raise_clear_errors(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        SLEML(**parameters).fit(*multi_label())


def test_bad_data_raise_clear_errors():
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match="1 class with labeled items"):
        SLEML().fit(X, np.zeros(60, dtype=int))
    with pytest.raises(InvalidInput, match="All 60 items are unlabeled"):
        SLEML().fit(X, np.full(60, -1))
    with pytest.raises(InvalidInput, match="not symmetric"):
        SLEML().fit(X, Y, affinity=np.triu(np.ones((60, 60))))
    with pytest.raises(InvalidInput, match="links no two items"):
        SLEML(balance=1.0).fit(X, Y, affinity=np.zeros((60, 60)))
    with pytest.warns(UserWarning, match="all pairs are linked"):
        SLEML(n_neighbors=99).fit(X, Y)


def literal_ridge(X, Z, alpha):
    """Positions by the linear map: ridge regression of Z on X, both centered."""
    X_c, Z_c = X - X.mean(axis=0), Z - Z.mean(axis=0)
    G = X_c.T @ X_c
    G_inverse = np.linalg.pinv(G + alpha * np.trace(G) / len(X) * np.eye(len(G)), rcond=1e-10, hermitian=True)
    return X_c @ G_inverse @ X_c.T @ Z_c + Z.mean(axis=0)


@mostly_slowly_over_all_data
@pytest.mark.parametrize("balance", [0.6, 1.0])
@pytest.mark.filterwarnings("ignore:The graph .*has 2 components")
def test_sle_ml_solves_its_problem_on_degenerate_data(kind, shape, dtype, form, balance):
    X, Y, W = odd_data(kind, shape, dtype)
    model = SLEML(balance=balance, alpha=1e-3).fit(FORMS[form](X), Y, FORMS[form](W))
    by_labels = literal_weights(X.astype(float), Y, 1, 0.0)
    check_laplacian_pairs(model.embedding_, model.eigenvalues_, balance * W + (1 - balance) * by_labels)
    places = literal_ridge(X.astype(float), model.embedding_, 1e-3)
    np.testing.assert_allclose(model.transform(FORMS[form](X)), places, atol=1e-6)


@pytest.mark.parametrize("out_of_sample", MAPS)
@pytest.mark.parametrize("shape", [(60, 7), (60, 80)])
def test_a_rotation_of_the_features_changes_nothing(out_of_sample, shape):
    X, y = overlapping(*shape)
    y[1::3] = -1
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(shape[1], shape[1])))[0]
    model = SLEML(out_of_sample=out_of_sample).fit(X, y)
    turned = SLEML(out_of_sample=out_of_sample).fit(X @ Q, y)
    np.testing.assert_allclose(turned.eigenvalues_, model.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(turned.embedding_, model.embedding_, atol=1e-8)
    new = X[:20] + 0.1
    np.testing.assert_allclose(turned.transform(new @ Q), model.transform(new), atol=1e-7)
