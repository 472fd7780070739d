"""Graph transduction: the methods that the DLE paper compares with."""

from typing import Any

from embedding_core.registry.method import Method


def _transduction(
    name: str, title: str, paper: str, module: str, attribute: str, cost: str, **own: Any
) -> Method:
    facts: dict[str, Any] = {"role": "classifier", "inductive": False, "equations": "", **own}
    return Method(
        name=name,
        title=title,
        paper=paper,
        module=f"embedding_core.transduction.{module}",
        attribute=attribute,
        single_label=True,
        multi_label=True,
        uses_graph=True,
        cost=cost,
        **facts,
    )


ENTRIES = (
    _transduction(
        "local_global_consistency",
        "Local and global consistency (CF)",
        "D. Zhou, O. Bousquet, T. N. Lal, J. Weston, B. Schölkopf: Learning with Local and Global "
        "Consistency",
        "consistency",
        "LocalGlobalConsistency",
        "edges K",
        inductive=True,
        equations="F = (1 - α) (I - α S)^-1 Y",
    ),
    _transduction(
        "harmonic_functions",
        "Harmonic functions (HF)",
        "X. Zhu, Z. Ghahramani, J. Lafferty: Semi-Supervised Learning Using Gaussian Fields and Harmonic "
        "Functions",
        "harmonic",
        "HarmonicFunctions",
        "edges K",
        inductive=True,
        equations="Eq. 4, 5, 9",
    ),
    _transduction(
        "spectral_graph_transducer",
        "Spectral graph transducer (SGT)",
        "T. Joachims: Transductive Learning via Spectral Graph Partitioning",
        "spectral_transducer",
        "SpectralGraphTransducer",
        "edges d + n d^2 + K d^3, d eigenvectors",
        equations="constrained ratio cut, secular equation",
    ),
    _transduction(
        "kmeans_laplacian",
        "K-means and Laplacian (KL)",
        "F. Wang, C. Ding, T. Li: Integrated KL (K-means - Laplacian) Clustering",
        "kmeans_laplacian",
        "KMeansLaplacian",
        "edges K + n p K",
        role="projection",
    ),
    _transduction(
        "mlgf",
        "Multi-label Gaussian fields (MLGF)",
        "Z.-J. Zha, T. Mei, J. Wang, Z. Wang, X.-S. Hua: Graph-based Semi-supervised Learning with "
        "Multi-label",
        "mlgf",
        "MLGF",
        "edges K + n K^2",
        inductive=True,
    ),
    _transduction(
        "smse",
        "Sylvester equation (SMSE)",
        "G. Chen, Y. Song, F. Wang, C. Zhang: Semi-supervised Multi-label Learning by Solving a Sylvester "
        "Equation",
        "smse",
        "SMSE",
        "edges K + n K^2",
        equations="(I + μ L) F + ν F H = Y",
    ),
    _transduction(
        "mcgf",
        "Correlated Green's function (MCGF)",
        "H. Wang, H. Huang, C. Ding: Image Annotation Using Multi-label Correlated Green's Function",
        "mcgf",
        "MCGF",
        "edges r + n r^2 + n r K, r eigenvectors",
        equations="F = G Y (I + α C)",
    ),
)
