"""The contract of feature extractors: one row of numbers per item."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class FeatureExtractor(Protocol):
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
    terms : {"none", "tfidf"}, optional
        "tfidf" if rows are sparse counts of terms, which methods weigh on their training rows; see
        `FeatureBlock`.
    """

    name: ClassVar[str]
    reads: ClassVar[str]
    argument: ClassVar[str | None]

    @property
    def n_features(self) -> int:
        """Length of a row."""
        ...

    def feature_names(self) -> list[str] | None:
        """Names of the features in the order of a row; None if they have none."""
        ...

    def extract_bytes(self, data: bytes) -> "np.ndarray | csr_array":
        """Return a float32 row for the bytes of one file; raise `UnreadableImage` with a reason.

        Counts of terms are a CSR array with one row, other features a one-dimensional array.
        """
        ...

    def file_digests(self) -> dict[str, str]:
        """Digests of the files, other than code, that the rows depend on; part of the stage's key."""
        ...

    def warm_up(self, n_items: int) -> None:
        """Load or compile what `n_items` calls of `extract_bytes` need."""
        ...


class ImageExtractor(ABC):
    """Base class of extractors that work on RGB pixels."""

    name: ClassVar[str]
    reads: ClassVar[str] = "images"
    argument: ClassVar[str | None] = None

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Length of a row."""

    @abstractmethod
    def extract(self, rgb: np.ndarray) -> np.ndarray:
        """Return the float32 row of a uint8 array (height, width, 3)."""

    def feature_names(self) -> list[str]:
        """Names of the features in the order of a row."""
        return [f"{self.name}_{number}" for number in range(self.n_features)]

    def extract_bytes(self, data: bytes) -> np.ndarray:
        """Decode an image file and extract its features; raises `UnreadableImage` with a reason."""
        # Decoders load only when an image is read: the configuration needs the parameters alone.
        from embedding_core.features.images import decode_image, shared_buffer

        return self.extract(decode_image(data, buffer=shared_buffer))

    def file_digests(self) -> dict[str, str]:
        """Digests of the files, other than code, that the rows depend on; by default none."""
        return {}

    def warm_up(self, n_items: int) -> None:  # noqa: B027, optional
        """Load or compile what `n_items` images need; by default nothing."""
