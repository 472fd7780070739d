"""The registry: data about methods, and estimators built from it."""

import subprocess
import sys
from dataclasses import replace

import pytest
from sklearn.base import clone

import embedding_core
from embedding_core.errors import InvalidInput
from embedding_core.registry import METHODS, Method, get_method
from embedding_core.registry.catalog import ENTRIES

EACH_METHOD = pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)


def test_importing_the_registry_imports_nothing_heavy():
    heavy = "{'sklearn', 'numpy', 'scipy', 'prefect', 'mlflow', 'matplotlib', 'numba'}"
    code = f"import sys, embedding_core.registry; sys.exit(' '.join({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


@EACH_METHOD
def test_every_entry_builds_an_estimator_that_can_be_cloned(method):
    estimator = method.build()
    assert type(estimator).__name__ == method.attribute
    assert clone(estimator).get_params() == estimator.get_params()
    for name, value in method.defaults.items():
        assert getattr(estimator, name) == value


@EACH_METHOD
def test_every_entry_keeps_the_promises_of_its_role(method):
    kept = ("transform",) if method.role == "projection" else ("predict", "predict_scores")
    assert all(
        hasattr(method.estimator_class(), name) for name in ("fit", *(kept if method.inductive else ()))
    )
    assert method.single_label or method.multi_label
    assert method.title
    assert method.cost
    assert bool(method.paper) != method.baseline


@EACH_METHOD
def test_parameters_show_defaults_and_can_be_given(method):
    parameters = method.parameters()
    estimator = method.build(**parameters)
    assert {name: getattr(estimator, name) for name in parameters} == parameters


def test_the_papers_methods_and_the_baselines_are_there():
    assert {"mlda", "multilabel_dle", "dle"} <= set(METHODS)
    baselines = {name for name, method in METHODS.items() if method.baseline}
    assert baselines >= {"1nn", "1nn_zscore", "svm", "rbf_svc", "random_forest"}
    assert all(name == method.name for name, method in METHODS.items())


def test_names_are_unique():
    assert len(METHODS) == len(ENTRIES)


def test_public_methods_are_exported_and_others_are_not():
    for method in METHODS.values():
        assert (method.attribute in embedding_core.__all__) == method.public, method.name


@pytest.mark.parametrize(
    ("module", "attribute"),
    [("embedding_core.subspace.nowhere", "PCA"), ("embedding_core.subspace.pca", "Nothing")],
)
def test_an_entry_that_points_nowhere_is_named(module, attribute):
    entry = replace(METHODS["pca"], name="mine", module=module, attribute=attribute)
    with pytest.raises(ImportError, match=rf"registry entry 'mine': cannot import '{attribute}' .* correct"):
        entry.build()


def test_a_parameter_given_goes_before_the_entry_s_default():
    assert get_method("1nn_zscore").build().scale == "zscore"
    assert get_method("1nn_zscore").build(scale="unit").scale == "unit"


def test_unknown_method_names_near_ones_and_all():
    with pytest.raises(InvalidInput, match=r"'mlad' is not known. Did you mean mlda.*Methods: mlda, "):
        get_method("mlad")
    with pytest.raises(InvalidInput, match=r"'zzzz' is not known. Methods: mlda, "):
        get_method("zzzz")


def test_unknown_parameter_names_near_ones_and_the_legal_ones():
    with pytest.raises(
        InvalidInput, match=r"svm has no parameter 'gama'. Did you mean gamma\? It takes: C, gamma"
    ):
        get_method("svm").build(gama=1)


def test_entries_cannot_be_changed():
    with pytest.raises(TypeError):
        METHODS["mine"] = METHODS["mlda"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        METHODS["mlda"].title = "mine"  # type: ignore[misc]
    assert len({*METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize(
    ("inductive", "uses_graph", "sees_all"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_which_methods_see_unlabeled_rows(inductive, uses_graph, sees_all):
    method = Method(
        name="m",
        title="M",
        module="x",
        attribute="X",
        role="projection",
        inductive=inductive,
        uses_graph=uses_graph,
        cost="n",
        own_scaling=uses_graph,
    )
    assert method.sees_all_rows is sees_all
    assert method.input_scale("zscore") == ("none" if uses_graph else "zscore")
