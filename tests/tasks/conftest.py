"""Further extractors for tests of several stages."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import embedding_core
from embedding_core.features import registry
from storage.artifacts import fingerprint

MODULE = """
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from embedding_core.features.base import ImageExtractor


@dataclass(frozen=True)
class Probe(ImageExtractor):
    name: ClassVar[str] = "probe"
    factor: float = field(default=1.0, metadata={"description": "factor of the mean"})

    @property
    def n_features(self) -> int:
        return 1

    def extract(self, rgb: np.ndarray) -> np.ndarray:
        return np.array([self.factor * rgb.%s()], dtype=np.float32)
"""


SOUND_MODULE = """
import io
import wave
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from embedding_core.features.base import FeatureExtractor
from embedding_core.features.images import UnreadableImage


@dataclass(frozen=True)
class Loudness(FeatureExtractor):
    name: ClassVar[str] = "mfcc"
    reads: ClassVar[str] = "sound"
    factor: float = field(default=1.0, metadata={"description": "factor of the loudness"})

    @property
    def n_features(self) -> int:
        return 2

    def feature_names(self) -> list[str]:
        return ["loudness", "crossings"]

    def extract_bytes(self, data: bytes) -> np.ndarray:
        try:
            with wave.open(io.BytesIO(data)) as file:
                samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(float)
        except (wave.Error, EOFError) as error:
            raise UnreadableImage(f"not a WAV file ({error})") from error
        if not samples.any():
            raise UnreadableImage("the sound is silent")
        crossings = np.mean(np.diff(np.signbit(samples)))
        return np.array([self.factor * %s(np.abs(samples)), crossings], dtype=np.float32)
"""


Write = Callable[[str], None]


@contextmanager
def registered(name: str, kind: str, module: str, folder: Path) -> Iterator[Write]:
    """Register an extractor of a module outside the tree; each call writes the module with a statistic."""
    folder.mkdir()
    short = kind.lower()
    embedding_core.__path__.append(str(folder))

    def forget() -> None:
        sys.modules.pop(f"embedding_core.{short}", None)
        fingerprint.forget()

    def write(statistic: str) -> None:
        (folder / f"{short}.py").write_text(module % statistic, encoding="utf-8")
        forget()

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.EXTRACTORS, name, f"embedding_core.{short}.{kind}")
        yield write
    embedding_core.__path__.remove(str(folder))
    forget()


@pytest.fixture
def write_probe(tmp_path: Path) -> Iterator[Write]:
    """Register the extractor `probe` of images; each call rewrites its mathematics."""
    with registered("probe", "Probe", MODULE, tmp_path / "more_modules") as write:
        yield write


@pytest.fixture
def write_loudness(tmp_path: Path) -> Iterator[Write]:
    """Register a small extractor of sound as `mfcc`; each call rewrites its mathematics."""
    with registered("mfcc", "Loudness", SOUND_MODULE, tmp_path / "sound_modules") as write:
        yield write
