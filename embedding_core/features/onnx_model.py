"""Features by a vision model in a local ONNX file."""

from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features import onnx_ports
from embedding_core.features.model_files import digest_file
from embedding_core.features.network import Network, NetworkExtractor, first_line, open_session
from embedding_core.features.preprocessing import FITS, Fit, Interpolation, Preprocessing

Layout = Literal["auto", "nchw", "nhwc"]
Pool = Literal["none", "mean", "first"]
Bands = tuple[float, float, float]


@dataclass(frozen=True)
class OnnxModel(NetworkExtractor):
    """The output of a vision model in an ONNX file, one row per image.

    Parameters
    ----------
    path : str
        The file. Files with external data lie beside it.
    size : int, optional
        Side of the images in pixels, if the model leaves it open.
    mean, std : three floats, optional
        Normalization of red, green and blue on a scale from 0 to 1: (x / 255 - mean) / std.
    fit : {"squash", "crop", "pad"}, optional
        How an image is brought to the shape that the model expects, see `Preprocessing`.
    interpolation : {"bilinear", "bicubic"}, optional
    layout : {"auto", "nchw", "nhwc"}
        Whether the three bands come before or after height and width; auto: where the input has size 3.
    output : str, optional
        Name of the output, if there are several.
    pool : {"none", "mean", "first"}
        How an output with one row per position becomes one row: the mean, or the first position.

    Notes
    -----
    Parameters that are None are taken from `preprocessor_config.json` in the folder of the model or the one
    above. Without it, `fit` is "squash" and `interpolation` is "bilinear". There is no default normalization:
    a wrong one costs accuracy, and nothing would show it. A model that takes bytes needs none.
    onnxruntime runs the model with one thread per image. Nothing is downloaded.
    """

    name: ClassVar[str] = "onnx"
    argument: ClassVar[str] = "path"

    path: str | None = field(default=None, metadata={"description": "the ONNX file, also given as onnx:PATH"})
    size: int | None = field(
        default=None, metadata={"description": "side of the images in pixels, if the model leaves it open"}
    )
    mean: Bands | None = field(
        default=None, metadata={"description": "mean of red, green and blue on a scale from 0 to 1"}
    )
    std: Bands | None = field(
        default=None, metadata={"description": "standard deviation of red, green and blue on that scale"}
    )
    fit: Fit | None = field(
        default=None,
        metadata={"description": "how images are brought to the model's shape; default: squash"},
    )
    interpolation: Interpolation | None = field(
        default=None, metadata={"description": "how images are resized; default: bilinear"}
    )
    layout: Layout = field(
        default="auto", metadata={"description": "nchw if the bands come first, nhwc if they come last"}
    )
    output: str | None = field(
        default=None, metadata={"description": "name of the output, if the model has several"}
    )
    pool: Pool = field(
        default="none", metadata={"description": "how an output with one row per position becomes one row"}
    )

    def __post_init__(self) -> None:
        if self.size is not None and not 1 <= self.size <= onnx_ports.MAX_SIDE:
            raise InvalidInput(f"size={self.size}: give a number of pixels from 1 to {onnx_ports.MAX_SIDE}.")
        for name in ("mean", "std"):
            # A configuration read from JSON contains lists.
            object.__setattr__(self, name, _checked_bands(name, getattr(self, name)))
        choices = {"fit": (None, *FITS), "interpolation": (None, *get_args(Interpolation))}
        choices |= {"layout": get_args(Layout), "pool": get_args(Pool)}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InvalidInput(f"{name}={getattr(self, name)!r} is unknown; choose one of {allowed}.")

    def file_digests(self) -> dict[str, str]:
        """SHA-256 of the model, of its external data and of its `preprocessor_config.json`."""
        from embedding_core.features.preprocessor_config import find_config

        model = self._file()
        files = {model.name: model} | {
            name: _beside(model, name) for name in _external(model, digest_file(model))
        }
        config = find_config(model)
        if config is not None:
            files[config.name] = config
        return {name: digest_file(file) for name, file in files.items()}

    def load(self) -> Network:
        """Open the model and find out what it expects and returns."""
        file = self._file()
        try:
            return self._load(file)
        except InvalidInput as error:
            raise InvalidInput(f"{file}: {error}") from error

    def _file(self) -> Path:
        if not self.path:
            raise InvalidInput("the extractor onnx needs a model; set features.extractors=onnx:PATH")
        file = Path(self.path).expanduser()
        if file.is_dir():
            raise InvalidInput(f"the ONNX model {file} is a folder; give the .onnx file in it.")
        if not file.is_file():
            raise InvalidInput(f"the ONNX model {file} does not exist; check the path.")
        return file

    def _load(self, file: Path) -> Network:
        session = open_session(str(file))
        source = onnx_ports.image_input(session)
        output, dtype = onnx_ports.choose_output(session, self.output), onnx_ports.INPUT_TYPES[source.type]
        preprocessing, bands_first = self._preprocessing(file, source)

        def run(batch: np.ndarray) -> np.ndarray:
            if source.shape[0] == 1 and len(batch) > 1:
                return np.concatenate([run(batch[number : number + 1]) for number in range(len(batch))])
            values = batch if bands_first else np.ascontiguousarray(batch.transpose(0, 2, 3, 1))
            found = session.run([output], {source.name: values.astype(dtype, copy=False)})[0]
            return onnx_ports.to_rows(found, len(batch), self.pool, bands_first)

        black = preprocessing.apply(np.zeros((1, 1, 3), np.uint8))
        try:
            return Network(preprocessing, run, n_features=run(black[np.newaxis]).shape[1])
        except InvalidInput:
            raise
        except Exception as error:  # onnxruntime's exceptions have no common base class
            raise InvalidInput(
                f"it fails on images of {preprocessing.height} x {preprocessing.width} pixels "
                f"({first_line(error)}); if it was trained with another size, set features.onnx.size."
            ) from error

    def _preprocessing(self, file: Path, source: Any) -> tuple[Preprocessing, bool]:
        """How images are prepared for an input, and whether its bands come first."""
        from embedding_core.features.preprocessor_config import PreprocessorConfig, find_config, read_config

        place = find_config(file)
        config = read_config(place) if place else PreprocessorConfig()
        bands_first = onnx_ports.has_bands_first(source, self.layout, assumed=place is not None)
        sides = onnx_ports.image_sides(source, bands_first, self.size, config.size)
        mean, std = self.mean or config.mean, self.std or config.std
        if source.type == "tensor(uint8)":  # the model normalizes
            mean, std = (0.0,) * 3, (1 / 255,) * 3
        if mean is None or std is None:
            raise InvalidInput(
                "its normalization is unknown: no preprocessor_config.json beside it gives one. Add "
                "features.onnx.mean and features.onnx.std. Many models use [0.485, 0.456, 0.406] and "
                "[0.229, 0.224, 0.225], others [0.5, 0.5, 0.5] for both."
            )
        fit = self.fit or config.fit or "squash"
        kept = config.kept if fit == "crop" else 1.0
        interpolation = self.interpolation or config.interpolation or "bilinear"
        return Preprocessing(*sides, mean, std, fit, kept, interpolation), bands_first


def _checked_bands(name: str, given: Any) -> Bands | None:
    if given is None:
        return None
    values = tuple(given) if isinstance(given, tuple | list) else ()
    fine = len(values) == 3 and all(isinstance(value, int | float) and isfinite(value) for value in values)
    if not fine or (name == "std" and min(values) <= 0):
        raise InvalidInput(f"{name}={given!r}: give three numbers{' above 0' if name == 'std' else ''}.")
    return values[0], values[1], values[2]


@lru_cache(maxsize=16)
def _external(model: Path, digest: str) -> tuple[str, ...]:
    """Names of the files with external data. They are read again when the digest of the model changes."""
    from embedding_core.features.onnx_format import external_files

    try:
        names = external_files(model.read_bytes())
    except InvalidInput as error:
        raise InvalidInput(f"{model}: {error}.") from error
    return tuple(names)


def _beside(model: Path, name: str) -> Path:
    """A file with external data, which must lie in the folder of the model."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InvalidInput(f"{model} refers to data outside its folder ({name}); export it again.")
    if not (model.parent / name).is_file():
        raise InvalidInput(f"{model} needs the file {name} beside it, which is missing; copy it there.")
    return model.parent / name
