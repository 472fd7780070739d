"""scikit-learn's common estimator checks on every exported estimator, in one place.

Every public method of the registry is checked with its registered settings, every exported class with its
defaults, and some of them in further forms. `EXPECTED_FAILURES` lists the checks that may fail, with reasons.
A case runs all checks of one estimator, so that collecting this module costs nothing.
"""

import re
from collections.abc import Callable

import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.estimator_checks import check_estimator

from embedding_core import (
    DLE,
    LPP,
    LPSSVM,
    MDDM,
    MLDA,
    SLEML,
    SMSE,
    ConstraintScore,
    DiscriminativeProjections,
    KernelDLE,
    KernelDLEClassifier,
    LaplacianEigenmaps,
    LapRLS,
    MultiLabelDLE,
)
from embedding_core.registry import METHODS
from tests.core_estimators import EXPORTED

pytestmark = pytest.mark.slow

FEW_ITEMS = {"n_neighbors": 5}
"""Some checks fit ten items, among which ten neighbors would link all pairs."""
SETTINGS = {"MLkNN": {"n_neighbors": 3}, "LDAC1": {}}
VARIANTS = [
    MLDA(weights="correlated", scaling="within"),
    DLE(graph="gaussian", objective="balanced"),
    MultiLabelDLE(n_neighbors=5, correlation="all", beta=0.5),
    DiscriminativeProjections(n_neighbors=5, scaling="natural", mu=0.3),
    DiscriminativeProjections(graph="gaussian", mu=0.0),
    DiscriminativeProjections(n_neighbors=5, kernel="rbf", ridge=1e-3, scaling="natural"),
    DiscriminativeProjections(n_neighbors=5, kernel="rbf", ridge=1e-3, landmarks=range(6)),
    DiscriminativeProjections(n_neighbors=5, kernel="precomputed", ridge=1e-3),
    SLEML(out_of_sample="nystrom", balance=0.5, class_weight="balanced", n_components=2),
    SLEML(out_of_sample="kernel_ridge"),
    LPSSVM(kernel="linear", energy=1.0, update_sign="gradient", scaling="unit"),
    LPSSVM(kernel="precomputed", energy=1.0),
    LPSSVM(landmarks=5, energy=1.0, max_iter=1),
    MDDM(kernel="rbf"),
    LPP(graph="gaussian", kernel="rbf"),
    LPP(graph="gaussian", kernel="precomputed"),
    LaplacianEigenmaps(out_of_sample="nystrom"),
    ConstraintScore(out_of_sample="kernel_ridge"),
    SMSE(n_neighbors=5, variant="hard"),
    LapRLS(kernel="precomputed"),
    LapRLS(landmarks=5, input_scale="zscore"),
    KernelDLE(few_labels=False),
    KernelDLE(few_labels=True, landmarks=8),
    KernelDLE(kernel="precomputed", few_labels=False),
    KernelDLE(kernel="linear", graph_weight="loo", few_labels=False),
    KernelDLEClassifier(few_labels=False, tune_for="macro_f1"),
    KernelDLEClassifier(few_labels=False, graph_weight=1.0, landmarks=10),
    KernelDLEClassifier(kernel="linear", few_labels=True),
    KernelDLEClassifier(kernel="precomputed", few_labels=False),
]


def adapt(estimator: BaseEstimator) -> BaseEstimator:
    """Return the estimator with the number of neighbors that the checks' small problems allow."""
    fallback = FEW_ITEMS if "n_neighbors" in estimator.get_params() else {}
    return clone(estimator).set_params(**SETTINGS.get(type(estimator).__name__, fallback))


def instances() -> list[BaseEstimator]:
    """Return registered methods, exported classes and variants, without repetitions."""
    registered = [adapt(method.build()) for method in METHODS.values() if method.public]
    every = [*registered, *(adapt(kind()) for kind in EXPORTED.values()), *VARIANTS]
    return list({described(one): one for one in every}.values())


def described(estimator: BaseEstimator) -> str:
    return re.sub(r"\s+", " ", repr(estimator))


Applies = Callable[[BaseEstimator], bool]
_MINUS_ONE = "uses -1 as a class; here it means unlabeled"
_ONE_COLUMN = "passes classes 0, 1, 2 as one column; here columns are 0/1 labels"
_WEIGHTS = "a weight counts as copies in sums over labeled items, not in the graph, which links items"
_NO_KERNEL = "changes a kernel matrix so that it is no longer positive semidefinite"
_OTHER_CCA = "treats every class of this name as scikit-learn's and passes label columns that contain 2"


def has_graph_term(estimator: BaseEstimator) -> bool:
    return "graph" in estimator.get_params() and getattr(estimator, "mu", None) != 0


def is_precomputed(estimator: BaseEstimator) -> bool:
    return getattr(estimator, "kernel", None) == "precomputed"


EXPECTED_FAILURES: list[tuple[str, Applies, str]] = [
    ("check_classifiers_classes", is_classifier, _MINUS_ONE),
    ("check_supervised_y_2d", is_classifier, _ONE_COLUMN),
    ("check_sample_weight_equivalence_on_dense_data", has_graph_term, _WEIGHTS),
    ("check_sample_weight_equivalence_on_sparse_data", has_graph_term, _WEIGHTS),
    ("check_estimators_dtypes", is_precomputed, _NO_KERNEL),
    ("check_positive_only_tag_during_fit", is_precomputed, _NO_KERNEL),
    ("check_decision_proba_consistency", is_precomputed, "passes features instead of a kernel matrix"),
    ("check_transformer_general", lambda one: type(one).__name__ == "CCA", _OTHER_CCA),
    ("check_transformer_data_not_an_array", lambda one: type(one).__name__ == "CCA", _OTHER_CCA),
]
"""Name of the check, the estimators that may fail it, and the reason."""


@pytest.mark.parametrize("estimator", instances(), ids=described)
@pytest.mark.filterwarnings("ignore:The graph", "ignore:n_neighbors=")
def test_common_checks(estimator):
    expected = {check: reason for check, applies, reason in EXPECTED_FAILURES if applies(estimator)}
    found = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    assert len(found) > 30
    assert {one["status"] for one in found} <= {"passed", "xfail", "skipped"}


def test_every_exported_estimator_is_checked():
    assert {type(one) for one in instances()} == set(EXPORTED.values())
