"""Codebooks of local descriptors: mini-batch k-means, assignment to words, spatial pyramids.

Images are read one at a time and a fixed number of descriptors is drawn from each, so memory does not grow
with the number of images. The result depends only on the images, their order and the seed: each image has its
own random numbers, and BLAS runs with one thread during a fit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from embedding_core.errors import InvalidInput
from embedding_core.features.dense_sift import N_VALUES, DenseSift
from embedding_core.features.pixels import check_between

MAX_WORDS = 2**17
MAX_LEVELS = 4
# Distances that are computed at once.
_BLOCK_VALUES = 2**20
# Fewest descriptors of a mini-batch, and fewest per word.
_LEAST_BATCH, _BATCH_PER_WORD = 4096, 20
_LLOYD_ROUNDS = 30


@dataclass(frozen=True, eq=False)
class Codebook:
    """Visual words, and how the descriptors they stand for are computed.

    Attributes
    ----------
    words : float32 array (n, 128)
        With one codebook per class, those of the first class come first.
    sift : DenseSift
        Patch, step and smoothing of the descriptors.
    n_classes : int
        Number of codebooks that are joined, all of the same size; 1 if there is one for all images.
    """

    words: np.ndarray
    sift: DenseSift = field(default_factory=DenseSift)
    n_classes: int = 1

    def __post_init__(self) -> None:
        words = np.ascontiguousarray(self.words)
        if words.dtype != np.float32 or words.ndim != 2 or words.shape[1] != N_VALUES:
            raise InvalidInput(
                f"the words are {words.dtype} {words.shape}; expected float32 with {N_VALUES} columns."
            )
        if not 1 <= len(words) <= MAX_WORDS or not np.isfinite(words).all():
            raise InvalidInput(
                f"a codebook has 1 to {MAX_WORDS} words, all finite numbers; found {len(words)} words."
            )
        if not 1 <= self.n_classes <= len(words) or len(words) % self.n_classes:
            raise InvalidInput(
                f"{len(words)} words cannot be divided among {self.n_classes} classes equally."
            )
        object.__setattr__(self, "words", words)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The codebook as arrays for `np.savez`; `from_arrays` reads them back."""
        return {
            "words": self.words,
            "sift": np.array([self.sift.patch, self.sift.step, self.sift.smoothing], np.float64),
            "n_classes": np.array(self.n_classes, np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Codebook":
        """Build a codebook from the arrays of `to_arrays`; raises InvalidInput for other arrays."""
        missing = [name for name in ("words", "sift", "n_classes") if name not in arrays]
        if missing:
            raise InvalidInput(
                f"the codebook lacks {', '.join(missing)}; write it with np.savez(file, "
                "**codebook.to_arrays())."
            )
        try:
            patch, step, smoothing = (float(value) for value in np.asarray(arrays["sift"]).reshape(3))
            sift, n_classes = DenseSift(int(patch), int(step), smoothing), int(arrays["n_classes"])
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"the codebook is damaged ({error}); write it again.") from error
        return cls(np.asarray(arrays["words"]), sift, n_classes)

    def part(self, number: int) -> "Codebook":
        """The codebook of one class."""
        size = len(self.words) // self.n_classes
        return Codebook(self.words[number * size : (number + 1) * size], self.sift)

    def assign(self, descriptors: np.ndarray) -> np.ndarray:
        """Return the number of the nearest word of each descriptor (m, 128); the first one on ties."""
        return nearest_words(descriptors, self.words)

    def histogram(self, gray: np.ndarray, levels: int = 0) -> np.ndarray:
        """Return the spatial pyramid of words of an image, float32 (n_cells(levels) · n words,).

        Parameters
        ----------
        gray : uint8 array (height, width)
        levels : int
            The last level L of the pyramid; 0 is a plain bag of words. See `pyramid_histogram`.
        """
        found = self.sift.describe(gray)
        return pyramid_histogram(self.assign(found.values), found.centers, len(self.words), levels)


def nearest_words(descriptors: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return the row of `words` nearest to each descriptor, int64 (m,), one block of distances at a time."""
    lengths = np.einsum("ij,ij->i", words, words)
    nearest = np.empty(len(descriptors), np.int64)
    size = max(1, _BLOCK_VALUES // len(words))
    for start in range(0, len(descriptors), size):
        block = slice(start, start + size)
        # |x - w|² without |x|², which is the same for all words
        distances = descriptors[block] @ (-2 * words.T)
        distances += lengths
        nearest[block] = distances.argmin(axis=1)
    return nearest


def n_cells(levels: int) -> int:
    """Number of cells of the levels 0 ... L of a pyramid."""
    return sum(4**level for level in range(levels + 1))


def level_weight(level: int, levels: int) -> float:
    """Weight of a level of the pyramid match kernel: 1/2^L for level 0, else 1/2^(L - level + 1)."""
    return 2.0**-levels if level == 0 else 2.0 ** (level - levels - 1)


def pyramid_histogram(words: np.ndarray, centers: np.ndarray, n_words: int, levels: int) -> np.ndarray:
    """Return the weighted histograms of a spatial pyramid [1]_.

    Parameters
    ----------
    words : int array (m,)
        The word of each descriptor.
    centers : float array (m, 2)
        Row and column of each descriptor as fractions of the image.
    n_words : int
    levels : int
        L. Level l divides the image into 2^l x 2^l cells.

    Returns
    -------
    float32 array (n_cells(levels) · n_words,)
        Ordered by level, cell row, cell column and word.

    Notes
    -----
    Each level sums to its weight, and all together to 1: with L = 2 the weights are 1/4, 1/4 and 1/2. The
    intersection kernel of two such rows is the pyramid match kernel, Eq. 3 of [1]_.

    References
    ----------
    .. [1] S. Lazebnik, C. Schmid, J. Ponce, "Beyond Bags of Features", CVPR 2006.
    """
    parts = []
    for level in range(levels + 1):
        side = 2**level
        cells = np.minimum((np.asarray(centers) * side).astype(np.int64), side - 1)
        bins = (cells[:, 0] * side + cells[:, 1]) * n_words + words
        counts = np.bincount(bins, minlength=side * side * n_words)
        parts.append(counts * (level_weight(level, levels) / max(len(words), 1)))
    return np.concatenate(parts).astype(np.float32)


class WordLearner:
    """k-means of a stream of descriptors by mini-batches [1]_.

    The first batch is clustered alone: words are drawn by k-means++ and moved by Lloyd's iterations until no
    descriptor changes its word (30 rounds at most). Fewer descriptors than a batch are thus clustered by
    plain k-means. Each later batch moves every word towards the mean of its new descriptors, by their share
    of all descriptors that the word has had.

    Parameters
    ----------
    n_words : int
    rng : numpy.random.Generator
        Draws the first words.

    References
    ----------
    .. [1] D. Sculley, "Web-Scale K-Means Clustering", WWW 2010.
    """

    def __init__(self, n_words: int, rng: np.random.Generator) -> None:
        self._n_words, self._rng = n_words, rng
        self._size = max(_LEAST_BATCH, _BATCH_PER_WORD * n_words)
        self._waiting: list[np.ndarray] = []
        self._n_waiting = 0
        self._words: np.ndarray | None = None
        self._counts = np.zeros(n_words)

    def add(self, descriptors: np.ndarray) -> None:
        """Take further descriptors; a full batch is learned at once."""
        self._waiting.append(descriptors)
        self._n_waiting += len(descriptors)
        while self._n_waiting >= self._size:
            waiting = np.concatenate(self._waiting)
            self._learn(waiting[: self._size])
            self._waiting, self._n_waiting = [waiting[self._size :]], len(waiting) - self._size

    def finish(self, what: str) -> np.ndarray:
        """Learn what is left and return the words, float32 (n_words, 128)."""
        if self._words is None and self._n_waiting < self._n_words:
            raise InvalidInput(
                f"{what} gives {self._n_waiting} descriptors for {self._n_words} words; lower n_words, raise "
                "sample, or add images."
            )
        if self._n_waiting:
            self._learn(np.concatenate(self._waiting))
        self._waiting, self._n_waiting = [], 0
        assert self._words is not None
        return self._words.astype(np.float32)

    def _learn(self, batch: np.ndarray) -> None:
        with threadpool_limits(1, user_api="blas"):
            if self._words is None:
                self._words = first_words(batch, self._n_words, self._rng)
                self._counts = lloyd(batch, self._words)
                return
            sums, counts = _word_sums(
                batch, nearest_words(batch, self._words.astype(np.float32)), self._n_words
            )
        self._counts += counts
        hit = counts > 0
        self._words[hit] += (sums[hit] - counts[hit, np.newaxis] * self._words[hit]) / self._counts[
            hit, np.newaxis
        ]


def first_words(batch: np.ndarray, n_words: int, rng: np.random.Generator) -> np.ndarray:
    """Draw words among descriptors by k-means++, float64 (n_words, 128).

    Each further word is drawn with probability proportional to the squared distance from the nearest one so
    far. If only equal descriptors remain, the following ones are taken in their order.
    """
    words = np.empty((n_words, batch.shape[1]))
    words[0] = batch[rng.integers(len(batch))]
    nearest = ((batch - words[0]) ** 2).sum(axis=1)
    for number in range(1, n_words):
        reach = np.cumsum(nearest, dtype=np.float64)
        chosen = (
            int(np.searchsorted(reach, rng.random() * reach[-1], side="right")) if reach[-1] > 0 else number
        )
        words[number] = batch[min(chosen, len(batch) - 1)]
        np.minimum(nearest, ((batch - words[number]) ** 2).sum(axis=1), out=nearest)
    return words


def lloyd(batch: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Move words to the means of their descriptors, in place, and return how many each has.

    A word that loses its last descriptor stays where it is.
    """
    before = np.full(len(batch), -1)
    counts = np.zeros(len(words))
    for _ in range(_LLOYD_ROUNDS):
        found = nearest_words(batch, words.astype(np.float32))
        if (found == before).all():
            break
        sums, counts = _word_sums(batch, found, len(words))
        hit = counts > 0
        words[hit] = sums[hit] / counts[hit, np.newaxis]
        before = found
    return counts


def _word_sums(batch: np.ndarray, found: np.ndarray, n_words: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums (n_words, 128) and numbers (n_words,) of the descriptors of each word, added in their order."""
    import scipy.sparse as sp

    entries = (np.ones(len(batch)), (found, np.arange(len(batch))))
    choice = sp.csr_array(entries, shape=(n_words, len(batch)))
    sums: np.ndarray = choice @ batch.astype(np.float64)
    return sums, np.bincount(found, minlength=n_words).astype(np.float64)


def fit_codebook(
    images: Iterable[bytes | np.ndarray],
    classes: Iterable[Sequence[int]] | None = None,
    *,
    n_words: int = 200,
    sift: DenseSift | None = None,
    sample: int = 200,
    seed: int = 0,
) -> Codebook:
    """Learn a codebook from images, read once and in order.

    Parameters
    ----------
    images : iterable of bytes or uint8 array (height, width, 3)
        Image files or their pixels. Pass training images only.
    classes : iterable of sequences of int, optional
        The classes 0, 1, ... of each image. With them, each class gets a codebook of its own from its images,
        and these are joined; an image of several classes counts for each, one without classes for none.
    n_words : int
        Words, per class if `classes` are given.
    sift : DenseSift, optional
    sample : int
        Descriptors drawn at random from each image; all if it has fewer.
    seed : int

    Returns
    -------
    Codebook

    Raises
    ------
    UnreadableItem
        An image cannot be decoded.
    InvalidInput
        There are fewer descriptors than words.
    """
    check_between("n_words", n_words, 1, MAX_WORDS)
    check_between("sample", sample, 1, 10**6)
    sift = DenseSift() if sift is None else sift
    learners: dict[int, WordLearner] = {}
    groups: Iterable[Sequence[int]] = _endless_zero() if classes is None else classes
    for number, (image, group) in enumerate(zip(images, groups, strict=False)):
        if not len(group):
            continue
        drawn = _draw_descriptors(image, sift, sample, np.random.default_rng([seed, number]))
        for one in group:
            if one not in learners:
                learners[one] = WordLearner(n_words, np.random.default_rng([seed, int(one), 2**32]))
            learners[one].add(drawn)
    if not learners:
        raise InvalidInput("there are no images to learn a codebook from; give some, with classes if asked.")
    missing = [number for number in range(max(learners) + 1) if number not in learners]
    if missing:
        raise InvalidInput(f"class {missing[0]} has no image to learn its words from; leave it out.")
    parts = []
    for one in sorted(learners):
        what = "the collection" if classes is None else f"class {one}"
        parts.append(learners[one].finish(what))
    return Codebook(np.concatenate(parts), sift, len(parts))


def _endless_zero() -> Iterable[Sequence[int]]:
    while True:
        yield (0,)


def _draw_descriptors(
    image: bytes | np.ndarray, sift: DenseSift, sample: int, rng: np.random.Generator
) -> np.ndarray:
    from embedding_core.features.gray import gray_pixels
    from embedding_core.features.images import decode_image, shared_buffer

    pixels = image if isinstance(image, np.ndarray) else decode_image(image, buffer=shared_buffer)
    values = sift.describe(gray_pixels(pixels)).values
    if len(values) <= sample:
        return values
    return values[np.sort(rng.choice(len(values), sample, replace=False))]
