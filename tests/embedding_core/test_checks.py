"""Parameter checks: legal values, illegal values and the error messages."""

from fractions import Fraction

import numpy as np
import pytest

from embedding_core.checks import (
    check_choice,
    check_count,
    check_not_negative,
    check_positive,
    check_sample_weight,
    check_share,
    is_count,
    is_number,
)
from embedding_core.errors import InvalidInput

NO_NUMBERS = [True, False, np.True_, None, "1", "cv", [1], np.array([1.0]), 1 + 0j, np.nan, np.inf, -np.inf]
"""Values that the checks do not accept as numbers, although Python may convert some of them."""

NUMBER_CHECKS = [check_count, check_positive, check_not_negative, check_share]


def refusal(check, *arguments, **options) -> str:
    """Return the error message of a check."""
    with pytest.raises(InvalidInput) as caught:
        check(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    "value",
    [0, -3, 2.5, 10**300, np.int8(3), np.uint64(3), np.float32(0.5), np.float64(-1.0), Fraction(1, 3)],
)
def test_numbers_of_any_type_are_numbers(value):
    assert is_number(value) is True


@pytest.mark.parametrize("value", [*NO_NUMBERS, np.float32(np.nan), np.float64(np.inf)], ids=repr)
def test_booleans_strings_lists_and_non_finite_values_are_not_numbers(value):
    assert is_number(value) is False


@pytest.mark.parametrize(
    ("value", "at_least", "expected"),
    [
        (1, 1, True),
        (0, 1, False),
        (0, 0, True),
        (-1, 0, False),
        (5, 6, False),
        (6, 6, True),
        (np.int64(2), 1, True),
        (np.uint8(2), 3, False),
        (10**400, 1, True),
        (2.0, 1, False),
        (np.float64(2.0), 1, False),
        (Fraction(2, 1), 1, False),
    ],
)
def test_counts_are_integers_with_a_minimum(value, at_least, expected):
    assert is_count(value, at_least) is expected


def test_the_default_minimum_of_a_count_is_one():
    assert is_count(1)
    assert not is_count(0)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_values_that_are_not_numbers_are_not_counts(value):
    assert is_count(value) is False


@pytest.mark.parametrize("value", ["knn", np.str_("knn"), "all"])
def test_a_legal_choice_passes(value):
    check_choice("graph", value, ("knn", "all"))


@pytest.mark.parametrize("value", ["KNN", "", None, 1, True, ["knn"], np.array(["knn", "all"])], ids=repr)
def test_an_illegal_choice_raises_an_error_that_lists_the_legal_ones(value):
    assert refusal(check_choice, "graph", value, ("knn", "all")) == (
        f"graph={value!r} is not legal; choose one of knn, all."
    )


def test_none_is_a_legal_choice_if_listed():
    check_choice("graph", None, ("knn", None))
    check_choice("graph", "knn", ("knn", None))
    assert refusal(check_choice, "graph", "None", ("knn", None)) == (
        "graph='None' is not legal; choose one of knn, None."
    )


@pytest.mark.parametrize("value", [1, 10**9, np.int32(4), np.uint8(1)])
def test_a_count_passes(value):
    check_count("n_neighbors", value)


@pytest.mark.parametrize("value", [0, -1, 1.0, np.float64(3.0), np.int64(0), *NO_NUMBERS], ids=repr)
def test_a_value_that_is_not_a_count_is_refused(value):
    assert refusal(check_count, "n_neighbors", value) == (
        f"n_neighbors={value!r} is not legal; give an integer >= 1."
    )


@pytest.mark.parametrize("value", [1, 1e-300, np.float32(0.1), np.int8(7), Fraction(1, 2)])
def test_a_positive_number_passes(value):
    check_positive("C", value)


@pytest.mark.parametrize("value", [0, 0.0, -0.0, -1e-300, np.float64(-2), *NO_NUMBERS], ids=repr)
def test_a_value_that_is_not_positive_is_refused(value):
    assert refusal(check_positive, "C", value) == f"C={value!r} is not legal; give a positive number."


@pytest.mark.parametrize("value", [0, 0.0, -0.0, 3, np.float32(0.0), np.uint8(0)])
def test_a_non_negative_number_passes(value):
    check_not_negative("gamma", value)


@pytest.mark.parametrize("value", [-1, -1e-300, np.float64(-0.5), *NO_NUMBERS], ids=repr)
def test_a_negative_number_is_refused(value):
    assert refusal(check_not_negative, "gamma", value) == (
        f"gamma={value!r} is not legal; give a number >= 0."
    )


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 0.5, np.float32(0.25), np.int64(1)])
def test_a_fraction_passes_including_both_ends(value):
    check_share("energy", value)


@pytest.mark.parametrize("value", [-1e-12, 1 + 1e-12, 2, np.float64(-1), *NO_NUMBERS], ids=repr)
def test_a_value_outside_the_range_is_refused(value):
    assert refusal(check_share, "energy", value) == (
        f"energy={value!r} is not legal; give a number from 0 to 1."
    )


def test_other_ends_of_the_range():
    for value in (0.25, 1.5, np.float64(0.7)):
        check_share("width", value, low=0.25, high=1.5)
    for value in (0.2, 1.6):
        assert refusal(check_share, "width", value, low=0.25, high=1.5) == (
            f"width={value} is not legal; give a number from 0.25 to 1.5."
        )
    assert refusal(check_share, "width", 0, low=1e-12).endswith("give a number from 1e-12 to 1.")


@pytest.mark.parametrize("check", [check_count, check_positive, check_not_negative])
def test_listed_words_pass(check):
    check("sigma", "auto", ("auto", "cv"))
    check("sigma", np.str_("cv"), ("auto", "cv"))
    check("sigma", None, ("auto", None))
    check("sigma", 3, ("auto", None))


@pytest.mark.parametrize(
    ("words", "value", "end"),
    [
        (("auto",), "cv", ' or "auto".'),
        (("auto",), None, ' or "auto".'),
        (("auto", "cv"), "CV", ' or "auto" or "cv".'),
        ((None,), "None", " or None."),
        (("auto", None), "", ' or "auto" or None.'),
        ((None,), True, " or None."),
    ],
)
@pytest.mark.parametrize(
    ("check", "asked"),
    [
        (check_count, "give an integer >= 1"),
        (check_positive, "give a positive number"),
        (check_not_negative, "give a number >= 0"),
    ],
)
def test_other_words_raise_an_error_that_lists_the_legal_ones(check, asked, words, value, end):
    assert refusal(check, "sigma", value, words) == f"sigma={value!r} is not legal; {asked}{end}"


@pytest.mark.parametrize("check", NUMBER_CHECKS)
def test_invalid_input_is_a_value_error(check):
    with pytest.raises(ValueError, match="k=-1 is not legal"):
        check("k", -1)


@pytest.mark.parametrize(
    "weight", [[0, 1, 2], (0.5, 0.5, 0.5), np.arange(3, dtype=np.int8), [True, False, 1]]
)
def test_weights_are_returned_as_float64(weight):
    found = check_sample_weight(weight, 3)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.asarray(weight, dtype=float))


@pytest.mark.parametrize("weight", [[1.0, 2.0], 1.0, np.ones((3, 1)), [], None], ids=repr)
def test_weights_of_another_shape_are_refused(weight):
    shape = np.asarray(weight, dtype=float).shape
    assert refusal(check_sample_weight, weight, 3) == (
        f"sample_weight has shape {shape}; expected (3,), one weight per item."
    )


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, None])
def test_negative_and_non_finite_weights_are_refused(bad):
    assert refusal(check_sample_weight, [1.0, bad, 1.0], 3) == (
        "sample_weight contains negative or non-finite values; weights must be finite and >= 0."
    )


@pytest.mark.parametrize("weight", [["a", "b", "c"], [[1], [1, 2], 3], [{}, {}, {}]], ids=repr)
def test_weights_that_are_not_numeric_are_refused(weight):
    message = refusal(check_sample_weight, weight, 3)
    assert message.startswith("sample_weight is not numeric (")
    assert message.endswith("); give one weight per item.")
