"""Graph transduction as estimators: scikit-learn's contract, invariances, odd graphs, the evaluation."""

from types import MappingProxyType

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from embedding_core import registry
from embedding_core.errors import InvalidInput
from embedding_core.evaluation import evaluate_fold
from embedding_core.graph.affinity import build_knn_graph
from embedding_core.model_selection.folds import stratified_folds
from embedding_core.registry.catalog import TRANSDUCTION as ENTRIES
from embedding_core.transduction.consistency import LocalGlobalConsistency
from embedding_core.transduction.harmonic import HarmonicFunctions
from embedding_core.transduction.kmeans_laplacian import KMeansLaplacian
from embedding_core.transduction.mcgf import MCGF
from embedding_core.transduction.mlgf import MLGF
from embedding_core.transduction.smse import SMSE
from embedding_core.transduction.spectral_transducer import SpectralGraphTransducer
from tests.synthetic import multi_label, single_label

INDUCTIVE = [LocalGlobalConsistency, HarmonicFunctions, MLGF]
CLASSIFIERS = [*INDUCTIVE, SMSE, SpectralGraphTransducer, MCGF]
ALL = [*CLASSIFIERS, KMeansLaplacian]
EACH = pytest.mark.parametrize("kind", ALL)
EACH_CLASSIFIER = pytest.mark.parametrize("kind", CLASSIFIERS)


def partly(n=60, single=False, seed=0):
    X, y = (single_label if single else multi_label)(n, seed=seed)
    hidden = y.copy()
    hidden[np.arange(n) % 3 > 0] = -1
    return X, hidden, np.arange(n) % 3 == 0


def result(model):
    return model.embedding_ if isinstance(model, KMeansLaplacian) else model.transduction_scores_


@EACH_CLASSIFIER
@pytest.mark.parametrize("single", [True, False])
def test_fitted_attributes(kind, single):
    X, y, labeled = partly(single=single)
    model = kind().fit(X, y)
    assert model.label_distributions_.shape == model.transduction_scores_.shape == (60, 4)
    assert 0 <= model.transduction_scores_.min() <= model.transduction_scores_.max() <= 1
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.n_features_in_ == 7
    if single:
        np.testing.assert_array_equal(model.transduction_, model.transduction_scores_.argmax(axis=1))
    else:
        np.testing.assert_array_equal(model.transduction_, model.transduction_scores_ > 0.5)
    assert (model.transduction_ == y)[labeled].mean() > 0.75


@EACH_CLASSIFIER
@pytest.mark.parametrize("single", [True, False])
def test_the_order_of_items_and_labels_does_not_matter(kind, single):
    X, y, _ = partly(single=single)
    W = build_knn_graph(X)
    rows = np.random.default_rng(1).permutation(60)
    model = kind().fit(X, y, affinity=W)
    # boundaries of MCGF come from folds of the labeled items, which the order of these decides
    found = "label_distributions_" if kind is MCGF else "transduction_scores_"
    moved = kind().fit(X[rows], y[rows], affinity=W[rows][:, rows])
    np.testing.assert_allclose(getattr(moved, found), getattr(model, found)[rows], atol=1e-6)
    if not single:
        turned = kind().fit(X, y[:, ::-1], affinity=W)
        np.testing.assert_allclose(getattr(turned, found), getattr(model, found)[:, ::-1], atol=1e-6)


@EACH
def test_a_dense_and_a_sparse_graph_give_the_same(kind):
    X, Y, _ = partly()
    W = build_knn_graph(X)
    dense, sparse = kind().fit(X, Y, affinity=W.toarray()), kind().fit(X, Y, affinity=W)
    np.testing.assert_allclose(result(dense), result(sparse), atol=1e-7)
    built = kind().fit(X, Y)
    np.testing.assert_allclose(result(built), result(sparse), atol=1e-7)


@pytest.mark.parametrize("kind", INDUCTIVE)
def test_prediction_of_new_items(kind):
    X, y, _ = partly(180, single=True)
    names = np.array(["ant", "bee", "cat", "dog"], dtype=object)
    y = np.where(y < 0, -1, names[y]).astype(object)
    model = kind().fit(X[:150], y[:150])
    truth = names[single_label(180)[1]]
    assert (model.predict(X[150:]) == truth[150:]).mean() > 0.7
    assert model.predict_scores(X[150:]).shape == (30, 4)
    with pytest.raises(InvalidInput, match="7 features"):
        model.predict(X[:, :3])
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def pieces():
    """Two parts with labels, one of three items and a single item without any."""
    W = np.zeros((14, 14))
    for part in (slice(0, 5), slice(5, 10), slice(10, 13)):
        W[part, part] = 1.0
    Y = np.full((14, 2), -1)
    Y[[0, 1, 5, 6]] = [[1, 0], [1, 0], [0, 1], [1, 1]]
    return np.random.default_rng(0).normal(size=(14, 3)), Y, W


@pytest.mark.parametrize("kind", [*INDUCTIVE, SMSE, MCGF])
def test_parts_without_a_label_get_the_proportions_and_one_warning(kind):
    X, Y, W = pieces()
    with pytest.warns(UserWarning, match=r"No label reaches 4 of 14 items.* sizes 3, 1; they") as caught:
        model = kind().fit(X, Y, affinity=W)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_allclose(model.transduction_scores_[10:], np.tile([0.75, 0.5], (4, 1)))
    assert np.isfinite(model.label_distributions_).all()
    assert model.transduction_[:5].tolist() == [[1, 0]] * 5


def test_the_transducer_answers_on_a_graph_in_pieces():
    X, Y, W = pieces()
    for laplacian in ("plain", "normalized"):
        with pytest.warns(UserWarning, match="No label reaches 1 of 14 items"):
            model = SpectralGraphTransducer(laplacian=laplacian).fit(X, Y, affinity=W)
        assert np.isfinite(model.transduction_scores_).all()
        assert model.transduction_[:5].tolist() == [[1, 0]] * 5


def test_labels_that_arrive_too_faintly_count_as_none():
    n = 80
    W = np.eye(n, k=1) + np.eye(n, k=-1)  # a chain: what flows on shrinks by a factor at every step
    y = np.full(n, -1)
    y[:2] = 0, 1
    with pytest.warns(UserWarning, match=r"No label reaches 6\d of 80 items"):
        model = LocalGlobalConsistency(alpha=0.5, decision="half").fit(np.zeros((n, 1)), y, affinity=W)
    np.testing.assert_allclose(model.transduction_scores_[-1], [0.5, 0.5])
    assert (model.transduction_scores_[2:10].argmax(axis=1) == 1).all()


@EACH_CLASSIFIER
def test_all_items_labeled_and_one_class_alone_are_answered(kind):
    X, y = single_label()
    model = kind().fit(X, y)
    assert np.isfinite(model.transduction_scores_).all()
    only = kind().fit(X, np.where(np.arange(60) < 9, 5, -1))
    assert only.transduction_.tolist() == [5] * 60


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (HarmonicFunctions(graph="ring"), "graph='ring' is not legal; choose one of knn, gaussian"),
        (HarmonicFunctions(decision="most"), "decision='most' is not legal; choose one of half, mass, prior"),
        (HarmonicFunctions(n_neighbors=0), "n_neighbors=0 is not legal"),
        (HarmonicFunctions(sigma=-1.0), "sigma=-1.0 is not a positive number"),
        (LocalGlobalConsistency(alpha=1.0), "alpha=1.0 is not legal; give a number from 0 to below 1"),
        (MLGF(nu=-1), "nu=-1 is not legal; give a number >= 0"),
        (SMSE(mu=0), "mu=0 is not legal; give a positive number"),
        (SMSE(variant="mild"), "variant='mild' is not legal; choose one of soft, hard"),
        (SpectralGraphTransducer(c=0), "c=0 is not legal"),
        (SpectralGraphTransducer(n_components=None), "n_components=None is not legal"),
        (SpectralGraphTransducer(spectrum="flat"), "choose one of squares, graph"),
        (MCGF(alpha="auto"), "alpha='auto' is not legal"),
        (MCGF(laplacian=True), "laplacian=True is not legal; choose one of normalized, plain"),
        (KMeansLaplacian(balance=1.5), "balance=1.5 is not legal; give a number from 0 to 1"),
        (KMeansLaplacian(n_components=0), "n_components=0 is not legal"),
    ],
    ids=repr,
)
def test_bad_parameters_are_named(estimator, message):
    X, Y, _ = partly()
    for affinity in (None, build_knn_graph(X)):
        with pytest.raises(InvalidInput, match=message):
            estimator.fit(X, Y, affinity=affinity)


def read(folder, name):
    table = pq.read_table(folder / name / f"{name}.parquet").to_pandas()
    X = table[[c for c in table if c[0] == "f" and c[1:].isdigit()]].to_numpy(np.float64)
    if "class" in table:
        return X, (table["class"].to_numpy()[:, None] == np.unique(table["class"])).astype(np.int8)
    return X, table[[c for c in table if c.startswith("label:")]].to_numpy(np.int8)


@pytest.fixture
def listed(monkeypatch):
    methods = dict(registry.METHODS) | {entry.name: entry for entry in ENTRIES}
    monkeypatch.setattr(registry, "METHODS", MappingProxyType(methods))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entries_describe_their_estimators(entry):
    estimator = entry.build()
    assert hasattr(estimator, "predict_scores") == entry.inductive == (type(estimator) in INDUCTIVE)
    assert entry.role == ("projection" if isinstance(estimator, KMeansLaplacian) else "classifier")
    assert entry.uses_graph and entry.paper and entry.title and entry.cost


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
@pytest.mark.parametrize(("name", "least"), [("iris", 0.75), ("wine", 0.9), ("emotions", 0.55)])
def test_a_fold_of_real_data(entry, name, least, listed, shared_data):
    # z-scored; accuracy for classes, micro-F1 for labels: below any value seen, above guessing by far
    X, Y = read(shared_data, name)
    train, test = stratified_folds(Y, 5, seed=0)[0]
    single = name != "emotions"
    scores = evaluate_fold(
        entry.name, None, X, Y, train, test, scale="zscore", n_neighbors=(1,), single_label=single
    )
    values = {score.metric: score.value for score in scores}
    assert values["accuracy" if single else "micro_f1"] > least


@pytest.mark.parametrize(
    ("model", "reported"),
    [
        (MCGF(), "^Only one item is labeled, but MCGF sets"),
        (MCGF(sigma="cv"), '1 item is labeled; label two or more, or take sigma="auto"'),
    ],
)
def test_one_labeled_item_is_told_as_such(model, reported):
    X, Y = multi_label()
    Y[1:] = -1
    Y[0] = [1, 1, *Y[0, 2:] * 0]
    with pytest.raises(InvalidInput, match=reported):
        model.fit(X, Y)
