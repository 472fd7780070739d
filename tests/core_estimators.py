"""The public estimators of embedding_core and one problem for all of them, for the tests of their contract.

`ESTIMATORS` are those of the five papers, `COMPARED` the methods that the papers compare with, `OWN` those
beyond the papers, `EVERY` all of them.

`python -m tests.core_estimators FILE` fits them all and leaves the results in FILE, for tests that compare
processes and numbers of threads.
"""

import sys
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from embedding_core import (
    CCA,
    CCDR,
    DLE,
    LDA,
    LDAC1,
    LPP,
    LPPSVM,
    LPSSVM,
    MCGF,
    MDDM,
    MLDA,
    MLGF,
    MLLS,
    MLSI,
    PCA,
    SLE,
    SLEML,
    SMSE,
    ConstraintScore,
    DiscriminativeProjections,
    Eigenfaces,
    Fisherfaces,
    HarmonicFunctions,
    KernelDLE,
    KernelDLEClassifier,
    KMeansLaplacian,
    LaplacianEigenmaps,
    Laplacianfaces,
    LapRLS,
    LapSVM,
    LocalGlobalConsistency,
    MLkNN,
    MultiLabelDLE,
    SLapEig,
    SpectralGraphTransducer,
)
from embedding_core.labels import as_indicator
from tests.synthetic import multi_label, single_label

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
COMPARED: dict[str, Any] = {
    "PCA": PCA(),
    "LDA": LDA(),
    "CCA": CCA(),
    "LPP": LPP(),
    "LPP-rbf": LPP(kernel="rbf"),
    "MLSI": MLSI(),
    "MDDM": MDDM(),
    "MDDM-rbf": MDDM(kernel="rbf"),
    "Eigenfaces": Eigenfaces(),
    "Fisherfaces": Fisherfaces(),
    "Laplacianfaces": Laplacianfaces(),
    "LaplacianEigenmaps": LaplacianEigenmaps(),
    "LaplacianEigenmaps-nystrom": LaplacianEigenmaps(out_of_sample="nystrom"),
    "CCDR": CCDR(),
    "ConstraintScore": ConstraintScore(),
    "SLapEig": SLapEig(),
    "SLE": SLE(),
    "LDAC1": LDAC1(),
    "MLLS": MLLS(),
    "MLkNN": MLkNN(),
    "LocalGlobalConsistency": LocalGlobalConsistency(),
    "HarmonicFunctions": HarmonicFunctions(),
    "MLGF": MLGF(),
    "SMSE": SMSE(),
    "SMSE-hard": SMSE(variant="hard"),
    "SpectralGraphTransducer": SpectralGraphTransducer(),
    "MCGF": MCGF(),
    "KMeansLaplacian": KMeansLaplacian(),
    "LapSVM": LapSVM(),
    "LapRLS": LapRLS(),
    "LPPSVM": LPPSVM(),
}
OWN: dict[str, Any] = {
    "KernelDLE": KernelDLE(few_labels=False),
    "KernelDLE-few_labels": KernelDLE(few_labels=True),
    "KernelDLEClassifier": KernelDLEClassifier(few_labels=False),
}
EVERY = ESTIMATORS | COMPARED | OWN
NAMES = list(ESTIMATORS)
ALL_NAMES = list(EVERY)
ONE_CLASS_AN_ITEM = ("DLE", "DLE-balanced", "LDA", "Fisherfaces", "ConstraintScore", "SLapEig", "SLE")
WITH_GRAPH = [name for name in NAMES if name != "MLDA"]
SEVERAL_LABELS = [name for name in NAMES if name not in ONE_CLASS_AN_ITEM]
LINEAR = [name for name in NAMES if not name.endswith(("rbf", "nystrom", "kernel_ridge"))]


def fresh(name: str, **parameters: Any) -> Any:
    """An estimator that is not fitted."""
    return clone(EVERY[name]).set_params(**parameters)


def partly_labeled(
    n: int = 60, p: int = 7, seed: int = 0, noise: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Items of four classes that overlap, so that neighbors link them all; every third is unlabeled."""
    X, y = single_label(n, p, seed=seed)
    y[1::3] = -1
    return X + np.random.default_rng(seed + 1).normal(scale=noise, size=X.shape), y


def label_columns(name: str, n: int = 60) -> np.ndarray:
    """Labels (n, 4) that the estimator takes, every third row unlabeled."""
    if name in ONE_CLASS_AN_ITEM:
        return as_indicator(partly_labeled(n)[1]).Y
    Y = multi_label(n)[1]
    Y[1::3] = -1
    return Y


def outputs(model: Any, X: Any) -> dict[str, np.ndarray]:
    """All numbers that a fitted estimator gives back, for the items of its fit and for X."""
    kept = ("embedding_", "eigenvalues_", "projection_", "transduction_scores_", "label_distributions_")
    found = {name.rstrip("_"): getattr(model, name) for name in kept if hasattr(model, name)}
    for ask in ("transform", "decision_function", "predict_scores"):
        if hasattr(model, ask):
            found[ask] = getattr(model, ask)(X)
    return found


def threaded_problem(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """An estimator and items of a size at which matrix products run in several threads."""
    small = name in ("DiscriminativeProjections-rbf", "SLEML-kernel_ridge")
    X, y = partly_labeled(300 if small else 500, 64, noise=8.0)
    return fresh(name, **({"landmarks": 150} if name == "LPSSVM-rbf" else {})), X / 8, y


def threaded_results() -> dict[str, np.ndarray]:
    """What all estimators give for their `threaded_problem`, and DLE for items with equal distances."""
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
