"""Alternatives of a block: exact leave-one-out errors, and a choice that looks at training labels only."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from embedding_core.alternatives import MAX_ROWS, PENALTIES, choose_alternative, leave_one_out_error
from embedding_core.annotator import Annotator
from embedding_core.blocks import FeatureBlock
from embedding_core.errors import InvalidInput
from embedding_core.features.color_moments import ColorMoments
from embedding_core.preprocessing import Preprocessor

RNG = np.random.default_rng(5)


def literal_error(X: np.ndarray, Y: np.ndarray, penalty: float) -> float:
    """Leave each row out in turn and predict it."""
    d = cdist(X, X, "sqeuclidean")
    K = 1 + np.exp(-d / d[np.triu_indices(len(X), 1)].mean())
    errors = []
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i)
        weights = np.linalg.solve(K[np.ix_(rest, rest)] + penalty * np.eye(len(rest)), Y[rest])
        errors.append((Y[i] - K[i, rest] @ weights) ** 2)
    return float(np.mean(errors))


def test_leave_one_out_error_agrees_with_leaving_each_row_out() -> None:
    X, Y = RNG.normal(size=(25, 4)), (RNG.random((25, 3)) < 0.4).astype(np.int8)
    expected = min(literal_error(X, Y, penalty) for penalty in PENALTIES)
    assert leave_one_out_error(X, Y) == pytest.approx(expected, rel=1e-9)


def telling(n: int = 60) -> tuple[list[np.ndarray], np.ndarray]:
    """Three alternatives of which only the second one tells the labels."""
    Y = (RNG.random((n, 2)) < 0.5).astype(np.int8)
    return [RNG.normal(size=(n, 2)), Y + RNG.normal(0, 0.2, (n, 2)), RNG.normal(size=(n, 2))], Y


def test_the_telling_alternative_is_chosen_and_unlabeled_rows_have_no_say() -> None:
    parts, Y = telling()
    assert choose_alternative(parts, Y) == 1
    misleading = [part.copy() for part in parts]
    misleading[0][40:] = 9.0
    Y[40:] = -1
    assert choose_alternative(misleading, Y) == choose_alternative([part[:40] for part in parts], Y[:40]) == 1
    assert choose_alternative(parts, np.full_like(Y, -1)) == 0


@pytest.mark.slow
def test_many_rows_are_sampled_evenly() -> None:
    n = 2 * MAX_ROWS
    Y = np.tile(np.array([[0], [1]], dtype=np.int8), (MAX_ROWS, 1))
    Y[n // 2 :] = RNG.integers(0, 2, (n // 2, 1))
    parts = [RNG.normal(size=(n, 1)), Y + RNG.normal(0, 0.1, (n, 1))]
    assert choose_alternative(parts, Y) == 1


def test_a_fit_with_labels_keeps_one_alternative_and_a_fit_without_keeps_all() -> None:
    parts, Y = telling()
    X = np.hstack([*parts, RNG.normal(size=(60, 5))])
    blocks = [FeatureBlock("color", 6, alternatives=3).to_json(), FeatureBlock("other", 5).to_json()]
    chosen = Preprocessor(blocks).fit(X, Y)
    assert chosen.choices_ == [1, -1]
    found = chosen.transform(X)
    assert found.shape == (60, 7)
    np.testing.assert_allclose(found[:, :2], parts[1] * chosen.factors_[0])
    assert Preprocessor(blocks).fit(X).transform(X).shape == X.shape


def test_the_choice_is_described_where_alternatives_have_names() -> None:
    parts, Y = telling()
    X = np.hstack([*parts, *parts])
    blocks = [
        FeatureBlock("color", 6, alternatives=3, alternative_names=("rgb", "hsv", "luv")).to_json(),
        FeatureBlock("other", 6, alternatives=3).to_json(),
    ]
    assert "alternative_names" not in blocks[1]
    assert Preprocessor(blocks).fit(X, Y).describe_choices() == ["color: hsv is chosen of rgb, hsv, luv"]
    assert Preprocessor(blocks).fit(X).describe_choices() == []


def test_an_annotator_chooses_by_its_training_labels() -> None:
    parts, Y = telling()
    blocks = [FeatureBlock("color", 6, scale="zscore", alternatives=3).to_json()]
    model = Annotator("1nn", blocks=blocks).fit(np.hstack(parts)[:40], Y[:40])
    assert model.scaler_.choices_ == [1]
    assert (model.predict(np.hstack(parts)[40:]) == Y[40:]).mean() > 0.9


@pytest.mark.parametrize("method", ["mlda", "1nn", "svm", "logistic_regression"])
def test_units_do_not_decide_even_if_a_method_scales_by_itself(method: str) -> None:
    parts, Y = telling()
    loud = np.hstack([parts[0], parts[1] * [1.0, 1e-3], parts[2]])
    loud[:, 2] = RNG.normal(size=60)
    quiet = loud[:, [0, 1, 4, 5, 3, 3]]  # the third alternative tells the second label, in small units
    blocks = [FeatureBlock("color", 6, scale="zscore", alternatives=3).to_json()]
    model = Annotator(method, blocks=blocks).fit(quiet[:40], Y[:40])
    assert model.scaler_.choices_ == [2]


def test_alternatives_must_have_equal_width() -> None:
    with pytest.raises(InvalidInput, match="5 columns are not 2 alternatives of equal width"):
        FeatureBlock("a", 5, alternatives=2)


def test_color_space_auto_is_every_space_side_by_side() -> None:
    rgb = RNG.integers(0, 256, (16, 24, 3), dtype=np.uint8)
    every = [ColorMoments(grid=(2, 2), color_space=space) for space in ("rgb", "ycbcr", "hsv", "luv")]
    auto = ColorMoments(grid=(2, 2), color_space="auto")
    np.testing.assert_array_equal(auto.extract(rgb), np.concatenate([one.extract(rgb) for one in every]))
    assert auto.feature_names() == [name for one in every for name in one.feature_names()]
    assert (auto.alternatives, auto.n_features, every[0].alternatives) == (4, 96, 1)
