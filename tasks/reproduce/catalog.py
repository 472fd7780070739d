"""The registry of experiments."""

import importlib
from functools import cache

from embedding_core.registry.method import did_you_mean
from storage.errors import ConfigError
from tasks.reproduce.experiment import Experiment

MODULES = (
    "dle",
    "mlda",
    "projections",
    "eigenmaps",
    "margin",
    "kernel_dle",
    "anchors",
    "features",
    "fixed_protocol",
    "linked",
)
"""Modules of this package that declare experiments; a new one is added here."""


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by name, in the order of the papers."""
    found = [
        one for name in MODULES for one in importlib.import_module(f"tasks.reproduce.{name}").EXPERIMENTS
    ]
    return {one.name: one for one in found}


def get_experiment(name: str) -> Experiment:
    """Find an experiment; an unknown name raises ConfigError with similar names."""
    known = experiments()
    if name not in known:
        near = did_you_mean(name, list(known))
        raise ConfigError(
            f"experiment {name!r} is unknown.{near} Known experiments: {', '.join(known)}, or all."
        )
    return known[name]
