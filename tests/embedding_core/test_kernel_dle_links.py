"""Kernel DLE with links: exact leave-one-out, the choice of the kernel, new items."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core import KernelDLE, KernelDLEClassifier
from embedding_core.errors import InvalidInput
from embedding_core.evaluation import predict_fold
from embedding_core.kernel_dle.links import CHOICES
from embedding_core.model_selection.inner_choice import rate_scores
from tests.embedding_core.test_link_propagation import literal_kernel, unit
from tests.literal_kernel_dle import centered_trace, ridge_scores

EXACT = {"rtol": 0, "atol": 1e-9}


def linked(n=90, p=40, seed=0, mixing=0.15, classes=3):
    """Items of some classes with weakly informative words, linked mostly within their class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    rates = 0.08 + 0.2 * (rng.random((classes, p)) < 0.3)
    X = (rng.random((n, p)) < rates[y]).astype(float)
    same = y[:, None] == y
    A = np.triu(rng.random((n, n)) < np.where(same, 6 / n, 6 * mixing / n), 1).astype(float)
    return X, y, A + A.T


def partly(y, every=3):
    return np.where(np.arange(len(y)) % every == 0, y, -1)


def shuffled(A, seed=1):
    order = np.random.default_rng(seed).permutation(len(A))
    return A[np.ix_(order, order)]


@pytest.mark.parametrize("lam", [1e-3, 0.1])
def test_scores_are_ridge_regression_with_the_literal_kernel(lam):
    X, y, A = linked()
    given = partly(y)
    model = KernelDLE(links="only", regularization=lam).fit(X, given, A)
    K, rows = literal_kernel(A, unit(X)), np.flatnonzero(given >= 0)
    Y = (y[:, None] == np.arange(3)).astype(float)
    penalty = lam * centered_trace(K[np.ix_(rows, rows)]) / len(rows)
    expected = ridge_scores(K[np.ix_(rows, rows)], Y[rows], K[:, rows], penalty)
    np.testing.assert_allclose(model.item_scores_, expected, **EXACT)


@pytest.mark.parametrize("links", ["only", "mean"])
@pytest.mark.parametrize("lam", [1e-3, 0.1])
def test_leave_one_out_is_that_of_refitting_without_the_label(links, lam):
    X, y, A = linked()
    given = partly(y)
    rows = np.flatnonzero(given >= 0)
    Y = (y[:, None] == np.arange(3)).astype(float)
    model = KernelDLE(links=links, regularization=lam).fit(X, given, A)
    K = literal_kernel(A, unit(X))[np.ix_(rows, rows)]
    if links == "mean":
        fitted = KernelDLE(regularization=lam, few_labels=False).fit(X, given)
        kernel = fitted.machines_[0].kernel
        K = (K + kernel.columns(X[rows], X[rows])) / 2
    penalty = lam * centered_trace(K) / len(rows)
    for number in range(len(rows)):
        others = np.delete(np.arange(len(rows)), number)
        answer = ridge_scores(K[np.ix_(others, others)], Y[rows[others]], K[[number]][:, others], penalty)[0]
        answer += model.label_means_ - Y[rows[others]].mean(axis=0)
        np.testing.assert_allclose(model.loo_scores_[number], answer, **EXACT)


def test_labels_of_other_items_do_not_move_the_kernel():
    """Hiding a label changes neither propagated rows nor medians of the links kernel."""
    X, y, A = linked()
    given = partly(y)
    fewer = given.copy()
    fewer[0] = -1
    models = [KernelDLE(links="only").fit(X, labels, A) for labels in (given, fewer)]
    np.testing.assert_array_equal(*(model.propagation_.propagated() for model in models))


def test_the_best_leave_one_out_score_decides():
    X, y, A = linked()
    given = partly(y)
    labeled, Y = given >= 0, (y[:, None] == np.arange(3)).astype(np.int8)
    chosen = KernelDLE(links="loo").fit(X, given, A)
    scores = chosen.links_scores_
    assert set(scores) == set(CHOICES["loo"])
    assert scores[chosen.links_] == max(scores.values())
    single = {
        "links": KernelDLE(links="only").fit(X, given, A),
        "mean": KernelDLE(links="mean").fit(X, given, A),
        "attributes": KernelDLE(few_labels=False).fit(X, given),
    }
    l = labeled.sum()  # noqa: E741
    for name, model in single.items():
        # the stored scores are about one mean; the quality is that of refitting
        plain = model.loo_scores_ - (Y[labeled] - Y[labeled].mean(axis=0)) / (l - 1)
        assert scores[name] == pytest.approx(rate_scores(Y[labeled], plain)[0])
    np.testing.assert_allclose(chosen.item_scores_, single[chosen.links_].item_scores_, **EXACT)


def test_informative_links_are_chosen_and_help():
    X, y, A = linked(600)
    given, hidden = partly(y, 12), partly(y, 12) < 0
    model = KernelDLEClassifier(links="loo").fit(X, given, A)
    plain = KernelDLEClassifier().fit(X, given)
    right = (model.transduction_scores_[hidden].argmax(axis=1) == y[hidden]).mean()
    assert model.embedding_model_.links_ != "attributes"
    assert right > (plain.predict(X[hidden]) == y[hidden]).mean() + 0.05


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_links_lose(seed):
    X, y, A = linked(300, p=120)
    X[:, :3] = (y[:, None] == np.arange(3)) * (np.random.default_rng(seed).random((300, 3)) < 0.8)
    model = KernelDLEClassifier(links="loo").fit(X, partly(y, 5), shuffled(A, seed))
    assert model.embedding_model_.links_ == "attributes"


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, 20])
def test_a_decision_against_links_is_a_fit_without_them(every):
    """Also with five labels per class, where a fit without links averages over several graphs of its own."""
    X, y, A = linked(300)
    X[:, :3] = y[:, None] == np.arange(3)
    model = KernelDLEClassifier(links="loo").fit(X, partly(y, every), shuffled(A))
    assert model.embedding_model_.links_ == "attributes"
    assert not hasattr(model, "transduction_scores_")
    plain = KernelDLEClassifier().fit(X, partly(y, every))
    np.testing.assert_array_equal(model.predict_scores(X), plain.predict_scores(X))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("links", ["only", "mean"])
def test_new_items_with_links_score_as_items_of_the_collection(form, links):
    """Unlabeled items, first inside the collection and then new to it, get the same scores."""
    X, y, A = linked()
    given = np.where(np.arange(90) < 60, y, -1)
    A[:60, 60:] = A[60:, :60] = 0  # the known part does not change
    inside = KernelDLEClassifier(links=links).fit(form(X), given, form(A))
    apart = KernelDLEClassifier(links=links).fit(form(X[:60]), given[:60], form(A[:60, :60]))
    new = apart.predict_scores(form(X[60:]), links=form(A[60:]))
    np.testing.assert_allclose(new, inside.transduction_scores_[60:], **EXACT)


def test_new_items_without_links_are_placed_by_their_attributes():
    X, y, A = linked()
    model = KernelDLEClassifier(links="only").fit(X, partly(y), A)
    new = linked(seed=9)[0]
    np.testing.assert_allclose(
        model.predict_scores(new), model.predict_scores(new, np.zeros((90, 90))), **EXACT
    )
    assert model.predict(new).shape == (90,)


def test_several_labels_per_item():
    X, y, A = linked(200)
    Y = np.column_stack([y == 0, y == 1, (y == 1) | (y == 2)]).astype(int)
    given = np.where((np.arange(200) % 3 == 0)[:, None], Y, -1)
    model = KernelDLEClassifier(links="loo").fit(X, given, A)
    hidden = given[:, 0] < 0
    assert (model.transduction_scores_[hidden] > 0.5).astype(int).shape == Y[hidden].shape
    plain = KernelDLEClassifier().fit(X, given)
    wrong = [
        ((s > 0.5) != Y[hidden]).mean()
        for s in (model.transduction_scores_[hidden], plain.predict_scores(X[hidden]))
    ]
    assert wrong[0] < wrong[1]


def test_a_fold_is_scored_with_the_links_of_its_test_items():
    X, y, A = linked(200)
    Y = (y[:, None] == np.arange(3)).astype(np.int8)
    train, test = np.arange(0, 200, 2), np.arange(1, 200, 2)
    (found,) = predict_fold("kernel_dle", {"links": "only"}, X, Y, train, test, A, single_label=True)
    given = np.full((200, 3), -1)
    given[train] = Y[train]
    model = KernelDLEClassifier(links="only").fit(X, given, A)
    np.testing.assert_array_equal(found.scores, model.transduction_scores_[test])


def test_landmarks_span_the_mean_of_both_kernels():
    X, y, A = linked(200)
    model = KernelDLE(links="mean", landmarks=30).fit(X, y, A)
    assert model.machines_[0].items.shape[0] <= 30


@pytest.mark.parametrize(
    ("params", "affinity", "says"),
    [
        ({"links": "loo"}, None, "pass them as affinity"),
        ({"links": "always"}, np.eye(90), "links='always'"),
        ({"links": "loo", "graph_weight": 1.0}, np.ones((90, 90)), "graph_weight"),
    ],
)
def test_wrong_use_is_refused(params, affinity, says):
    X, y, _ = linked()
    with pytest.raises(InvalidInput, match=says):
        KernelDLE(**params).fit(X, y, affinity)
