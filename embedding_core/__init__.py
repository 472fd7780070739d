"""The mathematics of labelscape: embeddings and classifiers for partly labeled collections.

The package exports the estimator class of every public method of `embedding_core.registry` and the names in
`_FURTHER`. Classes are imported on first use, so that importing the package is cheap.

Examples
--------
>>> import embedding_core
>>> "MLDA" in embedding_core.__all__
True
>>> embedding_core.MLDA.__module__
'embedding_core.discriminant.mlda'
"""

from importlib import import_module
from typing import Any

from embedding_core.registry import METHODS

_FURTHER = {
    "InvalidInput": "embedding_core.errors",
    "KernelDLE": "embedding_core.kernel_dle.estimator",
    "RowBlocks": "embedding_core.linalg.row_blocks",
}
"""Exported names that are no methods of the registry, with their modules."""

_EXPORTS = {method.attribute: method.module for method in METHODS.values() if method.public} | _FURTHER

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
