"""The feature extractors that a configuration can name."""

from importlib import import_module

from embedding_core.blocks import Terms
from embedding_core.errors import InvalidInput
from embedding_core.features.base import FeatureExtractor

# Name → class. To add an extractor, add one line; its module loads only when a configuration is read.
EXTRACTORS = {
    "color_moments": "embedding_core.features.color_moments.ColorMoments",
    "efficientnet_lite0": "embedding_core.features.efficientnet_lite0.EfficientNetLite0",
    "onnx": "embedding_core.features.onnx_model.OnnxModel",
    "tfidf": "embedding_core.features.tfidf.Tfidf",
}


def extractor_class(name: str) -> type[FeatureExtractor]:
    """Return the class of a registered extractor."""
    if name not in EXTRACTORS:
        raise InvalidInput(f"feature extractor {name!r} is unknown; choose one of {', '.join(EXTRACTORS)}.")
    module, _, attribute = EXTRACTORS[name].rpartition(".")
    found: type[FeatureExtractor] = getattr(import_module(module), attribute)
    return found


def terms_of(name: str) -> Terms:
    """How methods weigh the rows of an extractor, if they are counts of terms; see `FeatureBlock`."""
    found: Terms = getattr(extractor_class(name), "terms", "none")
    return found


def parse_choice(text: str) -> tuple[str, dict[str, str]]:
    """Split `name:value` into the name of an extractor and its parameters.

    >>> parse_choice("onnx:models/clip.onnx"), parse_choice("color_moments")
    (('onnx', {'path': 'models/clip.onnx'}), ('color_moments', {}))
    """
    name, colon, value = text.partition(":")
    if not colon:
        return name, {}
    argument = extractor_class(name).argument
    if argument is None:
        raise InvalidInput(f"{text!r}: the extractor {name} takes nothing after a colon; write {name}.")
    return name, {argument: value}
