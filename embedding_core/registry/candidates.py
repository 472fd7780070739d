"""The candidates that `labelscape auto` compares, as data: nothing heavy is imported here.

Cheap plain baselines come first, so that they are always scored: a later candidate is stopped early if it is
far behind, and an exhausted budget leaves out the expensive ones. The order is measured on several labels per
item, where Kernel DLE takes at most a fifth of the time of 500 trees and less than a tuned RBF-SVC; with one
class per item it took 1.5 times as long as either. A mean of candidates costs nothing beyond its members. The
form for few labels fits twelve times and is meant for small sets. For many labeled items, candidates whose
time or memory grows too fast are offered in forms that scale (`MANY_ITEMS_CANDIDATES`).

`Candidate.kinds` says for which kinds of items a candidate is worth its time; `data_kind` finds the kind.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from embedding_core.errors import InvalidInput
from embedding_core.registry import METHODS, get_method, ignores_graph
from embedding_core.registry.method import did_you_mean

OCCURRENCES, EMBEDDING, TABLE = "occurrences", "embedding", "table"
KINDS = (OCCURRENCES, EMBEDDING, TABLE)
"""Kinds of items: non-negative and mostly 0 (words), features of a pretrained network, any other table."""


def data_kind(X: Any, pretrained: bool = False) -> str:
    """Return the kind of items X (n, p); `pretrained` says that a network computed them."""
    from embedding_core.scaling import are_occurrences

    if are_occurrences(X):
        return OCCURRENCES
    return EMBEDDING if pretrained else TABLE


@dataclass(frozen=True)
class Candidate:
    """One classifier with its parameters.

    Attributes
    ----------
    name : str
        Name used to select, store and track the candidate.
    method : str
        An inductive classifier of the registry.
    params : mapping
        Parameters of its estimator that differ from the registry's defaults.
    title : str
        Title for readers; the title of the method if empty.
    members : tuple of str
        Candidates whose scores are averaged; the candidate is scored from theirs without a fit.
    most_items : int, optional
        Upper limit on the average number of labeled items per label; above it the cost does not pay off.
    kinds : tuple of str
        Kinds of items for which the candidate is offered, of `KINDS`.
    links : bool
        Whether it is offered only for items with given links, which it uses.
    baseline : bool
        Whether it counts as a plain baseline although its method is not one everywhere.
    """

    name: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    title: str = ""
    members: tuple[str, ...] = ()
    most_items: int | None = None
    kinds: tuple[str, ...] = KINDS
    links: bool = False
    baseline: bool = False

    @property
    def label(self) -> str:
        """Title shown to readers, or the name if the method is unknown to this version."""
        return self.title or (METHODS[self.method].title if self.method in METHODS else self.name)

    @property
    def plain(self) -> bool:
        """Whether the candidate is a plain baseline."""
        return self.baseline or get_method(self.method).baseline

    @property
    def ignores_links(self) -> bool:
        """Whether given links do not change its scores, also not as the graph of its method."""
        return not self.links and ignores_graph(self.method, self.params)

    def recipe(self) -> dict[str, Any]:
        """Return the settings that determine the scores, as plain data."""
        return {"method": self.method, "params": json.loads(json.dumps(dict(self.params)))}


# Votes, and mean label scores of the form for few labels; others are close to probabilities as they are.
_CALIBRATED = {"calibrate": True}
CANDIDATES: tuple[Candidate, ...] = (
    Candidate("knn_zscore", "knn_zscore", _CALIBRATED, kinds=(TABLE,)),
    # also for tables: where ratios of features matter, it can be far ahead
    Candidate("cosine_knn", "cosine_knn", _CALIBRATED),
    Candidate("logistic_regression", "logistic_regression"),
    Candidate("linear_svm", "linear_svm"),
    Candidate("mlda_knn", "mlda_knn", _CALIBRATED),
    Candidate("kernel_dle_linear", "kernel_dle", {"kernel": "linear"}, "Kernel DLE, linear"),
    Candidate("kernel_dle", "kernel_dle", {"few_labels": False}),
    Candidate(
        "kernel_dle_cosine",
        "kernel_dle",
        {"few_labels": False, "input_scale": "cosine"},
        "Kernel DLE by cosine",
        kinds=(OCCURRENCES,),
    ),
    Candidate("projections_knn", "projections_knn", _CALIBRATED),
    Candidate("rbf_svc", "rbf_svc"),
    # a third of the features at every split takes too long for thousands of words
    Candidate("extra_trees", "extra_trees", _CALIBRATED, kinds=(EMBEDDING, TABLE)),
    Candidate("random_forest", "random_forest", _CALIBRATED),
    Candidate(
        "kernel_dle_forest",
        "kernel_dle_forest",
        {"params": {"kernel_dle": {"few_labels": False}, "random_forest": _CALIBRATED}},
        members=("kernel_dle", "random_forest"),
    ),
    Candidate(
        "kernel_dle_few",
        "kernel_dle",
        {"few_labels": True, **_CALIBRATED},
        "Kernel DLE for few labels",
        most_items=40,
    ),
)

_NAMED = {one.name: one for one in CANDIDATES}
_LANDMARKS = {"few_labels": False, "landmarks": 500}
_SAMPLED_TREES = {**_CALIBRATED, "n_estimators": 100, "rows_per_tree": 10_000}
MANY_ITEMS_CANDIDATES: tuple[Candidate, ...] = (
    _NAMED["logistic_regression"],
    _NAMED["linear_svm"],
    # z-scores of words are of little use
    Candidate("nystrom_svm", "nystrom_svm", kinds=(EMBEDDING, TABLE)),
    Candidate("kernel_dle_landmarks", "kernel_dle", _LANDMARKS, "Kernel DLE, 500 landmarks"),
    Candidate(
        "kernel_dle_cosine_landmarks",
        "kernel_dle",
        {**_LANDMARKS, "input_scale": "cosine"},
        "Kernel DLE by cosine, 500 landmarks",
        kinds=(OCCURRENCES,),
    ),
    _NAMED["mlda_knn"],
    Candidate(
        "random_forest_sampled",
        "random_forest",
        _SAMPLED_TREES,
        "Random forest, 100 trees of 10,000 rows",
    ),
    Candidate(
        "kernel_dle_forest_landmarks",
        "kernel_dle_forest",
        {"params": {"kernel_dle": _LANDMARKS, "random_forest": _SAMPLED_TREES}},
        "Mean of Kernel DLE by landmarks and random forest",
        members=("kernel_dle_landmarks", "random_forest_sampled"),
    ),
    Candidate(
        "extra_trees_sampled",
        "extra_trees",
        _SAMPLED_TREES,
        "Extra trees, 100 trees of 10,000 rows",
        kinds=(EMBEDDING, TABLE),
    ),
    _NAMED["knn_zscore"],
    _NAMED["cosine_knn"],
)
"""Candidates for many labeled items, in order of their measured time at 100,000 rows.

An exact RBF-SVC takes n² time: the Nyström machine stands in for it. Kernel DLE has 500 landmarks instead of
2,000: a fourth of the memory. Trees are grown on samples.
"""

_SMOOTHED = Candidate("smoothed_logistic_regression", "smoothed_logistic_regression", links=True)
_PROPAGATED = (
    Candidate("harmonic_functions", "harmonic_functions", links=True, baseline=True),
    Candidate("local_global_consistency", "local_global_consistency", links=True, baseline=True),
)
LINKED_CANDIDATES: tuple[Candidate, ...] = (
    *_PROPAGATED,
    Candidate(
        "kernel_dle_links",
        "kernel_dle",
        {"few_labels": False, "links": "loo"},
        "Kernel DLE with links",
        links=True,
    ),
    _SMOOTHED,
)
"""Candidates that use given links, offered beside the others if a collection has links."""

MANY_ITEMS_LINKED_CANDIDATES: tuple[Candidate, ...] = (
    *_PROPAGATED,
    Candidate(
        "kernel_dle_links_landmarks",
        "kernel_dle",
        {**_LANDMARKS, "links": "loo"},
        "Kernel DLE with links, 500 landmarks",
        links=True,
    ),
    _SMOOTHED,
)
"""The same for many labeled items."""


def pick_candidates(
    single_label: bool | None,
    only: tuple[str, ...] = (),
    kind: str | None = None,
    links: bool = False,
    many: bool = False,
) -> list[Candidate]:
    """Return the candidates for these labels and items, or the named ones among them or the classifiers.

    Parameters
    ----------
    single_label : bool or None
        Whether items have exactly one label; None if a candidate must accept both.
    only : tuple of str
        Names of candidates or classifiers; named ones are offered for every kind of items.
    kind : str, optional
        Kind of the items, see `data_kind`; candidates for all kinds if it is not given.
    links : bool
        Whether links between the items are given.
    many : bool
        Whether there are so many labeled items that candidates must scale.

    Raises
    ------
    InvalidInput
        If a name is neither a candidate nor an inductive classifier of the registry.
    """
    everyone = (*CANDIDATES, *MANY_ITEMS_CANDIDATES, *LINKED_CANDIDATES, *MANY_ITEMS_LINKED_CANDIDATES)
    known = {one.name: one for one in everyone if one.method in METHODS}
    named = [known.get(name) or _from_registry(name, list(known)) for name in dict.fromkeys(only)]
    offered = [one for one in _in_order(links, many) if kind is None or kind in one.kinds]
    return [one for one in named or offered if get_method(one.method).takes(single_label)]


def _in_order(links: bool, many: bool) -> list[Candidate]:
    """Return the candidates: nearest neighbors, then what uses links, then all others.

    Propagating labels along links takes less than a second where linear models of thousands of words take
    minutes, and it is often better.
    """
    offered = MANY_ITEMS_CANDIDATES if many else CANDIDATES
    if not links:
        return list(offered)
    linked = MANY_ITEMS_LINKED_CANDIDATES if many else LINKED_CANDIDATES
    cheap = list(takewhile(lambda one: one.method in ("cosine_knn", "knn_zscore"), offered))
    return [*cheap, *linked, *offered[len(cheap) :]]


def _from_registry(name: str, menu: list[str]) -> Candidate:
    method = METHODS.get(name)
    if method is None or method.role != "classifier" or not method.inductive:
        why = "is not known" if method is None else "cannot annotate new items by itself"
        raise InvalidInput(
            f"candidate {name!r} {why}.{did_you_mean(name, menu)} The candidates are {', '.join(menu)}; "
            "any classifier of `labelscape methods` that takes new items may be named too."
        )
    return Candidate(name, name)
