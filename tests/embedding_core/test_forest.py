"""The forest kept as arrays: the same answers as scikit-learn's, and nothing compiled in the file."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from embedding_core.annotator import SKOPS_TRUSTED_TYPES, Annotator
from embedding_core.classifiers.forest import ExtraTrees, RandomForest
from embedding_core.errors import InvalidInput
from storage.artifacts.models import dump_model, load_model
from tests.synthetic import multi_label, single_label

TREES = 25


def reference(X, Y, asked):
    """Scores (m, K) of scikit-learn's own forest on label columns."""
    grown = RandomForestClassifier(TREES, random_state=0).fit(X, Y)
    columns = zip(grown.predict_proba(asked), grown.classes_, strict=True)
    return np.column_stack([shares[:, classes == 1].sum(axis=1) for shares, classes in columns])


def test_label_columns_are_scored_as_by_scikit_learn():
    X, Y = multi_label(120)
    Y[:, 1], Y[:, 2] = 0, 1
    found = RandomForest(TREES).fit(X[:80], Y[:80]).predict_scores(X[80:])
    np.testing.assert_allclose(found, reference(X[:80], Y[:80], X[80:]), atol=1e-6)
    assert (found[:, 1] == 0).all()
    assert (found[:, 2] == 1).all()


def test_classes_are_scored_as_by_scikit_learn_also_where_one_is_missing():
    X, y = single_label(120)
    y[y == 1] = 0
    Y = np.eye(4, dtype=np.int8)[y]
    found = RandomForest(TREES).fit(X[:80], Y[:80]).predict_scores(X[80:])
    grown = RandomForestClassifier(TREES, random_state=0).fit(X[:80], y[:80])
    np.testing.assert_allclose(found[:, grown.classes_], grown.predict_proba(X[80:]), atol=1e-6)
    assert (found[:, 1] == 0).all()


def test_rows_that_lie_on_a_threshold_go_where_scikit_learn_sends_them():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(80, 5)).astype(np.float64)
    Y = np.column_stack([X[:, 0] > 1, X[:, 1] + X[:, 2] > 3]).astype(np.int8)
    asked = X + 0.5
    found = RandomForest(TREES).fit(X, Y).predict_scores(asked)
    np.testing.assert_allclose(found, reference(X, Y, asked), atol=1e-6)


def test_one_label_column():
    X, Y = multi_label(60)
    found = RandomForest(TREES).fit(X, Y[:, :1]).predict_scores(X)
    grown = RandomForestClassifier(TREES, random_state=0).fit(X, Y[:, 0])
    np.testing.assert_allclose(found[:, 0], grown.predict_proba(X)[:, 1], atol=1e-6)


def test_blocks_and_sparse_rows_change_nothing(monkeypatch):
    X, Y = multi_label(60)
    model = RandomForest(TREES).fit(X, Y)
    whole = model.predict_scores(X)
    np.testing.assert_array_equal(model.predict_scores(sp.csr_array(X)), whole)
    monkeypatch.setattr("embedding_core.classifiers.forest._BLOCK_PLACES", 7 * TREES)
    np.testing.assert_array_equal(model.predict_scores(X), whole)


def test_unlabeled_rows_are_not_seen():
    X, Y = multi_label(60)
    hidden = np.vstack([Y[:40], np.full((20, Y.shape[1]), -1)])
    np.testing.assert_array_equal(
        RandomForest(TREES).fit(X, hidden).predict_scores(X),
        RandomForest(TREES).fit(X[:40], Y[:40]).predict_scores(X),
    )


def test_the_file_holds_only_arrays_and_equal_models_are_equal_bytes():
    X, Y = multi_label(60)
    payload = dump_model(Annotator("random_forest", {"n_estimators": TREES}).fit(X, Y))
    assert payload == dump_model(Annotator("random_forest", {"n_estimators": TREES}).fit(X, Y))
    loaded = load_model(payload, SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(
        loaded.predict_scores(X),
        Annotator("random_forest", {"n_estimators": TREES}).fit(X, Y).predict_scores(X),
    )


def test_a_malicious_file_raises_an_index_error():
    X, Y = multi_label(60)
    model = RandomForest(TREES).fit(X, Y)
    model.left_ = model.left_ + 10**9
    model.right_ = model.right_ + 10**9
    with pytest.raises(IndexError):
        model.predict_scores(X)


@pytest.mark.parametrize("params", [{"n_estimators": 0}, {"min_samples_leaf": 0.5}])
def test_bad_parameters(params):
    X, Y = multi_label(20)
    with pytest.raises(InvalidInput, match=next(iter(params))):
        RandomForest(**params).fit(X, Y)


def test_numbers_too_large_for_the_trees():
    X, Y = multi_label(20)
    with pytest.raises(InvalidInput, match="scale the features"):
        RandomForest(TREES).fit(X * 1e300, Y)


def test_extra_trees_are_scored_as_by_scikit_learn():
    X, Y = multi_label(120)
    found = ExtraTrees(TREES).fit(X[:80], Y[:80]).predict_scores(X[80:])
    grown = ExtraTreesClassifier(TREES, max_features=0.3, random_state=0).fit(X[:80], Y[:80])
    expected = np.column_stack([shares[:, 1] for shares in grown.predict_proba(X[80:])])
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
def test_calibrated_scores_are_closer_to_frequencies_and_keep_the_order_of_items():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30))  # trees average over many features that do not matter
    Y = (X[:, :3] > [0.0, 0.5, 1.0]).astype(np.int8)
    rows, others = slice(0, 200), slice(200, None)
    plain = RandomForest(n_estimators=100).fit(X[rows], Y[rows])
    model = RandomForest(n_estimators=100, calibrate=True).fit(X[rows], Y[rows])
    before, after = plain.predict_scores(X[others]), model.predict_scores(X[others])
    assert ((after - Y[others]) ** 2).mean() < ((before - Y[others]) ** 2).mean() - 0.001
    for k in range(3):
        assert (np.diff(after[np.argsort(before[:, k]), k]) >= 0).all()


def test_labels_that_do_not_vary_and_single_classes_are_not_calibrated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = np.column_stack([X[:, 0] > 0, np.zeros(40), np.ones(40)]).astype(np.int8)
    scores = ExtraTrees(n_estimators=10, calibrate=True).fit(X, Y).predict_scores(X)
    assert (scores[:, 1:] == [0.0, 1.0]).all()
    assert ((scores[:, 0] > 0) & (scores[:, 0] < 1)).all()
    single = np.eye(2, dtype=np.int8)[Y[:, 0]]
    assert RandomForest(n_estimators=10, calibrate=True).fit(X, single).calibration_ is None
    assert RandomForest(n_estimators=10, calibrate=True).fit(X[:8], Y[:8]).calibration_ is None
