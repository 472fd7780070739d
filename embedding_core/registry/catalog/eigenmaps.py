"""SLE-ML and the eigenmaps that its paper compares it with."""

from embedding_core.registry.catalog.sources import SLE_ML_PAPER
from embedding_core.registry.method import Method

_GRAPH_COST = "edges K + n K^2"


def _eigenmap(
    name: str,
    title: str,
    paper: str,
    equations: str,
    module: str,
    attribute: str,
    cost: str,
    multi_label: bool = True,
    uses_graph: bool = True,
) -> Method:
    return Method(
        name=name,
        title=title,
        paper=paper,
        equations=equations,
        module=f"embedding_core.eigenmaps.{module}",
        attribute=attribute,
        role="projection",
        inductive=True,
        single_label=True,
        multi_label=multi_label,
        uses_graph=uses_graph,
        cost=cost,
    )


ENTRIES: tuple[Method, ...] = (
    _eigenmap("sle_ml", "SLE-ML", SLE_ML_PAPER, "Eq. 3, Sections 3.1-3.2", "sle_ml", "SLEML", _GRAPH_COST),
    _eigenmap(
        "laplacian_eigenmaps",
        "Laplacian eigenmaps",
        "M. Belkin, P. Niyogi: Laplacian Eigenmaps for Dimensionality Reduction and Data Representation",
        "Eq. 1, Section 2.1 of Tai and Kudo",
        "laplacian_eigenmaps",
        "LaplacianEigenmaps",
        _GRAPH_COST,
    ),
    _eigenmap(
        "ccdr",
        "CCDR",
        "J. A. Costa, A. O. Hero: Classification Constrained Dimensionality Reduction",
        "Eq. 2, Section 2.2 of Tai and Kudo",
        "ccdr",
        "CCDR",
        _GRAPH_COST,
    ),
    _eigenmap(
        "constraint_score",
        "Constraint Score",
        "D. Zhang, S. Chen, Z.-H. Zhou: Constraint Score: A New Filter Method for Feature Selection with "
        "Pairwise Constraints",
        "Section 2.3 of Tai and Kudo",
        "constraint_score",
        "ConstraintScore",
        "n p min(n, p)",
        multi_label=False,
        uses_graph=False,
    ),
    _eigenmap(
        "slapeig",
        "S-LapEig",
        "Q. Jiang, M. Jia: Supervised Laplacian Eigenmaps for Machinery Fault Classification",
        "Section 2.4 of Tai and Kudo",
        "slapeig",
        "SLapEig",
        _GRAPH_COST,
        multi_label=False,
    ),
    _eigenmap(
        "sle",
        "S-LE",
        "B. Raducanu, F. Dornaika: A Supervised Non-linear Dimensionality Reduction Approach for Manifold "
        "Learning",
        "Section 2.5 of Tai and Kudo",
        "sle",
        "SLE",
        "n^2 p + n^3",
        multi_label=False,
        uses_graph=False,
    ),
)
