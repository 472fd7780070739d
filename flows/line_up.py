"""The candidates of `auto` for a collection and its settings."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from embedding_core.registry import inner_methods
from embedding_core.registry.candidates import Candidate, pick_candidates
from flows.config import RunConfig
from storage.errors import ConfigError
from tasks.selection.candidates import uses_graph
from tasks.selection.choice import Champion
from tasks.stages.embedding import Data

TUNE_FOR = "tune_for"
"""The parameter with which a method tunes its decisions for a metric."""


def has_many_items(config: RunConfig, n_labeled: int) -> bool:
    """Whether there are more labeled items than an exact kernel machine can take, as in `run`."""
    return n_labeled > config.evaluation.exact_items


def any_uses_graph(config: RunConfig, single_label: bool | None, n_labeled: int, data: Data) -> bool:
    """Whether the graph of the items changes the scores of a candidate of any kind of items."""
    many = has_many_items(config, n_labeled)
    offered = pick_candidates(single_label, config.auto.candidates, None, data.edges_given, many)
    return any(uses_graph(_configured(one, config), data) for one in offered)


def line_up(
    config: RunConfig,
    single_label: bool | None,
    champion: Champion | None,
    kind: str | None = None,
    links: bool = False,
    many: bool = False,
) -> list[Candidate]:
    """The candidates with the configured parameters, preceded by the champion if it is not among them."""
    offered = pick_candidates(single_label, config.auto.candidates, kind, links, many)
    found = [_configured(one, config) for one in offered]
    if not found:
        raise ConfigError("auto.candidates: none of them takes these labels; see `labelscape methods`.")
    if champion is None or not champion.known:
        return found
    known = [one.recipe() for one in found]
    return found if champion.candidate.recipe() in known else [_renamed(champion.candidate, found), *found]


def _renamed(holder: Candidate, others: Sequence[Candidate]) -> Candidate:
    """The champion under a unique name."""
    taken = holder.name in {one.name for one in others}
    title = f"{holder.label}, present champion"
    return replace(holder, name=f"{holder.name}_champion", title=title, members=()) if taken else holder


def _configured(candidate: Candidate, config: RunConfig) -> Candidate:
    """A candidate with the configured parameters of its method; its own parameters take precedence.

    The tuning parameter of a method is left out: decisions of all candidates are tuned in the same way, and
    a mean of candidates needs untuned scores.
    """
    given = {
        method: {name: value for name, value in params.items() if name != TUNE_FOR}
        for method, params in config.embedding.params.items()
    }
    params: dict[str, Any] = {**given.get(candidate.method, {}), **candidate.params}
    if candidate.members:
        own, names = params.get("params", {}), inner_methods(candidate.method, params)
        params["params"] = {name: {**given.get(name, {}), **own.get(name, {})} for name in names}
    return replace(candidate, params=params)
