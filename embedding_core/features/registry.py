"""The feature extractors that a configuration can name."""

from importlib import import_module

from embedding_core.errors import InvalidInput
from embedding_core.features.base import FeatureExtractor

# Name → class. To add an extractor, add one line; its module loads only when a configuration is read.
EXTRACTORS = {
    "color_moments": "embedding_core.features.color_moments.ColorMoments",
}


def extractor_class(name: str) -> type[FeatureExtractor]:
    """Return the class of a registered extractor."""
    if name not in EXTRACTORS:
        raise InvalidInput(f"feature extractor {name!r} is unknown; choose one of {', '.join(EXTRACTORS)}.")
    module, _, attribute = EXTRACTORS[name].rpartition(".")
    found: type[FeatureExtractor] = getattr(import_module(module), attribute)
    return found
