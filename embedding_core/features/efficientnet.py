"""EfficientNet-Lite: a convolutional network for images, without its classification layer.

The architecture is that of the Lite variants of EfficientNet [1]_: no squeeze-excitation, ReLU6 throughout. A
network is a list of blocks of convolutions. It runs in NumPy, or as an ONNX graph in another library.

References
----------
.. [1] M. Tan, Q. Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", ICML 2019;
   Lite variants: https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features import onnx_format

_BATCH_NORM_EPSILON = 1e-3
# Values of a result that NumPy computes at once, so that they stay in the cache.
_CACHED_VALUES = 2**15

# Stages of Lite0: blocks, stride of the first block. The weights determine every other size.
_STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))


@dataclass(frozen=True, eq=False)
class Convolution:
    """A convolution with its batch normalization folded in, and an optional ReLU6.

    Attributes
    ----------
    weight : ndarray of shape (out, in, k, k), or (channels, 1, k, k) if depthwise
    bias : ndarray of shape (out,)
    stride : int
    depthwise : bool
        Each channel has its own kernel.
    clipped : bool
        Whether the values are clipped to 0 ... 6.
    """

    weight: np.ndarray
    bias: np.ndarray
    stride: int = 1
    depthwise: bool = False
    clipped: bool = True


@dataclass(frozen=True, eq=False)
class Block:
    """Convolutions that follow each other; with `residual`, the input is added to the result."""

    convolutions: tuple[Convolution, ...]
    residual: bool = False


def build_lite0(weights: Mapping[str, np.ndarray]) -> list[Block]:
    """Build EfficientNet-Lite0 from the weights of its PyTorch version.

    Parameters
    ----------
    weights : mapping of str to ndarray
        Tensors by name, such as `_blocks.3._project_conv.weight` and `_blocks.3._bn2.running_var`.

    Raises
    ------
    InvalidInput
        A tensor is missing.
    """
    try:
        blocks = [Block((_fold(weights, "_conv_stem", "_bn0", stride=2),))]
        strides = [first if place == 0 else 1 for count, first in _STAGES for place in range(count)]
        blocks += [
            _mobile_block(weights, f"_blocks.{number}.", stride) for number, stride in enumerate(strides)
        ]
        return [*blocks, Block((_fold(weights, "_conv_head", "_bn1"),))]
    except KeyError as error:
        raise InvalidInput(f"the weights of EfficientNet-Lite0 have no tensor {error}.") from error


def _mobile_block(weights: Mapping[str, np.ndarray], prefix: str, stride: int) -> Block:
    """Expand the channels, convolve each one, project to fewer channels."""
    expand = [_fold(weights, f"{prefix}_expand_conv", f"{prefix}_bn0")] if _expands(weights, prefix) else []
    depthwise = _fold(weights, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride=stride, depthwise=True)
    project = _fold(weights, f"{prefix}_project_conv", f"{prefix}_bn2", clipped=False)
    chain = (*expand, depthwise, project)
    n_in = chain[0].weight.shape[1] if expand else len(depthwise.weight)
    return Block(chain, residual=stride == 1 and n_in == len(project.weight))


def _expands(weights: Mapping[str, np.ndarray], prefix: str) -> bool:
    return f"{prefix}_expand_conv.weight" in weights


def _fold(
    weights: Mapping[str, np.ndarray],
    convolution: str,
    norm: str,
    stride: int = 1,
    depthwise: bool = False,
    clipped: bool = True,
) -> Convolution:
    """Fold g (W x - m) / √(v + ε) + b into one convolution: W s and b - m s with s = g / √(v + ε)."""
    gain, shift, mean, variance = (
        weights[f"{norm}.{part}"].astype(np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gain / np.sqrt(variance + _BATCH_NORM_EPSILON)
    folded = weights[f"{convolution}.weight"] * scale[:, None, None, None]
    bias = (shift - mean * scale).astype(np.float32)
    return Convolution(np.ascontiguousarray(folded, np.float32), bias, stride, depthwise, clipped)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after a side, as TensorFlow's SAME padding: the odd one comes after."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def run_network(blocks: list[Block], batch: np.ndarray) -> np.ndarray:
    """Run a network in NumPy and average the last channels over the image.

    Parameters
    ----------
    blocks : list of Block
    batch : float32 array (n, 3, height, width)

    Returns
    -------
    float32 array (n, channels)
    """
    return np.stack([_run_one(blocks, image.transpose(1, 2, 0)) for image in batch])


def _run_one(blocks: list[Block], x: np.ndarray) -> np.ndarray:
    """Run one image (height, width, 3). With the channels last, the inner loops of NumPy are long."""
    for block in blocks:
        y = x
        for convolution in block.convolutions:
            y = _convolve(y, convolution)
        x = y + x if block.residual else y
    means: np.ndarray = x.mean(axis=(0, 1), dtype=np.float32)
    return means


def _convolve(x: np.ndarray, convolution: Convolution) -> np.ndarray:
    weight, stride = convolution.weight, convolution.stride
    kernel = weight.shape[2]
    if convolution.depthwise:
        y = _depthwise(_pad(x, kernel, stride), weight[:, 0].transpose(1, 2, 0), stride)
    elif kernel == 1:
        y = (x.reshape(-1, x.shape[2]) @ weight[:, :, 0, 0].T).reshape(*x.shape[:2], -1)
    else:
        windows = np.lib.stride_tricks.sliding_window_view(_pad(x, kernel, stride), (kernel, kernel), (0, 1))
        y = np.tensordot(windows[::stride, ::stride], weight, axes=((2, 3, 4), (1, 2, 3)))
    y += convolution.bias
    return np.clip(y, 0, 6, out=y) if convolution.clipped else y


def _pad(x: np.ndarray, kernel: int, stride: int) -> np.ndarray:
    rows, columns = (same_padding(size, kernel, stride) for size in x.shape[:2])
    return np.pad(x, (rows, columns, (0, 0)))


def _depthwise(padded: np.ndarray, kernels: np.ndarray, stride: int) -> np.ndarray:
    """Convolve each channel with its own kernel (k, k, channels), some rows of the result at a time."""
    kernel, kernels = len(kernels), np.ascontiguousarray(kernels)
    height, width = ((size - kernel) // stride + 1 for size in padded.shape[:2])
    y = np.empty((height, width, padded.shape[2]), np.float32)
    step = max(1, _CACHED_VALUES // y[0].size)
    product = np.empty_like(y[:step])
    for top in range(0, height, step):
        rows = y[top : top + step]
        rows[:] = 0
        for i, j in np.ndindex(kernel, kernel):
            first = top * stride + i
            below = padded[first : first + len(rows) * stride : stride, j : j + width * stride : stride]
            rows += np.multiply(below[: len(rows), :width], kernels[i, j], out=product[: len(rows)])
    return y


def to_onnx(blocks: list[Block], size: int) -> bytes:
    """The network as an ONNX file: `pixels` (n, 3, size, size) to `features` (n, channels), both float32."""
    graph = _Graph(size)
    name = "pixels"
    for block in blocks:
        before = name
        for convolution in block.convolutions:
            name = graph.convolve(name, convolution)
        if block.residual:
            name = graph.add("Add", [name, before])
    graph.nodes.append(onnx_format.node("GlobalAveragePool", [name], "means"))
    graph.nodes.append(onnx_format.node("Flatten", ["means"], "features", axis=1))
    channels = len(blocks[-1].convolutions[-1].bias)
    return onnx_format.model(
        graph.nodes, graph.tensors, ("pixels", ["n", 3, size, size]), ("features", ["n", channels])
    )


class _Graph:
    """Collects operations and constants; `size` is the side of the image after the last convolution."""

    def __init__(self, size: int) -> None:
        self.size = size
        bounds = zip(("zero", "six"), (0.0, 6.0), strict=True)
        self.tensors = [onnx_format.tensor(name, np.array(value, np.float32)) for name, value in bounds]
        self.nodes: list[bytes] = []

    def add(self, operator: str, inputs: list[str], **integers: int | list[int]) -> str:
        """Append an operation and return the name of its result."""
        name = f"value{len(self.nodes)}"
        self.nodes.append(onnx_format.node(operator, inputs, name, **integers))
        return name

    def convolve(self, name: str, convolution: Convolution) -> str:
        """Append a convolution with its constants."""
        kernel, stride = convolution.weight.shape[2], convolution.stride
        before, after = same_padding(self.size, kernel, stride)
        self.size = -(-self.size // stride)
        constants = [f"weight{len(self.tensors)}", f"bias{len(self.tensors)}"]
        values = (convolution.weight, convolution.bias)
        self.tensors += [onnx_format.tensor(*one) for one in zip(constants, values, strict=True)]
        result = self.add(
            "Conv",
            [name, *constants],
            group=len(convolution.weight) if convolution.depthwise else 1,
            kernel_shape=[kernel, kernel],
            pads=[before, before, after, after],
            strides=[stride, stride],
        )
        return self.add("Clip", [result, "zero", "six"]) if convolution.clipped else result
