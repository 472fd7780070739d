"""Term counts of texts, hashed to columns: the stateless half of TF-IDF.

Document frequencies and the vocabulary are learned on the training rows of each fold by
`embedding_core.preprocessing.Preprocessor`, from the counts that this extractor computes.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from embedding_core.blocks import Terms
from embedding_core.errors import InvalidInput, UnreadableItem
from embedding_core.features.base import FeatureExtractor

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LONGEST_NGRAM = 5
# Fewer columns make most terms collide; scikit-learn's hash has 31 usable bits.
_FEWEST_BITS, _MOST_BITS = 8, 24


@dataclass(frozen=True)
class Tfidf(FeatureExtractor):
    """Counts of the words and n-grams of a text, in a sparse row.

    A word has two or more letters, digits or underscores of any script, in lower case, as in scikit-learn's
    `TfidfVectorizer`. A text without any word has no features.

    Parameters
    ----------
    ngrams : int
        Longest sequence of words that is counted as a term; 1 counts single words.
    hash_bits : int
        Terms are hashed to 2^hash_bits columns. Two terms in one column are counted together: with 20 bits
        and 50,000 terms, this concerns one term in twenty.

    Notes
    -----
    Hashing needs no vocabulary, so a row depends on its own text only and a changed text changes one row.

    Examples
    --------
    >>> row = Tfidf().extract_bytes(b"To be, or not to be")
    >>> row.shape, sorted(row.data.tolist())
    ((1, 1048576), [1.0, 1.0, 2.0, 2.0])
    """

    name: ClassVar[str] = "tfidf"
    reads: ClassVar[str] = "text"
    terms: ClassVar[Terms] = "tfidf"

    ngrams: int = field(default=1, metadata={"description": "longest sequence of words that is one term"})
    hash_bits: int = field(default=20, metadata={"description": "terms are hashed to 2^hash_bits columns"})

    def __post_init__(self) -> None:
        for what, value, least, most in (
            ("ngrams", self.ngrams, 1, LONGEST_NGRAM),
            ("hash_bits", self.hash_bits, _FEWEST_BITS, _MOST_BITS),
        ):
            if not least <= value <= most:
                raise InvalidInput(f"tfidf: {what}={value}; expected {least} to {most}.")

    @property
    def n_features(self) -> int:
        """Length of a row."""
        return int(2**self.hash_bits)

    def feature_names(self) -> None:
        """Columns of hashed terms have no names."""

    def extract_bytes(self, data: bytes) -> "csr_array":
        """Return the counts (1, n_features) of the terms of a UTF-8 text; raise `UnreadableItem`."""
        from scipy.sparse import csr_array

        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            found = f"byte {error.start} is {data[error.start]:#04x}"
            raise UnreadableItem(f"not UTF-8 text ({found}); save it as UTF-8") from error
        counts = csr_array(self._counter.transform([text]))
        if not counts.nnz:
            raise UnreadableItem("the text contains no words")
        return counts

    @cached_property
    def _counter(self) -> Any:
        import numpy as np
        from sklearn.feature_extraction.text import HashingVectorizer

        return HashingVectorizer(
            n_features=self.n_features,
            ngram_range=(1, self.ngrams),
            norm=None,
            alternate_sign=False,
            dtype=np.float32,
        )

    def warm_up(self, n_items: int) -> None:
        """Build the counter before threads share it."""
        _ = self._counter
