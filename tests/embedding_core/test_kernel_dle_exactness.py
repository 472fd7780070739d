"""Kernel DLE against its equations taken literally: embedding, leave-one-out rows, special cases."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from embedding_core import KernelDLE, KernelDLEClassifier
from embedding_core.classifiers import ridge
from embedding_core.errors import InvalidInput
from embedding_core.evaluation import predict_fold
from embedding_core.kernel_dle import solution
from embedding_core.kernel_dle.solution import REGULARIZATIONS, local_graph, smoothness
from embedding_core.margin.kernel_span import deform_rows
from embedding_core.metrics import row_precisions
from tests.literal_kernel_dle import (
    centered_trace,
    deformed,
    literal_embedding,
    literal_kernel,
    literal_laplacian,
    ridge_scores,
)
from tests.synthetic import multi_label, single_label

EXACT = {"rtol": 0, "atol": 1e-10}
MANY = {"few_labels": False}


def partly(n=60, hidden=20, new=10, seed=0):
    """Rows of which the first n are fitted and the rest are new; every third of the fitted is unlabeled."""
    X, Y = multi_label(n + new, 7, 4, seed)
    hide = np.zeros(n, dtype=bool)
    hide[1 : 3 * hidden : 3] = True
    return X, Y, np.where(hide[:, None], -1, Y[:n]), ~hide


def flipped_alike(found, expected):
    """The same coordinates up to the sign of each column."""
    return found * np.sign((found * expected).sum(axis=0)), expected


@pytest.mark.parametrize("mu", [0.3, 5.0])
@pytest.mark.parametrize("lam", [1e-3, 0.5])
def test_the_embedding_is_a_rotation_of_ridge_scores(mu, lam):
    X, Y, given, labeled = partly()
    n = len(given)
    model = KernelDLE(graph_weight=mu, regularization=lam, **MANY).fit(X[:n], given)
    K, L = literal_kernel(X, np.arange(n)), literal_laplacian(X[:n])
    expected, values = literal_embedding(K, L, labeled, Y[:n][labeled], mu, lam)
    np.testing.assert_allclose(model.eigenvalues_, values, **EXACT)
    np.testing.assert_allclose(*flipped_alike(model.transform(X), expected), **EXACT)
    np.testing.assert_allclose(*flipped_alike(model.embedding_, expected[:n]), **EXACT)
    np.testing.assert_allclose(
        (model.label_scores(X) - model.label_means_) @ model.rotation_, model.transform(X), **EXACT
    )


@pytest.mark.parametrize("mu", [0.0, 2.0])
@pytest.mark.parametrize("lam", [1e-4, 0.03, 10.0])
def test_leave_one_out_rows_are_those_of_refitting(mu, lam):
    X, Y, given, labeled = partly()
    n, rows = len(given), np.flatnonzero(labeled)
    model = KernelDLE(graph_weight=mu, regularization=lam, **MANY).fit(X[:n], given)
    K = literal_kernel(X[:n], np.arange(n) if mu else rows)
    K = deformed(K, literal_laplacian(X[:n]), mu)
    penalty = lam * centered_trace(K[np.ix_(rows, rows)]) / len(rows)
    for number, row in enumerate(rows):
        others = np.delete(rows, number)
        answer = ridge_scores(K[np.ix_(others, others)], Y[others], K[[row]][:, others], penalty)[0]
        answer += model.label_means_ - Y[others].mean(axis=0)
        np.testing.assert_allclose(model.loo_scores_[number], answer, **EXACT)
        place = (answer - model.label_means_) @ model.rotation_
        np.testing.assert_allclose(model.loo_embedding_[row], place, **EXACT)
    np.testing.assert_array_equal(model.loo_embedding_[~labeled], model.embedding_[~labeled])


@pytest.mark.slow
def test_leave_one_out_rows_are_those_of_the_estimator_itself():
    """Hiding one label at a time; lambda is given in units of the rows left, so it is converted."""
    X, _, given, labeled = partly(45, 10)
    n, rows, mu, lam = len(given), np.flatnonzero(labeled), 1.0, 0.05
    model = KernelDLE(graph_weight=mu, regularization=lam, **MANY).fit(X[:n], given)
    K = deformed(literal_kernel(X[:n], np.arange(n)), literal_laplacian(X[:n]), mu)

    def tau(kept):
        return centered_trace(K[np.ix_(kept, kept)]) / len(kept)

    for number, row in enumerate(rows):
        hidden, same = given.copy(), lam * tau(rows) / tau(np.delete(rows, number))
        hidden[row] = -1
        again = KernelDLE(graph_weight=mu, regularization=same, **MANY).fit(X[:n], hidden)
        place = again.label_scores(X[[row]])[0] - again.label_means_
        np.testing.assert_allclose(place, model.loo_scores_[number] - model.label_means_, **EXACT)


def test_without_a_graph_it_is_kernel_ridge():
    X, Y = multi_label(70)
    model = KernelDLE(regularization=0.2, **MANY).fit(X[:50], Y[:50])
    K = literal_kernel(X, np.arange(50))
    means = K[:50, :50].mean(axis=0)
    centered = K[:, :50] - means - K[:, :50].mean(axis=1, keepdims=True) + means.mean()
    T = Y[:50] - Y[:50].mean(axis=0)
    tau = np.trace(centered[:50]) / 50
    plain = KernelRidge(alpha=0.2 * tau, kernel="precomputed").fit(centered[:50], T)
    np.testing.assert_allclose(model.label_scores(X), plain.predict(centered) + Y[:50].mean(axis=0), **EXACT)


@pytest.mark.parametrize("shape", [(50, 7), (30, 45)])
def test_the_linear_kernel_is_ridge_on_z_scores(shape):
    X, Y = multi_label(*shape)
    model = KernelDLE(kernel="linear", regularization=0.2, **MANY).fit(X, Y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    # tau is the mean squared length of the z-scored rows, which is p
    plain = Ridge(alpha=0.2 * shape[1]).fit(Z, Y)
    np.testing.assert_allclose(model.label_scores(X), plain.predict(Z), **EXACT)


@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_a_precomputed_kernel_gives_what_the_kernel_itself_gives(mu):
    X, _, given, labeled = partly()
    n = len(given)
    own = KernelDLEClassifier(graph_weight=mu, **MANY)
    graph = {"affinity": np.exp(-np.abs(np.subtract.outer(X[:n, 0], X[:n, 0])))} if mu else {}
    computed = own.fit(X[:n], given, **graph)
    K = literal_kernel(X, np.arange(n) if mu else np.flatnonzero(labeled))
    other = KernelDLEClassifier(kernel="precomputed", graph_weight=mu, **MANY)
    precomputed = other.fit(K[:n, :n], given, **graph)
    np.testing.assert_allclose(precomputed.predict_proba(K[:, :n]), computed.predict_proba(X), **EXACT)
    np.testing.assert_allclose(precomputed.loo_scores_, computed.loo_scores_, **EXACT)


def test_a_kernel_function_gives_what_its_matrix_gives():
    X, Y = multi_label(70)

    def kernel(A, B):
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2) / 10)

    by_function = KernelDLE(kernel=kernel, **MANY).fit(X[:50], Y[:50])
    by_matrix = KernelDLE(kernel="precomputed", **MANY).fit(kernel(X[:50], X[:50]), Y[:50])
    assert by_function.kernel_ == "callable"
    np.testing.assert_allclose(by_function.transform(X), by_matrix.transform(kernel(X, X[:50])), **EXACT)


@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_all_rows_as_landmarks_are_the_exact_form(mu):
    X, _, given, _ = partly()
    n = len(given)
    exact, landmarks = (KernelDLE(landmarks=m, graph_weight=mu, **MANY).fit(X[:n], given) for m in (None, n))
    np.testing.assert_allclose(landmarks.transform(X), exact.transform(X), **EXACT)
    np.testing.assert_allclose(landmarks.loo_scores_, exact.loo_scores_, **EXACT)
    fewer = KernelDLE(landmarks=10, graph_weight=mu, **MANY).fit(X[:n], given)
    assert np.abs(fewer.label_scores(X) - exact.label_scores(X)).max() > 1e-3


def test_one_eigendecomposition_serves_all_penalties(monkeypatch):
    X, Y = multi_label(60)
    calls = []
    decompose = ridge.positive_part
    monkeypatch.setattr(ridge, "positive_part", lambda S: calls.append(len(S)) or decompose(S))
    model = KernelDLE(**MANY).fit(X, Y)
    assert len(calls) == 1
    assert model.regularization_ in REGULARIZATIONS
    alone = KernelDLE(regularization=model.regularization_, **MANY).fit(X, Y)
    np.testing.assert_allclose(alone.loo_scores_, model.loo_scores_, **EXACT)


@pytest.mark.slow
def test_loo_chooses_what_its_criterion_says():
    X, y = single_label(80)
    y[::7] = (y[::7] + 1) % 4
    chosen = KernelDLE(graph_weight="loo", **MANY).fit(X, y)
    best = max(
        (KernelDLE(graph_weight=mu, regularization=lam, **MANY).fit(X, y).loo_scores_.argmax(axis=1) == y)
        .mean()
        .item()
        for mu in (0.0, 0.1, 1.0, 10.0)
        for lam in REGULARIZATIONS
    )
    assert (chosen.loo_scores_.argmax(axis=1) == y).mean() == best


def test_unlabeled_rows_change_nothing_where_the_graph_has_no_weight():
    X, Y = multi_label(80)
    far = np.vstack([X, 1e3 + X[:20]])
    given = np.vstack([Y, np.full((20, 4), -1)])
    alone, beside = (KernelDLEClassifier(**MANY).fit(*pair) for pair in ((X, Y), (far, given)))
    np.testing.assert_array_equal(beside.predict_proba(X), alone.predict_proba(X))
    with_graph = KernelDLEClassifier(graph_weight=1.0, **MANY).fit(far, given)
    assert np.abs(with_graph.predict_proba(X) - alone.predict_proba(X)).max() > 1e-3


def test_no_test_row_and_no_test_label_changes_what_is_fitted():
    X, Y = multi_label(90)
    train, test = np.arange(60), np.arange(60, 90)
    changed_rows, changed_labels = X.copy(), Y.copy()
    changed_rows[61:], changed_labels[60:] = 50.0, 1 - Y[60:]
    params = dict(MANY)
    (plain,), (rows,), (labels,) = (
        predict_fold("kernel_dle", params, *data, train, test)
        for data in ((X, Y), (changed_rows, Y), (X, changed_labels))
    )
    np.testing.assert_array_equal(rows.scores[0], plain.scores[0])
    np.testing.assert_array_equal(labels.scores, plain.scores)


@pytest.mark.slow
@pytest.mark.parametrize("few", [False, True])
def test_shuffled_labels_fall_to_chance(few):
    """Neither the leave-one-out rows nor what is trained on them lets a label through."""
    X, y = single_label(400, 10)
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(400) % 4)
    model = KernelDLEClassifier(few_labels=few).fit(X[:200], y[:200])
    left_out = (model.loo_scores_.argmax(axis=1) == y[:200]).mean()
    new = (model.predict(X[200:]) == y[200:]).mean()
    assert left_out < 0.36  # 0.25 and three standard deviations of 0.03, the best of twelve lambda
    assert new < 0.36
    np.testing.assert_allclose(model.embedding_model_.label_means_, 0.25, atol=0.05)


@pytest.mark.slow
def test_left_out_scores_of_noise_are_not_optimistic():
    """Few rows of noise with several labels: the mean of the others alone tells a row's own labels."""
    left_out, new = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(260, 20)), (rng.random((260, 6)) < 0.35).astype(np.int8)
        model = KernelDLEClassifier(few_labels=False).fit(X[:60], Y[:60])
        left_out.append(row_precisions(Y[:60], model.loo_scores_).mean())
        new.append(row_precisions(Y[60:], model.predict_scores(X[60:])).mean())
    # what is left of the gap is the choice of lambda and of k, and two parameters per label
    assert np.mean(left_out) - np.mean(new) < 0.12


@pytest.mark.slow
def test_few_labels_of_noise_are_not_seen_through_the_learned_metrics():
    """Five noise items per class in 60 dimensions, where whitening by S_w separates the classes perfectly."""
    shares = []
    for seed in range(10):
        X = np.random.default_rng(seed).normal(size=(10, 60))
        y = np.arange(10) % 2
        model = KernelDLE(few_labels=True).fit(X, y)
        shares.append((model.loo_scores_.argmax(axis=1) == y).mean())
        place = (model.loo_scores_ - model.label_means_) @ model.rotation_
        np.testing.assert_allclose(model.loo_embedding_, place, atol=1e-12)
    assert np.mean(shares) < 0.6


def test_learned_metrics_take_the_penalties_that_plain_z_scores_choose():
    """Their own answers for a row have seen its label: on this noise they would choose otherwise."""
    X, y = np.random.default_rng(0).normal(size=(60, 20)), np.arange(60) % 3
    model = KernelDLE(few_labels=True).fit(X, np.where(np.arange(60) < 15, y, -1))
    plain, whitened, weighted = np.reshape(model.regularization_, (3, 4))
    assert len(set(plain)) > 1
    np.testing.assert_array_equal(whitened, plain)
    np.testing.assert_array_equal(weighted, plain)


def test_few_labels_leave_one_out_is_exact_on_plain_z_scores():
    X, y = single_label(30, 4)
    hidden = np.where(np.arange(30) < 12, y, -1)
    settings = {"few_labels": True, "regularization": 0.1}
    model = KernelDLE(**settings).fit(X, hidden)
    plain = [
        KernelDLE(few_labels=False, graph_weight=mu, regularization=0.1).fit(X, hidden).loo_scores_
        for mu in (0.1, 1.0, 10.0)
    ]
    # without a graph the unlabeled rows would not count for scaling and medians; here they do
    without = KernelDLE(few_labels=False, graph_weight=1e-300, regularization=0.1).fit(X, hidden).loo_scores_
    np.testing.assert_allclose(model.loo_scores_, np.mean([without, *plain], axis=0), atol=1e-10)


def test_landmarks_may_be_any_whole_number():
    X, y = single_label(40, 4)
    for count in (500, np.int64(500)):
        model = KernelDLE(landmarks=count, few_labels=False).fit(X, y)
        np.testing.assert_array_equal(model.embedding_, KernelDLE(few_labels=False).fit(X, y).embedding_)


RNG_ROWS = np.random.default_rng(0).normal(size=(60, 2))


def rows_with_copies(offset=0.3):
    """Rows of which 14 coincide, and one whose ten nearest neighbors are all such copies."""
    copies = np.tile([[30.0, 0.0]], (14, 1))
    others = copies + np.array([0.0, 25.0])
    return np.vstack([RNG_ROWS, copies, copies[:1] + np.array([offset, 0.0]), others])


@pytest.mark.parametrize("offset", [0.05, 0.1, 0.3])
def test_a_row_that_hangs_on_a_vanishing_link_counts_as_unlinked(offset):
    Z = rows_with_copies(offset)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    W = local_graph(Z).toarray()
    degree = W.sum(axis=1)
    assert 0 < degree[74] < 1e-20
    linked = degree > 1e-12 * degree.max()
    root = np.where(linked, 1 / np.sqrt(degree), 0.0)
    L = np.diag(linked * 1.0) - W * np.outer(root, root)
    R = np.random.default_rng(1).normal(size=(len(Z), 6))
    np.testing.assert_allclose(smoothness(sp.csr_array(W), R), R.T @ L @ R, rtol=1e-9)


def test_a_graph_weight_that_the_user_did_not_set_is_dropped_where_it_fails(monkeypatch):
    def deform_up_to_one(rows, smoothness, ratio, weight):
        deform = deform_rows(rows, smoothness, ratio, weight)
        return lambda c: deform(c if c < 1 else -1e9)

    X, y = RNG_ROWS, np.where(np.arange(60) % 2, -1, np.arange(60) % 3)
    monkeypatch.setattr(solution, "deform_rows", deform_up_to_one)
    model = KernelDLEClassifier().fit(X, y)
    assert model.embedding_model_.few_labels_
    assert model.embedding_model_.graph_weight_ == [0.0, 0.1] * 3
    assert np.isfinite(model.predict_scores(X)).all()
    chosen = KernelDLE(graph_weight="loo", few_labels=False).fit(X, y)
    assert chosen.graph_weight_ in (0.0, 0.1)
    with pytest.raises(InvalidInput, match=r"graph_weight weighs the graph .* lower it"):
        KernelDLE(graph_weight=10.0, few_labels=False).fit(X, y)
