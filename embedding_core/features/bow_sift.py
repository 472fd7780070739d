"""Bags of visual words: how often each word of a codebook occurs in an image, and where."""

import io
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from embedding_core.errors import InvalidInput
from embedding_core.features.base import ImageExtractor
from embedding_core.features.codebook import MAX_LEVELS, MAX_WORDS, Codebook, fit_codebook, n_cells
from embedding_core.features.dense_sift import DenseSift
from embedding_core.features.model_files import digest_file
from embedding_core.features.pixels import check_between

# Larger than any codebook: MAX_WORDS words take 67 MB.
MAX_CODEBOOK_BYTES = 128 * 2**20


class PyramidExtractor(ImageExtractor):
    """Base class of the extractors that count the words of a codebook."""

    levels: int

    @property
    def words(self) -> Codebook:
        """The codebook; raises InvalidInput if there is none."""
        raise NotImplementedError

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return len(self.words.words) * n_cells(self.levels)

    def feature_names(self) -> list[str]:
        """Names such as `level1_0_1_word7`: level, cell row, cell column, word."""
        return [
            f"level{level}_{row}_{column}_word{word}"
            for level in range(self.levels + 1)
            for row in range(2**level)
            for column in range(2**level)
            for word in range(len(self.words.words))
        ]

    def extract(self, rgb: np.ndarray) -> np.ndarray:
        """Return the float32 row of a uint8 array (height, width, 3)."""
        from embedding_core.features.gray import gray_pixels

        return self.words.histogram(gray_pixels(rgb), self.levels)

    def warm_up(self, n_items: int) -> None:
        """Load the codebook and the compiled kernels before several threads need them."""
        if n_items:
            import embedding_core.features.gray
            import embedding_core.features.sift_kernels  # noqa: F401

            _ = self.words


@dataclass(frozen=True)
class BowSift(PyramidExtractor):
    """Spatial pyramid of visual words: dense SIFT descriptors assigned to the words of a codebook [1]_.

    Parameters
    ----------
    codebook : str, optional
        A codebook file (.npz). Without one, a codebook is learned from training images (`fit_codebook`) and
        `fitted` returns the extractor that uses it.
    n_words : int, default 200
        Words of a learned codebook, per class with `per_class`; ignored with a file.
    per_class : bool, default False
        Learn one codebook for each class and join them [2]_; ignored with a file.
    levels : int, default 2
        Last level of the pyramid; 0 counts words in the whole image only.
    patch, step, smoothing
        See `DenseSift`; with a file, those of the codebook are used.
    sample : int, default 200
        Descriptors drawn from each image to learn a codebook.
    seed : int, default 0
        Draws descriptors and first words.

    Notes
    -----
    A row sums to 1; it has words · (4^(levels + 1) - 1) / 3 values: 200 words and 2 levels give 4200. Use it
    unscaled with the intersection kernel, which then is the pyramid match kernel of [1]_, Eq. 3.

    References
    ----------
    .. [1] S. Lazebnik, C. Schmid, J. Ponce, "Beyond Bags of Features: Spatial Pyramid Matching for
       Recognizing Natural Scene Categories", CVPR 2006.
    .. [2] W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui, "Semantic Concept Classification by Joint
       Semi-supervised Learning of Feature Subspaces and Support Vector Machines", ECCV 2008, section 4.3: 50
       words per category from 5 images, 2 levels.
    """

    name: ClassVar[str] = "bow_sift"
    argument: ClassVar[str] = "codebook"

    codebook: str | None = field(
        default=None,
        metadata={"description": "a codebook file, also given as bow_sift:PATH; default: learn one"},
    )
    n_words: int = field(default=200, metadata={"description": "words to learn, per class with per_class"})
    per_class: bool = field(
        default=False, metadata={"description": "learn one codebook for each class and join them"}
    )
    levels: int = field(
        default=2, metadata={"description": f"last level of the spatial pyramid, from 0 to {MAX_LEVELS}"}
    )
    patch: int = field(default=16, metadata={"description": "side of a patch in pixels, a multiple of 4"})
    step: int = field(default=8, metadata={"description": "pixels between neighboring patches"})
    smoothing: float = field(
        default=0.8, metadata={"description": "Gaussian smoothing before gradients, in pixels; 0: none"}
    )
    sample: int = field(
        default=200, metadata={"description": "descriptors drawn from each image to learn words"}
    )
    seed: int = field(default=0, metadata={"description": "seed of the draws"})

    def __post_init__(self) -> None:
        check_between("n_words", self.n_words, 1, MAX_WORDS)
        check_between("levels", self.levels, 0, MAX_LEVELS)
        check_between("sample", self.sample, 1, 10**6)
        check_between("seed", self.seed, 0, 2**32 - 1)
        _ = self.sift

    @property
    def sift(self) -> DenseSift:
        """The descriptors that a codebook is learned from."""
        return DenseSift(self.patch, self.step, self.smoothing)

    @property
    def words(self) -> Codebook:
        """The codebook of the file, read once per process."""
        if self.codebook is None:
            raise InvalidInput(
                "bow_sift has no codebook yet: learn one from training images with fit_codebook, or name a "
                "file: bow_sift:CODEBOOK.npz."
            )
        return _read_once(self.codebook, digest_file(Path(self.codebook)))

    @property
    def learns(self) -> bool:
        """Whether a codebook must be learned, because no file is named."""
        return self.codebook is None

    @property
    def learns_from_labels(self) -> bool:
        """Whether each class gets a codebook of its own."""
        return self.per_class

    def learn(
        self, contents: Iterable[bytes], classes: Iterable[Sequence[int]] | None = None
    ) -> dict[str, np.ndarray]:
        """Learn a codebook from image files.

        Parameters
        ----------
        contents : iterable of bytes
            Unreadable images are skipped, without `classes`.
        classes : iterable of sequences of int, optional
            The classes of each image for `per_class`; each then gets a codebook of its own.
        """
        if self.per_class and classes is None:
            raise InvalidInput("bow_sift with per_class=True learns from labeled images; pass their classes.")
        images: Iterable[bytes | np.ndarray] = contents if self.per_class else _readable(contents)
        groups = classes if self.per_class else None
        found = fit_codebook(
            images, groups, n_words=self.n_words, sift=self.sift, sample=self.sample, seed=self.seed
        )
        return found.to_arrays()

    def with_learned(self, arrays: Mapping[str, np.ndarray]) -> "FittedBowSift":
        """Return the extractor that uses a learned codebook."""
        return self.fitted(Codebook.from_arrays(arrays))

    def fitted(self, codebook: Codebook) -> "FittedBowSift":
        """The same extractor with a codebook in memory."""
        return FittedBowSift(codebook, self.levels)

    def file_digests(self) -> dict[str, str]:
        """Digest of the codebook file."""
        if self.codebook is None:
            return {}
        path = Path(self.codebook)
        return {path.name: digest_file(path)}


@dataclass(frozen=True)
class FittedBowSift(PyramidExtractor):
    """`BowSift` with a codebook in memory, for instance one that a stage has learned."""

    name: ClassVar[str] = "bow_sift"

    book: Codebook
    levels: int = 2

    @property
    def words(self) -> Codebook:
        """The codebook."""
        return self.book


def _readable(files: Iterable[bytes]) -> Iterator[np.ndarray]:
    """The pixels of the images that can be decoded."""
    from embedding_core.features.images import UnreadableImage, decode_image

    for data in files:
        try:
            yield decode_image(data)
        except UnreadableImage:
            continue


@lru_cache(maxsize=4)
def _read_once(path: str, digest: str) -> Codebook:
    """The codebook of a file, read again when its content has changed."""
    return read_codebook(Path(path))


def read_codebook(path: Path) -> Codebook:
    """Read a codebook from a .npz file that holds `Codebook.to_arrays`; nothing is unpickled.

    Raises
    ------
    InvalidInput
        The file is missing, too large, or not a codebook.
    """
    advice = "write it with np.savez(file, **codebook.to_arrays())"
    try:
        if not path.is_file() or path.stat().st_size > MAX_CODEBOOK_BYTES:
            raise InvalidInput(
                f"{path} is not a codebook: expected a regular file of at most {MAX_CODEBOOK_BYTES} bytes; "
                f"{advice}."
            )
        data = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(_claimed_bytes(archive, entry) for entry in archive.infolist())
        if size > MAX_CODEBOOK_BYTES:
            raise InvalidInput(f"{path} unpacks to {size} bytes (limit {MAX_CODEBOOK_BYTES}); {advice}.")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return Codebook.from_arrays({name: arrays[name] for name in arrays.files})
    except InvalidInput:
        raise
    except (OSError, ValueError, zipfile.BadZipFile, KeyError, EOFError, NotImplementedError) as error:
        raise InvalidInput(f"{path} is not a codebook ({str(error)[:160]}); {advice}.") from error


def _claimed_bytes(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """Bytes that loading an entry takes, according to the archive and to the header of the array."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
    return max(entry.file_size, math.prod(shape) * dtype.itemsize)
