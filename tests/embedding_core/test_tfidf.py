"""Hashed term counts, and TF-IDF that is learned on training rows only."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from embedding_core.annotator import Annotator
from embedding_core.blocks import FeatureBlock
from embedding_core.errors import InvalidInput, UnreadableItem
from embedding_core.evaluation import predict_fold
from embedding_core.features.tfidf import Tfidf
from embedding_core.preprocessing import Preprocessor

TEXTS = [
    "Der Ball ist rund, the ball is round.",
    "A round of golf: golf balls and clubs",
    "Simmer the onions, then add the stock",
    "Stock prices fell; onions did not",
    "Œuvre, naïve café 東京 東京 x y z",
    "golf golf golf stock",
]


def count(texts: list[str], **parameters: int) -> sp.csr_array:
    extractor = Tfidf(**parameters)
    return sp.vstack([extractor.extract_bytes(text.encode()) for text in texts], format="csr")


def prepare(counts: sp.csr_array, fitted_on: slice) -> sp.csr_array:
    block = FeatureBlock("tfidf", counts.shape[1], terms="tfidf").to_json()
    return Preprocessor([block]).fit(counts[fitted_on]).transform(counts)


@pytest.mark.parametrize("ngrams", [1, 2])
def test_counts_are_those_of_scikit_learn_up_to_the_order_of_columns(ngrams: int) -> None:
    made = count(TEXTS, ngrams=ngrams)
    literal = CountVectorizer(ngram_range=(1, ngrams)).fit_transform(TEXTS)
    assert made.shape == (len(TEXTS), 2**20)
    occupied = np.unique(made.indices)
    ours = made[:, occupied].toarray().astype(int)
    assert sorted(map(tuple, ours.T)) == sorted(map(tuple, literal.toarray().T))


@pytest.mark.parametrize("ngrams", [1, 2])
def test_rows_of_a_fold_are_those_of_a_vectorizer_fitted_on_its_training_texts(ngrams: int) -> None:
    train = slice(0, 4)
    made = prepare(count(TEXTS, ngrams=ngrams), train)
    literal = TfidfVectorizer(ngram_range=(1, ngrams)).fit(TEXTS[train])
    rows = literal.transform(TEXTS)
    assert made.shape[1] == len(literal.vocabulary_), "only terms of the training texts have columns"
    # Columns have another order: inner products of all rows determine them.
    assert_allclose((made @ made.T).toarray(), (rows @ rows.T).toarray(), atol=1e-6)


def test_test_texts_do_not_change_the_training_rows() -> None:
    other = [*TEXTS[:4], "the the the ball", "onions onions completely new words"]
    first, second = (prepare(count(texts), slice(0, 4)) for texts in (TEXTS, other))
    assert_array_equal(first[:4].toarray(), second[:4].toarray())
    leaked = prepare(count(TEXTS), slice(0, 6))
    assert leaked.shape != first.shape, "this test would not notice a leak"


def test_a_fold_scores_a_text_the_same_whatever_else_is_tested() -> None:
    def score(last: str) -> np.ndarray:
        counts = count([*TEXTS[:4], "golf stock round", last])
        block = FeatureBlock("tfidf", counts.shape[1], terms="tfidf").to_json()
        Y = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 0], [0, 1]], dtype=np.int8)
        (found,) = predict_fold("mlls", {}, counts, Y, range(4), [4, 5], blocks=[block])
        model = Annotator("mlls", blocks=[block]).fit(counts[:4], Y[:4])
        assert_array_equal(found.scores, model.predict_scores(counts[4:]))
        return found.scores[0]

    first, second = score("golf golf round ball"), score("stock stock prices 東京")
    assert_array_equal(first, second)
    assert 0 < first[0] < 1, "scores without decimals would hide a leak"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no words"),
        (b" \n\t.,;!", "no words"),
        (b"a b c", "no words"),
        ("gr\u00fc\u00dfe".encode("latin-1"), r"not UTF-8 text \(byte 2 is 0xfc\); save it as UTF-8"),
        ("text".encode("utf-16"), "not UTF-8"),
    ],
)
def test_texts_without_terms_are_unreadable(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableItem, match=reason):
        Tfidf().extract_bytes(data)


def test_a_byte_order_mark_is_not_part_of_the_first_word() -> None:
    plain, marked = (Tfidf().extract_bytes(mark + b"golf") for mark in (b"", b"\xef\xbb\xbf"))
    assert_array_equal(plain.indices, marked.indices)


@pytest.mark.parametrize("given", [{"ngrams": 0}, {"ngrams": 6}, {"hash_bits": 7}, {"hash_bits": 25}])
def test_parameters_have_bounds(given: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match=f"tfidf: {next(iter(given))}="):
        Tfidf(**given)
