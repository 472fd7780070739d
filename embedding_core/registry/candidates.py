"""The candidates among which `labelscape auto` chooses, as data: nothing heavy is imported here.

Cheap ones come first: a later one is stopped early where it lies far behind, and a budget that ends leaves
out the dear ones. The order is that of several labels an item, where Kernel DLE costs a fifth of 500 trees or
less, and less than a tuned RBF-SVC; with one class an item it was seen to cost half as much again as either.
A mean costs nothing beyond its members; the form for few labels fits twelve times and is for small sets.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from embedding_core.errors import InvalidInput
from embedding_core.registry import METHODS, get_method
from embedding_core.registry.method import did_you_mean


@dataclass(frozen=True)
class Candidate:
    """One classifier with its parameters.

    Attributes
    ----------
    name : str
        By which it is chosen, kept and tracked.
    method : str
        A classifier of the registry that takes new items.
    params : mapping
        Of its estimator, beyond the registry's.
    title : str
        For readers; default: the method's.
    members : tuple of str
        Candidates whose scores it is the mean of; it is scored from theirs, without a fit.
    most_items : int, optional
        It is for labels that fewer labeled items carry on average; with more it costs much for nothing.
    """

    name: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    title: str = ""
    members: tuple[str, ...] = ()
    most_items: int | None = None

    @property
    def label(self) -> str:
        """What a reader sees; the name, where the method is not known to this version."""
        return self.title or (METHODS[self.method].title if self.method in METHODS else self.name)

    @property
    def plain(self) -> bool:
        """Whether it is a plain baseline."""
        return get_method(self.method).baseline

    def recipe(self) -> dict[str, Any]:
        """What decides its scores, as plain data."""
        return {"method": self.method, "params": json.loads(json.dumps(dict(self.params)))}


CANDIDATES: tuple[Candidate, ...] = (
    Candidate("mlda_knn", "mlda_knn"),
    Candidate("kernel_dle_linear", "kernel_dle", {"kernel": "linear"}, "Kernel DLE, linear"),
    Candidate("kernel_dle", "kernel_dle", {"few_labels": False}),
    Candidate("projections_knn", "projections_knn"),
    Candidate("rbf_svc", "rbf_svc"),
    Candidate("random_forest", "random_forest"),
    Candidate(
        "kernel_dle_forest",
        "kernel_dle_forest",
        {"params": {"kernel_dle": {"few_labels": False}}},
        members=("kernel_dle", "random_forest"),
    ),
    Candidate(
        "kernel_dle_few", "kernel_dle", {"few_labels": True}, "Kernel DLE for few labels", most_items=40
    ),
)


def pick_candidates(single_label: bool | None, only: tuple[str, ...] = ()) -> list[Candidate]:
    """The candidates that take such labels, or the named ones: of the menu, or any classifier.

    Raises
    ------
    InvalidInput
        For a name that is neither.
    """
    known = {one.name: one for one in CANDIDATES if one.method in METHODS}
    named = [known.get(name) or _from_registry(name, list(known)) for name in dict.fromkeys(only)]
    return [one for one in named or known.values() if get_method(one.method).takes(single_label)]


def _from_registry(name: str, menu: list[str]) -> Candidate:
    method = METHODS.get(name)
    if method is None or method.role != "classifier" or not method.inductive:
        why = "is not known" if method is None else "cannot annotate new items by itself"
        raise InvalidInput(
            f"candidate {name!r} {why}.{did_you_mean(name, menu)} The menu is {', '.join(menu)}; "
            "any classifier of `labelscape methods` that takes new items may be named too."
        )
    return Candidate(name, name)
