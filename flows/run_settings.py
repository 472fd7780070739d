"""What a configuration means for a run: methods, parameters, checks before the start, settings to record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedding_core.registry import METHODS, get_method
from flows.config import RunConfig, find_home
from flows.stores import open_store
from storage.errors import ConfigError, SourceError, TrackingError
from storage.paths import check_address
from storage.sources import open_source
from storage.tracking.models import flatten_params
from tasks.stages.ingest import source_options
from tasks.stages.tracking import make_tracker

ALL = "all"
# Baselines whose model is a copy of the features.
_COPIES = ("1nn", "1nn_zscore")
# Baselines that stand in for others where these take too long.
_SCALING = {"svm": ("nystrom_svm", "least_squares_svm")}


def chosen_methods(config: RunConfig, single_label: bool | None) -> list[str]:
    """The configured methods without duplicates; "all" means every method that accepts such labels.

    With `single_label` None, when the labels are not known yet, "all" means methods that accept both kinds.
    """
    fitting = [name for name, method in METHODS.items() if method.takes(single_label)]
    named = (fitting if name == ALL else [name] for name in config.embedding.methods)
    return list(dict.fromkeys(name for names in named for name in names))


def compared_methods(config: RunConfig, chosen: Sequence[str], n_labeled: int = 0) -> list[str]:
    """The chosen methods followed by the baselines, without duplicates.

    An exact RBF SVM takes n² time. Of more than `evaluation.exact_items` labeled items the baseline is fitted
    by landmarks, with a linear one beside it. A method that is chosen by name is not replaced.
    """
    many = n_labeled > config.evaluation.exact_items
    names = (_SCALING.get(name, (name,)) if many else (name,) for name in config.evaluation.baselines)
    return list(dict.fromkeys([*chosen, *(one for several in names for one in several)]))


def keeps_model(config: RunConfig, name: str, n_labeled: int) -> bool:
    """Whether the model of a classifier is stored: not the copy of many rows that a search needs."""
    return not (name in _COPIES and n_labeled > config.evaluation.exact_items)


def method_params(config: RunConfig, name: str) -> dict[str, object]:
    """Parameters of one method: its own table over the shared number of components."""
    method = get_method(name)
    shared: dict[str, object] = {}
    if config.embedding.n_components is not None and method.role == "projection":
        shared["n_components"] = config.embedding.n_components
    return {**shared, **config.embedding.params.get(name, {})}


def check_config(config: RunConfig) -> None:
    """Reject settings that would fail later in the run; imports the methods that have parameters."""
    check_methods(config)
    check_places(config)
    for name, params in config.embedding.params.items():
        get_method(name).build(**params)
    open_store(config).check_access()


def check_methods(config: RunConfig) -> None:
    """Reject unknown methods before any work is done."""
    for name in (*config.embedding.methods, *config.evaluation.baselines, *config.embedding.params):
        if name != ALL:
            get_method(name)


def check_places(config: RunConfig) -> None:
    """Reject a tracking address that cannot record runs, and a home folder that is also the source."""
    check_address(config.tracking.uri or "", "tracking.uri")
    check_tracker(config)
    path = Path(config.source.path)
    if path.is_dir() and path.resolve() == find_home(config):
        raise ConfigError(
            f"{path} is both the source and the home folder, so reports would be read as items; "
            "choose another home with --home."
        )


def check_tracker(config: RunConfig) -> None:
    """Reject a tracking address that cannot record runs, or whose driver is missing."""
    if config.tracking.enabled:
        try:
            make_tracker(config.tracking.uri, find_home(config))
        except TrackingError as error:
            raise ConfigError(f"tracking.uri: {error}") from None


def check_source(config: RunConfig) -> None:
    """Refuse a source that no reader opens, before a server is started for it. No data are read."""
    try:
        open_source(source_options(config.source), find_home(config) / "cache")
    except SourceError as error:
        raise ConfigError(str(error)) from None


def resolved_config(config: RunConfig) -> dict[str, object]:
    """The configuration without settings that change no result.

    Settings that only `auto` reads are left out as well.
    """
    left_out: dict[str, Any] = dict.fromkeys(
        ("home", "executor", "store", "auto", "schedule", "notify"), True
    )
    return config.model_dump(mode="json", exclude={**left_out, "source": {"paranoid": True}})


def changed_values(config: RunConfig) -> dict[str, str]:
    """The settings that differ from the defaults and may change results, by dotted name."""
    default = flatten_params(resolved_config(RunConfig()))
    given = flatten_params(resolved_config(config))
    ignored = ("name", "source.path", "tracking.", "report.", "embedding.methods")
    return {
        key: value
        for key, value in given.items()
        if default.get(key) != value and not key.startswith(ignored)
    }
