"""The eigenmaps follow scikit-learn's contract, reject bad input, and work as registered methods."""

import pickle
import warnings
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from embedding_core import registry
from embedding_core.annotator import Annotator
from embedding_core.eigenmaps.ccdr import CCDR
from embedding_core.eigenmaps.constraint_score import ConstraintScore
from embedding_core.eigenmaps.laplacian_eigenmaps import LaplacianEigenmaps
from embedding_core.eigenmaps.slapeig import SLapEig
from embedding_core.eigenmaps.sle import SLE
from embedding_core.eigenmaps.sle_ml import SLEML
from embedding_core.errors import InvalidInput
from embedding_core.evaluation import evaluate_fold, predict_fold
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.knn_classifier import NeighborLabels
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.registry.catalog import EIGENMAPS as ENTRIES
from tests.literal_eigenmaps import MAPS, overlapping, partly_labeled
from tests.synthetic import multi_label

EIGENMAPS = [SLEML, LaplacianEigenmaps, CCDR, ConstraintScore, SLapEig, SLE]
EACH = pytest.mark.parametrize("method", EIGENMAPS)
EACH_ENTRY = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


@EACH
def test_order_shift_rotation_and_scale_do_not_matter(method):
    X, y = partly_labeled(overlapping)
    model = method(n_neighbors=25).fit(X, y)
    order = np.random.default_rng(0).permutation(60)
    shuffled = method(n_neighbors=25).fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.embedding_, model.embedding_[order], atol=1e-8)
    R = np.linalg.qr(np.random.default_rng(1).normal(size=(7, 7)))[0]
    moved = method(n_neighbors=25).fit(3 * X @ R + 50, y)
    np.testing.assert_allclose(moved.embedding_, model.embedding_, atol=1e-8)
    np.testing.assert_allclose(moved.transform(3 * X @ R + 50), model.transform(X), atol=1e-8)


@pytest.mark.slow
@EACH
def test_pipeline_grid_search_clone_pickle_frames(method):
    X, y = overlapping(90, K=3)
    model, name = method(n_neighbors=60), method.__name__.lower()
    pipeline = make_pipeline(StandardScaler(), model, KNeighborsClassifier(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fold has fewer items than n_neighbors
        search = GridSearchCV(pipeline, {f"{name}__n_components": [1, 2]}, cv=StratifiedKFold(2)).fit(X, y)
    assert search.best_score_ > 0.6
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(7)])
    for kind in MAPS:
        fitted = clone(model).set_params(out_of_sample=kind).set_output(transform="pandas")
        fitted.fit(frame, pd.Series(y))
        columns = [f"{name}0", f"{name}1"]
        assert list(fitted.transform(frame).columns) == columns == fitted.get_feature_names_out().tolist()
        copy = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(copy.transform(frame), fitted.transform(frame))
        assert hasattr(fitted, "projection_") == (kind == "linear")
        assert fitted.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LaplacianEigenmaps(sigma=0), 'sigma=0 is not legal; give a positive number or "auto"'),
        (LaplacianEigenmaps(n_components=60), "n_components=60 exceeds n-1=59 for LaplacianEigenmaps"),
        (LaplacianEigenmaps(n_neighbors=0), 'n_neighbors=0 is not legal; give an integer >= 1 or "auto"'),
        (CCDR(balance=2), "balance=2 is not legal; give a number from 0 to 1"),
        (CCDR(sigma="cv"), "sigma='cv' is not legal"),
        (ConstraintScore(beta=-1), "beta=-1 is not legal; give a number >= 0"),
        (SLapEig(sigma="auto"), "sigma='auto' is not legal; give a positive number"),
        (SLapEig(tau=np.inf), "tau=inf is not legal"),
        (SLE(beta=1.5), "beta=1.5 is not legal; give a number from 0 to 1"),
        (SLE(sigma=-1.0), "sigma=-1.0 is not legal"),
    ],
)
def test_bad_parameters_raise_clear_errors(model, message):
    with pytest.raises(InvalidInput, match=message):
        model.fit(*overlapping())


@EACH
def test_bad_labels_raise_clear_errors(method):
    X, _ = overlapping()
    with pytest.raises(InvalidInput, match="All 60 items are unlabeled"):
        method().fit(X, np.full(60, -1))
    if method is not LaplacianEigenmaps:
        with pytest.raises(InvalidInput, match="1 class with labeled items"):
            method().fit(X, np.zeros(60, dtype=int))


@pytest.fixture
def registered(monkeypatch):
    """The eigenmaps in the registry."""
    entries = {entry.name: entry for entry in ENTRIES}
    monkeypatch.setattr(registry, "METHODS", MappingProxyType({**registry.METHODS, **entries}))


def labels_for(entry, n=90):
    """Return items and 0/1 columns that the method accepts."""
    X, Y = multi_label(n) if entry.multi_label else overlapping(n)
    return X, Y if entry.multi_label else np.eye(4, dtype=np.int8)[Y]


@EACH_ENTRY
def test_every_entry_evaluates_with_and_without_a_supplied_graph(entry, registered):
    X, Y = labels_for(entry)
    train, test = stratified_folds(Y, 3)[0]
    for affinity in (None, build_knn_graph(X, 30)):
        scores = evaluate_fold(
            entry.name, None, X, Y, train, test, affinity, "zscore", single_label=not entry.multi_label
        )
        assert {score.classifier for score in scores} == {"1nn", "10nn"}
        best = max(score.value for score in scores if score.metric == "micro_f1")
        assert best > 0.5


@EACH_ENTRY
@pytest.mark.parametrize("kind", MAPS)
def test_new_rows_that_equal_labeled_rows_get_their_labels(entry, kind, registered):
    X, Y = labels_for(entry)
    Y[::4] = -1
    known = Y[:, 0] >= 0
    fitted = Annotator(entry.name, {"out_of_sample": kind}, scale="zscore").fit(X, Y, build_knn_graph(X, 30))
    np.testing.assert_array_equal(fitted.predict(X[known]), Y[known])
    distance = np.linalg.norm(fitted.neighbors_.Z_ - fitted.transform(X[known]), axis=1)
    assert distance.max() < 1e-12


@EACH_ENTRY
def test_test_rows_of_the_fit_are_compared_with_rows_of_the_fit(entry, registered):
    X, Y = labels_for(entry)
    train, test = stratified_folds(Y, 3)[0]
    unordered = train[::-1]
    (prediction,) = predict_fold(entry.name, None, X, Y, unordered, test, n_neighbors=(1,))
    hidden = np.full_like(Y, -1)
    hidden[train] = Y[train]
    if entry.uses_graph:
        Z = entry.build().fit(X, hidden).embedding_
    else:
        Z = entry.build().fit(X[train], Y[train]).transform(X)
    expected = NeighborLabels(1).fit(Z[train], Y[train])
    np.testing.assert_array_equal(prediction.scores, expected.predict_scores(Z[test]))
