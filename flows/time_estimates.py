"""How long a method will take that grows faster than n log n, measured on a few items before it starts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embedding_core.registry import get_method
from storage.errors import ConfigError
from tasks.budget import format_duration
from tasks.dataset import Dataset, load_dataset
from tasks.stage import Workspace
from tasks.stages.embedding import Data

SAMPLE_ITEMS = 1_000
"""Labeled items of the fit that is measured."""
LONGEST_SECONDS = 3600.0
"""Longer methods need `--yes`."""


def announce(
    methods: Sequence[tuple[str, Mapping[str, Any]]],
    data: Data,
    folds: int,
    workspace: Workspace,
    confirmed: bool,
) -> None:
    """Say how long methods will take; raise if one needs more than an hour and is not confirmed.

    Parameters
    ----------
    methods : sequence of (name, parameters)
        Methods that grow faster than n log n and have to be computed.
    data : Data
    folds : int
        Folds of the cross-validation; one more fit makes the model.
    workspace : Workspace
    confirmed : bool
        Whether any time is accepted.
    """
    if not methods or not (data.manifest and data.features):
        return
    dataset = load_dataset(workspace.store, data.manifest, data.features)
    slow = []
    for name, params in methods:
        seconds = expected_seconds(name, params, dataset, data.scale, folds)
        growth = get_method(name).growth
        said = f"{name}: about {format_duration(seconds)} expected (its time grows as n^{growth})"
        workspace.reporter.say(f"  {said}")
        if seconds > LONGEST_SECONDS:
            slow.append(said)
    if slow and not confirmed:
        raise ConfigError(
            f"{'; '.join(slow)}. Add --yes to run it, leave it out, or choose a method that scales: "
            "nystrom_svm, least_squares_svm."
        )


def expected_seconds(name: str, params: Mapping[str, Any], dataset: Dataset, scale: str, folds: int) -> float:
    """Expected seconds of all fits of a method, by one fit to `SAMPLE_ITEMS` items."""
    from embedding_core.annotator import Annotator

    labeled = np.flatnonzero((dataset.Y >= 0).all(axis=1))
    rows = np.sort(np.random.default_rng(0).permutation(labeled)[:SAMPLE_ITEMS])
    method = get_method(name)
    model = Annotator(name, dict(params), scale, single_label=dataset.single_label, blocks=dataset.blocks)
    started = time.perf_counter()
    model.fit(dataset.X[rows], dataset.Y[rows])
    measured = time.perf_counter() - started
    n = dataset.X.shape[0] if method.sees_all_rows else len(labeled)
    growth = method.growth
    fits = 1 + folds * (1.0 if method.sees_all_rows else (1 - 1 / folds) ** growth)
    return float(measured * (n / len(rows)) ** growth * fits)
