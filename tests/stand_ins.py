"""Small methods of every kind the registry knows, which remember what their fit was shown."""

from types import MappingProxyType

import numpy as np
from sklearn.base import BaseEstimator

from embedding_core.registry import METHODS, Method


class Remembering(BaseEstimator):
    """Keeps what fit saw."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, Y, **graph):
        self.X_seen_, self.Y_seen_, self.graph_seen_ = X, np.array(Y), dict(graph)
        self.embedding_ = self.factor * X
        return self


class Projection(Remembering):
    """Uses labeled rows only, and accepts new rows."""

    def transform(self, X):
        return self.factor * X


class GraphProjection(Projection):
    """All rows and the graph; coordinates of seen rows differ from their out-of-sample coordinates."""

    def transform(self, X):
        return self.factor * X + 1e6


class SeenProjection(Remembering):
    """Coordinates of the rows of the fit, and of no others."""


class SeenClassifier(Remembering):
    """Spreads labels over the given graph, only for the rows of the fit."""

    def fit(self, X, Y, affinity=None):
        super().fit(X, Y, affinity=affinity)
        weight = affinity * (Y[:, 0] >= 0)
        self.transduction_scores_ = weight @ np.maximum(Y, 0) / weight.sum(axis=1, keepdims=True)
        return self


def _entry(name, attribute, **traits):
    common = {"role": "projection", "inductive": True, "uses_graph": False, "multi_label": True} | traits
    return Method(
        name=name,
        title=name,
        paper="",
        equations="",
        module=__name__,
        attribute=attribute,
        single_label=True,
        cost="n p",
        **common,
    )


STAND_INS = (
    _entry("plain", "Projection"),
    _entry("graph", "GraphProjection", uses_graph=True),
    _entry("one_class", "Projection", multi_label=False),
    _entry("seen_projection", "SeenProjection", inductive=False),
    _entry("seen_classifier", "SeenClassifier", role="classifier", inductive=False, uses_graph=True),
)


def with_stand_ins():
    """The registry and the stand-ins."""
    return MappingProxyType({**METHODS, **{method.name: method for method in STAND_INS}})
