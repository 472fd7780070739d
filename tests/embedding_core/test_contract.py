"""All public estimators follow scikit-learn's contract: cloning, pipelines, searches, frames, attributes."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import embedding_core
from tests.core_estimators import LINEAR, NAMES, SEVERAL_LABELS, fresh, outputs, partly_labeled
from tests.synthetic import multi_label, single_label


def searched(model, X, Y, **options):
    """A search for the dimension, after a scaler and, if the estimator is not a classifier, before 1NN."""
    steps = [StandardScaler(), model, *([] if is_classifier(model) else [KNeighborsClassifier(1)])]
    dimensions = {f"{type(model).__name__.lower()}__n_components": [1, 3]}
    return GridSearchCV(make_pipeline(*steps), dimensions, **options).fit(X, Y)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_search_in_a_pipeline_finds_the_dimension_of_the_classes(name):
    X, y = single_label(120)
    search = searched(fresh(name), X, y, cv=StratifiedKFold(3))
    assert list(search.best_params_.values()) == [3]
    assert search.best_score_ > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("name", SEVERAL_LABELS)
def test_search_in_a_pipeline_with_label_columns_and_a_multi_label_score(name):
    X, Y = multi_label(90)
    search = searched(fresh(name), X, Y, cv=KFold(3), scoring="f1_micro")
    assert search.best_score_ > 0.5
    assert search.predict(X[:9]).shape == (9, 4)


@pytest.mark.parametrize("name", NAMES)
def test_fitted_attributes(name):
    X, y = partly_labeled()
    model = fresh(name).fit(X, y)
    r = 12 if name.startswith("LPSSVM") else 3
    assert model.embedding_.shape == (60, r)
    assert model.eigenvalues_.shape == (r,)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.n_features_in_ == 7
    assert hasattr(model, "projection_") == (name in LINEAR)
    if name in LINEAR:
        assert model.projection_.shape == (7, r)
        intercept = getattr(model, "intercept_", 0.0) if name == "SLEML" else 0.0
        np.testing.assert_allclose(model.transform(X), X @ model.projection_ + intercept, rtol=1e-11)
    for values in outputs(model, X).values():
        assert values.dtype == np.float64
        assert np.isfinite(values).all()
    np.testing.assert_array_equal(fresh(name).fit_transform(X, y), outputs(model, X)["transform"])


@pytest.mark.parametrize("name", NAMES)
def test_transform_of_the_fitted_items_equals_the_embedding(name):
    X, y = partly_labeled()
    model = fresh(name).fit(X, y)
    found, moved = model.transform(X), model.transform(X + 0.01)
    if not name.startswith("SLEML"):
        np.testing.assert_allclose(found, model.embedding_, atol=1e-10)
    elif name == "SLEML-kernel_ridge":  # an approximation
        assert np.corrcoef(found.ravel(), model.embedding_.ravel())[0, 1] > 0.9
    assert 0 < np.abs(moved - found).max() < np.ptp(found) or name == "SLEML-nystrom"


def test_public_names_are_lazy():
    assert set(embedding_core.__all__) <= set(dir(embedding_core))
    for name in embedding_core.__all__:
        assert getattr(embedding_core, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = embedding_core.Nothing
    code = "import sys, embedding_core; sys.exit('sklearn' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
