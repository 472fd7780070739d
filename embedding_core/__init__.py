"""The mathematics of labelscape: embeddings of partly labeled collections.

Public names are imported when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedding_core.classifiers.ldac1 import LDAC1
    from embedding_core.classifiers.ml_knn import MLkNN
    from embedding_core.classifiers.mlls import MLLS
    from embedding_core.discriminant.discriminative_projections import DiscriminativeProjections
    from embedding_core.discriminant.dle import DLE, MultiLabelDLE
    from embedding_core.discriminant.mlda import MLDA
    from embedding_core.eigenmaps.ccdr import CCDR
    from embedding_core.eigenmaps.constraint_score import ConstraintScore
    from embedding_core.eigenmaps.laplacian_eigenmaps import LaplacianEigenmaps
    from embedding_core.eigenmaps.slapeig import SLapEig
    from embedding_core.eigenmaps.sle import SLE
    from embedding_core.eigenmaps.sle_ml import SLEML
    from embedding_core.errors import InvalidInput
    from embedding_core.kernel_dle.classifier import KernelDLEClassifier
    from embedding_core.kernel_dle.estimator import KernelDLE
    from embedding_core.linalg.row_blocks import RowBlocks
    from embedding_core.margin.laprls import LapRLS
    from embedding_core.margin.lapsvm import LapSVM
    from embedding_core.margin.lpp_svm import LPPSVM
    from embedding_core.margin.lpssvm import LPSSVM
    from embedding_core.subspace.cca import CCA
    from embedding_core.subspace.eigenfaces import Eigenfaces
    from embedding_core.subspace.fisherfaces import Fisherfaces
    from embedding_core.subspace.laplacianfaces import Laplacianfaces
    from embedding_core.subspace.lda import LDA
    from embedding_core.subspace.lpp import LPP
    from embedding_core.subspace.mddm import MDDM
    from embedding_core.subspace.mlsi import MLSI
    from embedding_core.subspace.pca import PCA
    from embedding_core.transduction.consistency import LocalGlobalConsistency
    from embedding_core.transduction.harmonic import HarmonicFunctions
    from embedding_core.transduction.kmeans_laplacian import KMeansLaplacian
    from embedding_core.transduction.mcgf import MCGF
    from embedding_core.transduction.mlgf import MLGF
    from embedding_core.transduction.smse import SMSE
    from embedding_core.transduction.spectral_transducer import SpectralGraphTransducer

_EXPORTS = {
    "CCA": "embedding_core.subspace.cca",
    "CCDR": "embedding_core.eigenmaps.ccdr",
    "ConstraintScore": "embedding_core.eigenmaps.constraint_score",
    "DLE": "embedding_core.discriminant.dle",
    "DiscriminativeProjections": "embedding_core.discriminant.discriminative_projections",
    "Eigenfaces": "embedding_core.subspace.eigenfaces",
    "Fisherfaces": "embedding_core.subspace.fisherfaces",
    "HarmonicFunctions": "embedding_core.transduction.harmonic",
    "InvalidInput": "embedding_core.errors",
    "KMeansLaplacian": "embedding_core.transduction.kmeans_laplacian",
    "KernelDLE": "embedding_core.kernel_dle.estimator",
    "KernelDLEClassifier": "embedding_core.kernel_dle.classifier",
    "LDA": "embedding_core.subspace.lda",
    "LDAC1": "embedding_core.classifiers.ldac1",
    "LPP": "embedding_core.subspace.lpp",
    "LPPSVM": "embedding_core.margin.lpp_svm",
    "LPSSVM": "embedding_core.margin.lpssvm",
    "LapRLS": "embedding_core.margin.laprls",
    "LapSVM": "embedding_core.margin.lapsvm",
    "LaplacianEigenmaps": "embedding_core.eigenmaps.laplacian_eigenmaps",
    "Laplacianfaces": "embedding_core.subspace.laplacianfaces",
    "LocalGlobalConsistency": "embedding_core.transduction.consistency",
    "MCGF": "embedding_core.transduction.mcgf",
    "MDDM": "embedding_core.subspace.mddm",
    "MLDA": "embedding_core.discriminant.mlda",
    "MLGF": "embedding_core.transduction.mlgf",
    "MLLS": "embedding_core.classifiers.mlls",
    "MLSI": "embedding_core.subspace.mlsi",
    "MLkNN": "embedding_core.classifiers.ml_knn",
    "MultiLabelDLE": "embedding_core.discriminant.dle",
    "PCA": "embedding_core.subspace.pca",
    "RowBlocks": "embedding_core.linalg.row_blocks",
    "SLE": "embedding_core.eigenmaps.sle",
    "SLEML": "embedding_core.eigenmaps.sle_ml",
    "SLapEig": "embedding_core.eigenmaps.slapeig",
    "SMSE": "embedding_core.transduction.smse",
    "SpectralGraphTransducer": "embedding_core.transduction.spectral_transducer",
}

__all__ = [
    "CCA",
    "CCDR",
    "DLE",
    "LDA",
    "LDAC1",
    "LPP",
    "LPPSVM",
    "LPSSVM",
    "MCGF",
    "MDDM",
    "MLDA",
    "MLGF",
    "MLLS",
    "MLSI",
    "PCA",
    "SLE",
    "SLEML",
    "SMSE",
    "ConstraintScore",
    "DiscriminativeProjections",
    "Eigenfaces",
    "Fisherfaces",
    "HarmonicFunctions",
    "InvalidInput",
    "KMeansLaplacian",
    "KernelDLE",
    "KernelDLEClassifier",
    "LapRLS",
    "LapSVM",
    "LaplacianEigenmaps",
    "Laplacianfaces",
    "LocalGlobalConsistency",
    "MLkNN",
    "MultiLabelDLE",
    "RowBlocks",
    "SLapEig",
    "SpectralGraphTransducer",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
