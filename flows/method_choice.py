"""Which methods a run compares, and with which parameters."""

from collections.abc import Sequence

from embedding_core.registry import METHODS, get_method
from flows.config import RunConfig

ALL = "all"


def chosen_methods(config: RunConfig, single_label: bool | None) -> list[str]:
    """The named methods, each once; "all" stands for every one that takes such labels.

    With `single_label` None, where the labels are not known yet, "all" means those that take both kinds.
    """
    fitting = [name for name, method in METHODS.items() if method.takes(single_label)]
    named = (fitting if name == ALL else [name] for name in config.embedding.methods)
    return list(dict.fromkeys(name for names in named for name in names))


def compared_methods(config: RunConfig, chosen: Sequence[str]) -> list[str]:
    """The chosen methods and the plain baselines beside them, each once."""
    return list(dict.fromkeys([*chosen, *config.evaluation.baselines]))


def check_methods(config: RunConfig) -> None:
    """Refuse unknown methods before any work is done."""
    for name in (*config.embedding.methods, *config.evaluation.baselines, *config.embedding.params):
        if name != ALL:
            get_method(name)


def method_params(config: RunConfig, name: str) -> dict[str, object]:
    """Parameters of one method: its own table over the shared number of components."""
    method = get_method(name)
    shared: dict[str, object] = {}
    if config.embedding.n_components is not None and method.role == "projection":
        shared["n_components"] = config.embedding.n_components
    return {**shared, **config.embedding.params.get(name, {})}
