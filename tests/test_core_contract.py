"""The estimators keep scikit-learn's contract."""

import pickle
import subprocess
import sys

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
from sklearn.utils.estimator_checks import parametrize_with_checks

import embedding_core
from embedding_core import DLE, MLDA, MultiLabelDLE
from tests.synthetic import multi_label, single_label

# Some checks fit ten items, where ten neighbours link all pairs and a warning says so.
INSTANCES = [
    MLDA(),
    MLDA(weights="correlated", scaling="within"),
    DLE(n_neighbors=5),
    DLE(n_neighbors=5, projection="g"),
    DLE(n_neighbors=5, objective="balanced"),
    DLE(graph="gaussian"),
    MultiLabelDLE(n_neighbors=5),
    MultiLabelDLE(n_neighbors=5, correlation="all", beta=0.5),
]

EXPECTED_FAILURES: dict[str, str] = {}
"""Common checks that may fail, with the reason; none at present."""

ESTIMATORS = [MLDA(), DLE(), MultiLabelDLE()]


@parametrize_with_checks(INSTANCES, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_clone_keeps_parameters_and_nothing_fitted(estimator):
    X, y = single_label()
    fitted = clone(estimator).set_params(n_components=2).fit(X, y)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_pipeline_and_grid_search(estimator):
    X, y = single_label(90)
    pipeline = make_pipeline(StandardScaler(), clone(estimator), KNeighborsClassifier(1))
    name = type(estimator).__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__n_components": [1, 3]}, cv=StratifiedKFold(3))
    search.fit(X, y)
    assert search.best_params_ == {f"{name}__n_components": 3}
    assert search.best_score_ > 0.6


@pytest.mark.parametrize("estimator", [MLDA(), MultiLabelDLE()], ids=repr)
def test_pipeline_with_label_columns(estimator):
    X, Y = multi_label(80)
    pipeline = make_pipeline(clone(estimator), KNeighborsClassifier(3)).fit(X[:60], Y[:60])
    assert pipeline.predict(X[60:]).shape == (20, 4)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_fitted_attributes(estimator):
    X, y = single_label()
    y[::3] = -1
    fitted = clone(estimator).fit(X, y)
    assert fitted.projection_.shape == (7, 3)
    assert fitted.eigenvalues_.shape == (3,)
    assert fitted.embedding_.shape == (60, 3)
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    assert fitted.n_features_in_ == 7
    np.testing.assert_array_equal(fitted.transform(X), fitted.embedding_)
    np.testing.assert_array_equal(clone(estimator).fit_transform(X, y), fitted.embedding_)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_frames_in_and_out(estimator):
    X, y = single_label()
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(7)])
    fitted = clone(estimator).set_output(transform="pandas").fit(frame, pd.Series(y))
    name = type(estimator).__name__.lower()
    assert list(fitted.transform(frame).columns) == [f"{name}{j}" for j in range(3)]
    assert fitted.get_feature_names_out().tolist() == [f"{name}{j}" for j in range(3)]
    assert fitted.feature_names_in_.tolist() == list(frame.columns)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_sparse_items_give_the_dense_result(estimator, form):
    X, y = single_label()
    X = np.where(X > 0, X, 0.0)
    dense, sparse = clone(estimator).fit(X, y), clone(estimator).fit(form(X), y)
    np.testing.assert_allclose(sparse.projection_, dense.projection_, atol=1e-8)
    assert isinstance(sparse.transform(form(X)), np.ndarray)


def test_public_names_are_lazy():
    assert set(embedding_core.__all__) <= set(dir(embedding_core))
    for name in embedding_core.__all__:
        assert getattr(embedding_core, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'PCA'"):
        _ = embedding_core.PCA
    code = "import sys, embedding_core; sys.exit('sklearn' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
