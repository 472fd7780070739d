"""What a trial draws at random: labeled rows, wrong labels, images of each person."""

import numpy as np
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput


def trial_rng(seed: int, number: int) -> np.random.Generator:
    """The random numbers of one trial, the same for every method."""
    return np.random.default_rng([seed, number])


def draw_rows(n: int, fraction: float, rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw round(fraction n) rows; gives them and the rest, both in ascending order.

    The draw is plain, not stratified: "we randomly select 10 % of data points". A rare class may be missing.
    """
    count = round(fraction * n)
    if not 1 < count < n:
        raise InvalidInput(f"{fraction:g} of {n} rows are {count}; draw two or more, and leave some.")
    order = rng.permutation(n)
    return np.sort(order[:count]), np.sort(order[count:])


def draw_labeled(
    classes: NDArray[np.intp], fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """`draw_rows`, drawn again until two classes or more are among the drawn: one alone teaches nothing."""
    if len(np.unique(classes)) < 2:
        raise InvalidInput("all rows are of one class; expected two or more.")
    while True:
        labeled, rest = draw_rows(len(classes), fraction, rng)
        if len(np.unique(classes[labeled])) > 1:
            return labeled, rest


def draw_a_class(
    classes: NDArray[np.intp], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw `count` rows of each class to train; gives them and the rest, both in ascending order."""
    sizes = np.bincount(classes)
    if sizes[sizes > 0].min() <= count:
        raise InvalidInput(
            f"{count} rows of each class were asked for, and one class has {sizes[sizes > 0].min()}."
        )
    order = rng.permutation(len(classes))
    train = [order[classes[order] == k][:count] for k in np.unique(classes)]
    chosen = np.sort(np.concatenate(train))
    return chosen, np.setdiff1d(np.arange(len(classes)), chosen)


def draw_share_a_class(
    classes: NDArray[np.intp], share: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw round(share m) rows of each class of m rows, one at least; gives them and the rest, ascending."""
    if not 0 < share < 1:
        raise InvalidInput(f"a share of {share:g} of each class was asked for; expected one between 0 and 1.")
    order = rng.permutation(len(classes))
    own = [order[classes[order] == k] for k in np.unique(classes)]
    chosen = np.sort(np.concatenate([rows[: max(1, round(share * len(rows)))] for rows in own]))
    return chosen, np.setdiff1d(np.arange(len(classes)), chosen)


def corrupt(
    Y: NDArray[np.int8], rows: NDArray[np.intp], count: int, rng: np.random.Generator
) -> NDArray[np.int8]:
    """Copy of Y (n, K), one class a row, in which `count` of `rows` carry a class that is not theirs.

    Each wrong class is drawn from all others with equal chance.
    """
    if count > len(rows):
        raise InvalidInput(f"{count} of {len(rows)} rows cannot be given wrong labels.")
    wrong = Y.copy()
    for row in rng.permutation(rows)[:count]:
        own = int(Y[row].argmax())
        others = np.delete(np.arange(Y.shape[1]), own)
        wrong[row] = 0
        wrong[row, rng.choice(others)] = 1
    return wrong
