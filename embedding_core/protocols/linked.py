"""A collection with links: a few labeled rows per class, links of all rows, accuracy on drawn test rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from embedding_core.errors import InvalidInput
from embedding_core.protocols.trial import Arm, Cell, TrialData, draw_per_class, prepare, seen_rows, trial_rng
from embedding_core.registry import get_method

SHUFFLE_LINKS = "shuffle_links"
"""Parameter of an arm: the links are those of other items, drawn at random, so that they mean nothing."""
PUBLIC = "public split"

Rows = NDArray[np.intp]


def trial(
    data: TrialData, arm: Arm, settings: Mapping[str, Any], preprocessing: str, number: int
) -> list[Cell]:
    """Measure accuracy on test rows; the first trial also measures the public split if the set has one.

    Methods that use a graph get the links as their graph. They see the features and links of all rows, but
    only the labels of the training rows.

    Settings
    --------
    labeled : int
        Number of labeled rows per class.
    test : int
        Number of test rows, drawn from the others.
    seed : int
    """
    if data.links is None:
        raise InvalidInput("the data set has no links; this protocol needs them.")
    rng = trial_rng(settings["seed"], number)
    train, rest = draw_per_class(data.classes, settings["labeled"], rng)
    test = np.sort(rng.permutation(rest)[: settings["test"]])
    cells = [
        Cell(f"N={settings['labeled']}", "accuracy", _accuracy(data, arm, preprocessing, train, test, rng))
    ]
    if number == 0 and data.train is not None and data.test is not None:
        train, test = np.flatnonzero(data.train), np.flatnonzero(data.test)
        cells.append(Cell(PUBLIC, "accuracy", _accuracy(data, arm, preprocessing, train, test, rng)))
    return cells


def _accuracy(
    data: TrialData, arm: Arm, preprocessing: str, train: Rows, test: Rows, rng: np.random.Generator
) -> float:
    from embedding_core.evaluation import predict_fold

    params = {name: value for name, value in arm.params.items() if name != SHUFFLE_LINKS}
    links = shuffle_links(data.links, rng) if arm.params.get(SHUFFLE_LINKS) else data.links
    X = prepare(data.X, preprocessing, seen_rows(arm, data.X.shape[0], train))
    affinity = links if get_method(arm.method).uses_graph else None
    found = predict_fold(
        arm.method, params, X, data.Y, train, test, affinity, n_neighbors=(1,), single_label=data.single_label
    )
    return float((found[0].labels == data.Y[test]).all(axis=1).mean())


def shuffle_links(links: Any, rng: np.random.Generator) -> Any:
    """Return the same graph with its nodes exchanged at random."""
    order = rng.permutation(links.shape[0])
    return sp.csr_array(links[order][:, order])
