"""The multi-label classifiers keep scikit-learn's contract and that of the registry."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from embedding_core.classifiers.ldac1 import LDAC1
from embedding_core.classifiers.ml_knn import MLkNN
from embedding_core.classifiers.mlls import MLLS
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import decide_labels
from embedding_core.labels import as_indicator
from embedding_core.metrics import multilabel_metrics
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.registry.catalog import CLASSIFIERS as ENTRIES
from embedding_core.scaling import Scaler
from tests.synthetic import multi_label, single_label, sparse_items

EACH = pytest.mark.parametrize("estimator", [LDAC1(), LDAC1(scatter="within"), MLLS(), MLkNN()], ids=repr)


@EACH
def test_scores_and_labels_say_the_same(estimator):
    X, Y = multi_label(80)
    fitted = clone(estimator).fit(X[:60], Y[:60])
    scores, labels = fitted.predict_scores(X[60:]), fitted.predict(X[60:])
    assert scores.shape == labels.shape == (20, 4)
    assert ((scores >= 0) & (scores <= 1)).all()
    np.testing.assert_array_equal(labels, scores > 0.5)
    assert 0 < labels.mean() < 1
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    assert fitted.n_features_in_ == 7


@EACH
def test_classes_are_scored_as_columns_and_predicted_as_classes(estimator):
    X, y = single_label(90)
    names = np.array(["ash", "birch", "cedar", "date"])[y]
    columns = clone(estimator).fit(X[:70], as_indicator(y[:70]).Y)
    classes = clone(estimator).fit(X[:70], names[:70])
    np.testing.assert_array_equal(classes.predict_scores(X[70:]), columns.predict_scores(X[70:]))
    best = columns.predict_scores(X[70:]).argmax(axis=1)
    np.testing.assert_array_equal(classes.predict(X[70:]), classes.classes_[best])
    assert classes.score(X[70:], names[70:]) > 0.6


@EACH
def test_unlabeled_rows_are_left_out(estimator):
    X, Y = multi_label(80)
    hidden, moved = Y.copy(), X.copy()
    hidden[60:], moved[60:] = -1, 1e3
    alone, beside = clone(estimator).fit(X[:60], Y[:60]), clone(estimator).fit(moved, hidden)
    np.testing.assert_array_equal(beside.predict_scores(X), alone.predict_scores(X))


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("shape", [(60, 7), (30, 45)])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix])
def test_sparse_items_give_the_dense_result(estimator, shape, form):
    X, (_, Y) = sparse_items(*shape, density=0.5), multi_label(*shape)
    new = sparse_items(15, shape[1], seed=1, density=0.5)
    dense = clone(estimator).fit(X.toarray(), Y)
    sparse = clone(estimator).fit(form(X), Y)
    expected = dense.predict_scores(new.toarray())
    np.testing.assert_allclose(sparse.predict_scores(form(new)), expected, atol=1e-8)


@EACH
def test_order_of_rows_and_labels_does_not_matter(estimator):
    X, Y = multi_label(80)
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(60), rng.permutation(4)
    expected = clone(estimator).fit(X[:60], Y[:60]).predict_scores(X[60:])
    by_rows = clone(estimator).fit(X[rows], Y[rows]).predict_scores(X[60:])
    by_labels = clone(estimator).fit(X[:60], Y[:60, columns]).predict_scores(X[60:])
    np.testing.assert_allclose(by_rows, expected, atol=1e-9)
    np.testing.assert_allclose(by_labels, expected[:, columns], atol=1e-9)


@EACH
def test_labels_that_no_item_or_every_item_has_are_predicted_as_seen(estimator):
    X, Y = multi_label()
    Y[:, 1], Y[:, 2] = 0, 1
    labels = clone(estimator).fit(X, Y).predict(X)
    assert (labels[:, 1] == 0).all()
    assert (labels[:, 2] == 1).all()


@EACH
def test_the_other_labels_do_not_notice_a_label_that_no_item_has(estimator):
    X, Y = multi_label(80)
    wider = np.column_stack([Y[:60, :2], np.zeros(60, dtype=int), Y[:60, 2:]])
    given = clone(estimator)
    if isinstance(given, MLLS):
        given.set_params(alpha=1.0, beta=0.01, n_components=2)
    expected = clone(given).fit(X[:60], Y[:60]).predict_scores(X[60:])
    found = given.fit(X[:60], wider).predict_scores(X[60:])
    np.testing.assert_allclose(np.delete(found, 2, axis=1), expected, atol=1e-12)


@EACH
def test_odd_items_give_finite_scores(estimator):
    X, Y = multi_label()
    X[:, 2], X[:, 3] = 4.0, X[:, 0]  # constant, repeated feature
    X, Y = np.vstack([X, X[:10]]), np.vstack([Y, 1 - Y[:10]])  # the same items with other labels
    assert np.isfinite(clone(estimator).fit(X, Y).predict_scores(X * 1e6)).all()


@EACH
def test_bad_data_are_named(estimator):
    X, Y = multi_label()
    with pytest.raises(InvalidInput, match="X has 59 rows and Y has 60"):
        clone(estimator).fit(X[:-1], Y)
    with pytest.raises(InvalidInput, match="contains NaN"):
        clone(estimator).fit(np.where(X > 1, np.nan, X), Y)
    with pytest.raises(InvalidInput, match="All 60 items are unlabeled"):
        clone(estimator).fit(X, np.full(60, -1))
    with pytest.raises(InvalidInput, match="is not a label"):
        clone(estimator).fit(X, Y * 2)
    with pytest.raises(InvalidInput, match="expecting 7 features"):
        clone(estimator).fit(X, Y).predict_scores(X[:, :3])


@pytest.mark.parametrize("method", ENTRIES, ids=lambda method: method.name)
def test_entries_of_the_catalog_build_classifiers_that_work(method):
    X, Y = multi_label()
    estimator = method.build()
    assert type(estimator).__name__ == method.attribute
    assert method.role == "classifier"
    assert method.inductive
    assert method.paper
    assert not method.baseline
    assert estimator.fit(X, Y).predict_scores(X).shape == Y.shape


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "scale", "known"),
    [
        (LDAC1(), "none", (0.587, 0.583, 0.590, 0.588)),
        (MLLS(), "none", (0.626, 0.681, 0.610, 0.681)),
        (MLLS(), "zscore", (0.624, 0.676, 0.611, 0.679)),
        (MLkNN(), "none", (0.478, 0.370, 0.632, 0.469)),
        (MLkNN(), "zscore", (0.739, 0.628, 0.719, 0.661)),
    ],
    ids=repr,
)
def test_figures_on_emotions_stay(shared_data, estimator, scale, known):
    """Means over five draws of five folds; the draws alone spread by 0.003 to 0.016."""
    table = pq.read_table(shared_data / "emotions" / "emotions.parquet").to_pandas()
    X = table[[f"f{j}" for j in range(72)]].to_numpy()
    Y = table[[name for name in table if name.startswith("label:")]].to_numpy()
    found = []
    for train, test in (fold for seed in range(5) for fold in stratified_folds(Y, 5, seed)):
        scaler = Scaler(scale).fit(X[train])
        scores = (
            clone(estimator)
            .fit(scaler.transform(X[train]), Y[train])
            .predict_scores(scaler.transform(X[test]))
        )
        values = multilabel_metrics(Y[test], decide_labels(scores), scores)
        found.append(
            [values[name] for name in ("macro_precision", "macro_f1", "micro_precision", "micro_f1")]
        )
    np.testing.assert_allclose(np.mean(found, axis=0), known, atol=0.005)
