"""The mathematics of labelscape: embeddings of partly labelled collections.

Public names are imported when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedding_core.discriminant.dle import DLE, MultiLabelDLE
    from embedding_core.discriminant.mlda import MLDA
    from embedding_core.discriminant.projections import DiscriminativeProjections
    from embedding_core.eigenmaps.sle_ml import SLEML
    from embedding_core.errors import InvalidInput
    from embedding_core.margin.lpssvm import LPSSVM
    from embedding_core.row_blocks import RowBlocks

_EXPORTS = {
    "DLE": "embedding_core.discriminant.dle",
    "DiscriminativeProjections": "embedding_core.discriminant.projections",
    "LPSSVM": "embedding_core.margin.lpssvm",
    "MLDA": "embedding_core.discriminant.mlda",
    "MultiLabelDLE": "embedding_core.discriminant.dle",
    "SLEML": "embedding_core.eigenmaps.sle_ml",
    "InvalidInput": "embedding_core.errors",
    "RowBlocks": "embedding_core.row_blocks",
}

__all__ = [
    "DLE",
    "LPSSVM",
    "MLDA",
    "SLEML",
    "DiscriminativeProjections",
    "InvalidInput",
    "MultiLabelDLE",
    "RowBlocks",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
