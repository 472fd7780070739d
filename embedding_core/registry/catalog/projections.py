"""Projections that the papers compare with."""

from collections.abc import Mapping
from typing import Any

from embedding_core.registry.catalog.sources import DLE_PAPER, MLDA_PAPER
from embedding_core.registry.method import Method

_EQUATION_OF = f"of {MLDA_PAPER}"
_LPP_PAPER = "X. He, P. Niyogi: Locality Preserving Projections"
_MDDM_PAPER = "Y. Zhang, Z.-H. Zhou: Multi-Label Dimensionality Reduction via Dependence Maximization"


def _projection(
    name: str,
    title: str,
    paper: str,
    equations: str,
    attribute: str,
    cost: str,
    multi_label: bool = True,
    uses_graph: bool = False,
    defaults: Mapping[str, Any] | None = None,
) -> Method:
    return Method(
        name=name,
        title=title,
        paper=paper,
        equations=equations,
        module=f"embedding_core.subspace.{attribute.lower()}",
        attribute=attribute,
        role="projection",
        inductive=True,
        single_label=True,
        multi_label=multi_label,
        uses_graph=uses_graph,
        cost=cost,
        defaults=defaults or {},
    )


ENTRIES = (
    _projection(
        "lpp",
        "LPP",
        _LPP_PAPER,
        "X L X^T a = lambda X D X^T a",
        "LPP",
        "n p min(n, p) + edges p + min(n, p)^3",
        uses_graph=True,
    ),
    _projection(
        "kernel_lpp",
        "Kernel LPP",
        _LPP_PAPER,
        "K L K a = lambda K D K a",
        "LPP",
        "n h p + edges h + n h^2, h landmarks",
        uses_graph=True,
        defaults={"kernel": "rbf", "landmarks": "auto"},
    ),
    _projection(
        "pca",
        "PCA",
        "K. Pearson: On Lines and Planes of Closest Fit to Systems of Points in Space",
        "",
        "PCA",
        "n p min(n, p)",
    ),
    _projection(
        "lda",
        "LDA",
        "R. A. Fisher: The Use of Multiple Measurements in Taxonomic Problems",
        f"Eq. 2-5 {_EQUATION_OF}",
        "LDA",
        "n p min(n, p) + n p K",
        multi_label=False,
    ),
    _projection(
        "cca",
        "CCA",
        "H. Hotelling: Relations between Two Sets of Variates",
        "",
        "CCA",
        "n p min(n, p) + n p K",
    ),
    _projection(
        "mlsi",
        "MLSI",
        "K. Yu, S. Yu, V. Tresp: Multi-label Informed Latent Semantic Indexing",
        f"Eq. 22 {_EQUATION_OF}",
        "MLSI",
        "n p min(n, p) + n p K",
    ),
    _projection("mddm", "MDDM", _MDDM_PAPER, f"Eq. 23 {_EQUATION_OF}", "MDDM", "n p K"),
    _projection(
        "kernel_mddm",
        "Kernel MDDM",
        _MDDM_PAPER,
        f"Eq. 23 {_EQUATION_OF}",
        "MDDM",
        "n h p + n h^2, h landmarks",
        defaults={"kernel": "rbf", "landmarks": "auto"},
    ),
    _projection(
        "eigenfaces",
        "Eigenfaces",
        "M. Turk, A. Pentland: Eigenfaces for Recognition",
        f"section Experiments of {DLE_PAPER}",
        "Eigenfaces",
        "(n + p) n min(n, p)",
    ),
    _projection(
        "fisherfaces",
        "Fisherfaces",
        "P. N. Belhumeur, J. P. Hespanha, D. J. Kriegman: Eigenfaces vs. Fisherfaces: Recognition Using "
        "Class Specific Linear Projection",
        "",
        "Fisherfaces",
        "n p min(n, p) + n p K",
        multi_label=False,
    ),
    _projection(
        "laplacianfaces",
        "Laplacianfaces",
        "X. He, S. Yan, Y. Hu, P. Niyogi, H.-J. Zhang: Face Recognition Using Laplacianfaces",
        "",
        "Laplacianfaces",
        "n p min(n, p) + edges p + min(n, p)^3",
        uses_graph=True,
    ),
)
