"""The feature extractors that a configuration can name."""

from importlib import import_module

from embedding_core.errors import InvalidInput
from embedding_core.features.base import FeatureExtractor

# Name → class. To add an extractor, add one line; its module loads only when a configuration is read.
EXTRACTORS = {
    "color_moments": "embedding_core.features.color_moments.ColorMoments",
    "gabor": "embedding_core.features.gabor.Gabor",
    "edge_histogram": "embedding_core.features.edge_histogram.EdgeHistogram",
    "picture_signature": "embedding_core.features.picture_signature.PictureSignature",
    "lpssvm_visual": "embedding_core.features.lpssvm_visual.LpssvmVisual",
    "bow_sift": "embedding_core.features.bow_sift.BowSift",
    "efficientnet_lite0": "embedding_core.features.efficientnet_lite0.EfficientNetLite0",
    "onnx": "embedding_core.features.onnx_model.OnnxModel",
    "mfcc": "embedding_core.features.mfcc.Mfcc",
    "tfidf": "embedding_core.features.tfidf.Tfidf",
}


def extractor_class(name: str) -> type[FeatureExtractor]:
    """Return the class of a registered extractor."""
    if name not in EXTRACTORS:
        raise InvalidInput(f"feature extractor {name!r} is unknown; choose one of {', '.join(EXTRACTORS)}.")
    module, _, attribute = EXTRACTORS[name].rpartition(".")
    found: type[FeatureExtractor] = getattr(import_module(module), attribute)
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
