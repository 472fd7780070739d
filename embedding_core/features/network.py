"""Extractors that run a pretrained network on images."""

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features.base import ImageExtractor
from embedding_core.features.preprocessing import Preprocessing

_ERROR_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


@dataclass(frozen=True, eq=False)
class Network:
    """A loaded network.

    Attributes
    ----------
    preprocessing : Preprocessing
    run : callable
        Maps a float32 array (n, 3, height, width) to one float32 row per image. The rows do not depend on
        which images are run together, except for rounding errors; the extractors run one image at a time,
        which is fastest on a processor. May be called from several threads.
    n_features : int
        Length of a row.
    """

    preprocessing: Preprocessing
    run: Callable[[np.ndarray], np.ndarray]
    n_features: int


class NetworkExtractor(ImageExtractor):
    """Base class of extractors that run a network; each process loads it once."""

    @abstractmethod
    def load(self) -> Network:
        """Read the files of the network; raises `InvalidInput` if they are missing or wrong."""

    @property
    def network(self) -> Network:
        """The network, loaded on first use. A copy of the extractor in another process loads its own."""
        return _loaded(self, tuple(self.file_digests().items()))

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return self.network.n_features

    def extract(self, rgb: np.ndarray) -> np.ndarray:
        """Return the float32 row of a uint8 array (height, width, 3)."""
        network = self.network
        row: np.ndarray = network.run(network.preprocessing.apply(rgb)[np.newaxis])[0]
        if not np.isfinite(row).all():
            from embedding_core.features.images import UnreadableImage

            raise UnreadableImage("the network's output for it contains values that are not finite")
        return row

    def extract_bytes(self, data: bytes) -> np.ndarray:
        """Decode an image file, large photographs at a reduced size, and extract its features."""
        from embedding_core.features.images import decode_image, shared_buffer

        least_side = self.network.preprocessing.least_side
        return self.extract(decode_image(data, buffer=shared_buffer, least_side=least_side))

    def warm_up(self, n_items: int) -> None:
        """Load the network before several threads need it."""
        if n_items:
            _ = self.network


@lru_cache(maxsize=4)
def _loaded(extractor: NetworkExtractor, digests: tuple[tuple[str, str], ...]) -> Network:
    """The network of an extractor, loaded again when its files have changed."""
    return extractor.load()


def has_onnxruntime() -> bool:
    """Whether onnxruntime is installed."""
    return find_spec("onnxruntime") is not None


def open_session(model: bytes | str) -> Any:
    """Open an ONNX model, given by its content or its path, in onnxruntime with one thread.

    Items are spread over threads outside. With one thread inside, the rows do not depend on their number.

    Raises
    ------
    InvalidInput
        onnxruntime is not installed or cannot run the model; the message is its first line.
    """
    if not has_onnxruntime():
        raise InvalidInput("running an ONNX model needs onnxruntime; run: pip install 'labelscape[onnx]'")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised, not printed
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises its own exceptions, without a common base class
        raise InvalidInput(f"onnxruntime cannot open the model ({first_line(error)})") from error


def first_line(error: Exception) -> str:
    """The first line of a message, without the error code that onnxruntime puts in front."""
    return _ERROR_CODE.sub("", str(error).strip()).partition("\n")[0][:300]
