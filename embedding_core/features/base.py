"""The contract of feature extractors: one row of numbers per item."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from embedding_core.blocks import Terms

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class FeatureExtractor(ABC):
    """Computes one feature row from the bytes of one item.

    An extractor is a frozen dataclass. Its fields are its parameters: they carry types, defaults and, in
    `metadata["description"]`, a sentence for the configuration. `__post_init__` validates them. Two equal
    extractors compute equal rows. `extract_bytes` is called from several threads at once.

    Attributes
    ----------
    name : str
        Name in the registry and in the configuration.
    reads : str
        Content of the sources that it accepts: "images", "sound" or "text".
    argument : str or None
        The parameter that `name:value` sets, see `parse_choice`.
    terms : {"none", "tfidf"}
        "tfidf" if rows are sparse counts of terms, which methods weigh on their training rows; see
        `FeatureBlock`.
    """

    name: ClassVar[str]
    reads: ClassVar[str]
    argument: ClassVar[str | None] = None
    terms: ClassVar[Terms] = "none"

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Length of a row."""

    @abstractmethod
    def extract_bytes(self, data: bytes) -> "np.ndarray | csr_array":
        """Return a float32 row for the bytes of one file; raise `UnreadableItem` with a reason.

        Counts of terms are a CSR array with one row, other features a one-dimensional array.
        """

    def feature_names(self) -> list[str] | None:
        """Names of the features in the order of a row; None if they have none."""
        return [f"{self.name}_{number}" for number in range(self.n_features)]

    @property
    def alternatives(self) -> int:
        """Number of alternatives of equal width in a row, of which a method keeps one; see `FeatureBlock`."""
        return 1

    @property
    def alternative_names(self) -> tuple[str, ...]:
        """Names of the alternatives; empty if there is only one."""
        return ()

    @property
    def learns(self) -> bool:
        """Whether the extractor must learn from training items before it can extract."""
        return False

    @property
    def learns_from_labels(self) -> bool:
        """Whether learning needs labels. The pipeline then refuses it: folds could not be kept apart."""
        return False

    def learn(self, contents: Iterable[bytes]) -> dict[str, np.ndarray]:
        """Learn from the files of training items; unreadable ones are skipped."""
        raise TypeError(f"the extractor {self.name} does not learn.")

    def with_learned(self, arrays: Mapping[str, np.ndarray]) -> "FeatureExtractor":
        """Return the extractor that uses what `learn` returned."""
        raise TypeError(f"the extractor {self.name} does not learn.")

    def file_digests(self) -> dict[str, str]:
        """Digests of the files, other than code, that the rows depend on; part of the stage's key."""
        return {}

    def warm_up(self, n_items: int) -> None:  # noqa: B027, optional
        """Load or compile what `n_items` calls of `extract_bytes` need; by default nothing."""


class ImageExtractor(FeatureExtractor):
    """Base class of extractors that work on RGB pixels."""

    reads: ClassVar[str] = "images"

    @abstractmethod
    def extract(self, rgb: np.ndarray) -> np.ndarray:
        """Return the float32 row of a uint8 array (height, width, 3)."""

    def extract_bytes(self, data: bytes) -> np.ndarray:
        """Decode an image file and extract its features; raises `UnreadableImage` with a reason."""
        # Decoders load only when an image is read: the configuration needs the parameters alone.
        from embedding_core.features.images import decode_image, shared_buffer

        return self.extract(decode_image(data, buffer=shared_buffer))
