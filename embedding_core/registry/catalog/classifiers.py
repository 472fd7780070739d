"""Multi-label classifiers that the papers compare with."""

from embedding_core.registry.method import Method


def _classifier(name: str, title: str, attribute: str, paper: str, equations: str, cost: str) -> Method:
    return Method(
        name=name,
        title=title,
        paper=paper,
        equations=equations,
        module=f"embedding_core.classifiers.{name}",
        attribute=attribute,
        role="classifier",
        inductive=True,
        single_label=True,
        multi_label=True,
        uses_graph=False,
        cost=cost,
    )


ENTRIES = (
    _classifier(
        "ldac1",
        "LDA, one class at a time",
        "LDAC1",
        "R. A. Fisher: The Use of Multiple Measurements in Taxonomic Problems",
        "Eq. 2-5 and Sect. 5.2 of the MLDA paper",
        "n p min(n, p) + n p K, n K a query",
    ),
    _classifier(
        "mlls",
        "MLLS",
        "MLLS",
        "S. Ji, L. Tang, S. Yu, J. Ye: Extracting Shared Subspace for Multi-label Classification",
        "Eq. 24 of the MLDA paper, corrected",
        "n p min(n, p) + min(n, p)^3 + n min(n, p) K",
    ),
    _classifier(
        "ml_knn",
        "ML-kNN",
        "MLkNN",
        "M.-L. Zhang, Z.-H. Zhou: ML-KNN: A Lazy Learning Approach to Multi-label Learning",
        "priors, likelihoods and the maximum a posteriori rule",
        "n^2 p, n p a query",
    ),
)
