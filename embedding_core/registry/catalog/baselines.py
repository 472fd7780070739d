"""Plain methods that stand beside every other."""

from typing import Any

from embedding_core.registry.method import Method


def _baseline(
    name: str, title: str, attribute: str, cost: str, module: str = "baselines", **defaults: Any
) -> Method:
    return Method(
        name=name,
        title=title,
        paper="",
        equations="",
        module=f"embedding_core.classifiers.{module}",
        attribute=attribute,
        role="classifier",
        inductive=True,
        single_label=True,
        multi_label=True,
        uses_graph=False,
        cost=cost,
        baseline=True,
        defaults=defaults,
        own_scaling=True,
    )


ENTRIES = (
    _baseline("1nn", "1NN, input as given", "InputNeighbors", "n p a query", scale="none"),
    _baseline("1nn_zscore", "1NN, z-scored input", "InputNeighbors", "n p a query", scale="zscore"),
    _baseline("svm", "Scaled SVM", "ScaledSVM", "n^2 p K"),
    _baseline("rbf_svc", "RBF-SVC, tuned", "TunedSVM", "36 n^2 p K", "tuned_svm"),
    _baseline("random_forest", "Random forest", "RandomForest", "500 sqrt(p) n log(n)", "forest"),
)
