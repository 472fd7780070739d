"""The annotator: which rows each part learns from, what it answers, and that it can be saved safely."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone

from embedding_core import registry
from embedding_core.annotator import SKOPS_TRUSTED_TYPES, Annotator
from embedding_core.errors import InvalidInput
from embedding_core.knn_classifier import NeighborLabels
from embedding_core.registry import METHODS
from tests.stand_ins import with_stand_ins

pytestmark = pytest.mark.usefixtures("small_forests")


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    monkeypatch.setattr(registry, "METHODS", with_stand_ins())


def draw(n=60, p=6, seed=0, single_label=False):
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, n)
    X = rng.normal(size=(n, p))
    X[:, :3] += 2.0 * np.eye(3)[classes]
    Y = np.eye(3, dtype=np.int8)[classes]
    if not single_label:
        Y[rng.random(n) < 0.3, 0] = 1
    Y[n - n // 4 :] = -1
    return X, Y


def test_projection_then_neighbors_in_the_embedding():
    X, Y = draw()
    model = Annotator("plain", {"factor": 3.0}, n_neighbors=3, weights="distance").fit(X, Y)
    labeled = Y[:, 0] >= 0
    expected = NeighborLabels(3, "distance").fit(3 * X[labeled], Y[labeled])
    np.testing.assert_array_equal(model.transform(X), 3 * X)
    np.testing.assert_array_equal(model.predict(X), expected.predict(3 * X))
    np.testing.assert_array_equal(model.predict_scores(X), expected.predict_scores(3 * X))


def test_inductive_methods_and_their_scaling_see_labeled_rows_alone():
    X, Y = draw()
    labeled = Y[:, 0] >= 0
    X[~labeled] += 1000
    model = Annotator("plain", scale="zscore").fit(X, Y)
    np.testing.assert_allclose(model.scaler_.mean_, X[labeled].mean(axis=0))
    assert len(model.model_.X_seen_) == labeled.sum()
    assert model.model_.graph_seen_ == {}


def test_graph_methods_see_all_rows_and_the_graph():
    X, Y = draw()
    affinity = sp.eye_array(len(X), format="csr")
    model = Annotator("graph", scale="zscore").fit(X, Y, affinity)
    np.testing.assert_allclose(model.scaler_.mean_, X.mean(axis=0))
    np.testing.assert_array_equal(model.model_.Y_seen_, Y)
    assert model.model_.graph_seen_["affinity"] is affinity
    assert len(model.neighbors_.Y_) == (Y[:, 0] >= 0).sum()


def test_new_rows_are_compared_with_labeled_rows_placed_the_same_way():
    """The stand-in's `transform` lands far from its `embedding_`, as an eigenmap's may."""
    X, Y = draw()
    labeled = Y[:, 0] >= 0
    model = Annotator("graph").fit(X, Y)
    np.testing.assert_array_equal(model.neighbors_.Z_, model.transform(X[labeled]))
    np.testing.assert_array_equal(model.predict(X[labeled]), Y[labeled])
    seen = Annotator("seen_projection").fit(X, Y)
    np.testing.assert_array_equal(seen.neighbors_.Z_, X[labeled])


def test_methods_with_their_own_scaling_are_not_scaled_before():
    X, Y = draw()
    plain, asked = (Annotator("1nn", scale=scale).fit(X, Y) for scale in ("none", "zscore"))
    assert asked.scaler_.kind == "none"
    np.testing.assert_array_equal(plain.predict(X), asked.predict(X))


def test_single_labels_always_get_one_class():
    X, Y = draw(single_label=True)
    open_model = Annotator("plain", n_neighbors=10).fit(X, Y)
    model = Annotator("plain", n_neighbors=10, single_label=True).fit(X, Y)
    assert (model.predict(X).sum(axis=1) == 1).all()
    assert (open_model.predict(X).sum(axis=1) == 0).any()
    for name in ("svm", "1nn"):
        assert (Annotator(name, single_label=True).fit(X, Y).predict(X).sum(axis=1) == 1).all()


def test_classes_are_names_where_given():
    X, Y = draw(single_label=True)
    assert Annotator("plain", label_names=["a", "b", "c"]).fit(X, Y).classes_.tolist() == ["a", "b", "c"]
    assert Annotator("plain").fit(X, Y).classes_.tolist() == [0, 1, 2]
    names = np.array(["dog", "cat", "owl"])[Y[:45].argmax(axis=1)]
    assert Annotator("plain").fit(X[:45], names).classes_.tolist() == ["cat", "dog", "owl"]


def test_frames_are_taken_as_arrays():
    X, Y = draw()
    model = Annotator("plain").fit(pd.DataFrame(X), pd.DataFrame(Y))
    np.testing.assert_array_equal(model.predict(pd.DataFrame(X)), Annotator("plain").fit(X, Y).predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.inductive])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_every_method_annotates_and_survives_skops(name, form):
    X, Y = draw(single_label=not METHODS[name].multi_label)
    X = form(X)
    recipe = {"grid": [8, 8], "color_space": "rgb"}
    model = Annotator(name, scale="unit", n_neighbors=3, label_names=["a", "b", "c"], recipe=recipe).fit(X, Y)
    payload = skops.io.dumps(model)
    assert set(skops.io.get_untrusted_types(data=payload)) <= set(SKOPS_TRUSTED_TYPES)
    loaded = skops.io.loads(payload, trusted=list(SKOPS_TRUSTED_TYPES))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_scores(X), model.predict_scores(X))
    assert loaded.recipe == recipe
    assert loaded.classes_.tolist() == ["a", "b", "c"]
    labeled = Y[:, 0] >= 0
    assert (model.predict(X)[labeled] == Y[labeled]).mean() > 0.7


def test_thresholds_decide_and_leave_scores_alone():
    X, Y = draw()
    plain = Annotator("svm").fit(X, Y)
    scores = plain.predict_scores(X)
    cuts = np.array([np.quantile(scores[:, 0], 0.8), np.inf, -np.inf])
    tuned = Annotator("svm", thresholds=cuts).fit(X, Y)
    expected = np.column_stack([scores[:, 0] > cuts[0], np.zeros(60), np.ones(60)]).astype(np.int8)
    np.testing.assert_array_equal(tuned.predict(X), expected)
    np.testing.assert_array_equal(tuned.predict_scores(X), scores)
    np.testing.assert_array_equal(tuned.decide(scores), expected)
    assert plain.decision_thresholds().tolist() == [0.5] * 3
    assert (plain.predict(X) != expected).any()


def test_thresholds_leave_single_labels_to_the_best_score():
    X, Y = draw(single_label=True)
    tuned = Annotator("svm", single_label=True, thresholds=[0.9, 0.1, np.inf]).fit(X, Y)
    np.testing.assert_array_equal(tuned.predict(X), Annotator("svm", single_label=True).fit(X, Y).predict(X))


@pytest.mark.parametrize("form", [np.asarray, list])
def test_a_kept_model_keeps_its_thresholds(form):
    X, Y = draw()
    model = Annotator("mlda", thresholds=form([0.2, np.inf, 0.7])).fit(X, Y)
    loaded = skops.io.loads(skops.io.dumps(model), trusted=list(SKOPS_TRUSTED_TYPES))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert np.asarray(loaded.thresholds).tolist() == [0.2, np.inf, 0.7]


def test_trusted_types_are_ours_and_sparse_rows_alone():
    others = [name for name in SKOPS_TRUSTED_TYPES if not name.startswith("embedding_core.")]
    assert others == ["scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix"]


def test_parameters_survive_clone():
    model = Annotator("svm", {"C": 2.0}, "unit", 3, "distance", True, ["a"], {"grid": 8})
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (Annotator("nonesuch"), {}, "'nonesuch' is not known"),
        (Annotator("plain", {"fctor": 1}), {}, "no parameter 'fctor'. Did you mean factor"),
        (Annotator("plain", scale="loud"), {}, "'loud' is not known"),
        (Annotator("plain", label_names=["a"]), {}, "1 label names for 3 labels"),
        (Annotator("plain", thresholds=[0.5, 0.5]), {}, r"thresholds=\[0.5, 0.5\] for 3 labels; give one"),
        (
            Annotator("plain", thresholds=[0.5, 0.5, np.nan]),
            {},
            "nan.* for 3 labels; give one number per label",
        ),
        (Annotator("plain", n_neighbors=99), {}, "n_neighbors=99 with 45 labeled rows"),
        (Annotator("plain"), {"Y": np.zeros((5, 3))}, "X has 60 rows and Y has 5"),
        (Annotator("plain"), {"Y": np.full((60, 3), -1)}, "All 60 items are unlabeled"),
        (
            Annotator("one_class"),
            {},
            "exactly one class per row, but .* of 45 labeled rows have none or several",
        ),
        (Annotator("graph"), {"affinity": np.eye(3)}, r"affinity has shape \(3, 3\); expected \(60, 60\)"),
    ],
)
def test_bad_input_is_named(model, change, message):
    X, Y = draw()
    with pytest.raises(InvalidInput, match=message):
        model.fit(**({"X": X, "Y": Y} | change))


def test_questions_a_method_cannot_answer_are_refused():
    X, Y = draw()
    with pytest.raises(InvalidInput, match="svm is a classifier and has no embedding"):
        Annotator("svm").fit(X, Y).transform(X)
    with pytest.raises(InvalidInput, match="only knows the rows of its fit"):
        Annotator("seen_projection").fit(X, Y).predict(X)
    with pytest.raises(InvalidInput, match="only knows the rows of its fit"):
        Annotator("seen_classifier").fit(X, Y, np.ones((60, 60))).predict(X)
    with pytest.raises(InvalidInput, match="X has 5 features, the model was fitted with 6"):
        Annotator("plain").fit(X, Y).predict(X[:, :5])
