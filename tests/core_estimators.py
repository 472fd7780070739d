"""The public estimators of embedding_core and one small problem for all of them, for tests of their contract.

`EVERY` holds one instance of each exported estimator, derived from the registry, and some further settings. A
new public method of the registry is in `EVERY` without an edit here. `ESTIMATORS` are those of the five
papers.

`python -m tests.core_estimators FILE` fits them all and stores the results in FILE, for tests that compare
processes and numbers of threads.
"""

import sys
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

import embedding_core
from embedding_core import (
    DLE,
    LPP,
    LPSSVM,
    MDDM,
    MLDA,
    SLEML,
    SMSE,
    DiscriminativeProjections,
    KernelDLE,
    LaplacianEigenmaps,
    MultiLabelDLE,
)
from embedding_core.labels import as_indicator
from embedding_core.registry import METHODS
from tests.synthetic import multi_label, single_label

EXPORTED: dict[str, type] = {
    name: getattr(embedding_core, name)
    for name in embedding_core.__all__
    if issubclass(getattr(embedding_core, name), BaseEstimator)
}
ESTIMATORS: dict[str, Any] = {
    "MLDA": MLDA(),
    "DLE": DLE(),
    "DLE-balanced": DLE(objective="balanced"),
    "MultiLabelDLE": MultiLabelDLE(),
    "DiscriminativeProjections": DiscriminativeProjections(),
    "DiscriminativeProjections-rbf": DiscriminativeProjections(kernel="rbf"),
    "SLEML": SLEML(),
    "SLEML-nystrom": SLEML(out_of_sample="nystrom"),
    "SLEML-kernel_ridge": SLEML(out_of_sample="kernel_ridge"),
    "LPSSVM-linear": LPSSVM(kernel="linear", n_components=3),
    "LPSSVM-rbf": LPSSVM(n_components=3),
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "KernelDLE": {"few_labels": False},
    "KernelDLEClassifier": {"few_labels": False},
}
"""Parameters of exported estimators that differ from the defaults in these tests."""

_VARIANTS: dict[str, Any] = {
    "LPP-rbf": LPP(kernel="rbf"),
    "MDDM-rbf": MDDM(kernel="rbf"),
    "LaplacianEigenmaps-nystrom": LaplacianEigenmaps(out_of_sample="nystrom"),
    "SMSE-hard": SMSE(variant="hard"),
    "KernelDLE-few_labels": KernelDLE(few_labels=True),
}
_OF_THE_PAPERS = {type(model) for model in ESTIMATORS.values()}
_OTHERS = {
    name: kind(**_SETTINGS.get(name, {})) for name, kind in EXPORTED.items() if kind not in _OF_THE_PAPERS
}
EVERY = ESTIMATORS | _OTHERS | _VARIANTS
NAMES = list(ESTIMATORS)
ALL_NAMES = list(EVERY)
_SINGLE_LABEL = {method.attribute for method in METHODS.values() if not method.multi_label}
ONE_CLASS_PER_ITEM = [name for name, model in EVERY.items() if type(model).__name__ in _SINGLE_LABEL]
WITH_GRAPH = [name for name in NAMES if name != "MLDA"]
SEVERAL_LABELS = [name for name in NAMES if name not in ONE_CLASS_PER_ITEM]
LINEAR = [name for name in NAMES if not name.endswith(("rbf", "nystrom", "kernel_ridge"))]


def fresh(name: str, **parameters: Any) -> Any:
    """Return an unfitted estimator."""
    return clone(EVERY[name]).set_params(**parameters)


def partly_labeled(
    n: int = 60, p: int = 7, seed: int = 0, noise: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return items of four overlapping classes, so that neighbors link them all; every third is unlabeled."""
    X, y = single_label(n, p, seed=seed)
    y[1::3] = -1
    return X + np.random.default_rng(seed + 1).normal(scale=noise, size=X.shape), y


def label_columns(name: str, n: int = 60) -> np.ndarray:
    """Return labels (n, 4) that the estimator accepts; every third row is unlabeled."""
    if name in ONE_CLASS_PER_ITEM:
        return as_indicator(partly_labeled(n)[1]).Y
    Y = multi_label(n)[1]
    Y[1::3] = -1
    return Y


def outputs(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Return all arrays that a fitted estimator produces, for the items of its fit and for X."""
    kept = ("embedding_", "eigenvalues_", "projection_", "transduction_scores_", "label_distributions_")
    found = {name.rstrip("_"): getattr(model, name) for name in kept if hasattr(model, name)}
    for ask in ("transform", "decision_function", "predict_scores"):
        if hasattr(model, ask):
            found[ask] = getattr(model, ask)(X)
    return found


def threaded_problem(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return an estimator and items large enough for multi-threaded matrix products."""
    small = name in ("DiscriminativeProjections-rbf", "SLEML-kernel_ridge")
    X, y = partly_labeled(300 if small else 500, 64, noise=8.0)
    return fresh(name, **({"landmarks": 150} if name == "LPSSVM-rbf" else {})), X / 8, y


def threaded_results() -> dict[str, np.ndarray]:
    """Return the results of all estimators on their `threaded_problem`, and of DLE with tied distances."""
    found = {}
    for name in ALL_NAMES:
        model, X, y = threaded_problem(name)
        for part, values in outputs(model.fit(X, y), X[:40] + 0.1).items():
            found[f"{name} {part}"] = values
    X = np.random.default_rng(0).integers(0, 3, size=(2000, 20)).astype(np.float64)
    found["equal distances"] = DLE(n_components=1).fit(X, np.arange(2000) % 2).embedding_
    return found


if __name__ == "__main__":
    warnings.simplefilter("error")
    np.savez(sys.argv[1], **threaded_results())
