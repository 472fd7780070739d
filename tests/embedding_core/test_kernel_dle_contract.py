"""Kernel DLE keeps scikit-learn's contract and that of the registry."""

import doctest
import inspect
import pickle
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from embedding_core import InvalidInput, KernelDLE, KernelDLEClassifier
from embedding_core.annotator import SKOPS_TRUSTED_TYPES, Annotator
from embedding_core.labels import as_indicator
from embedding_core.scaling import Scaler, TfIdf
from storage.artifacts.models import dump_model, load_model
from tests.synthetic import multi_label, single_label, sparse_items

EACH = pytest.mark.parametrize(
    "estimator",
    [
        KernelDLEClassifier(few_labels=False),
        KernelDLEClassifier(few_labels=False, tune_for="micro_f1", graph_weight=0.5),
        KernelDLEClassifier(few_labels=True, tune_for="macro_f1"),
        KernelDLEClassifier(few_labels=True, calibrate=True),
        KernelDLEClassifier(kernel="linear", few_labels=False, landmarks=None),
    ],
    ids=repr,
)


@EACH
def test_scores_and_labels_say_the_same(estimator):
    X, Y = multi_label(80)
    fitted = clone(estimator).fit(X[:60], Y[:60])
    scores, labels = fitted.predict_scores(X[60:]), fitted.predict(X[60:])
    assert scores.shape == labels.shape == (20, 4)
    assert ((scores >= 0) & (scores <= 1)).all()
    np.testing.assert_array_equal(labels, scores > 0.5)
    np.testing.assert_array_equal(labels, fitted.decision_function(X[60:]) > 0)
    assert 0 < labels.mean() < 1
    assert fitted.classes_.tolist() == [0, 1, 2, 3]


def test_calibrated_scores_of_few_labels_are_probabilities_in_the_same_order():
    rng = np.random.default_rng(5)
    Y = (rng.random((240, 12)) < 0.04).astype(int)
    X = np.hstack([Y, rng.random((240, 8)) < 0.3]).astype(float)
    plain = KernelDLEClassifier(few_labels=True).fit(X[:120], Y[:120]).predict_scores(X[120:])
    found = KernelDLEClassifier(few_labels=True, calibrate=True).fit(X[:120], Y[:120]).predict_scores(X[120:])
    assert plain.mean() > 3 * Y[120:].mean()
    assert abs(found.mean() - Y[120:].mean()) < 0.01
    assert ((found - Y[120:]) ** 2).mean() < ((plain - Y[120:]) ** 2).mean() / 3
    np.testing.assert_array_equal(found.ravel().argsort(kind="stable"), plain.ravel().argsort(kind="stable"))


def test_calibrated_scores_of_constant_labels_are_their_constant():
    X, Y = multi_label(60)
    Y = np.column_stack([Y, np.ones(60, dtype=int), np.zeros(60, dtype=int)])
    found = KernelDLEClassifier(few_labels=True, calibrate=True).fit(X[:40], Y[:40])
    assert found.predict_scores(X[40:])[:, 4:].tolist() == [[1.0, 0.0]] * 20
    assert found.loo_scores_[:, 4:].tolist() == [[1.0, 0.0]] * 40


@EACH
def test_classes_are_scored_as_columns_and_predicted_as_classes(estimator):
    X, y = single_label(90)
    names = np.array(["ash", "birch", "cedar", "date"])[y]
    columns = clone(estimator).fit(X[:70], as_indicator(y[:70]).Y)
    classes = clone(estimator).fit(X[:70], names[:70])
    np.testing.assert_array_equal(classes.predict_scores(X[70:]), columns.predict_scores(X[70:]))
    best = classes.predict_proba(X[70:]).argmax(axis=1)
    np.testing.assert_array_equal(classes.predict(X[70:]), classes.classes_[best])
    np.testing.assert_allclose(classes.predict_proba(X[70:]).sum(axis=1), 1.0)
    assert classes.score(X[70:], names[70:]) > 0.8


@EACH
def test_labels_that_no_item_or_every_item_has_are_predicted_as_seen(estimator):
    X, Y = multi_label()
    Y[:, 1], Y[:, 2] = 0, 1
    labels = clone(estimator).fit(X, Y).predict(X)
    assert (labels[:, 1] == 0).all()
    assert (labels[:, 2] == 1).all()


@pytest.mark.slow
@EACH
def test_order_of_rows_and_labels_does_not_matter(estimator):
    X, Y = multi_label(80)
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(60), rng.permutation(4)
    expected = clone(estimator).fit(X[:60], Y[:60]).predict_scores(X[60:])
    by_rows = clone(estimator).fit(X[rows], Y[rows]).predict_scores(X[60:])
    by_labels = clone(estimator).fit(X[:60], Y[:60][:, columns]).predict_scores(X[60:])
    np.testing.assert_allclose(by_rows, expected, atol=1e-7)
    np.testing.assert_allclose(by_labels, expected[:, columns], atol=1e-7)


@EACH
def test_odd_items_give_finite_scores(estimator):
    X, Y = multi_label()
    X[:, 2], X[:, 3] = 4.0, X[:, 0]  # constant, repeated feature
    X, Y = np.vstack([X, X[:10]]), np.vstack([Y, 1 - Y[:10]])  # the same items with other labels
    X, Y = np.vstack([X, np.tile(X[:1], (15, 1))]), np.vstack([Y, np.tile(Y[:1], (15, 1))])  # many copies
    assert np.isfinite(clone(estimator).fit(X, Y).predict_scores(X * 1e6)).all()


@EACH
def test_float32_gives_nearly_the_same(estimator):
    X, Y = multi_label(80)
    double, single = (clone(estimator).fit(given[:60], Y[:60]) for given in (X, X.astype(np.float32)))
    scores = single.predict_scores(X[60:].astype(np.float32))
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, double.predict_scores(X[60:]), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("density", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize("kernel", ["auto", "mixture", "linear"])
def test_sparse_items_give_the_dense_result(kernel, form, density):
    X, (_, Y) = sparse_items(60, 45, density=density), multi_label(60)
    new = sparse_items(15, 45, seed=1, density=density)
    estimator = KernelDLEClassifier(kernel=kernel, few_labels=False)
    dense, sparse = clone(estimator).fit(X.toarray(), Y), clone(estimator).fit(form(X), Y)
    assert sparse.embedding_model_.sparse_ == (density < 0.5)
    np.testing.assert_allclose(sparse.predict_proba(form(new)), dense.predict_proba(new.toarray()), atol=1e-8)
    np.testing.assert_allclose(sparse.predict_proba(new.toarray()), dense.predict_proba(new), atol=1e-8)


def test_auto_goes_by_the_zeros():
    Y = multi_label(60)[1]
    kinds = {}
    for density in (0.05, 0.3, 0.8):
        X = sparse_items(60, 45, density=density)
        kinds[density] = KernelDLE(few_labels=False).fit(X, Y).kernel_
    X = sparse_items(60, 45, density=0.05)
    X.data[::2] *= -1
    assert kinds == {0.05: "text", 0.3: "sparse", 0.8: "mixture"}
    assert KernelDLE(few_labels=False).fit(X, Y).kernel_ == "sparse"


def test_few_labels_depends_on_the_labeled_rows_per_label():
    X, y = single_label(80, K=2)
    hidden = np.full(80, -1)
    for count, few in ((10, True), (11, False)):
        for c in (0, 1):
            rows = np.flatnonzero(y == c)[:count]
            hidden[rows] = y[rows]
        assert KernelDLE().fit(X, hidden).few_labels_ is few
    model = KernelDLE(few_labels=True).fit(X, hidden)
    assert len(model.machines_) == 12
    assert model.graph_weight_ == [0.0, 0.1, 1.0, 10.0] * 3


@EACH
def test_clone_pickle_and_same_bytes(estimator):
    X, Y = multi_label()
    fitted = clone(estimator).fit(X, Y)
    copy = clone(fitted)
    for ask in ("predict", "predict_scores", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(copy, ask)(X)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict_scores(X).tobytes() == fitted.predict_scores(X).tobytes()
    assert copy.fit(X, Y).predict_scores(X).tobytes() == fitted.predict_scores(X).tobytes()


@pytest.mark.parametrize("rows", [60, 15])
def test_a_kept_model_gives_the_same_scores(rows):
    X, Y = multi_label()
    Y[rows:] = -1
    annotator = Annotator("kernel_dle", label_names=list("abcd")).fit(X, Y)
    loaded = load_model(dump_model(annotator), SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(loaded.predict_scores(X), annotator.predict_scores(X))
    assert loaded.model_.embedding_model_.few_labels_ == (rows == 15)


@pytest.mark.slow
def test_pipeline_and_grid_search():
    X, y = single_label(90)
    pipeline = make_pipeline(StandardScaler(), KernelDLEClassifier())
    grid = {"kerneldleclassifier__kernel": ["linear", "mixture"]}
    assert GridSearchCV(pipeline, grid, cv=StratifiedKFold(3)).fit(X, y).best_score_ > 0.8
    embedded = make_pipeline(KernelDLE(), KNeighborsClassifier())
    assert GridSearchCV(embedded, {"kerneldle__n_components": [1, 3]}, cv=3).fit(X, y).best_score_ > 0.8


def test_precomputed_kernels_are_cut_by_folds():
    X, y = single_label(90)
    search = GridSearchCV(
        KernelDLEClassifier(kernel="precomputed"), {"regularization": [0.1, "loo"]}, cv=StratifiedKFold(3)
    )
    assert search.fit(X @ X.T, y).best_score_ > 0.7


def test_frames_and_sparse_labels():
    X, Y = multi_label()
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(7)])
    fitted = KernelDLEClassifier().fit(frame, pd.DataFrame(Y))
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    expected = KernelDLEClassifier().fit(X, Y).predict(X)
    np.testing.assert_array_equal(fitted.predict(frame), expected)
    np.testing.assert_array_equal(KernelDLEClassifier().fit(X, sp.csr_array(Y)).predict(X), expected)
    assert KernelDLE().fit(frame, Y).get_feature_names_out()[0] == "kerneldle0"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "rbf"}, "kernel='rbf' is not legal"),
        ({"graph_weight": -1.0}, "graph_weight=-1.0 is not legal"),
        ({"regularization": 0.0}, "regularization=0.0 is not legal"),
        ({"landmarks": 0}, "landmarks=0 is not legal"),
        ({"few_labels": "no"}, "few_labels='no' is not legal"),
        ({"n_components": 9}, "n_components=9 exceeds the 4 directions"),
        ({"tune_for": "f1"}, "tune_for='f1' is not legal"),
        ({"kernel": lambda A, B: A}, "kernel function returned shape"),
        ({"kernel": "precomputed"}, "should be a square matrix"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(InvalidInput, match=message):
        KernelDLEClassifier(**parameters).fit(*multi_label())


def test_bad_data_are_named():
    X, Y = multi_label()
    for given, labels, message in (
        (X[:-1], Y, "X has 59 rows and Y has 60"),
        (np.where(X > 1, np.nan, X), Y, "contains NaN"),
        (X, np.full(60, -1), "All 60 items are unlabeled"),
        (X, np.zeros_like(Y), "no label on which they differ"),
        (X, np.ones(60, dtype=int), "one class, 1"),
        (X, np.where(np.arange(60) < 1, 1, -1), "n_samples=1 labeled item"),
        (np.ones((60, 3)), Y, "features that vary"),
    ):
        with pytest.raises(InvalidInput, match=message):
            KernelDLEClassifier().fit(given, labels)
    with pytest.raises(InvalidInput, match="expecting 7 features"):
        KernelDLEClassifier().fit(X, Y).predict(X[:, :3])
    with pytest.raises(InvalidInput, match="affinity has shape"):
        KernelDLEClassifier(graph_weight=1.0).fit(X, Y, affinity=np.ones((3, 3)))


@pytest.mark.parametrize("estimator", [KernelDLE(), KernelDLEClassifier()], ids=repr)
def test_examples_run_and_docstrings_name_every_parameter(estimator):
    found = doctest.testmod(import_module(type(estimator).__module__))
    assert found.attempted > 2
    assert found.failed == 0
    text = inspect.getdoc(type(estimator))
    for section in ("Parameters", "Attributes", "Notes", "References", "Examples"):
        assert f"\n{section}\n---" in text
    fitted = clone(estimator).fit(*multi_label())
    named = [*estimator.get_params(), *(name for name in vars(fitted) if name.endswith("_"))]
    assert [name for name in named if name not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["auto", "linear"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_by_cosine_is_a_scaling_in_front(kernel, form):
    rng = np.random.default_rng(3)
    Y = (rng.random((50, 3)) < 0.4).astype(np.int8)
    X = rng.poisson(0.1 + Y @ rng.random((3, 20))) * (rng.random((50, 20)) < 0.4)
    X, new = form(X[:40].astype(float)), form(X[40:].astype(float))
    for rows, asked, scaler in ((X, new, TfIdf()), (X / 4, new / 4, Scaler("unit"))):
        inside = KernelDLEClassifier(kernel=kernel, few_labels=False, input_scale="cosine").fit(rows, Y[:40])
        scaler.fit(rows)
        outside = KernelDLEClassifier(kernel=kernel, few_labels=False, input_scale="none")
        outside.fit(scaler.transform(rows), Y[:40])
        expected = outside.predict_scores(scaler.transform(asked))
        np.testing.assert_allclose(inside.predict_scores(asked), expected, atol=1e-8)
