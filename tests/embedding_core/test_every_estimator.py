"""One contract for every public estimator: signature, accepted input, fitted attributes."""

import doctest
import inspect
import pickle
import re
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import embedding_core
from embedding_core import InvalidInput
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.registry import METHODS
from tests.core_estimators import (
    ALL_NAMES,
    EVERY,
    EXPORTED,
    ONE_CLASS_PER_ITEM,
    fresh,
    label_columns,
    outputs,
    partly_labeled,
)
from tests.synthetic import single_label

PUBLIC_METHODS = [method for method in METHODS.values() if method.public]
CLASSES = {name: type(model) for name, model in EVERY.items()}
WITHOUT_NEW_ITEMS = [
    name
    for name, kind in CLASSES.items()
    if not (hasattr(kind, "transform") or hasattr(kind, "predict_scores"))
]
"""Transductive: they only know the items of their fit."""
LABELS_OPTIONAL = [name for name, model in EVERY.items() if not model.__sklearn_tags__().target_tags.required]
ONE_CLASS_REFUSED = [
    *("MLDA", "DLE", "DLE-balanced", "MultiLabelDLE", "DiscriminativeProjections"),
    *("DiscriminativeProjections-rbf", "SLEML", "SLEML-nystrom", "SLEML-kernel_ridge", "LPSSVM-linear"),
    *("LPSSVM-rbf", "LDA", "CCA", "MDDM", "MDDM-rbf", "Fisherfaces", "CCDR", "ConstraintScore", "SLapEig"),
    *("SLE", "LapSVM", "LapRLS", "LPPSVM", "KernelDLE", "KernelDLE-few_labels", "KernelDLEClassifier"),
]
"""Estimators that separate classes and refuse a single one."""
EACH = pytest.mark.parametrize("name", ALL_NAMES)
EACH_FOR_NEW_ITEMS = pytest.mark.parametrize("name", [n for n in ALL_NAMES if n not in WITHOUT_NEW_ITEMS])
CLASSIFIERS = [name for name in ALL_NAMES if is_classifier(EVERY[name])]
EACH_CLASSIFIER = pytest.mark.parametrize("name", CLASSIFIERS)
EACH_CLASS = pytest.mark.parametrize("name", EXPORTED)


def same(model, expected, X, X_other=None, atol=1e-6):
    """Both models give the same numbers, up to `atol` of the largest."""
    theirs = outputs(expected, X)
    found = outputs(model, X if X_other is None else X_other)
    assert found.keys() == theirs.keys()
    for part, values in found.items():
        scale = np.abs(theirs[part]).max()
        np.testing.assert_allclose(values, theirs[part], rtol=0, atol=atol * scale, err_msg=part)


def test_every_exported_estimator_and_every_public_method_is_covered():
    assert {kind.__name__ for kind in CLASSES.values()} == set(EXPORTED)
    assert set(embedding_core.__all__) - set(EXPORTED) == {"InvalidInput", "RowBlocks"}
    # the method of the registry is the classifier; the embedding is exported as well
    assert set(EXPORTED) - {method.attribute for method in PUBLIC_METHODS} == {"KernelDLE"}


@EACH_CLASS
def test_all_have_the_same_fit_signature(name):
    parameters = list(inspect.signature(getattr(embedding_core, name).fit).parameters)
    assert parameters[:4] == ["self", "X", "y", "affinity"]
    assert parameters[4:] in ([], ["sample_weight"])


@EACH_CLASS
def test_examples_run_and_docstrings_name_everything(name):
    estimator = getattr(embedding_core, name)
    found = doctest.testmod(import_module(estimator.__module__), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 2
    assert found.failed == 0
    text = inspect.getdoc(estimator)
    for section in ("Parameters", "Attributes", "Notes", "References", "Examples"):
        assert f"\n{section}\n---" in text, section
    assert re.findall(r">>> from (embedding_core\S*) import (\w+)", text) == [("embedding_core", name)]
    missing = [one for one in inspect.signature(estimator).parameters if one not in text]
    assert not missing


@pytest.mark.parametrize("method", PUBLIC_METHODS, ids=lambda m: m.name)
def test_transductive_methods_say_so_and_others_answer_for_new_items(method):
    kind = method.estimator_class()
    assert ("Transductive: it" in inspect.getdoc(kind)) == (not method.inductive)
    assert (hasattr(kind, "transform") or hasattr(kind, "predict_scores")) == method.inductive


@EACH
def test_fitted_attributes_are_documented(name):
    model = fresh(name).fit(*partly_labeled())
    text = inspect.getdoc(type(model))
    others = re.findall(r"As (?:for|in) `(\w+)`", text)
    text += "".join(inspect.getdoc(getattr(embedding_core, other)) for other in others)
    left = [one for one in vars(model) if one.endswith("_") and not one.startswith("_")]
    assert {"classes_", "n_features_in_"} <= set(left)
    assert [one for one in left if one not in text] == []


@pytest.mark.parametrize("name", [name for name in ALL_NAMES if name not in ONE_CLASS_REFUSED])
@pytest.mark.filterwarnings("ignore")
def test_one_class_is_enough_or_refused_by_name(name):
    X, y = partly_labeled()
    try:
        model = fresh(name).fit(X, np.where(y < 0, -1, 0))
    except InvalidInput as error:
        assert re.search(BAD["one class"][1], str(error))
    else:
        assert all(np.isfinite(values).all() for values in outputs(model, X).values())


@EACH
def test_what_a_fit_leaves_is_finite_and_for_all_items(name):
    X, y = partly_labeled()
    model = fresh(name).fit(X, y)
    assert model.n_features_in_ == 7
    assert model.classes_.tolist() == [0, 1, 2, 3]
    found = outputs(model, X)
    assert found
    for part, values in found.items():
        assert values.dtype == np.float64, part
        assert np.isfinite(values).all(), part
        if part not in ("projection", "eigenvalues"):
            assert len(values) == 60, part
    assert hasattr(model, "transform") or hasattr(model, "predict_scores") or name in WITHOUT_NEW_ITEMS


@pytest.mark.slow
@EACH
def test_forms_of_items(name):
    X, y = partly_labeled()
    X = np.where(X > -1, X, 0.0).astype(np.float32).astype(np.float64)
    W = build_knn_graph(X, 12)
    plain = fresh(name).fit(X, y, W)
    names = [f"f{j}" for j in range(7)]
    for items in (pd.DataFrame(X, columns=names), sp.csr_array(X), sp.csc_matrix(X), X.astype(np.float32)):
        model = fresh(name).fit(items, y, W)
        same(model, plain, X, items)
        assert hasattr(model, "feature_names_in_") == isinstance(items, pd.DataFrame)


@pytest.mark.slow
@EACH
def test_forms_of_labels(name):
    X, y = partly_labeled()
    plain = fresh(name).fit(X, y)
    named = fresh(name).fit(X, np.array([None if k < 0 else "abcd"[k] for k in y], dtype=object))
    same(named, plain, X, atol=0)
    assert named.classes_.tolist() == list("abcd")
    same(fresh(name).fit(X, pd.Series(y)), plain, X, atol=0)
    Y = label_columns(name)
    columns = fresh(name).fit(X, Y)
    assert columns.classes_.tolist() == [0, 1, 2, 3]
    for given in (Y.tolist(), pd.DataFrame(Y), sp.csr_array(Y)):
        same(fresh(name).fit(X, given), columns, X, atol=0)
    frame = fresh(name).fit(X, pd.DataFrame(Y, columns=["d", "a", "c", "b"]))
    same(frame, columns, X, atol=0)
    assert frame.classes_.tolist() == ["d", "a", "c", "b"]


@EACH
def test_several_labels_per_item_are_accepted_or_refused_by_name(name):
    X = partly_labeled()[0]
    Y = label_columns("MLDA")
    if name in ONE_CLASS_PER_ITEM:
        with pytest.raises(InvalidInput, match=r"takes exactly one class per item"):
            fresh(name).fit(X, Y)
    else:
        assert all(np.isfinite(values).all() for values in outputs(fresh(name).fit(X, Y), X).values())


@EACH
def test_clone_and_pickle(name):
    X, y = partly_labeled()
    fitted = fresh(name).fit(X, y)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not [one for one in vars(copy) if one.endswith("_")]
    for ask in {"transform", "predict", "decision_function", "predict_scores"} & set(dir(copy)):
        with pytest.raises(NotFittedError):
            getattr(copy, ask)(X)
    same(pickle.loads(pickle.dumps(fitted)), fitted, X, atol=0)
    same(copy.fit(X, y), fitted, X, atol=0)


@pytest.mark.slow
@EACH
def test_a_second_fit_forgets_the_first(name):
    X, y = partly_labeled()
    model = fresh(name).fit(pd.DataFrame(X, columns=[f"f{j}" for j in range(7)]), y).fit(X[:, :5], y)
    same(model, fresh(name).fit(X[:, :5], y), X[:, :5], atol=0)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.slow
@EACH_FOR_NEW_ITEMS
def test_names_of_columns_and_frames_out(name):
    X, y = partly_labeled()
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(7)], index=np.arange(100, 160))
    model = fresh(name)
    if hasattr(model, "transform"):
        model.set_output(transform="pandas").fit(frame, pd.Series(y))
        placed, prefix = model.transform(frame), type(model).__name__.lower()
        assert placed.columns.tolist() == model.get_feature_names_out().tolist()
        assert placed.columns.tolist() == [f"{prefix}{j}" for j in range(placed.shape[1])]
        assert placed.index.equals(frame.index)
    else:
        assert model.fit(frame, pd.Series(y)).predict(frame).shape == (60,)
    with pytest.raises(ValueError, match="feature names"):
        (model.transform if hasattr(model, "transform") else model.predict)(frame[frame.columns[::-1]])


@pytest.mark.slow
@EACH_FOR_NEW_ITEMS
@pytest.mark.filterwarnings("ignore:The graph", "ignore:n_neighbors=10 but", "ignore:.* no link to any")
def test_search_in_a_pipeline(name):
    X, y = single_label(90)
    model = fresh(name)
    tried = {"n_components": [1, 3]} if "n_components" in model.get_params() else {}
    tried = tried or {key: [model.get_params()[key]] for key in list(model.get_params())[:1]}
    steps = [StandardScaler(), model, *([] if is_classifier(model) else [KNeighborsClassifier(1)])]
    grid = {f"{type(model).__name__.lower()}__{key}": values for key, values in tried.items()}
    search = GridSearchCV(make_pipeline(*steps), grid, cv=StratifiedKFold(3), error_score="raise").fit(X, y)
    assert search.best_score_ > 0.45
    assert search.predict(X).shape == (90,)


def accuracy_of_labeled(model, X, y):
    """Return the fraction of labeled rows that are entirely correct, computed by hand."""
    labeled = y != -1 if y.ndim == 1 else (y != -1).all(axis=1)
    right = model.predict(X)[labeled] == y[labeled]
    return (right if y.ndim == 1 else right.all(axis=1)).mean()


def test_all_that_predict_are_classifiers():
    assert [name for name in ALL_NAMES if hasattr(EVERY[name], "predict")] == CLASSIFIERS
    assert len(CLASSIFIERS) >= 12


@pytest.mark.slow
@EACH_CLASSIFIER
@pytest.mark.parametrize("form", ["classes", "columns"])
@pytest.mark.filterwarnings("ignore:The graph", "ignore:n_neighbors=10 but", "ignore:.* no link to any")
@pytest.mark.filterwarnings("ignore:No label reaches")
def test_score_and_search_know_unlabeled_rows(name, form):
    X, y = partly_labeled()
    if form == "columns":
        y = np.where(y[:, None] == -1, -1, np.column_stack([y < 2, y % 2]))
    model = fresh(name).fit(X, y)
    expected = accuracy_of_labeled(model, X, y)
    assert expected > 0.4  # so counting unlabeled rows as errors would show
    assert model.score(X, y) == pytest.approx(expected, abs=1e-12)
    key = next(iter(model.get_params()))
    folds = list(KFold(2, shuffle=True, random_state=0).split(X))
    search = GridSearchCV(fresh(name), {key: [model.get_params()[key]]}, cv=folds, error_score="raise")
    found = search.fit(X, y).cv_results_
    for fold, (train, test) in enumerate(folds):
        expected = accuracy_of_labeled(fresh(name).fit(X[train], y[train]), X[test], y[test])
        assert found[f"split{fold}_test_score"] == pytest.approx([expected], abs=1e-12)


@pytest.mark.slow
@EACH_CLASSIFIER
def test_score_takes_every_form_of_labels(name):
    X, y = partly_labeled()
    named = np.array([None if k < 0 else "abcd"[k] for k in y], dtype=object)
    model = fresh(name).fit(X, named)
    expected = fresh(name).fit(X, y).score(X, y)
    assert model.score(X, named) == model.score(X, pd.Series(named, dtype=object)) == expected
    Y = label_columns(name)
    columns = fresh(name).fit(X, Y)
    assert columns.score(X, sp.csr_array(Y)) == columns.score(X, pd.DataFrame(Y)) == columns.score(X, Y)


@EACH_CLASSIFIER
def test_score_counts_by_weight_and_refuses_labels_of_another_form(name):
    X, y = partly_labeled()
    model = fresh(name).fit(X, y)
    labeled = np.flatnonzero(y != -1)
    copies = np.arange(60) % 3
    repeated = np.repeat(labeled, copies[labeled])
    weighed = model.score(X, y, sample_weight=copies)
    assert weighed == pytest.approx((model.predict(X) == y)[repeated].mean(), abs=1e-12)
    with pytest.raises(InvalidInput, match=r"zero for all labeled rows"):
        model.score(X, y, sample_weight=(y == -1).astype(float))
    with pytest.raises(InvalidInput, match=r"All 20 items are unlabeled"):
        model.score(X[1::3], y[1::3])
    with pytest.raises(InvalidInput, match=r"columns \(n, K\), but \w+ was fitted with classes \(n,\)"):
        model.score(X, label_columns(name))
    columns = fresh(name).fit(X, label_columns(name))
    with pytest.raises(InvalidInput, match=r"classes \(n,\), but \w+ was fitted with columns"):
        columns.score(X, y)
    names = list("wxyz")
    named = fresh(name).fit(X, pd.DataFrame(label_columns(name), columns=names))
    assert named.score(X, label_columns(name)) == columns.score(X, label_columns(name))
    with pytest.raises(InvalidInput, match=r"Column 0 of y is 'z' where fit had 'w'"):
        named.score(X, pd.DataFrame(label_columns(name), columns=names[::-1]))
    with pytest.raises(InvalidInput, match=r"y has 3 columns; expected the 4 labels of fit"):
        columns.score(X, label_columns(name)[:, :3])


@pytest.mark.slow
@EACH
def test_order_of_the_items_does_not_matter(name):
    X, y = partly_labeled()
    rows = np.random.default_rng(0).permutation(60)
    W = build_knn_graph(X, 12)
    plain, shuffled = fresh(name).fit(X, y, W), fresh(name).fit(X[rows], y[rows], W[rows][:, rows])
    for part, values in outputs(plain, X).items():
        found = outputs(shuffled, X)[part]
        if part in ("embedding", "transduction_scores", "label_distributions"):
            values = values[rows]
        if (name, part) == ("MCGF", "transduction_scores"):
            continue  # its boundaries come from folds of the labeled items, which the order of these decides
        np.testing.assert_allclose(found, values, rtol=0, atol=1e-7 * np.abs(values).max(), err_msg=part)


BAD = {
    "NaN": (lambda X, y: {"X": np.where(X.max() - 1 < X, np.nan, X)}, "contains NaN"),
    "infinite": (lambda X, y: {"X": np.where(X.max() - 1 < X, np.inf, X)}, "contains infinity"),
    "a row too few": (lambda X, y: {"y": y[1:]}, r"\b59\b"),
    "labels of 2": (lambda X, y: {"y": np.full((60, 2), 2)}, "is not a label"),
    "mixed -1": (lambda X, y: {"y": np.c_[y * 0, y * 0 - 1]}, "mixes -1 with 0/1"),
    "unlabeled": (lambda X, y: {"y": y * 0 - 1}, "All 60 items are unlabeled|0 items are labeled"),
    "one class": (lambda X, y: {"y": y * 0}, "1 class|one class|labels that vary"),
}
REFUSED_BY = {
    "unlabeled": [name for name in ALL_NAMES if name not in LABELS_OPTIONAL],
    "one class": ONE_CLASS_REFUSED,
}
"""Estimators that must refuse a case; all of them unless listed."""
BAD_GRAPHS = {
    "negative": (lambda W: -W, "is negative"),
    "one way": (np.triu, "not symmetric"),
    "shape": (lambda W: W[:9, :9], r"affinity has shape \(9, 9\)"),
    "NaN": (lambda W: np.where(W > 0, np.nan, W), "affinity contains NaN"),
}


@pytest.mark.parametrize(
    ("case", "name"), [(case, name) for case in BAD for name in REFUSED_BY.get(case, ALL_NAMES)]
)
def test_bad_input_is_named(case, name):
    X, y = partly_labeled()
    spoil, message = BAD[case]
    with pytest.raises(InvalidInput, match=message):
        fresh(name).fit(**{"X": X, "y": y, **spoil(X, y)})


@pytest.mark.parametrize("method", [m for m in PUBLIC_METHODS if m.uses_graph], ids=lambda m: m.name)
@pytest.mark.parametrize("case", BAD_GRAPHS)
def test_bad_graphs_are_named(method, case):
    X, y = partly_labeled()
    spoil, message = BAD_GRAPHS[case]
    with pytest.raises(InvalidInput, match=message):
        method.build().fit(X, y, spoil(build_knn_graph(X, 12).toarray()))


@pytest.mark.parametrize("name", [n for n in ALL_NAMES if "graph" in EVERY[n].get_params()])
def test_a_dense_graph_beyond_the_budget_is_refused_with_what_can_be_done(name, monkeypatch):
    X, y = partly_labeled()
    fresh(name, graph="gaussian").fit(X, y)
    monkeypatch.setattr("embedding_core.graph.affinity.DENSE_BUDGET_BYTES", 2 * 8 * 60**2 - 1)
    with pytest.raises(InvalidInput, match=r'60 items needs .* GB; use graph="knn", or pass an affinity\.$'):
        fresh(name, graph="gaussian").fit(X, y)


@EACH_FOR_NEW_ITEMS
def test_new_items_of_another_kind_are_refused(name):
    X, y = partly_labeled()
    model = fresh(name).fit(X, y)
    ask = model.transform if hasattr(model, "transform") else model.predict_scores
    with pytest.raises(InvalidInput, match="5 features"):
        ask(X[:, :5])
    with pytest.raises(InvalidInput, match="contains NaN"):
        ask(np.full((3, 7), np.nan))
