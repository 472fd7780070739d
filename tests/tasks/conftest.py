"""A second extractor for tests of several stages."""

import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture
def write_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Register the extractor `probe` of a module outside the tree; each call rewrites its mathematics."""
    folder = tmp_path / "more_modules"
    folder.mkdir()
    monkeypatch.setitem(registry.EXTRACTORS, "probe", "embedding_core.probe.Probe")
    embedding_core.__path__.append(str(folder))

    def forget() -> None:
        sys.modules.pop("embedding_core.probe", None)
        fingerprint.forget()

    def write(statistic: str) -> None:
        (folder / "probe.py").write_text(MODULE % statistic, encoding="utf-8")
        forget()

    yield write
    embedding_core.__path__.remove(str(folder))
    forget()
