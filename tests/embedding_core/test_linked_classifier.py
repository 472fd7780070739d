"""Classifiers on propagated features, models with links in a file, and the protocol of linked collections."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core.annotator import SKOPS_TRUSTED_TYPES, Annotator
from embedding_core.classifiers.linked import PropagatedClassifier
from embedding_core.errors import InvalidInput
from embedding_core.evaluation import open_rows, predict_fold
from embedding_core.graph.propagation import LinkPropagation
from embedding_core.protocols import linked as protocol
from embedding_core.protocols.linked import PUBLIC, SHUFFLE_LINKS, shuffle_links
from embedding_core.protocols.trial import Arm, TrialData
from embedding_core.registry import get_method, inner_methods, method_modules
from embedding_core.transduction.score_rules import Rule
from storage.artifacts.models import dump_model, load_model
from tests.embedding_core.test_kernel_dle_links import linked

SETTINGS = {"labeled": 20, "test": 60, "seed": 0}


def columns(y):
    return (y[:, None] == np.unique(y)).astype(np.int8)


def hidden(y, every=3):
    return np.where((np.arange(len(y)) % every == 0)[:, None], columns(y), -1)


def test_it_is_its_classifier_on_propagated_rows():
    X, y, A = linked(150)
    Y = hidden(y)
    model = get_method("smoothed_logistic_regression").build().fit(X, Y, A)
    P = LinkPropagation(restarts=(0.0,), steps=2).fit_transform(X, A)
    plain = Annotator("logistic_regression", single_label=True).fit(P, Y)
    np.testing.assert_array_equal(model.transduction_scores_, plain.predict_scores(P))
    wide = np.hstack([A[:5], np.zeros((5, 5))])
    np.testing.assert_array_equal(
        model.predict_scores(X[:5], wide), plain.predict_scores(model.propagation_.transform(X[:5], A[:5]))
    )
    assert inner_methods("smoothed_logistic_regression", {}) == ["logistic_regression"]
    assert "embedding_core.classifiers.linear" in method_modules("smoothed_logistic_regression", {})


def test_without_links_neighbors_take_their_place():
    X, y, _ = linked(150)
    model = PropagatedClassifier("1nn").fit(X, hidden(y))
    assert model.propagation_.graph_.nnz > 0
    assert model.predict(X).shape == (150, 3)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("kernel_dle", {"links": "only"}),
        ("kernel_dle", {"links": "mean"}),
        ("kernel_dle", {"links": "loo"}),
        ("smoothed_logistic_regression", {}),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_saved_model_predicts_the_same(method, params, form):
    X, y, A = linked(120)
    fitted = Annotator(method, params, single_label=True).fit(form(X), hidden(y), sp.csr_array(A))
    loaded = load_model(dump_model(fitted), SKOPS_TRUSTED_TYPES)
    new = form(linked(seed=5)[0])
    np.testing.assert_array_equal(loaded.predict_scores(new), fitted.predict_scores(new))
    links = np.zeros((90, 120))
    links[np.arange(90), np.arange(90)] = 1
    given = loaded.model_.predict_scores(new, links)
    np.testing.assert_array_equal(given, fitted.model_.predict_scores(new, links))


def trial_data(n=300):
    X, y, A = linked(n)
    train = np.arange(n) < 60
    return TrialData(X, columns(y), tuple("abc"), True, train, test=~train, links=sp.csr_array(A))


def test_the_first_trial_also_measures_the_public_split():
    data = trial_data()
    cells = [protocol.trial(data, Arm("LR", "logistic_regression"), SETTINGS, "unit", k) for k in (0, 1)]
    assert [[cell.condition for cell in found] for found in cells] == [["N=20", PUBLIC], ["N=20"]]
    assert all(0 <= cell.value <= 1 for found in cells for cell in found)


def test_links_are_used_by_methods_with_a_graph():
    data = trial_data()
    (ours, _), (shuffled, _), (ignored, _) = (
        protocol.trial(data, Arm("one", "kernel_dle", params), SETTINGS, "unit", 0)
        for params in ({"links": "only"}, {"links": "only", SHUFFLE_LINKS: True}, {})
    )
    assert ours.value > ignored.value > shuffled.value


def test_labels_of_test_rows_are_not_seen():
    data = trial_data()
    arm = Arm("one", "kernel_dle", {"links": "loo"})
    rng = np.random.default_rng(0)
    train, test = np.arange(0, 300, 3), np.arange(1, 300, 3)
    before = protocol._accuracy(data, arm, "unit", train, test, rng)
    other = data.Y.copy()
    other[test] = np.roll(other[test], 1, axis=1)
    after = protocol._accuracy(
        TrialData(data.X, other, single_label=True, links=data.links), arm, "unit", train, test, rng
    )
    assert before > 0.5 > after


def test_shuffled_links_have_the_same_degrees():
    A = sp.csr_array(linked()[2])
    B = shuffle_links(A, np.random.default_rng(0))
    assert sorted(A.sum(axis=0)) == sorted(B.sum(axis=0))
    assert (A != B).nnz > 0


def test_a_set_without_links_is_refused():
    data = TrialData(np.eye(4), columns(np.array([0, 0, 1, 1])), single_label=True)
    with pytest.raises(InvalidInput, match="no links"):
        protocol.trial(data, Arm("LR", "logistic_regression"), SETTINGS, "unit", 0)


def test_a_part_of_a_set_keeps_its_links():
    data = trial_data()
    rows = np.arange(0, 300, 2)
    part = data.take(rows)
    np.testing.assert_array_equal(part.links.toarray(), data.links.toarray()[np.ix_(rows, rows)])
    assert part.test is not None and part.test.sum() == 120


@pytest.mark.filterwarnings("ignore:No label reaches")
def test_new_items_of_a_harmonic_function_are_the_mean_of_their_links():
    X, y, A = linked(120)
    known, new = np.arange(100), np.arange(100, 120)
    model = get_method("harmonic_functions").build().fit(X[known], hidden(y)[known], A[np.ix_(known, known)])
    links = A[np.ix_(new, known)]
    links[0] = 0  # placed by its neighbors
    placed = model.predict_scores(X[new], links)
    rows = np.flatnonzero(links.sum(axis=1))
    means = links[rows] @ model.shares_ / links[rows].sum(axis=1, keepdims=True)
    expected = Rule(*model.decision_weights_, model.exclusive_).scores(means)
    np.testing.assert_allclose(placed[rows], expected, atol=1e-12)
    np.testing.assert_array_equal(placed[0], model.predict_scores(X[new[:1]])[0])


@pytest.mark.filterwarnings("ignore:No label reaches")
@pytest.mark.parametrize("method", ["kernel_dle", "smoothed_logistic_regression", "harmonic_functions"])
def test_test_items_of_an_open_collection_arrive_with_their_links(method):
    X, y, A = linked(120)
    train, test = np.arange(0, 120, 2), np.arange(1, 120, 4)
    rows = open_rows(120, test)
    params = {"links": "only"} if method == "kernel_dle" else {}
    inside, across = A[np.ix_(rows, rows)], A[np.ix_(test, rows)]
    given = np.full((120, 3), -1)
    given[train] = columns(y)[train]
    (found,) = predict_fold(
        method, params, X, columns(y), train, test, inside, single_label=True, closed=False, links=across
    )
    fitted = Annotator(method, params, single_label=True).fit(X[rows], given[rows], inside)
    np.testing.assert_array_equal(found.scores, fitted.model_.predict_scores(X[test], across))
    (without,) = predict_fold(
        method, params, X, columns(y), train, test, inside, single_label=True, closed=False
    )
    assert (found.scores != without.scores).any()


def test_methods_that_take_no_links_ignore_them():
    X, y, A = linked(120)
    fitted = Annotator("1nn", single_label=True).fit(X, columns(y))
    np.testing.assert_array_equal(fitted.predict_scores(X, A), fitted.predict_scores(X))


@pytest.mark.filterwarnings("ignore:No label reaches")
def test_links_of_new_items_to_each_other_do_not_change_a_transduction():
    X, y, A = linked(120)
    known, new = np.arange(100), np.arange(100, 120)
    fitted = Annotator("harmonic_functions", single_label=True).fit(
        X[known], columns(y)[known], A[:100, :100]
    )
    wide = np.hstack([A[np.ix_(new, known)], A[np.ix_(new, new)]])
    np.testing.assert_array_equal(
        fitted.predict_scores(X[new], wide), fitted.predict_scores(X[new], A[np.ix_(new, known)])
    )


def test_a_model_that_declined_links_does_not_use_those_of_new_items():
    X, y, A = linked(240, mixing=0.05)
    given = np.where(np.arange(240)[:, None] % 2 == 0, columns(y), -1)
    fit = Annotator("kernel_dle", {"links": "loo", "few_labels": False}, single_label=True)
    assert fit.fit(X, given, A).uses_links
    X[:, :3] = columns(y)
    order = np.random.default_rng(1).permutation(240)
    assert not fit.fit(X, given, A[np.ix_(order, order)]).uses_links
