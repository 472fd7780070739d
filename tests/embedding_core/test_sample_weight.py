"""Sample weights of the discriminant methods are equivalent to copies of labeled items."""

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core import DLE, MLDA, MultiLabelDLE
from embedding_core.errors import InvalidInput
from embedding_core.graph.affinity import SIGMA_FACTORS
from tests.literal_discriminant import half_labeled, literal_dle, literal_label_graph
from tests.literal_projections import DP, columns, distances, eigenvalues_in_range, paired_matrices
from tests.synthetic import multi_label, projector, single_label

pytestmark = pytest.mark.filterwarnings("ignore:.* no link to any other")

SHAPES = [(60, 7), (30, 45)]
METHODS = [
    DLE(),
    DLE(projection="f"),
    DLE(projection="g"),
    DLE(objective="balanced"),
    MultiLabelDLE(beta=0.0),
    DP(n_components=5),
    DP(mu=0.3, scaling="natural", n_components=5),
    DP(kernel="rbf", gamma=0.05, ridge=1e-3, n_components=5),
]


def draw_weights(n, low=0):
    return np.random.default_rng(5).integers(low, 4, n)


def with_copies(X, y, W, s):
    """Return every item once (unlabeled if s = 0) and s - 1 labeled copies without edges."""
    hidden = y.copy()
    hidden[s == 0] = -1
    more = np.maximum(s - 1, 0)
    size = len(X) + more.sum()
    W_copies = np.zeros((size, size))
    W_copies[: len(X), : len(X)] = W
    return np.vstack([X, X.repeat(more, axis=0)]), np.concatenate([hidden, y.repeat(more, axis=0)]), W_copies


@pytest.mark.slow
@pytest.mark.parametrize("model", METHODS, ids=repr)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.filterwarnings("ignore:The graph has")  # the copies have no edges
def test_integer_weights_equal_copies_with_the_same_graph_term(model, shape, form):
    X, y, W = half_labeled(single_label, shape)
    s = draw_weights(len(X))
    weighted = model.fit(form(X), y, form(W), sample_weight=s)
    found = weighted.eigenvalues_, distances(weighted.embedding_)
    X_copies, y_copies, W_copies = with_copies(X, y, W, s)
    copied = model.fit(form(X_copies), y_copies, form(W_copies))
    np.testing.assert_allclose(found[0], copied.eigenvalues_, rtol=1e-6, atol=1e-9)
    expected = distances(copied.embedding_[: len(X)])
    np.testing.assert_allclose(found[1], expected, atol=1e-6 * expected.max())
    unweighted = distances(model.fit(form(X), y, form(W)).embedding_)
    assert np.abs(unweighted - expected).max() > 1e-3 * expected.max()


@pytest.mark.parametrize("model", [*METHODS, MultiLabelDLE(), MultiLabelDLE(correlation="all")], ids=repr)
def test_weights_of_one_change_no_byte_and_zero_is_unlabeled(model):
    X, y, W = half_labeled(single_label, (60, 7))
    plain = model.fit(X, y, W).embedding_.tobytes()
    assert model.fit(X, y, W, sample_weight=np.ones(60)).embedding_.tobytes() == plain
    zero = np.random.default_rng(1).random(60) < 0.3
    hidden = np.where(zero, -1, y)
    without = model.fit(X, hidden, W).embedding_.tobytes()
    assert without != plain
    weight = np.where(zero, 0.0, 1.0)
    if (
        getattr(model, "correlation", "train") == "train"
    ):  # otherwise the initial labels of hidden items count in C
        assert model.fit(X, y, W, sample_weight=weight).embedding_.tobytes() == without


@pytest.mark.parametrize("correlation", ["train", "all"])
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_in_the_scatter_and_the_correlation_but_not_in_the_label_graph(correlation, shape):
    X, Y, W_X = half_labeled(multi_label, shape)
    s = np.random.default_rng(2).uniform(0.2, 3, shape[0])
    # the initial label of an unlabeled item has weight 1
    counted = s if correlation == "train" else np.where(Y[:, 0] >= 0, s, 1.0)
    W_L, filled = literal_label_graph(X, Y, correlation, counted)
    beta = W_X.sum() / (W_L.sum() - np.trace(W_L))
    expected, values, _ = literal_dle(X, np.maximum(Y, 0) * s[:, None], W_X + beta * W_L)
    model = MultiLabelDLE(correlation=correlation).fit(X, Y, W_X, sample_weight=s)
    np.testing.assert_allclose(model.beta_, beta)
    np.testing.assert_array_equal(model.initial_labels_, filled)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6)
    np.testing.assert_allclose(projector(model.projection_), projector(expected["u"]), atol=1e-7)


@pytest.mark.parametrize("mu", ["auto", 0.3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_weighted_projections_solve_the_weighted_problem(mu, shape, form):
    X, Y, W = half_labeled(multi_label, shape)
    Y[4] = 0  # labeled, without any label
    s = np.random.default_rng(3).uniform(0.2, 3, shape[0])
    weight = s[Y[:, 0] >= 0].sum() / W.sum() if mu == "auto" else mu
    A, B, C = paired_matrices(X, Y, W, weight, s)
    model = DP(mu=mu, scaling="natural", n_components=6).fit(form(X), Y, form(W), sample_weight=s)
    gamma = columns(model)
    np.testing.assert_allclose(model.mu_, weight)
    np.testing.assert_allclose(model.eigenvalues_, eigenvalues_in_range(A + C, B + C)[:6], atol=1e-8)
    np.testing.assert_allclose(gamma.T @ (B + C) @ gamma, np.eye(6), atol=1e-7)
    np.testing.assert_allclose(gamma.T @ (A + C) @ gamma, np.diag(model.eigenvalues_), atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("model", [DLE(), MultiLabelDLE(), DP()], ids=repr)
def test_sigma_is_chosen_with_the_weights(model):
    X, y, _ = half_labeled(single_label, (60, 7))
    s = draw_weights(60)
    chosen = model.set_params(sigma="cv", n_neighbors=5).fit(X, y, sample_weight=s)
    found = chosen.sigma_, chosen.projection_
    scale = model.set_params(sigma="auto").fit(X, y).sigma_
    assert np.isclose(found[0] / scale, SIGMA_FACTORS).any()
    fixed = model.set_params(sigma=found[0]).fit(X, y, sample_weight=s)
    np.testing.assert_array_equal(fixed.projection_, found[1])


@pytest.mark.parametrize("model", [MLDA(), DLE(), MultiLabelDLE(), DP(), DP(kernel="rbf")], ids=repr)
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), r"sample_weight has shape \(3,\); expected \(60,\)"),
        (np.ones((60, 1)), r"sample_weight has shape \(60, 1\)"),
        (np.full(60, -1.0), "sample_weight contains negative or non-finite values"),
        (np.full(60, np.nan), "sample_weight contains negative or non-finite values"),
        (["much"] * 60, "sample_weight is not numeric"),
        (np.zeros(60), "sample_weight is zero for all labeled items; .* separates classes"),
        (
            (single_label()[1] == 2).astype(float),
            "sample_weight is zero for all labeled items except those of class 2",
        ),
    ],
)
def test_bad_weights_raise_clear_errors(model, weight, message):
    with pytest.raises(InvalidInput, match=message):
        model.fit(*single_label(), sample_weight=weight)
