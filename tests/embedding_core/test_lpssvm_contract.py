"""LPSSVM keeps scikit-learn's contract."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from embedding_core.margin.lpssvm import LPSSVM
from tests.synthetic import multi_label, single_label


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_fitted_attributes(kernel):
    X, y = single_label()
    y[::3] = -1
    fitted = LPSSVM(kernel=kernel, n_components=3, graph="gaussian").fit(X, y)
    assert fitted.embedding_.shape == (60, 12)
    assert fitted.eigenvalues_.shape == (12,)
    assert fitted.n_components_.tolist() == [3] * 4
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    assert fitted.n_features_in_ == 7
    assert hasattr(fitted, "projection_") == (kernel == "linear")
    if kernel == "linear":
        assert fitted.projection_.shape == (7, 12)
    np.testing.assert_array_equal(fitted.transform(X), fitted.embedding_)
    again = LPSSVM(kernel=kernel, n_components=3, graph="gaussian").fit_transform(X, y)
    np.testing.assert_array_equal(again, fitted.embedding_)
    directions = fitted.projection_ if kernel == "linear" else fitted.expansion_
    assert np.isfinite(directions).all()


@pytest.mark.slow
def test_pipeline_and_grid_search():
    X, y = single_label(90)
    pipeline = make_pipeline(StandardScaler(), LPSSVM(kernel="linear", n_neighbors=5))
    search = GridSearchCV(pipeline, {"lpssvm__n_components": [1, 6]}, cv=StratifiedKFold(3)).fit(X, y)
    assert search.best_params_ == {"lpssvm__n_components": 6}
    assert search.best_score_ > 0.6


@pytest.mark.slow
def test_grid_search_cuts_kernel_matrices_both_ways():
    X, y = single_label(90)
    model = LPSSVM(kernel="precomputed", graph="gaussian", n_components=6)
    search = GridSearchCV(model, {"C": [0.1, 10.0]}, cv=StratifiedKFold(3)).fit(rbf_kernel(X), y)
    assert search.best_score_ > 0.6


@pytest.mark.slow
def test_label_columns_in_a_pipeline():
    X, Y = multi_label(80)
    pipeline = make_pipeline(StandardScaler(), LPSSVM(kernel="linear")).fit(X[:60], Y[:60])
    assert pipeline.predict(X[60:]).shape == (20, 4)
    sparse = LPSSVM(kernel="linear").fit(X, sp.csr_array(Y))
    np.testing.assert_array_equal(sparse.predict(X), LPSSVM(kernel="linear").fit(X, Y).predict(X))
