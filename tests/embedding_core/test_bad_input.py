"""What all public estimators say to bad input: what was found, what is allowed, what to do; never NaN."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from embedding_core import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from tests.core_estimators import NAMES, WITH_GRAPH, fresh, partly_labeled

pytestmark = pytest.mark.slow

LINEAR_FORMS = ["DLE", "DLE-balanced", "MultiLabelDLE", "DiscriminativeProjections", "LPSSVM-linear"]
PIECES_MATTER = [name for name in WITH_GRAPH if name not in LINEAR_FORMS]
"""The others place items by their features alone: with p < n pieces of a graph change nothing of that."""


def changed(X, value):
    X = X.copy()
    X[3, 2] = value
    return X


def one_pair(W, value, mirrored=True):
    W = W.toarray()
    W[4, 7] = value
    W[7, 4] = value if mirrored else 0.0
    return W


def in_pieces(W, pieces=3):
    """The graph without links between every third item and the others."""
    piece = np.arange(W.shape[0]) % pieces
    return np.where(piece[:, None] == piece, W.toarray(), 0.0) + 0.01 * (
        np.eye(W.shape[0], k=pieces) + np.eye(W.shape[0], k=-pieces)
    )


ITEMS = {
    "NaN": (lambda X: changed(X, np.nan), r"X contains NaN(?s:.*)(drop|imput|fill)"),
    "NaN, sparse": (lambda X: sp.csr_array(changed(X, np.nan)), r"X contains NaN(?s:.*)(drop|imput|fill)"),
    "infinite": (lambda X: changed(X, np.inf), r"X contains infinity(?s:.*)(drop|imput|fill|scale)"),
    "no features": (lambda X: X[:, :0], r"0 feature\(s\) \(shape=\(60, 0\)\) while a minimum of 1"),
    "one dimension": (lambda X: X[:, 0], r"Expected 2D array, got 1D array(?s:.*)Reshape"),
    "one row too few": (lambda X: X[1:], r"59\b.*\b60\b.* one row (for each item|of labels)"),
}
LABELS = {
    "all unlabeled": (
        lambda y: y * 0 - 1,
        "All 60 items are unlabeled .* label at least one item of two classes",
    ),
    "all columns unlabeled": (
        lambda y: np.full((60, 3), -1),
        "All 60 items are unlabeled .* label at least one item of two labels",
    ),
    "one class": (lambda y: np.where(y < 0, -1, 5), r"class.* 5|5\).*(Label items of another class)"),
    "no label at all": (lambda y: np.zeros((60, 3), dtype=int), "(Label items|Use MultiLabelDLE)"),
    "two of three columns empty": (lambda y: np.eye(3)[np.zeros(60, int)], "Label items of another class"),
    "label 2": (
        lambda y: np.c_[y, y] * 0 + 2,
        r"y\[0, 0\] = 2 is not a label; expected 0, 1, or a whole row",
    ),
    "label 1/2": (lambda y: np.full((60, 2), 0.5), r"y\[0, 0\] = 0.5 is not a label; expected 0, 1"),
    "half a row": (lambda y: np.c_[y * 0, y * 0 - 1], r"Row 0 of y mixes -1 with 0/1.*throughout"),
    "fractions": (lambda y: y + 0.5, r"y\[0\] = 0.5 is not a class; expected integers or strings"),
    "NaN": (lambda y: np.where(y < 0, np.nan, y), "y contains NaN in row 1; use -1 for unlabeled"),
    "none": (lambda y: None, "y is None; give classes"),
    "mixed types": (
        lambda y: np.array(["a", 1] * 30, dtype=object),
        "y contains int, str; expected all strings",
    ),
    "three dimensions": (lambda y: np.zeros((60, 2, 2)), r"y has 3 dimensions; expected \(n,\) classes"),
}
GRAPHS = {
    "negative": (
        lambda W: one_pair(W, -1.0),
        r"\[4, 7\] = -1.0 is negative; .* Pass exp\(-distance\) or drop",
    ),
    "negative, sparse": (lambda W: sp.csr_array(one_pair(W, -1.0)), r"\[4, 7\] = -1.0 is negative"),
    "one way": (lambda W: one_pair(W, 2.0, False), r"not symmetric: \[4, 7\] = 2.0 .* pass \(W \+ W.T\) / 2"),
    "one way, sparse": (lambda W: sp.csr_array(one_pair(W, 2.0, False)), r"symmetric: \[4, 7\] = 2.0"),
    "NaN": (lambda W: one_pair(W, np.nan), "affinity contains NaN(?s:.*)(drop|give|pass|set)"),
    "infinite": (lambda W: one_pair(W, np.inf), "affinity contains infinity(?s:.*)(drop|give|pass|set)"),
    "shape": (lambda W: W[:9, :9], r"affinity has shape \(9, 9\); expected \(60, 60\), one row and column"),
    "text": (lambda W: "knn", "affinity"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", ITEMS)
def test_bad_items_are_named(name, case):
    X, y = partly_labeled()
    spoil, message = ITEMS[case]
    with pytest.raises(InvalidInput, match=message):
        fresh(name).fit(spoil(X), y)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_new_items_are_named(name, value):
    X, y = partly_labeled()
    model = fresh(name).fit(X, y)
    for items in (changed(X, value), sp.csr_array(changed(X, value))):
        with pytest.raises(InvalidInput, match=r"contains (NaN|infinity)"):
            model.transform(items)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", LABELS)
def test_bad_labels_are_named(name, case):
    X, y = partly_labeled()
    spoil, message = LABELS[case]
    with pytest.raises(InvalidInput, match=message):
        fresh(name).fit(X, spoil(y))


@pytest.mark.parametrize("name", WITH_GRAPH)
@pytest.mark.parametrize("case", GRAPHS)
def test_bad_graphs_are_named(name, case):
    X, y = partly_labeled()
    spoil, message = GRAPHS[case]
    with pytest.raises(InvalidInput, match=message):
        fresh(name).fit(X, y, affinity=spoil(build_knn_graph(X, 10)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("r", [0, -1, 1.5, True, "many"])
def test_numbers_of_components_that_are_none_are_named(name, r):
    with pytest.raises(
        InvalidInput, match=f"n_components={re.escape(repr(r))} is not legal; give an integer >= 1"
    ):
        fresh(name, n_components=r).fit(*partly_labeled())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(60, 7), (40, 55)])
def test_too_many_components_are_refused_with_the_number_there_are(name, shape):
    X, y = partly_labeled(*shape)
    with pytest.raises(
        InvalidInput, match=r"n_components=999 exceeds (the )?(K-1=|n-1=)?(\d+).*; lower it"
    ) as found:
        fresh(name, n_components=999).fit(X, y)
    most = int(re.search(r"exceeds (?:the )?(?:K-1=|n-1=)?(\d+)", str(found.value)).group(1))
    model = fresh(name, n_components=np.int64(most))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "SLEML-nystrom":
            with pytest.raises(InvalidInput, match=r"divides by 1 - μ.*use at most \d+ components"):
                model.fit(X, y)
        else:
            per_label = 4 if name.startswith("LPSSVM") else 1
            assert model.fit(X, y).embedding_.shape == (shape[0], most * per_label)


SLE_ML = [name for name in NAMES if name.startswith("SLEML")]
"""They use the labels as links, so that they have something to place where others have nothing."""


@pytest.mark.parametrize("name", SLE_ML)
@pytest.mark.parametrize("value", [1.0, 1 / 3])
def test_sle_ml_warns_of_items_that_are_all_equal(name, value):
    y = partly_labeled()[1]
    with pytest.warns(UserWarning, match="All 60 items have the same features.* give features that vary"):
        model = fresh(name, n_components=1).fit(np.full((60, 4), value), y)
    assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SLE_ML])
@pytest.mark.parametrize("value", [1.0, 1 / 3])
def test_items_that_are_all_equal_are_refused(name, value):
    y = partly_labeled()[1]
    with pytest.raises(InvalidInput, match=r"(Add|give|Give) "):
        fresh(name, n_components=1).fit(np.full((60, 4), value), y)


@pytest.mark.parametrize("name", [name for name in WITH_GRAPH if name not in SLE_ML])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_graph_without_links_is_refused(name, form):
    X, y = partly_labeled()
    with pytest.raises(InvalidInput, match=r"(links no two|has no edge).* give an affinity with edges"):
        fresh(name).fit(X, y, form(np.zeros((60, 60))))


@pytest.mark.parametrize("name", SLE_ML)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_sle_ml_warns_of_a_graph_without_links(name, form):
    X, y = partly_labeled()
    with pytest.warns(UserWarning) as said:  # labels link the labeled items
        model = fresh(name).fit(X, y, form(np.zeros((60, 60))))
    assert any(re.search("20 of 60 items have no link .* places them", str(one.message)) for one in said)
    assert np.isfinite(model.embedding_).all()


def warnings_of_pieces(name):
    """What a fit on a graph in pieces says, the fit being called by a file named "caller"."""
    X, y = partly_labeled()
    names = {"model": fresh(name), "X": X, "y": y, "W": in_pieces(build_knn_graph(X, 10))}
    with pytest.warns(UserWarning, match=r"has \d components \(sizes \d+, .*\)") as said:
        exec(compile("model.fit(X, y, W)", "caller", "exec"), names)
    assert np.isfinite(names["model"].embedding_).all()
    return said


@pytest.mark.parametrize("name", PIECES_MATTER)
def test_a_graph_in_pieces_warns_once(name):
    assert len(warnings_of_pieces(name)) == 1


@pytest.mark.parametrize("name", PIECES_MATTER)
def test_a_warning_names_the_line_of_the_caller(name):
    assert warnings_of_pieces(name)[0].filename == "caller"


@pytest.mark.parametrize("name", WITH_GRAPH)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_items_without_links_have_a_place(name, form):
    X, y = partly_labeled()
    W = build_knn_graph(X, 10).toarray()
    W[[0, 1, 4]], W[:, [0, 1, 4]] = 0.0, 0.0  # the second and third are unlabeled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fresh(name).fit(X, y, form(W))
        assert np.isfinite(model.embedding_).all()
        assert np.isfinite(model.transform(X)).all()
